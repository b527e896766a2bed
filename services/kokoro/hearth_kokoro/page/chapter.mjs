// A long text as a file: the server makes it, and the page only shows the progress.

import { fileName, save } from "./download.mjs";
import { ServerError } from "./server.mjs";

const KEPT_JOB = "hearth-kokoro-job";
const LOOK_MS = 2000;

/** The card of the file; `by(id)` returns an element, `explain(error)` shows an error. */
export class ChapterFile {
  #by;
  #server;
  #explain;
  #id = localStorage.getItem(KEPT_JOB);
  #timer = null;

  constructor(by, server, explain) {
    this.#by = by;
    this.#server = server;
    this.#explain = explain;
    by("chapter-stop").addEventListener("click", () => this.#remove());
    by("chapter-save").addEventListener("click", (event) => this.#save(event));
    this.resume();
  }

  /** Show the file of the last visit, if there is one. */
  resume() {
    if (this.#id) this.#look();
  }

  /** Let the server make a file of this request, instead of the last one. */
  async make(request, format) {
    try {
      if (this.#id) await this.#forget();
      const { early, ...settings } = request;
      const job = await this.#server.job("", "POST", { ...settings, response_format: format });
      this.#id = job.id;
      localStorage.setItem(KEPT_JOB, job.id);
      this.#show(job);
    } catch (error) {
      this.#explain(error);
    }
  }

  async #look() {
    clearTimeout(this.#timer);
    const id = this.#id;
    try {
      const job = await this.#server.job(`/${id}`);
      if (id === this.#id) this.#show(job);
    } catch (error) {
      if (id !== this.#id) return;
      // The server removes old files; anything else may pass.
      if (error.status === 404) this.#clear();
      else {
        this.#explain(error);
        if (!error.needs) this.#later();
      }
    }
  }

  #show(job) {
    this.#by("chapter").hidden = false;
    const done = job.status === "done";
    this.#by("chapter-status").textContent = describe(job);
    this.#by("chapter-progress").hidden = done || job.status === "failed";
    this.#by("chapter-progress").value = job.characters_done / job.characters;
    this.#by("chapter-save").hidden = !done;
    this.#by("chapter-save").download = fileName(job.voice, job.response_format);
    this.#by("chapter-save").href = `/v1/audio/jobs/${job.id}/audio`;
    this.#by("chapter-stop").textContent = done || job.status === "failed" ? "Remove" : "Stop";
    if (!done && job.status !== "failed") this.#later();
  }

  #later() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), LOOK_MS);
  }

  // A link sends no key: then the page fetches the file itself.
  async #save(event) {
    if (!this.#server.sendsKey) return;
    event.preventDefault();
    try {
      save(await this.#server.jobFile(this.#id), this.#by("chapter-save").download);
    } catch (error) {
      this.#explain(error);
    }
  }

  async #remove() {
    try {
      await this.#forget();
    } catch (error) {
      this.#explain(error);
    }
  }

  async #forget() {
    try {
      await this.#server.job(`/${this.#id}`, "DELETE");
    } catch (error) {
      if (!(error instanceof ServerError) || error.status !== 404) throw error;
    }
    this.#clear();
  }

  #clear() {
    clearTimeout(this.#timer);
    this.#id = null;
    localStorage.removeItem(KEPT_JOB);
    this.#by("chapter").hidden = true;
  }
}

/** Return a job's state in one line. */
export function describe(job) {
  const minutes = (seconds) => (seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`);
  const part = `${Math.floor((100 * job.characters_done) / job.characters)} %`;
  const sound = `${minutes(job.audio_s)} of sound`;
  switch (job.status) {
    case "queued":
      return "Waiting for another file.";
    case "speaking":
      return `${part}, ${sound}; about ${minutes(job.eta_s)} left. You can close this page.`;
    case "encoding":
      return `${sound}; writing the file.`;
    case "done":
      return `Done: ${sound}, ${Math.ceil(job.bytes / 1e6).toLocaleString("en")} MB. It is kept for a week.`;
    default:
      return `It failed: ${job.error}`;
  }
}

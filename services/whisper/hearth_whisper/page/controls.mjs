// What can be chosen, kept for as long as the tab is open.

import { languagesOf } from "./languages.mjs";

const KEPT = "hearth-whisper-choice";
const CHOICES = ["language", "prompt", "silence", "format"];

/** The controls of the page, by their ids. */
export class Controls {
  #by;
  #language = "";

  constructor(by) {
    this.#by = by;
    const kept = readKept();
    for (const id of CHOICES) {
      if (kept[id] !== undefined) by(id).value = kept[id];
      by(id).addEventListener("input", () => this.#changed(id));
    }
    this.#language = kept.language ?? "";
    this.#show();
  }

  /** Offer the languages of this model. */
  offer(model) {
    const languages = languagesOf(model);
    const only = languages.length === 1;
    const options = languages.map(({ code, name }) => new Option(name, code));
    // A model of one language has nothing to find out.
    if (!only) options.unshift(new Option("detect automatically", ""));
    this.#by("language").replaceChildren(...options);
    const isThere = languages.some(({ code }) => code === this.#language);
    this.#by("language").value = isThere ? this.#language : only ? languages[0].code : "";
    this.#by("language").disabled = only;
    this.#by("model").textContent = model;
  }

  /** What is asked of the server for a file. */
  get asked() {
    const chosen = { language: this.#by("language").value, prompt: this.#by("prompt").value.trim() };
    return Object.fromEntries(Object.entries(chosen).filter(([, value]) => value));
  }

  /** What is asked of the server for a talk. */
  get askedLive() {
    return { ...this.asked, end_of_speech_ms: this.silence_ms };
  }

  /** After so long a silence a line ends. */
  get silence_ms() {
    return Number(this.#by("silence").value);
  }

  get format() {
    return this.#by("format").value;
  }

  #changed(id) {
    if (id === "language") this.#language = this.#by("language").value;
    this.#show();
    const values = CHOICES.map((one) => [one, this.#by(one).value]);
    sessionStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(values)));
  }

  #show() {
    this.#by("silence-shown").textContent = `${(this.silence_ms / 1000).toFixed(1)} s`;
  }
}

function readKept() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

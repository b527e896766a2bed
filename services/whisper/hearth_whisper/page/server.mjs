// The server as this page asks it.

import { Line } from "./line.mjs";
import { ServerError, refusal, secondsOf } from "./refusal.mjs";
import { upload } from "./upload.mjs";

const KEPT_KEY = "hearth-whisper-key";
const FILES = "/v1/audio/transcriptions";
const ANY_MODEL = "whisper-1";
const AGAIN_S = 2;

/** The server that this page came from. */
export class Server {
  #keyWanted;

  /** `keyWanted` says that this server itself has a key, so that a 401 asks for it. */
  constructor(keyWanted) {
    this.#keyWanted = keyWanted;
  }

  /** Keep a key for as long as this tab is open; an empty one is forgotten. */
  keep(key) {
    if (key) sessionStorage.setItem(KEPT_KEY, key);
    else sessionStorage.removeItem(KEPT_KEY);
  }

  /** Return the name of the model that writes; waits as long as none has been chosen. */
  async model(onWait) {
    for (;;) {
      const answer = await this.#get("/v1/models");
      if (!answer.ok && answer.status !== 503) throw await this.#refusal(answer);
      const name = answer.ok ? nameIn(await answer.json()) : null;
      if (name) return name;
      onWait();
      const wait_s = secondsOf(answer.headers.get("Retry-After")) ?? AGAIN_S;
      await new Promise((done) => setTimeout(done, 1000 * wait_s));
    }
  }

  /** Open the line for a talk; see `Line`. */
  line(asked, heard, closed) {
    if (this.#keyWanted) throw new ServerError(KEYED);
    const address = new URL(`${FILES}/stream`, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    return new Line(address, asked, heard, closed);
  }

  /** Return why no line came about: browsers tell a page nothing of it, so another way is asked. */
  async why() {
    try {
      const answer = await this.#get("/v1/models");
      return answer.ok ? new ServerError(BUSY) : await this.#refusal(answer);
    } catch (error) {
      return error;
    }
  }

  /** Have a file written down; see `upload`. */
  file(file, { language, prompt }, tell, signal) {
    const form = new FormData();
    const fields = { model: ANY_MODEL, response_format: "verbose_json", stream: "true" };
    // Before the file: who reads it as it comes knows by then what to do with it.
    for (const [name, value] of Object.entries({ ...fields, language, prompt })) {
      if (value) form.append(name, value);
    }
    form.append("file", file, file.name);
    return upload(FILES, form, this.#headers(), this.#known(), tell, signal);
  }

  async #get(path) {
    try {
      return await fetch(path, { cache: "no-store", headers: this.#headers() });
    } catch {
      throw new ServerError("The server does not respond. Is it running?");
    }
  }

  #headers() {
    const key = sessionStorage.getItem(KEPT_KEY);
    return key ? { Authorization: `Bearer ${key}` } : {};
  }

  #known() {
    return { keyWanted: this.#keyWanted, hasKey: sessionStorage.getItem(KEPT_KEY) !== null };
  }

  async #refusal(answer) {
    const text = await answer.text().catch(() => "");
    const again = answer.headers.get("Retry-After");
    return refusal({ status: answer.status, text, again }, this.#known());
  }
}

// What every such server answers to, whatever its model is called.
function nameIn({ data }) {
  return data?.find(({ id }) => id !== ANY_MODEL)?.id;
}

const BUSY = "The server has no free stream. Try again in a few seconds.";
// A page can send no key along with a WebSocket.
const KEYED = "Live transcription does not work with an API key: put this server behind a login. Files work.";

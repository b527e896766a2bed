// The requests of this page to its server.

import { ServerError, responseError, secondsIn } from "./errors.mjs";
import { StreamSocket } from "./stream_socket.mjs";
import { sendForm } from "./upload.mjs";

const STORED_KEY = "hearth-whisper-key";
const TRANSCRIPTIONS = "/v1/audio/transcriptions";
const ANY_MODEL = "whisper-1";
const RETRY_AFTER_S = 2;

/** The server that this page came from. */
export class Server {
  #keyWanted;

  /** `keyWanted`: this server itself has a key, so a 401 asks for it. */
  constructor(keyWanted) {
    this.#keyWanted = keyWanted;
  }

  /** Store a key until this tab is closed; an empty one deletes it. */
  storeKey(key) {
    if (key) sessionStorage.setItem(STORED_KEY, key);
    else sessionStorage.removeItem(STORED_KEY);
  }

  /** Return the model's name; waits until the server has selected one. */
  async model(onWait) {
    for (;;) {
      const response = await this.#get("/v1/models");
      if (!response.ok && response.status !== 503) throw await this.#error(response);
      const name = response.ok ? nameIn(await response.json()) : null;
      if (name) return name;
      onWait();
      const wait_s = secondsIn(response.headers.get("Retry-After")) ?? RETRY_AFTER_S;
      await new Promise((done) => setTimeout(done, 1000 * wait_s));
    }
  }

  /** Open the WebSocket of a live session; see `StreamSocket`. */
  stream(start, onEvent, onClose) {
    if (this.#keyWanted) throw new ServerError(KEYED);
    const address = new URL(`${TRANSCRIPTIONS}/stream`, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    return new StreamSocket(address, start, onEvent, onClose);
  }

  /** Return why no WebSocket opened: browsers hide the reason, so another request finds it. */
  async streamError() {
    try {
      const response = await this.#get("/v1/models");
      return response.ok ? new ServerError(BUSY) : await this.#error(response);
    } catch (error) {
      return error;
    }
  }

  /** Transcribe a file; see `sendForm`. */
  transcribe(file, { language, prompt }, events, signal) {
    const form = new FormData();
    const fields = { model: ANY_MODEL, response_format: "verbose_json", stream: "true" };
    // Before the file, so that a server can check them while the file arrives.
    for (const [name, value] of Object.entries({ ...fields, language, prompt })) {
      if (value) form.append(name, value);
    }
    form.append("file", file, file.name);
    return sendForm(TRANSCRIPTIONS, form, this.#headers(), this.#access(), events, signal);
  }

  async #get(path) {
    try {
      return await fetch(path, { cache: "no-store", headers: this.#headers() });
    } catch {
      throw new ServerError("The server does not respond. Is it running?");
    }
  }

  #headers() {
    const key = sessionStorage.getItem(STORED_KEY);
    return key ? { Authorization: `Bearer ${key}` } : {};
  }

  #access() {
    return { keyWanted: this.#keyWanted, hasKey: sessionStorage.getItem(STORED_KEY) !== null };
  }

  async #error(response) {
    const text = await response.text().catch(() => "");
    const retryAfter = response.headers.get("Retry-After");
    return responseError({ status: response.status, text, retryAfter }, this.#access());
  }
}

// The model's own name, not the alias that works for every model.
function nameIn({ data }) {
  return data?.find(({ id }) => id !== ANY_MODEL)?.id;
}

const BUSY = "The server has no free stream. Try again in a few seconds.";
// Browsers cannot send a key with a WebSocket.
const KEYED = "Live transcription does not work with an API key: put this server behind a login. Files work.";

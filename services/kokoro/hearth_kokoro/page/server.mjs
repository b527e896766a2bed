// The client of the speech server; every failure becomes one readable line.

import { EventReader } from "./events.mjs";

const KEPT_KEY = "hearth-kokoro-key";

/** An error in one line; `needs` is "key" or "login" where that would fix it. */
export class ServerError extends Error {
  constructor(message, needs = null, status = null) {
    super(message);
    this.name = "ServerError";
    this.needs = needs;
    this.status = status;
  }
}

/** The server that this page came from. */
export class Server {
  #keyWanted;

  /** `keyWanted` means that the server itself requires a key, so a 401 concerns that key. */
  constructor(keyWanted) {
    this.#keyWanted = keyWanted;
  }

  /** Store a key until the tab closes; an empty one removes it. */
  keep(key) {
    if (key) sessionStorage.setItem(KEPT_KEY, key);
    else sessionStorage.removeItem(KEPT_KEY);
  }

  /** Return `{voices, openai_voices, unsupported_languages}`; waits while the model loads. */
  async voices(onWait) {
    for (;;) {
      const response = await this.#send("v1/audio/voices", { headers: this.#headers() });
      if (response.ok) return response.json();
      if (response.status !== 503) throw await this.#refusal(response);
      onWait();
      await new Promise((done) => setTimeout(done, 1000 * (secondsOf(response) ?? 2)));
    }
  }

  /** Return the response to a request for speech when it starts. */
  async speech(request, signal) {
    const response = await this.#send("v1/audio/speech", {
      method: "POST",
      headers: this.#headers({ "Content-Type": "application/json" }),
      body: JSON.stringify({ model: "kokoro", ...request }),
      signal,
    });
    if (!response.ok) throw await this.#refusal(response);
    return response;
  }

  /**
   * Yield the events of speech, each `{audio, text?, held_ms?}` or, before the first sound of a slow
   * machine, `{wait_ms}`; a missing last event is an error.
   */
  async *events(request, signal) {
    const response = await this.speech({ ...request, stream_format: "sse" }, signal);
    const reader = new EventReader();
    for await (const text of textOf(response)) {
      for (const event of reader.feed(text)) {
        if (event.type === "error") throw new ServerError(sentence(event.error?.message));
        if (event.type === "speech.audio.done") return;
        if (["speech.audio.delta", "speech.audio.held"].includes(event.type)) yield event;
      }
    }
    throw new ServerError("The response ended early.");
  }

  /** Return a whole file; the server completes it first, so that its header has the length. */
  async whole(request, signal) {
    const response = await this.speech({ ...request, stream: false }, signal);
    try {
      return await response.blob();
    } catch (error) {
      throw broken(error, "The connection to the server was lost.");
    }
  }

  /** Return a job; `path` is empty for a new one, which has a `body`. DELETE returns null. */
  async job(path, method = "GET", body = undefined) {
    const response = await this.#send(`v1/audio/jobs${path}`, {
      method,
      headers: this.#headers({ "Content-Type": "application/json" }),
      body: body && JSON.stringify({ model: "kokoro", ...body }),
    });
    if (!response.ok) throw await this.#refusal(response);
    return response.status === 204 ? null : response.json();
  }

  /** Whether requests have a key, which a link has not. */
  get sendsKey() {
    return sessionStorage.getItem(KEPT_KEY) !== null;
  }

  /** Return the finished file of a job. */
  async jobFile(id) {
    const response = await this.#send(`v1/audio/jobs/${id}/audio`, { headers: this.#headers() });
    if (!response.ok) throw await this.#refusal(response);
    return response.blob();
  }

  async #send(path, options) {
    try {
      return await fetch(`/${path}`, { cache: "no-store", ...options });
    } catch (error) {
      throw broken(error, "The server does not respond. Is it running?");
    }
  }

  #headers(more = {}) {
    const key = sessionStorage.getItem(KEPT_KEY);
    return key ? { ...more, Authorization: `Bearer ${key}` } : more;
  }

  async #refusal(response) {
    const reason = (await response.json().catch(() => null))?.error?.message;
    if (response.status === 401 && this.#keyWanted) {
      const kept = sessionStorage.getItem(KEPT_KEY);
      return new ServerError(kept ? "This API key is wrong." : "This server needs an API key.", "key");
    }
    // The server has no key, so the 401 comes from the login in front of it.
    if (response.status === 401) return new ServerError("Your session has expired.", "login");
    const message = reason ? sentence(reason) : `The server returned HTTP ${response.status}.`;
    return new ServerError(withWait(message, secondsOf(response)), null, response.status);
  }
}

/** Add the seconds until the next attempt, if the server sends them. */
export function withWait(message, seconds) {
  if (seconds === null) return message;
  const plain = message.replace(/[;,.]?\s*(try again( later)?)?\.?$/, "");
  return `${plain}. Try again in ${seconds} s.`;
}

function secondsOf(response) {
  const value = response.headers.get("Retry-After") ?? "";
  return /^[0-9]+$/.test(value) ? Number(value) : null;
}

function sentence(message) {
  if (!message) return "The request failed.";
  return `${message[0].toUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? "" : "."}`;
}

async function* textOf(response) {
  // Browsers without streams get the whole response at once.
  if (!response.body?.getReader) {
    yield await response.text();
    return;
  }
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } catch (error) {
    throw broken(error, "The connection to the server was lost.");
  } finally {
    reader.cancel().catch(() => {});
  }
}

function broken(error, message) {
  // The user pressed Stop: that is not an error.
  return error.name === "AbortError" ? error : new ServerError(message);
}

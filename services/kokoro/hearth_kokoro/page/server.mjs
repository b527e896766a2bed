// The speech server as this page asks it; every trouble becomes one line for a person.

import { EventReader } from "./events.mjs";

const KEPT_KEY = "hearth-kokoro-key";

/** What went wrong, in one line; `needs` is "key" or "login" where that would mend it. */
export class ServerError extends Error {
  constructor(message, needs = null) {
    super(message);
    this.name = "ServerError";
    this.needs = needs;
  }
}

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

  /** Return `{voices, openai_voices, unread}`; waits as long as the model is loading. */
  async voices(onWait) {
    for (;;) {
      const answer = await this.#send("v1/audio/voices", { headers: this.#headers() });
      if (answer.ok) return answer.json();
      if (answer.status !== 503) throw await this.#refusal(answer);
      onWait();
      await new Promise((done) => setTimeout(done, 1000 * (secondsOf(answer) ?? 2)));
    }
  }

  /** Return the answer to a request for speech once it begins. */
  async speech(asked, signal) {
    const answer = await this.#send("v1/audio/speech", {
      method: "POST",
      headers: this.#headers({ "Content-Type": "application/json" }),
      body: JSON.stringify({ model: "kokoro", ...asked }),
      signal,
    });
    if (!answer.ok) throw await this.#refusal(answer);
    return answer;
  }

  /** Yield the events of speech, as they come, each `{audio, text?}`; not ended means an error. */
  async *events(asked, signal) {
    const answer = await this.speech({ ...asked, stream_format: "sse" }, signal);
    const reader = new EventReader();
    for await (const text of textOf(answer)) {
      for (const event of reader.feed(text)) {
        if (event.type === "error") throw new ServerError(sentence(event.error?.message));
        if (event.type === "speech.audio.done") return;
        if (event.type === "speech.audio.delta") yield event;
      }
    }
    throw new ServerError("The response ended early.");
  }

  /** Return a whole answer; made ready on the server, so that its head knows how long it is. */
  async whole(asked, signal) {
    const answer = await this.speech({ ...asked, stream: false }, signal);
    try {
      return await answer.blob();
    } catch (error) {
      throw broken(error, "The connection to the server was lost.");
    }
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

  async #refusal(answer) {
    const said = (await answer.json().catch(() => null))?.error?.message;
    if (answer.status === 401 && this.#keyWanted) {
      const kept = sessionStorage.getItem(KEPT_KEY);
      return new ServerError(kept ? "This API key is wrong." : "This server needs an API key.", "key");
    }
    // The server has no key, so whoever asks for one stands before it: the house's login.
    if (answer.status === 401) return new ServerError("Your session has expired.", "login");
    const message = said ? sentence(said) : `The server returned HTTP ${answer.status}.`;
    return new ServerError(withWait(message, secondsOf(answer)));
  }
}

/** Add when to try again, if the server says when. */
export function withWait(message, seconds) {
  if (seconds === null) return message;
  const plain = message.replace(/[;,.]?\s*(try again( later)?)?\.?$/, "");
  return `${plain}. Try again in ${seconds} s.`;
}

function secondsOf(answer) {
  const said = answer.headers.get("Retry-After") ?? "";
  return /^[0-9]+$/.test(said) ? Number(said) : null;
}

function sentence(message) {
  if (!message) return "The request failed.";
  return `${message[0].toUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? "" : "."}`;
}

async function* textOf(answer) {
  // Browsers without streams get all of it at once.
  if (!answer.body?.getReader) {
    yield await answer.text();
    return;
  }
  const reader = answer.body.getReader();
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
  // Somebody pressed stop: that is no trouble.
  return error.name === "AbortError" ? error : new ServerError(message);
}

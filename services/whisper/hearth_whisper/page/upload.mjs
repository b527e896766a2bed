// A file on its way to the server, and its text on the way back.

import { EventReader } from "./events.mjs";
import { ServerError, refusal, sentence } from "./refusal.mjs";

/**
 * Send a form; resolve with `{segments, text}` once all of it is written down.
 *
 * `tell` hears sent(share) while it is sent, and segment({text, start_s, end_s}) as they come.
 */
export function upload(address, form, headers, known, tell, signal) {
  // Only the older kind of request says how much of a body has been sent.
  const request = new XMLHttpRequest();
  const written = new Written(tell);
  return new Promise((resolve, reject) => {
    const attempt = (act) => () => {
      try {
        act();
      } catch (error) {
        reject(error instanceof ServerError ? error : new ServerError(UNREADABLE));
        request.abort();
      }
    };
    request.open("POST", address);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => tell.sent(total ? loaded / total : 0);
    request.upload.onload = () => tell.sent(1);
    request.onprogress = attempt(() => isEvents(request) && written.read(request.responseText));
    request.onload = attempt(() => resolve(resultOf(request, written, known)));
    request.onerror = () => reject(new ServerError(BROKEN));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(form);
  });
}

const UNREADABLE = "The server's answer cannot be read.";
const BROKEN = "The connection to the server broke.";

function resultOf(request, written, known) {
  const { status, responseText: text } = request;
  if (status !== 200) {
    throw refusal({ status, text, again: request.getResponseHeader("Retry-After") }, known);
  }
  if (!isEvents(request)) return written.whole(JSON.parse(text));
  written.read(text);
  return written.end();
}

function isEvents(request) {
  const type = request.getResponseHeader("Content-Type") ?? "";
  return request.status === 200 && type.startsWith("text/event-stream");
}

/** Puts a transcript together: from events as they come, or from the whole. */
export class Written {
  #reader = new EventReader();
  #read = 0;
  #segments = [];
  #text = "";
  #done = false;
  #tell;

  constructor(tell) {
    this.#tell = tell;
  }

  /** Take all of the answer that has come by now. */
  read(text) {
    const fresh = text.slice(this.#read);
    this.#read = text.length;
    for (const event of this.#reader.feed(fresh)) this.#take(event);
  }

  /** Return the transcript, which must be whole. */
  end() {
    if (!this.#done) throw new ServerError(BROKEN);
    return { segments: this.#segments, text: this.#text };
  }

  /** Take an answer that came in one piece. */
  whole({ segments = [], text = "" }) {
    for (const segment of segments) this.#add(segment);
    return { segments: this.#segments, text };
  }

  #take(event) {
    if (event.type === "error" || event.error) throw new ServerError(sentence(event.error?.message));
    if (event.type === "transcript.text.segment") this.#add(event);
    else if (event.type === "transcript.text.delta") this.#text += event.delta;
    else if (event.type === "transcript.text.done") this.#finish(event);
  }

  #finish({ text, segments = [] }) {
    this.#done = true;
    this.#text = text ?? this.#text;
    if (!this.#segments.length) for (const segment of segments) this.#add(segment);
  }

  #add({ text, start, end }) {
    const segment = { text, start_s: start, end_s: end };
    this.#segments.push(segment);
    this.#tell.segment(segment);
  }
}

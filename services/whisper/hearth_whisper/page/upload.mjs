// A file on its way to the server, and its text on the way back.

import { EventReader } from "./events.mjs";
import { ServerError, refusal, sentence } from "./refusal.mjs";

/**
 * Send a form; resolve once all of it is written down.
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
    request.onload = attempt(() => resolve(endOf(request, written, known)));
    request.onerror = () => reject(new ServerError(BROKEN));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(form);
  });
}

const UNREADABLE = "The server's response is not valid.";
const BROKEN = "The connection to the server was lost.";

function endOf(request, written, known) {
  const { status, responseText: text } = request;
  if (status !== 200) {
    throw refusal({ status, text, again: request.getResponseHeader("Retry-After") }, known);
  }
  if (!isEvents(request)) throw new ServerError(UNREADABLE);
  written.read(text);
  written.end();
}

function isEvents(request) {
  const type = request.getResponseHeader("Content-Type") ?? "";
  return request.status === 200 && type.startsWith("text/event-stream");
}

/** Tells what is written down from events, in whatever parts they come. */
class Written {
  #reader = new EventReader();
  #read = 0;
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

  /** Throw unless all of it has come. */
  end() {
    if (!this.#done) throw new ServerError(BROKEN);
  }

  #take({ type, text, start, end, error }) {
    if (type === "error") throw new ServerError(sentence(error?.message));
    if (type === "transcript.text.segment") this.#tell.segment({ text, start_s: start, end_s: end });
    else if (type === "transcript.text.done") this.#done = true;
  }
}

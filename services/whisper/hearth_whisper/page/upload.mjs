// The upload of a file, and the stream of events in the response.

import { EventReader } from "./events.mjs";
import { ServerError, responseError, sentence } from "./errors.mjs";

/**
 * Send a form; resolve when the transcript is complete.
 *
 * `events` has sent(share) and segment({text, start_s, end_s}).
 */
export function sendForm(address, form, headers, access, events, signal) {
  // fetch does not report the progress of an upload.
  const request = new XMLHttpRequest();
  const response = new EventResponse(events);
  return new Promise((resolve, reject) => {
    const attempt = (act) => () => {
      try {
        act();
      } catch (error) {
        reject(error instanceof ServerError ? error : new ServerError(INVALID));
        request.abort();
      }
    };
    request.open("POST", address);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => events.sent(total ? loaded / total : 0);
    request.upload.onload = () => events.sent(1);
    request.onprogress = attempt(() => isEventStream(request) && response.read(request.responseText));
    request.onload = attempt(() => resolve(finish(request, response, access)));
    request.onerror = () => reject(new ServerError(LOST));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(form);
  });
}

const INVALID = "The server's response is not valid.";
const LOST = "The connection to the server was lost.";

function finish(request, response, access) {
  const { status, responseText: text } = request;
  if (status !== 200) {
    throw responseError({ status, text, retryAfter: request.getResponseHeader("Retry-After") }, access);
  }
  if (!isEventStream(request)) throw new ServerError(INVALID);
  response.read(text);
  response.end();
}

function isEventStream(request) {
  const type = request.getResponseHeader("Content-Type") ?? "";
  return request.status === 200 && type.startsWith("text/event-stream");
}

/** Parses the events of a response that arrives in parts. */
class EventResponse {
  #reader = new EventReader();
  #read = 0;
  #done = false;
  #events;

  constructor(events) {
    this.#events = events;
  }

  /** Take all of the response that has arrived. */
  read(text) {
    const added = text.slice(this.#read);
    this.#read = text.length;
    for (const event of this.#reader.feed(added)) this.#handle(event);
  }

  /** Throw unless the response is complete. */
  end() {
    if (!this.#done) throw new ServerError(LOST);
  }

  #handle({ type, text, start, end, error }) {
    if (type === "error") throw new ServerError(sentence(error?.message));
    if (type === "transcript.text.segment") this.#events.segment({ text, start_s: start, end_s: end });
    else if (type === "transcript.text.done") this.#done = true;
  }
}

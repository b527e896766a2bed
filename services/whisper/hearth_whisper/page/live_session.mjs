// One live session, from the press of Talk to its last text.

import { ServerError, sentence } from "./errors.mjs";
import { SpeechClock } from "./speech_clock.mjs";

/**
 * Records and transcribes; `events` has listening(microphone), started(event), partial(event),
 * final(event) with `delay_ms`, failed(event) with its `message`, and ended().
 */
export class LiveSession {
  #openMicrophone;
  #server;
  #options;
  #events;
  #microphone = null;
  #socket = null;
  #clock = null;
  #failure = null;
  #finished;
  #finish = () => {};
  #ending = false;

  /** `openMicrophone` and `server.stream` are those of their modules. */
  constructor(openMicrophone, server, options, events) {
    this.#openMicrophone = openMicrophone;
    this.#server = server;
    this.#options = options;
    this.#events = events;
    this.stopped = false;
    this.#finished = new Promise((finish) => (this.#finish = finish));
  }

  /** How many seconds of audio were sent. */
  get seconds() {
    return this.#clock?.seconds ?? 0;
  }

  /** Whether it only waits for its last text. */
  get ending() {
    return this.#ending;
  }

  /** Record until `end` and its last text, or until `stop`; throws the error that ended it. */
  async run() {
    try {
      this.#microphone = await this.#openMicrophone(
        (samples) => this.#send(samples),
        () => this.#disconnected(),
      );
      if (this.stopped) return;
      const { rate } = this.#microphone;
      this.#clock = new SpeechClock(rate);
      const start = { sample_rate: rate, partials: true, ...this.#options };
      this.#socket = this.#server.stream(
        start,
        (event) => this.#receive(event),
        (opened, reason) => this.#closed(opened, reason),
      );
      await this.#finished;
    } finally {
      this.#microphone?.close();
      this.#socket?.close();
    }
    // The first failure: a connection that breaks after the server's error explains less.
    if (this.#failure && !this.stopped) throw await this.#failure;
  }

  /** Request the text of the speech until now, without waiting for silence. */
  flush() {
    this.#socket?.flush();
  }

  /** Stop recording, and wait for the rest of the text. */
  end() {
    if (this.#ending) return;
    this.#ending = true;
    this.#microphone?.close();
    this.#socket?.end();
  }

  /** Stop recording, without waiting for the rest. */
  stop() {
    this.stopped = true;
    this.#finish();
  }

  #send(samples) {
    if (!this.#socket || this.#ending) return;
    // A sound device may take seconds to wake up: until then nothing is recorded.
    if (this.#clock.seconds === 0) this.#events.listening(this.#microphone);
    this.#clock.add(samples, performance.now());
    if (!this.#socket.sendAudio(samples)) {
      this.#failure ??= new ServerError("The connection is too slow for live audio.");
      this.#finish();
    }
  }

  #receive(event) {
    if (event.type === "speech_started") this.#events.started(event);
    else if (event.type === "speech_ended") this.#events.ended();
    else if (event.type === "partial") this.#events.partial(event);
    else if (event.type === "final") this.#events.final({ ...event, delay_ms: this.#delayOf(event) });
    else if (event.type === "error") this.#handleError(event);
    else if (event.type === "done") this.#finish();
  }

  // From the last sound of the speech until the text is here.
  #delayOf({ start_s, end_s }) {
    const last_s = this.#clock.lastLoud(start_s, end_s);
    return Math.max(0, performance.now() - this.#clock.timeOf(last_s));
  }

  // The session goes on after the error of one line; any other error ends it.
  #handleError(event) {
    const message = sentence(event.error?.message ?? event.message);
    if (event.utterance !== undefined) this.#events.failed({ ...event, message });
    else this.#failure ??= new ServerError(message);
  }

  #disconnected() {
    this.#failure ??= new ServerError("The microphone was disconnected. The text until then is complete.");
    this.end();
  }

  #closed(opened, reason) {
    const message = reason ? sentence(reason) : "The connection to the server was lost.";
    this.#failure ??= opened ? new ServerError(message) : this.#server.streamError();
    this.#finish();
  }
}

// One talk, from the press to its last text.

import { Clock } from "./clock.mjs";
import { ServerError, sentence } from "./refusal.mjs";

/**
 * Listens and has written down; `tell` hears hears(microphone), started(event), partial(event),
 * final(event) with `felt_ms`, failed(event) with its `message`, ended().
 */
export class Talk {
  #listen;
  #server;
  #asked;
  #tell;
  #microphone = null;
  #line = null;
  #clock = null;
  #failure = null;
  #done;
  #over = () => {};
  #ending = false;

  /** `listen(heard, gone)` opens the microphone, `server.line(…)` the line; see those modules. */
  constructor(listen, server, asked, tell) {
    this.#listen = listen;
    this.#server = server;
    this.#asked = asked;
    this.#tell = tell;
    this.stopped = false;
    this.#done = new Promise((over) => (this.#over = over));
  }

  /** How many seconds of sound were sent. */
  get seconds() {
    return this.#clock?.seconds ?? 0;
  }

  /** Whether it only waits for its last text. */
  get ending() {
    return this.#ending;
  }

  /** Listen until `end` and its last text, or until `stop`; throws what went wrong. */
  async go() {
    try {
      this.#microphone = await this.#listen(
        (samples) => this.#send(samples),
        () => this.#lost(),
      );
      if (this.stopped) return;
      const { rate } = this.#microphone;
      this.#clock = new Clock(rate);
      const asked = { sample_rate: rate, partials: true, ...this.#asked };
      this.#line = this.#server.line(
        asked,
        (event) => this.#take(event),
        (opened, reason) => this.#closed(opened, reason),
      );
      await this.#done;
    } finally {
      this.#microphone?.close();
      this.#line?.close();
    }
    // The server's own word says more than that the line broke after it.
    if (this.#failure && !this.stopped) throw await this.#failure;
  }

  /** Ask for the text of what was said until now, without waiting for silence. */
  flush() {
    this.#line?.flush();
  }

  /** Listen no more, and have the rest written down. */
  end() {
    if (this.#ending) return;
    this.#ending = true;
    this.#microphone?.close();
    this.#line?.end();
  }

  /** Listen no more and wait for nothing. */
  stop() {
    this.stopped = true;
    this.#over();
  }

  #send(samples) {
    if (!this.#line || this.#ending) return;
    // A sound device may take seconds to wake: until then nobody listens.
    if (this.#clock.seconds === 0) this.#tell.hears(this.#microphone);
    this.#clock.take(samples, performance.now());
    if (!this.#line.sound(samples)) {
      this.#fail(new ServerError("The connection is too slow for live audio."));
    }
  }

  #take(event) {
    if (event.type === "speech_started") this.#tell.started(event);
    else if (event.type === "speech_ended") this.#tell.ended();
    else if (event.type === "partial") this.#tell.partial(event);
    else if (event.type === "final") this.#tell.final({ ...event, ...this.#feltOf(event) });
    else if (event.type === "error") this.#refuse(event);
    else if (event.type === "done") this.#over();
  }

  // From the last sound of the talker until the text is here: what a talker waits.
  #feltOf({ start_s, end_s }) {
    const last_s = this.#clock.lastLoud(start_s, end_s);
    return { felt_ms: Math.max(0, performance.now() - this.#clock.when(last_s)) };
  }

  // Where one line could not be written the talk goes on; any other error is its end.
  #refuse(event) {
    const message = sentence(event.error?.message ?? event.message);
    if (event.utterance !== undefined) this.#tell.failed({ ...event, message });
    else this.#failure ??= new ServerError(message);
  }

  #lost() {
    this.#failure ??= new ServerError("The microphone was disconnected. The text until then is complete.");
    this.end();
  }

  #closed(opened, reason) {
    const why = reason ? sentence(reason) : "The connection to the server was lost.";
    this.#failure ??= opened ? new ServerError(why) : this.#server.why();
    this.#over();
  }

  #fail(error) {
    this.#failure ??= error;
    this.#over();
  }
}

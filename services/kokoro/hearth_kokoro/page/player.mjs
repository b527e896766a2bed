// Plays one speech, from the press of the button to its last sample.

import { bytesOf } from "./pcm.mjs";
import { RATE } from "./audio_output.mjs";

/**
 * Speaks one text. `callbacks` has opened(path), held(ms), generated(share), first(ms, heldMs),
 * segment(text), stall(count) and noOutput().
 */
export class SpeechPlayer {
  #server;
  #output;
  #request;
  #callbacks;
  #sink = null;
  #abort = new AbortController();
  #segments = [];
  #bytes = 0;
  #heldMs = 0;
  #end;

  /** `began` is the time of the press, on the clock of `performance.now()`. */
  constructor(server, output, request, began, callbacks) {
    this.#server = server;
    this.#output = output;
    this.#request = request;
    this.#callbacks = callbacks;
    this.stalls = 0;
    this.stopped = false;
    this.#end = new Promise((over, failed) => {
      this.events = {
        first: (at) => callbacks.first(at - began, this.#heldMs),
        segment: (number) => callbacks.segment(this.#segments[number]),
        stall: () => callbacks.stall((this.stalls += 1)),
        noOutput: () => callbacks.noOutput(),
        over,
        failed: (message) => failed(new Error(message)),
      };
    });
    this.#end.catch(() => {});
  }

  /** The seconds of sound that were received. */
  get seconds() {
    return this.#bytes / 2 / RATE;
  }

  /** Speak to the end, or until `stop`; an error is thrown after the sound that arrived. */
  async go() {
    const request = { ...this.#request, response_format: "pcm" };
    const events = this.#server.events(request, this.#abort.signal);
    // The server starts while the worklet is still loading.
    const first = events.next();
    first.catch(() => {});
    try {
      this.#sink = await this.#output.open(this.events);
      if (this.stopped) this.#sink.stop();
      else await this.#play(events, first);
    } catch (error) {
      if (!this.stopped) throw error;
    } finally {
      this.#abort.abort();
      this.#output.close();
    }
  }

  /** Stop the sound and the request. */
  stop() {
    this.stopped = true;
    this.#abort.abort();
    this.#sink?.stop();
    this.events.over();
  }

  async #play(events, first) {
    this.#callbacks.opened(this.#sink.path);
    let failure = null;
    try {
      for (let event = await first; !event.done; event = await events.next()) {
        await this.#push(event.value);
      }
    } catch (error) {
      failure = error;
    }
    if (failure && (this.stopped || this.#bytes === 0 || this.#sink.path === "blob")) throw failure;
    // The sound that arrived before the error is played to its end.
    this.#sink.end();
    await this.#end;
    if (failure) throw failure;
  }

  async #push({ audio, text, held_ms: heldMs, wait_ms: waitMs }) {
    if (waitMs !== undefined) {
      this.#callbacks.held(waitMs);
      return;
    }
    this.#heldMs += heldMs ?? 0;
    const segment = text === undefined ? null : this.#segments.push(text) - 1;
    const bytes = bytesOf(audio);
    this.#sink.push(bytes, segment);
    this.#bytes += bytes.byteLength;
    const generated = this.#segments.reduce((sum, one) => sum + one.length, 0);
    this.#callbacks.generated(generated / this.#request.input.length);
    // A sink that failed never has room; its error ends the speech.
    await Promise.race([this.#end, this.#sink.room()]);
  }
}

// One speech, from the press to its last sample.

import { bytesOf } from "./sound.mjs";
import { RATE } from "./stage.mjs";

/**
 * Speaks one text; `tell` hears opened(path), made(share), first(ms), piece(text), stall(count)
 * and deaf().
 */
export class Run {
  #server;
  #stage;
  #asked;
  #tell;
  #sink = null;
  #abort = new AbortController();
  #pieces = [];
  #bytes = 0;
  #end;

  /** `began` is when somebody pressed, on the clock of `performance.now()`. */
  constructor(server, stage, asked, began, tell) {
    this.#server = server;
    this.#stage = stage;
    this.#asked = asked;
    this.#tell = tell;
    this.stalls = 0;
    this.stopped = false;
    this.#end = new Promise((over, broke) => {
      this.notes = {
        first: (at) => tell.first(at - began),
        piece: (number) => tell.piece(this.#pieces[number]),
        stall: () => tell.stall((this.stalls += 1)),
        deaf: () => tell.deaf(),
        over,
        broke: (message) => broke(new Error(message)),
      };
    });
    this.#end.catch(() => {});
  }

  /** How many seconds of sound came. */
  get seconds() {
    return this.#bytes / 2 / RATE;
  }

  /** Speak to the end, or until `stop`; throws what went wrong, after what can still be heard. */
  async go() {
    const asked = { ...this.#asked, response_format: "pcm" };
    const events = this.#server.events(asked, this.#abort.signal);
    // The server begins while the worklet is still being loaded.
    const first = events.next();
    first.catch(() => {});
    try {
      this.#sink = await this.#stage.open(this.notes);
      if (this.stopped) this.#sink.stop();
      else await this.#play(events, first);
    } catch (error) {
      if (!this.stopped) throw error;
    } finally {
      this.#abort.abort();
      this.#stage.close();
    }
  }

  /** Be silent now, and let the server stop its work. */
  stop() {
    this.stopped = true;
    this.#abort.abort();
    this.#sink?.stop();
    this.notes.over();
  }

  async #play(events, first) {
    this.#tell.opened(this.#sink.path);
    let failure = null;
    try {
      for (let event = await first; !event.done; event = await events.next()) {
        await this.#push(event.value);
      }
    } catch (error) {
      failure = error;
    }
    if (failure && (this.stopped || this.#bytes === 0 || this.#sink.path === "blob")) throw failure;
    // What came before the trouble is heard to its end.
    this.#sink.end();
    await this.#end;
    if (failure) throw failure;
  }

  async #push({ audio, text }) {
    const piece = text === undefined ? null : this.#pieces.push(text) - 1;
    const bytes = bytesOf(audio);
    this.#sink.push(bytes, piece);
    this.#bytes += bytes.byteLength;
    const made = this.#pieces.reduce((sum, one) => sum + one.length, 0);
    this.#tell.made(made / this.#asked.input.length);
    // A player that broke has no more room, and what it says ends this.
    await Promise.race([this.#end, this.#sink.room()]);
  }
}

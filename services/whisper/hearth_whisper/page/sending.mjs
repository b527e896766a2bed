// One file on its way, from the drop to its last line.

import { durationOf } from "./duration.mjs";

/** Has a file written down; `show` is told a share, null for "nobody knows", or undefined at its end. */
export class Sending {
  #server;
  #file;
  #asked;
  #show;
  #abort = new AbortController();
  #length;

  constructor(server, file, asked, show) {
    this.#server = server;
    this.#file = file;
    this.#asked = asked;
    this.#show = show;
    this.#length = durationOf(file);
  }

  /** Whether somebody stopped it. */
  get stopped() {
    return this.#abort.signal.aborted;
  }

  /** Send it; `tell` hears say(text) and line({text, start_s, end_s}); throws what went wrong. */
  async go(tell) {
    this.#show(0);
    const heard = {
      sent: (share) => this.#sent(share, tell.say),
      segment: (segment) => {
        tell.line(segment);
        if (this.#length.seconds) this.#show(Math.min(1, segment.end_s / this.#length.seconds));
      },
    };
    try {
      const { signal } = this.#abort;
      const { segments, text } = await this.#server.file(this.#file, this.#asked, heard, signal);
      // A server without times gives the text alone.
      if (!segments.length) tell.line({ text, start_s: 0, end_s: this.#length.seconds ?? 0 });
    } finally {
      if (!this.stopped) this.#show();
    }
  }

  /** Let it be; the server stops its work, too. */
  stop() {
    this.#show();
    this.#abort.abort();
  }

  #sent(share, say) {
    if (this.stopped) return;
    this.#show(share < 1 ? share : null);
    // In quarters: this is read aloud to whoever cannot see it.
    if (share < 1) say(`Sending ${this.#file.name}: ${25 * Math.floor(4 * share)} %.`);
    else say("Writing it down…");
  }
}

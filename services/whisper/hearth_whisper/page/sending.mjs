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

  /**
   * Send it; `tell` hears say(text) and line({text, start_s, end_s}), each as it is written.
   *
   * Throws what went wrong; the lines until then were told.
   */
  async go(tell) {
    this.#show(0);
    const heard = {
      sent: (share) => this.#sent(share, tell.say),
      segment: (segment) => {
        tell.line(segment);
        this.#heard(segment.end_s, tell.say);
      },
    };
    try {
      const { signal } = this.#abort;
      await this.#server.file(this.#file, this.#asked, heard, signal);
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
    if (share < 1) say(`Sending ${this.#file.name}: ${quartersOf(share)}.`);
    else say("Transcribing…");
  }

  // How far the sound is heard; of some files no browser can tell how long they are.
  #heard(end_s, say) {
    if (this.stopped || !this.#length.seconds) return;
    const share = Math.min(1, end_s / this.#length.seconds);
    this.#show(share);
    say(`Transcribing: ${quartersOf(share)}.`);
  }
}

// This is read aloud to whoever cannot see it.
function quartersOf(share) {
  return `${25 * Math.floor(4 * share)} %`;
}

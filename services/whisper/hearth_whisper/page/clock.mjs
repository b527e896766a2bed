// When a talker was last heard, on the clock of the page: what the wait for a text is measured from.

const BLOCK_S = 0.01;
const KEPT_S = 60;
// So far past what the server calls the end a last sound may still be, and so far before it, begin.
const AFTER_S = 0.3;
const BEFORE_S = 0.5;
const SILENT_DB = -90;
// A part that comes within this may say when the sound before it was.
const SOON_S = 1;

/** What the microphone heard lately: how loud each 10 ms were, and when each of them happened. */
export class Clock {
  #rate;
  #size;
  #blocks = [];
  #forgotten = 0;
  #peak = 0;
  #taken = 0;
  #parts = [];

  constructor(rate) {
    this.#rate = rate;
    this.#size = Math.round(rate * BLOCK_S);
  }

  /** How many seconds of sound it took. */
  get seconds() {
    return this.#taken / this.#rate;
  }

  /** Take the next samples, which arrived at `at` (of `performance.now()`). */
  take(samples, at) {
    for (const sample of samples) {
      this.#peak = Math.max(this.#peak, Math.abs(sample));
      this.#taken += 1;
      if (this.#taken % this.#size === 0) {
        this.#blocks.push(decibelsOf(this.#peak));
        this.#peak = 0;
      }
    }
    const spare = this.#blocks.length - KEPT_S / BLOCK_S;
    if (spare > 0) {
      this.#blocks.splice(0, spare);
      this.#forgotten += spare;
    }
    this.#parts.push({ end_s: this.seconds, late: at - 1000 * this.seconds });
    while (this.#parts[0].end_s < this.seconds - KEPT_S) this.#parts.shift();
  }

  /** Return when a moment of the sound happened. */
  when(seconds) {
    const isSoon = ({ end_s }) => end_s >= seconds && end_s < seconds + SOON_S;
    const soon = this.#parts.filter(isSoon);
    const near = soon.length ? soon : this.#parts.slice(-1);
    // A busy page takes parts late and never early: the earliest is the truest. Only what comes after
    // the moment is asked: a busy browser loses sound, and then what came before counts too little.
    return Math.min(...near.map(({ late }) => late)) + 1000 * seconds;
  }

  /**
   * Return when, in seconds of the sound, somebody was last loud in what the server calls a speech.
   *
   * Loud is nearer to this speech, in decibels, than to the quiet around it. Where nothing is that,
   * the server's own end stands.
   */
  lastLoud(start_s, end_s) {
    const around = this.#between(start_s - BEFORE_S, this.seconds);
    const speech = this.#between(start_s, end_s + AFTER_S);
    if (!speech.length) return end_s;
    const edge = (share(around, 0.1) + share(speech, 0.95)) / 2;
    const last = speech.findLastIndex((block) => block > edge);
    return last < 0 ? end_s : (this.#index(start_s) + this.#forgotten + last + 1) * BLOCK_S;
  }

  #between(from_s, to_s) {
    return this.#blocks.slice(this.#index(from_s), Math.max(0, this.#index(to_s)));
  }

  #index(seconds) {
    return Math.max(0, Math.round(seconds / BLOCK_S) - this.#forgotten);
  }
}

function decibelsOf(peak) {
  return Math.max(SILENT_DB, 20 * Math.log10(peak / 32768));
}

function share(blocks, part) {
  const sorted = [...blocks].sort((one, two) => one - two);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
}

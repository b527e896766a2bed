// The end of speech on the page's clock: from it the delay of a text is measured.

const BLOCK_S = 0.01;
const HISTORY_S = 60;
// How far the real end and start may be from the server's.
const AFTER_S = 0.3;
const BEFORE_S = 0.5;
const SILENT_DB = -90;
// Chunks within this time after a position determine its time.
const NEXT_S = 1;

/** The loudness of the last minute in blocks of 10 ms, and the time of each. */
export class SpeechClock {
  #rate;
  #size;
  #blocks = [];
  #discarded = 0;
  #peak = 0;
  #count = 0;
  #chunks = [];

  constructor(rate) {
    this.#rate = rate;
    this.#size = Math.round(rate * BLOCK_S);
  }

  /** The length of the audio until now. */
  get seconds() {
    return this.#count / this.#rate;
  }

  /** Add the next samples, which arrived at `at` (of `performance.now()`). */
  add(samples, at) {
    for (const sample of samples) {
      this.#peak = Math.max(this.#peak, Math.abs(sample));
      this.#count += 1;
      if (this.#count % this.#size === 0) {
        this.#blocks.push(decibelsOf(this.#peak));
        this.#peak = 0;
      }
    }
    const spare = this.#blocks.length - HISTORY_S / BLOCK_S;
    if (spare > 0) {
      this.#blocks.splice(0, spare);
      this.#discarded += spare;
    }
    this.#chunks.push({ end_s: this.seconds, late: at - 1000 * this.seconds });
    while (this.#chunks[0].end_s < this.seconds - HISTORY_S) this.#chunks.shift();
  }

  /** Return the page's time of a position in the audio. */
  timeOf(seconds) {
    const isNext = ({ end_s }) => end_s >= seconds && end_s < seconds + NEXT_S;
    const next = this.#chunks.filter(isNext);
    const near = next.length ? next : this.#chunks.slice(-1);
    // A busy page gets chunks late and never early: the earliest is the most exact. Only later chunks
    // count: when a busy browser loses audio, the offset of earlier ones is too small.
    return Math.min(...near.map(({ late }) => late)) + 1000 * seconds;
  }

  /**
   * Return the last loud position, in seconds, of the utterance between the server's times.
   *
   * Loud means nearer to the speech, in decibels, than to the noise around it. Without a loud block
   * the server's end is returned.
   */
  lastLoud(start_s, end_s) {
    const around = this.#between(start_s - BEFORE_S, this.seconds);
    const speech = this.#between(start_s, end_s + AFTER_S);
    if (!speech.length) return end_s;
    const edge = (quantile(around, 0.1) + quantile(speech, 0.95)) / 2;
    const last = speech.findLastIndex((block) => block > edge);
    return last < 0 ? end_s : (this.#index(start_s) + this.#discarded + last + 1) * BLOCK_S;
  }

  #between(from_s, to_s) {
    return this.#blocks.slice(this.#index(from_s), Math.max(0, this.#index(to_s)));
  }

  #index(seconds) {
    return Math.max(0, Math.round(seconds / BLOCK_S) - this.#discarded);
  }
}

function decibelsOf(peak) {
  return Math.max(SILENT_DB, 20 * Math.log10(peak / 32768));
}

function quantile(blocks, share) {
  const sorted = [...blocks].sort((one, two) => one - two);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

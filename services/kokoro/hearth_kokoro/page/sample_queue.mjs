// Samples that wait to be played. It uses no clock and no browser, so that tests can run it.

// Softer samples count as silence: the model's own silence is about 0.0001.
const AUDIBLE = 0.001;

/** A queue of samples that are read in blocks of any size. */
export class SampleQueue {
  #parts = [];
  #at = 0;
  #waiting = 0;
  #taken = 0;
  #heard = false;
  #dry = false;
  #missed = 0;
  #ended = false;
  #resume;

  /** After it ran dry it continues when `resume` samples are waiting. */
  constructor(resume) {
    this.#resume = resume;
    this.over = false;
  }

  /** The number of samples that were read. */
  get taken() {
    return this.#taken;
  }

  /** Append samples; `segment` is the number of the segment that starts here, or null. */
  push(samples, segment = null) {
    this.#parts.push({ samples, segment });
    this.#waiting += samples.length;
  }

  /** Mark the end of the sound. */
  end() {
    this.#ended = true;
  }

  /**
   * Fill `out`, with silence where samples are missing, and return events with their position:
   * `first` (the first audible sample), `segment` (its first sample), `stall` (samples came too
   * late, by so many samples), `over`.
   */
  pull(out) {
    const events = [];
    if (this.#dry && !this.#resumes(events)) {
      out.fill(0);
      this.#missed += out.length;
      return events;
    }
    const filled = this.#fill(out, events);
    if (filled < out.length) {
      out.fill(0, filled);
      this.#ranDry(filled, out.length - filled, events);
    }
    return events;
  }

  #resumes(events) {
    if (this.#ended && this.#waiting === 0) {
      // Only the end mark was late, so there was no audible gap.
      this.#dry = false;
      return true;
    }
    if (this.#waiting < this.#resume && !this.#ended) return false;
    events.push({ type: "stall", at: 0, samples: this.#missed });
    this.#dry = false;
    return true;
  }

  #fill(out, events) {
    let filled = 0;
    while (filled < out.length && this.#parts.length > 0) {
      const { samples, segment } = this.#parts[0];
      if (this.#at === 0 && segment !== null) events.push({ type: "segment", at: filled, segment });
      const taken = samples.subarray(this.#at, this.#at + out.length - filled);
      out.set(taken, filled);
      this.#listen(taken, filled, events);
      filled += taken.length;
      this.#at += taken.length;
      this.#waiting -= taken.length;
      this.#taken += taken.length;
      if (this.#at === samples.length) {
        this.#parts.shift();
        this.#at = 0;
      }
    }
    return filled;
  }

  #listen(taken, filled, events) {
    if (this.#heard) return;
    const first = taken.findIndex((sample) => Math.abs(sample) > AUDIBLE);
    if (first < 0) return;
    this.#heard = true;
    events.push({ type: "first", at: filled + first });
  }

  #ranDry(at, missing, events) {
    if (this.#ended && !this.over) {
      this.over = true;
      events.push({ type: "over", at });
    } else if (this.#heard) {
      this.#dry = true;
      this.#missed = missing;
    }
  }
}

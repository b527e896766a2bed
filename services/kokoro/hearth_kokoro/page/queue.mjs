// Sound that waits to be played. It knows no clock and no browser, so that a test can play it.

// Softer than this is taken for silence: the models' own begins near 0.0001.
const AUDIBLE = 0.001;

/** Parts of sound in their order, taken out in blocks of any size. */
export class SoundQueue {
  #parts = [];
  #at = 0;
  #waiting = 0;
  #taken = 0;
  #heard = false;
  #dry = false;
  #missed = 0;
  #ended = false;
  #resume;

  /** After it ran dry it goes on when `resume` samples wait, and not for each crumb. */
  constructor(resume) {
    this.#resume = resume;
    this.over = false;
  }

  /** How many samples were taken out so far. */
  get taken() {
    return this.#taken;
  }

  /** Add samples; the first ones of a piece of text say its number. */
  push(samples, piece = null) {
    this.#parts.push({ samples, piece });
    this.#waiting += samples.length;
  }

  /** Say that nothing more comes. */
  end() {
    this.#ended = true;
  }

  /**
   * Fill `out`, with silence where there is nothing, and return what happened at which sample:
   * `first` (the first one that can be heard), `piece` (its text begins), `stall` (sound came too
   * late, by so many samples), `over`.
   */
  pull(out) {
    const notes = [];
    if (this.#dry && !this.#goesOn(notes)) {
      out.fill(0);
      this.#missed += out.length;
      return notes;
    }
    const filled = this.#fill(out, notes);
    if (filled < out.length) {
      out.fill(0, filled);
      this.#ranDry(filled, out.length - filled, notes);
    }
    return notes;
  }

  #goesOn(notes) {
    if (this.#ended && this.#waiting === 0) {
      // What was missing was only the word that it is the end: nobody heard a gap.
      this.#dry = false;
      return true;
    }
    if (this.#waiting < this.#resume && !this.#ended) return false;
    notes.push({ type: "stall", at: 0, samples: this.#missed });
    this.#dry = false;
    return true;
  }

  #fill(out, notes) {
    let filled = 0;
    while (filled < out.length && this.#parts.length > 0) {
      const { samples, piece } = this.#parts[0];
      if (this.#at === 0 && piece !== null) notes.push({ type: "piece", at: filled, piece });
      const taken = samples.subarray(this.#at, this.#at + out.length - filled);
      out.set(taken, filled);
      this.#listen(taken, filled, notes);
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

  #listen(taken, filled, notes) {
    if (this.#heard) return;
    const first = taken.findIndex((sample) => Math.abs(sample) > AUDIBLE);
    if (first < 0) return;
    this.#heard = true;
    notes.push({ type: "first", at: filled + first });
  }

  #ranDry(at, missing, notes) {
    if (this.#ended && !this.over) {
      this.over = true;
      notes.push({ type: "over", at });
    } else if (this.#heard) {
      this.#dry = true;
      this.#missed = missing;
    }
  }
}

// What was said, line by line, and what is being said.

/** The lines of a talk or of a file, each `{text, start_s, end_s, felt_ms?}`. */
export class Sheet {
  #lines = [];
  #base_s = 0;
  #written = -1;
  #guesses = new Map();

  /** What is being said, and what was said and is not written yet: each `{stable, rest}`. */
  get guesses() {
    return [...this.#guesses.values()];
  }

  get lines() {
    return this.#lines;
  }

  /** All of it as plain text, one line each. */
  get text() {
    return this.#lines.map(({ text }) => text).join("\n");
  }

  /** Go on with another talk: its times come after those that are here, of `seconds` of sound. */
  goOn(seconds) {
    this.#base_s += seconds;
    this.#written = -1;
    this.#guesses.clear();
  }

  /** Forget all. */
  clear() {
    this.#lines = [];
    this.#base_s = 0;
    this.goOn(0);
  }

  /** Somebody began to speak: a line will come. */
  begin({ utterance }) {
    this.guess({ utterance, text: "", stable: "" });
  }

  /** Show a guess at what is being said, whose first `stable` characters will not change. */
  guess({ utterance, text, stable }) {
    // A guess that is late is of a line that stands here already.
    if (utterance <= this.#written) return;
    const kept = text.startsWith(stable ?? "") ? (stable ?? "") : "";
    this.#guesses.set(utterance, { stable: kept.trimStart(), rest: restOf(text, kept) });
  }

  /** Write a line down, once; return it, or null for one that says nothing or stands here. */
  write({ utterance, ...said }) {
    if (utterance <= this.#written) return null;
    this.#written = utterance;
    // What is being said by now stays.
    for (const one of this.#guesses.keys()) if (one <= utterance) this.#guesses.delete(one);
    return this.add(said);
  }

  /** Add a line of a file; return it, or null for one that says nothing. */
  add({ text, start_s, end_s, felt_ms = null }) {
    if (!text.trim()) return null;
    const base = this.#base_s;
    const times = { start_s: base + start_s, end_s: base + end_s };
    const line = { text: text.trim(), ...times, felt_ms };
    this.#lines.push(line);
    return line;
  }
}

/** Return the middle one of some numbers; null of none. */
export function median(numbers) {
  const sorted = [...numbers].sort((one, two) => one - two);
  const half = sorted.length >> 1;
  if (!sorted.length) return null;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

function restOf(text, kept) {
  return kept ? text.slice(kept.length) : text.trimStart();
}

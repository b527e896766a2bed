// The transcript: its lines, and the partial results after them.

/** The lines of live sessions or of a file, each `{text, start_s, end_s, delay_ms?}`. */
export class Transcript {
  #lines = [];
  #base_s = 0;
  #lastFinal = -1;
  #partials = new Map();

  /** The partial results of utterances without a final yet: each `{stable, rest}`. */
  get partials() {
    return [...this.#partials.values()];
  }

  get lines() {
    return this.#lines;
  }

  /** All lines as plain text. */
  get text() {
    return this.#lines.map(({ text }) => text).join("\n");
  }

  /** Start another session, whose times follow the `seconds` of the one before. */
  continueAfter(seconds) {
    this.#base_s += seconds;
    this.#lastFinal = -1;
    this.#partials.clear();
  }

  /** Delete all lines. */
  clear() {
    this.#lines = [];
    this.#base_s = 0;
    this.continueAfter(0);
  }

  /** Speech has started: show an empty partial result. */
  startUtterance({ utterance }) {
    this.setPartial({ utterance, text: "", stable: "" });
  }

  /** Replace an utterance's partial result, whose `stable` prefix will not change. */
  setPartial({ utterance, text, stable }) {
    // A late partial result, after its final.
    if (utterance <= this.#lastFinal) return;
    const prefix = text.startsWith(stable ?? "") ? (stable ?? "") : "";
    const rest = prefix ? text.slice(prefix.length) : text.trimStart();
    this.#partials.set(utterance, { stable: prefix.trimStart(), rest });
  }

  /** Add an utterance's final, once; return its line, or null for an empty or repeated one. */
  addFinal({ utterance, ...line }) {
    if (utterance <= this.#lastFinal) return null;
    this.#lastFinal = utterance;
    // Partial results of later utterances stay.
    for (const number of this.#partials.keys()) if (number <= utterance) this.#partials.delete(number);
    return this.addLine(line);
  }

  /** Add a line; return it, or null for an empty one. */
  addLine({ text, start_s, end_s, delay_ms = null }) {
    if (!text.trim()) return null;
    const base = this.#base_s;
    const times = { start_s: base + start_s, end_s: base + end_s };
    const line = { text: text.trim(), ...times, delay_ms };
    this.#lines.push(line);
    return line;
  }
}

/** Return the median of some numbers; null for none. */
export function median(numbers) {
  const sorted = [...numbers].sort((one, two) => one - two);
  const half = sorted.length >> 1;
  if (!sorted.length) return null;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

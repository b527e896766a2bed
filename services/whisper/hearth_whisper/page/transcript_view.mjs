// The transcript on the page.

import { timeText } from "./export.mjs";

// A reader this close to the end follows the text; further up, the view stays.
const NEAR_PX = 48;

export class TranscriptView {
  #box;
  #lines;
  #partial;
  #rows = 0;

  constructor(box, lines, partial) {
    this.#box = box;
    this.#lines = lines;
    this.#partial = partial;
  }

  /** Add a line at the end. */
  addLine(line) {
    this.#following(() => this.#lines.append(rowOf(line)));
    this.#rows += 1;
    this.#updateHint();
  }

  /** Show partial results, each `{stable, rest}`. */
  showPartials(partials) {
    this.#following(() => {
      this.#partial.replaceChildren(...partials.map(partialOf));
      this.#partial.classList.toggle("live", partials.length > 0);
    });
    this.#updateHint();
  }

  /** Remove everything. */
  clear() {
    this.#lines.replaceChildren();
    this.#rows = 0;
    this.showPartials([]);
  }

  #updateHint() {
    const isLive = this.#partial.classList.contains("live");
    this.#box.classList.toggle("empty", this.#rows === 0 && !isLive);
  }

  // Change the content, and scroll along if the end was visible.
  #following(change) {
    const box = this.#box;
    const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
    change();
    if (isNear) box.scrollTop = box.scrollHeight;
  }
}

function partialOf({ stable, rest }) {
  const element = elementOf("span", "utterance", stable);
  element.append(elementOf("span", "rest", rest));
  return element;
}

function rowOf({ text, start_s, delay_ms }) {
  const row = document.createElement("li");
  row.append(elementOf("time", "time", timeText(start_s)), elementOf("span", "text", text));
  if (delay_ms !== null) {
    const delay = elementOf("span", "delay", `${(delay_ms / 1000).toFixed(2)} s`);
    delay.title = "Delay from the last word to this line";
    row.append(delay);
  }
  return row;
}

function elementOf(name, className, text) {
  const element = document.createElement(name);
  element.className = className;
  element.textContent = text;
  return element;
}

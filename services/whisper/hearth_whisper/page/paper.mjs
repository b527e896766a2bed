// The sheet as people read it.

import { momentOf } from "./written.mjs";

// So near to its end somebody reads along, and it moves with the text.
const NEAR_PX = 48;

/** Shows lines and what is being said; whoever reads further up is left there. */
export class Paper {
  #box;
  #lines;
  #partial;
  #rows = 0;

  constructor(box, lines, partial) {
    this.#box = box;
    this.#lines = lines;
    this.#partial = partial;
  }

  /** Add the line that was written last. */
  add(line) {
    this.#moving(() => this.#lines.append(rowOf(line)));
    this.#rows += 1;
    this.#hint();
  }

  /** Show what is being said: guesses, each `{stable, rest}`. */
  guess(guesses) {
    this.#moving(() => {
      this.#partial.replaceChildren(...guesses.map(guessOf));
      this.#partial.classList.toggle("live", guesses.length > 0);
    });
    this.#hint();
  }

  /** Show nothing. */
  clear() {
    this.#lines.replaceChildren();
    this.#rows = 0;
    this.guess([]);
  }

  #hint() {
    const isLive = this.#partial.classList.contains("live");
    this.#box.classList.toggle("empty", this.#rows === 0 && !isLive);
  }

  #moving(act) {
    const box = this.#box;
    const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
    act();
    if (isNear) box.scrollTop = box.scrollHeight;
  }
}

function guessOf({ stable, rest }) {
  const one = part("span", "guess", stable);
  one.append(part("span", "rest", rest));
  return one;
}

function rowOf({ text, start_s, felt_ms }) {
  const row = document.createElement("li");
  row.append(part("time", "moment", momentOf(start_s)), part("span", "said", text));
  if (felt_ms !== null) {
    const felt = part("span", "felt", `${(felt_ms / 1000).toFixed(2)} s`);
    felt.title = "Delay from the last word to this line";
    row.append(felt);
  }
  return row;
}

function part(name, kind, text) {
  const one = document.createElement(name);
  one.className = kind;
  one.textContent = text;
  return one;
}

// The text as it is written, with what is being spoken marked in it.

/** Return where a piece of a text stands, without the spaces around it; null if it does not. */
export function placeOf(text, piece, from) {
  const words = piece.trim();
  const at = words ? text.indexOf(words, from) : -1;
  return at < 0 ? null : { begin: at, end: at + words.length };
}

/** A textarea, and behind it a mirror of the same shape that shows through. */
export class Paper {
  #field;
  #mirror;
  #said = null;
  #from = 0;

  constructor(field, mirror) {
    this.#field = field;
    this.#mirror = mirror;
    field.addEventListener("scroll", () => this.#follow(), { passive: true });
    // Another text: what is spoken stands in it no more.
    field.addEventListener("input", () => this.clear());
    new ResizeObserver(() => this.#follow()).observe(field);
  }

  /** Begin to mark the pieces of the text that stands here now. */
  begin(text) {
    this.clear();
    if (text === this.#field.value) this.#said = text;
  }

  /** Mark the next piece. */
  show(piece) {
    const place = this.#said === null ? null : placeOf(this.#said, piece, this.#from);
    if (!place) return;
    this.#from = place.end;
    const mark = document.createElement("mark");
    mark.textContent = this.#said.slice(place.begin, place.end);
    const rest = this.#said.slice(place.end);
    // A mirror that ends with a line break would be one line shorter than the field.
    this.#mirror.replaceChildren(this.#said.slice(0, place.begin), mark, `${rest}\u200b`);
    this.#bring(mark);
  }

  /** Mark nothing. */
  clear() {
    this.#said = null;
    this.#from = 0;
    this.#mirror.replaceChildren();
  }

  #bring(mark) {
    const { scrollTop, clientHeight } = this.#field;
    const inside =
      mark.offsetTop >= scrollTop && mark.offsetTop + mark.offsetHeight <= scrollTop + clientHeight;
    if (!inside) this.#field.scrollTop = mark.offsetTop - clientHeight / 4;
    this.#follow();
  }

  #follow() {
    this.#mirror.scrollTop = this.#field.scrollTop;
  }
}

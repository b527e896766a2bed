// Highlights the segment that is being spoken in the text field.

/** Return the position of a segment in the text, without outer spaces; null if it is missing. */
export function placeOf(text, segment, from) {
  const words = segment.trim();
  const at = words ? text.indexOf(words, from) : -1;
  return at < 0 ? null : { begin: at, end: at + words.length };
}

/** A textarea with a mirror of the same shape behind it, whose marks show through. */
export class TextHighlighter {
  #field;
  #mirror;
  #text = null;
  #from = 0;

  constructor(field, mirror) {
    this.#field = field;
    this.#mirror = mirror;
    field.addEventListener("scroll", () => this.#syncScroll(), { passive: true });
    // The text changed, so positions in it are no longer valid.
    field.addEventListener("input", () => this.clear());
    new ResizeObserver(() => this.#syncScroll()).observe(field);
  }

  /** Start to highlight this text, if the field contains it. */
  begin(text) {
    this.clear();
    if (text === this.#field.value) this.#text = text;
  }

  /** Highlight the next segment. */
  show(segment) {
    const place = this.#text === null ? null : placeOf(this.#text, segment, this.#from);
    if (!place) return;
    this.#from = place.end;
    const mark = document.createElement("mark");
    mark.textContent = this.#text.slice(place.begin, place.end);
    const rest = this.#text.slice(place.end);
    // Without the last character a mirror that ends with a line break is one line too short.
    this.#mirror.replaceChildren(this.#text.slice(0, place.begin), mark, `${rest}\u200b`);
    this.#scrollTo(mark);
  }

  /** Remove the highlight. */
  clear() {
    this.#text = null;
    this.#from = 0;
    this.#mirror.replaceChildren();
  }

  #scrollTo(mark) {
    const { scrollTop, clientHeight } = this.#field;
    const inside =
      mark.offsetTop >= scrollTop && mark.offsetTop + mark.offsetHeight <= scrollTop + clientHeight;
    if (!inside) this.#field.scrollTop = mark.offsetTop - clientHeight / 4;
    this.#syncScroll();
  }

  #syncScroll() {
    this.#mirror.scrollTop = this.#field.scrollTop;
  }
}

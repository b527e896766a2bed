// The settings on the page, stored until the tab is closed.

const STORED = "hearth-whisper-choice";
const SETTINGS = ["language", "prompt", "silence", "format"];

export class Controls {
  #by;
  #language = "";

  /** `by` returns an element by its id. */
  constructor(by) {
    this.#by = by;
    const stored = readStored();
    for (const id of SETTINGS) {
      if (stored[id] !== undefined) by(id).value = stored[id];
      by(id).addEventListener("input", () => this.#changed(id));
    }
    this.#language = stored.language ?? "";
    this.#showSilence();
  }

  /** Offer the languages of this model. */
  setModel(model) {
    const languages = languagesOf(model);
    const single = languages.length === 1;
    const options = languages.map(({ code, name }) => new Option(name, code));
    if (!single) options.unshift(new Option("detect automatically", ""));
    this.#by("language").replaceChildren(...options);
    const isOffered = languages.some(({ code }) => code === this.#language);
    this.#by("language").value = isOffered ? this.#language : single ? languages[0].code : "";
    this.#by("language").disabled = single;
    this.#by("model").textContent = model;
  }

  /** The options of a request for a file. */
  get fileOptions() {
    const values = { language: this.#by("language").value, prompt: this.#by("prompt").value.trim() };
    return Object.fromEntries(Object.entries(values).filter(([, value]) => value));
  }

  /** The options of a live session. */
  get liveOptions() {
    return { ...this.fileOptions, end_of_speech_ms: this.silence_ms };
  }

  /** The silence that ends a line. */
  get silence_ms() {
    return Number(this.#by("silence").value);
  }

  get format() {
    return this.#by("format").value;
  }

  #changed(id) {
    if (id === "language") this.#language = this.#by("language").value;
    this.#showSilence();
    const values = SETTINGS.map((name) => [name, this.#by(name).value]);
    sessionStorage.setItem(STORED, JSON.stringify(Object.fromEntries(values)));
  }

  #showSilence() {
    this.#by("silence-shown").textContent = `${(this.silence_ms / 1000).toFixed(1)} s`;
  }
}

function readStored() {
  try {
    return JSON.parse(sessionStorage.getItem(STORED)) ?? {};
  } catch {
    return {};
  }
}

const CODES =
  "af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he " +
  "hi hr ht hu hy id is it ja jw ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne nl " +
  "nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw ta te tg th tk tl tr tt uk ur uz " +
  "vi yi yo zh yue";

/** Return `{code, name}` of every language that a model supports, sorted by name. */
export function languagesOf(model) {
  const codes = /\.en$/.test(model) ? ["en"] : CODES.split(" ");
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  const known = codes.map((code) => ({ code, name: names.of(code) }));
  return known.sort((one, two) => one.name.localeCompare(two.name, "en"));
}

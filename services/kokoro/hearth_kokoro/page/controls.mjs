// The controls of the page: text, voice, blend, speed and format, also as a link.

import { readLink, writeLink } from "./link.mjs";
import { EXAMPLES, blendOf, groupsOf, readVoice } from "./voices.mjs";

const KEPT_FORM = "hearth-kokoro-form";
const KEPT_LINK = "hearth-kokoro-link";
const USUAL_VOICE = "af_heart";

/** The controls of the page, by their ids. */
export class Controls {
  #by;
  #limit;
  #ids = [];
  #aliases = {};
  #languages = new Map();
  // The requested voice, until the voices are loaded.
  #wanted;

  /** `by(id)` returns an element; `limit` is the longest text, in characters. */
  constructor(by, limit) {
    this.#by = by;
    this.#limit = limit;
    for (const id of ["text", "voice", "blend", "weight", "speed", "format"]) {
      by(id).addEventListener("input", () => this.#changed(id));
    }
    this.fill({ text: EXAMPLES["en-us"], ...initialValues() });
    addEventListener("hashchange", () => this.fill(readLink(location.hash)));
    // The text survives a reload and the login.
    addEventListener("pagehide", () => storeForm(this.link));
  }

  /** Offer these voices, and select the one of the link or of the last visit. */
  offer({ voices, openai_voices: aliases, unsupported_languages: unsupported }) {
    // Voices may be offered again after a key was entered: the selection stays.
    if (this.#ids.length) this.#wanted = this.voice;
    this.#ids = voices.map((voice) => voice.id);
    this.#aliases = aliases;
    this.#languages = new Map(voices.map((voice) => [voice.id, voice.language]));
    const groups = groupsOf(voices, unsupported);
    this.#by("voice").replaceChildren(...groups.map((group) => optionsOf(group, group.refused)));
    // Only the first voice decides the language.
    const second = groups.map((group) => optionsOf({ ...group, label: languageOf(group.label) }, false));
    this.#by("blend").replaceChildren(new Option("none", ""), ...second);
    const usual = this.#ids.includes(USUAL_VOICE) ? USUAL_VOICE : this.#ids[0];
    this.fill({ voice: this.#wanted ?? usual });
    this.#changed("voice");
  }

  /** Set the given values. */
  fill({ text, voice, speed, format }) {
    if (text !== undefined) this.#put("text", text);
    if (speed !== undefined) this.#by("speed").value = speed;
    if (format !== undefined) this.#by("format").value = format;
    if (voice !== undefined) this.#wanted = voice;
    if (this.#ids.length && voice) this.#choose(readVoice(voice, this.#ids, this.#aliases));
    this.#show();
  }

  get text() {
    return this.#by("text").value;
  }

  /** The server's name of the selected voice or blend. */
  get voice() {
    const { value: first } = this.#by("voice");
    return blendOf(first, this.#by("blend").value, Number(this.#by("weight").value));
  }

  get speed() {
    return Number(this.#by("speed").value);
  }

  get format() {
    return this.#by("format").value;
  }

  /** Return the request for `text`. */
  request(text = this.text) {
    const voice = this.voice ? { voice: this.voice } : {};
    const early = this.#by("start").value === "early" ? { early: true } : {};
    return { input: text, ...voice, speed: this.speed, ...early };
  }

  /** An example text in the language of the selected voice. */
  get sample() {
    return EXAMPLES[this.#languages.get(this.#by("voice").value)] ?? EXAMPLES["en-us"];
  }

  /** The link that restores all of this. */
  get link() {
    return writeLink({
      text: this.text,
      voice: this.voice || this.#wanted,
      speed: this.speed,
      format: this.format,
    });
  }

  #choose({ first, second = "", share = 50 }) {
    const field = this.#by("voice");
    // A voice that the list cannot show, such as a blend of three, is sent unchanged.
    if (!this.#ids.includes(first)) field.prepend(new Option(first, first));
    field.value = first;
    this.#by("blend").value = second;
    this.#by("weight").value = share;
  }

  #changed(id) {
    const isExample = Object.values(EXAMPLES).includes(this.text);
    // An example text follows the language of the voice.
    if (id === "voice" && isExample) this.#put("text", this.sample);
    this.#show();
  }

  #put(id, value) {
    if (this.#by(id).value === value) return;
    this.#by(id).value = value;
    this.#by(id).dispatchEvent(new Event("input"));
  }

  #show() {
    const share = this.#by("weight").value;
    this.#by("weight-field").hidden = !this.#by("blend").value;
    this.#by("weight-shown").textContent = `${share} %`;
    this.#by("speed-shown").textContent = `${this.speed}×`;
    this.#by("voice-name").textContent = this.voice;
    this.#by("permalink").href = this.link;
    const { length } = [...this.text];
    const near = length > this.#limit / 2;
    const limit = this.#limit.toLocaleString("en");
    this.#by("count").textContent = near ? `${length.toLocaleString("en")} of ${limit}` : "";
    this.#by("count").classList.toggle("alert", length > this.#limit);
  }
}

/** Return the values of the link, or those from the last visit to this page. */
function initialValues() {
  const here = readLink(location.hash);
  const kept = sessionStorage.getItem(KEPT_FORM);
  // The same link must not undo later edits.
  const isSame = sessionStorage.getItem(KEPT_LINK) === location.hash;
  return kept !== null && (isSame || Object.keys(here).length === 0) ? readLink(kept) : here;
}

function storeForm(form) {
  sessionStorage.setItem(KEPT_FORM, form);
  sessionStorage.setItem(KEPT_LINK, location.hash);
}

function optionsOf({ label, voices }, refused) {
  const group = document.createElement("optgroup");
  group.label = label;
  group.disabled = refused;
  group.append(...voices.map((voice) => new Option(voice.label, voice.id)));
  return group;
}

function languageOf(label) {
  return label.split(":")[0];
}

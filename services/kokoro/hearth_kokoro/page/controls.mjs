// What can be chosen: text, voice, blend, speed, format; as one value, and as a link.

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
  // The voice that is asked for before the voices are known.
  #wanted;

  /** `by(id)` returns an element; `limit` is the longest text, in characters. */
  constructor(by, limit) {
    this.#by = by;
    this.#limit = limit;
    for (const id of ["text", "voice", "blend", "weight", "speed", "format"]) {
      by(id).addEventListener("input", () => this.#changed(id));
    }
    this.fill({ text: EXAMPLES["en-us"], ...toBegin() });
    addEventListener("hashchange", () => this.fill(readLink(location.hash)));
    // A reload, or the login, comes back to the same text.
    addEventListener("pagehide", () => keep(this.link));
  }

  /** Offer these voices, and choose what the address or this tab's memory says. */
  offer({ voices, openai_voices: aliases, unread }) {
    // Offered again, after a key was asked for: what is chosen by now stays chosen.
    if (this.#ids.length) this.#wanted = this.voice;
    this.#ids = voices.map((voice) => voice.id);
    this.#aliases = aliases;
    this.#languages = new Map(voices.map((voice) => [voice.id, voice.language]));
    const groups = groupsOf(voices, unread);
    this.#by("voice").replaceChildren(...groups.map((group) => optionsOf(group, group.refused)));
    // Only the first voice says which language is spoken.
    const second = groups.map((group) => optionsOf({ ...group, label: plain(group.label) }, false));
    this.#by("blend").replaceChildren(new Option("none", ""), ...second);
    const usual = this.#ids.includes(USUAL_VOICE) ? USUAL_VOICE : this.#ids[0];
    this.fill({ voice: this.#wanted ?? usual });
    this.#changed("voice");
  }

  /** Fill in what is given, and leave the rest. */
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

  /** How the server calls what is chosen: a voice or a blend. */
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

  /** What is asked of the server: for `text`, or for a sample of the voice. */
  asked(text = this.text) {
    const voice = this.voice ? { voice: this.voice } : {};
    return { input: text, ...voice, speed: this.speed };
  }

  /** A few sentences in the language of the chosen voice. */
  get sample() {
    return EXAMPLES[this.#languages.get(this.#by("voice").value)] ?? EXAMPLES["en-us"];
  }

  /** The fragment that brings all this back. */
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
    // A voice that the list cannot show, such as a blend of three, is asked for as it is.
    if (!this.#ids.includes(first)) field.prepend(new Option(first, first));
    field.value = first;
    this.#by("blend").value = second;
    this.#by("weight").value = share;
  }

  #changed(id) {
    const isExample = Object.values(EXAMPLES).includes(this.text);
    // What nobody has written yet follows the language of the voice.
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

/** Return what the address asks for, or what was on this very page when it was left. */
function toBegin() {
  const here = readLink(location.hash);
  const kept = sessionStorage.getItem(KEPT_FORM);
  // A link is no reason to lose what was written on it since.
  const isSame = sessionStorage.getItem(KEPT_LINK) === location.hash;
  return kept !== null && (isSame || Object.keys(here).length === 0) ? readLink(kept) : here;
}

function keep(form) {
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

function plain(label) {
  return label.split(":")[0];
}

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Controls } from "../../../hearth_kokoro/page/controls.mjs";
import { readLink } from "../../../hearth_kokoro/page/link.mjs";

/** As much of an element as the controls use. */
class Field extends EventTarget {
  value = "";
  options = [];
  classList = { toggle() {} };
  replaceChildren(...options) {
    this.options = options;
  }
  prepend(option) {
    this.options.unshift(option);
  }
  append() {}
}

const OFFERED = {
  voices: [
    { id: "af_heart", language: "en-us" },
    { id: "bf_emma", language: "en-gb" },
  ],
  openai_voices: {},
  unsupported_languages: {},
};
const EDITED = "A text that was edited later.";
let tab;

/** Open the page at an address, in the same tab. */
function open(hash = "") {
  const fields = { speed: Object.assign(new Field(), { value: "1" }) };
  fields.format = Object.assign(new Field(), { value: "mp3" });
  fields.weight = Object.assign(new Field(), { value: "50" });
  const by = (id) => (fields[id] ??= new Field());
  const page = new EventTarget();
  globalThis.addEventListener = page.addEventListener.bind(page);
  globalThis.location = { hash };
  const controls = new Controls(by, 1000);
  return { by, controls, leave: () => page.dispatchEvent(new Event("pagehide")), page };
}

beforeEach(() => {
  tab = new Map();
  globalThis.sessionStorage = {
    getItem: (name) => tab.get(name) ?? null,
    setItem: (name, value) => tab.set(name, String(value)),
  };
  globalThis.document = { createElement: () => new Field() };
  globalThis.Option = class {
    constructor(label, value) {
      Object.assign(this, { label, value });
    }
  };
});

test("an edited text survives a reload of a page with a link", () => {
  const first = open("#text=Linked.&voice=bf_emma");
  first.controls.offer(OFFERED);
  assert.equal(first.controls.text, "Linked.");
  first.by("text").value = EDITED;
  first.leave();
  const again = open("#text=Linked.&voice=bf_emma");
  again.controls.offer(OFFERED);
  assert.deepEqual([again.controls.text, again.controls.voice], [EDITED, "bf_emma"]);
});

test("another link in the same tab replaces the text and the voice", () => {
  const first = open("#text=Linked.&voice=bf_emma");
  first.controls.offer(OFFERED);
  first.leave();
  const other = open("#text=Another.");
  other.controls.offer(OFFERED);
  assert.deepEqual([other.controls.text, other.controls.voice], ["Another.", "af_heart"]);
});

test("settings survive a page that is left before the voices load", () => {
  const first = open();
  first.controls.offer(OFFERED);
  first.controls.fill({ text: EDITED, voice: "bf_emma", speed: 1.5, format: "opus" });
  first.leave();
  open().leave();
  const last = open();
  const kept = { text: EDITED, voice: "bf_emma", speed: 1.5, format: "opus" };
  assert.deepEqual(readLink(last.controls.link), kept);
  last.controls.offer(OFFERED);
  assert.deepEqual(readLink(last.controls.link), kept);
});

test("reloading the list of voices keeps the selected voice", () => {
  const { by, controls } = open("#voice=af_heart");
  controls.offer(OFFERED);
  by("voice").value = "bf_emma";
  controls.offer(OFFERED);
  assert.equal(controls.voice, "bf_emma");
});

test("a link that is opened before the voices load selects its voice", () => {
  const { controls, page } = open();
  location.hash = "#text=Followed.&voice=bf_emma";
  page.dispatchEvent(new Event("hashchange"));
  controls.offer(OFFERED);
  assert.deepEqual([controls.text, controls.voice], ["Followed.", "bf_emma"]);
});

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

/** The part of an element that the page uses. */
class Element extends EventTarget {
  dataset = {};
  textContent = "";
  value = "";
  rows = [];
  #classes = new Set();
  classList = {
    add: (name) => this.#classes.add(name),
    remove: (name) => this.#classes.delete(name),
    toggle: (name, on) => (on ? this.#classes.add(name) : this.#classes.delete(name)),
    contains: (name) => this.#classes.has(name),
  };
  replaceChildren(...parts) {
    this.rows = parts;
    this.textContent = parts.map((part) => part.textContent ?? part).join("");
  }
  append(...parts) {
    this.rows.push(...parts);
  }
  removeAttribute() {}
  getContext() {
    return { scale() {} };
  }
}

const elements = {};
const by = (id) => (elements[id] ??= new Element());
const main = Object.assign(new Element(), {
  dataset: { state: "idle", keyWanted: "no", uploadBytes: "2000000" },
});
by("status").textContent = "Press Talk.";

globalThis.document = {
  getElementById: by,
  querySelector: () => main,
  createElement: () => new Element(),
  body: new Element(),
};
globalThis.sessionStorage = { getItem: () => null, setItem() {} };
globalThis.location = { href: "https://whisper.lan/" };
globalThis.ResizeObserver = class {
  observe() {}
};
globalThis.matchMedia = () => new Element();
globalThis.getComputedStyle = () => ({});
globalThis.Option = class {};
globalThis.Audio = class {};
globalThis.AudioContext = class {
  close() {}
};
globalThis.fetch = async () => new Response(JSON.stringify({ data: [{ id: "tiny.en" }] }));
// The request for the microphone is never answered.
Object.defineProperty(globalThis, "navigator", {
  value: { mediaDevices: { getUserMedia: () => new Promise(() => {}) } },
});

let request;
globalThis.XMLHttpRequest = class {
  upload = {};
  status = 200;
  responseText = "";
  constructor() {
    request = this;
  }
  open() {}
  send() {}
  abort() {
    this.onabort();
  }
  getResponseHeader() {
    return "text/event-stream";
  }
  receive(...events) {
    const text = (event) => `data: ${JSON.stringify(event)}\n\n`;
    this.responseText += events.map(text).join("");
    this.onprogress();
  }
};

const page = new EventTarget();
globalThis.addEventListener = page.addEventListener.bind(page);
await import("../../../hearth_whisper/page/main.mjs");

const settled = () => new Promise(setImmediate);
const segment = (text) => ({ type: "transcript.text.segment", id: "0", start: 0, end: 1, text });
const shown = () => ({ state: main.dataset.state, status: by("status").textContent });

function drop(name, size = 5) {
  const file = new File(["x".repeat(size)], name);
  page.dispatchEvent(Object.assign(new Event("drop"), { dataTransfer: { files: [file] } }));
}

function press(id) {
  by(id).dispatchEvent(new Event("click"));
}

beforeEach(async () => {
  await settled();
  press("stop");
  press("clear");
  await settled();
});

test("a file's lines are shown as they arrive", async () => {
  drop("talk.wav");
  assert.equal(shown().state, "uploading");
  request.receive(segment("One."));
  request.receive(segment("Two."));
  assert.equal(by("finals").rows.length, 2);
  assert.equal(shown().state, "uploading");
  request.receive({ type: "transcript.text.done", text: "One. Two." });
  request.onload();
  await settled();
  assert.deepEqual(shown(), { state: "done", status: "Done: talk.wav." });
  assert.equal(by("finals").rows.length, 2);
});

test("an error is shown in one line, and the lines stay", async () => {
  drop("talk.wav");
  request.receive(segment("One."), { type: "error", error: { message: "out of memory" } });
  await settled();
  assert.deepEqual(shown(), { state: "failed", status: "Out of memory." });
  assert.ok(by("status").classList.contains("alert"));
  assert.equal(by("finals").rows.length, 1);
  assert.ok(by("progress").hidden);
});

test("a file above the limit is rejected, and a running session continues", async () => {
  const reason = "film.mkv is too large: the limit is 2 MB.";
  drop("film.mkv", 3e6);
  assert.deepEqual(shown(), { state: "failed", status: reason });
  drop("talk.wav");
  request.receive(segment("One."));
  drop("film.mkv", 3e6);
  assert.deepEqual(shown(), { state: "uploading", status: reason });
  request.receive({ type: "transcript.text.done", text: "One." });
  request.onload();
  await settled();
  assert.equal(shown().state, "done");
  press("talk");
  assert.equal(shown().state, "asking");
  drop("film.mkv", 3e6);
  assert.deepEqual(shown(), { state: "asking", status: reason });
});

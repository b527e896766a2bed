import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";

class Storage extends Map {
  getItem = (key) => this.get(key) ?? null;
  setItem = (key, value) => this.set(key, value);
  removeItem = (key) => this.delete(key);
}
globalThis.localStorage = new Storage();
const { ChapterFile, describe } = await import("../../../hearth_kokoro/page/chapter.mjs");
const { ServerError } = await import("../../../hearth_kokoro/page/server.mjs");

const JOB = { id: "one", status: "speaking", voice: "af_heart", response_format: "mp3",
  characters: 100000, characters_done: 25000, audio_s: 1800, eta_s: 5400 };
let fields, shown;

/** Open the card with a server that answers by `answers`, one after the other. */
function open(...answers) {
  const calls = [];
  const server = {
    sendsKey: false,
    async job(...call) {
      calls.push(call);
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };
  const by = (id) => (fields[id] ??= Object.assign(new EventTarget(), { hidden: id === "chapter" }));
  const card = new ChapterFile(by, server, (error) => shown.push(error.message));
  return { card, by, calls };
}

// A card looks again after a while: no test waits for that.
mock.timers.enable({ apis: ["setTimeout"] });
const settled = () => new Promise((done) => setImmediate(() => setImmediate(done)));

beforeEach(() => {
  fields = {};
  shown = [];
  localStorage.clear();
});

test("a new file is remembered, and another visit shows its progress", async () => {
  const first = open(JOB);
  await first.card.make({ input: "A chapter.", speed: 1, early: true }, "mp3");
  assert.deepEqual(first.calls, [["", "POST", { input: "A chapter.", speed: 1, response_format: "mp3" }]]);
  assert.equal(localStorage.getItem("hearth-kokoro-job"), "one");
  fields = {};
  const { by, calls } = open({ ...JOB, status: "done", bytes: 14e6, characters_done: 100000 }, null);
  await settled();
  assert.deepEqual(calls, [["/one"]]);
  assert.equal(by("chapter").hidden, false);
  assert.equal(by("chapter-save").href, "/v1/audio/jobs/one/audio");
  assert.equal(by("chapter-save").hidden, false);
  by("chapter-stop").dispatchEvent(new Event("click"));
  await settled();
  assert.deepEqual(calls[1], ["/one", "DELETE"]);
  assert.equal(localStorage.getItem("hearth-kokoro-job"), null);
  assert.equal(by("chapter").hidden, true);
});

test("a file that the server has removed is forgotten", async () => {
  localStorage.setItem("hearth-kokoro-job", "old");
  const { by } = open(new ServerError("There is no such job.", null, 404));
  await settled();
  assert.equal(localStorage.getItem("hearth-kokoro-job"), null);
  assert.equal(by("chapter").hidden, true);
  assert.deepEqual(shown, []);
});

test("a new file that is refused is explained and not remembered", async () => {
  const { card } = open(new ServerError("There is no room.", null, 507));
  await card.make({ input: "A chapter." }, "mp3");
  assert.deepEqual(shown, ["There is no room."]);
  assert.equal(localStorage.getItem("hearth-kokoro-job"), null);
});

test("the progress is one line", () => {
  assert.equal(describe(JOB), "25 %, 30 min of sound; about 90 min left. You can close this page.");
  assert.equal(describe({ ...JOB, status: "failed", error: "no voice" }), "It failed: no voice");
});

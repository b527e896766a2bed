import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { Stage } from "../../../hearth_kokoro/page/stage.mjs";

const calls = [];

class Context {
  destination = {};
  audioWorklet = { addModule: async () => {} };
  createAnalyser = () => ({ connect() {} });
  resume = async () => calls.push("resume");
  suspend = async () => calls.push("suspend");
}
Context.prototype.audioWorklet = null;

class Node {
  port = { postMessage() {} };
  connect() {}
  disconnect() {}
}

test("the sound sleeps when nothing plays, and never while something does", async () => {
  Object.assign(globalThis, { AudioContext: Context, AudioWorklet: Node, AudioWorkletNode: Node });
  mock.timers.enable({ apis: ["setTimeout"] });
  const stage = new Stage();
  stage.prepare();
  mock.timers.tick(3600_000);
  assert.deepEqual(calls.splice(0), ["suspend"]);
  assert.equal((await stage.open({})).path, "worklet");
  const second = await stage.open({});
  // The first one ends after the second has begun: a press while it speaks.
  stage.close();
  mock.timers.tick(3600_000);
  assert.deepEqual(calls.splice(0), ["resume", "resume"]);
  stage.close();
  mock.timers.tick(3600_000);
  assert.deepEqual(calls.splice(0), ["suspend"]);
  assert.ok(second);
});

test("where there is no worklet, or an old page finds none, the whole is played", async () => {
  const audio = { play: async () => {} };
  const lead = () => ({ connect() {} });
  globalThis.Audio = class {
    constructor() {
      return audio;
    }
  };
  class Old extends Context {
    audioWorklet = { addModule: () => Promise.reject(new Error("404")) };
    createMediaElementSource = lead;
  }
  globalThis.AudioContext = Old;
  assert.equal((await new Stage().open({})).path, "blob");
  delete globalThis.AudioWorklet;
  assert.equal((await new Stage().open({})).path, "blob");
  // So that it may play when the whole is there, long after the press.
  assert.match(audio.src, /^blob:/);
  delete globalThis.AudioContext;
  assert.equal((await new Stage().open({})).path, "blob");
});

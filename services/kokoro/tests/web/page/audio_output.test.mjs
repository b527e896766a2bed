import assert from "node:assert/strict";
import { resolveObjectURL } from "node:buffer";
import { mock, test } from "node:test";

import { AudioOutput } from "../../../hearth_kokoro/page/audio_output.mjs";

const calls = [];
mock.timers.enable({ apis: ["setTimeout"] });

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
  const output = new AudioOutput();
  output.prepare();
  mock.timers.tick(3600_000);
  assert.deepEqual(calls.splice(0), ["suspend"]);
  assert.equal((await output.open({})).path, "worklet");
  const second = await output.open({});
  // The first one ends after the second has begun: a press while it speaks.
  output.close();
  mock.timers.tick(3600_000);
  assert.deepEqual(calls.splice(0), ["resume", "resume"]);
  output.close();
  mock.timers.tick(3600_000);
  assert.deepEqual(calls.splice(0), ["suspend"]);
  assert.ok(second);
});

/** Have this element play, in a browser where a page that is too old finds no worklet. */
function hearBy(audio) {
  globalThis.Audio = class {
    constructor() {
      return audio;
    }
  };
  globalThis.AudioContext = class extends Context {
    audioWorklet = { addModule: () => Promise.reject(new Error("404")) };
    createMediaElementSource = () => ({ connect() {} });
  };
}

test("where there is no worklet, or an old page finds none, the whole is played", async () => {
  const audio = { play: async () => {} };
  hearBy(audio);
  assert.equal((await new AudioOutput().open({})).path, "blob");
  delete globalThis.AudioWorklet;
  assert.equal((await new AudioOutput().open({})).path, "blob");
  // So that it may play when the whole is there, long after the press.
  assert.match(audio.src, /^blob:/);
  delete globalThis.AudioContext;
  assert.equal((await new AudioOutput().open({})).path, "blob");
});

test("who stops before the whole is there may still hear the next one", async () => {
  const audio = { play: async () => {}, pause() {}, removeAttribute() {} };
  hearBy(audio);
  delete globalThis.AudioWorklet;
  const output = new AudioOutput();
  const sink = await output.open({});
  const unlocking = audio.src;
  assert.ok(resolveObjectURL(unlocking));
  sink.stop();
  const next = await output.open({});
  assert.equal(audio.src, unlocking);
  assert.ok(resolveObjectURL(unlocking), "the silence that unlocks the element is gone");
  next.push(new Uint8Array(4), 0);
  next.end();
  const whole = audio.src;
  assert.ok(resolveObjectURL(whole));
  next.stop();
  assert.equal(resolveObjectURL(whole), undefined);
  assert.ok(resolveObjectURL(unlocking));
});

test("a player that breaks says so, and nobody waits for room in it", async () => {
  let node;
  class Speech extends Node {
    constructor() {
      super();
      node = this;
    }
  }
  Object.assign(globalThis, { AudioContext: Context, AudioWorklet: Node, AudioWorkletNode: Speech });
  Context.prototype.sampleRate = 24000;
  const heard = [];
  const sink = await new AudioOutput().open({ failed: (message) => heard.push(message), noOutput() {} });
  sink.push(new Uint8Array(2 * 24000 * 31), 0);
  let room = false;
  const wait = sink.room().then(() => (room = true));
  await new Promise((done) => setImmediate(done));
  assert.equal(room, false);
  node.onprocessorerror();
  await new Promise((done) => setImmediate(done));
  assert.equal(room, true);
  await wait;
  assert.deepEqual(heard, ["The browser stopped playback with an error."]);
});

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

test("the audio context is suspended only while nothing plays", async () => {
  Object.assign(globalThis, { AudioContext: Context, AudioWorklet: Node, AudioWorkletNode: Node });
  const output = new AudioOutput();
  output.prepare();
  mock.timers.tick(3600_000);
  assert.deepEqual(calls.splice(0), ["suspend"]);
  assert.equal((await output.open({})).path, "worklet");
  const second = await output.open({});
  // The first one ends after the second one starts: Speak was pressed during playback.
  output.close();
  mock.timers.tick(3600_000);
  assert.deepEqual(calls.splice(0), ["resume", "resume"]);
  output.close();
  mock.timers.tick(3600_000);
  assert.deepEqual(calls.splice(0), ["suspend"]);
  assert.ok(second);
});

/** Use this audio element, in a browser where loading the worklet fails. */
function useElement(audio) {
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

test("without a worklet, the complete file is played", async () => {
  const audio = { play: async () => {} };
  useElement(audio);
  assert.equal((await new AudioOutput().open({})).path, "blob");
  delete globalThis.AudioWorklet;
  assert.equal((await new AudioOutput().open({})).path, "blob");
  // Unlocks playback for the complete file, which arrives long after the click.
  assert.match(audio.src, /^blob:/);
  delete globalThis.AudioContext;
  assert.equal((await new AudioOutput().open({})).path, "blob");
});

test("playback works again after a stop before the file was complete", async () => {
  const audio = { play: async () => {}, pause() {}, removeAttribute() {} };
  useElement(audio);
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

test("a worklet error is reported and ends the wait for room", async () => {
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

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { listen } from "../../../hearth_whisper/page/microphone.mjs";

const made = [];
let stopped = 0;
// What the browser can connect a microphone to.
let connects = () => true;
let usual_rate = 48000;

class Context {
  audioWorklet = { addModule: async () => {} };
  constructor({ sampleRate = usual_rate }) {
    this.sampleRate = sampleRate;
    made.push(this);
  }
  createMediaStreamSource() {
    if (!connects(this.sampleRate)) throw new DOMException("no", "NotSupportedError");
    return { connect() {} };
  }
  createAnalyser = () => ({});
  resume = async () => {};
  close = async () => (this.closed = true);
}

class Worklet {
  port = {};
  constructor(_context, _name, options) {
    Worklet.last = { node: this, options };
  }
}

const stream = { getTracks: () => [{ stop: () => (stopped += 1) }] };

function browser(getUserMedia, isSecureContext = true) {
  const mediaDevices = getUserMedia && { getUserMedia };
  Object.defineProperty(globalThis, "navigator", { value: { mediaDevices }, configurable: true });
  Object.assign(globalThis, { AudioContext: Context, AudioWorkletNode: Worklet, isSecureContext });
}

beforeEach(() => {
  made.length = 0;
  stopped = 0;
  connects = () => true;
  usual_rate = 48000;
});

test("it is heard at 16 kHz where the browser can, and let go of", async () => {
  browser(async () => stream);
  const heard = [];
  const microphone = await listen((part) => heard.push(part), () => {});
  assert.equal(microphone.rate, 16000);
  Worklet.last.node.port.onmessage({ data: "part" });
  assert.deepEqual(heard, ["part"]);
  microphone.close();
  assert.equal(stopped, 1);
  assert.ok(made[0].closed);
});

test("elsewhere at its own rate, and at no more than the server takes", async () => {
  browser(async () => stream);
  connects = (rate) => rate !== 16000;
  assert.equal((await listen()).rate, 48000);
  assert.ok(made[0].closed);
  usual_rate = 192000;
  assert.equal((await listen()).rate, 48000);
  assert.equal(Worklet.last.options.processorOptions.every, 4);
});

test("whoever has no microphone is told what to do", async () => {
  const reasons = { NotAllowedError: /allow it/, NotFoundError: /connect one/, NotReadableError: /another/ };
  for (const [name, words] of Object.entries(reasons)) {
    browser(async () => Promise.reject(new DOMException("", name)));
    await assert.rejects(listen(), words);
  }
  browser(undefined, false);
  await assert.rejects(listen(), /https:/);
  browser(undefined, true);
  await assert.rejects(listen(), /This browser/);
});

test("a page that is older than its server lets the microphone go, too", async () => {
  browser(async () => stream);
  Context.prototype.audioWorklet = null;
  globalThis.AudioContext = class extends Context {
    audioWorklet = { addModule: () => Promise.reject(new Error("404")) };
  };
  await assert.rejects(listen(), /reload it/);
  assert.equal(stopped, 1);
});

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { openMicrophone } from "../../../hearth_whisper/page/microphone.mjs";

const made = [];
let stopped = 0;
// Whether the browser supports a context's rate for the microphone.
let connects = () => true;
let device_rate = 48000;

class Context {
  audioWorklet = { addModule: async () => {} };
  constructor({ sampleRate = device_rate }) {
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
  device_rate = 48000;
});

test("the rate is 16 kHz if the browser supports it, and closing releases the microphone", async () => {
  browser(async () => stream);
  const chunks = [];
  const microphone = await openMicrophone((chunk) => chunks.push(chunk), () => {});
  assert.equal(microphone.rate, 16000);
  Worklet.last.node.port.onmessage({ data: "chunk" });
  assert.deepEqual(chunks, ["chunk"]);
  microphone.close();
  assert.equal(stopped, 1);
  assert.ok(made[0].closed);
});

test("otherwise the device's rate is used, up to the server's limit", async () => {
  browser(async () => stream);
  connects = (rate) => rate !== 16000;
  assert.equal((await openMicrophone()).rate, 48000);
  assert.ok(made[0].closed);
  device_rate = 192000;
  assert.equal((await openMicrophone()).rate, 48000);
  assert.equal(Worklet.last.options.processorOptions.every, 4);
});

test("an unavailable microphone has a message with advice", async () => {
  const reasons = { NotAllowedError: /allow it/, NotFoundError: /connect one/, NotReadableError: /another/ };
  for (const [name, words] of Object.entries(reasons)) {
    browser(async () => Promise.reject(new DOMException("", name)));
    await assert.rejects(openMicrophone(), words);
  }
  browser(undefined, false);
  await assert.rejects(openMicrophone(), /https:/);
  browser(undefined, true);
  await assert.rejects(openMicrophone(), /This browser/);
});

test("an outdated page releases the microphone", async () => {
  browser(async () => stream);
  Context.prototype.audioWorklet = null;
  globalThis.AudioContext = class extends Context {
    audioWorklet = { addModule: () => Promise.reject(new Error("404")) };
  };
  await assert.rejects(openMicrophone(), /reload it/);
  assert.equal(stopped, 1);
});

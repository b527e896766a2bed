import assert from "node:assert/strict";
import { test } from "node:test";

// What a browser's audio thread has.
const known = {};
globalThis.AudioWorkletProcessor = class {
  port = {
    parts: [],
    postMessage(part, [buffer]) {
      assert.equal(buffer, part.buffer);
      this.parts.push(part);
    },
  };
};
globalThis.registerProcessor = (name, kind) => (known[name] = kind);
await import("../../../hearth_whisper/page/worklet.mjs");

/** A microphone of so many samples a second, of which `every` become one. */
function microphone(rate, every = 1) {
  globalThis.sampleRate = rate;
  return new known["hearth-microphone"]({ processorOptions: { every } });
}

const block = (value, length = 128) => new Float32Array(length).fill(value);

test("blocks become parts of 32 ms, and no sample is lost between them", () => {
  const one = microphone(16000);
  for (let i = 0; i < 9; i += 1) {
    assert.ok(one.process([[Float32Array.from(block(0), (_, k) => (128 * i + k) / 32767)]]));
  }
  const { parts } = one.port;
  assert.deepEqual(parts.map(({ length }) => length), [512, 512]);
  assert.deepEqual([...parts[0], ...parts[1]], Array.from({ length: 1024 }, (_, k) => k));
});

test("two ears are one, and what is too loud is cut, not turned over", () => {
  for (const [channels, value] of [
    [[block(1), block(0)], 16384],
    [[block(2)], 32767],
    [[block(-2)], -32767],
  ]) {
    const one = microphone(4000);
    one.process([channels]);
    assert.deepEqual([...one.port.parts[0]], Array(128).fill(value));
  }
});

test("of a rate that is too high every few samples become one", () => {
  const one = microphone(192000, 4);
  for (let i = 0; i < 48; i += 1) one.process([[block(0.5)]]);
  // 48 blocks are 32 ms of 192 kHz, which are 1536 samples of 48 kHz.
  assert.deepEqual(one.port.parts.map(({ length }) => length), [1536]);
  assert.ok(one.port.parts[0].every((sample) => sample === 16384));
});

test("a microphone that is not there yet is waited for", () => {
  const one = microphone(16000);
  assert.ok(one.process([[]]));
  assert.deepEqual(one.port.parts, []);
});

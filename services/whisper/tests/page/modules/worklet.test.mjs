import assert from "node:assert/strict";
import { test } from "node:test";

// The globals of a browser's audio thread.
const known = {};
globalThis.AudioWorkletProcessor = class {
  port = {
    chunks: [],
    postMessage(chunk, [buffer]) {
      assert.equal(buffer, chunk.buffer);
      this.chunks.push(chunk);
    },
  };
};
globalThis.registerProcessor = (name, kind) => (known[name] = kind);
await import("../../../hearth_whisper/page/worklet.mjs");

/** Return a microphone with this rate, of whose samples `every` become one. */
function microphone(rate, every = 1) {
  globalThis.sampleRate = rate;
  return new known["hearth-microphone"]({ processorOptions: { every } });
}

const block = (value, length = 128) => new Float32Array(length).fill(value);

test("blocks become chunks of 32 ms without a lost sample", () => {
  const one = microphone(16000);
  for (let i = 0; i < 9; i += 1) {
    assert.ok(one.process([[Float32Array.from(block(0), (_, k) => (128 * i + k) / 32767)]]));
  }
  const { chunks } = one.port;
  assert.deepEqual(chunks.map(({ length }) => length), [512, 512]);
  assert.deepEqual([...chunks[0], ...chunks[1]], Array.from({ length: 1024 }, (_, k) => k));
});

test("channels are averaged, and loud samples are clipped", () => {
  for (const [channels, value] of [
    [[block(1), block(0)], 16384],
    [[block(2)], 32767],
    [[block(-2)], -32767],
  ]) {
    const one = microphone(4000);
    one.process([channels]);
    assert.deepEqual([...one.port.chunks[0]], Array(128).fill(value));
  }
});

test("a high rate is downsampled", () => {
  const one = microphone(192000, 4);
  for (let i = 0; i < 48; i += 1) one.process([[block(0.5)]]);
  // 48 blocks are 32 ms of 192 kHz, which are 1536 samples of 48 kHz.
  assert.deepEqual(one.port.chunks.map(({ length }) => length), [1536]);
  assert.ok(one.port.chunks[0].every((sample) => sample === 16384));
});

test("no channels give no chunks", () => {
  const one = microphone(16000);
  assert.ok(one.process([[]]));
  assert.deepEqual(one.port.chunks, []);
});

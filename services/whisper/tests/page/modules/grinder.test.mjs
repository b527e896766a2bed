import assert from "node:assert/strict";
import { test } from "node:test";

import { Grinder } from "../../../hearth_whisper/page/grinder.mjs";

const block = (value, length = 128) => new Float32Array(length).fill(value);

test("blocks become parts of 32 ms, and no sample is lost between them", () => {
  const grinder = new Grinder(16000);
  const parts = [];
  for (let i = 0; i < 9; i += 1) {
    parts.push(...grinder.take([Float32Array.from({ length: 128 }, (_, k) => (128 * i + k) / 32767)]));
  }
  assert.deepEqual(parts.map(({ length }) => length), [512, 512]);
  assert.deepEqual([...parts[0], ...parts[1]], Array.from({ length: 1024 }, (_, k) => k));
});

test("two ears are one, and what is too loud is cut, not turned over", () => {
  const [part] = new Grinder(4000).take([block(1), block(0)]);
  assert.equal(part[0], 16384);
  assert.equal(new Grinder(4000).take([block(2)])[0][0], 32767);
  assert.equal(new Grinder(4000).take([block(-2)])[0][0], -32767);
});

test("of a rate that is too high every few samples become one", () => {
  const grinder = new Grinder(192000, 4);
  const parts = [];
  for (let i = 0; i < 48; i += 1) parts.push(...grinder.take([block(0.5)]));
  // 48 blocks are 32 ms of 192 kHz, which are 1536 samples of 48 kHz.
  assert.deepEqual(parts.map(({ length }) => length), [1536]);
  assert.ok(parts[0].every((sample) => sample === 16384));
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { SoundQueue } from "../../../hearth_kokoro/page/queue.mjs";

const BLOCK = 4;

function tone(length, value = 0.5) {
  return new Float32Array(length).fill(value);
}

/** Pull so many blocks; return the samples, and the notes with their places among them. */
function play(queue, blocks) {
  const samples = [];
  const notes = [];
  for (let i = 0; i < blocks; i += 1) {
    const out = new Float32Array(BLOCK).fill(9);
    for (const note of queue.pull(out)) notes.push({ ...note, at: note.at + i * BLOCK });
    samples.push(...out);
  }
  return { samples, notes };
}

test("what is pushed is played once, in its order, across blocks", () => {
  const queue = new SoundQueue(1);
  queue.push(Float32Array.of(0.1, 0.2, 0.3));
  queue.push(Float32Array.of(0.4, 0.5, 0.6));
  queue.end();
  const { samples } = play(queue, 2);
  const wanted = Float32Array.of(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0, 0);
  assert.deepEqual(Float32Array.from(samples), wanted);
  assert.equal(queue.taken, 6);
});

test("the first sound is the first sample that can be heard, told once", () => {
  const queue = new SoundQueue(1);
  queue.push(Float32Array.of(0, 0.0002, -0.0009, 0, 0, -0.3, 0.4));
  queue.push(tone(4));
  const { notes } = play(queue, 2);
  assert.deepEqual(notes, [{ type: "first", at: 5 }]);
});

test("each piece is told where its samples begin, also one without any", () => {
  const queue = new SoundQueue(1);
  queue.push(tone(3), 0);
  queue.push(tone(2));
  queue.push(tone(0), 1);
  queue.push(tone(3), 2);
  const pieces = play(queue, 2).notes.filter(({ type }) => type === "piece");
  assert.deepEqual(
    pieces.map(({ piece, at }) => [piece, at]),
    [[0, 0], [1, 5], [2, 5]],
  );
});

test("silence before the first sound is no stall", () => {
  const queue = new SoundQueue(1);
  assert.deepEqual(play(queue, 3).notes, []);
  queue.push(tone(4));
  assert.deepEqual(play(queue, 1).notes, [{ type: "first", at: 0 }]);
});

test("sound that comes too late is one stall, as long as it was missing", () => {
  const queue = new SoundQueue(4);
  queue.push(tone(6));
  play(queue, 2); // 6 samples, and 2 too few
  play(queue, 3); // 12 more
  queue.push(tone(4));
  assert.deepEqual(play(queue, 1).notes, [{ type: "stall", at: 0, samples: 14 }]);
});

test("after a stall it waits for enough, and for no more at the end", () => {
  const queue = new SoundQueue(8);
  queue.push(tone(4));
  play(queue, 2);
  queue.push(tone(4));
  assert.deepEqual(play(queue, 1), { samples: [0, 0, 0, 0], notes: [] });
  queue.end();
  const { samples, notes } = play(queue, 2);
  assert.deepEqual(samples, [0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0]);
  assert.deepEqual(
    notes.map(({ type }) => type),
    ["stall", "over"],
  );
});

test("a late word that it is the end is no stall", () => {
  const queue = new SoundQueue(4);
  queue.push(tone(4));
  play(queue, 3);
  queue.end();
  assert.deepEqual(play(queue, 2).notes, [{ type: "over", at: 0 }]);
  assert.equal(queue.over, true);
});

test("it is over once, right after the last sample", () => {
  const queue = new SoundQueue(4);
  queue.push(tone(6));
  queue.end();
  const { notes } = play(queue, 4);
  assert.deepEqual(notes.at(-1), { type: "over", at: 6 });
  assert.equal(notes.filter(({ type }) => type === "over").length, 1);
});

test("a speech without any sound is over", () => {
  const queue = new SoundQueue(4);
  queue.end();
  assert.deepEqual(play(queue, 1).notes, [{ type: "over", at: 0 }]);
});

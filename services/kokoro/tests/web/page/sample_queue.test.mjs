import assert from "node:assert/strict";
import { test } from "node:test";

import { SampleQueue } from "../../../hearth_kokoro/page/sample_queue.mjs";

const BLOCK = 4;

function tone(length, value = 0.5) {
  return new Float32Array(length).fill(value);
}

/** Pull so many blocks; return the samples, and the events with their positions. */
function play(queue, blocks) {
  const samples = [];
  const events = [];
  for (let i = 0; i < blocks; i += 1) {
    const out = new Float32Array(BLOCK).fill(9);
    for (const event of queue.pull(out)) events.push({ ...event, at: event.at + i * BLOCK });
    samples.push(...out);
  }
  return { samples, events };
}

test("samples are played once and in order, across blocks", () => {
  const queue = new SampleQueue(1);
  queue.push(Float32Array.of(0.1, 0.2, 0.3));
  queue.push(Float32Array.of(0.4, 0.5, 0.6));
  queue.end();
  const { samples } = play(queue, 2);
  const wanted = Float32Array.of(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0, 0);
  assert.deepEqual(Float32Array.from(samples), wanted);
  assert.equal(queue.taken, 6);
});

test("the first sound is the first audible sample, reported once", () => {
  const queue = new SampleQueue(1);
  queue.push(Float32Array.of(0, 0.0002, -0.0009, 0, 0, -0.3, 0.4));
  queue.push(tone(4));
  const { events } = play(queue, 2);
  assert.deepEqual(events, [{ type: "first", at: 5 }]);
});

test("each segment is reported where its samples start, even if it has none", () => {
  const queue = new SampleQueue(1);
  queue.push(tone(3), 0);
  queue.push(tone(2));
  queue.push(tone(0), 1);
  queue.push(tone(3), 2);
  const segments = play(queue, 2).events.filter(({ type }) => type === "segment");
  assert.deepEqual(
    segments.map(({ segment, at }) => [segment, at]),
    [[0, 0], [1, 5], [2, 5]],
  );
});

test("silence before the first sound is not a stall", () => {
  const queue = new SampleQueue(1);
  assert.deepEqual(play(queue, 3).events, []);
  queue.push(tone(4));
  assert.deepEqual(play(queue, 1).events, [{ type: "first", at: 0 }]);
});

test("late sound is one stall, as long as the sound was missing", () => {
  const queue = new SampleQueue(4);
  queue.push(tone(6));
  play(queue, 2); // 6 samples, and 2 too few
  play(queue, 3); // 12 more
  queue.push(tone(4));
  assert.deepEqual(play(queue, 1).events, [{ type: "stall", at: 0, samples: 14 }]);
});

test("after a stall playback waits for enough sound, except at the end", () => {
  const queue = new SampleQueue(8);
  queue.push(tone(4));
  play(queue, 2);
  queue.push(tone(4));
  assert.deepEqual(play(queue, 1), { samples: [0, 0, 0, 0], events: [] });
  queue.end();
  const { samples, events } = play(queue, 2);
  assert.deepEqual(samples, [0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0]);
  assert.deepEqual(
    events.map(({ type }) => type),
    ["stall", "over"],
  );
});

test("a late end is not a stall", () => {
  const queue = new SampleQueue(4);
  queue.push(tone(4));
  play(queue, 3);
  queue.end();
  assert.deepEqual(play(queue, 2).events, [{ type: "over", at: 0 }]);
  assert.equal(queue.over, true);
});

test("the end is reported once, right after the last sample", () => {
  const queue = new SampleQueue(4);
  queue.push(tone(6));
  queue.end();
  const { events } = play(queue, 4);
  assert.deepEqual(events.at(-1), { type: "over", at: 6 });
  assert.equal(events.filter(({ type }) => type === "over").length, 1);
});

test("speech without any sound ends at once", () => {
  const queue = new SampleQueue(4);
  queue.end();
  assert.deepEqual(play(queue, 1).events, [{ type: "over", at: 0 }]);
});

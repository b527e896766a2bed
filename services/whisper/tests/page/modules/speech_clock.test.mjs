import assert from "node:assert/strict";
import { test } from "node:test";

import { SpeechClock } from "../../../hearth_whisper/page/speech_clock.mjs";

const RATE = 16000;

/** Return a tone of this length and amplitude. */
function tone(seconds, amplitude) {
  return Int16Array.from({ length: Math.round(seconds * RATE) }, (_, i) => amplitude * Math.sin(i / 3));
}

/** Return a clock with these chunks, each added `late_ms` after its end. */
function clockOf(chunks, late_ms = () => 0) {
  const clock = new SpeechClock(RATE);
  let at = 1000;
  chunks.forEach((chunk, index) => {
    at += (1000 * chunk.length) / RATE;
    clock.add(chunk, at + late_ms(index));
  });
  return clock;
}

const near = (value, wanted, within = 0.03) =>
  assert.ok(Math.abs(value - wanted) <= within, `${value} is not ${wanted}`);

test("the end of speech is found, whatever the server's times", () => {
  const clock = clockOf([tone(1, 0), tone(2, 8000), tone(2, 0)]);
  near(clock.lastLoud(0.9, 2.7), 3);
  near(clock.lastLoud(1, 3), 3);
  near(clock.lastLoud(1.1, 3.9), 3);
});

test("noise around speech is ignored", () => {
  const rustle = () => Array.from({ length: 20 }, (_, i) => tone(0.05, 200 + 37 * (i % 5)));
  const clock = clockOf([...rustle(), tone(2, 8000), ...rustle(), ...rustle()]);
  near(clock.lastLoud(1, 3.4), 3);
});

test("the next utterance is ignored", () => {
  const clock = clockOf([tone(1, 0), tone(2, 8000), tone(0.5, 0), tone(2, 8000)]);
  near(clock.lastLoud(1, 3.1), 3);
});

test("the server's end is the fallback", () => {
  assert.equal(new SpeechClock(RATE).lastLoud(1, 2), 2);
  assert.equal(clockOf([tone(3, 0)]).lastLoud(1, 2), 2);
});

test("audio older than a minute is discarded, and positions stay valid", () => {
  const clock = clockOf([...Array(90).fill(tone(1, 0)), tone(2, 8000), tone(1, 0)]);
  near(clock.lastLoud(90, 92.2), 92);
  assert.equal(clock.lastLoud(1, 2), 2);
  assert.equal(clock.seconds, 93);
});

test("the time of a position comes from the least delayed chunk", () => {
  // Chunks of 100 ms end at 1100, 1200, …; most arrive later.
  const clock = clockOf(Array(20).fill(tone(0.1, 100)), (index) => (index % 8 === 7 ? 0 : 40 + index));
  assert.equal(Math.round(clock.timeOf(0)), 1000);
  assert.equal(Math.round(clock.timeOf(1.5)), 2500);
});

test("lost audio shifts the positions after it", () => {
  const clock = clockOf(Array(220).fill(tone(0.1, 100)), (index) => (index < 110 ? 0 : 300));
  assert.equal(Math.round(clock.timeOf(9)), 10000);
  assert.equal(Math.round(clock.timeOf(12)), 13300);
  assert.equal(Math.round(clock.timeOf(22.5)), 23800);
});

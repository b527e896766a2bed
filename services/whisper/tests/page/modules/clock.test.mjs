import assert from "node:assert/strict";
import { test } from "node:test";

import { Clock } from "../../../hearth_whisper/page/clock.mjs";

const RATE = 16000;

/** Some seconds of a tone, so loud. */
function tone(seconds, loud) {
  return Int16Array.from({ length: Math.round(seconds * RATE) }, (_, i) => loud * Math.sin(i / 3));
}

/** A clock that took these parts, each as soon as it was there, `late_ms` after that. */
function clockOf(parts, late_ms = () => 0) {
  const clock = new Clock(RATE);
  let at = 1000;
  parts.forEach((part, index) => {
    at += (1000 * part.length) / RATE;
    clock.take(part, at + late_ms(index));
  });
  return clock;
}

const near = (value, wanted, within = 0.03) =>
  assert.ok(Math.abs(value - wanted) <= within, `${value} is not ${wanted}`);

test("the last loud moment is found, wherever the server says that the speech ended", () => {
  const clock = clockOf([tone(1, 0), tone(2, 8000), tone(2, 0)]);
  near(clock.lastLoud(0.9, 2.7), 3);
  near(clock.lastLoud(1, 3), 3);
  near(clock.lastLoud(1.1, 3.9), 3);
});

test("noise around a speech is no speech", () => {
  const rustle = () => Array.from({ length: 20 }, (_, i) => tone(0.05, 200 + 37 * (i % 5)));
  const clock = clockOf([...rustle(), tone(2, 8000), ...rustle(), ...rustle()]);
  near(clock.lastLoud(1, 3.4), 3);
});

test("what is said next is not taken for the end of this", () => {
  const clock = clockOf([tone(1, 0), tone(2, 8000), tone(0.5, 0), tone(2, 8000)]);
  near(clock.lastLoud(1, 3.1), 3);
});

test("where nothing is known, the server's end stands", () => {
  assert.equal(new Clock(RATE).lastLoud(1, 2), 2);
  assert.equal(clockOf([tone(3, 0)]).lastLoud(1, 2), 2);
});

test("a minute ago is forgotten, and the rest still stands where it stood", () => {
  const clock = clockOf([...Array(90).fill(tone(1, 0)), tone(2, 8000), tone(1, 0)]);
  near(clock.lastLoud(90, 92.2), 92);
  assert.equal(clock.lastLoud(1, 2), 2);
  assert.equal(clock.seconds, 93);
});

test("a moment is when the least late part says that it was", () => {
  // Each part of 100 ms comes at 1100, 1200, … and some come later than that.
  const clock = clockOf(Array(20).fill(tone(0.1, 100)), (index) => (index % 8 === 7 ? 0 : 40 + index));
  assert.equal(Math.round(clock.when(0)), 1000);
  assert.equal(Math.round(clock.when(1.5)), 2500);
});

test("where some sound was lost, what comes after it happened later", () => {
  const clock = clockOf(Array(220).fill(tone(0.1, 100)), (index) => (index < 110 ? 0 : 300));
  assert.equal(Math.round(clock.when(9)), 10000);
  assert.equal(Math.round(clock.when(12)), 13300);
  assert.equal(Math.round(clock.when(22.5)), 23800);
});

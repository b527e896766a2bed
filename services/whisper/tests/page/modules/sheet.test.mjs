import assert from "node:assert/strict";
import { test } from "node:test";

import { Sheet, median } from "../../../hearth_whisper/page/sheet.mjs";

const final = (utterance, text, start_s = utterance, end_s = utterance + 0.5) => ({
  ...{ utterance, text, start_s, end_s },
  felt_ms: 600,
});

test("a line is written once, and takes the place of the guess at it", () => {
  const sheet = new Sheet();
  sheet.guess({ utterance: 0, text: " The kettle is", stable: " The" });
  assert.deepEqual(sheet.guesses, [{ stable: "The", rest: " kettle is" }]);
  const line = sheet.write(final(0, " The kettle is on."));
  assert.deepEqual(line, { text: "The kettle is on.", start_s: 0, end_s: 0.5, felt_ms: 600 });
  assert.deepEqual(sheet.guesses, []);
  assert.equal(sheet.write(final(0, "Again.")), null);
  sheet.guess({ utterance: 0, text: "late", stable: "" });
  assert.deepEqual(sheet.guesses, []);
  assert.equal(sheet.text, "The kettle is on.");
});

test("what says nothing is no line, and ends the guess", () => {
  const sheet = new Sheet();
  sheet.guess({ utterance: 0, text: "hm", stable: "" });
  assert.equal(sheet.write(final(0, "  ")), null);
  assert.deepEqual(sheet.guesses, []);
  assert.deepEqual(sheet.lines, []);
});

test("what is being said stays while an earlier line is written", () => {
  const sheet = new Sheet();
  sheet.begin({ utterance: 0 });
  sheet.guess({ utterance: 0, text: "One", stable: "" });
  sheet.begin({ utterance: 1 });
  assert.deepEqual(sheet.guesses, [{ stable: "", rest: "One" }, { stable: "", rest: "" }]);
  sheet.guess({ utterance: 1, text: "Two", stable: "" });
  sheet.write(final(0, "One."));
  assert.deepEqual(sheet.guesses, [{ stable: "", rest: "Two" }]);
  sheet.write(final(1, "Two."));
  assert.deepEqual(sheet.guesses, []);
});

test("a stable beginning that is none is not shown as one", () => {
  const sheet = new Sheet();
  sheet.guess({ utterance: 0, text: "The bottle", stable: "The kettle" });
  assert.deepEqual(sheet.guesses, [{ stable: "", rest: "The bottle" }]);
  sheet.guess({ utterance: 0, text: "The bottle" });
  assert.deepEqual(sheet.guesses, [{ stable: "", rest: "The bottle" }]);
});

test("another talk goes on after the first, though it counts from nought", () => {
  const sheet = new Sheet();
  sheet.write(final(0, "One."));
  sheet.goOn(12.5);
  sheet.write(final(0, "Two."));
  assert.deepEqual(sheet.lines.map(({ start_s }) => start_s), [0, 12.5]);
  sheet.clear();
  sheet.write(final(0, "Three."));
  assert.deepEqual(sheet.lines.map(({ start_s }) => start_s), [0]);
});

test("the middle one", () => {
  assert.equal(median([]), null);
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { Transcript, median } from "../../../hearth_whisper/page/transcript.mjs";

const final = (utterance, text, start_s = utterance, end_s = utterance + 0.5) => ({
  ...{ utterance, text, start_s, end_s },
  delay_ms: 600,
});

test("a final is added once and replaces its partial result", () => {
  const transcript = new Transcript();
  transcript.setPartial({ utterance: 0, text: " The kettle is", stable: " The" });
  assert.deepEqual(transcript.partials, [{ stable: "The", rest: " kettle is" }]);
  const line = transcript.addFinal(final(0, " The kettle is on."));
  assert.deepEqual(line, { text: "The kettle is on.", start_s: 0, end_s: 0.5, delay_ms: 600 });
  assert.deepEqual(transcript.partials, []);
  assert.equal(transcript.addFinal(final(0, "Again.")), null);
  transcript.setPartial({ utterance: 0, text: "late", stable: "" });
  assert.deepEqual(transcript.partials, []);
  assert.equal(transcript.text, "The kettle is on.");
});

test("an empty final adds no line and ends the partial result", () => {
  const transcript = new Transcript();
  transcript.setPartial({ utterance: 0, text: "hm", stable: "" });
  assert.equal(transcript.addFinal(final(0, "  ")), null);
  assert.deepEqual(transcript.partials, []);
  assert.deepEqual(transcript.lines, []);
});

test("later partial results stay when a final is added", () => {
  const transcript = new Transcript();
  transcript.startUtterance({ utterance: 0 });
  transcript.setPartial({ utterance: 0, text: "One", stable: "" });
  transcript.startUtterance({ utterance: 1 });
  assert.deepEqual(transcript.partials, [{ stable: "", rest: "One" }, { stable: "", rest: "" }]);
  transcript.setPartial({ utterance: 1, text: "Two", stable: "" });
  transcript.addFinal(final(0, "One."));
  assert.deepEqual(transcript.partials, [{ stable: "", rest: "Two" }]);
  transcript.addFinal(final(1, "Two."));
  assert.deepEqual(transcript.partials, []);
});

test("a wrong stable prefix is ignored", () => {
  const transcript = new Transcript();
  transcript.setPartial({ utterance: 0, text: "The bottle", stable: "The kettle" });
  assert.deepEqual(transcript.partials, [{ stable: "", rest: "The bottle" }]);
  transcript.setPartial({ utterance: 0, text: "The bottle" });
  assert.deepEqual(transcript.partials, [{ stable: "", rest: "The bottle" }]);
});

test("the times of another session continue", () => {
  const transcript = new Transcript();
  transcript.addFinal(final(0, "One."));
  transcript.continueAfter(12.5);
  transcript.addFinal(final(0, "Two."));
  assert.deepEqual(transcript.lines.map(({ start_s }) => start_s), [0, 12.5]);
  transcript.clear();
  transcript.addFinal(final(0, "Three."));
  assert.deepEqual(transcript.lines.map(({ start_s }) => start_s), [0]);
});

test("median", () => {
  assert.equal(median([]), null);
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { contentOf, fileName, timeText } from "../../../hearth_whisper/page/export.mjs";

const LINES = [
  { text: "Is 1 < 2 & 3?", start_s: 0, end_s: 1.2345 },
  { text: "Two\n\nlines.", start_s: 59.9996, end_s: 3661.5 },
];

test("srt", () => {
  assert.equal(
    contentOf(LINES, "srt"),
    "1\n00:00:00,000 --> 00:00:01,235\nIs 1 < 2 & 3?\n\n" +
      "2\n00:01:00,000 --> 01:01:01,500\nTwo lines.\n",
  );
});

test("vtt", () => {
  assert.equal(
    contentOf(LINES, "vtt"),
    "WEBVTT\n\n00:00:00.000 --> 00:00:01.235\nIs 1 &lt; 2 &amp; 3?\n\n" +
      "00:01:00.000 --> 01:01:01.500\nTwo lines.\n",
  );
});

test("txt", () => {
  assert.equal(contentOf([LINES[0], LINES[0]], "txt"), "Is 1 < 2 & 3?\nIs 1 < 2 & 3?\n");
});

test("a file name comes from its source", () => {
  assert.equal(fileName("Männer Gespräch.m4a", "srt"), "Männer-Gespräch.srt");
  assert.equal(fileName("../../etc/passwd", "txt"), "etc-passwd.txt");
  assert.equal(fileName("...", "vtt"), "transcript.vtt");
  assert.ok(fileName("a".repeat(500), "txt").length < 100);
});

test("times for people", () => {
  assert.deepEqual([0, 9.99, 62, 3602].map(timeText), ["0:00", "0:09", "1:02", "1:00:02"]);
});

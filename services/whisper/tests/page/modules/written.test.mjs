import assert from "node:assert/strict";
import { test } from "node:test";

import { contentOf, momentOf, nameOf } from "../../../hearth_whisper/page/written.mjs";

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

test("plain", () => {
  assert.equal(contentOf([LINES[0], LINES[0]], "txt"), "Is 1 < 2 & 3?\nIs 1 < 2 & 3?\n");
});

test("a file is called as what it was made of", () => {
  assert.equal(nameOf("Männer Gespräch.m4a", "srt"), "Männer-Gespräch.srt");
  assert.equal(nameOf("../../etc/passwd", "txt"), "etc-passwd.txt");
  assert.equal(nameOf("...", "vtt"), "transcript.vtt");
  assert.ok(nameOf("a".repeat(500), "txt").length < 100);
});

test("moments for people", () => {
  assert.deepEqual([0, 9.99, 62, 3602].map(momentOf), ["0:00", "0:09", "1:02", "1:00:02"]);
});

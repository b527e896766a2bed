import assert from "node:assert/strict";
import { test } from "node:test";

import { Sending } from "../../../hearth_whisper/page/sending.mjs";

let element;
globalThis.Audio = class {
  constructor() {
    element = this;
  }
};

/** Begin to send a file that plays for so long; null where no browser knows. */
function begin(seconds) {
  const seen = { shares: [], said: [], lines: [] };
  let tell, finish, fail;
  const server = {
    file: (file, asked, heard) => {
      tell = heard;
      return new Promise((resolve, reject) => ([finish, fail] = [resolve, reject]));
    },
  };
  const file = new File(["sound"], "talk.wav");
  const sending = new Sending(server, file, {}, (share) => seen.shares.push(share));
  element.duration = seconds ?? Infinity;
  element.onloadedmetadata();
  const heard = { say: (text) => seen.said.push(text), line: (line) => seen.lines.push(line) };
  const result = sending.go(heard);
  result.catch(() => {});
  return { seen, sending, result, tell, finish, fail };
}

const segment = (end_s) => ({ text: "One.", start_s: 0, end_s });

test("it shows how much is sent, and then how far the sound is heard", async () => {
  const { seen, result, tell, finish } = begin(8);
  tell.sent(0.3);
  tell.sent(1);
  tell.segment(segment(2));
  tell.segment(segment(7));
  // Whisper's last time may lie a little past the end.
  tell.segment(segment(8.02));
  assert.deepEqual(seen.shares, [0, 0.3, null, 0.25, 0.875, 1]);
  assert.deepEqual(seen.said, [
    "Sending talk.wav: 25 %.",
    "Transcribing…",
    "Transcribing: 25 %.",
    "Transcribing: 75 %.",
    "Transcribing: 100 %.",
  ]);
  assert.deepEqual(seen.lines.map(({ end_s }) => end_s), [2, 7, 8.02]);
  finish();
  await result;
  assert.equal(seen.shares.at(-1), undefined);
});

test("where nobody knows how long a file is, it says no share", () => {
  const { seen, tell } = begin(null);
  tell.sent(1);
  tell.segment(segment(2));
  assert.deepEqual(seen.shares, [0, null]);
  assert.deepEqual(seen.said, ["Transcribing…"]);
  assert.equal(seen.lines.length, 1);
});

test("what breaks off keeps its lines and says why", async () => {
  const { seen, result, tell, fail } = begin(8);
  tell.segment(segment(2));
  fail(new Error("Out of memory."));
  await assert.rejects(result, { message: "Out of memory." });
  assert.equal(seen.lines.length, 1);
  assert.equal(seen.shares.at(-1), undefined);
});

test("once stopped it shows nothing more", () => {
  const { seen, sending, tell } = begin(8);
  sending.stop();
  const before = seen.shares.length;
  tell.sent(0.9);
  tell.segment(segment(2));
  assert.equal(seen.shares.length, before);
  assert.deepEqual(seen.said, []);
});

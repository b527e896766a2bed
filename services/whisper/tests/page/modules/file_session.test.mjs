import assert from "node:assert/strict";
import { test } from "node:test";

import { FileSession } from "../../../hearth_whisper/page/file_session.mjs";

let element;
globalThis.Audio = class {
  constructor() {
    element = this;
  }
};

/** Start a session with a file of this duration; null where it is unknown. */
function start(seconds) {
  const seen = { shares: [], status: [], lines: [] };
  let events, finish, fail;
  const server = {
    transcribe: (file, options, uploadEvents) => {
      events = uploadEvents;
      return new Promise((resolve, reject) => ([finish, fail] = [resolve, reject]));
    },
  };
  const file = new File(["sound"], "talk.wav");
  const session = new FileSession(server, file, {}, (share) => seen.shares.push(share));
  element.duration = seconds ?? Infinity;
  element.onloadedmetadata();
  const shown = { status: (text) => seen.status.push(text), line: (line) => seen.lines.push(line) };
  const result = session.run(shown);
  result.catch(() => {});
  return { seen, session, result, events, finish, fail };
}

const segment = (end_s) => ({ text: "One.", start_s: 0, end_s });

test("the progress of the upload, then of the transcription", async () => {
  const { seen, result, events, finish } = start(8);
  events.sent(0.3);
  events.sent(1);
  events.segment(segment(2));
  events.segment(segment(7));
  // Whisper's last time may be slightly beyond the end.
  events.segment(segment(8.02));
  assert.deepEqual(seen.shares, [0, 0.3, null, 0.25, 0.875, 1]);
  assert.deepEqual(seen.status, [
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

test("a file of unknown duration has no progress", () => {
  const { seen, events } = start(null);
  events.sent(1);
  events.segment(segment(2));
  assert.deepEqual(seen.shares, [0, null]);
  assert.deepEqual(seen.status, ["Transcribing…"]);
  assert.equal(seen.lines.length, 1);
});

test("an error keeps the lines", async () => {
  const { seen, result, events, fail } = start(8);
  events.segment(segment(2));
  fail(new Error("Out of memory."));
  await assert.rejects(result, { message: "Out of memory." });
  assert.equal(seen.lines.length, 1);
  assert.equal(seen.shares.at(-1), undefined);
});

test("a stopped session shows nothing more", () => {
  const { seen, session, events } = start(8);
  session.stop();
  const before = seen.shares.length;
  events.sent(0.9);
  events.segment(segment(2));
  assert.equal(seen.shares.length, before);
  assert.deepEqual(seen.status, []);
});

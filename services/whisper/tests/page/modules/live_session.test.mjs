import assert from "node:assert/strict";
import { test } from "node:test";

import { ServerError } from "../../../hearth_whisper/page/errors.mjs";
import { LiveSession } from "../../../hearth_whisper/page/live_session.mjs";

/** A tenth of a second. */
const CHUNK = new Int16Array(1600).fill(5000);
const FINAL = { type: "final", utterance: 0, text: "One.", start_s: 0, end_s: 0.1 };

/** A scripted microphone and server; `calls` names what the session called. */
function stageOf({ opens = async () => {}, sendAudio = () => true, error } = {}) {
  const stage = { calls: [], start: null };
  stage.openMicrophone = async (onAudio, onDisconnect) => {
    Object.assign(stage, { onAudio, onDisconnect });
    await opens();
    return { rate: 16000, close: () => stage.calls.push("microphone closed") };
  };
  const socket = { sendAudio };
  for (const name of ["flush", "end", "close"]) socket[name] = () => stage.calls.push(name);
  stage.server = {
    stream: (start, onEvent, onClose) => (Object.assign(stage, { start, onEvent, onClose }), socket),
    streamError: async () => error,
  };
  return stage;
}

function run(stage) {
  const received = [];
  const names = ["listening", "started", "partial", "final", "failed", "ended"];
  const events = Object.fromEntries(
    names.map((name) => [name, (value) => received.push([name, value])]),
  );
  const session = new LiveSession(stage.openMicrophone, stage.server, { language: "en" }, events);
  const result = session.run();
  result.catch(() => {});
  const only = (name) => received.filter(([kind]) => kind === name);
  return { session, result, received, only };
}

const soon = () => new Promise((done) => setTimeout(done));

test("events are reported, and finals with their delay", async () => {
  const stage = stageOf();
  const { session, result, only } = run(stage);
  await soon();
  assert.deepEqual(stage.start, { sample_rate: 16000, partials: true, language: "en" });
  stage.onAudio(CHUNK);
  stage.onEvent({ type: "ready", model: "tiny" });
  stage.onEvent({ type: "speech_started", at_s: 0, utterance: 0 });
  stage.onEvent({ type: "partial", utterance: 0, text: "On", stable: "" });
  stage.onEvent(FINAL);
  stage.onEvent({ type: "speech_ended", at_s: 0.1, utterance: 0 });
  const [[, final]] = only("final");
  assert.equal(final.text, "One.");
  assert.ok(final.delay_ms >= 0 && final.delay_ms < 60_000, String(final.delay_ms));
  assert.equal(only("partial").length + only("started").length + only("ended").length, 3);
  session.flush();
  session.end();
  stage.onEvent({ type: "done" });
  await result;
  assert.equal(session.seconds, 0.1);
  assert.deepEqual(stage.calls, ["flush", "microphone closed", "end", "microphone closed", "close"]);
});

test("listening is reported with the first audio", async () => {
  const stage = stageOf();
  const { session, only } = run(stage);
  await soon();
  assert.equal(only("listening").length, 0);
  stage.onAudio(CHUNK);
  stage.onAudio(CHUNK);
  assert.equal(only("listening").length, 1);
  session.stop();
});

test("after end no audio is sent, and the last text is reported", async () => {
  const stage = stageOf();
  const { session, result, only } = run(stage);
  await soon();
  session.end();
  stage.onAudio(CHUNK);
  assert.equal(session.seconds, 0);
  stage.onEvent(FINAL);
  assert.equal(only("final").length, 1);
  stage.onEvent({ type: "done" });
  await result;
});

test("a microphone that opens after stop is closed", async () => {
  let open;
  const stage = stageOf({ opens: () => new Promise((done) => (open = done)) });
  const { session, result, received } = run(stage);
  session.stop();
  open();
  await result;
  assert.deepEqual(stage.calls, ["microphone closed"]);
  assert.deepEqual(received, []);
});

test("the server's error precedes the lost connection", async () => {
  const stage = stageOf();
  const { result } = run(stage);
  await soon();
  stage.onEvent({ type: "error", error: { message: "the model is gone" } });
  stage.onClose(true, "");
  await assert.rejects(result, { message: "The model is gone." });
  assert.ok(stage.calls.includes("microphone closed"));
});

test("the session continues after the error of one line", async () => {
  const stage = stageOf();
  const { result, only } = run(stage);
  await soon();
  stage.onEvent({ type: "error", utterance: 0, error: { message: "out of memory" } });
  assert.equal(only("failed")[0][1].message, "Out of memory.");
  stage.onEvent({ ...FINAL, utterance: 1 });
  stage.onEvent({ type: "done" });
  await result;
  assert.equal(only("final").length, 1);
});

test("a lost or rejected connection has its reason", async () => {
  const broken = stageOf();
  const { result } = run(broken);
  await soon();
  broken.onClose(true, "");
  await assert.rejects(result, { message: "The connection to the server was lost." });
  const reasoned = stageOf();
  const { result: ended } = run(reasoned);
  await soon();
  reasoned.onClose(true, "nothing came for 60 s");
  await assert.rejects(ended, { message: "Nothing came for 60 s." });
  const refused = stageOf({ error: new ServerError("Your session has expired.", "login") });
  const { result: never } = run(refused);
  await soon();
  refused.onClose(false, "");
  await assert.rejects(never, { needs: "login" });
});

test("a connection slower than real time ends the session", async () => {
  const stage = stageOf({ sendAudio: () => false });
  const { result } = run(stage);
  await soon();
  stage.onAudio(CHUNK);
  await assert.rejects(result, { message: "The connection is too slow for live audio." });
});

test("a disconnected microphone ends the session after its last text", async () => {
  const stage = stageOf();
  const { result, only } = run(stage);
  await soon();
  stage.onDisconnect();
  assert.ok(stage.calls.includes("end"));
  stage.onEvent(FINAL);
  stage.onEvent({ type: "done" });
  await assert.rejects(result, /microphone was disconnected/);
  assert.equal(only("final").length, 1);
});

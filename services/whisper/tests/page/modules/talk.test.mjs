import assert from "node:assert/strict";
import { test } from "node:test";

import { ServerError } from "../../../hearth_whisper/page/refusal.mjs";
import { Talk } from "../../../hearth_whisper/page/talk.mjs";

/** A tenth of a second. */
const PART = new Int16Array(1600).fill(5000);
const FINAL = { type: "final", utterance: 0, text: "One.", start_s: 0, end_s: 0.1 };

/** A microphone and a server that do what is written here. */
function staged({ opens = async () => {}, sound = () => true, why } = {}) {
  const stage = { did: [], asked: null };
  stage.listen = async (heard, gone) => {
    Object.assign(stage, { heard, gone });
    await opens();
    return { rate: 16000, close: () => stage.did.push("microphone closed") };
  };
  const line = { sound };
  for (const name of ["flush", "end", "close"]) line[name] = () => stage.did.push(name);
  stage.server = {
    line: (asked, say, closed) => (Object.assign(stage, { asked, say, closed }), line),
    why: async () => why,
  };
  return stage;
}

function talkOf(stage) {
  const heard = [];
  const names = ["hears", "started", "partial", "final", "failed", "ended"];
  const tell = Object.fromEntries(
    names.map((name) => [name, (value) => heard.push([name, value])]),
  );
  const talk = new Talk(stage.listen, stage.server, { language: "en" }, tell);
  const over = talk.go();
  over.catch(() => {});
  return { talk, over, heard, only: (name) => heard.filter(([what]) => what === name) };
}

const soon = () => new Promise((done) => setTimeout(done));

test("what was said is told, with how long its talker waited for it", async () => {
  const stage = staged();
  const { talk, over, only } = talkOf(stage);
  await soon();
  assert.deepEqual(stage.asked, { sample_rate: 16000, partials: true, language: "en" });
  stage.heard(PART);
  stage.say({ type: "ready", model: "tiny" });
  stage.say({ type: "speech_started", at_s: 0, utterance: 0 });
  stage.say({ type: "partial", utterance: 0, text: "On", stable: "" });
  stage.say(FINAL);
  stage.say({ type: "speech_ended", at_s: 0.1, utterance: 0 });
  const [[, final]] = only("final");
  assert.equal(final.text, "One.");
  assert.ok(final.felt_ms >= 0 && final.felt_ms < 60_000, String(final.felt_ms));
  assert.equal(only("partial").length + only("started").length + only("ended").length, 3);
  talk.flush();
  talk.end();
  stage.say({ type: "done" });
  await over;
  assert.equal(talk.seconds, 0.1);
  assert.deepEqual(stage.did, ["flush", "microphone closed", "end", "microphone closed", "close"]);
});

test("it listens from the first sound on, and not while the microphone wakes", async () => {
  const stage = staged();
  const { talk, only } = talkOf(stage);
  await soon();
  assert.equal(only("hears").length, 0);
  stage.heard(PART);
  stage.heard(PART);
  assert.equal(only("hears").length, 1);
  talk.stop();
});

test("after its end no more is heard, and the last text still comes", async () => {
  const stage = staged();
  const { talk, over, only } = talkOf(stage);
  await soon();
  talk.end();
  stage.heard(PART);
  assert.equal(talk.seconds, 0);
  stage.say(FINAL);
  assert.equal(only("final").length, 1);
  stage.say({ type: "done" });
  await over;
});

test("who stops while the microphone is asked for has it closed as soon as it opens", async () => {
  let open;
  const stage = staged({ opens: () => new Promise((done) => (open = done)) });
  const { talk, over, heard } = talkOf(stage);
  talk.stop();
  open();
  await over;
  assert.deepEqual(stage.did, ["microphone closed"]);
  assert.deepEqual(heard, []);
});

test("the server's own words are told, not that the line broke after them", async () => {
  const stage = staged();
  const { over } = talkOf(stage);
  await soon();
  stage.say({ type: "error", error: { message: "the model is gone" } });
  stage.closed(true, "");
  await assert.rejects(over, { message: "The model is gone." });
  assert.ok(stage.did.includes("microphone closed"));
});

test("where one line cannot be written the talk goes on", async () => {
  const stage = staged();
  const { over, only } = talkOf(stage);
  await soon();
  stage.say({ type: "error", utterance: 0, error: { message: "out of memory" } });
  assert.equal(only("failed")[0][1].message, "Out of memory.");
  stage.say({ ...FINAL, utterance: 1 });
  stage.say({ type: "done" });
  await over;
  assert.equal(only("final").length, 1);
});

test("a line that breaks, or never opens, is told, and why", async () => {
  const broken = staged();
  const { over } = talkOf(broken);
  await soon();
  broken.closed(true, "");
  await assert.rejects(over, { message: "The connection to the server was lost." });
  const told = staged();
  const { over: ended } = talkOf(told);
  await soon();
  told.closed(true, "nothing came for 60 s");
  await assert.rejects(ended, { message: "Nothing came for 60 s." });
  const refused = staged({ why: new ServerError("Your session has expired.", "login") });
  const { over: never } = talkOf(refused);
  await soon();
  refused.closed(false, "");
  await assert.rejects(never, { needs: "login" });
});

test("a line that is slower than speech ends the talk", async () => {
  const stage = staged({ sound: () => false });
  const { over } = talkOf(stage);
  await soon();
  stage.heard(PART);
  await assert.rejects(over, { message: "The connection is too slow for live audio." });
});

test("a microphone that is pulled out ends the talk, and what was said is written down", async () => {
  const stage = staged();
  const { over, only } = talkOf(stage);
  await soon();
  stage.gone();
  assert.ok(stage.did.includes("end"));
  stage.say(FINAL);
  stage.say({ type: "done" });
  await assert.rejects(over, /microphone was disconnected/);
  assert.equal(only("final").length, 1);
});

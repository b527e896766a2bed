import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { barsOf, median } from "../../hearth_voice/page/latency_view.mjs";
import { msOf, RealtimeCall, toBase64, toSamples } from "../../hearth_voice/page/realtime_call.mjs";

const calls = [];
afterEach(() => calls.splice(0).forEach((call) => call.hangUp()));

function dialled(now) {
  const sent = [];
  const told = [];
  const socket = { readyState: 1, send: (text) => sent.push(JSON.parse(text)), close: () => {} };
  const call = new RealtimeCall(socket, (name, value) => told.push([name, value]), now);
  calls.push(call);
  const take = (event) => socket.onmessage({ data: JSON.stringify(event) });
  return { call, sent, socket, take, told };
}

test("a call asks for a transcription and for an end by meaning", () => {
  const { sent, socket } = dialled();
  socket.onopen();
  assert.equal(sent[0].type, "session.update");
  assert.equal(sent[0].session.audio.input.turn_detection.type, "semantic_vad");
  assert.ok(sent[0].session.audio.input.transcription);
});

test("sound arrives as it was sent", () => {
  const { sent, call, take, told } = dialled();
  call.hear(Int16Array.of(0, 1000, -32767));
  assert.equal(sent[0].type, "input_audio_buffer.append");
  take({ type: "response.output_audio.delta", item_id: "a", delta: sent[0].audio });
  const [name, { item, samples }] = told[0];
  assert.deepEqual([name, item], ["sound", "a"]);
  assert.deepEqual([...samples].map((sample) => Math.round(sample * 32767)), [0, 1000, -32767]);
  assert.equal(toBase64(new Uint8Array([0, 1])), "AAE=");
  assert.equal(toSamples("AAA=").length, 1);
});

test("what was heard is sent in whole milliseconds", () => {
  const { sent, call } = dialled();
  call.heard("a", msOf(12_345));
  assert.deepEqual(sent[0], {
    ...{ type: "conversation.item.truncate", item_id: "a" },
    ...{ content_index: 0, audio_end_ms: 514 },
  });
  assert.equal(sent[1].type, "conversation.item.retrieve");
  call.heard("a", -3);
  assert.equal(sent[2].audio_end_ms, 0);
});

test("the reason of a refused call is shown", () => {
  const { socket, take, told } = dialled();
  take({ type: "error", error: { message: "4 calls are going on" } });
  socket.onclose({ code: 1013 });
  assert.deepEqual(told.at(-1), ["ended", "4 calls are going on"]);
});

test("a silent connection is shown within three seconds, and that it is back", (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  let now = 0;
  const { take, told } = dialled(() => now);
  const wait = (ms) => {
    for (const end = now + ms; now < end; context.mock.timers.tick(100)) now += 100;
  };
  for (let second = 0; second < 5; second += 1) {
    wait(1000);
    take({ type: "hearth.alive" });
  }
  assert.deepEqual(told, []);
  wait(3000);
  assert.deepEqual(told, [["gone", undefined]]);
  wait(2000);
  take({ type: "hearth.alive" });
  assert.deepEqual(told[1], ["back", undefined]);
  assert.equal(told.length, 2);
});

test("a lost connection is shown", () => {
  const { socket, told } = dialled();
  socket.onclose({ code: 1006 });
  assert.match(told[0][1], /lost/);
});

test("a failed answer is shown, and the call goes on", () => {
  const { take, told } = dialled();
  const error = { message: "the language model did not answer in time" };
  take({ type: "response.done", response: { status: "failed", status_details: { error } } });
  assert.deepEqual(told[0], ["problem", error.message]);
});

test("bars lie on one axis, and what began early is marked", () => {
  const stages = { silence: [0, 500], transcription: [500, 501], model: [310, 510], voice: [520, 700], total: [0, 701] };
  const bars = barsOf({ stages, speculated: true });
  assert.deepEqual(bars.map(({ early }) => early), [false, false, true, false]);
  assert.ok(bars.every(({ left, width }) => left >= 0 && left + width <= 1));
  assert.equal(bars[2].ms, 200);
});

test("the median of nothing is not a number", () => {
  assert.ok(Number.isNaN(median([])));
  assert.equal(median([3, 1, 2]), 2);
});

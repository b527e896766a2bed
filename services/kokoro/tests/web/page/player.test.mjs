import assert from "node:assert/strict";
import { test } from "node:test";

import { SpeechPlayer } from "../../../hearth_kokoro/page/player.mjs";

/** One second of sound. */
const SECOND = Buffer.alloc(48000).toString("base64");

/** Return an output whose sink runs these functions, and which records the calls. */
function staged(acts = {}) {
  const output = { events: null, did: [], closed: 0 };
  const told = (name) => (...given) => {
    output.did.push(name);
    return acts[name]?.(output.events, ...given);
  };
  const sink = { path: "worklet" };
  for (const name of ["push", "room", "end", "stop"]) sink[name] = told(name);
  output.open = async (events) => ((output.events = events), sink);
  output.close = () => (output.closed += 1);
  return output;
}

/** Return a server that sends these events; it throws those that are errors. */
function serverOf(...events) {
  return {
    request: [],
    async *events(request, signal) {
      this.request.push(request);
      this.signal = signal;
      for (const event of events) {
        if (event instanceof Error) throw event;
        yield event;
      }
    },
  };
}

function runOf(server, output) {
  const heard = [];
  const told = (name) => (...values) => heard.push([name, values.length > 1 ? values : values[0]]);
  const names = ["opened", "held", "generated", "first", "segment", "stall", "noOutput"];
  const callbacks = Object.fromEntries(names.map((name) => [name, told(name)]));
  const run = new SpeechPlayer(server, output, { input: "One. Two." }, 1000, callbacks);
  return { run, only: (name) => heard.filter(([what]) => what === name).map(([, v]) => v) };
}

const TWO = [{ audio: SECOND, text: "One. " }, { audio: SECOND }, { audio: SECOND, text: "Two." }];

test("each stall is counted and reported, like the first sound and the segments", async () => {
  const output = staged({
    push: (events, _, segment) => segment === null || events.segment(segment),
    end: (events) => {
      events.first(1380);
      events.stall(0.5);
      events.stall(0.1);
      events.over();
    },
  });
  const server = serverOf(...TWO);
  const { run, only } = runOf(server, output);
  await run.go();
  assert.deepEqual(only("stall"), [1, 2]);
  assert.equal(run.stalls, 2);
  assert.deepEqual(only("first"), [[380, 0]]);
  assert.deepEqual(only("segment"), ["One. ", "Two."]);
  assert.deepEqual(only("generated"), [5 / 9, 5 / 9, 1]);
  assert.equal(run.seconds, 3);
  assert.equal(server.request[0].response_format, "pcm");
  assert.equal(output.closed, 1);
});

test("a hold is announced, and then told with the first sound", async () => {
  const output = staged({
    end: (events) => {
      events.first(4000);
      events.over();
    },
  });
  const held = [{ wait_ms: 2500 }, { audio: SECOND, text: "One. Two.", held_ms: 2400 }];
  const { run, only } = runOf(serverOf(...held), output);
  await run.go();
  assert.deepEqual(only("held"), [2500]);
  assert.deepEqual(only("first"), [[3000, 2400]]);
  assert.equal(run.seconds, 1);
});

test("sound that arrived before an error is played to its end", async () => {
  let ended = false;
  const output = staged({
    end: (events) =>
      setTimeout(() => {
        ended = true;
        events.over();
      }, 20),
  });
  const { run } = runOf(serverOf(TWO[0], new Error("The engine is gone.")), output);
  await assert.rejects(run.go(), { message: "The engine is gone." });
  assert.ok(ended);
  assert.deepEqual(output.did, ["push", "room", "end"]);
  assert.equal(output.closed, 1);
});

test("an error before any sound is reported at once", async () => {
  const output = staged();
  const { run } = runOf(serverOf(new Error("Too many.")), output);
  await assert.rejects(run.go(), { message: "Too many." });
  assert.deepEqual(output.did, []);
});

test("an error of the player aborts the request and is reported", async () => {
  // There is never room: nothing plays the sound any more.
  const room = (events) => {
    events.failed("The browser stopped playback with an error.");
    return new Promise(() => {});
  };
  const output = staged({ room });
  const server = serverOf(...TWO);
  const { run, only } = runOf(server, output);
  const late = new Promise((done) => setTimeout(done, 500, "hangs"));
  const end = run.go().catch((error) => error.message);
  assert.equal(await Promise.race([end, late]), "The browser stopped playback with an error.");
  assert.equal(only("generated").length, 1);
  assert.ok(server.signal.aborted);
});

test("stop ends playback without an error and aborts the request", async () => {
  const output = staged({ end: () => {} });
  const server = serverOf(...TWO);
  const { run } = runOf(server, output);
  const end = run.go();
  await new Promise((done) => setTimeout(done, 20));
  run.stop();
  await end;
  assert.ok(server.signal.aborted);
  assert.deepEqual([output.did.at(-1), output.closed], ["stop", 1]);
});

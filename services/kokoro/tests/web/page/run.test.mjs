import assert from "node:assert/strict";
import { test } from "node:test";

import { Run } from "../../../hearth_kokoro/page/run.mjs";

/** One second of sound. */
const SECOND = Buffer.alloc(48000).toString("base64");

/** A stage whose sink does what is written here, and the notes that it hears. */
function staged(acts = {}) {
  const stage = { notes: null, did: [], closed: 0 };
  const told = (name) => (...given) => {
    stage.did.push(name);
    return acts[name]?.(stage.notes, ...given);
  };
  const sink = { path: "worklet" };
  for (const name of ["push", "room", "end", "stop"]) sink[name] = told(name);
  stage.open = async (notes) => ((stage.notes = notes), sink);
  stage.close = () => (stage.closed += 1);
  return stage;
}

/** A server of these events; one that is an error is thrown. */
function serverOf(...events) {
  return {
    asked: [],
    async *events(asked, signal) {
      this.asked.push(asked);
      this.signal = signal;
      for (const event of events) {
        if (event instanceof Error) throw event;
        yield event;
      }
    },
  };
}

function runOf(server, stage) {
  const heard = [];
  const told = (name) => (value) => heard.push([name, value]);
  const names = ["opened", "made", "first", "piece", "stall", "deaf"];
  const tell = Object.fromEntries(names.map((name) => [name, told(name)]));
  const run = new Run(server, stage, { input: "One. Two." }, 1000, tell);
  return { run, only: (name) => heard.filter(([what]) => what === name).map(([, v]) => v) };
}

const TWO = [{ audio: SECOND, text: "One. " }, { audio: SECOND }, { audio: SECOND, text: "Two." }];

test("each stall is counted and told, as are the first sound and the pieces", async () => {
  const stage = staged({
    push: (notes, _, piece) => piece === null || notes.piece(piece),
    end: (notes) => {
      notes.first(1380);
      notes.stall(0.5);
      notes.stall(0.1);
      notes.over();
    },
  });
  const server = serverOf(...TWO);
  const { run, only } = runOf(server, stage);
  await run.go();
  assert.deepEqual(only("stall"), [1, 2]);
  assert.equal(run.stalls, 2);
  assert.deepEqual(only("first"), [380]);
  assert.deepEqual(only("piece"), ["One. ", "Two."]);
  assert.deepEqual(only("made"), [5 / 9, 5 / 9, 1]);
  assert.equal(run.seconds, 3);
  assert.equal(server.asked[0].response_format, "pcm");
  assert.equal(stage.closed, 1);
});

test("what came before the trouble is heard to its end", async () => {
  let ended = false;
  const stage = staged({
    end: (notes) =>
      setTimeout(() => {
        ended = true;
        notes.over();
      }, 20),
  });
  const { run } = runOf(serverOf(TWO[0], new Error("The engine is gone.")), stage);
  await assert.rejects(run.go(), { message: "The engine is gone." });
  assert.ok(ended);
  assert.deepEqual(stage.did, ["push", "room", "end"]);
  assert.equal(stage.closed, 1);
});

test("trouble before any sound is told at once", async () => {
  const stage = staged();
  const { run } = runOf(serverOf(new Error("Too many.")), stage);
  await assert.rejects(run.go(), { message: "Too many." });
  assert.deepEqual(stage.did, []);
});

test("when the player breaks, no more is asked for and that is what is said", async () => {
  // Its room never comes: nothing takes the sound any more.
  const room = (notes) => {
    notes.broke("The browser stopped playback with an error.");
    return new Promise(() => {});
  };
  const stage = staged({ room });
  const server = serverOf(...TWO);
  const { run, only } = runOf(server, stage);
  const late = new Promise((done) => setTimeout(done, 500, "hangs"));
  const end = run.go().catch((error) => error.message);
  assert.equal(await Promise.race([end, late]), "The browser stopped playback with an error.");
  assert.equal(only("made").length, 1);
  assert.ok(server.signal.aborted);
});

test("stop ends it, silently, and the server is let go", async () => {
  const stage = staged({ end: () => {} });
  const server = serverOf(...TWO);
  const { run } = runOf(server, stage);
  const end = run.go();
  await new Promise((done) => setTimeout(done, 20));
  run.stop();
  await end;
  assert.ok(server.signal.aborted);
  assert.deepEqual([stage.did.at(-1), stage.closed], ["stop", 1]);
});

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";

import { Server } from "../../../hearth_whisper/page/server.mjs";

const kept = new Map();
globalThis.sessionStorage = {
  getItem: (name) => kept.get(name) ?? null,
  setItem: (name, value) => kept.set(name, value),
  removeItem: (name) => kept.delete(name),
};
globalThis.location = { href: "https://whisper.lan/" };
mock.timers.enable({ apis: ["setTimeout"] });

let asked = [];
function answers(...given) {
  globalThis.fetch = async (path, options) => {
    asked.push([path, options.headers.Authorization ?? null]);
    const [body, status = 200, headers = {}] = given.shift() ?? [null, 500];
    if (body instanceof Error) throw body;
    return new Response(JSON.stringify(body), { status, headers });
  };
}

const models = (...names) => ({ data: names.map((id) => ({ id })) });

beforeEach(() => {
  kept.clear();
  asked = [];
});

test("the model is known by its own name, as soon as one has been chosen", async () => {
  answers([{}, 503, { "Retry-After": "7" }], [models("whisper-1")], [models("whisper-1", "small")]);
  let waits = 0;
  const name = new Server(false).model(() => (waits += 1));
  for (const wait_ms of [7000, 2000]) {
    await new Promise(setImmediate);
    mock.timers.tick(wait_ms - 1);
    await new Promise(setImmediate);
    const before = asked.length;
    mock.timers.tick(1);
    await new Promise(setImmediate);
    assert.equal(asked.length, before + 1);
  }
  assert.equal(await name, "small");
  assert.equal(waits, 2);
});

test("a server that is not there, or that wants a login, is told", async () => {
  answers([new TypeError("no")], [{}, 401]);
  const server = new Server(false);
  await assert.rejects(server.model(), { message: "The server does not respond. Is it running?" });
  await assert.rejects(server.model(), { needs: "login" });
});

test("a key goes with what is asked, until it is forgotten", async () => {
  answers([models("a")], [models("a")]);
  const server = new Server(true);
  server.keep("sesame");
  await server.model();
  server.keep("");
  await server.model();
  assert.deepEqual(asked.map(([, key]) => key), ["Bearer sesame", null]);
});

test("why a line did not come about is found out by asking another way", async () => {
  const server = new Server(false);
  answers([models("a")], [{}, 401], [new TypeError("no")]);
  assert.match((await server.why()).message, /no free stream/);
  assert.equal((await server.why()).needs, "login");
  assert.match((await server.why()).message, /does not respond/);
});

test("a line goes to this very server, as safely as the page came", () => {
  const opened = [];
  globalThis.WebSocket = class {
    constructor(address) {
      opened.push(String(address));
    }
  };
  new Server(false).line({ sample_rate: 16000 });
  globalThis.location = { href: "http://localhost:8000/" };
  new Server(false).line({ sample_rate: 16000 });
  assert.deepEqual(opened, [
    "wss://whisper.lan/v1/audio/transcriptions/stream",
    "ws://localhost:8000/v1/audio/transcriptions/stream",
  ]);
  assert.throws(() => new Server(true).line({ sample_rate: 16000 }), /with an API key/);
});

test("a file is sent after what is to be done with it", async () => {
  let sent;
  globalThis.XMLHttpRequest = class {
    upload = {};
    open() {}
    send(form) {
      sent = [...form.entries()].map(([name, value]) => [name, value.name ?? value]);
    }
  };
  const file = new File(["sound"], "talk.wav");
  const asked = { language: "de", prompt: "" };
  new Server(false).file(file, asked, {}, new AbortController().signal);
  assert.deepEqual(sent, [
    ["model", "whisper-1"],
    ["response_format", "verbose_json"],
    ["stream", "true"],
    ["language", "de"],
    ["file", "talk.wav"],
  ]);
});

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";

import { Server } from "../../../hearth_whisper/page/server.mjs";

const stored = new Map();
globalThis.sessionStorage = {
  getItem: (name) => stored.get(name) ?? null,
  setItem: (name, value) => stored.set(name, value),
  removeItem: (name) => stored.delete(name),
};
globalThis.location = { href: "https://whisper.lan/" };
mock.timers.enable({ apis: ["setTimeout"] });

let requests = [];
function respond(...responses) {
  globalThis.fetch = async (path, init) => {
    requests.push([path, init.headers.Authorization ?? null]);
    const [body, status = 200, headers = {}] = responses.shift() ?? [null, 500];
    if (body instanceof Error) throw body;
    return new Response(JSON.stringify(body), { status, headers });
  };
}

const models = (...names) => ({ data: names.map((id) => ({ id })) });

beforeEach(() => {
  stored.clear();
  requests = [];
});

test("model waits until the server has selected one", async () => {
  respond([{}, 503, { "Retry-After": "7" }], [models("whisper-1")], [models("whisper-1", "small")]);
  let waits = 0;
  const name = new Server(false).model(() => (waits += 1));
  for (const wait_ms of [7000, 2000]) {
    await new Promise(setImmediate);
    mock.timers.tick(wait_ms - 1);
    await new Promise(setImmediate);
    const before = requests.length;
    mock.timers.tick(1);
    await new Promise(setImmediate);
    assert.equal(requests.length, before + 1);
  }
  assert.equal(await name, "small");
  assert.equal(waits, 2);
});

test("an unreachable server and a missing login are reported", async () => {
  respond([new TypeError("no")], [{}, 401]);
  const server = new Server(false);
  await assert.rejects(server.model(), { message: "The server does not respond. Is it running?" });
  await assert.rejects(server.model(), { needs: "login" });
});

test("a stored key is sent until it is deleted", async () => {
  respond([models("a")], [models("a")]);
  const server = new Server(true);
  server.storeKey("sesame");
  await server.model();
  server.storeKey("");
  await server.model();
  assert.deepEqual(requests.map(([, key]) => key), ["Bearer sesame", null]);
});

test("streamError finds the reason by another request", async () => {
  const server = new Server(false);
  respond([models("a")], [{}, 401], [new TypeError("no")]);
  assert.match((await server.streamError()).message, /no free stream/);
  assert.equal((await server.streamError()).needs, "login");
  assert.match((await server.streamError()).message, /does not respond/);
});

test("the stream uses the page's host and its encryption", () => {
  const opened = [];
  globalThis.WebSocket = class {
    constructor(address) {
      opened.push(String(address));
    }
  };
  new Server(false).stream({ sample_rate: 16000 });
  globalThis.location = { href: "http://localhost:8000/" };
  new Server(false).stream({ sample_rate: 16000 });
  assert.deepEqual(opened, [
    "wss://whisper.lan/v1/audio/transcriptions/stream",
    "ws://localhost:8000/v1/audio/transcriptions/stream",
  ]);
  assert.throws(() => new Server(true).stream({ sample_rate: 16000 }), /with an API key/);
});

test("the fields precede the file", async () => {
  let sent;
  globalThis.XMLHttpRequest = class {
    upload = {};
    open() {}
    send(form) {
      sent = [...form.entries()].map(([name, value]) => [name, value.name ?? value]);
    }
  };
  const file = new File(["sound"], "talk.wav");
  const options = { language: "de", prompt: "" };
  new Server(false).transcribe(file, options, {}, new AbortController().signal);
  assert.deepEqual(sent, [
    ["model", "whisper-1"],
    ["response_format", "verbose_json"],
    ["stream", "true"],
    ["language", "de"],
    ["file", "talk.wav"],
  ]);
});

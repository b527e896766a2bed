import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";

import { fetchSpeech } from "../../../hearth_kokoro/page/download.mjs";
import { Server } from "../../../hearth_kokoro/page/server.mjs";

let tab;
let request;

/** Answer the requests with these responses, in order. */
function answering(...answers) {
  request = [];
  globalThis.fetch = async (path, options) => {
    request.push({ path, ...options, body: options.body && JSON.parse(options.body) });
    const response = answers.shift();
    if (response instanceof Error) throw response;
    return response;
  };
}

function refusal(status, message, headers = {}) {
  return new Response(JSON.stringify({ error: { message } }), { status, headers });
}

const LIST = { voices: [{ id: "af_heart", language: "en-us" }] };

beforeEach(() => {
  tab = new Map();
  globalThis.sessionStorage = {
    getItem: (name) => tab.get(name) ?? null,
    setItem: (name, value) => tab.set(name, value),
    removeItem: (name) => tab.delete(name),
  };
});

test("a missing, wrong or correct key has the expected result", async () => {
  const server = new Server(true);
  answering(refusal(401, "no"), refusal(401, "no"), Response.json(LIST));
  await assert.rejects(server.voices(), { needs: "key", message: "This server needs an API key." });
  assert.equal(request[0].headers.Authorization, undefined);
  server.keep("one");
  await assert.rejects(server.voices(), { needs: "key", message: "This API key is wrong." });
  assert.deepEqual(await server.voices(), LIST);
  assert.equal(request[2].headers.Authorization, "Bearer one");
  server.keep("");
  assert.equal(tab.size, 0);
});

test("without a key on the server, a 401 means that the login has expired", async () => {
  answering(refusal(401, "no"));
  await assert.rejects(new Server(false).voices(), { needs: "login" });
});

test("while the model loads, the page waits for Retry-After and then gets the voices", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  answering(refusal(503, "loading", { "Retry-After": "7" }), refusal(503, "loading"), Response.json(LIST));
  let waits = 0;
  let list = null;
  const end = new Server(false).voices(() => (waits += 1)).then((found) => (list = found));
  const settle = () => new Promise((done) => setImmediate(done));
  await settle();
  assert.deepEqual([waits, request.length], [1, 1]);
  mock.timers.tick(6999);
  await settle();
  assert.equal(request.length, 1);
  mock.timers.tick(1);
  await settle();
  assert.deepEqual([waits, request.length, list], [2, 2, null]);
  mock.timers.tick(2000);
  await end;
  assert.deepEqual(list, LIST);
  mock.timers.reset();
});

test("an error response becomes one line with the wait", async () => {
  answering(refusal(429, "32 texts wait; try again later", { "Retry-After": "3" }), new Response("", { status: 502 }));
  const server = new Server(false);
  await assert.rejects(server.speech({}), { message: "32 texts wait. Try again in 3 s." });
  await assert.rejects(server.speech({}), { message: "The server returned HTTP 502." });
});

test("an unreachable server is reported, and an aborted request is not", async () => {
  answering(new TypeError("fetch failed"), new DOMException("stopped", "AbortError"));
  const server = new Server(false);
  await assert.rejects(server.voices(), { message: "The server does not respond. Is it running?" });
  await assert.rejects(server.speech({}), { name: "AbortError" });
});

test("a response without its last event is incomplete", async () => {
  const delta = 'data: {"type": "speech.audio.delta", "audio": "AAE="}\n\n';
  const done = 'data: {"type": "speech.audio.done"}\n\n';
  answering(new Response(delta + done), new Response(delta));
  const server = new Server(false);
  const collect = async () => {
    const found = [];
    for await (const event of server.events({ input: "One." })) found.push(event.audio);
    return found;
  };
  assert.deepEqual(await collect(), ["AAE="]);
  assert.equal(request[0].body.stream_format, "sse");
  await assert.rejects(collect(), { message: "The response ended early." });
});

test("a file is requested as a whole in every format, so it has the same segments", async () => {
  for (const format of ["mp3", "opus", "aac", "flac", "wav", "pcm"]) {
    const response = new Response("sound", { headers: { "Content-Type": "audio/ogg" } });
    answering(response);
    const file = await fetchSpeech(new Server(false), { input: "One." }, format, null);
    const wanted = { model: "kokoro", input: "One.", response_format: format, stream: false };
    assert.deepEqual(request.map(({ body }) => body), [wanted]);
    assert.equal(await file.text(), "sound");
    // Firefox would call such a file .ogx.
    assert.notEqual(file.type, "audio/ogg");
  }
});

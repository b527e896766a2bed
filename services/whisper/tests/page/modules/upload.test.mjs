import assert from "node:assert/strict";
import { test } from "node:test";

import { sendForm } from "../../../hearth_whisper/page/upload.mjs";

const NO_KEY = { keyWanted: false, hasKey: false };
const event = (data) => `data: ${JSON.stringify(data)}\n\n`;
const SEGMENTS = [
  { type: "transcript.text.segment", id: "0", start: 0, end: 1.5, text: " One." },
  { type: "transcript.text.segment", id: "1", start: 1.5, end: 3, text: " Two." },
];
const DONE = { type: "transcript.text.done", text: " One. Two." };

/** A request whose response the tests write. */
class Request {
  upload = {};
  responseText = "";
  status = 200;
  type = "text/event-stream; charset=utf-8";

  constructor() {
    Request.last = this;
  }

  open(method, address) {
    this.asked = `${method} ${address}`;
  }

  setRequestHeader() {}

  getResponseHeader(name) {
    return name === "Content-Type" ? this.type : null;
  }

  send(form) {
    this.sent = form;
  }

  abort() {
    this.aborted = true;
    this.onabort();
  }

  come(text) {
    this.responseText += text;
    this.onprogress();
  }

  finish(text = "", status = 200) {
    this.status = status;
    this.responseText += text;
    this.onload();
  }
}
globalThis.XMLHttpRequest = Request;

function start() {
  const received = { shares: [], segments: [] };
  const events = {
    sent: (share) => received.shares.push(share),
    segment: (segment) => received.segments.push(segment),
  };
  const stop = new AbortController();
  const result = sendForm("/here", "form", { Authorization: "x" }, NO_KEY, events, stop.signal);
  result.catch(() => {});
  return { received, stop, result, request: Request.last };
}

test("segments are reported as they arrive, in parts of any size", async () => {
  const { received, result, request } = start();
  request.upload.onprogress({ loaded: 25, total: 100 });
  request.upload.onload();
  assert.deepEqual(received.shares, [0.25, 1]);
  const [one, two] = SEGMENTS.map(event);
  request.come(one.slice(0, 20));
  assert.equal(received.segments.length, 0);
  request.come(one.slice(20) + two.slice(0, 5));
  assert.deepEqual(received.segments, [{ text: " One.", start_s: 0, end_s: 1.5 }]);
  const delta = { type: "transcript.text.delta", delta: " Two." };
  request.finish(two.slice(5) + event(delta) + event(DONE));
  await result;
  assert.deepEqual(received.segments.map(({ end_s }) => end_s), [1.5, 3]);
  assert.equal(request.sent, "form");
});

test("a response without events is invalid, such as a login page", async () => {
  const { result, request } = start();
  request.type = "text/html";
  request.finish("<p>Password</p>");
  await assert.rejects(result, { message: "The server's response is not valid." });
});

test("an incomplete response is an error after its segments", async () => {
  const { received, result, request } = start();
  request.finish(event(SEGMENTS[0]));
  await assert.rejects(result, { message: "The connection to the server was lost." });
  assert.equal(received.segments.length, 1);
});

test("an error event ends the response with the server's message", async () => {
  const { received, result, request } = start();
  request.come(event(SEGMENTS[0]) + event({ type: "error", error: { message: "out of memory" } }));
  await assert.rejects(result, { message: "Out of memory." });
  assert.equal(received.segments.length, 1);
  assert.ok(request.aborted);
});

test("an error response has its reason", async () => {
  const { result, request } = start();
  request.type = "application/json";
  request.finish(JSON.stringify({ error: { message: "this is a picture" } }), 400);
  await assert.rejects(result, { message: "This is a picture." });
});

test("aborting rejects with AbortError", async () => {
  const { result, stop, request } = start();
  stop.abort();
  await assert.rejects(result, { name: "AbortError" });
  assert.ok(request.aborted);
});

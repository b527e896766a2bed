import assert from "node:assert/strict";
import { test } from "node:test";

import { upload } from "../../../hearth_whisper/page/upload.mjs";

const HOUSE = { keyWanted: false, hasKey: false };
const event = (data) => `data: ${JSON.stringify(data)}\n\n`;
const SEGMENTS = [
  { type: "transcript.text.segment", id: "0", start: 0, end: 1.5, text: " One." },
  { type: "transcript.text.segment", id: "1", start: 1.5, end: 3, text: " Two." },
];
const DONE = { type: "transcript.text.done", text: " One. Two." };

/** A request that this file answers. */
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

function begin() {
  const heard = { shares: [], segments: [] };
  const tell = {
    sent: (share) => heard.shares.push(share),
    segment: (segment) => heard.segments.push(segment),
  };
  const stop = new AbortController();
  const result = upload("/here", "form", { Authorization: "x" }, HOUSE, tell, stop.signal);
  result.catch(() => {});
  return { heard, stop, result, request: Request.last };
}

test("segments are told as they come, in whatever parts", async () => {
  const { heard, result, request } = begin();
  request.upload.onprogress({ loaded: 25, total: 100 });
  request.upload.onload();
  assert.deepEqual(heard.shares, [0.25, 1]);
  const [one, two] = SEGMENTS.map(event);
  request.come(one.slice(0, 20));
  assert.equal(heard.segments.length, 0);
  request.come(one.slice(20) + two.slice(0, 5));
  assert.deepEqual(heard.segments, [{ text: " One.", start_s: 0, end_s: 1.5 }]);
  const delta = { type: "transcript.text.delta", delta: " Two." };
  request.finish(two.slice(5) + event(delta) + event(DONE));
  await result;
  assert.deepEqual(heard.segments.map(({ end_s }) => end_s), [1.5, 3]);
  assert.equal(request.sent, "form");
});

test("what is no stream of events is no transcript, such as a login's page", async () => {
  const { result, request } = begin();
  request.type = "text/html";
  request.finish("<p>Password</p>");
  await assert.rejects(result, { message: "The server's response is not valid." });
});

test("an answer that breaks off is no transcript, and what came of it was told", async () => {
  const { heard, result, request } = begin();
  request.finish(event(SEGMENTS[0]));
  await assert.rejects(result, { message: "The connection to the server was lost." });
  assert.equal(heard.segments.length, 1);
});

test("an error in the middle of an answer ends it, in the server's words", async () => {
  const { heard, result, request } = begin();
  request.come(event(SEGMENTS[0]) + event({ type: "error", error: { message: "out of memory" } }));
  await assert.rejects(result, { message: "Out of memory." });
  assert.equal(heard.segments.length, 1);
  assert.ok(request.aborted);
});

test("a refusal says why", async () => {
  const { result, request } = begin();
  request.type = "application/json";
  request.finish(JSON.stringify({ error: { message: "this is a picture" } }), 400);
  await assert.rejects(result, { message: "This is a picture." });
});

test("who stops it hears nothing more of it", async () => {
  const { result, stop, request } = begin();
  stop.abort();
  await assert.rejects(result, { name: "AbortError" });
  assert.ok(request.aborted);
});

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { detectSound, echoes, reachable } from "../../../hearth_trust/page/checks.mjs";

const json = (text, init) => async () => new Response(text, init);

test("only a response of the house counts as reachable", async () => {
  globalThis.fetch = json('{"house": "Hearth"}');
  assert.equal(await reachable("https://trust.lan/check"), true);
  globalThis.fetch = json('{"house": "another"}');
  assert.equal(await reachable("https://trust.lan/check"), false);
  globalThis.fetch = json("<html>sign in to this network</html>");
  assert.equal(await reachable("https://trust.lan/check"), false);
  globalThis.fetch = json('{"house": "Hearth"}', { status: 502 });
  assert.equal(await reachable("https://trust.lan/check"), false);
});

test("a certificate that the browser does not trust counts as unreachable, without an error", async () => {
  globalThis.fetch = async () => { throw new TypeError("Failed to fetch"); };
  assert.equal(await reachable("https://trust.lan/check"), false);
});

/** A socket whose response to a message is chosen by the test. */
class Socket extends EventTarget {
  static respond = () => {};
  closed = false;
  constructor(address) {
    super();
    this.address = address;
    Socket.last = this;
    setTimeout(() => this.dispatchEvent(new Event("open")));
  }
  send(text) {
    Socket.respond(this, text);
  }
  close() {
    this.closed = true;
  }
  receive(text) {
    this.dispatchEvent(new MessageEvent("message", { data: text }));
  }
}

test("only the same message counts as an echo, and the connection is closed", async () => {
  globalThis.WebSocket = Socket;
  Socket.respond = (socket, text) => socket.receive(text);
  assert.equal(await echoes("wss://trust.lan/echo"), true);
  assert.equal(Socket.last.address, "wss://trust.lan/echo");
  assert.ok(Socket.last.closed);
  Socket.respond = (socket) => socket.receive("something else");
  assert.equal(await echoes("wss://trust.lan/echo"), false);
});

test("a connection that breaks is not an echo", async () => {
  globalThis.WebSocket = Socket;
  for (const kind of ["error", "close"]) {
    Socket.respond = (socket) => socket.dispatchEvent(new Event(kind));
    assert.equal(await echoes("wss://trust.lan/echo"), false);
  }
});

let loudness = 0;
let stopped = 0;
let closed = 0;

beforeEach(() => {
  stopped = closed = 0;
  const stream = { getTracks: () => [{ stop: () => (stopped += 1) }] };
  const mediaDevices = { getUserMedia: async () => stream };
  Object.defineProperty(globalThis, "navigator", { value: { mediaDevices }, configurable: true });
  globalThis.AudioContext = class {
    createMediaStreamSource = () => ({ connect() {} });
    close = async () => (closed += 1);
  };
  globalThis.AnalyserNode = class {
    constructor(_context, { fftSize }) {
      this.fftSize = fftSize;
    }
    getFloatTimeDomainData = (samples) => samples.fill(loudness);
  };
});

test("a voice is detected, and the microphone is released", async () => {
  const shown = [];
  loudness = 0.1;
  assert.equal(await detectSound((level) => shown.push(level)), true);
  assert.deepEqual([stopped, closed, shown.length], [1, 1, 1]);
  assert.ok(shown[0] > 0.5 && shown[0] <= 1, `${shown}`);
});

test("a refused microphone throws the browser's error", async () => {
  navigator.mediaDevices.getUserMedia = async () => {
    throw new DOMException("no", "NotAllowedError");
  };
  await assert.rejects(detectSound(() => {}), { name: "NotAllowedError" });
});

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { answers, echoes, hears } from "../../../hearth_trust/page/looking.mjs";

const json = (text, init) => async () => new Response(text, init);

test("only the house itself is an answer", async () => {
  globalThis.fetch = json('{"house": "Hearth"}');
  assert.equal(await answers("https://trust.lan/check"), true);
  globalThis.fetch = json('{"house": "another"}');
  assert.equal(await answers("https://trust.lan/check"), false);
  globalThis.fetch = json("<html>sign in to this network</html>");
  assert.equal(await answers("https://trust.lan/check"), false);
  globalThis.fetch = json('{"house": "Hearth"}', { status: 502 });
  assert.equal(await answers("https://trust.lan/check"), false);
});

test("a certificate that the browser does not believe is no answer, and nothing is thrown", async () => {
  globalThis.fetch = async () => { throw new TypeError("Failed to fetch"); };
  assert.equal(await answers("https://trust.lan/check"), false);
});

/** A socket that is told what to do with what it is sent. */
class Socket extends EventTarget {
  static does = () => {};
  closed = false;
  constructor(address) {
    super();
    this.address = address;
    Socket.last = this;
    setTimeout(() => this.dispatchEvent(new Event("open")));
  }
  send(text) {
    Socket.does(this, text);
  }
  close() {
    this.closed = true;
  }
  say(text) {
    this.dispatchEvent(new MessageEvent("message", { data: text }));
  }
}

test("what comes back is what was sent, and the line is given back", async () => {
  globalThis.WebSocket = Socket;
  Socket.does = (socket, text) => socket.say(text);
  assert.equal(await echoes("wss://trust.lan/echo"), true);
  assert.equal(Socket.last.address, "wss://trust.lan/echo");
  assert.ok(Socket.last.closed);
  Socket.does = (socket) => socket.say("something else");
  assert.equal(await echoes("wss://trust.lan/echo"), false);
});

test("a line that breaks is no echo", async () => {
  globalThis.WebSocket = Socket;
  for (const kind of ["error", "close"]) {
    Socket.does = (socket) => socket.dispatchEvent(new Event(kind));
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

test("a voice is heard, and the microphone is let go of", async () => {
  const shown = [];
  loudness = 0.1;
  assert.equal(await hears((loud) => shown.push(loud)), true);
  assert.deepEqual([stopped, closed, shown.length], [1, 1, 1]);
  assert.ok(shown[0] > 0.5 && shown[0] <= 1, `${shown}`);
});

test("who may not listen is told why", async () => {
  navigator.mediaDevices.getUserMedia = async () => {
    throw new DOMException("no", "NotAllowedError");
  };
  await assert.rejects(hears(() => {}), { name: "NotAllowedError" });
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { Line } from "../../../hearth_whisper/page/line.mjs";

class Socket {
  static CONNECTING = 0;
  static OPEN = 1;
  readyState = 0;
  bufferedAmount = 0;
  sent = [];

  constructor() {
    Socket.last = this;
  }

  send(message) {
    this.sent.push(typeof message === "string" ? JSON.parse(message).type : message.length);
  }

  close() {
    this.readyState = 3;
  }

  opens() {
    this.readyState = 1;
    this.onopen();
  }
}
globalThis.WebSocket = Socket;

const PART = new Int16Array(8000);

function begin() {
  const heard = [];
  const closed = [];
  const asked = { sample_rate: 16000, partials: true };
  const line = new Line("ws://x", asked, (one) => heard.push(one), (...why) => closed.push(why));
  return { line, heard, closed, socket: Socket.last };
}

test("what is said before the line is open waits for it, and comes after the start", () => {
  const { line, socket } = begin();
  line.sound(PART);
  line.flush();
  assert.deepEqual(socket.sent, []);
  socket.opens();
  line.sound(PART);
  line.end();
  assert.deepEqual(socket.sent, ["start", 8000, "flush", 8000, "end"]);
});

test("ten seconds of sound may wait, and no more", () => {
  const { line, socket } = begin();
  const early = Array.from({ length: 21 }, () => line.sound(PART));
  assert.deepEqual(early, [...Array(20).fill(true), false]);
  socket.opens();
  socket.bufferedAmount = 320_000;
  assert.equal(line.sound(PART), true);
  socket.bufferedAmount = 320_001;
  assert.equal(line.sound(PART), false);
});

test("events are heard, and what is none is an error", () => {
  const { heard, socket } = begin();
  socket.onmessage({ data: '{"type":"done"}' });
  socket.onmessage({ data: "<html>" });
  socket.onmessage({ data: new ArrayBuffer(2) });
  assert.deepEqual(heard.map(({ type }) => type), ["done", "error"]);
});

test("whoever listens is told whether the line ever was open", () => {
  const refused = begin();
  refused.socket.onclose({ reason: "" });
  const broken = begin();
  broken.socket.opens();
  broken.socket.onclose({ reason: "nothing came" });
  assert.deepEqual(refused.closed, [[false, ""]]);
  assert.deepEqual(broken.closed, [[true, "nothing came"]]);
  const left = begin();
  left.line.close();
  assert.equal(left.socket.onclose, null);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { StreamSocket } from "../../../hearth_whisper/page/stream_socket.mjs";

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

const CHUNK = new Int16Array(8000);

function open() {
  const events = [];
  const closed = [];
  const start = { sample_rate: 16000, partials: true };
  const stream = new StreamSocket("ws://x", start, (one) => events.push(one), (...why) => closed.push(why));
  return { stream, events, closed, socket: Socket.last };
}

test("early messages wait for the connection and follow the start", () => {
  const { stream, socket } = open();
  stream.sendAudio(CHUNK);
  stream.flush();
  assert.deepEqual(socket.sent, []);
  socket.opens();
  stream.sendAudio(CHUNK);
  stream.end();
  assert.deepEqual(socket.sent, ["start", 8000, "flush", 8000, "end"]);
});

test("at most ten seconds of audio may wait", () => {
  const { stream, socket } = open();
  const early = Array.from({ length: 21 }, () => stream.sendAudio(CHUNK));
  assert.deepEqual(early, [...Array(20).fill(true), false]);
  socket.opens();
  socket.bufferedAmount = 320_000;
  assert.equal(stream.sendAudio(CHUNK), true);
  socket.bufferedAmount = 320_001;
  assert.equal(stream.sendAudio(CHUNK), false);
});

test("events are reported, and an invalid one is an error", () => {
  const { events, socket } = open();
  socket.onmessage({ data: '{"type":"done"}' });
  socket.onmessage({ data: "<html>" });
  socket.onmessage({ data: new ArrayBuffer(2) });
  assert.deepEqual(events.map(({ type }) => type), ["done", "error"]);
});

test("onClose tells whether the connection was open", () => {
  const refused = open();
  refused.socket.onclose({ reason: "" });
  const broken = open();
  broken.socket.opens();
  broken.socket.onclose({ reason: "nothing came" });
  assert.deepEqual(refused.closed, [[false, ""]]);
  assert.deepEqual(broken.closed, [[true, "nothing came"]]);
  const left = open();
  left.stream.close();
  assert.equal(left.socket.onclose, null);
});

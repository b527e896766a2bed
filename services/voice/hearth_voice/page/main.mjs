// The page: one call at a time.

import { LatencyView } from "./latency_view.mjs";
import { Meter } from "./meter.mjs";
import { msOf, RealtimeCall } from "./realtime_call.mjs";
import { Sound, SoundError } from "./sound.mjs";

const at = (id) => document.getElementById(id);
const page = document.querySelector("main");
const view = new LatencyView({
  ...{ stages: at("stages"), total: at("total"), turns: at("turns") },
  ...{ median: at("median"), note: at("note") },
});
const SPEAK = "Speak. You can interrupt the house at any time.";
let sound = null;
let call = null;
const meter = new Meter(at("meter"), () => sound?.analyser);

function show(state, text, isAlert = false) {
  page.dataset.state = state;
  at("status").textContent = text;
  at("status").classList.toggle("alert", isAlert);
  const busy = state !== "idle" && state !== "failed";
  at("call").disabled = busy;
  at("hang-up").disabled = !busy;
}

function line(item, who) {
  const known = at("lines").querySelector(`[data-item="${CSS.escape(item)}"]`);
  if (known) return known;
  const added = document.createElement("li");
  added.dataset.item = item;
  added.className = who;
  at("lines").append(added);
  added.scrollIntoView({ block: "nearest" });
  return added;
}

const handlers = {
  ready: () => show("listening", SPEAK),
  // The voice reports how much of it was played, and the house then forgets the rest.
  interrupted: () => sound?.stop(),
  question: ({ item, text }) => {
    if (text) line(item, "you").textContent = text;
  },
  words: ({ item, text }) => line(item, "house").append(text),
  heard: ({ item, text }) => {
    line(item, "house").textContent = text;
  },
  sound: ({ item, samples }) => sound?.play(item, samples),
  turn: (turn) => view.add(turn),
  gone: () => show(page.dataset.state, "No connection to the house at the moment. Waiting for it.", true),
  back: () => show(page.dataset.state, SPEAK),
  problem: (text) => show(page.dataset.state, text, true),
  ended: async (reason) => {
    const isRefused = page.dataset.state === "asking" && (await isLoggedOut());
    end("failed", isRefused ? "Your session has expired. Reload this page to log in." : reason);
  },
};

/** Return whether the house wants a login again, which a browser does not tell of a WebSocket. */
async function isLoggedOut() {
  const answer = await fetch("/v1/realtime/turns").catch(() => null);
  return answer?.status === 401;
}

function onVoice({ type, item, played }) {
  if (type === "started") show("speaking", SPEAK);
  if (type === "empty") show("listening", SPEAK);
  if (type !== "stopped") return;
  show("listening", SPEAK);
  if (!item) return;
  line(item, "house").classList.add("cut");
  call?.heard(item, msOf(played) - (sound?.latencyMs ?? 0));
}

async function start() {
  show("asking", "Allow the microphone.");
  sound = new Sound();
  try {
    await sound.open((samples) => call?.hear(samples), onVoice);
  } catch (error) {
    end("failed", error instanceof SoundError ? error.message : "This page is out of date: reload it.");
    return;
  }
  meter.start();
  show("asking", "Calling.");
  const address = new URL("/v1/realtime?model=voice&figures=true", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  call = new RealtimeCall(new WebSocket(address), (name, value) => handlers[name]?.(value));
}

function end(state, text) {
  call?.hangUp();
  call = null;
  sound?.close();
  sound = null;
  meter.stop();
  show(state, text, state === "failed");
}

at("call").addEventListener("click", start);
at("hang-up").addEventListener("click", () => end("idle", "The call has ended."));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && call) end("idle", "The call has ended.");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !call) start();
});

// The turns of earlier calls, of everybody: figures, and no words.
try {
  const answer = await fetch("/v1/realtime/turns");
  for (const turn of (await answer.json()).turns) view.add(turn);
} catch {
  // The meter starts with the first turn.
}

// The page: its buttons and keys, and what it says meanwhile.

import { Controls } from "./controls.mjs";
import { fileOf, nameOf, save } from "./file.mjs";
import { Meter } from "./meter.mjs";
import { Paper } from "./paper.mjs";
import { Run } from "./run.mjs";
import { Server } from "./server.mjs";
import { Stage } from "./stage.mjs";

const by = (id) => document.getElementById(id);
const main = document.querySelector("main");

const server = new Server(main.dataset.keyWanted === "yes");
const stage = new Stage();
const controls = new Controls(by, Number(main.dataset.textLimit));
const paper = new Paper(by("text"), by("mirror"));
const meter = new Meter(by("meter"), () => stage.analyser);

let run = null;
let saving = null;
let offered = null;

function say(text, link = null) {
  if (by("status").textContent === text) return;
  by("status").classList.remove("alert");
  by("status").replaceChildren(text);
  if (link) by("status").append(" ", link);
}

function become(state, text) {
  main.dataset.state = state;
  say(text);
}

function fail(error) {
  main.dataset.state = "failed";
  explain(error);
}

function explain(error) {
  if (error.needs === "key") {
    by("key-form").hidden = false;
    by("key").focus();
  }
  say(error.message, error.needs === "login" ? loginLink() : null);
  by("status").classList.add("alert");
}

function loginLink() {
  const link = document.createElement("a");
  link.id = "login";
  // The page itself: whoever guards it asks for the login and comes back here.
  link.href = "/";
  link.textContent = "Log in again";
  return link;
}

function offer() {
  offered ??= server
    .voices(() => become("loading", "The server is loading its model…"))
    .then((voices) => {
      controls.offer(voices);
      become("idle", "Ready.");
    })
    .catch((error) => {
      offered = null;
      fail(error);
    });
  return offered;
}

function speak(event, text, isSample) {
  end();
  if (!text.trim()) {
    become("idle", "Write some text first.");
    by("text").focus();
    return;
  }
  for (const id of ["ttfa", "stalls"]) by(id).textContent = "–";
  // An event knows when it happened; what was slow since then counts, too.
  const began = Math.min(event.timeStamp, performance.now());
  const mine = new Run(server, stage, controls.asked(text), began, {
    opened: (path) => ours(mine, () => opened(path)),
    made: (share) => ours(mine, () => made(share)),
    first: (ms) => ours(mine, () => sounds(ms)),
    piece: (words) => ours(mine, () => speaking(words, isSample)),
    stall: (count) => ours(mine, () => (by("stalls").textContent = String(count))),
    deaf: () => ours(mine, () => say("No sound is playing. Check the audio output.")),
  });
  run = mine;
  become("waiting", "Waiting for the first sound…");
  if (!isSample) paper.begin(text);
  meter.start();
  mine.go().then(
    () => ours(mine, () => finish("done", endOf(mine))),
    (error) => ours(mine, () => (finish("failed", ""), fail(error))),
  );
}

// What a speech that was stopped still has to say concerns nobody.
function ours(mine, act) {
  if (run === mine && !mine.stopped) act();
}

function opened(path) {
  main.dataset.path = path;
}

function made(share) {
  if (main.dataset.path !== "blob" || main.dataset.state !== "waiting") return;
  // In quarters: this is read aloud to whoever cannot see it.
  say(`This browser plays it once it is complete: ${25 * Math.floor(4 * share)} %.`);
}

function sounds(ms) {
  by("ttfa").textContent = `${(ms / 1000).toFixed(2)} s`;
  by("stalls").textContent = String(run.stalls);
  become("speaking", "Speaking.");
}

function speaking(words, isSample) {
  by("speaking").textContent = words.trim();
  if (!isSample) paper.show(words);
}

function endOf({ seconds, stalls }) {
  const gaps = stalls === 0 ? "" : stalls === 1 ? ", with one gap" : `, with ${stalls} gaps`;
  return `Done: ${seconds.toFixed(1)} s of audio${gaps}.`;
}

function finish(state, text) {
  run = null;
  delete main.dataset.path;
  by("speaking").textContent = "";
  paper.clear();
  meter.stop();
  become(state, text);
}

function end() {
  if (!run) return;
  run.stop();
  finish("stopped", "Stopped.");
}

async function download() {
  if (saving) return;
  saving = new AbortController();
  const { voice, format } = controls;
  try {
    by("progress").hidden = false;
    const blob = await fileOf(server, controls.asked(), format, saving.signal);
    save(blob, nameOf(voice, format));
    say(`Saved: ${nameOf(voice, format)}, ${Math.ceil(blob.size / 1024).toLocaleString("en")} kB.`);
  } catch (error) {
    if (saving.signal.aborted) say("Download stopped.");
    else explain(error);
  } finally {
    saving = null;
    by("progress").hidden = true;
  }
}

async function copyLink(event) {
  event.preventDefault();
  history.replaceState(null, "", controls.link);
  try {
    // Only where the page came by HTTPS; elsewhere the address bar has it.
    await navigator.clipboard.writeText(location.href);
    say("Link copied.");
  } catch {
    say("The link is in the address bar.");
  }
}

async function useKey(event) {
  event.preventDefault();
  server.keep(by("key").value.trim());
  by("key").value = "";
  by("key-form").hidden = true;
  offered = null;
  await offer();
  if (by("key-form").hidden) by("text").focus();
}

async function press(event, isSample) {
  // Within the press, or the browser keeps silent.
  stage.wake();
  if (!controls.voice) await offer();
  if (controls.voice) speak(event, isSample ? controls.sample : controls.text, isSample);
}

by("speak").addEventListener("click", (event) => press(event, false));
by("sample").addEventListener("click", (event) => press(event, true));
by("stop").addEventListener("click", stopAll);
by("download").addEventListener("click", download);
by("permalink").addEventListener("click", copyLink);
by("key-form").addEventListener("submit", useKey);

function stopAll() {
  saving?.abort();
  end();
}

addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat) {
    event.preventDefault();
    press(event, false);
  } else if (event.key === "Escape") stopAll();
});
// The first touch of anything makes the sound ready, before Speak is pressed.
for (const touch of ["mousedown", "pointerup", "keydown"]) {
  addEventListener(touch, () => stage.prepare(), { once: true, capture: true, passive: true });
}

offer();

// The page: its buttons, its keys and its status line.

import { ChapterFile } from "./chapter.mjs";
import { Controls } from "./controls.mjs";
import { fetchSpeech, fileName, save } from "./download.mjs";
import { Meter } from "./meter.mjs";
import { TextHighlighter } from "./text_highlighter.mjs";
import { SpeechPlayer } from "./player.mjs";
import { Server } from "./server.mjs";
import { AudioOutput } from "./audio_output.mjs";

const by = (id) => document.getElementById(id);
const main = document.querySelector("main");

const server = new Server(main.dataset.keyWanted === "yes");
const output = new AudioOutput();
const controls = new Controls(by, Number(main.dataset.textLimit));
const highlighter = new TextHighlighter(by("text"), by("mirror"));
const chapter = new ChapterFile(by, server, explain);
const meter = new Meter(by("meter"), () => output.analyser);

let player = null;
let saving = null;
let offered = null;

function showStatus(text, link = null) {
  if (by("status").textContent === text) return;
  by("status").classList.remove("alert");
  by("status").replaceChildren(text);
  if (link) by("status").append(" ", link);
}

function setState(state, text) {
  main.dataset.state = state;
  showStatus(text);
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
  showStatus(error.message, error.needs === "login" ? loginLink() : null);
  by("status").classList.add("alert");
}

function loginLink() {
  const link = document.createElement("a");
  link.id = "login";
  // The page itself: the login in front of it returns here.
  link.href = "/";
  link.textContent = "Log in again";
  return link;
}

function loadVoices() {
  offered ??= server
    .voices(() => setState("loading", "The server is loading its model…"))
    .then((voices) => {
      controls.offer(voices);
      setState("idle", "Ready.");
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
    setState("idle", "Write some text first.");
    by("text").focus();
    return;
  }
  for (const id of ["ttfa", "stalls"]) by(id).textContent = "–";
  by("held").textContent = "";
  // The time of the event itself, so that a slow page counts as well.
  const began = Math.min(event.timeStamp, performance.now());
  const current = new SpeechPlayer(server, output, controls.request(text), began, {
    opened: (path) => ifCurrent(current, () => showPath(path)),
    held: (ms) => ifCurrent(current, () => showHold(ms)),
    generated: (share) => ifCurrent(current, () => showGenerated(share)),
    first: (ms, heldMs) => ifCurrent(current, () => showFirstSound(ms, heldMs)),
    segment: (words) => ifCurrent(current, () => showSegment(words, isSample)),
    stall: (count) => ifCurrent(current, () => (by("stalls").textContent = String(count))),
    noOutput: () => ifCurrent(current, () => showStatus("No sound is playing. Check the audio output.")),
  });
  player = current;
  setState("waiting", "Waiting for the first sound…");
  if (!isSample) highlighter.begin(text);
  meter.start();
  current.go().then(
    () => ifCurrent(current, () => finish("done", summaryOf(current))),
    (error) => ifCurrent(current, () => (finish("failed", ""), fail(error))),
  );
}

// Callbacks of a stopped speech are ignored.
function ifCurrent(current, act) {
  if (player === current && !current.stopped) act();
}

function showPath(path) {
  main.dataset.path = path;
}

function showGenerated(share) {
  if (main.dataset.path !== "blob" || main.dataset.state !== "waiting") return;
  // In quarters, because screen readers read each change aloud.
  showStatus(`This browser plays it once it is complete: ${25 * Math.floor(4 * share)} %.`);
}

function showHold(ms) {
  by("start-field").hidden = false;
  if (main.dataset.path === "blob") return;
  const wait = `about ${Math.max(1, Math.round(ms / 1000))} s`;
  showStatus(`This machine generates slower than real time: it starts in ${wait}, so that playback does not pause.`);
}

function showFirstSound(ms, heldMs) {
  by("ttfa").textContent = `${(ms / 1000).toFixed(2)} s`;
  by("held").textContent = heldMs ? `${(heldMs / 1000).toFixed(2)} s of it held back` : "";
  by("stalls").textContent = String(player.stalls);
  setState("speaking", "Speaking.");
}

function showSegment(words, isSample) {
  by("speaking").textContent = words.trim();
  if (!isSample) highlighter.show(words);
}

function summaryOf({ seconds, stalls }) {
  const gaps = stalls === 0 ? "" : stalls === 1 ? ", with one gap" : `, with ${stalls} gaps`;
  return `Done: ${seconds.toFixed(1)} s of audio${gaps}.`;
}

function finish(state, text) {
  player = null;
  delete main.dataset.path;
  by("speaking").textContent = "";
  highlighter.clear();
  meter.stop();
  setState(state, text);
}

function end() {
  if (!player) return;
  player.stop();
  finish("stopped", "Stopped.");
}

async function download() {
  if (saving) return;
  saving = new AbortController();
  const { voice, format } = controls;
  try {
    by("progress").hidden = false;
    const blob = await fetchSpeech(server, controls.request(), format, saving.signal);
    save(blob, fileName(voice, format));
    showStatus(`Saved: ${fileName(voice, format)}, ${Math.ceil(blob.size / 1024).toLocaleString("en")} kB.`);
  } catch (error) {
    if (saving.signal.aborted) showStatus("Download stopped.");
    else explain(error);
  } finally {
    saving = null;
    by("progress").hidden = true;
  }
}

function makeChapter() {
  const limit = Number(main.dataset.jobLimit);
  if ([...controls.text].length > limit) showStatus(`A file has at most ${limit.toLocaleString("en")} characters.`);
  else if (controls.text.trim()) chapter.make(controls.request(), controls.format);
  else showStatus("Write some text first.");
}

async function copyLink(event) {
  event.preventDefault();
  history.replaceState(null, "", controls.link);
  try {
    // Only possible over HTTPS; otherwise the address bar has the link.
    await navigator.clipboard.writeText(location.href);
    showStatus("Link copied.");
  } catch {
    showStatus("The link is in the address bar.");
  }
}

async function useKey(event) {
  event.preventDefault();
  server.keep(by("key").value.trim());
  by("key").value = "";
  by("key-form").hidden = true;
  offered = null;
  await loadVoices();
  chapter.resume();
  if (by("key-form").hidden) by("text").focus();
}

async function press(event, isSample) {
  // Browsers allow sound only in a user action.
  output.wake();
  if (!controls.voice) await loadVoices();
  if (controls.voice) speak(event, isSample ? controls.sample : controls.text, isSample);
}

by("speak").addEventListener("click", (event) => press(event, false));
by("sample").addEventListener("click", (event) => press(event, true));
by("stop").addEventListener("click", stopAll);
by("download").addEventListener("click", download);
by("chapter-make").addEventListener("click", makeChapter);
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
// The first user action prepares the sound, before Speak is pressed.
for (const touch of ["mousedown", "pointerup", "keydown"]) {
  addEventListener(touch, () => output.prepare(), { once: true, capture: true, passive: true });
}

loadVoices();

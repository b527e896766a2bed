// The page: its buttons and keys.

import { Controls } from "./controls.mjs";
import { contentOf, fileName, save, timeText } from "./export.mjs";
import { FileSession } from "./file_session.mjs";
import { LiveSession } from "./live_session.mjs";
import { Meter } from "./meter.mjs";
import { openMicrophone } from "./microphone.mjs";
import { Server } from "./server.mjs";
import { StatusLine } from "./status_line.mjs";
import { Transcript, median } from "./transcript.mjs";
import { TranscriptView } from "./transcript_view.mjs";

const by = (id) => document.getElementById(id);
const main = document.querySelector("main");
const instructions = by("status").textContent;
const maxBytes = Number(main.dataset.uploadBytes);

const status = new StatusLine(main, by);
const server = new Server(main.dataset.keyWanted === "yes");
const controls = new Controls(by);
const transcript = new Transcript();
const view = new TranscriptView(by("transcript"), by("finals"), by("partial"));

let analyser = null;
const meter = new Meter(by("meter"), () => analyser);

let live = null;
let upload = null;
// The source of the lines: the name of a file, or "" for live sessions, which continue each other.
let source = "";

async function showModel() {
  try {
    const model = await server.model(() => status.show("The server is loading its model…"));
    controls.setModel(model);
    if (status.state === "idle" || status.state === "failed") status.setState("idle", instructions);
  } catch (error) {
    // A running session reports its own error.
    if (!live && !upload) status.showError(error);
  }
}

function startLines(name) {
  cancel();
  if (name !== "" || source !== "") clear();
  source = name;
}

function startLive() {
  startLines("");
  const session = new LiveSession(openMicrophone, server, controls.liveOptions, {
    listening: (microphone) => ifCurrent(session, () => showListening(microphone)),
    started: (event) => ifCurrent(session, () => showSpeech(event)),
    ended: () => ifCurrent(session, () => status.show("Listening.")),
    partial: (event) => ifCurrent(session, () => showPartial(event)),
    final: (event) => ifCurrent(session, () => showFinal(event)),
    failed: (event) => ifCurrent(session, () => showFailedLine(event)),
  });
  live = session;
  status.setState("asking", "Asking for the microphone…");
  session.run().then(
    () => ifCurrent(session, () => (finishLive(), status.setState("done", summaryOf(session)))),
    (error) => ifCurrent(session, () => (finishLive(), status.showError(error))),
  );
}

// Late events of a cancelled session are ignored.
function ifCurrent(session, act) {
  if (live === session && !session.stopped) act();
}

function showListening(microphone) {
  analyser = microphone.analyser;
  meter.start();
  status.setState("listening", "Listening.");
}

function showSpeech(event) {
  status.show("Listening: speech detected.");
  transcript.startUtterance(event);
  view.showPartials(transcript.partials);
}

function showPartial(event) {
  transcript.setPartial(event);
  view.showPartials(transcript.partials);
}

function showFinal(event) {
  const line = transcript.addFinal(event);
  view.showPartials(transcript.partials);
  if (!line) return;
  view.addLine(line);
  const delays = transcript.lines.map(({ delay_ms }) => delay_ms);
  by("latency").textContent = secondsText(line.delay_ms);
  by("median").textContent = delays.length > 1 ? secondsText(median(delays)) : "–";
}

function showFailedLine(event) {
  transcript.addFinal({ ...event, text: "" });
  view.showPartials(transcript.partials);
  status.show(event.message);
}

function secondsText(ms) {
  return `${(ms / 1000).toFixed(2)} s`;
}

function summaryOf({ seconds }) {
  const { length } = transcript.lines;
  if (!length) return "Done: no speech detected.";
  return `Done: ${timeText(seconds)} of audio, ${length === 1 ? "one line" : `${length} lines`}.`;
}

function finishLive() {
  transcript.continueAfter(live.seconds);
  live = null;
  meter.stop();
  view.showPartials([]);
}

async function transcribeFile(file) {
  if (file.size > maxBytes) {
    const reason = `${file.name} is too large: the limit is ${Math.floor(maxBytes / 1e6)} MB.`;
    // A running session continues.
    return live || upload ? status.show(reason) : status.showError(new Error(reason));
  }
  startLines(file.name);
  const session = new FileSession(server, file, controls.fileOptions, showProgress);
  upload = session;
  status.setState("uploading", `Sending ${file.name}…`);
  const events = {
    status: (text) => status.show(text),
    line: (line) => session.stopped || addLine(line),
  };
  try {
    await session.run(events);
    const isEmpty = transcript.lines.length === 0;
    status.setState("done", isEmpty ? `Done: no speech in ${file.name}.` : `Done: ${file.name}.`);
  } catch (error) {
    if (!session.stopped) status.showError(error);
  } finally {
    if (upload === session) upload = null;
  }
}

function addLine(segment) {
  const line = transcript.addLine(segment);
  if (line) view.addLine(line);
}

function showProgress(share) {
  by("progress").hidden = share === undefined;
  if (share === null) by("progress").removeAttribute("value");
  else if (share !== undefined) by("progress").value = share;
}

function cancel() {
  if (!live && !upload) return;
  upload?.stop();
  upload = null;
  live?.stop();
  if (live) finishLive();
  status.setState("idle", "Stopped.");
}

// The first press waits for the rest of the text; the second one cancels it.
function stop() {
  if (status.state === "listening" && !live.ending) {
    live.end();
    meter.stop();
    status.show("Finishing the last line…");
  } else cancel();
}

function talk() {
  if (status.state === "listening") {
    if (!live.ending) live.flush();
  } else if (!live) startLive();
}

function clear() {
  transcript.clear();
  view.clear();
  for (const id of ["latency", "median"]) by(id).textContent = "–";
}

async function copy() {
  if (!transcript.lines.length) return status.show("There is nothing to copy yet.");
  try {
    // Available over HTTPS only.
    await navigator.clipboard.writeText(transcript.text);
    status.show("Text copied.");
  } catch {
    getSelection().selectAllChildren(by("finals"));
    status.show("The text is selected; copy it.");
  }
}

function exportFile() {
  if (!transcript.lines.length) return status.show("There is nothing to save yet.");
  const today = new Date().toISOString().slice(0, 10);
  const name = fileName(source || `talk ${today}`, controls.format);
  save(contentOf(transcript.lines, controls.format), name);
  status.show(`Saved: ${name}.`);
}

async function useKey(event) {
  event.preventDefault();
  server.storeKey(by("key").value.trim());
  by("key").value = "";
  by("key-form").hidden = true;
  await showModel();
  if (by("key-form").hidden) by("upload").focus();
}

by("talk").addEventListener("click", talk);
by("stop").addEventListener("click", stop);
by("export").addEventListener("click", exportFile);
by("copy").addEventListener("click", copy);
by("clear").addEventListener("click", clear);
by("key-form").addEventListener("submit", useKey);
by("upload").addEventListener("click", () => by("file").click());
by("file").addEventListener("change", () => {
  const [file] = by("file").files;
  if (file) transcribeFile(file);
  // Allows choosing the same file again.
  by("file").value = "";
});

addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat) {
    event.preventDefault();
    talk();
  } else if (event.key === "Escape") stop();
});
for (const move of ["dragenter", "dragover", "dragleave", "drop"]) {
  addEventListener(move, (event) => {
    // Without this a browser would open the file instead of the page.
    event.preventDefault();
    document.body.classList.toggle("dragging", move === "dragenter" || move === "dragover");
    const file = move === "drop" && event.dataTransfer.files[0];
    if (file) transcribeFile(file);
  });
}

showModel();

// The page: its buttons and keys.

import { Controls } from "./controls.mjs";
import { Meter } from "./meter.mjs";
import { listen } from "./microphone.mjs";
import { Paper } from "./paper.mjs";
import { Said } from "./said.mjs";
import { Sending } from "./sending.mjs";
import { Server } from "./server.mjs";
import { Sheet, median } from "./sheet.mjs";
import { Talk } from "./talk.mjs";
import { contentOf, momentOf, nameOf, save } from "./written.mjs";

const by = (id) => document.getElementById(id);
const main = document.querySelector("main");
const how = by("status").textContent;
const mostBytes = Number(main.dataset.uploadBytes);

const said = new Said(main, by);
const server = new Server(main.dataset.keyWanted === "yes");
const controls = new Controls(by);
const sheet = new Sheet();
const paper = new Paper(by("transcript"), by("finals"), by("partial"));

let analyser = null;
const meter = new Meter(by("meter"), () => analyser);

let talk = null;
let sending = null;
// What the lines are of: the name of a file, or "" for talks, which go on where they were left.
let origin = "";

async function offer() {
  try {
    const model = await server.model(() => said.say("The server is loading its model…"));
    controls.offer(model);
    if (said.state === "idle" || said.state === "failed") said.become("idle", how);
  } catch (error) {
    // Who talks or sends hears of it there.
    if (!talk && !sending) said.fail(error);
  }
}

function begin(of) {
  end();
  if (of !== "" || origin !== "") clear();
  origin = of;
}

function speak() {
  begin("");
  const mine = new Talk(listen, server, controls.askedLive, {
    hears: (microphone) => ours(mine, () => hears(microphone)),
    started: (event) => ours(mine, () => starts(event)),
    ended: () => ours(mine, () => said.say("Listening.")),
    partial: (event) => ours(mine, () => guess(event)),
    final: (event) => ours(mine, () => write(event)),
    failed: (event) => ours(mine, () => skip(event)),
  });
  talk = mine;
  said.become("asking", "Asking for the microphone…");
  mine.go().then(
    () => ours(mine, () => (finish(), said.become("done", endOf(mine)))),
    (error) => ours(mine, () => (finish(), said.fail(error))),
  );
}

// What a talk that was dropped still has to say concerns nobody.
function ours(mine, act) {
  if (talk === mine && !mine.stopped) act();
}

function hears(microphone) {
  analyser = microphone.analyser;
  meter.start();
  said.become("listening", "Listening.");
}

function starts(event) {
  said.say("Listening: speech detected.");
  sheet.begin(event);
  paper.guess(sheet.guesses);
}

function guess(event) {
  sheet.guess(event);
  paper.guess(sheet.guesses);
}

function write(event) {
  const line = sheet.write(event);
  paper.guess(sheet.guesses);
  if (!line) return;
  paper.add(line);
  const felt = sheet.lines.map(({ felt_ms }) => felt_ms);
  by("latency").textContent = secondsOf(line.felt_ms);
  by("median").textContent = felt.length > 1 ? secondsOf(median(felt)) : "–";
}

function skip(event) {
  sheet.write({ ...event, text: "" });
  paper.guess(sheet.guesses);
  said.say(event.message);
}

function secondsOf(ms) {
  return `${(ms / 1000).toFixed(2)} s`;
}

function endOf({ seconds }) {
  const { length } = sheet.lines;
  if (!length) return "Done: no speech detected.";
  return `Done: ${momentOf(seconds)} of audio, ${length === 1 ? "one line" : `${length} lines`}.`;
}

function finish() {
  sheet.goOn(talk.seconds);
  talk = null;
  meter.stop();
  paper.guess([]);
}

async function send(file) {
  if (file.size > mostBytes) {
    const why = `${file.name} is too large: the limit is ${Math.floor(mostBytes / 1e6)} MB.`;
    // What is under way goes on.
    return talk || sending ? said.say(why) : said.fail(new Error(why));
  }
  begin(file.name);
  const mine = new Sending(server, file, controls.asked, show);
  sending = mine;
  said.become("uploading", `Sending ${file.name}…`);
  const tell = {
    say: (text) => said.say(text),
    line: (line) => mine.stopped || add(line),
  };
  try {
    await mine.go(tell);
    const isEmpty = sheet.lines.length === 0;
    said.become("done", isEmpty ? `Done: no speech in ${file.name}.` : `Done: ${file.name}.`);
  } catch (error) {
    if (!mine.stopped) said.fail(error);
  } finally {
    if (sending === mine) sending = null;
  }
}

function add(segment) {
  const line = sheet.add(segment);
  if (line) paper.add(line);
}

function show(share) {
  by("progress").hidden = share === undefined;
  if (share === null) by("progress").removeAttribute("value");
  else if (share !== undefined) by("progress").value = share;
}

function end() {
  if (!talk && !sending) return;
  sending?.stop();
  sending = null;
  talk?.stop();
  if (talk) finish();
  said.become("idle", "Stopped.");
}

// The first time the rest is still written down; who presses again waits for nothing.
function stop() {
  if (said.state === "listening" && !talk.ending) {
    talk.end();
    meter.stop();
    said.say("Finishing the last line…");
  } else end();
}

function press() {
  if (said.state === "listening") {
    if (!talk.ending) talk.flush();
  } else if (!talk) speak();
}

function clear() {
  sheet.clear();
  paper.clear();
  for (const id of ["latency", "median"]) by(id).textContent = "–";
}

async function copy() {
  if (!sheet.lines.length) return said.say("There is nothing to copy yet.");
  try {
    // Only where the page came by HTTPS.
    await navigator.clipboard.writeText(sheet.text);
    said.say("Text copied.");
  } catch {
    getSelection().selectAllChildren(by("finals"));
    said.say("The text is selected; copy it.");
  }
}

function keep() {
  if (!sheet.lines.length) return said.say("There is nothing to save yet.");
  const name = nameOf(origin || `talk ${new Date().toISOString().slice(0, 10)}`, controls.format);
  save(contentOf(sheet.lines, controls.format), name);
  said.say(`Saved: ${name}.`);
}

async function useKey(event) {
  event.preventDefault();
  server.keep(by("key").value.trim());
  by("key").value = "";
  by("key-form").hidden = true;
  await offer();
  if (by("key-form").hidden) by("upload").focus();
}

by("talk").addEventListener("click", press);
by("stop").addEventListener("click", stop);
by("export").addEventListener("click", keep);
by("copy").addEventListener("click", copy);
by("clear").addEventListener("click", clear);
by("key-form").addEventListener("submit", useKey);
by("upload").addEventListener("click", () => by("file").click());
by("file").addEventListener("change", () => {
  const [file] = by("file").files;
  if (file) send(file);
  // The same file may be chosen again.
  by("file").value = "";
});

addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat) {
    event.preventDefault();
    press();
  } else if (event.key === "Escape") stop();
});
for (const move of ["dragenter", "dragover", "dragleave", "drop"]) {
  addEventListener(move, (event) => {
    // Without this a browser would leave the page and open the file.
    event.preventDefault();
    document.body.classList.toggle("dragging", move === "dragenter" || move === "dragover");
    const file = move === "drop" && event.dataTransfer.files[0];
    if (file) send(file);
  });
}

offer();

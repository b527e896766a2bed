// A call by OpenAI's agents for JavaScript: one question with a function, and an interruption.
// Arguments: the address of the server, and two files of 16-bit PCM at 24 kHz. Prints what happened.

import { readFile } from "node:fs/promises";
import { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession, tool } from "@openai/agents/realtime";
import { z } from "zod";

const STEP = 1920;
const [url, questionFile, interruptionFile] = process.argv.slice(2);
const found = { called: [], sound: 0, interrupted: 0, errors: [], history: [] };

const lookUp = tool({
  name: "look_up",
  description: "Looks something up.",
  parameters: z.object({ what: z.string() }),
  execute: async ({ what }) => {
    found.called.push(what);
    return "three";
  },
});
const agent = new RealtimeAgent({ name: "House", instructions: "Be brief.", tools: [lookUp] });
const transport = new OpenAIRealtimeWebSocket({ url, useInsecureApiKey: true });
const session = new RealtimeSession(agent, { transport, model: "voice" });
let heard = () => {};
session.on("audio", ({ data }) => {
  found.sound += data.byteLength;
  heard();
});
session.on("audio_interrupted", () => (found.interrupted += 1));
session.on("error", ({ error }) => found.errors.push(String(error?.message ?? JSON.stringify(error))));
session.on("history_updated", (history) => (found.history = history));

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

let queue = Buffer.alloc(0);
let silent = () => {};
const microphone = setInterval(() => {
  const part = Buffer.alloc(STEP);
  queue.copy(part, 0, 0, STEP);
  const spoke = queue.length > 0;
  queue = queue.subarray(STEP);
  session.sendAudio(part.buffer.slice(part.byteOffset, part.byteOffset + STEP));
  if (spoke && !queue.length) silent();
}, 40);

async function say(file) {
  const said = new Promise((done) => (silent = done));
  queue = await readFile(file);
  await said;
}

await session.connect({ apiKey: "none" });
await say(questionFile);
// The function's result is spoken; then somebody speaks into it.
while (!(found.called.length && found.sound > 48_000)) await pause(50);
await pause(500);
const before = found.sound;
await say(interruptionFile);
while (found.sound === before || found.interrupted === 0) await pause(50);
await pause(3000);
clearInterval(microphone);
session.close();
process.stdout.write(JSON.stringify(found));

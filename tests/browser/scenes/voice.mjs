import { spawn } from "node:child_process";
import { join } from "node:path";
import { act, logIn, observed, openPage, ready as chatReady, request } from "../chat.mjs";
import { recordCalls } from "../call_recorder.mjs";
import { pause, ready, visit } from "../visit.mjs";
import { withoutLogin } from "./login.mjs";

const CALL_MS = 60_000;
// The pauses within speech are shorter, and those between two questions longer.
const APART_MS = 600;
const SOUND = "response.output_audio.delta";
const CREATED = "response.created";
const GONE_MS = 5000;

/** Log in with the house's password as a person does. */
export async function login(browser, job) {
  const page = await visit(browser, job.page);
  await page.type("#password", job.password);
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  await ready(page);
  return { address: page.url(), complaints: page.complaints };
}

/** Call, ask, hear the answer, interrupt it twice, be answered again, and hang up. */
export async function talk(browser, job) {
  const page = await enter(browser, job);
  const speech = await dial(page, job);
  await answers(page, 3);
  await page.screenshot({ path: join(job.folder, `${job.browser}-call.png`) });
  const during = await report(page);
  await page.click("#hang-up");
  speech?.kill();
  await pause(500);
  const { shown, lines } = await report(page);
  return { ...during, lines, ended: shown.at(-1) };
}

/** Call where as many people talk as the house answers. */
export async function crowded(browser, job) {
  const page = await enter(browser, job);
  await act(page, job, "fill the line");
  const pressed = await page.evaluate(() => performance.now());
  await page.click("#call");
  await alert(page);
  await act(page, job, "free the line");
  return { pressed, ...(await report(page)) };
}

/** Let a program of the house end while the house speaks, and go on or call again. */
export const without = (program) =>
  async function (browser, job) {
    const page = await enter(browser, job);
    const speech = await dial(page, job);
    // The model still writes then.
    await answers(page, 1, { for_ms: 300 });
    const cut = await act(page, job, `end ${program}`);
    await alert(page, cut.at);
    await page.screenshot({ path: join(job.folder, `${job.browser}-call-without-${program}.png`) });
    const broken = await report(page);
    await act(page, job, `wait for ${program}`);
    const again = await page.$eval("#call", (button) => !button.disabled);
    const before = await page.evaluate(() => performance.now());
    if (again) await page.click("#call");
    await event(page, SOUND, before);
    await page.click("#hang-up");
    speech?.kill();
    return { cut, broken, again };
  };

/** Let the model's server end while it is asked: an error is shown, or another model answers. */
export async function withoutOllama(browser, job) {
  const page = await enter(browser, job);
  await act(page, job, "let ollama answer");
  await dial(page, job);
  await event(page, CREATED);
  const cut = await act(page, job, "end ollama");
  await page.waitForFunction(
    (from, type) => {
      const { shown, events } = globalThis.__call.report();
      const isLate = ({ at }) => at > from;
      return shown.some(([at, , , text]) => at > from && text) || events.filter(isLate).some((one) => one.type === type);
    },
    { polling: 20, timeout: CALL_MS },
    ...[cut.at, SOUND],
  );
  const broken = await report(page);
  await act(page, job, "wait for ollama");
  await event(page, SOUND, await page.evaluate(() => performance.now()));
  await page.click("#hang-up");
  await act(page, job, "let the script answer");
  return { cut, broken };
}

/** Let a call go on while nothing gets through for some seconds. */
export async function withoutNetwork(browser, job) {
  const page = await enter(browser, job);
  const speech = await dial(page, job);
  await answers(page, 1);
  const cut = await act(page, job, "cut the network");
  await alert(page, cut.at);
  const broken = await report(page);
  await pause(GONE_MS - (broken.now - cut.at));
  const mended = await act(page, job, "mend the network");
  await event(page, SOUND, mended.at);
  const after = await report(page);
  await page.click("#hang-up");
  speech?.kill();
  return { cut, mended, broken, after };
}

/** Lose the login while the page is open, and call. */
export async function loginEnded(browser, job) {
  return withoutLogin(browser, await enter(browser, job), "#call");
}

/** Press the chat's call button, ask, interrupt, be answered again, hang up; then read the chat. */
export async function callFromChat(browser, job) {
  const page = await openChat(browser, job);
  await page.click("button[aria-label='Voice mode']");
  await page.waitForSelector(".bridge-call");
  await answers(page, 3);
  await page.screenshot({ path: join(job.folder, `${job.browser}-chat-call.png`) });
  const during = await report(page);
  const [end] = await page.$$(".bridge-call .end-control");
  await end.click();
  await page.waitForSelector(".bridge-call", { hidden: true });
  // The last words are saved after the call.
  await pause(1500);
  const chat = await observed(page);
  const path = await page.evaluate(() => location.pathname);
  const stored = await storedMessages(page, path);
  await page.screenshot({ path: join(job.folder, `${job.browser}-chat-after-call.png`) });
  return { ...during, chat, stored };
}

/** Let the voice server end during a call of the chat. */
export async function chatWithoutVoice(browser, job) {
  const page = await openChat(browser, job);
  await page.click("button[aria-label='Voice mode']");
  await answers(page, 1);
  const cut = await act(page, job, "end voice");
  await alert(page, cut.at);
  const broken = await report(page);
  await act(page, job, "wait for voice");
  const [retry] = await page.$$(".bridge-call .text-action");
  await retry.click();
  await answers(page, 1, { since: cut.at });
  return { cut, broken };
}

async function openChat(browser, job) {
  const page = await openPage(browser, job);
  await page.evaluateOnNewDocument(recordCalls);
  await page.reload();
  if (await page.$("#email")) await logIn(page, job.email, job.password);
  await chatReady(page);
  return page;
}

/** Return the messages of a chat as its server has them, in their order. */
async function storedMessages(page, path) {
  const { chat } = await request(page, "GET", `/api/v1/chats/${path.split("/").at(-1)}`);
  const { messages, currentId } = chat.history;
  const found = [];
  for (let one = messages[currentId]; one; one = messages[one.parentId]) {
    found.unshift({ role: one.role, content: one.content, voice: one.meta?.voice ?? null });
  }
  return found;
}

async function enter(browser, job) {
  const page = await visit(browser, "about:blank");
  await page.evaluateOnNewDocument(recordCalls);
  await page.goto(job.page);
  await ready(page);
  return page;
}

/** Press the button and wait until the house listens; return what speaks without a fake microphone. */
async function dial(page, job) {
  await page.click("#call");
  await page.waitForFunction(
    () => ["listening", "failed"].includes(document.querySelector("main").dataset.state),
    { polling: 20, timeout: CALL_MS },
  );
  const { shown } = await report(page);
  const [, state, , problem] = shown.at(-1);
  if (state === "failed") throw new Error(problem);
  return job.browser === "firefox" ? repeated(job.sound) : null;
}

/** Play a file into the sound device again and again. */
function repeated(sound) {
  const loop = ["-c", 'while paplay "$0"; do :; done', sound];
  // Into a device of its own: the page's voice is played into the other one.
  const env = { ...process.env, PULSE_SINK: "microphone" };
  const { pid } = spawn("sh", loop, { stdio: "ignore", detached: true, env });
  // The shell and what it runs.
  return { kill: () => process.kill(-pid) };
}

/** Wait until this many answers were begun after a moment, and the last one has been heard a while. */
async function answers(page, count, { since = 0, for_ms = 1500 } = {}) {
  await page.waitForFunction(
    (wanted, type, sound, from) => {
      const events = globalThis.__call.report().events.filter(({ at }) => at > from);
      const last = events.findLastIndex((one) => one.type === type);
      const begun = events.filter((one) => one.type === type).length;
      return begun >= wanted && events.slice(last).some((one) => one.type === sound);
    },
    { polling: 50, timeout: CALL_MS },
    ...[count, CREATED, SOUND, since],
  );
  await pause(for_ms);
}

/** Wait for an event of a type after a moment. */
async function event(page, type, since = 0) {
  await page.waitForFunction(
    (wanted, from) => globalThis.__call.report().events.some((one) => one.type === wanted && one.at > from),
    { polling: 50, timeout: CALL_MS },
    ...[type, since],
  );
}

/** Wait until the page shows an error after a moment. */
async function alert(page, since = 0) {
  await page.waitForFunction(
    (from) => globalThis.__call.report().shown.some(([at, , , text]) => at > from && text),
    { polling: 20, timeout: CALL_MS },
    since,
  );
}

/** Return what the page heard, played, received and showed. */
async function report(page) {
  const found = await page.evaluate(() => globalThis.__call.report());
  const heard = await page.evaluate((apart) => globalThis.__audio.stretches(apart), APART_MS);
  const { refusals } = await page.evaluate(() => globalThis.__audio.report());
  return { ...found, heard, refusals, complaints: [...page.complaints] };
}

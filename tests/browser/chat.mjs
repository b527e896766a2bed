import { access, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { recordChat } from "./chat_recorder.mjs";
import { pause, visit } from "./visit.mjs";

/** How long an undisturbed answer may take, and a server to come back. */
export const ANSWER_MS = 60_000;
const FIELD = "#chat-input";
const SEND = "#send-message-button";

/** Open the chat's page, or what is shown instead of it. */
export async function openPage(browser, job, path = "") {
  const page = await visit(browser, "about:blank");
  await page.evaluateOnNewDocument(recordChat);
  await page.goto(job.page + path);
  return page;
}

/** Open the chat, logged in as the browser is, and wait until its field is ready. */
export async function enter(browser, job, path = "") {
  const page = await openPage(browser, job, path);
  await ready(page);
  return page;
}

/** Log in as a person does, and wait until the field is ready. */
export async function logIn(page, email, password) {
  await page.waitForSelector("#email");
  await page.type("#email", email);
  await page.type("#password", password);
  await page.keyboard.press("Enter");
  await ready(page);
}

/** Wait until the page and its WebSocket are ready, and nothing covers the page. */
export async function ready(page) {
  await page.waitForSelector(FIELD);
  await page.waitForFunction(
    () => globalThis.__chat.report().lines.some(({ greeted, ended }) => greeted && !ended),
    { polling: 50 },
  );
  // The news of a version, until they were closed once.
  const news = await page.$("[role=dialog] button[aria-label=Close]");
  if (news) await news.click();
}

/** Write a message and send it; the page gets the events that a person would cause. */
export async function write(page, text) {
  await page.click(FIELD);
  await page.keyboard.type(text);
  await page.waitForSelector(SEND);
  await page.evaluate(() => globalThis.__chat.clear());
  const before = (await lastAnswer(page)).id;
  const sent = await page.evaluate(() => performance.now());
  await page.click(SEND);
  return { before, sent };
}

/** Wait until the answer to a message has ended, well or badly, and return its records. */
export async function answered(page, { before, sent }) {
  await until(page, before, true);
  return { sent, ...(await observed(page)) };
}

/** Wait for an answer that is not the one before: until it has ended, or this many states of it. */
async function until(page, before, ended, states = 0) {
  await page.waitForFunction(
    (former, atEnd, least) => {
      const { id, done } = globalThis.__chat.last();
      if (id === former) return false;
      return done || (!atEnd && globalThis.__chat.states() >= least);
    },
    { polling: 20, timeout: ANSWER_MS },
    ...[before, ended, states],
  );
}

/** Return which answer is the last one, and whether it has ended. */
export const lastAnswer = (page) => page.evaluate(() => globalThis.__chat.last());

/** Write a message and wait for the end of its answer. */
export async function ask(page, text) {
  return answered(page, await write(page, text));
}

/** Wait until an answer has had this many states on the page, or has ended before. */
export const streams = (page, { before }) => until(page, before, false, 3);

/** Return what the page showed, sent and refused. */
export async function observed(page) {
  const found = await page.evaluate(() => globalThis.__chat.report());
  const { refusals } = await page.evaluate(() => globalThis.__audio.report());
  // A stream has hundreds of states: a reader needs their times, and the last one.
  const states = found.shown.map(([at, { length }]) => [at, length]);
  const last = found.shown.at(-1)?.[1] ?? "";
  return { ...found, shown: undefined, states, last, refusals, complaints: [...page.complaints] };
}

/** Upload files as a person does: by the menu at the field, and wait until they are accepted. */
export async function uploadFile(page, path) {
  await page.click("#input-menu-button");
  const item = await page.waitForSelector("::-p-text(Upload Files)");
  const [chooser] = await Promise.all([page.waitForFileChooser(), item.click()]);
  await chooser.accept([path]);
  await page.waitForSelector("#message-input-container [aria-label='Remove file' i]");
  // Its indicator turns while the server still reads.
  await page.waitForSelector("#message-input-container [class^=spinner]", { hidden: true });
}

/** Send a request to the server as its page does, with the token of the account. */
export async function request(page, method, path, body) {
  return page.evaluate(
    async (verb, where, content) => {
      const headers = {
        authorization: `Bearer ${localStorage.token}`,
        "content-type": "application/json",
      };
      const answer = await fetch(where, { method: verb, headers, body: content && JSON.stringify(content) });
      if (!answer.ok) throw new Error(`${verb} ${where}: HTTP ${answer.status}`);
      return answer.json();
    },
    ...[method, path, body],
  );
}

let requested = 0;

/**
 * Request an action outside the browser: end a program of the house, reload Caddy.
 *
 * @returns the time of the request on the page's clock, and the result
 */
export async function act(page, job, name) {
  const number = (requested += 1);
  const folder = join(job.folder, "actions");
  await mkdir(folder, { recursive: true });
  const reply = join(folder, `${number}.json`);
  const at = await page.evaluate(() => performance.now());
  process.stdout.write(`${JSON.stringify({ action: name, reply })}\n`);
  while (!(await access(reply).then(() => true, () => false))) await pause(20);
  const { done, failed } = JSON.parse(await readFile(reply, "utf8"));
  if (failed) throw new Error(`${name}: ${failed}`);
  return { at, done };
}

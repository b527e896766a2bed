import { spawn } from "node:child_process";
import { readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { recordRecognition } from "../stt_recorder.mjs";
import { chord, pause, ready, visit } from "../visit.mjs";
import { withoutLogin } from "./login.mjs";
import { around, downloaded } from "./controls.mjs";

const TALK_MS = 60_000;
const TRIES = 3;

/** Log in with the house's password as a person does; return what the page shows then. */
export async function login(browser, job) {
  const page = await visit(browser, job.page);
  await page.type("#password", job.password);
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  await ready(page);
  const model = await page.$eval("#model", (one) => one.textContent);
  const languages = await page.$$eval("#language option", (found) => found.map((one) => one.value));
  return { address: page.url(), model, languages, complaints: page.complaints };
}

/**
 * Play the speech of the file to its end; in one browser again, if no guess was shown meanwhile.
 *
 * Guesses use the processors' spare time; on a busy machine there are none.
 */
export async function talk(browser, job) {
  const tries = [];
  const isGuess = ({ type }) => type === "partial";
  const most = job.browser === "firefox" ? 1 : TRIES;
  while (tries.length < most && !tries.at(-1)?.events.some(isGuess)) {
    const page = await enter(browser, job);
    tries.push(await talkOnce(page, job));
    await page.close();
  }
  return tries;
}

async function talkOnce(page, job) {
  await page.click("#talk");
  const speech = await listens(page, job);
  await lines(page, job.utterances);
  await page.screenshot({ path: join(job.folder, `${job.browser}-talk.png`) });
  // A silence in which no text may appear.
  await pause(1500);
  await page.click("#stop");
  await states(page, ["done", "failed"]);
  speech?.kill();
  return observed(page);
}

/** Request the line during speech. */
export async function lineNow(browser, job) {
  const page = await enter(browser, job);
  await page.click("#talk");
  const speech = await listens(page, job);
  await started(page);
  await pause(1200);
  const requested = await page.evaluate(() => performance.now());
  await page.click("#talk");
  await lines(page, 1);
  // Long enough to see that the speech goes on.
  await pause(500);
  const found = await observed(page);
  await page.click("#stop");
  await states(page, ["done", "failed"]);
  speech?.kill();
  return { requested, ...found };
}

/** Transcribe a long file, and save the text as subtitles. */
export async function upload(browser, job) {
  const page = await enter(browser, job);
  await choose(page, job.long);
  await states(page, ["done", "failed"]);
  await page.screenshot({ path: join(job.folder, `${job.browser}-upload.png`) });
  const found = await observed(page);
  await page.select("#format", "srt");
  await page.click("#export");
  const name = await downloaded(job).catch(() => null);
  const content = name && (await readFile(join(job.downloads, name), "utf8"));
  return { ...found, name, content };
}

/** Upload a picture, and then a file with speech. */
export async function picture(browser, job) {
  const page = await enter(browser, job);
  const pretender = join(job.folder, "picture.wav");
  await page.screenshot({ path: `${pretender}.png` });
  await rename(`${pretender}.png`, pretender);
  await choose(page, pretender);
  await states(page, ["failed", "done"]);
  const refused = await observed(page);
  await choose(page, job.sound);
  await states(page, ["done"]);
  return { refused, ...(await observed(page)) };
}

/** Open the page in a browser without a microphone. */
export async function withoutMicrophone(browser, job) {
  const page = await enter(browser, job, { without: ["mediaDevices"] });
  await page.click("#talk");
  await states(page, ["failed"]);
  return observed(page);
}

/** Use only the keyboard. */
export async function keyboard(browser, job) {
  const page = await enter(browser, job);
  const reached = await around(page);
  await chord(page, "Control", "Enter");
  await states(page, ["listening", "failed"]);
  const began = await observed(page);
  await page.keyboard.press("Escape");
  await states(page, ["done", "failed"]);
  return { reached, began, ...(await observed(page)) };
}

/** Lose the login while the page is open, and speak. */
export async function loginEnded(browser, job) {
  return withoutLogin(browser, await enter(browser, job), "#talk");
}

async function enter(browser, job, options) {
  const page = await visit(browser, "about:blank", options);
  await page.evaluateOnNewDocument(recordRecognition);
  await page.goto(job.page);
  await ready(page);
  return page;
}

/** Wait until the page listens; return what plays the speech without a fake one. */
async function listens(page, job) {
  await states(page, ["listening", "failed"]);
  const { display } = await observed(page);
  if (display.state === "failed") throw new Error(display.status);
  return job.browser === "firefox" ? spawn("paplay", [job.sound], { stdio: "ignore" }) : null;
}

const choose = async (page, path) => (await page.$("#file")).uploadFile(path);

const until = (page, test, ...given) =>
  page.waitForFunction(test, { polling: 20, timeout: TALK_MS }, ...given);

const states = (page, wanted) =>
  until(page, (some) => some.includes(document.querySelector("main").dataset.state), wanted);

/** Wait for this many lines; throws the page's error if it fails before. */
async function lines(page, count) {
  const isFailed = () => document.querySelector("main").dataset.state === "failed";
  await until(
    page,
    (least) =>
      document.querySelectorAll("#finals li").length >= least ||
      document.querySelector("main").dataset.state === "failed",
    count,
  );
  if (await page.evaluate(isFailed)) throw new Error((await observed(page)).display.status);
}

const started = (page) =>
  until(page, () => globalThis.__recognition.report().events.some(({ type }) => type === "speech_started"));

async function observed(page) {
  const found = await page.evaluate(() => globalThis.__recognition.report());
  const { refusals } = await page.evaluate(() => globalThis.__audio.report());
  return { ...found, refusals, complaints: page.complaints };
}

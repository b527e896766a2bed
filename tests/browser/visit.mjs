import { randomInt } from "node:crypto";
import { recordAudio } from "./audio_recorder.mjs";

/** How long a page may take to open, and one speech to end, on a machine that is busy. */
const OPEN_MS = 60_000;
const SPEECH_MS = 60_000;
const ENDED = ["done", "stopped", "failed"];

/**
 * Open an address in a page of its own, with a recorder in it and its errors recorded.
 *
 * @param {{without?: string[]}} options browser interfaces that are missing in this page
 * @returns the page, with `complaints`: the errors that it logged, and what it could not load
 */
export async function visit(browser, address, { without = [] } = {}) {
  const page = await browser.newPage();
  page.setDefaultTimeout(OPEN_MS);
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) complaints.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => complaints.push(`script: ${error.message}`));
  page.on("response", (answer) => {
    if (answer.status() >= 400) complaints.push(`HTTP ${answer.status()}: ${answer.url()}`);
  });
  await page.evaluateOnNewDocument(recordAudio, { without });
  await page.goto(address);
  return Object.assign(page, { complaints });
}

/** Wait until the page knows its server's voices, model or state, or the result of its own test. */
export async function ready(page) {
  const known = '#voice option, #model:not(:empty), [data-state="nearly"], [data-state="red"], #call, #live[data-state="live"]';
  await page.waitForFunction(
    (signs) => document.querySelector(signs),
    { polling: 50 },
    known,
  );
}

/** Open the page, logged in as the browser is, and wait until it may be used. */
export async function enter(browser, job, options) {
  const page = await visit(browser, job.page, options);
  await ready(page);
  return page;
}

/** Replace the text of a field as pasting does, with the event that the page handles. */
export async function write(page, text) {
  await page.focus("#text");
  await chord(page, "Control", "a");
  await page.evaluate((pasted) => document.execCommand("insertText", false, pasted), text);
}

/** Press two keys at once. */
export async function chord(page, held, key) {
  await page.keyboard.down(held);
  await page.keyboard.press(key);
  await page.keyboard.up(held);
}

/** Let the page speak the text in its field, wait until it has ended, and return the records. */
export async function speak(page, press = () => page.click("#speak")) {
  await page.evaluate(() => globalThis.__audio.clear());
  await press();
  return ended(page);
}

/** Wait until a speech that was started has ended, and return its records. */
export async function ended(page) {
  await page.waitForFunction(
    (states) => states.includes(document.querySelector("main").dataset.state),
    { polling: 50, timeout: SPEECH_MS },
    ENDED,
  );
  // For the page, the end is the last sample; the recorder looks ten times a second.
  await pause(400);
  return about(page);
}

/** Return what was audible, and what the page itself reports. */
export async function about(page) {
  const heard = await page.evaluate(() => globalThis.__audio.report());
  const display = await page.evaluate(() => {
    const text = (id) => document.querySelector(id)?.textContent.trim() ?? null;
    const { state } = document.querySelector("main").dataset;
    return { state, ttfa: text("#ttfa"), stalls: text("#stalls"), status: text("#status") };
  });
  return { ...heard, display };
}

/** Wait until something is loud: not a pause, not the time before the first sound. */
export async function sound(page) {
  await page.waitForFunction(() => globalThis.__audio.loud(), { polling: 20, timeout: SPEECH_MS });
}

/**
 * Return a text after some words that no server has spoken yet, so that none are remembered.
 *
 * Each NAME in it becomes such a word, too: pieces after the first one may be remembered as well.
 */
export function fresh(text) {
  const one = (letters) => letters[randomInt(letters.length)];
  const name = () => `${one("BDFGKLMNPRST")}${one("aeiou")}${one("dklmnrst")}${one("aeiou")}ra`;
  return `${name()} told ${name()}. ${text}`.replace(/\bNAME\b/g, name);
}

/** Wait for some milliseconds. */
export function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

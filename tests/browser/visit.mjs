import { randomInt } from "node:crypto";
import { ear } from "./ear.mjs";

/** How long a page may take to open, and one speech to end, where the machine has much else to do. */
const OPEN_MS = 60_000;
const SPEECH_MS = 60_000;
const ENDED = ["done", "stopped", "failed"];

/**
 * Open an address in a page of its own, with an ear in it and its complaints noted.
 *
 * @param {{without?: string[]}} options browser interfaces that the page shall not find
 * @returns the page, with `complaints`: what it wrote as errors, and what it could not load
 */
export async function visit(browser, address, { without = [] } = {}) {
  const page = await browser.newPage();
  page.setDefaultTimeout(OPEN_MS);
  const complaints = [];
  page.on("console", (said) => {
    if (["error", "warn"].includes(said.type())) complaints.push(`console: ${said.text()}`);
  });
  page.on("pageerror", (error) => complaints.push(`script: ${error.message}`));
  page.on("response", (answer) => {
    if (answer.status() >= 400) complaints.push(`HTTP ${answer.status()}: ${answer.url()}`);
  });
  await page.evaluateOnNewDocument(ear, { without });
  await page.goto(address);
  return Object.assign(page, { complaints });
}

/** Wait until the page knows what its server has, its voices or its model; or what it looked for. */
export async function ready(page) {
  const known = '#voice option, #model:not(:empty), [data-state="nearly"], [data-state="red"]';
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

/** Put a text into its field as pasting does: what was there goes, the page hears of it. */
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

/** Have the page say what is in its field, wait until it has ended, and return all about it. */
export async function speak(page, press = () => page.click("#speak")) {
  await page.evaluate(() => globalThis.__ear.clear());
  await press();
  return ended(page);
}

/** Wait until a speech that was begun has ended, and return what was heard and said. */
export async function ended(page) {
  await page.waitForFunction(
    (states) => states.includes(document.querySelector("main").dataset.state),
    { polling: 50, timeout: SPEECH_MS },
    ENDED,
  );
  // What the page calls its end is the last sample; the ear looks ten times a second.
  await pause(400);
  return about(page);
}

/** Return what was heard, and what the page says of itself. */
export async function about(page) {
  const heard = await page.evaluate(() => globalThis.__ear.report());
  const said = await page.evaluate(() => {
    const text = (id) => document.querySelector(id)?.textContent.trim() ?? null;
    const { state } = document.querySelector("main").dataset;
    return { state, ttfa: text("#ttfa"), stalls: text("#stalls"), status: text("#status") };
  });
  return { ...heard, said };
}

/** Wait until something is loud: not a pause, not the time before the first sound. */
export async function sound(page) {
  await page.waitForFunction(() => globalThis.__ear.loud(), { polling: 20, timeout: SPEECH_MS });
}

/** Return a text whose first words no server has spoken yet, so that none are remembered. */
export function fresh(text) {
  const one = (letters) => letters[randomInt(letters.length)];
  const name = () => `${one("BDFGKLMNPRST")}${one("aeiou")}${one("dklmnrst")}${one("aeiou")}ra`;
  return `${name()} told ${name()}. ${text}`;
}

/** Wait for some milliseconds. */
export function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import {
  about,
  chord,
  ended,
  enter,
  fresh,
  pause,
  ready,
  sound,
  speak,
  visit,
  write,
} from "../visit.mjs";

const DOWNLOAD_MS = 60_000;

/** Choose a voice and play its sample. */
export async function sample(browser, job) {
  const page = await enter(browser, job);
  await page.select("#voice", "ef_dora");
  await page.evaluate(() => globalThis.__audio.clear());
  await page.click("#sample");
  await sound(page);
  return about(page);
}

/** Speak with two voices, faster. */
export async function blend(browser, job) {
  const page = await enter(browser, job);
  await write(page, fresh("Twice as many."));
  await page.select("#voice", "af_heart");
  await page.select("#blend", "bm_fable");
  await set(page, "#weight", "30");
  await set(page, "#speed", "1.5");
  return speak(page);
}

/** Use only the keyboard: find the field, write, speak, stop. */
export async function keyboard(browser, job) {
  const page = await enter(browser, job);
  const reached = await around(page);
  await page.evaluate(() => document.querySelector("#text").focus());
  await chord(page, "Control", "a");
  await page.keyboard.type(fresh("The stairs are swept. The lamps are lit. The door is shut."));
  await page.evaluate(() => globalThis.__audio.clear());
  await chord(page, "Control", "Enter");
  await sound(page);
  const began = await about(page);
  await page.keyboard.press("Escape");
  await ended(page);
  await pause(1000);
  return { reached, began, ...(await about(page)) };
}

/** Press Tab until it wraps around; return each element that had the focus, and if it showed. */
export async function around(page) {
  await page.evaluate(() => {
    document.activeElement?.blur();
    globalThis.__reached = [];
  });
  for (let step = 0; step < 60; step += 1) {
    await page.keyboard.press("Tab");
    // An element that fades in has started to.
    await pause(60);
    if (!(await page.evaluate(reach))) break;
  }
  return page.evaluate(async () => {
    document.activeElement?.blur();
    await new Promise((done) => setTimeout(done, 500));
    const visibility = ({ one, look, lookOf }) => ({ id: one.id, seen: look !== lookOf(one) });
    return globalThis.__reached.map(visibility);
  });
}

/** Record which element has the focus, with its style; runs in the page. */
function reach() {
  const one = document.activeElement;
  if (!one || one === document.body || globalThis.__reached.some((was) => was.one === one)) {
    return false;
  }
  // A field may leave it to the box around it to show its focus.
  const lookOf = (element) =>
    [element, element.parentElement]
      .map((each) => getComputedStyle(each))
      .map((style) => [style.outline, style.boxShadow, style.borderColor, style.background])
      .join();
  globalThis.__reached.push({ one, look: lookOf(one), lookOf });
  return true;
}

/** Download a speech as a file in the job's folder; return the file's name. */
export async function download(browser, job) {
  const page = await enter(browser, job);
  await write(page, fresh("This one is to keep."));
  await page.select("#format", "mp3");
  await page.click("#download");
  return { name: await downloaded(job), ...(await about(page)) };
}

/** Wait for a download and return its name. */
export async function downloaded(job) {
  const until = Date.now() + DOWNLOAD_MS;
  while (Date.now() < until) {
    const names = (await readdir(job.downloads)).filter((name) => !/part$|crdownload$/.test(name));
    for (const name of names) {
      // Firefox creates the file at once and fills it later.
      if ((await stat(join(job.downloads, name))).size) return name;
    }
    await pause(100);
  }
  throw new Error(`no file: ${(await readdir(job.downloads)).join(", ") || "the folder is empty"}`);
}

/** Take the link of a page with its settings, open it in a new page, and speak there. */
export async function permalink(browser, job) {
  const page = await enter(browser, job);
  await write(page, fresh("Ünïcödé & 100 % of it, #1?"));
  await page.select("#voice", "bf_emma");
  await set(page, "#speed", "1.25");
  const link = await page.$eval("#permalink", (one) => one.href);
  const before = await fields(page);
  const other = await visit(browser, link);
  await ready(other);
  const after = await fields(other);
  return { link, before, after, ...(await speak(other)), complaints: other.complaints };
}

const fields = (page) =>
  page.evaluate(() => {
    const value = (id) => document.querySelector(id).value;
    return { text: value("#text"), voice: value("#voice"), speed: value("#speed") };
  });

/** Set a number field or a slider, with the event that a person would cause. */
async function set(page, id, value) {
  await page.$eval(
    id,
    (field, wanted) => {
      field.value = wanted;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.dispatchEvent(new Event("change", { bubbles: true }));
    },
    value,
  );
}

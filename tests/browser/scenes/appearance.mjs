import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { enter } from "../visit.mjs";

const SIZES = { desk: { width: 1280, height: 900 }, phone: { width: 360, height: 740 } };
const NARROWEST = { width: 320, height: 640 };
const FINGER_PX = 44;
const SERIOUS = ["serious", "critical"];

/** Let axe search for accessibility faults. */
export async function accessibility(browser, job) {
  const page = await enter(browser, job);
  await page.evaluate(await readFile(createRequire(import.meta.url).resolve("axe-core"), "utf8"));
  const { violations, passes } = await page.evaluate(() => globalThis.axe.run(document));
  const summary = ({ id, impact, help, nodes }) => ({
    ...{ id, impact, help },
    where: nodes.map(({ target }) => target.join(" ")),
  });
  const serious = violations.filter(({ impact }) => SERIOUS.includes(impact)).map(summary);
  return { serious, lesser: violations.length - serious.length, passed: passes.length };
}

/** Look at it on the narrowest phone: nothing overflows, nothing is too small for a finger. */
export async function phone(browser, job) {
  const page = await enter(browser, job);
  await page.setViewport(NARROWEST);
  return page.evaluate((least) => {
    const shown = [...document.querySelectorAll("button, select, input, textarea, a, summary")];
    const boxes = shown.map((one) => [one.id || one.textContent, one.getBoundingClientRect()]);
    const there = boxes.filter(([, { width, height }]) => width && height);
    return {
      inner: innerWidth,
      wide: document.documentElement.scrollWidth,
      sticking_out: there.filter(([, box]) => box.right > innerWidth + 1).map(([name]) => name),
      too_small: there.filter(([, box]) => box.height < least).map(([name]) => name),
    };
  }, FINGER_PX);
}

/** Take the screenshots for people to look at. */
export const lightPictures = (browser, job) => pictures(browser, job, "light");

/** The same at night. */
export const darkPictures = (browser, job) => pictures(browser, job, "dark");

async function pictures(browser, job, scheme) {
  const page = await enter(browser, job);
  const names = [];
  for (const [place, size] of Object.entries(SIZES)) {
    await page.setViewport(size);
    const name = `${job.browser}-${place}-${scheme}.png`;
    await page.screenshot({ path: join(job.folder, name), fullPage: true });
    names.push(name);
  }
  const { backgroundColor, color } = await page.evaluate(() => {
    const { backgroundColor, color } = getComputedStyle(document.body);
    return { backgroundColor, color };
  });
  return { names, ground: brightnessOf(backgroundColor), text: brightnessOf(color) };
}

/** Return how bright a browser's `rgb(…)` looks, 0 to 1. */
function brightnessOf(color) {
  const [red, green, blue] = color.match(/[0-9]+/g).map((part) => part / 255);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

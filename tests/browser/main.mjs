/**
 * Visit a page with one browser and report what happened: one line of JSON for each scene.
 *
 * The job is read from standard input, so that no process list shows the password:
 * {"browser": "chromium" | "firefox", "play": one of those in scenes.mjs, "page": address,
 * "password": ..., "folder": ..., "sound": a file with what a microphone hears}, what the scenes of
 * that play need beside it, and to work on one scene "only": [its name].
 * The scenes measure; the reader of the lines judges.
 */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { open } from "./browsers.mjs";
import * as plays from "./scenes.mjs";
import { about } from "./visit.mjs";

/** Longer than any scene, except those with idle minutes or a change of the house. */
const SCENE_MS = 120_000;

const job = JSON.parse(await text(process.stdin));
const limit_ms = SCENE_MS + (job.idle_ms ?? 0) + (job.change_ms ?? 0);
job.downloads = join(job.folder, "downloads");
// The files of an earlier visit would be taken for this one's.
await rm(job.folder, { recursive: true, force: true });
await mkdir(job.folder, { recursive: true });

const print = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** Play one scene within its time and report whether it reached its end; an error is its result. */
async function play(name, scene, browser) {
  const began = performance.now();
  let late;
  const end = new Promise((_, reject) => {
    late = setTimeout(reject, limit_ms, new Error(`no end after ${limit_ms / 1000} s`));
  });
  try {
    const found = await Promise.race([scene(browser, job), end]);
    print({ scene: name, seconds: (performance.now() - began) / 1000, found });
    return true;
  } catch (error) {
    const seconds = (performance.now() - began) / 1000;
    print({ scene: name, seconds, error: error.stack, left: await describePages(name, browser) });
    return false;
  } finally {
    clearTimeout(late);
    const pages = await browser.pages();
    // One page stays, or the browser would end with its last window.
    await Promise.allSettled(pages.slice(1).map((page) => page.close()));
  }
}

/** Return the text of the pages of a broken scene, and take a screenshot of each. */
async function describePages(name, browser) {
  const open = (await browser.pages()).slice(1);
  const reports = open.map(async (page, number) => {
    await page.screenshot({ path: join(job.folder, `broken, ${name}, ${number}.png`) });
    const shown = await page.evaluate(() => document.body?.innerText);
    const known = await about(page).catch(({ message }) => ({ message }));
    return { ...known, shown, complaints: page.complaints };
  });
  return (await Promise.allSettled(reports)).map(({ value, reason }) => value ?? reason.message);
}

for (const dark of [false, true]) {
  const scenes = Object.entries(plays[job.play](dark, job));
  if (!scenes.length) continue;
  const began = performance.now();
  const browser = await open(job, { dark });
  const seconds = (performance.now() - began) / 1000;
  print({ scene: dark ? "open in the dark" : "open", seconds, found: await browser.version() });
  for (const [name, scene] of scenes) {
    const isLogin = name.startsWith("log in") || name === "login";
    const chosen = !job.only || isLogin || job.only.includes(name);
    // Without a login nothing can be tested; after any other error the next scene is played.
    if (chosen && !(await play(name, scene, browser)) && isLogin) break;
  }
  await browser.close();
}

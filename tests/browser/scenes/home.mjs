import { access, appendFile } from "node:fs/promises";
import { join } from "node:path";
import { act } from "../chat.mjs";
import { enter, pause, ready, visit } from "../visit.mjs";

/** Longer than a fault and its repair may take to show. */
const SHOWN_MS = 60_000;

/** Log in with the house's password, and return what the page shows when it is live. */
export async function login(browser, job) {
  const page = await visit(browser, job.page);
  await page.type("#password", job.password);
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  await ready(page);
  return { address: page.url(), ...(await observed(page)), complaints: page.complaints };
}

/** Open it without scripts: the same state, and a reload instead of a live connection. */
export async function withoutScripts(browser, job) {
  const page = await browser.newPage();
  await page.setJavaScriptEnabled(false);
  await page.goto(job.page);
  const reloads = (await page.content()).includes('http-equiv="refresh"');
  await page.close();
  return { reloads };
}

/** Let a service hang while the page is open; heal it by the page's own button. */
export async function hang(browser, job) {
  const page = await enter(browser, job);
  const pressed = "form:has([name=verb][value=fix])";
  const { at } = await act(page, job, "let it hang");
  const red_ms = (await until(page, "down", job.tile)) - at;
  const finding = `[id^="finding-HEARTH"][id$=":${job.service}"]`;
  await page.waitForSelector(`${finding} ${pressed}`, { timeout: SHOWN_MS });
  const seen = await observed(page);
  const text = await page.$eval(finding, (one) => one.textContent.replace(/\s+/g, " "));
  const began = await page.evaluate(() => performance.now());
  await page.click(`${finding} ${pressed} button`);
  const green_ms = (await until(page, "up", job.tile)) - began;
  await page.waitForFunction(
    () => document.querySelector("#verdict").dataset.state !== "down",
    { polling: 50, timeout: SHOWN_MS },
  );
  const announced = await page.$eval("#announce", (one) => one.textContent);
  const after = await observed(page);
  return { red_ms, green_ms, seen, text, announced, after, complaints: page.complaints };
}

/**
 * Keep the page open until a file appears; append to another one what it shows, at each change.
 *
 * A line is {"at": Unix time, "states": {id: data-state}} of tiles, rows, findings and headline.
 */
export async function keepOpen(browser, job) {
  const page = await enter(browser, job);
  const shown = join(job.folder, "shown.jsonl");
  await page.exposeFunction("noteShown", (line) => appendFile(shown, `${line}\n`));
  await page.evaluate(() => {
    let last = "";
    const look = () => {
      const parts = document.querySelectorAll(".tiles > li, .rows tr, .findings > li, #verdict, #live");
      const known = [...parts].filter(({ id }) => id).map((one) => [one.id, one.dataset.state]);
      const states = JSON.stringify(Object.fromEntries(known));
      if (states === last) return;
      last = states;
      globalThis.noteShown(`{"at": ${Date.now() / 1000}, "states": ${states}}`);
    };
    new MutationObserver(look).observe(document.body, {
      ...{ subtree: true, childList: true, attributes: true },
    });
    look();
  });
  const there = () => access(join(job.folder, "enough")).then(() => true, () => false);
  while (!(await there())) await pause(200);
  return { complaints: page.complaints };
}

/** Return the names of what the Tab key reaches, in order. */
export async function keyboard(browser, job) {
  const page = await enter(browser, job);
  const reached = [];
  for (let i = 0; i < 60; i += 1) {
    await page.keyboard.press("Tab");
    const name = await page.evaluate(() => {
      const one = document.activeElement;
      if (one === document.body) return "";
      return one.ariaLabel || one.querySelector(".name")?.textContent || one.textContent.trim();
    });
    if (!name) break;
    reached.push(name);
  }
  return { reached };
}

/** Lose the login while the page is open, and press a button. */
export async function loginEnded(browser, job) {
  const page = await enter(browser, job);
  await browser.deleteCookie(...(await browser.cookies()));
  return page.evaluate(async () => {
    const answer = await fetch("/do", { method: "POST", body: new URLSearchParams({ verb: "fix" }) });
    return { status: answer.status };
  });
}

/** Wait until the tile has a state; return when that was, on the page's clock. */
async function until(page, state, tile) {
  await page.waitForFunction(
    (id, wanted) => document.getElementById(id)?.dataset.state === wanted,
    { polling: 50, timeout: SHOWN_MS },
    `tile-${tile}`,
    state,
  );
  return page.evaluate(() => performance.now());
}

async function observed(page) {
  return page.evaluate(() => {
    const text = (one, part) => one.querySelector(part)?.textContent.trim();
    const tiles = [...document.querySelectorAll(".tiles > li")];
    const rows = [...document.querySelectorAll("tr[id^=row-]")];
    return {
      headline: document.querySelector("#headline").textContent,
      verdict: document.querySelector("#verdict").dataset.state,
      tiles: Object.fromEntries(tiles.map((one) => [one.id.slice(5), {
        title: text(one, ".name"),
        state: one.dataset.state,
        word: text(one, ".state"),
        href: one.querySelector("a").href,
      }])),
      rows: Object.fromEntries(rows.map((one) => [one.id.slice(4), one.dataset.state])),
      findings: [...document.querySelectorAll(".findings > li")].map(({ id }) => id.slice(8)),
      broken: document.body.textContent.includes("cannot be shown"),
    };
  });
}

import { join } from "node:path";
import { ready, visit } from "../visit.mjs";

const SIZES = { desk: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } };

/** Open the IP address, as after scanning the QR code, and do what the page requests. */
export async function trusted(browser, job) {
  const page = await visit(browser, job.plain);
  await page.waitForFunction(() => location.protocol === "https:", { polling: 50 });
  await ready(page);
  const arrived = await observed(page);
  await page.click("#listen");
  await page.waitForFunction(
    () => document.querySelector("main").dataset.state === "green",
    { polling: 50 },
  );
  const names = await pictures(page, job, "green");
  return { arrived, ...(await observed(page)), pictures: names };
}

/** Open the name and the IP address without trusting the house; return what both pages show. */
export async function stranger(browser, job) {
  const seen = {};
  for (const address of [job.page, job.plain]) {
    const page = await visit(browser, address);
    await ready(page);
    seen[address] = await observed(page);
    seen[address].pictures = await pictures(page, job, `red-${new URL(address).hostname}`);
  }
  return { seen, secure: await opened(browser, `https://${job.site}/`) };
}

/** Open it without scripts: the certificate is offered all the same, with a test by hand. */
export async function withoutScripts(browser, job) {
  const page = await browser.newPage();
  await page.setJavaScriptEnabled(false);
  await page.goto(job.page);
  const text = await page.$eval("#verdict", (one) => one.textContent);
  const link = await page.$eval("#certificate a", (one) => one.href);
  const guides = await page.$$eval("details[open]", (found) => found.map(({ id }) => id));
  return { text, link, guides };
}

/** Open it on a device that does not know the house's names. */
export async function nameless(browser, job) {
  const page = await visit(browser, job.plain);
  await ready(page);
  return { ...(await observed(page)), pictures: await pictures(page, job, "nameless") };
}

/** Open each of some addresses, and return the browser's result. */
export async function addresses(browser, job) {
  const found = {};
  for (const [name, address] of Object.entries(job.doors)) {
    found[name] = await opened(browser, address);
  }
  return found;
}

async function opened(browser, address) {
  const page = await browser.newPage();
  try {
    return `HTTP ${(await page.goto(address)).status()}`;
  } catch (error) {
    return error.message;
  } finally {
    await page.close();
  }
}

/** Return what the page shows, and what of it is visible. */
async function observed(page) {
  const found = await page.evaluate(() => {
    const text = (one) => one.textContent.replace(/\s+/g, " ").trim();
    const rows = [...document.querySelectorAll("#checks li")];
    const pictured = document.querySelector("#code");
    return {
      address: location.href,
      state: document.querySelector("main").dataset.state,
      headline: text(document.querySelector("#headline")),
      advice: text(document.querySelector("#advice")),
      checks: Object.fromEntries(rows.map((row) => [row.id, row.dataset.state])),
      secure: isSecureContext,
      code: pictured.complete && pictured.naturalWidth > 0,
      shown: [...document.querySelectorAll("section")]
        .filter((one) => one.offsetHeight)
        .map(({ id }) => id),
      links: [...document.querySelectorAll("#pages a")].map(({ href }) => href),
    };
  });
  return { ...found, complaints: page.complaints };
}

async function pictures(page, job, what) {
  const names = [];
  for (const [place, size] of Object.entries(SIZES)) {
    await page.setViewport(size);
    names.push(`${job.browser}-${what}-${place}.png`);
    await page.screenshot({ path: join(job.folder, names.at(-1)), fullPage: true });
  }
  return names;
}

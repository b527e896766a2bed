import { enter, ready, visit, write } from "../visit.mjs";

const LINKED = "Kettle";

/** Open the page without a login; return what is shown instead. */
export async function stranger(browser, job) {
  const page = await visit(browser, job.page);
  return page.evaluate(() => ({
    secure: isSecureContext,
    password: document.querySelector("input[type=password]") !== null,
    speaks: document.querySelector("#speak, #talk") !== null,
  }));
}

/** Follow a link, log in with the house's password as a person does, and reach its target. */
export async function login(browser, job) {
  const page = await visit(browser, `${job.page}#text=${LINKED}`);
  await page.type("#password", job.password);
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  await ready(page);
  const voices = await page.$$eval("#voice option", (found) =>
    found.map(({ value, disabled }) => ({ value, disabled })),
  );
  const groups = await page.$$eval("#voice optgroup", (found) => found.map((one) => one.label));
  const text = await page.$eval("#text", (field) => field.value);
  return { address: page.url(), text, linked: LINKED, voices, groups, complaints: page.complaints };
}

/** Lose the login while the page is open, and let it speak. */
export async function loginEnded(browser, job) {
  const page = await enter(browser, job);
  await write(page, "Nobody hears this.");
  return withoutLogin(browser, page, "#speak");
}

/** Lose the login while this page is open, press a button, and return what the page shows. */
export async function withoutLogin(browser, page, button) {
  await browser.deleteCookie(...(await browser.cookies()));
  await page.click(button);
  await page.waitForFunction(
    () => document.querySelector("main").dataset.state === "failed",
    { polling: 50 },
  );
  return page.evaluate(() => ({
    status: document.querySelector("#status").textContent.trim(),
    links: [...document.querySelectorAll("main a")].map((link) => link.href),
  }));
}

import { spawn } from "node:child_process";
import { join } from "node:path";
import { ANSWER_MS, ask, openPage, act, enter, uploadFile, logIn, request, streams, observed } from "../chat.mjs";
import { about, pause, sound } from "../visit.mjs";

const QUESTION = "What is there to eat today?";
// Characters of an answer that takes long enough to be looked at meanwhile.
const SEEN_COMING = 100;
const TRIES = 3;
const DICTATION_MS = 60_000;
// Long enough to hear a sentence.
const SPEAKING_MS = 4000;

/** Open the chat without a login; return what is shown instead. */
export async function stranger(browser, job) {
  const page = await openPage(browser, job);
  await page.waitForSelector("#email");
  return page.evaluate(() => ({
    secure: isSecureContext,
    password: document.querySelector("input[type=password]") !== null,
    writes: document.querySelector("#chat-input") !== null,
    buttons: [...document.querySelectorAll("button")].map((one) => one.innerText.trim()),
  }));
}

/** Log in as the administrator; return which models there are to choose from. */
export async function login(browser, job) {
  const page = await openPage(browser, job);
  await logIn(page, job.email, job.password);
  return { ...(await choices(page)), ...(await observed(page)) };
}

/** Open the list of models; return what it shows of each, and their descriptions. */
async function choices(page) {
  await page.click("#model-selector-model-button");
  await page.waitForSelector("[role=option]");
  const offered = await page.evaluate(allOptions);
  await page.keyboard.press("Escape");
  const { data } = await request(page, "GET", "/api/models");
  const known = data.map(({ id, name, info }) => ({
    ...{ id, name },
    description: info?.meta?.description ?? null,
    hidden: info?.meta?.hidden ?? false,
  }));
  return { offered, known };
}

/** Return each option of the open list, which holds only those near the visible ones at a time. */
async function allOptions() {
  let list = document.querySelector("[role=option]").parentElement;
  while (list.parentElement && list.scrollHeight <= list.clientHeight) list = list.parentElement;
  const seen = new Map();
  for (let top = 0; top <= list.scrollHeight; top += list.clientHeight / 2) {
    list.scrollTop = top;
    await new Promise((drawn) => setTimeout(drawn, 100));
    for (const one of document.querySelectorAll("[role=option]")) {
      seen.set(one.ariaLabel, { label: one.ariaLabel, text: one.innerText.trim() });
    }
  }
  return [...seen.values()];
}

/** Choose a model by its name in the list, write, and watch the answer stream in. */
export async function streaming(browser, job) {
  let page, name, found;
  // A made-up model may end with its first piece; then the scene writes again. It does so as well
  // where the page looked elsewhere meanwhile; a house that buffers fails every time.
  for (let tried = 0; tried < TRIES && !seenComing(found); tried += 1) {
    page = await enter(browser, job);
    name = await choose(page, "fast");
    found = await ask(page, QUESTION);
  }
  await page.screenshot({ path: join(job.folder, `${job.browser}-answer.png`) });
  job.chat = await page.evaluate(() => location.pathname);
  return { name, question: QUESTION, chat: job.chat, ...found };
}

const seenComing = (found) =>
  found?.last.length > SEEN_COMING && found.states.filter(([, length]) => length).length > 2;

/** Choose a model in the list by its name in the gateway; return its name in the list. */
async function choose(page, id) {
  const { data } = await request(page, "GET", "/api/models");
  const { name } = data.find((one) => one.id === id);
  await page.click("#model-selector-model-button");
  await page.locator(`[role=option][aria-label="Select ${name} model"]`).click();
  return name;
}

/** Return to a chat and press the speaker button of its answer. */
export async function speaker(browser, job) {
  const page = await enter(browser, job, job.chat.slice(1));
  await page.waitForSelector("[id^=speak-button-]");
  await page.evaluate(() => globalThis.__audio.clear());
  await page.click("[id^=speak-button-]");
  await sound(page);
  // More than one look of the recorder at it.
  await pause(1000);
  return { ...(await about(page)), complaints: page.complaints };
}

/** Reload the page: the chat is in the list, and its messages are in the chat. */
export async function again(browser, job) {
  const page = await enter(browser, job, job.chat.slice(1));
  await page.waitForSelector("[id^=speak-button-]");
  const before = await observed(page);
  await page.reload();
  await page.waitForSelector("[id^=speak-button-]");
  // The list of chats is loaded by itself, and not with the messages.
  await page.waitForSelector(`a[href="${job.chat}"]`);
  const after = await observed(page);
  const { length } = await page.$$(`a[href="${job.chat}"]`);
  return { before: before.messages, after: after.messages, listed: length };
}

/** Speak into the microphone, and see the text arrive in the field. */
export async function dictation(browser, job) {
  const page = await enter(browser, job);
  await page.click("#voice-input-button");
  await page.waitForSelector("#confirm-recording-button", { visible: true });
  const speech = job.browser === "firefox" ? spawn("paplay", [job.sound], { stdio: "ignore" }) : null;
  await pause(SPEAKING_MS);
  await page.click("#confirm-recording-button");
  await page.waitForFunction(
    () => document.querySelector("#chat-input")?.innerText.trim(),
    { polling: 50, timeout: DICTATION_MS },
  );
  speech?.kill();
  const text = await page.$eval("#chat-input", (field) => field.innerText.trim());
  await page.screenshot({ path: join(job.folder, `${job.browser}-dictation.png`) });
  return { text, ...(await observed(page)) };
}

/**
 * Call the house: speak, be silent, and have the answer spoken while it is still being generated.
 *
 * A made-up model would end before a voice could start, so it runs slowly. Where its answer was too
 * short even so, it is called again. The fake microphone starts from the beginning each time the
 * page listens, and the page does not talk over a speaker. So the test judges what was synthesised
 * for the page and when, not what was audible.
 */
export async function call(browser, job) {
  const tries = [];
  while (tries.length < TRIES && !tries.at(-1)?.early) {
    const page = await enter(browser, job);
    await page.click("button[aria-label='Voice mode']");
    await act(page, job, "slow the model");
    await streams(page, { before: null });
    await page.screenshot({ path: join(job.folder, `${job.browser}-call.png`) });
    await page.waitForFunction(() => globalThis.__audio.report().answers[0]?.last_byte, {
      ...{ polling: 50, timeout: ANSWER_MS },
    });
    await act(page, job, "let the model run");
    await page.waitForSelector("[id^=speak-button-]");
    const [found, { answers, heard }] = [await observed(page), await about(page)];
    // An answer of one short sentence is synthesised whole.
    const part = answers[0].request.input.length < found.messages.at(-1).text.length;
    const early = part && answers[0].at < found.states.at(-1)[0];
    tries.push({ early, answers, heard, ...found });
    await page.close();
  }
  return tries;
}

/** Show a picture and ask about it. */
export async function picture(browser, job) {
  const page = await enter(browser, job);
  await uploadFile(page, job.picture);
  const found = await ask(page, "What is in this picture?");
  await page.screenshot({ path: join(job.folder, `${job.browser}-picture.png`) });
  const drawn = await page.$$eval(".user-message img", (found) =>
    found.filter((one) => one.naturalWidth).length,
  );
  return { drawn, ...found };
}

/** Ask a model that thinks, read its answer aloud, and unfold its thought. */
export async function thought(browser, job) {
  const page = await enter(browser, job);
  await choose(page, "local");
  const found = await ask(page, QUESTION);
  const fold = await page.waitForSelector("#response-content-container button[aria-expanded=false]");
  const label = await fold.evaluate((one) => one.innerText.trim());
  await page.screenshot({ path: join(job.folder, `${job.browser}-thought.png`) });
  await page.evaluate(() => globalThis.__audio.clear());
  await page.click("[id^=speak-button-]");
  await sound(page);
  const { answers } = await page.evaluate(() => globalThis.__audio.report());
  const spoken = answers.map(({ request: { input } }) => input).join(" ");
  await fold.click();
  await page.waitForSelector("#response-content-container button[aria-expanded=true]");
  await pause(500);
  const opened = await page.$eval("#response-content-container", (one) => one.innerText);
  return { fold: label, spoken, opened, ...found };
}

/** Upload a document, ask about it, and open the source that the answer cites. */
export async function documentUpload(browser, job) {
  const page = await enter(browser, job);
  await uploadFile(page, job.document);
  const found = await ask(page, job.question);
  const sources = await page.waitForSelector("[id^=message-] button[aria-label*=' source'][aria-expanded]");
  await sources.click();
  const source = await page.waitForSelector("[id^=source-]");
  const name = await source.evaluate((one) => one.innerText.trim());
  await source.click();
  const dialog = await page.waitForSelector("[role=dialog]");
  await pause(300);
  const cited = await dialog.evaluate((one) => one.innerText.trim());
  await page.screenshot({ path: join(job.folder, `${job.browser}-document.png`) });
  return { name, cited, ...found };
}

/** Create an account as the admin, and log in with it in a browser of its own. */
export async function second(browser, job) {
  const page = await enter(browser, job);
  const person = {
    ...{ name: "Grandma", role: "user" },
    email: `grandma-${Date.now()}@house.lan`,
    password: crypto.randomUUID(),
  };
  const { id } = await request(page, "POST", "/api/v1/auths/add", person);
  const context = await browser.createBrowserContext();
  try {
    const own = await openPage(context, job);
    await logIn(own, person.email, person.password);
    const seen = await choices(own);
    return { ...seen, ...(await ask(own, QUESTION)) };
  } finally {
    await context.close();
    await request(page, "DELETE", `/api/v1/users/${id}`);
  }
}

/** Take the screenshots for people to look at: an answer on a desktop and on a phone. */
export async function pictures(browser, job) {
  const page = await enter(browser, job, job.chat?.slice(1));
  const names = [];
  const sizes = { desk: { width: 1280, height: 800 }, phone: { width: 390, height: 760 } };
  const dark = await page.evaluate(() => matchMedia("(prefers-color-scheme: dark)").matches);
  for (const [place, size] of Object.entries(sizes)) {
    await page.setViewport(size);
    await pause(500);
    const name = `${job.browser}-${place}-${dark ? "dark" : "light"}.png`;
    await page.screenshot({ path: join(job.folder, name) });
    names.push(name);
  }
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  return { names, wide };
}

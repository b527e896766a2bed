import { mkdir } from "node:fs/promises";
import puppeteer from "puppeteer-core";

const PROGRAMS = { chromium: "/usr/bin/chromium", firefox: "/usr/bin/firefox-esr" };
// It reads hundreds of files first, from a disk that may be busy.
const START_MS = 120_000;
const SIZE = { width: 1280, height: 800 };

/**
 * Start one of Debian's browsers with a fresh profile, as on a person's first visit.
 *
 * Nothing is switched off for the test: certificates are checked, no page may play sound
 * unprompted, and Chromium keeps its sandbox. Where the job has a `sound`, it is the input of the
 * microphone: Chromium's own fake one plays the file, Firefox listens to the sound
 * device, into which the scenes play it; where the job `repeats` it, without end. No person can grant the permission, so it is granted.
 * A name that is `unknown` cannot be resolved by Chromium.
 *
 * @param {{browser: string, downloads: string, sound?: string, unknown?: string}} job
 * @param {{dark?: boolean}} options
 */
export async function open(job, { dark = false } = {}) {
  await mkdir(job.downloads, { recursive: true });
  const start = job.browser === "firefox" ? firefox : chromium;
  return start(job, dark);
}

async function firefox(job, dark) {
  return puppeteer.launch({
    browser: "firefox",
    executablePath: PROGRAMS.firefox,
    headless: true,
    timeout: START_MS,
    defaultViewport: SIZE,
    extraPrefsFirefox: {
      // Over WebDriver BiDi this Firefox cannot change the colour scheme later.
      "layout.css.prefers-color-scheme.content-override": dark ? 0 : 1,
      "browser.download.folderList": 2,
      "browser.download.dir": job.downloads,
      "browser.download.useDownloadDir": true,
      "browser.helperApps.neverAsk.saveToDisk": "audio/mpeg,audio/wav,audio/flac,audio/ogg,application/x-subrip",
      "browser.download.alwaysOpenPanel": false,
      // The browser's own background requests have no place in a test.
      "network.captive-portal-service.enabled": false,
      "network.connectivity-service.enabled": false,
      "browser.safebrowsing.downloads.enabled": false,
      // puppeteer allows sound without a click; people's Firefox does not.
      "media.autoplay.default": 1,
      "media.navigator.permission.disabled": Boolean(job.sound),
    },
  });
}

async function chromium(job, dark) {
  const browser = await puppeteer.launch({
    browser: "chrome",
    executablePath: PROGRAMS.chromium,
    headless: true,
    timeout: START_MS,
    defaultViewport: SIZE,
    // puppeteer's own list holds --disable-features of autoplay; the rest of it only calms Chromium.
    args: [
      "--autoplay-policy=user-gesture-required",
      `--blink-settings=preferredColorScheme=${dark ? 0 : 1}`,
      ...(job.sound ? microphoneOf(job) : []),
      ...(job.unknown ? [`--host-resolver-rules=MAP ${job.unknown} ~NOTFOUND`] : []),
    ],
  });
  const line = await browser.target().createCDPSession();
  await line.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: job.downloads });
  return browser;
}

// It plays the file from the beginning for each recording, and then is silent, or begins again.
const microphoneOf = ({ sound, repeats }) => [
  "--use-fake-device-for-media-stream",
  "--use-fake-ui-for-media-stream",
  `--use-file-for-fake-audio-capture=${sound}${repeats ? "" : "%noloop"}`,
];

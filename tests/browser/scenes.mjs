import * as outages from "./scenes/outages.mjs";
import * as chat from "./scenes/chat.mjs";
import * as approvals from "./scenes/approvals.mjs";
import * as home from "./scenes/home.mjs";
import * as loginForm from "./scenes/login.mjs";
import * as stt from "./scenes/stt.mjs";
import * as appearance from "./scenes/appearance.mjs";
import * as playback from "./scenes/playback.mjs";
import * as voice from "./scenes/voice.mjs";
import * as trust from "./scenes/trust.mjs";
import * as controls from "./scenes/controls.mjs";

/**
 * Return the scenes of the TTS page, in the order in which they are played; in dark mode only
 * what looks different. A second browser plays what depends on the browser.
 */
export function speaking(dark, { browser }) {
  const first = browser !== "firefox";
  if (dark) return first ? inTheDark(loginForm.login) : {};
  return {
    stranger: loginForm.stranger,
    login: loginForm.login,
    streaming: playback.streaming,
    stop: playback.stop,
    "without MediaSource": playback.withoutMediaSource,
    "without AudioWorklet": playback.withoutAudioWorklet,
    keyboard: controls.keyboard,
    download: controls.download,
    phone: appearance.phone,
    ...(first && {
      sample: controls.sample,
      blend: controls.blend,
      permalink: controls.permalink,
      accessibility: appearance.accessibility,
      "light pictures": appearance.lightPictures,
    }),
    "login ended": loginForm.loginEnded,
  };
}

/** Return the scenes of the STT page. */
export function listening(dark, { browser }) {
  const first = browser !== "firefox";
  if (dark) return first ? inTheDark(stt.login) : {};
  return {
    stranger: loginForm.stranger,
    login: stt.login,
    talk: stt.talk,
    "line now": stt.lineNow,
    upload: stt.upload,
    picture: stt.picture,
    "without a microphone": stt.withoutMicrophone,
    keyboard: stt.keyboard,
    phone: appearance.phone,
    ...(first && {
      accessibility: appearance.accessibility,
      "light pictures": appearance.lightPictures,
    }),
    "login ended": stt.loginEnded,
  };
}

/** Return the scenes of the house's page. */
export function atHome(dark) {
  if (dark) return inTheDark(home.login);
  return {
    stranger: loginForm.stranger,
    login: home.login,
    "without scripts": home.withoutScripts,
    keyboard: home.keyboard,
    phone: appearance.phone,
    accessibility: appearance.accessibility,
    "light pictures": appearance.lightPictures,
    hang: home.hang,
    "login ended": home.loginEnded,
  };
}

/** Return the scenes of a person who decides on what agents propose. */
export function atApprovals(dark) {
  if (dark) return {};
  return {
    stranger: loginForm.stranger,
    login: approvals.login,
    enrol: approvals.enrol,
    approve: approvals.approve,
    refuse: approvals.refuse,
    "without a passkey": approvals.withoutPasskey,
    late: approvals.late,
    change: approvals.change,
  };
}

/** Return the scene of a house's page that stays open while things break. */
export function watchingOver(dark) {
  return dark ? {} : { login: home.login, "open page": home.keepOpen };
}

/** Return the scenes of the chat. */
export function chatting(dark, { browser }) {
  const both = { stranger: chat.stranger, login: chat.login, streaming: chat.streaming };
  // The reason for a second browser: the page does not depend on the first one.
  if (browser === "firefox") return dark ? {} : { ...both, speaker: chat.speaker };
  if (dark) return { "log in in the dark": chat.login, "dark pictures": chat.pictures };
  return {
    ...both,
    again: chat.again,
    speaker: chat.speaker,
    dictation: chat.dictation,
    picture: chat.picture,
    thought: chat.thought,
    document: chat.documentUpload,
    "second account": chat.second,
    "light pictures": chat.pictures,
  };
}

/** Return the scenes in which programs of the house end while the chat is open. */
export function breaking(dark) {
  if (dark) return {};
  return {
    login: chat.login,
    call: chat.call,
    reload: outages.reload,
    "without LiteLLM": outages.withoutLitellm,
    "without Ollama": outages.withoutOllama,
    "without Kokoro": outages.withoutKokoro,
    "without its server": outages.withoutServer,
  };
}

/** Return the scenes of the page for calls. */
export function calling(dark, { browser }) {
  const first = browser !== "firefox";
  if (dark) return first ? inTheDark(voice.login) : {};
  return {
    stranger: loginForm.stranger,
    login: voice.login,
    talk: voice.talk,
    phone: appearance.phone,
    ...(first && {
      crowded: voice.crowded,
      accessibility: appearance.accessibility,
      "light pictures": appearance.lightPictures,
      "without kokoro": voice.without("kokoro"),
      "without litellm": voice.without("litellm"),
      "without whisper": voice.without("whisper"),
      "without voice": voice.without("voice"),
      "without caddy": voice.without("caddy"),
      "without a network": voice.withoutNetwork,
      "without ollama": voice.withoutOllama,
    }),
    "login ended": voice.loginEnded,
  };
}

/** Return the scenes of a call from the chat. */
export function callingFromChat(dark) {
  if (dark) return {};
  return { login: chat.login, call: voice.callFromChat, "without voice": voice.chatWithoutVoice };
}

/** Return the scene of a person who goes away and comes back. */
export function waiting(dark) {
  return dark ? {} : { login: chat.login, idle: outages.idle };
}

/** Return the scenes of the trust page, on a device that trusts the house. */
export function trusting(dark) {
  if (dark) return {};
  return {
    believed: trust.trusted,
    accessibility: appearance.accessibility,
    phone: appearance.phone,
    doors: trust.addresses,
  };
}

/** Return the scenes of the trust page, on a device without the house's root. */
export function mistrusting(dark) {
  if (dark) {
    return {
      "accessibility in the dark": appearance.accessibility,
      "dark pictures": appearance.darkPictures,
    };
  }
  return {
    stranger: trust.stranger,
    "without scripts": trust.withoutScripts,
    accessibility: appearance.accessibility,
    phone: appearance.phone,
  };
}

/** Return the scene of a device that uses another DNS server. */
export function nameless(dark) {
  return dark ? {} : { nameless: trust.nameless };
}

const inTheDark = (login) => ({
  "log in in the dark": login,
  "accessibility in the dark": appearance.accessibility,
  "dark pictures": appearance.darkPictures,
});

import * as door from "./scenes/door.mjs";
import * as looks from "./scenes/looks.mjs";
import * as playing from "./scenes/playing.mjs";
import * as using from "./scenes/using.mjs";

/** Return the scenes in the order in which they are played; in the dark only what looks different. */
export function scenes(dark) {
  if (dark) {
    return {
      "log in in the dark": door.login,
      "accessibility in the dark": looks.accessibility,
      "dark pictures": looks.darkPictures,
    };
  }
  return {
    stranger: door.stranger,
    login: door.login,
    streaming: playing.streaming,
    stop: playing.stop,
    "without MediaSource": playing.withoutMediaSource,
    "without AudioWorklet": playing.withoutAudioWorklet,
    sample: using.sample,
    blend: using.blend,
    keyboard: using.keyboard,
    download: using.download,
    permalink: using.permalink,
    accessibility: looks.accessibility,
    phone: looks.phone,
    "light pictures": looks.lightPictures,
    "login ended": door.loginEnded,
  };
}

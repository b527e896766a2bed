import assert from "node:assert/strict";
import { test } from "node:test";

import { languagesOf } from "../../../hearth_whisper/page/controls.mjs";

test("every language of Whisper has a name, in alphabetical order", () => {
  const languages = languagesOf("small");
  assert.equal(languages.length, 100);
  assert.equal(new Set(languages.map(({ name }) => name)).size, 100);
  assert.ok(languages.every(({ code, name }) => name && name !== code));
  assert.deepEqual(languages.find(({ code }) => code === "jw"), { code: "jw", name: "Javanese" });
  assert.ok(languages[0].name < languages[99].name);
});

test("an English model offers only English", () => {
  assert.deepEqual(languagesOf("distil-medium.en"), [{ code: "en", name: "English" }]);
});

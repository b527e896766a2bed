import assert from "node:assert/strict";
import { test } from "node:test";

import { refusal } from "../../../hearth_whisper/page/refusal.mjs";

const HOUSE = { keyWanted: false, hasKey: false };
const said = (message) => JSON.stringify({ error: { message } });

test("who must log in again is told, and who needs a key", () => {
  const login = refusal({ status: 401, text: "" }, HOUSE);
  assert.deepEqual([login.message, login.needs], ["Your session has expired.", "login"]);
  const key = refusal({ status: 401, text: "" }, { keyWanted: true, hasKey: false });
  assert.deepEqual([key.message, key.needs], ["This server needs an API key.", "key"]);
  const wrong = refusal({ status: 401, text: "" }, { keyWanted: true, hasKey: true });
  assert.deepEqual([wrong.message, wrong.needs], ["This API key is wrong.", "key"]);
});

test("the server's own words are a sentence, with when to try again", () => {
  const busy = { status: 429, text: said("too many talks; try again"), again: "3" };
  assert.equal(refusal(busy, HOUSE).message, "Too many talks. Try again in 3 s.");
  const plain = { status: 400, text: said("this file holds no sound") };
  assert.equal(refusal(plain, HOUSE).message, "This file holds no sound.");
});

test("whoever stands before the server may say less", () => {
  const large = { status: 413, text: "" };
  assert.equal(refusal(large, HOUSE).message, "The file is too large for this server.");
  const odd = { status: 502, text: "<html>" };
  assert.equal(refusal(odd, HOUSE).message, "The server returned HTTP 502.");
});

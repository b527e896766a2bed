import assert from "node:assert/strict";
import { test } from "node:test";

import { responseError } from "../../../hearth_whisper/page/errors.mjs";

const NO_KEY = { keyWanted: false, hasKey: false };
const body = (message) => JSON.stringify({ error: { message } });

test("a 401 needs the login or a key", () => {
  const login = responseError({ status: 401, text: "" }, NO_KEY);
  assert.deepEqual([login.message, login.needs], ["Your session has expired.", "login"]);
  const key = responseError({ status: 401, text: "" }, { keyWanted: true, hasKey: false });
  assert.deepEqual([key.message, key.needs], ["This server needs an API key.", "key"]);
  const wrong = responseError({ status: 401, text: "" }, { keyWanted: true, hasKey: true });
  assert.deepEqual([wrong.message, wrong.needs], ["This API key is wrong.", "key"]);
});

test("the server's message becomes a sentence with the wait", () => {
  const busy = { status: 429, text: body("too many talks; try again"), retryAfter: "3" };
  assert.equal(responseError(busy, NO_KEY).message, "Too many talks. Try again in 3 s.");
  const plain = { status: 400, text: body("this file holds no sound") };
  assert.equal(responseError(plain, NO_KEY).message, "This file holds no sound.");
});

test("errors of a proxy without a message", () => {
  const large = { status: 413, text: "" };
  assert.equal(responseError(large, NO_KEY).message, "The file is too large for this server.");
  const odd = { status: 502, text: "<html>" };
  assert.equal(responseError(odd, NO_KEY).message, "The server returned HTTP 502.");
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { relative } from "../../../hearth_health/page/words.mjs";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

test("a moment is told in the unit that people would use", () => {
  const told = [
    [-3 * SECOND, "just now"],
    [-59 * SECOND, "just now"],
    [-3 * MINUTE, "3 minutes ago"],
    [-100 * MINUTE, "2 hours ago"],
    [-1 * DAY, "yesterday"],
    [-400 * DAY, "last year"],
    [20 * SECOND, "in a moment"],
    [5 * MINUTE, "in 5 minutes"],
    [3 * HOUR, "in 3 hours"],
  ];
  for (const [distance, words] of told) {
    assert.equal(relative(1e12 + distance, 1e12), words);
  }
});

test("a moment that is none has no words", () => {
  assert.equal(relative(NaN, 1e12), "");
});

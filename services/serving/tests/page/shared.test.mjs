import assert from "node:assert/strict";
import { test } from "node:test";

import { EventReader } from "../../hearth_serving/page/events.mjs";
import { heightOf } from "../../hearth_serving/page/meter.mjs";

test("events may arrive in parts of any size", () => {
  const text = ': hello\n\ndata: {"a": 1}\n\nevent: x\r\ndata: {"b":\r\ndata: 2}\r\n\r\ndata: {"c"';
  for (const size of [1, 2, 3, 7, 1000]) {
    const reader = new EventReader();
    const found = [];
    for (let at = 0; at < text.length; at += size) {
      found.push(...reader.feed(text.slice(at, at + size)));
    }
    assert.deepEqual(found, [{ a: 1 }, { b: 2 }], `in parts of ${size}`);
    assert.deepEqual(reader.feed(": 3}\n\n"), [{ c: 3 }]);
  }
});

test("the meter is empty in silence, full at high volume, and in between otherwise", () => {
  const level = (value) => heightOf(new Float32Array(64).fill(value));
  assert.equal(level(0), 0);
  assert.equal(level(0.5), 1);
  assert.ok(level(0.02) > 0.3 && level(0.02) < 0.7);
});

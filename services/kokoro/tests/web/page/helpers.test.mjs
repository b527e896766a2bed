import assert from "node:assert/strict";
import { test } from "node:test";

import { fileName } from "../../../hearth_kokoro/page/download.mjs";
import { readLink, writeLink } from "../../../hearth_kokoro/page/link.mjs";
import { placeOf } from "../../../hearth_kokoro/page/text_highlighter.mjs";
import { withWait } from "../../../hearth_kokoro/page/server.mjs";
import { bytesOf, samplesOf, wavOf } from "../../../hearth_kokoro/page/pcm.mjs";
import * as voices from "../../../hearth_kokoro/page/voices.mjs";

test("samples are read as 16 bit, little-endian, signed", () => {
  const samples = samplesOf(bytesOf("AAAAQACA/38="));
  assert.deepEqual([...samples].map((s) => s * 32768), [0, 16384, -32768, 32767]);
});

test("a wav file contains its length", async () => {
  const bytes = new Uint8Array(await wavOf([new Uint8Array(6), new Uint8Array(4)], 24000).arrayBuffer());
  const view = new DataView(bytes.buffer);
  assert.equal(bytes.length, 54);
  assert.equal(new TextDecoder().decode(bytes.slice(0, 4)), "RIFF");
  assert.deepEqual([view.getUint32(4, true), view.getUint32(40, true)], [46, 10]);
  assert.deepEqual([view.getUint32(24, true), view.getUint32(28, true)], [24000, 48000]);
});

test("reading a link returns the settings that were written into it", () => {
  const request = {
    text: 'One & two = "three" + #4, 100 %\nनमस्ते 😀 ',
    voice: "af_heart(2)+bm_fable(1)",
    speed: 1.25,
    format: "opus",
  };
  assert.deepEqual(readLink(writeLink(request)), request);
  const plain = { text: "Hello.", voice: "af_heart", speed: 1, format: "mp3" };
  assert.equal(writeLink(plain), "#text=Hello.&voice=af_heart");
});

test("invalid values in a link are ignored", () => {
  assert.deepEqual(readLink("#text=&voice=&speed=9&format=exe&more=1"), {});
  assert.deepEqual(readLink("#speed=x"), {});
  assert.deepEqual(readLink("#speed="), {});
  assert.deepEqual(readLink(""), {});
  assert.deepEqual(readLink("#text=a%zz"), { text: "a%zz" });
});

test("a blend is written and read", () => {
  const ids = ["af_heart", "bm_fable"];
  const read = (request) => voices.readVoice(request, ids, { nova: "bm_fable" });
  assert.equal(voices.blendOf("af_heart", "", 50), "af_heart");
  assert.equal(voices.blendOf("af_heart", "bm_fable", 30), "af_heart(70)+bm_fable(30)");
  const blend = { first: "af_heart", second: "bm_fable", share: 33 };
  for (const request of ["af_heart(2)+bm_fable(1)", " af_heart(2) bm_fable", "af_heart(2) + nova(1)"]) {
    assert.deepEqual(read(request), blend, request);
  }
  assert.deepEqual(read("nova"), { first: "bm_fable" });
});

test("a voice that the page cannot show is left to the server", () => {
  const read = (request) => voices.readVoice(request, ["a", "b", "c"], {});
  for (const request of ["a+b+c", "nobody", "a+nobody", "a(0)+b(1)", "a(x)+b", "a(9999)+b(1)", "a(.)+b"]) {
    assert.deepEqual(read(request), { first: request });
  }
});

test("voices are grouped by language; unsupported languages come last, with the reason", () => {
  const offered = [
    { id: "bf_emma", language: "en-gb" },
    { id: "if_sara", language: "it" },
    { id: "pf_dora", language: "pt-br" },
    { id: "af_heart", language: "en-us" },
    { id: "am_adam", language: "en-us" },
    { id: "x", language: "tlh" },
  ];
  const groups = voices.groupsOf(offered, { it: "not supported yet (pip install more)" });
  const named = groups.map(({ label, refused }) => [label, refused]);
  assert.deepEqual(named.at(-1), ["Italian: not supported yet", true]);
  const wanted = [["American English", false], ["British English", false], ["tlh", false]];
  for (const group of wanted) assert.deepEqual(named.find(([label]) => label === group[0]), group);
  assert.ok(named.findIndex(([label]) => label.startsWith("American")) <
    named.findIndex(([label]) => label.startsWith("British")));
  const american = groups.find(({ label }) => label === "American English");
  assert.deepEqual(american.voices, [
    { id: "af_heart", label: "Heart (female)" },
    { id: "am_adam", label: "Adam (male)" },
  ]);
});

test("a segment is found after the previous one, without surrounding spaces", () => {
  const text = "Yes. No.  Yes. And";
  assert.deepEqual(placeOf(text, "Yes. ", 0), { begin: 0, end: 4 });
  assert.deepEqual(placeOf(text, " Yes. ", 4), { begin: 10, end: 14 });
  assert.equal(placeOf(text, "Yes.", 14), null);
  assert.equal(placeOf(text, "  ", 0), null);
});

test("an error message contains the wait only once", () => {
  const busy = "32 requests are in progress already; try again later.";
  assert.equal(withWait(busy, 3), "32 requests are in progress already. Try again in 3 s.");
  assert.equal(withWait("Too many.", 3), "Too many. Try again in 3 s.");
  assert.equal(withWait(busy, null), busy);
});

test("a file is named after its voice", () => {
  assert.equal(fileName("af_heart(70)+bm_fable(30)", "mp3"), "af_heart-70-bm_fable-30.mp3");
  assert.equal(fileName("../..", "wav"), "speech.wav");
});

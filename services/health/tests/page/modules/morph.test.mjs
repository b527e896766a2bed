import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { morph } from "../../../hearth_health/page/morph.mjs";

// As much of a document as the module uses: nodes with a name, an id, attributes and children.
globalThis.Node = { ELEMENT_NODE: 1, TEXT_NODE: 3 };

class Part {
  constructor(name, attributes = {}, ...children) {
    this.nodeType = name === "#text" ? 3 : 1;
    this.nodeName = name;
    this.nodeValue = name === "#text" ? attributes : null;
    this.values = new Map(name === "#text" ? [] : Object.entries(attributes));
    this.childNodes = [];
    this.parent = null;
    for (const child of children) {
      this.insertBefore(typeof child === "string" ? new Part("#text", child) : child, null);
    }
  }

  get id() { return this.values.get("id") ?? ""; }
  get children() { return this.childNodes.filter((one) => one.nodeType === 1); }
  get firstChild() { return this.childNodes[0] ?? null; }
  get attributes() { return [...this.values].map(([name, value]) => ({ name, value })); }
  get nextSibling() {
    return this.parent.childNodes[this.parent.childNodes.indexOf(this) + 1] ?? null;
  }
  hasAttribute(name) { return this.values.has(name); }
  getAttribute(name) { return this.values.get(name) ?? null; }
  setAttribute(name, value) { this.values.set(name, value); }
  removeAttribute(name) { this.values.delete(name); }
  remove() {
    this.parent.childNodes = this.parent.childNodes.filter((one) => one !== this);
    this.parent = null;
  }
  insertBefore(child, before) {
    if (child.parent) child.remove();
    const at = before ? this.childNodes.indexOf(before) : this.childNodes.length;
    this.childNodes.splice(at, 0, child);
    child.parent = this;
  }
  toString() {
    if (this.nodeType === 3) return this.nodeValue;
    const attributes = [...this.values].map(([name, value]) => ` ${name}=${value}`).join("");
    return `<${this.nodeName}${attributes}>${this.childNodes.join("")}</${this.nodeName}>`;
  }
}

const part = (...words) => new Part(...words);
const inside = (element) => element.childNodes.join("");
let wanted;

beforeEach(() => {
  globalThis.document = {
    createElement: () => ({ set innerHTML(_) { this.content = part("#fragment", {}, ...wanted); } }),
  };
});

/** Morph `element` into these parts, which stand for the HTML that the server sent. */
function become(element, ...parts) {
  wanted = parts;
  const text = inside(part("#fragment", {}, ...parts.map(copied)));
  morph(element, "");
  assert.equal(inside(element), text);
}

function copied(one) {
  if (typeof one === "string") return one;
  const inner = one.childNodes.map((child) => (child.nodeType === 3 ? child.nodeValue : copied(child)));
  return part(one.nodeName, Object.fromEntries(one.values), ...inner);
}

test("texts and attributes change in place", () => {
  const row = part("tr", { id: "a", class: "up", old: "1" }, "works");
  const table = part("tbody", {}, row);
  become(table, part("tr", { id: "a", class: "down" }, "hangs"));
  assert.equal(table.firstChild, row);
});

test("a row that moves stays the same element, and others come and go around it", () => {
  const rows = ["a", "b", "c"].map((id) => part("li", { id }, id));
  const list = part("ul", {}, ...rows);
  become(list, ...["c", "new", "a"].map((id) => part("li", { id }, id)));
  assert.equal(list.firstChild, rows[2]);
  assert.equal(list.childNodes[2], rows[0]);
});

test("an empty section fills, and a full one empties", () => {
  const section = part("div");
  become(section, part("p", {}, "one"), "two");
  become(section);
  assert.equal(inside(section), "");
});

test("what people did stays: an opened part, and what a button said", () => {
  const details = part("details", { open: "" }, part("p", { "data-keep": "" }, "Working…"));
  const section = part("div", {}, details);
  wanted = [part("details", {}, part("p", { "data-keep": "" }))];
  morph(section, "");
  assert.equal(inside(section), "<details open=><p data-keep=>Working…</p></details>");
});

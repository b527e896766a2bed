// Make one element's content equal to new HTML, and keep what people do in it: the focus, what they
// opened, and what they read.

/** Change `element`'s content to `html`, node by node. */
export function morph(element, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  match(element, template.content);
}

function match(old, fresh) {
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const found = at && same(at, wanted) ? at : keyed(old, wanted);
    if (!found) {
      old.insertBefore(wanted, at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else old.insertBefore(found, at);
    update(found, wanted);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// Rows have an id, so one that moves stays itself.
const keyed = (old, wanted) =>
  wanted.id ? [...old.children].find((one) => one.id === wanted.id) : null;

function same(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName
    && (one.id ?? "") === (other.id ?? "");
}

function update(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  // The outcome of a button, which the server does not know.
  if (old.hasAttribute("data-keep")) return;
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    const own = name === "open" || name === "aria-busy";
    if (!own && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  match(old, fresh);
}

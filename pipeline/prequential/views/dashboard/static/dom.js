// Elements from data. Text goes in as text nodes only: names come from strangers.

const SVG = "http://www.w3.org/2000/svg";

// Control characters, and those that turn the direction of text: a name could hide behind them.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

// A name as it is shown.
export function shown(name) {
  return String(name).replace(HIDDEN, "\ufffd");
}

// An element: attributes (functions are listeners, false and null are left out), then children: nodes, texts, lists.
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(shown(child)));
  }
}

// Other children; what had the focus, and what was opened, has so again if it is still there.
export function replace(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const open = new Set(Array.from(element.querySelectorAll("details[open]"), (one) => one.dataset.key));
  const fresh = document.createDocumentFragment();
  append(fresh, children);
  for (const one of fresh.querySelectorAll("details[data-key]")) {
    if (open.has(one.dataset.key)) one.open = true;
  }
  element.replaceChildren(fresh);
  if (focused) {
    const again = Array.from(element.querySelectorAll("[data-key]")).find((one) => one.dataset.key === focused);
    if (again) again.focus({ preventScroll: true });
  }
}

// The address of a view within the page.
export function address(view, params) {
  const given = Object.entries(params ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

// Whether a view of these parameters exists: a report leaves some out, and then doesn't link to them.
let knows = () => true;

export function onlyKnown(rule) {
  knows = rule;
}

export function isThere(view, params) {
  return knows(view, params ?? {});
}

export function link(view, params, ...children) {
  if (!isThere(view, params)) return h("span", {}, children);
  const href = address(view, params);
  return h("a", { href, "data-key": href }, ...children);
}

// A table: heads are texts (those that begin with "#" are numbers' columns), rows are lists of cells.
export function table(heads, rows, attributes) {
  const numeric = heads.map((head) => head.startsWith("#"));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": attributes?.["aria-label"] ?? "table" },
    h("table", attributes,
      h("thead", {}, h("tr", {}, heads.map((head, i) =>
        h("th", { scope: "col", class: numeric[i] ? "number" : null }, head.replace(/^#/, ""))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) =>
        i === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: numeric[i] ? "number" : null, "data-head": heads[i].replace(/^#/, "") }, cell)))))));
}

export function section(title, ...children) {
  const found = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  return found.length ? h("section", {}, h("h2", {}, title), ...found) : null;
}

const GLYPHS = { worse: "◆", objective: "▽", silent: "○", unlabelled: "○", below: "▽", waiting: "…", few: "…", beaten: "⇄", better: "◇", steady: "✓", over: "◇" };

// The one status of a model or an incident: a glyph, a word and a colour.
export function chip(kind, text) {
  return h("span", { class: `chip ${kind}`, title: text }, GLYPHS[kind] ? h("span", { "aria-hidden": "true" }, `${GLYPHS[kind]} `) : null, text);
}

// What is shown where there is nothing: what is missing, and the one command that helps.
export function empty(title, text, command) {
  return h("div", { class: "card void" }, h("h2", {}, title), h("p", {}, text), command ? h("code", { class: "cmd" }, command) : null);
}

// What a list says when it doesn't show everything.
export function partOf(shownHere, total, what) {
  return shownHere < total ? h("p", { class: "quiet" }, `${shownHere.toLocaleString("en")} of ${total.toLocaleString("en")} ${what} are listed.`) : null;
}

// A choice among texts, of which null is shown as `usual`.
export function select(label, options, value, usual, change) {
  const all = usual === null ? options : [null, ...options];
  return h("label", {}, label, " ", h("select", {
    "data-key": `select ${label}`,
    change: (event) => change(all[event.target.selectedIndex]),
  }, all.map((one) => h("option", { selected: one === value }, one === null ? usual : one))));
}

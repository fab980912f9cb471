// The page: which view is shown, where its data come from, and what stands above all of them.

import { address, h, replace } from "./dom.js";
import { age, clock, count, counted } from "./format.js";
import { createSource } from "./source.js";
import { overviewPage } from "./overview.js";
import { modelPage } from "./model.js";
import { pairPage } from "./pair.js";
import { incidentPage, incidentsPage } from "./incident.js";
import { configurationsPage, rolling } from "./configurations.js";

const VIEWS = { overview: overviewPage, model: modelPage, pair: pairPage, incident: incidentPage, incidents: incidentsPage, configurations: configurationsPage };

const embedded = document.getElementById("report");
const source = createSource(embedded ? JSON.parse(embedded.textContent) : null);
const header = document.getElementById("header");
const main = document.getElementById("main");
let stop = () => {};
let page = null;
let first = true;
// What was said last of the page as a whole, when, and whether more can come.
let seen = null;

// The server speaks every 15 s at least: when it hasn't for so many ms, nobody knows whether it still looks.
const DEAF_MS = 45000;

function show() {
  const [name, query] = location.hash.replace(/^#\/?/, "").split("?");
  const view = VIEWS[name] ? name : "overview";
  const params = Object.fromEntries(new URLSearchParams(query ?? ""));
  const typing = document.activeElement?.type === "search" ? document.activeElement.selectionStart : null;
  stop();
  page?.close();
  main.replaceChildren();
  delete main.dataset.ready;
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  main.append(problem);
  const context = {
    report: source.report,
    // What is chosen stands in the address, so it can be sent to somebody.
    go: (to, changed) => {
      location.hash = address(to, changed);
    },
  };
  page = VIEWS[view](main, params, context);
  document.title = `${page.title} · prequential`;
  stop = source.open(view, page.query, (data) => {
    problem.hidden = true;
    seen = { status: data.board, view, at: Date.now(), connected: true };
    replace(header, above(data.board, view));
    page.take(data);
    main.dataset.ready = data.board.messages;
    if (!first) focus(view, typing);
    first = true;
  }, (sentence) => {
    problem.textContent = sentence;
    problem.hidden = false;
    if (seen) seen.connected = false;
    refreshStatus();
    if (!header.childElementCount) replace(header, above(null, view));
  });
}

// After a change of view, readers of the screen and the keyboard begin at its heading.
function focus(view, typing) {
  const search = main.querySelector("input[type=search]");
  if (typing !== null && search) {
    search.focus();
    search.setSelectionRange(typing, typing);
  } else {
    main.querySelector("h1")?.focus({ preventScroll: true });
  }
}

function above(status, view) {
  const tab = (to, text) => h("a", { href: address(to), "data-key": `tab ${to}`, "aria-current": view === to ? "page" : null }, text);
  return [
    h("span", { class: "brand" }, "prequential"),
    h("nav", { "aria-label": "pages" }, tab("overview", "Models"), tab("incidents", "Incidents"), source.report ? null : tab("configurations", "Configurations")),
    status ? h("span", { class: "quiet status" }, statusText(status)) : null,
    status && view !== "configurations" ? rolling(status) : null,
    status ? warnings(status).map((text) => h("p", { class: "problem", role: "alert" }, text)) : null,
  ];
}

function statusLine(status) {
  if (status.catching_up) {
    const share = status.to_read ? ` ${Math.min(99, Math.floor((100 * status.read) / status.to_read))}%` : "";
    return `loading history:${share} (${count(status.read)} messages)`;
  }
  const since = status.since ? `, heard since ${clock(status.since)}` : "";
  if (status.live) return `${liveness(status)}${since}`;
  return `${counted(status.messages, "message")}${status.untimed ? "" : `, the newest of ${clock(status.now)}`}`;
}

// How old what is shown is; "live" only while that is as fresh as messages come.
function liveness(status) {
  const silent = Date.now() - seen.at;
  if (status.newest === null) return "no messages yet";
  const old = Math.max(0, status.now - status.newest + silent);
  const live = seen.connected && silent < DEAF_MS && !status.trouble && old <= status.patience;
  return `${live ? "live" : "not live"}, newest message ${age(old)} ago (${clock(status.newest)})`;
}

function refreshStatus() {
  const element = header.querySelector(".status");
  if (element && seen?.status.live) element.textContent = statusText(seen.status);
}

function statusText(status) {
  return [status.title, statusLine(status)].filter((one) => one).join(" · ");
}

function warnings(status) {
  const found = [];
  if (status.trouble) found.push(status.trouble);
  if (status.unreadable) found.push(counted(status.unreadable, "unreadable message"));
  if (status.split?.length) found.push(`records of a stream lie in several partitions, each evaluated apart: ${status.split.join(", ")}; key records by stream with murmur2`);
  for (const one of status.findings ?? []) found.push(one);
  if (status.left_out) found.push(status.left_out);
  return found;
}

window.addEventListener("hashchange", () => {
  first = false;
  show();
});
setInterval(refreshStatus, 1000);
// Colours are drawn, so they are drawn again where they change.
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page?.redraw?.());
// Paper is light, and charts are as wide as a column there.
const printing = (begins) => {
  document.documentElement.toggleAttribute("data-print", begins);
  page?.redraw?.();
};
window.addEventListener("beforeprint", () => printing(true));
window.addEventListener("afterprint", () => printing(false));
show();

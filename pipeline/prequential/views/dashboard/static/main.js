// The page: which view is shown, where its data come from, and what stands above all of them.

import { resetGutter } from "./chart.js";
import { address, h, onlyKnown, replace } from "./dom.js";
import { age, clock, count, counted, era, short } from "./format.js";
import { paintAll } from "./small.js";
import { createSource } from "./source.js";
import { overviewPage } from "./overview.js";
import { modelPage } from "./model.js";
import { pairPage } from "./pair.js";
import { incidentPage, incidentsPage } from "./incident.js";
import { gatePage } from "./gate.js";
import { configurationsPage, rolling } from "./configurations.js";

const VIEWS = { overview: overviewPage, model: modelPage, pair: pairPage, incident: incidentPage, incidents: incidentsPage, gate: gatePage, configurations: configurationsPage };

const embedded = document.getElementById("report");
const source = createSource(embedded ? JSON.parse(embedded.textContent) : null);
era.past = source.report;
if (source.report) onlyKnown(source.knows);
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
  resetGutter();
  delete main.dataset.ready;
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const bones = skeleton();
  const content = h("div", { hidden: true });
  main.append(problem, bones, content);
  const context = {
    report: source.report,
    // What is chosen stands in the address, so it can be sent to somebody.
    go: (to, changed) => {
      location.hash = address(to, changed);
    },
  };
  page = VIEWS[view](content, params, context);
  document.title = `${page.title} · prequential`;
  stop = source.open(view, page.query, (data) => {
    problem.hidden = true;
    seen = { status: data.board, view, at: Date.now(), connected: true };
    replace(header, above(data.board, view));
    // While the history is read, most numbers are of a part of it.
    const loading = data.board.catching_up && view === "overview";
    bones.hidden = !loading;
    content.hidden = loading;
    page.take(data);
    paintAll();
    refreshStatus();
    main.dataset.ready = data.board.messages;
    if (!first) focus(view, typing);
    first = true;
  }, (sentence) => {
    problem.textContent = sentence;
    problem.hidden = false;
    bones.hidden = true;
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
  const group = { model: "overview", pair: "overview", incident: "incidents" }[view] ?? view;
  const tab = (to, text, more) => h("a", { href: address(to), "data-key": `tab ${to}`, "aria-current": group === to ? "page" : null }, text, more);
  const open = status?.incidents_open ? h("span", { class: "tag", title: "open incidents" }, count(status.incidents_open)) : null;
  return [
    h("div", { class: "top" },
      h("span", { class: "brand" }, "prequential"),
      h("nav", { "aria-label": "pages" }, tab("overview", "Models"), tab("incidents", "Incidents", open), tab("gate", "Gate"), source.report ? null : tab("configurations", "Configurations")),
      status ? h("span", { class: "status" }, statusText(status)) : null),
    h("p", { class: "notice", role: "alert", hidden: true }),
    status && view !== "configurations" ? rolling(status) : null,
    status ? grouped(warnings(status)).map(warning) : null,
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
  if (status.newest === null) return "no messages yet";
  const old = Math.max(0, status.now - status.newest + Date.now() - seen.at);
  return `${why(status) ? "not live" : idle(status) ? "idle" : "live"}, newest message ${age(old)} ago (${clock(status.newest)})`;
}

// Why what is shown may be out of date; null while it is live.
function why(status) {
  if (!status.live || status.catching_up || status.newest === null) return null;
  const silent = Date.now() - seen.at;
  if (!seen.connected || silent >= DEAF_MS) return "This page is cut off: it cannot reach the dashboard's server, and tries again.";
  if (status.trouble) return "The dashboard is cut off: it cannot read the topics.";
  if (status.workers === 0) return "No worker runs: the consumer group of the workers has no member.";
  if (isQuiet(status) && !status.workers) return "No new messages came. It is unknown whether a worker runs.";
  return null;
}

// Whether messages come later than usual.
function isQuiet(status) {
  return status.live && status.newest !== null && status.now - status.newest + Date.now() - seen.at > status.patience;
}

// Workers run, and publish nothing: what is shown is current.
function idle(status) {
  return isQuiet(status) && !status.catching_up && why(status) === null;
}

// The state of what is shown: loading, live, or out of date, which is said above it and shown by faded values.
function refreshStatus() {
  const element = header.querySelector(".status");
  if (!element || !seen) return;
  const { status } = seen;
  const reason = why(status);
  if (status.live) element.textContent = statusText(status);
  element.className = `status ${status.catching_up ? "busy" : reason ? "stale" : status.live && status.newest !== null ? "" : "still"}`;
  main.classList.toggle("is-stale", reason !== null);
  const notice = header.querySelector(".notice");
  const first = reason === null ? "Idle." : "Not live.";
  notice.hidden = reason === null && !idle(status);
  // The text changes only with its cause: a screen reader reads it once.
  const text = reason === null ? `${first} ${counted(status.workers ?? 0, "worker")} ${status.workers === 1 ? "runs" : "run"}, and no record has arrived since ${short(status.newest)} UTC.`
    : `${first} ${reason} These values are of ${short(status.newest)} UTC.`;
  if (!notice.hidden && notice.textContent !== text) replace(notice, h("b", {}, first), text.slice(first.length));
}

function skeleton() {
  return h("div", { class: "skeleton", "aria-busy": "true" }, h("p", { class: "loading" }, "Loading. Values appear when all messages are read."),
    h("div", { class: "streams" }, [0, 1, 2].map(() => h("div", { class: "card" }, h("div", { class: "bone" })))));
}

function statusText(status) {
  return [status.title, statusLine(status)].filter((one) => one).join(" · ");
}

// Warnings that differ in names and numbers alone are one kind.
function grouped(texts) {
  const kinds = new Map();
  for (const text of texts) {
    const kind = text.replace(/^[^:]*: /, "").replace(/[\d.,]+/g, "#").replace(/'[^']*'|"[^"]*"/g, "'").slice(0, 60);
    kinds.set(kind, [...(kinds.get(kind) ?? []), text]);
  }
  return [...kinds.values()];
}

function warning(texts) {
  const [first, ...rest] = texts;
  if (!rest.length) return h("p", { class: "problem", role: "alert" }, first);
  return h("details", { class: "problem", "data-key": `warning ${first}` }, h("summary", {}, first, " ", h("b", {}, `and ${counted(rest.length, "more").replace(/mores$/, "more")} of this kind`)),
    h("ul", { class: "plain" }, rest.map((text) => h("li", {}, text))));
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

// All models at a glance, the worst first: a plot of each stream, or a table of all of them.

import { address, h, link, partOf, replace, section, select, svg, table } from "./dom.js";
import { age, clock, count, counted, interval, moment, number, place } from "./format.js";
import { dashOf, FEW } from "./chart.js";
import { streamPlot } from "./small.js";

const TABLE = "table";

// Models of a page of the table, and streams of a page of plots.
const SIZES = { [TABLE]: 50, plots: 24 };

export function overviewPage(root, params, context) {
  const above = h("div");
  const controls = h("form", { class: "controls", role: "search", submit: (event) => event.preventDefault() });
  const body = h("div", { id: "models" });
  const as = params.as === TABLE ? TABLE : "plots";
  root.append(h("h1", { tabindex: "-1" }, "Models, the worst first"), above, controls, body);
  let made = "";
  const go = (changed) => context.go("overview", { ...params, page: null, ...changed });
  return {
    title: "Models",
    query: { size: SIZES[as], ...params },
    take(data) {
      const shape = JSON.stringify([data.options, data.choice]);
      if (shape !== made) {
        if (!controls.contains(document.activeElement) || !made) fillControls(controls, data, go, context.report);
        made = shape;
      }
      replace(above, as === TABLE ? [incidents(data), changes(data)] : openCount(data));
      const shownAll = as === TABLE ? data.total <= data.rows.length : data.total_streams <= data.plots.length;
      replace(body, pager(data, go), as === TABLE ? rows(data) : plots(data), shownAll ? null : pager(data, go));
    },
    close() {},
  };
}

function fillControls(controls, data, go, report) {
  const { choice, options } = data;
  let waiting = null;
  const search = h("input", {
    type: "search", value: choice.search, placeholder: "stream or model", "aria-label": "Search streams and models",
    input: (event) => {
      clearTimeout(waiting);
      waiting = setTimeout(() => go({ search: event.target.value }), 300);
    },
  });
  const as = (name, text) => h("button", { type: "button", "data-key": `as ${name}`, "aria-pressed": String((name === TABLE) === data.as_table), click: () => go({ as: name }) }, text);
  replace(controls,
    h("span", { class: "choices", role: "group", "aria-label": "how models are shown" }, as(null, "Plots"), as(TABLE, "Table")),
    h("label", {}, "Search ", search),
    select("Sort by", options.by, choice.by, "worst first", (by) => go({ by })),
    report ? null : select("Stage", options.stages, choice.stage, "each model's own", (stage) => go({ stage })),
    report ? null : select("Estimator", options.estimators, choice.estimator, "each model's own", (estimator) => go({ estimator })),
    h("label", {}, h("input", { type: "checkbox", checked: choice.reverse, change: (event) => go({ reverse: event.target.checked || null }) }), " reversed"));
}

function openCount(data) {
  return data.incidents_open ? h("p", {}, link("incidents", {}, h("span", { class: "badge mark-incident" }, `◆ Open incidents: ${count(data.incidents_open)}`))) : null;
}

function incidents(data) {
  if (!data.incidents_open) return null;
  const open = data.incidents.filter((one) => one.status === "open");
  return section(`Open incidents: ${count(data.incidents_open)}`,
    h("ul", { class: "plain" }, open.map((one) => h("li", {}, incidentLine(one, data.now)))),
    partOf(open.length, data.incidents_open, "open incidents"));
}

// An incident after which the loss is lower is no bad news.
function mark(incident) {
  return `badge ${incident.severity < 0 ? "mark-better" : "mark-incident"}`;
}

// `own`: on its model's page, where the model's name says nothing new.
export function incidentLine(one, now, own = false) {
  const state = one.status === "open" && !one.untimed ? `open for ${age(now - one.began)}` : one.status;
  return [h("span", { class: mark(one) }, `◆ ${state}${one.severity < 0 ? ", better" : ""}`), " ",
    link("incident", { id: one.id }, own ? `since ${began(one, now)}` : `${one.stream} / ${one.model}`),
    `${own ? "" : ` since ${began(one, now)}`}, severity ${number(one.severity)}: ${one.causes.join(", ")}${one.segment === null ? "" : `; in ${one.segment}`}`];
}

// When something began: at an outcome where there are no times.
function began(one, now) {
  return one.untimed ? `outcome ${count(one.outcome)}` : moment(one.began, now);
}

function changes(data) {
  const { live } = data.board;
  const recent = data.changes.filter((change) => change.recent || !live);
  if (!recent.length) return null;
  return section(live ? "Alarms of the last hour" : "Alarms, the newest first",
    h("ul", { class: "plain" }, recent.map((change) => h("li", {},
      h("span", { class: "badge mark-alarm" }, `▲ ${change.untimed ? "alarm" : live ? `${age(data.now - change.time)} ago` : clock(change.time)}`), " ",
      link("model", { stream: change.stream, model: change.model, partition: change.partition }, `${change.stream} / ${change.model}`),
      `: ${counted(change.count, "alarm")} since ${began(change, data.now)}, ${change.signals.join(", ")}; ${change.stages.join(", ")}${where(change)}`))),
    partOf(recent.length, live ? recent.length : data.changes_total, "changes"));
}

function where(change) {
  if (!change.segments.length) return "";
  return change.segments.length > 3 ? `; ${change.segments.length} segments` : `; ${change.segments.join(", ")}`;
}

function pager(data, go) {
  const total = data.as_table ? data.total : data.total_streams;
  const first = total ? data.page * data.size + 1 : 0;
  const last = Math.min(total, (data.page + 1) * data.size);
  const what = data.as_table ? `${counted(data.total, "model")}, ${counted(data.streams, "stream")}` : `${counted(total, "stream")}, ${counted(data.total, "model")}`;
  const to = (page, text, there) => h("button", { type: "button", "data-key": `page ${text}`, disabled: !there, click: () => go({ page }) }, text);
  const pages = total > data.size;
  return h(pages ? "nav" : "div", { class: "pager", "aria-label": "pages" },
    pages ? to(data.page - 1, "Previous", data.page > 0) : null,
    h("span", {}, `${count(first)} to ${count(last)} of ${what}; ${data.shown.join(", ")}`),
    pages ? to(data.page + 1, "Next", last < total) : null);
}

function nothing(data) {
  return h("p", {}, data.models ? "No model has such a name." : "No metrics yet.");
}

function plots(data) {
  if (!data.plots.length) return nothing(data);
  const beside = new Set(data.plots.flatMap((plot) => plot.beside.map((one) => one.name)));
  const expected = data.plots.some((plot) => plot.lines.some((line) => line.expected));
  const legend = [beside.size ? `Faint: ${[...beside].join(", ")}.` : "", expected ? "◇: what the newest whole period is expected to be." : ""].filter((one) => one);
  return [
    legend.length ? h("p", { class: "quiet" }, legend.join(" ")) : null,
    h("div", { class: "streams" }, data.plots.map((plot) => streamCard(plot, data)))];
}

function streamCard(plot, data) {
  const name = plot.split ? `${plot.stream} (${place(plot.partition)})` : plot.stream;
  const more = plot.models - plot.lines.length;
  const shown = [plot.measure, plot.less_is_better ? "(less is better)" : null, plot.stage ? `${plot.stage} · ${plot.estimator}` : null];
  return h("section", { class: "stream", "data-stream": name },
    h("h2", {}, name, " ", h("span", { class: "quiet" }, shown.filter((one) => one).join(", ").replace(", (", " ("))),
    streamPlot(plot, data.plots.length > 1 ? 360 : 720),
    h("ul", { class: "key" }, plot.lines.map((line, i) => h("li", {}, keyLine(line, i, plot, data)))),
    more > 0 ? h("p", { class: "quiet" }, `thin: ${counted(more, "more model")}, `, link("overview", { as: TABLE, search: plot.stream }, "in the table")) : null);
}

// A model: how its line looks, its newest value, what is expected of it, and what is wrong with it.
function keyLine(line, i, plot, data) {
  const few = line.y.filter((value) => value !== null).length;
  const value = line.values[plot.measure];
  return [
    svg("svg", { width: 26, height: 8, "aria-hidden": "true", class: line.baseline ? "line-quiet" : `line-${i + 1}` },
      few < FEW ? svg("circle", { cx: 13, cy: 4, r: 2.6 }) : svg("line", { x1: 1, y1: 4, x2: 25, y2: 4, "stroke-dasharray": dashOf(i).join(" ") || null })),
    " ", modelLink(line), " ", h("b", { class: "value" }, number(value)),
    line.expected ? h("span", { class: "quiet" }, ` ◇ expected ${number(line.expected.value)}${line.expected.low === null ? "" : ` (${interval([line.expected.low, line.expected.high])})`}`) : null,
    " ", state(line, data.now, data.board.live, null)];
}

function modelLink(row) {
  return [link("model", { stream: row.stream, model: row.model, partition: row.partition }, row.model), row.as_chosen ? null : h("span", { title: "no data for this stage and estimator; the closest one is shown" }, "*"),
    row.version ? h("span", { class: "quiet" }, ` ${row.version}`) : null];
}

function rows(data) {
  if (!data.rows.length) return nothing(data);
  const heads = ["stream", "model", "state", ...data.measures.map((name) => `#${name}`), "#outcomes", "#heard"];
  return table(heads, data.rows.map((row) => [
    row.split ? `${row.stream} (${place(row.partition)})` : row.stream,
    modelLink(row),
    state(row, data.now, data.board.live),
    ...data.measures.map((name) => number(row.values[name])),
    count(row.outcomes),
    row.untimed ? "–" : data.board.live ? age(data.now - row.heard) : clock(row.heard).slice(0, 16),
  ]), { class: "models", "aria-label": "models" });
}

// What is wrong with a model, each as a mark and words.
function state(row, now, live, calm = "✓ no problem was found") {
  const found = [];
  if (row.incident) found.push(h("a", { class: mark(row.incident), href: address("incident", { id: row.incident.id }), "data-key": `incident ${row.incident.id}` }, `◆ ${row.incident.severity < 0 ? "better" : "incident"}, ${row.incident.untimed ? `since outcome ${count(row.incident.outcome)}` : age(now - row.incident.began)}`));
  if (row.silent) found.push(h("span", { class: "badge mark-missed" }, `○ no new outcomes since ${moment(row.silent.since, now)}; ${row.silent.why}`));
  for (const one of row.missed) found.push(h("span", { class: "badge mark-missed" }, `▼ ${one.measure} ${number(one.value)} ${one.less_is_better ? ">" : "<"} ${one.bound}`));
  if (row.alarms?.recent && live && !row.untimed) found.push(h("span", { class: "badge mark-alarm" }, `▲ ${counted(row.alarms.count, "alarm")}, ${age(now - row.alarms.time)} ago`));
  else if (row.alarms) found.push(h("span", { class: live ? "quiet" : "badge mark-alarm" }, `▲ ${counted(row.alarms.count, "alarm")}`));
  for (const one of row.better) found.push(h("a", { class: "badge mark-below", href: address("pair", { stream: row.stream, model: one.model, against: one.against, partition: row.partition, stage: one.stage, loss: one.loss }), "data-key": `better ${row.stream} ${row.model} ${one.name}` }, `↓ ${one.name} is better`));
  for (const one of row.worse_than) found.push(h("span", { class: "badge mark-below" }, `↓ worse than ${one}`));
  if (row.baseline) found.push(h("span", { class: "quiet" }, "baseline"));
  if (row.started_empty) found.push(h("span", { class: "quiet" }, "has not seen all"));
  return h("span", { class: "badges" }, found.length || !calm ? found : h("span", { class: "quiet" }, calm));
}

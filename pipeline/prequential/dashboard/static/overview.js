// All models at a glance, the worst first.

import { address, h, link, replace, section, select, table } from "./dom.js";
import { age, clock, count, counted, moment, number } from "./format.js";
import { spark } from "./chart.js";

const SIZES = 50;

export function overviewPage(root, params, context) {
  const above = h("div");
  const controls = h("form", { class: "controls", role: "search", submit: (event) => event.preventDefault() });
  const body = h("div", { id: "models" });
  root.append(h("h1", { tabindex: "-1" }, "Models, the worst first"), above, controls, body);
  let made = "";
  const go = (changed) => context.go("overview", { ...params, page: null, ...changed });
  return {
    title: "Models",
    query: { size: SIZES, ...params },
    take(data) {
      const shape = JSON.stringify([data.options, data.choice]);
      if (shape !== made) {
        if (!controls.contains(document.activeElement) || !made) fillControls(controls, data, go, context.report);
        made = shape;
      }
      replace(above, incidents(data), changes(data));
      replace(body, pager(data, go), rows(data), data.total > data.rows.length ? pager(data, go) : null);
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
  replace(controls, h("label", {}, "Search ", search),
    select("Sort by", options.by, choice.by, "worst first", (by) => go({ by })),
    report ? null : select("Stage", options.stages, choice.stage, "each model's own", (stage) => go({ stage })),
    report ? null : select("Estimator", options.estimators, choice.estimator, "each model's own", (estimator) => go({ estimator })),
    h("label", {}, h("input", { type: "checkbox", checked: choice.reverse, change: (event) => go({ reverse: event.target.checked || null }) }), " reversed"));
}

function incidents(data) {
  if (!data.incidents_open) return null;
  const open = data.incidents.filter((one) => one.status === "open");
  return section(`Open incidents: ${count(data.incidents_open)}`,
    h("ul", { class: "plain" }, open.map((one) => h("li", {}, incidentLine(one, data.now)))));
}

// An incident after which the loss is lower is no bad news.
function mark(incident) {
  return `badge ${incident.severity < 0 ? "mark-better" : "mark-incident"}`;
}

export function incidentLine(one, now) {
  const state = one.status === "open" && !one.untimed ? `open for ${age(now - one.began)}` : one.status;
  return [h("span", { class: mark(one) }, `◆ ${state}${one.severity < 0 ? ", better" : ""}`), " ",
    link("incident", { id: one.id }, `${one.stream} / ${one.model}`),
    ` since ${began(one, now)}, severity ${number(one.severity)}: ${one.causes.join(", ")}${one.segment === null ? "" : `; in ${one.segment}`}`];
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
      `: ${counted(change.count, "alarm")} since ${began(change, data.now)}, ${change.signals.join(", ")}; ${change.stages.join(", ")}${where(change)}`))));
}

function where(change) {
  if (!change.segments.length) return "";
  return change.segments.length > 3 ? `; ${change.segments.length} segments` : `; ${change.segments.join(", ")}`;
}

function pager(data, go) {
  const first = data.total ? data.page * data.size + 1 : 0;
  const last = Math.min(data.total, (data.page + 1) * data.size);
  const to = (page, text, there) => h("button", { type: "button", "data-key": `page ${text}`, disabled: !there, click: () => go({ page }) }, text);
  return h("nav", { class: "pager", "aria-label": "pages" },
    to(data.page - 1, "Previous", data.page > 0),
    h("span", {}, `${count(first)} to ${count(last)} of ${counted(data.total, "model")}, ${counted(data.streams, "stream")}; ${data.shown.join(", ")}`),
    to(data.page + 1, "Next", last < data.total));
}

function rows(data) {
  if (!data.rows.length) return h("p", {}, data.models ? "No model has such a name." : "No metrics yet.");
  const heads = ["stream", "model", "state", ...data.measures.map((name) => `#${name}`), "#outcomes", "#heard", "course"];
  return table(heads, data.rows.map((row) => [
    row.split ? `${row.stream}[${row.partition}]` : row.stream,
    [link("model", { stream: row.stream, model: row.model, partition: row.partition }, row.model), row.as_chosen ? null : h("span", { title: "it has not what was chosen; the nearest is shown" }, "*"),
      row.version ? h("span", { class: "quiet" }, ` ${row.version}`) : null],
    state(row, data.now, data.board.live),
    ...data.measures.map((name) => number(row.values[name])),
    count(row.outcomes),
    row.untimed ? "–" : data.board.live ? age(data.now - row.heard) : clock(row.heard).slice(0, 16),
    spark(row.course),
  ]), { class: "models", "aria-label": "models" });
}

// What is wrong with a model, each as a mark and words.
function state(row, now, live) {
  const found = [];
  if (row.incident) found.push(h("a", { class: mark(row.incident), href: address("incident", { id: row.incident.id }), "data-key": `incident ${row.incident.id}` }, `◆ ${row.incident.severity < 0 ? "better" : "incident"}, ${row.incident.untimed ? `since outcome ${count(row.incident.outcome)}` : age(now - row.incident.began)}`));
  if (row.silent) found.push(h("span", { class: "badge mark-missed" }, `○ no new outcomes since ${moment(row.silent.since, now)}; ${row.silent.why}`));
  for (const one of row.missed) found.push(h("span", { class: "badge mark-missed" }, `▼ ${one.measure} ${number(one.value)} ${one.less_is_better ? ">" : "<"} ${one.bound}`));
  if (row.alarms?.recent && live && !row.untimed) found.push(h("span", { class: "badge mark-alarm" }, `▲ ${counted(row.alarms.count, "alarm")}, ${age(now - row.alarms.time)} ago`));
  else if (row.alarms) found.push(h("span", { class: live ? "quiet" : "badge mark-alarm" }, `▲ ${counted(row.alarms.count, "alarm")}`));
  for (const one of row.worse_than) found.push(h("span", { class: "badge mark-below" }, `↓ worse than ${one}`));
  if (row.baseline) found.push(h("span", { class: "quiet" }, "baseline"));
  if (row.started_empty) found.push(h("span", { class: "quiet" }, "has not seen all"));
  return h("span", { class: "badges" }, found.length ? found : h("span", { class: "quiet" }, "✓ nothing stands out"));
}

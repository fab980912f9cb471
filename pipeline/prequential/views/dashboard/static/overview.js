// All models at a glance, the worst first: a plot of each stream, or a table of all of them.

import { chip, empty, h, link, partOf, replace, section, select, svg, table } from "./dom.js";
import { age, clock, count, counted, interval, moment, number, place, short, signed } from "./format.js";
import { dashOf, FEW, lookOf, QUIET_DASHES } from "./chart.js";
import { NO_RECORD, move, spark, streamPlot } from "./small.js";

const TABLE = "table";

// Models of a page of the table, and streams of a page of plots: fewer on a phone, where each needs a screen's width.
const SIZES = globalThis.innerWidth < 600 ? { [TABLE]: 12, plots: 6 } : { [TABLE]: 50, plots: 24 };

export function overviewPage(root, params, context) {
  const title = h("h1", { tabindex: "-1" }, "Models");
  const above = h("div");
  const controls = h("form", { class: "controls", role: "search", submit: (event) => event.preventDefault() });
  const body = h("div", { id: "models" });
  const all = h("section", {}, controls, body);
  const as = params.as === TABLE ? TABLE : "plots";
  root.append(title, above, all);
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
      all.hidden = !data.models;
      title.textContent = data.heading;
      replace(above, data.models ? [meta(data), verdict(data), needs(data), changes(data, as !== TABLE)] : nothing(data));
      if (!data.models) return;
      const shownAll = as === TABLE ? data.total <= data.rows.length : data.total_streams <= data.plots.length;
      replace(body, pager(data, go), as === TABLE ? rows(data) : plots(data), shownAll ? null : pager(data, go));
    },
    close() {},
  };
}

function meta(data) {
  const shown = [counted(data.total_streams, "stream"), ...data.shown, data.choice.search ? `search: ${data.choice.search}` : null, data.board.untimed ? null : "times are UTC"];
  return h("p", { class: "meta" }, shown.filter((one) => one).map((one) => h("span", {}, one)));
}

// What a finished run says of each stream, with totals of its models.
function verdict(data) {
  if (!data.verdict?.length) return null;
  return data.verdict.map((one) => {
    const names = [...new Set(one.totals.flatMap((total) => Object.keys(total.measures)))];
    return h("section", { class: "card verdict" }, h("div", {}, h("p", { class: "story" }, one.sentences.join(" "))),
      h("div", { class: "tables" }, one.totals.length ? table(["whole run", `#${[...new Set(one.totals.map((total) => total.measure))].join(", ")}`, ...names.map((name) => `#${name}`), "#outcomes"],
        one.totals.map((total) => [total.model, h("b", {}, number(total.value)), ...names.map((name) => number(total.measures[name])), count(total.outcomes)]), { "aria-label": "totals", class: "cards" }) : null,
      one.references?.length ? table(["measure", `#first ${count(one.references[0].outcomes)} (reference)`, "#latest", "#difference"],
        one.references.map((row) => [`${row.model}: ${row.measure}`, number(row.reference), h("b", {}, number(row.latest)), h("span", { class: row.differs === false ? "quiet" : null }, signed(row.difference), row.differs === false ? " (may be chance)" : "")]), { "aria-label": "latest beside the reference", class: "cards" }) : null));
  });
}

// How long a status has lasted, where it is known.
export function since(status, now) {
  if (status.since !== null) return age(Math.max(0, now - status.since));
  return status.outcome === null ? "" : `outcome ${count(status.outcome)}`;
}

// A next step that the row above has too is marked as such: a phone shows it once.
function needs(data) {
  if (!data.needs.length) return null;
  return h("section", { class: "needs", "aria-label": "models that need attention" },
    data.needs.map((one, i) => {
      const { status, stream, model, partition } = one;
      const again = status.next === data.needs[i - 1]?.status.next;
      const [view, about] = status.incident ? ["incident", { id: status.incident }] : one.models > 1 ? ["overview", { search: stream }] : ["model", { stream, model, partition }];
      const row = link(view, about,
        h("span", { class: "chipcell" }, chip(status.kind, status.word)),
        h("span", { class: "who" }, h("span", { class: "quiet" }, `${stream} / `), h("b", {}, one.models > 1 ? `${count(one.models)} models` : model),
          one.split ? h("span", { class: "quiet" }, ` (${place(partition)})`) : null),
        h("span", { class: "what" }, status.sentence, status.next ? h("span", { class: again ? "quiet again" : "quiet" }, ` Next: ${status.next}.`) : null),
        move({ before: status.before, after: status.after }, `c-${status.kind}`) ?? h("span", { class: "move" }),
        spark(one.spark, `c-${status.kind}`) ?? h("span", { class: "spark" }),
        h("span", { class: "when" }, since(status, data.now)));
      row.classList.add("need");
      return row;
    }),
    partOf(data.needs.reduce((sum, one) => sum + one.models, 0), data.needs_total, "models that need attention"));
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
    h("h2", {}, "All streams"),
    h("span", { class: "choices", role: "group", "aria-label": "how models are shown" }, as(null, "Plots"), as(TABLE, "Table")),
    h("label", {}, "Search ", search),
    select("Sort by", options.by, choice.by, "worst first", (by) => go({ by })),
    report || options.stages.length < 2 ? null : select("Stage", options.stages, choice.stage, "each model's own", (stage) => go({ stage })),
    report || options.estimators.length < 2 ? null : select("Estimator", options.estimators, choice.estimator, "each model's own", (estimator) => go({ estimator })),
    h("label", {}, h("input", { type: "checkbox", checked: choice.reverse, change: (event) => go({ reverse: event.target.checked || null }) }), " in the opposite order"));
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

// Alarms without an open incident; `folded`: as one line to open, which only new ones deserve.
function changes(data, folded) {
  const { live } = data.board;
  const recent = data.changes.filter((change) => change.recent || !live);
  if (!recent.length) return null;
  const title = live ? "Alarms of the last hour" : "Alarms, the newest first";
  const list = [h("ul", { class: "plain" }, recent.map((change) => h("li", {},
      h("span", { class: "badge mark-alarm" }, `▲ ${change.untimed ? "alarm" : live ? `${age(data.now - change.time)} ago` : clock(change.time)}`), " ",
      link("model", { stream: change.stream, model: change.model, partition: change.partition }, `${change.stream} / ${change.model}`),
      `: ${counted(change.count, "alarm")} since ${began(change, data.now)}, ${change.signals.join(", ")}; ${change.stages.join(", ")}${where(change)}`))),
    partOf(recent.length, data.changes_total, "changes")];
  if (!folded) return section(title, list);
  return live ? h("details", { class: "fold", "data-key": "alarms" }, h("summary", {}, `${title}: ${count(data.changes_total)}`), h("div", {}, list)) : null;
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
    h("span", {}, `${count(first)} to ${count(last)} of ${what}`),
    pages ? to(data.page + 1, "Next", last < total) : null);
}

function nothing(data) {
  if (data.models) return h("p", {}, "No model has such a name.");
  if (data.board.notice) return empty("Starting", data.board.notice);
  if (data.board.live) return empty("No metrics yet", "The output topics have no messages. Metrics come with the first outcome: a prediction and its label.", "prequential topics check --config config.yaml");
  return empty("No metrics yet", "There are no messages. Metrics come with the first outcome: a prediction and its label.", "prequential replay --help");
}

function plots(data) {
  if (!data.plots.length) return nothing(data);
  const expected = data.plots.some((plot) => plot.lines.some((line) => line.expected));
  const lanes = data.plots.some((plot) => plot.bands.length);
  const legend = [lanes ? "Bars under a plot are incidents; a dark bar is still open." : "", expected ? "◇: the expected value of the newest whole period." : ""].filter((one) => one);
  return [
    legend.length ? h("p", { class: "pager" }, legend.join(" ")) : null,
    h("div", { class: "streams" }, data.plots.map((plot) => streamCard(plot, data)))];
}

function streamCard(plot, data) {
  const name = plot.split ? `${plot.stream} (${place(plot.partition)})` : plot.stream;
  const more = plot.models - plot.lines.length;
  const shown = [plot.measure, plot.less_is_better ? "(less is better)" : null, plot.stage ? `${plot.stage} · ${plot.estimator}` : null];
  const referred = plot.lines.some((line) => line.difference !== null);
  const newest = (line) => [...line.y].reverse().find((value) => value !== null);
  return h("section", { class: "stream card", "data-stream": name },
    h("h2", {}, name, " ", h("span", { class: "quiet" }, shown.filter((one) => one).join(", ").replace(", (", " ("))),
    streamPlot(plot, data.plots.length > 1 ? 130 : 230),
    h("div", {},
      h("div", { class: "key" },
        h("div", { class: "head" }, h("span"), h("span"), h("span", { class: "v" }, "latest"), h("span", { class: "d" }, referred ? "vs reference" : ""), h("span", { class: "s" })),
        plot.lines.map((line, i) => h("div", { class: "line" }, keyLine(line, i, plot, data))),
        plot.baselines.map((line, i) => h("div", { class: "base quiet" }, h("span", {}, sample("line-quiet", QUIET_DASHES[i % QUIET_DASHES.length].join(" "))), h("span", { title: line.name }, line.short), h("span", { class: "v" }, number(newest(line))), h("span", { class: "d" }), h("span", { class: "s" }, "baseline")))),
      more > 0 ? h("p", { class: "quiet" }, `thin: ${counted(more, "more model")}, `, link("overview", { as: TABLE, search: plot.stream }, "in the table")) : null));
}

function sample(name, dash) {
  return svg("svg", { width: 26, height: 8, "aria-hidden": "true", class: name }, svg("line", { x1: 1, y1: 4, x2: 25, y2: 4, "stroke-dasharray": dash }));
}

// A model: how its line looks, its newest value, its difference from the reference, its status, and what is expected of it.
function keyLine(line, i, plot, data) {
  const few = line.y.filter((value) => value !== null).length < FEW;
  const name = line.baseline ? "line-quiet" : `line-${lookOf(line, i)}`;
  const one = line.expected;
  return [
    h("span", {}, few ? svg("svg", { width: 26, height: 8, "aria-hidden": "true", class: name }, svg("circle", { cx: 13, cy: 4, r: 2.6 })) : sample(name, dashOf(plot.lines, i).join(" ") || null)),
    h("span", { title: line.model }, modelLink(line)),
    h("b", { class: "v value" }, number(line.values[plot.measure])),
    h("span", { class: "d quiet" }, signed(line.difference)),
    h("span", { class: "s" }, statusChip(line, data.now)),
    one ? h("span", { class: "more quiet" }, `◇ expected ${number(one.value)} (${one.low === null ? NO_RECORD : interval([one.low, one.high])})`) : null];
}

function modelLink(row) {
  return [link("model", { stream: row.stream, model: row.model, partition: row.partition }, row.model), row.as_chosen ? null : h("span", { title: "no data for this stage and estimator; the closest one is shown" }, "*"),
    row.version ? h("span", { class: "quiet" }, ` ${row.version}`) : null];
}

// The status of a model, which links to its reason.
export function statusChip(row, now) {
  const { status } = row;
  const lasted = status.kind === "worse" && status.since !== null ? ` for ${since(status, now)}` : "";
  const one = chip(status.kind, `${status.word}${lasted}`);
  if (status.incident) return link("incident", { id: status.incident }, one);
  const [better] = row.better ?? [];
  if (status.kind === "beaten" && better) return link("pair", { stream: row.stream, model: better.model, against: better.against, partition: row.partition, stage: better.stage, loss: better.loss }, one);
  return one;
}

function rows(data) {
  if (!data.rows.length) return nothing(data);
  const heads = ["stream", "model", "status", ...data.measures.map((name) => `#${name}`), "#outcomes", "#heard"];
  return table(heads, data.rows.map((row) => [
    row.split ? `${row.stream} (${place(row.partition)})` : row.stream,
    modelLink(row),
    h("span", {}, statusChip(row, data.now), notes(row, data)),
    ...data.measures.map((name) => number(row.values[name])),
    count(row.outcomes),
    row.untimed ? "–" : data.board.live ? age(data.now - row.heard) : short(row.heard),
  ]), { class: "models", "aria-label": "models" });
}

// What is also known of a model, after its status.
function notes(row, data) {
  const found = [];
  if (row.status.sentence) found.push(row.status.sentence);
  if (row.alarms?.recent && data.board.live && !row.untimed) found.push(`${counted(row.alarms.count, "alarm")}, ${age(data.now - row.alarms.time)} ago.`);
  else if (row.alarms) found.push(`${counted(row.alarms.count, "alarm")}.`);
  if (row.worse_than.length) found.push(`Worse than ${row.worse_than.join(", ")}.`);
  if (row.started_empty) found.push("It has not seen all outcomes.");
  return found.length ? h("span", { class: "quiet" }, ` ${found.join(" ")}`) : null;
}

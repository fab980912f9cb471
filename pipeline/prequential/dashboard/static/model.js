// One model: its measures over time with what happened to it, and everything else that is known.

import { h, link, partOf, replace, section, select, table } from "./dom.js";
import { clock, count, counted, duration, inRows, interval, number, percent, place } from "./format.js";
import { createChart } from "./chart.js";
import { mistakes } from "./mistakes.js";
import { incidentLine } from "./overview.js";
import { probabilities } from "./probabilities.js";
import { residuals } from "./residuals.js";

// Incidents that are listed; the others are behind a line.
const LISTED = 5;

// Measures that are drawn unless others are chosen.
const FIRST = 4;

const SPANS = [["all", null], ["7 d", 604800000], ["24 h", 86400000], ["6 h", 21600000], ["1 h", 3600000]];

export function modelPage(root, params, context) {
  const head = h("div");
  const controls = h("div", { class: "controls" });
  const charts = h("div", { class: "charts" });
  const wrong = h("div");
  const probable = h("div");
  const numeric = h("div");
  const scores = { memory: null, costs: null };
  const labels = h("div");
  const labelCharts = h("div", { class: "charts" });
  const below = h("div");
  const note = h("p");
  root.append(head, controls, note, charts, wrong, probable, numeric, labels, labelCharts, below);
  const view = { note, axis: null, zoom: null, span: null, chosen: null, memory: null, charts: new Map(), data: null };
  const redraw = () => view.data && draw(view, { charts, labelCharts }, redraw);
  const fillMistakes = () => replace(wrong, mistakes(view.data, view.memory, (memory) => {
    view.memory = memory;
    fillMistakes();
  }));
  const again = () => {
    fillControls(controls, view, params, context, again);
    redraw();
  };
  const fillProbabilities = () => replace(probable, probabilities(view.data, scores, fillProbabilities));
  let ofResiduals = null;
  const fillResiduals = () => replace(numeric, residuals(view.data, ofResiduals, (memory) => {
    ofResiduals = memory;
    fillResiduals();
  }));
  let made = "";
  return {
    title: `${params.stream} / ${params.model}`,
    query: params,
    redraw() {
      for (const chart of view.charts.values()) chart.element.dataset.redraw = Date.now();
      redraw();
    },
    take(data) {
      view.data = data;
      view.axis ??= !data.untimed && timeMoves(data) ? "t" : "outcomes";
      view.chosen ??= data.measures.filter((name) => !data.not_quality.includes(name)).slice(0, FIRST);
      replace(head, heading(data), beforeLabels(data), incidents(data));
      const shape = JSON.stringify([data.estimators, data.segments, data.measures, data.estimator]);
      if (shape !== made) {
        made = shape;
        fillControls(controls, view, params, context, again);
      }
      redraw();
      fillMistakes();
      fillProbabilities();
      fillResiduals();
      replace(labels, coverage(data));
      replace(below, pairs(data), now(data), besideReference(data), segments(data), alarms(data), counts(data));
    },
    close() {
      for (const chart of view.charts.values()) chart.close();
    },
  };
}

function timeMoves(data) {
  return Object.values(data.series).some((course) => course.t.length > 1 && course.t[course.t.length - 1] > course.t[0]);
}

function heading(data) {
  const version = data.version === null ? null : `version ${data.version}${data.version_since ? ` since outcome ${count(data.version_since)}` : ""}`;
  const said = [data.ts === null || data.untimed ? null : `newest label of ${clock(data.ts)}`, version, data.split ? place(data.partition) : null];
  return [
    h("h1", { tabindex: "-1" }, `${data.stream} / ${data.model}`),
    h("p", { class: "quiet" }, said.filter((one) => one).join(" · ")),
    data.silent ? h("p", { class: "problem" }, `No new outcomes since ${clock(data.silent.since)}; ${data.silent.why}`) : null,
    h("p", { class: "story" }, data.story),
  ];
}

// Incidents by number, as in the charts, each with its alarms.
function incidents(data) {
  const { now } = data.board;
  const list = (found) => h("ul", { class: "plain" }, found.map((one) => h("li", {},
    h("b", {}, `${one.number} `), incidentLine(one, now, true),
    one.alarms.length ? h("details", { "data-key": `alarms ${one.id}` }, h("summary", {}, counted(one.alarm_count, "alarm")), alarmTable(one.alarms), partOf(one.alarms.length, one.alarm_count, "alarms")) : null)));
  const rest = data.incidents.slice(LISTED);
  if (!data.incidents.length) return null;
  return section("Incidents", list(data.incidents.slice(0, LISTED)),
    rest.length ? h("details", { "data-key": "earlier incidents" }, h("summary", {}, `${counted(rest.length, "earlier incident")}`), list(rest)) : null,
    partOf(data.incidents.length, data.totals.incidents, "incidents"));
}

function fillControls(controls, view, params, context, again) {
  const { data } = view;
  const go = (changed) => context.go("model", { ...params, ...changed });
  replace(controls,
    data.estimators.length > 1 ? select("Estimator", data.estimators, data.estimator, null, (estimator) => go({ estimator })) : h("span", {}, `Estimator ${data.estimator}`),
    data.segments.length ? select("Segment", data.segments, data.segment, "all", (segment) => go({ segment })) : null,
    data.untimed ? null : select("Axis", ["time", "outcomes"], view.axis === "t" ? "time" : "outcomes", null, (axis) => {
      Object.assign(view, { axis: axis === "time" ? "t" : "outcomes", zoom: null });
      again();
    }),
    data.untimed ? null : h("span", { class: "choices", role: "group", "aria-label": "how far back" }, SPANS.map(([text, span]) => h("button", {
      type: "button", "data-key": `span ${text}`, "aria-pressed": String(view.span === span && !view.zoom), click: () => {
        Object.assign(view, { span, zoom: null });
        again();
      },
    }, text))),
    h("details", { class: "menu", "data-key": "measures" }, h("summary", {}, `Measures (${view.chosen.length} of ${data.measures.length})`),
      h("div", { class: "checks" }, data.measures.map((name) => h("label", {}, h("input", {
        type: "checkbox", "data-key": `measure ${name}`, checked: view.chosen.includes(name), change: (event) => {
          view.chosen = data.measures.filter((one) => (one === name ? event.target.checked : view.chosen.includes(one)));
          again();
        },
      }), ` ${name}`)))));
}

// Ends of the axis that all charts share.
export function rangeOf(courses, marks, axis, span) {
  let low = Infinity;
  let high = -Infinity;
  for (const course of courses) {
    const xs = course[axis];
    if (xs.length) {
      low = Math.min(low, xs[0]);
      high = Math.max(high, xs[xs.length - 1]);
    }
  }
  if (low > high) return [0, 1];
  for (const mark of marks) {
    const x = axis === "t" ? mark.t : mark.outcome;
    if (x > high && x < high + (high - low) / 10) high = x;
  }
  if (span !== null && axis === "t") low = Math.max(low, high - span);
  return [low, high];
}

function draw(view, holders, redraw) {
  const { data, axis } = view;
  const nothing = `Estimator ${data.estimator} has no messages${data.segment ? ` in the segment ${data.segment}` : ""}.`;
  const absent = data.absent_estimator && `Estimator ${data.absent_estimator} has no messages, or has ended: this is ${data.estimator}.`;
  replace(view.note, data.measures.length ? absent : nothing);
  const courses = Object.entries(data.series);
  const marks = data.marks.filter((mark) => (mark.segment ?? null) === null || mark.segment === data.segment);
  const range = view.zoom ?? rangeOf(courses.map(([, course]) => course), marks, axis, view.span);
  const zoom = (ends) => {
    view.zoom = ends;
    redraw();
  };
  const wanted = [...view.chosen];
  const extra = coverageCharts(data, axis, marks);
  const periods = periodChart(view);
  for (const [name, chart] of view.charts) {
    if (!wanted.includes(name) && ![...extra, ...periods].some((one) => one.title === name)) {
      chart.close();
      view.charts.delete(name);
    }
  }
  const update = (title, state, holder = holders.charts) => {
    // What was dragged over on another axis is no range of this one.
    if (!view.charts.has(title)) view.charts.set(title, createChart(holder, title, (ends) => (state.axis ?? view.axis) === view.axis && zoom(ends)));
    view.charts.get(title).update({ axis, range, marks, bands: data.bands, ...state });
  };
  for (const { title, ...state } of periods) update(title, state);
  for (const name of wanted) update(name, { lines: measureLines(data, courses, axis, name), references: references(data, name) });
  for (const { title, lines, format } of extra) update(title, { lines, format, references: [] }, holders.labelCharts);
}

// The first chosen measure by time of prediction: what is final, expected, and labelled so far.
function periodChart(view) {
  const { data } = view;
  const course = data.period_series;
  const name = view.chosen.find((one) => course.values[one]);
  if (!name) return [];
  const axis = data.untimed ? "row" : "t";
  const column = (said) => course.values[`${name}.${said}`];
  const lines = [
    { name: "final", x: course.t, y: course.values[name] },
    { name: "expected", x: course.t, y: column("expected"), low: column("low"), high: column("high") },
    { name: "labelled so far", short: "so far", quiet: true, x: course.t, y: column("so_far") },
  ].filter((line) => line.name === "final" || line.y.some((value) => value !== null));
  const range = view.axis === axis && view.zoom ? view.zoom : rangeOf([course], [], "t", data.untimed ? null : view.span);
  return [{ title: `${name} by time of prediction`, axis, range, lines, marks: [], bands: [], references: references(data, name) }];
}

function measureLines(data, courses, axis, name) {
  const lines = courses.filter(([, course]) => course.values[name]).map(([stage, course], place) => ({
    name: stageName(stage, data.same[stage]), x: course[axis], y: course.values[name],
    // One band can be read, several can't.
    ...(place === 0 && course.values[`${name}.low`] ? { low: course.values[`${name}.low`], high: course.values[`${name}.high`] } : {}),
  }));
  const [, main] = courses[0] ?? [];
  for (const { measure, name: long, short, one_less: oneLess } of main ? data.beside[name] ?? [] : []) {
    const known = main.values[measure];
    if (known) lines.push({ name: long, short, quiet: true, x: main[axis], y: oneLess ? known.map((value) => (value === null ? null : 1 - value)) : known });
  }
  return lines;
}

// A stage, and those that are the same up to now: they have no messages.
function stageName(stage, same) {
  return [stage, ...(same ?? [])].join(" = ");
}

function references(data, name) {
  const found = data.references[name] ? [data.references[name]] : [];
  const bound = data.objective[name];
  if (bound !== undefined) found.push({ y: bound, text: `objective: ${data.less_is_better.includes(name) ? "at most" : "at least"} ${bound}` });
  return found;
}

// How lengths of time are written.
function lengthOf(data) {
  return data.untimed ? inRows : duration;
}

function coverageCharts(data, axis) {
  const course = data.coverage_series;
  const of = (names) => names.filter(([column]) => course.values[column]?.some((value) => value !== null))
    .map(([column, name]) => ({ name, x: course[axis], y: course.values[column] }));
  return [
    { title: "label latency", lines: of([["recent_label_latency_ms.p50", "latest, median"], ["recent_label_latency_ms.p90", "latest, 90%"], ["label_latency_ms.p50", "all, median"]]), format: lengthOf(data) },
    { title: "predictions waiting for a label", lines: of([["waiting", "waiting"]]), format: count },
  ].filter((chart) => chart.lines.length);
}

// What its newest whole period and what waits are expected to be, where that parts from the labels, and what is assumed.
function beforeLabels(data) {
  const { lines, assumption } = data.before_labels;
  if (!lines.length) return null;
  return section("Estimated performance", h("ul", {}, lines.map((text) => h("li", {}, text))), h("p", { class: "quiet" }, assumption));
}

function pairs(data) {
  if (!data.pairs.length) return null;
  return section("Which model is better", pairList(data.pairs));
}

// Those of the stream as a whole; those of segments when they are asked for.
export function pairList(pairs) {
  const list = (found) => h("ul", { class: "plain" }, found.map((pair) => h("li", {},
    verdictBadge(pair), " ",
    pairLink(pair))));
  const inSegments = pairs.filter((pair) => pair.segment !== null);
  return [list(pairs.filter((pair) => pair.segment === null)),
    inSegments.length ? h("details", { "data-key": "pairs of segments" }, h("summary", {}, `In segments: ${count(inSegments.length)}`), list(inSegments)) : null];
}

// What was decided is about the whole run: the latest outcomes may say otherwise.
function verdictBadge(pair) {
  if (pair.verdict === "undecided") return h("span", { class: "badge" }, "? undecided");
  if (pair.verdict === "by_partition") return h("span", { class: "badge" }, "? by partition");
  if (pair.contradicted) return h("span", { class: "badge mark-missed" }, "⇄ recently reversed");
  return h("span", { class: "badge mark-verdict" }, "■ over the whole run");
}

function pairLink(pair) {
  const { stream, partition, model, against, stage, same, loss, segment, sentence } = pair;
  return link("pair", { stream, partition, model, against, stage, loss, segment }, `${stageName(stage, same)}${segment ? ` ${segment}` : ""}: ${sentence}`);
}

function now(data) {
  const names = data.measures;
  if (!data.now.length) return null;
  const rows = data.now.map((one) => [one.stage, one.estimator, count(one.n), count(one.outcomes),
    ...names.map((name) => (one.intervals[name] ? h("span", { title: `95% interval, for one look: ${interval(one.intervals[name])}` }, number(one.values[name])) : number(one.values[name])))]);
  const undefined_ = Object.entries(Object.values(data.undefined)[0] ?? {});
  return section("Stages and estimators, now",
    table(["stage", "estimator", "#n", "#outcomes", ...names.map((name) => `#${name}`)], rows, { "aria-label": "stages and estimators", class: "cards" }),
    undefined_.length ? h("p", { class: "quiet" }, `Without a value: ${undefined_.map(([name, reason]) => `${name} (${reason})`).join(", ")}`) : null);
}

// The first outcomes next to later ones; a difference larger than chance explains is marked.
function besideReference(data) {
  if (!data.reference_rows.length) return null;
  const first = data.reference_rows[0].outcomes;
  return section(`Compared with the first ${count(first)} outcomes`,
    table(["estimator", "measure", "#then", "#now", "#difference", "#95% interval", ""], data.reference_rows.map((one) => [one.estimator, one.measure, number(one.reference), number(one.now), number(one.difference), interval(one.interval), one.differs ? "◆ differs" : ""]), { "aria-label": "compared with the reference", class: "cards" }),
    h("p", { class: "quiet" }, "An estimator that still contains some of the first outcomes has no interval. Intervals hold for one look."));
}

function segments(data) {
  if (!data.segment_rows.length) return null;
  const names = data.measures.slice(0, 6);
  return section("Segments", table(["segment", "#n", "#outcomes", ...names.map((name) => `#${name}`)],
    data.segment_rows.map((row) => [
      data.segments.includes(row.segment) ? link("model", { stream: data.stream, model: data.model, partition: data.partition, segment: row.segment }, row.segment) : row.segment,
      count(row.n), count(row.outcomes), ...names.map((name) => number(row.values[name]))]), { "aria-label": "segments", class: "cards" }), partOf(data.segment_rows.length, data.totals.segments, "segments"));
}

function coverage(data) {
  const said = data.coverage;
  const lines = [];
  if (said.waiting !== undefined) lines.push(`${counted(said.waiting, "prediction")} pending, the oldest for ${lengthOf(data)(said.oldest_waiting_ms ?? 0)}`);
  if (said.labelled?.horizon !== undefined) lines.push(`${percent(said.labelled.horizon)} of predictions get a label`);
  if (said.at_horizon) lines.push(`${counted(said.at_horizon, "prediction")} got no label within the horizon and were assigned the class of label_at_horizon`);
  if (said.unpredicted_labels) lines.push(`${counted(said.unpredicted_labels, "label")} without a prediction`);
  if (said.prediction_psi !== undefined && said.prediction_psi !== null) lines.push(`labelled and unlabelled predictions differ by PSI ${number(said.prediction_psi)}${said.prediction_psi > 0.25 ? ": the labelled ones differ from the rest" : ""}`);
  const shares = Object.entries(said.labelled ?? {});
  const latency = ["label_latency_ms", "recent_label_latency_ms"].filter((name) => said[name] && Object.keys(said[name]).length);
  if (!lines.length && !shares.length && !latency.length) return null;
  return section("Labels of its predictions",
    h("ul", {}, lines.map((text) => h("li", {}, text))),
    shares.length ? table(["label came within", "#share of predictions"], shares.map(([within, share]) => [within, percent(share)]), { "aria-label": "label maturity", class: "cards" }) : null,
    latency.length ? table(["label latency", "#p50", "#p90", "#p99"], latency.map((name) => [name === "label_latency_ms" ? "all labels" : "latest labels", ...["p50", "p90", "p99"].map((q) => (said[name][q] === undefined ? "–" : lengthOf(data)(said[name][q])))]), { "aria-label": "label latency", class: "cards" }) : null);
}

function alarms(data) {
  if (!data.alarms.length) return null;
  return section(data.incidents.length ? "Alarms without an incident" : "Alarms", alarmTable(data.alarms), partOf(data.alarms.length, data.totals.alarms, "alarms"));
}

export function alarmTable(list) {
  const timed = list.some((alarm) => alarm.ts !== null);
  return table([...(timed ? ["time"] : []), "stage", "segment", "detector", "signal", "#outcome", "instance", "#statistic", "#threshold"],
    list.map((alarm) => [...(timed ? [alarm.ts === null ? "–" : clock(alarm.ts)] : []), alarm.stage, alarm.segment ?? "", alarm.detector, alarm.signal, count(alarm.outcome), h("code", {}, alarm.instance_id), number(alarm.statistic), number(alarm.threshold)]),
    { "aria-label": "alarms", class: "cards" });
}

function counts(data) {
  const found = Object.entries(data.counts);
  if (!found.length) return null;
  return section("Counts", h("p", {}, found.map(([name, value]) => `${name} ${count(value)}`).join(" · ")));
}

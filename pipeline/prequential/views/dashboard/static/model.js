// One model: its measures over time with what happened to it, and everything else that is known.

import { chip, h, link, partOf, replace, section, select, svg, table } from "./dom.js";
import { age, clock, count, counted, duration, inRows, interval, number, percent, place, short, signed } from "./format.js";
import { createChart, endOf, gutter, lookOf, narrow } from "./chart.js";
import { mistakes } from "./mistakes.js";
import { since } from "./overview.js";
import { probabilities } from "./probabilities.js";
import { residuals } from "./residuals.js";
import { lane, move, paintAll, rangeOfMoves, sized, spark, ticksOf } from "./small.js";

// Incidents that are listed; the others are behind a line.
const LISTED = 5;

// Measures that are drawn unless others are chosen, and the heights of the first chart and of the others.
const FIRST = 3;
const HEIGHTS = [230, 110];

// Periods that are drawn unless a range is chosen.
const PERIODS = 40;

// Columns of a table that fit.
const COLUMNS = 5;

// Points of a small line.
const SPARK = 60;

const SPANS = [["all", null], ["90 d", 7776000000], ["30 d", 2592000000], ["7 d", 604800000], ["24 h", 86400000], ["1 h", 3600000]];

export function modelPage(root, params, context) {
  const head = h("div");
  const cards = h("div", { class: "cards5" });
  const controls = h("div", { class: "controls" });
  const note = h("p");
  const charts = h("div", { class: "charts" });
  const lanes = h("div", { class: "lanes" });
  const tables = h("div", { class: "values" });
  const expectedText = h("div");
  const expectedChart = h("div", { class: "charts" });
  const labels = h("div");
  const labelCharts = h("div", { class: "charts" });
  const expectedCard = h("section", { class: "card" }, expectedText, expectedChart);
  const labelCard = h("section", { class: "card" }, labels, labelCharts);
  const wrong = h("div");
  const below = h("div");
  const others = h("div");
  const folds = h("div");
  root.append(head, h("div", { class: "first" }, cards, wrong), h("section", {}, controls, note, h("div", { class: "card" }, charts, lanes, tables)),
    h("div", { class: "cols" }, expectedCard, labelCard), below, others, folds);
  const view = { note, axis: null, zoom: null, span: null, chosen: null, memory: null, charts: new Map(), data: null };
  const redraw = () => {
    if (!view.data) return;
    draw(view, { charts, expectedChart, labelCharts, lanes, tables }, redraw);
    paintAll();
  };
  const fillMistakes = () => replace(wrong, mistakes(view.data, view.memory, (memory) => {
    view.memory = memory;
    fillMistakes();
  }));
  const again = () => {
    fillControls(controls, view, params, context, again);
    redraw();
  };
  const scores = { memory: null, costs: null };
  let ofResiduals = null;
  const fillFolds = () => replace(folds, everything(view.data, scores, ofResiduals, fillFolds, (memory) => {
    ofResiduals = memory;
    fillFolds();
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
      replace(head, heading(data));
      replace(cards, data.cards.map((one) => kpi(one, data)));
      const shape = JSON.stringify([data.estimators, data.segments, data.measures, data.estimator]);
      if (shape !== made) {
        made = shape;
        fillControls(controls, view, params, context, again);
      }
      replace(expectedText, beforeLabels(data));
      expectedCard.hidden = !data.before_labels.lines.length;
      replace(labels, coverage(data));
      labelCard.hidden = !labels.childElementCount;
      redraw();
      replace(below, incidents(data));
      replace(others, pairs(data));
      fillMistakes();
      fillFolds();
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
  const { status } = data;
  const { now } = data.board;
  const version = data.version === null ? null : `version ${data.version}${data.version_since ? ` since outcome ${count(data.version_since)}` : ""}`;
  const stages = data.stages.map((stage) => stageName(stage, data.same[stage]));
  const said = [
    data.outcomes === null ? null : `${counted(data.outcomes, "outcome")}${data.untimed || !data.since_start ? "" : ` since ${short(data.since_start, now)}`}`,
    data.ts === null || data.untimed ? null : `newest label of ${clock(data.ts)}`, stages.length ? `stage ${stages.join(", ")}` : null, version, data.split ? place(data.partition) : null];
  return [
    h("p", { class: "crumb" }, link("overview", {}, "Models"), " › ", link("overview", { search: data.stream }, data.stream)),
    h("h1", { tabindex: "-1" }, `${data.stream} / ${data.model}`, " ", chip(status.kind, `${status.word}${status.kind === "worse" && status.since !== null ? ` for ${since(status, now)}` : ""}`)),
    h("p", { class: "story" }, data.story),
    ["few", "waiting", "unlabelled", "silent"].includes(status.kind) ? h("p", { class: "problem" }, status.sentence) : null,
    status.next ? h("p", { class: "card next" }, h("b", {}, "Next step: "), `${status.next[0].toUpperCase()}${status.next.slice(1)}.`) : null,
    h("p", { class: "meta" }, said.filter((one) => one).map((one) => h("span", {}, one)), status.incident ? link("incident", { id: status.incident }, "the open incident") : null),
  ];
}

// A headline value: its interval, its differences, and its course.
function kpi(one, data) {
  const length = lengthOf(data);
  const course = Object.values(data.series)[0];
  const card = (name, value, unit, within, rows, line) => h("div", { class: "card kpi" },
    h("span", { class: "name" }, name), h("span", { class: "value" }, value, unit ? h("small", {}, ` ${unit}`) : null), h("span", { class: "ival" }, within), one.trust ? trust(one.trust, data) : null,
    h("dl", {}, rows.map(([what, much, worse]) => [h("dt", {}, what), h("dd", { class: worse ? "t-worse" : null }, much)])), line);
  const few = (values) => (values ?? []).filter((value, i, all) => i === all.length - 1 || i % Math.ceil(all.length / SPARK) === 0);
  const look = `line-${lookOf(data, 0)}`;
  if (one.kind === "expected") {
    const within = one.final ? "final value of the newest period" : one.interval ? `${interval(one.interval)}, before its labels` : one.no_interval;
    return card(one.final ? one.period : `Expected, ${one.period}`, number(one.value), one.name, within,
      [...(one.final ? [] : [[`of the ${percent(one.labelled)} labelled so far`, number(one.so_far)]]), ...(one.final ? [["share labelled", percent(one.labelled)]] : []), ...(one.lost_to ? [[one.lost_to, ""]] : [])], spark(few(data.period_series.values[one.name]), look));
  }
  if (one.kind === "latency") {
    return card("Label latency", length(one.value), "median", one.p90 ? `90% within ${length(one.p90)}` : "",
      [["get a label", percent(one.labelled)], ["pending", count(one.waiting)]], spark(few(data.coverage_series.values["recent_label_latency_ms.p50"] ?? data.coverage_series.values["label_latency_ms.p50"]), look));
  }
  const within = data.estimator.startsWith("window:") ? `latest ${counted(Math.round(one.n), "outcome")}` : data.estimator === "all" ? `all ${counted(Math.round(one.n), "outcome")}` : data.estimator;
  return card(one.name, number(one.value), null, one.interval ? `${interval(one.interval)}, ${within}` : within,
    one.rows.map((row) => [`${row.name} ${number(row.value)}`, signed(row.difference), row.worse]), spark(few(course?.values[one.name]), look));
}

// What a headline value rests on.
function trust(said, data) {
  const parts = [said.labelled === null || said.labelled === undefined ? null : `${percent(said.labelled)} labelled`, said.waiting === null ? null : `${count(said.waiting)} pending`,
    said.newest === null ? null : data.board.live ? `newest label ${age(Math.max(0, data.board.now - said.newest))} old` : `labels to ${short(said.newest)}`].filter((part) => part);
  return parts.length ? h("span", { class: "ival trust" }, parts.join(", ")) : null;
}

// Incidents as a table, each with its levels and its first causes.
function incidents(data) {
  if (!data.incidents.length) return null;
  const rest = data.incidents.slice(LISTED);
  return section(`Incidents: ${count(data.totals.incidents)}`,
    h("div", { class: "card" }, incidentTable(data.incidents.slice(0, LISTED), data.board.now, true),
      rest.length ? h("details", { "data-key": "earlier incidents" }, h("summary", {}, `${counted(rest.length, "earlier incident")}`), incidentTable(rest, data.board.now, true)) : null,
      partOf(data.incidents.length, data.totals.incidents, "incidents")));
}

// `own`: on its model's page, where the model's name says nothing new; `brief`: without causes and alarms.
export function incidentTable(list, now, own = false, brief = false) {
  const range = rangeOfMoves(list.map(({ before, after }) => ({ before, after })));
  const levels = [...new Set(list.map((one) => one.level))].join(", ");
  const heads = [...(own ? [] : ["model"]), "status", "began", "lasted", `${levels}: ● since, ○ before`, ...(brief ? [] : ["cause", "#alarms"])];
  return table(heads, list.map((one) => {
    const open = one.status === "open";
    const kind = one.severity < 0 ? "better" : "worse";
    const began = one.untimed ? `outcome ${count(one.outcome)}` : short(one.began, now);
    const lasted = one.untimed ? (one.ended === null ? "open" : counted(one.ended - one.outcome, "outcome")) : `${age(Math.max(0, (one.ended ?? now) - one.began))}${open ? ", open" : ""}`;
    const what = h("span", {}, one.causes.join(", "), one.segment === null ? "" : `; in ${one.segment}`);
    return [...(own ? [] : [h("span", {}, h("span", { class: "quiet" }, `${one.stream} / `), h("b", {}, one.model))]),
      chip(open ? kind : "over", open ? kind : one.status),
      link("incident", { id: one.id }, one.linked === false ? h("span", { class: "quiet" }, began) : began),
      lasted, move({ before: one.before, after: one.after }, open ? `c-${kind}` : "line-quiet", range), ...(brief ? [] : [what, count(one.alarm_count)])];
  }), { class: "wide incidents", "aria-label": "incidents" });
}

function fillControls(controls, view, params, context, again) {
  const { data } = view;
  const go = (changed) => context.go("model", { ...params, ...changed });
  replace(controls,
    h("h2", {}, "Over time"),
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
  const fillLanes = () => {
    replace(holders.lanes, wanted.length ? laneFigure({ axis, range, marks, bands: data.bands, untimed: data.untimed }) : null);
    paintAll();
  };
  const extra = coverageCharts(data, axis);
  const periods = periodChart(view);
  for (const [name, chart] of view.charts) {
    if (!wanted.includes(name) && ![...extra, ...periods].some((one) => one.title === name)) {
      chart.close();
      view.charts.delete(name);
    }
  }
  const update = (title, state, holder = holders.charts) => {
    // What was dragged over on another axis is no range of this one.
    if (!view.charts.has(title)) view.charts.set(title, createChart(holder, title, (ends) => (state.axis ?? view.axis) === view.axis && zoom(ends), holder === holders.charts ? holders.tables : null));
    view.charts.get(title).update({ axis, range, marks, bands: data.bands, references: [], ...state });
  };
  for (const { title, ...state } of periods) update(title, state, holders.expectedChart);
  wanted.forEach((name, i) => update(name, {
    lines: measureLines(data, courses, axis, name), references: references(data, name), height: HEIGHTS[Math.min(i, 1)],
    hasAxis: false, cross: (x) => crossing(holders.lanes, x), widened: () => fillLanes(),
  }));
  for (const { title, lines, format, durations } of extra) update(title, { lines, format, durations, marks: [], bands: [], height: 110 }, holders.labelCharts);
  // In the order in which measures are chosen.
  for (const name of wanted) {
    holders.charts.append(view.charts.get(name).element);
    holders.tables.append(view.charts.get(name).values);
  }
  fillLanes();
}

// What happened, in rows below the curves: incidents from their beginning to their end, alarms without an incident, versions.
export function laneFigure({ axis, range, marks, bands, untimed }) {
  const [low, high] = range;
  const at = (one) => (axis === "t" ? one.t : one.outcome);
  const shownBands = bands.map((band) => ({ ...band, ends: axis === "t" ? band.t : band.outcome })).filter(({ ends }) => (ends[1] ?? high) >= low && ends[0] <= high);
  return sized("", (width) => {
    const AXIS = gutter.width;
    const right = width - endOf(width);
    const x = (value) => AXIS + ((value - low) / (high - low || 1)) * (right - AXIS);
    let top = 0;
    const named = (text, height) => svg("text", { x: narrow(width) ? AXIS - 6 : right + 9, y: top + height / 2 + 4, "text-anchor": narrow(width) ? "end" : "start" }, text);
    const rows = [["worse", shownBands.filter((band) => !band.better)], ["better", shownBands.filter((band) => band.better)]].filter(([name, found]) => found.length || name === "worse").map(([name, found]) => {
      const one = lane(found.map((band) => ({ ...band, open: band.ends[1] === null, text: `Incident ${band.number}: ${band.name}, ${band.status}`, x: x(band.ends[0]), width: x(band.ends[1] ?? high) - x(band.ends[0]) })), AXIS, right, top);
      const row = [one.marks, named(name, one.height)];
      top += one.height + 4;
      return row;
    });
    const glyphs = [["alarm", "alarms"], ["version", "versions"]].map(([kind, name]) => {
      const found = marks.filter((mark) => mark.kind === kind && at(mark) >= low && at(mark) <= high);
      if (!found.length) return null;
      const row = [svg("rect", { class: "ground", x: AXIS, y: top, width: Math.max(0, right - AXIS), height: 11, rx: 3 }), named(name, 11),
        found.map((mark) => svg("path", { class: kind, d: `M${x(at(mark)).toFixed(1)} ${top + 2}l3.5 7h-7z` }, svg("title", {}, mark.text)))];
      top += 15;
      return row;
    });
    const ticks = ticksOf({ axis: axis === "t" ? "t" : "outcomes", untimed }, AXIS, right, top, low, high);
    return svg("svg", { width, height: top + 20, role: "img", "aria-label": `incidents: ${shownBands.length}, alarms without an incident: ${marks.filter((mark) => mark.kind === "alarm").length}` },
      rows, glyphs, ticks, svg("line", { class: "cross", opacity: 0, x1: 0, x2: 0, y1: 0, y2: top }));
  });
}

// The crosshair of the charts goes on through the lanes.
export function crossing(lanes, x) {
  const cross = lanes.querySelector(".cross");
  cross?.setAttribute("opacity", x < 0 ? 0 : 1);
  for (const end of ["x1", "x2"]) cross?.setAttribute(end, x);
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
  // The newest periods are of interest: those whose labels still arrive.
  if (!view.zoom && view.span === null && course.t.length > PERIODS) range[0] = course.t[course.t.length - PERIODS];
  return [{ title: `${name} by time of prediction`, axis, range, lines, marks: [], bands: [], height: 150, references: references(data, name) }];
}

function measureLines(data, courses, axis, name) {
  const lines = courses.filter(([, course]) => course.values[name]).map(([stage, course], place) => ({
    name: courses.length === 1 && data.same[stage]?.length ? data.model : stageName(stage, data.same[stage]), look: data.look + place, x: course[axis], y: course.values[name],
    // One band can be read, several can't.
    ...(place === 0 && course.values[`${name}.low`] ? { low: course.values[`${name}.low`], high: course.values[`${name}.high`] } : {}),
  }));
  const [, main] = courses[0] ?? [];
  for (const { measure, name: long, short, one_less: oneLess } of main ? data.baselines[name] ?? [] : []) {
    const known = main.values[measure];
    if (known) lines.push({ name: long, short, quiet: true, x: main[axis], y: oneLess ? known.map((value) => (value === null ? null : 1 - value)) : known });
  }
  return lines;
}

// A stage, and those that are the same up to now: they have no messages.
export function stageName(stage, same) {
  return same?.length ? `${stage} (same as ${same.join(", ")})` : stage;
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
    { title: "label latency", lines: of([["recent_label_latency_ms.p50", "latest, median"], ["recent_label_latency_ms.p90", "latest, 90%"], ["label_latency_ms.p50", "all, median"]]), format: lengthOf(data), durations: !data.untimed },
    { title: "predictions waiting for a label", lines: of([["waiting", "waiting"]]), format: count },
  ].filter((chart) => chart.lines.length);
}

// What its newest whole period and what waits are expected to be, where that parts from the labels, and what is assumed.
function beforeLabels(data) {
  const { lines, assumption } = data.before_labels;
  if (!lines.length) return null;
  return [h("h2", {}, "Estimated performance until labels arrive"), h("ul", {}, lines.map((text) => h("li", {}, text))), h("p", { class: "quiet" }, assumption)];
}

function pairs(data) {
  if (!data.pairs.length) return null;
  return section("Comparison with other models", h("div", { class: "card" }, (data.best_models || []).map((sentence) => h("p", {}, sentence)), pairList(data.pairs)));
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
  if (pair.provisional) return h("span", { class: "badge" }, "… too early for a verdict");
  if (pair.verdict === "equivalent") return h("span", { class: "badge mark-verdict" }, "= equivalent");
  if (pair.verdict === "undecided") return h("span", { class: "badge" }, "? undecided");
  if (pair.verdict === "by_partition") return h("span", { class: "badge" }, "? by partition");
  if (pair.contradicted) return h("span", { class: "badge mark-missed" }, "⇄ the latest outcomes say otherwise");
  return h("span", { class: "badge mark-verdict" }, "■ over the whole run");
}

function pairLink(pair) {
  const { stream, partition, model, against, stage, same, loss, segment, sentence } = pair;
  return link("pair", { stream, partition, model, against, stage, loss, segment }, `${stage}${segment ? ` ${segment}` : ""}: ${sentence}`);
}

function now(data) {
  const names = data.measures;
  if (!data.now.length) return null;
  const cell = (one, name) => (one.intervals[name] ? h("span", { title: `95% interval, for one look: ${interval(one.intervals[name])}` }, number(one.values[name])) : number(one.values[name]));
  // A row for each measure, and a table for each few columns: nothing is cut, however many measures there are.
  const parts = data.now.flatMap((one, i) => (i % COLUMNS ? [] : [data.now.slice(i, i + COLUMNS)]));
  const tables = parts.map((part) => table(["measure", ...part.map((one) => `#${one.stage.replace(/ \(.*/, "")}, ${one.estimator}`)],
    [["n", ...part.map((one) => count(one.n))], ["outcomes", ...part.map((one) => count(one.outcomes))], ...names.map((name) => [name, ...part.map((one) => cell(one, name))])], { "aria-label": "stages and estimators", class: "cards" }));
  const undefined_ = Object.entries(Object.values(data.undefined)[0] ?? {});
  return section("Stages and estimators, latest values",
    tables,
    undefined_.length ? h("p", { class: "quiet" }, `Without a value: ${undefined_.map(([name, reason]) => `${name} (${reason})`).join(", ")}`) : null);
}

// The first outcomes next to later ones; a difference larger than chance explains is marked.
function besideReference(data) {
  if (!data.reference_rows.length) return null;
  const first = data.reference_rows[0].outcomes;
  return section(`Compared with the first ${count(first)} outcomes`,
    table(["estimator", "measure", "#then", "#latest", "#difference", "#95% interval", ""], data.reference_rows.map((one) => [one.estimator, one.measure, number(one.reference), number(one.now), number(one.difference), interval(one.interval), one.differs ? "◆ differs" : ""]), { "aria-label": "compared with the reference", class: "cards" }),
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
  return [h("h2", {}, "Labels of its predictions"),
    h("ul", {}, lines.map((text) => h("li", {}, text))),
    shares.length || latency.length ? h("details", { "data-key": "label maturity" }, h("summary", {}, "Label maturity and latency"),
    shares.length ? table(["label came within", "#share of predictions"], shares.map(([within, share]) => [within, percent(share)]), { "aria-label": "label maturity", class: "cards" }) : null,
    latency.length ? table(["label latency", "#p50", "#p90", "#p99"], latency.map((name) => [name === "label_latency_ms" ? "all labels" : "latest labels", ...["p50", "p90", "p99"].map((q) => (said[name][q] === undefined ? "–" : lengthOf(data)(said[name][q])))]), { "aria-label": "label latency", class: "cards" }) : null) : null];
}

// Everything else, folded; each fold shows its key value.
function everything(data, scores, ofResiduals, again, choose) {
  const fold = (name, key, content) => (content ? h("details", { class: "fold", "data-key": `fold ${name}` }, h("summary", {}, name, " ", h("span", { class: "quiet" }, key)), h("div", {}, content)) : null);
  const [first] = Object.values(data.probabilities);
  const main = data.measures.find((name) => data.segment_rows.some((row) => row.values[name] !== undefined));
  const some = data.segment_rows.slice(0, 3).map((row) => `${row.segment} ${number(row.values[main])}`).join(", ");
  const differs = data.reference_rows.filter((one) => one.differs);
  const counted_ = Object.entries(data.counts).filter(([, value]) => value);
  const found = [
    fold("Probabilities and thresholds", first ? `ECE of the positive class ${number(first.ece)}` : "", probabilities(data, scores, again)),
    fold("Predicted and actual values", "by decile of the prediction", residuals(data, ofResiduals, choose)),
    fold("Segments", `${main}: ${some}${data.totals.segments > 3 ? `, … 3 of ${count(data.totals.segments)}` : ""}`, segments(data)),
    fold("Stages and estimators", `${[...new Set(data.now.map((one) => `${one.stage.replace(/ \(.*/, "")}: ${one.estimator}`))].slice(0, 4).join(", ")}; ${counted(data.measures.length, "measure")}`, now(data)),
    fold("Comparison with the reference", `${counted(differs.length, "measure")} of ${count(data.reference_rows.length)} differ${differs.length === 1 ? "s" : ""}`, besideReference(data)),
    fold("Alarms without an incident", data.alarms.length ? `${count(data.totals.alarms)}, the newest ${data.alarms[0].ts === null ? `at outcome ${count(data.alarms[0].outcome)}` : short(data.alarms[0].ts, data.board.now)}` : "", alarms(data)),
    fold("Counts", counted_.length ? counted_.map(([name, value]) => `${name} ${count(value)}`).join(" · ") : "nothing late, duplicate or unmatched", counts(data)),
  ].filter((one) => one);
  return found.length ? h("section", {}, h("h2", {}, "More"), found) : null;
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

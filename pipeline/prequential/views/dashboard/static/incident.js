// One incident: the finding, four facts, its course, its causes, who else changed; and the list of all.

import { chip, h, link, partOf, replace, svg, table } from "./dom.js";
import { age, clock, count, counted, number, percent, short, words } from "./format.js";
import { createChart } from "./chart.js";
import { alarmTable, crossing, incidentTable, laneFigure, rangeOf } from "./model.js";
import { createMarking } from "./marking.js";
import { move, paintAll, rangeOfMoves } from "./small.js";

// What a cause says, in words.
const CAUSES = {
  class_ratio: "The classes have other shares than before.",
  concept: "The loss changed within the same classes, segments and versions. Outcomes don't say whether inputs, labels or the model itself changed.",
  persistence: "Labels repeat each other more or less than before.",
  coverage: "Another share of predictions gets labels.",
  label_latency: "Labels take longer or shorter than before.",
  selection: "The predictions with labels differ from those before.",
  segment: "One segment changed more than the others.",
  class: "One class changed more than the others.",
  inputs: "Other inputs arrive, harder ones where predictions have probabilities.",
  not_clear: "No cause stands out.",
};

// Incidents of a model without which their record says little, and incidents and records that are listed.
const LEAST_GRADED = 5;
const LISTED = 10;

// Ended incidents that the list of all shows; earlier ones are behind a line.
const ENDED = globalThis.innerWidth < 600 ? 8 : 20;

export function incidentPage(root, params, context) {
  const head = h("div");
  const charts = h("div", { class: "charts" });
  const lanes = h("div", { class: "lanes" });
  const tables = h("div", { class: "values" });
  const plot = h("section", { class: "card" }, charts, lanes, tables);
  const rest = h("div");
  const marking = createMarking();
  root.append(head, marking.element, plot, rest);
  let chart = null;
  let data = null;
  let zoomed = null;
  const draw = () => {
    const course = data?.series[data.stage];
    plot.hidden = !course || !data.measure || !course.t.length;
    if (plot.hidden) return;
    const axis = !data.untimed && course.t[course.t.length - 1] > course.t[0] ? "t" : "outcomes";
    chart ??= createChart(charts, `${data.measure}, ${data.stage}, ${data.estimator}`, (ends) => {
      zoomed = ends;
      draw();
    }, tables);
    const marks = data.alarms.map((one) => ({ kind: "alarm", t: one.ts, outcome: one.outcome, text: `${one.detector} on ${one.signal}` }));
    const { bands } = data;
    const whole = rangeOf([course], [], axis, null);
    const range = zoomed ?? around(data, axis, whole);
    const fillLanes = () => {
      replace(lanes, laneFigure({ axis, range, marks, bands, untimed: data.untimed }));
      paintAll();
    };
    chart.update({
      widened: () => fillLanes(),
      axis, range, marks: [], bands, references: [], height: 230, hasAxis: false,
      lines: [{ name: data.measure, x: course[axis], y: course.values[data.measure] }, ...levelLines(data, axis, range)],
      cross: (x) => crossing(lanes, x),
    });
    fillLanes();
  };
  return {
    title: "Incident",
    query: params,
    redraw() {
      if (chart) chart.element.dataset.redraw = Date.now();
      draw();
    },
    take(next) {
      data = next;
      replace(head, heading(data), facts(data));
      marking.take(data);
      draw();
      replace(rest, h("div", { class: "cols" },
        h("div", { class: "pile" }, places(data), causes(data), records(data)),
        h("div", { class: "pile" }, others(data), noise(data))),
      h("p", { class: "meta" }, h("span", {}, "id ", h("code", {}, data.id)), h("span", {}, `revision ${data.revision}`), h("span", {}, `stage ${data.stage}`), h("span", {}, data.scale)));
    },
    close() {
      chart?.close();
    },
  };
}

const placeOf = (one, axis) => (axis === "t" ? one.ts : one.outcome);

// The part of the course around the change: as long before it as since, three times what it took to be noticed at least.
function around(data, axis, [low, high]) {
  const began = placeOf(data.change_point, axis);
  const ended = data.recovered ? placeOf(data.recovered, axis) : data.ended ?? high;
  const end = axis === "t" || data.untimed ? ended : data.recovered ? ended : high;
  const span = Math.max(3 * (placeOf(data.opened, axis) - began), Math.min(high, end) - began, (high - low) / 40);
  return [Math.max(low, began - span), Math.max(low + 1, Math.min(high, end + span / 2))];
}

// The levels before and since, where the measure has them.
function levelLines(data, axis, [low, high]) {
  if (data.level !== data.measure || data.before === null || data.after === null) return [];
  const began = placeOf(data.change_point, axis);
  const end = data.recovered ? placeOf(data.recovered, axis) : high;
  return [
    { name: "before", level: true, quiet: true, x: [low, began], y: [data.before, data.before] },
    { name: "since", level: true, tone: data.severity < 0 ? "--better" : "--worse", x: [began, end], y: [data.after, data.after] },
  ];
}

function heading(data) {
  const { now } = data.board;
  const open = data.status === "open";
  const lasted = data.untimed || !open ? data.status : data.board.live ? `open for ${age(Math.max(0, now - data.began))}` : "open at the end";
  return [
    h("p", { class: "crumb" }, link("incidents", {}, "Incidents"), " › ", link("model", { stream: data.stream, model: data.model, partition: data.partition }, `${data.stream} / ${data.model}`)),
    h("h1", { tabindex: "-1" }, data.finding, " ", chip(open ? (data.severity < 0 ? "better" : "worse") : "over", lasted)),
    h("p", { class: "story" }, data.sentence, data.where ? ` ${data.where}` : null),
    nextStep(data),
    grade(data),
  ];
}

// Whether it has lasted: by its grade, or by the outcomes after it was noticed. A level that is back says it itself.
function grade(data) {
  const graded = data.graded ?? { incidents: 0, lasting: 0 };
  const own = data.levels.is_back ? null
    : data.grade === "possible" ? "Possible: it has not lasted longer than usual ups and downs. "
      : data.grade === "lasting" ? "Lasting: it has outlasted the usual ups and downs. " : null;
  const record = graded.incidents < LEAST_GRADED ? null : `So far, ${graded.lasting} of ${graded.incidents} incidents of this model lasted.`;
  return own || record ? h("p", { class: "meta" }, own, record ?? "") : null;
}

// What to do, with where it is written.
function nextStep(data) {
  if (data.status !== "open") return null;
  return h("p", { class: "card next" }, h("b", {}, "Next step: "), `${data.next[0].toUpperCase()}${data.next.slice(1)}.`, " ",
    h("span", { class: "quiet" }, "Runbook: ", h("code", {}, "docs/do/respond-to-incident.md"), ". As text: ", h("code", {}, `prequential explain ${data.id.slice(0, 8)}`)));
}

function facts(data) {
  const { now } = data.board;
  const [point, opened] = [data.change_point, data.opened];
  const fact = (name, big, ...more) => h("div", {}, h("dt", {}, name), h("dd", { class: "big" }, big), more.filter((one) => one).map((one) => h("dd", {}, one)));
  const share = data.level === "accuracy";
  const value = (one) => (one === null || one === undefined ? "–" : share ? percent(one) : number(one));
  const { before, since, worst, latest } = data.levels;
  const as = data.levels.latest_ts === null ? "latest" : `newest days, up to ${short(data.levels.latest_ts, now)},`;
  const course = [["before", before], ["since", since], ["at worst", worst], [as, latest]].filter(([, one]) => one !== null && one !== undefined);
  const curve = data.status === "open" && data.level === data.measure ? data.series[data.stage]?.values[data.measure]?.slice(-1)[0] : null;
  if (curve !== null && curve !== undefined && data.levels.latest_ts !== null) course.push([`latest of ${data.estimator}`, curve]);
  const later = opened.outcome - point.outcome;
  const together = [...new Set(data.others_changed.map((one) => one.model))];
  return h("dl", { class: "card facts" },
    fact("Since when", data.untimed ? `outcome ${count(point.outcome)}` : short(point.ts, now), data.untimed ? null : `outcome ${count(point.outcome)}${point.prediction_ts ? `; its prediction was made ${short(point.prediction_ts, now)}` : ""}`,
      data.recovered ? `It ended at ${data.untimed ? `outcome ${count(data.recovered.outcome)}` : short(data.recovered.ts, now)}.` : null),
    fact("Noticed", data.untimed ? `${counted(later, "outcome")} later` : `${age(Math.max(0, opened.ts - point.ts))} later`, data.untimed ? null : `${short(opened.ts, now)}, after ${counted(later, "outcome")}`, data.alarms.length ? `${data.alarms[data.alarms.length - 1].detector} on ${data.alarms[data.alarms.length - 1].signal}` : null),
    fact("How bad", since === null ? "–" : `${value(since)} ${data.level}`, course.map(([name, one]) => `${name} ${value(one)}`).join(", "), data.size,
      `${data.outcomes.map((n) => (n === null ? "–" : count(n))).join(" outcomes before, ")} since`),
    fact("Who", together.length ? counted(together.length + 1, "model") : "this model alone", data.segment === null ? null : `in ${data.segment}`, together.length ? `also ${together.slice(0, 3).join(", ")}` : null, data.others_unchanged.length ? `not ${data.others_unchanged.slice(0, 3).join(", ")}` : null));
}

function card(title, note, ...content) {
  return h("section", { class: "card" }, h("h2", {}, title, " ", note ? h("span", { class: "quiet" }, note) : null), content);
}

// Each segment and class before and since, the one that became worst first.
function places(data) {
  if (!data.parts.length) return null;
  const share = data.level === "accuracy";
  const shown = (value) => (value === null ? "–" : share ? percent(value) : number(value));
  const range = rangeOfMoves(data.parts.map((one) => ({ before: one.before, after: one.since })));
  return card("Where", `${share ? "share right" : data.level} of each segment and class, worst first`,
    table(["", "", "#before", "#since"], data.parts.map((one) => [`${one.kind === "class" ? "class " : ""}${one.name}`, one.before === null ? "" : move({ before: one.before, after: one.since }, "line-quiet", range), shown(one.before), shown(one.since)]), { "aria-label": "where", class: "wide" }));
}

function causes(data) {
  if (!data.causes.length) return card("Causes", null, h("p", {}, "No cause is known yet."));
  const ratio = data.at_former_class_ratio;
  return card("Causes", "shares of the change in loss",
    h("div", { class: "causes" }, data.causes.map((one) => h("div", { class: "cause" },
      h("div", { class: "share" }, one.percent),
      h("div", {}, h("b", {}, one.words),
        svg("svg", { "aria-hidden": "true" }, svg("rect", { width: `${Math.max(0, Math.min(100, 100 * (one.share ?? 0)))}%`, height: 4 })),
        one.evidence ? h("p", {}, one.evidence) : null, CAUSES[one.cause] ? h("p", { class: "quiet" }, CAUSES[one.cause]) : null)))),
    ratio === null ? null : h("p", { class: "quiet" }, `At the earlier class distribution the ${data.level} would be ${number(ratio)}.`));
}

// The first question at night: is it this model, or the stream?
function others(data) {
  const own = { before: data.before, after: data.after, before_interval: data.before_interval, after_interval: data.after_interval };
  const share = data.level === "accuracy";
  const rows = [
    [h("b", {}, data.model), own, data.severity < 0 ? "c-better" : "c-worse"],
    ...data.others_changed.filter((one, i, all) => all.findIndex((other) => other.model === one.model) === i).map((one) => [link("incident", { id: one.id }, one.model), { before: one.before, after: one.after }, "line-quiet"]),
    ...(share ? Object.entries(data.baselines).map(([name, one]) => [h("span", { class: "quiet" }, `${words(name)} baseline`), { before: one?.before ?? null, after: one?.after ?? null }, "line-quiet"]) : []),
  ];
  const range = rangeOfMoves(rows.map(([, one]) => one));
  const shown = (value) => (value === null || value === undefined ? "–" : share ? percent(value) : number(value));
  const same = data.others_unchanged;
  return card("Other models and baselines", `${share ? "share right" : data.level} before and since`,
    table(["model", "", "#before", "#since"], rows.map(([name, one, kind]) => [name, move({ before: one.before, after: one.after, before_interval: one.before_interval, after_interval: one.after_interval }, kind, range) ?? "", shown(one.before), shown(one.after)]), { "aria-label": "who changed", class: "wide" }),
    h("p", { class: "quiet" }, same.length ? `Unchanged at that time: ${same.slice(0, LISTED).join(", ")}.` : data.others_changed.length ? null : "No other model of the stream is known."),
    same.length > LISTED ? partOf(LISTED, same.length, "unchanged models") : null);
}

function noise(data) {
  const earlier = data.incidents_before;
  return card("Is it noise?", null,
    h("p", {}, `${data.noisy} This incident has ${counted(data.alarm_count, "alarm")}.`),
    data.noise.length ? table(["detector", "signal", "stage", "#alarms before"], data.noise.map((one) => [one.detector, one.signal, one.stage, count(one.count)]), { "aria-label": "alarms before", class: "cards" }) : null,
    h("h3", {}, earlier.length ? `Earlier incidents of this model: ${count(data.incidents_before_total)}` : "This model has no earlier incident."),
    earlier.length ? incidentTable(earlier.slice(0, LISTED), data.board.now, true, true) : null,
    partOf(Math.min(LISTED, earlier.length), data.incidents_before_total, "earlier incidents"));
}

function records(data) {
  const ids = data.examples.map((one) => (typeof one === "object" && one !== null ? JSON.stringify(one) : String(one)));
  return card("Records to inspect", ids.length ? "wrong predictions, the first after the change point" : null,
    ids.length ? h("ul", { class: "ids" }, ids.map((id) => h("li", {}, h("code", {}, id)))) : h("p", {}, "The message has no examples."),
    data.alarms.length ? h("details", { "data-key": "alarms" }, h("summary", {}, `${counted(data.alarm_count, "alarm")} of this incident`), alarmTable(data.alarms), partOf(data.alarms.length, data.alarm_count, "alarms")) : null);
}

export function incidentsPage(root, params) {
  const body = h("div");
  const title = h("h1", { tabindex: "-1" }, "Incidents");
  root.append(title, body);
  return {
    title: "Incidents",
    query: params,
    take(data) {
      const { now, untimed } = data.board;
      const open = data.incidents.filter((one) => one.status === "open");
      const over = data.incidents.filter((one) => one.status !== "open");
      title.textContent = open.length ? `${counted(data.board.incidents_open, "incident")} ${open.length === 1 ? "is" : "are"} open` : "No incident is open";
      if (!data.incidents.length) {
        replace(body, h("p", {}, "No incident was seen."));
        return;
      }
      const times = data.incidents.map((one) => (untimed ? one.outcome : one.began));
      const range = [Math.min(...times), untimed ? Math.max(...data.incidents.map((one) => one.ended ?? one.outcome)) : Math.max(now, ...times)];
      const axis = untimed ? "outcomes" : "t";
      const bands = data.incidents.map((one) => ({ id: one.id, number: "", name: `${one.stream} / ${one.model}`, status: one.status, better: one.severity < 0, [untimed ? "outcome" : "t"]: [untimed ? one.outcome : one.began, one.ended] }));
      const list = (heading_, found) => (found.length ? h("section", {}, h("h2", {}, heading_), h("div", { class: "card" }, incidentTable(found, now))) : null);
      replace(body,
        h("p", { class: "meta" }, h("span", {}, counted(data.total, "incident")), data.board.untimed ? null : h("span", {}, `since ${clock(Math.min(...times))}`)),
        h("section", { class: "card lanes" }, laneFigure({ axis, range, marks: [], bands, untimed })),
        list("Open, the worst first", open), list("Ended, the newest first", over.slice(0, ENDED)),
        over.length > ENDED ? h("details", { class: "fold", "data-key": "earlier" }, h("summary", {}, `Earlier: ${count(over.length - ENDED)}`), h("div", {}, incidentTable(over.slice(ENDED), now))) : null,
        partOf(data.incidents.length, data.total, "incidents"));
    },
    close() {},
  };
}

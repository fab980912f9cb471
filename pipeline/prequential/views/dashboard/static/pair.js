// Two models: the difference of their losses over time, with the verdict about the whole run and what the latest outcomes say.

import { h, link, replace, section, table } from "./dom.js";
import { forest, paintAll } from "./small.js";
import { clock, count, duration, inRows, interval, number, percent } from "./format.js";
import { createChart } from "./chart.js";
import { crossing, laneFigure, pairList, rangeOf, stageName } from "./model.js";

const WHOLE = "all";

// Letters of a name in a heading.
const LONGEST = 16;

export function pairPage(root, params, context) {
  const head = h("div");
  const charts = h("div", { class: "charts" });
  const decision = h("div");
  const below = h("div");
  const lanes = h("div", { class: "lanes" });
  const tables = h("div", { class: "values" });
  root.append(head, h("section", {}, h("h2", {}, "Difference of losses over time"), h("div", { class: "card" }, charts, lanes, tables)), decision, below);
  let chart = null;
  let data = null;
  let zoomed = null;
  const draw = () => {
    if (!data) return;
    const axis = !data.untimed && Object.values(data.series).some((course) => course.t.length > 1 && course.t[course.t.length - 1] > course.t[0]) ? "t" : "outcomes";
    const courses = Object.entries(data.series);
    // Up is better for the challenger.
    const { better, sign } = sideOf(data);
    const signed_ = (values) => values?.map((value) => (value === null ? null : sign * value));
    // The interval is about all history, so it stands with the difference over all history.
    courses.sort(([a], [b]) => (b === WHOLE) - (a === WHOLE) || (a < b ? -1 : 1));
    const marks = [...data.marks, ...verdictMark(courses, data)];
    const lines = courses.map(([estimator, course], place) => ({
      name: estimator === WHOLE ? "all history" : estimator, short: estimator, x: course[axis], y: signed_(course.values.difference) ?? course.t.map(() => null),
      ...(place === 0 && course.values.low ? { low: signed_(sign > 0 ? course.values.low : course.values.high), high: signed_(sign > 0 ? course.values.high : course.values.low) } : {}),
    }));
    chart ??= createChart(charts, "difference of losses", (ends) => {
      zoomed = ends;
      draw();
    }, tables);
    const range = zoomed ?? rangeOf(courses.map(([, course]) => course), marks, axis, null);
    const fillLanes = () => {
      replace(lanes, laneFigure({ axis, range, marks, bands: data.bands, untimed: data.untimed }));
      paintAll();
    };
    chart.update({
      widened: () => fillLanes(),
      axis, range, lines, marks, bands: data.bands, height: 240, hasAxis: false, cross: (x) => crossing(lanes, x),
      references: [{ y: 0, text: `above 0: ${better} is better`, short: "no difference" }],
    });
    fillLanes();
  };
  return {
    title: `${params.model} and ${params.against}`,
    query: params,
    redraw() {
      if (chart) chart.element.dataset.redraw = Date.now();
      draw();
    },
    take(next) {
      data = next;
      replace(head, heading(data));
      draw();
      replace(decision, h("div", { class: "cols" },
        h("div", { class: "pile" }, gate(data), labels(data), expected(data)),
        h("div", { class: "pile" }, standings("By segment", "segment", data.segments, data), standings("By other losses", "loss", data.losses, data), sides(data))));
      replace(below, others(data));
    },
    close() {
      chart?.close();
    },
  };
}

// On the axis of outcomes exactly there; on that of time at the first point from there on.
function verdictMark(courses, data) {
  const [, course] = courses[0] ?? [];
  if (!data.since || !course) return [];
  const place = course.outcomes.findIndex((outcome) => outcome >= data.since);
  return place < 0 ? [] : [{ kind: "verdict", t: course.t[place], outcome: data.since, text: `verdict: ${data.verdict.replace("_", " ")}` }];
}

// The model in whose favour the plots point: the challenger, or the second of the two.
function sideOf(data) {
  const better = data.question?.challenger ?? data.against;
  return { better, worse: better === data.against ? data.model : data.against, sign: better === data.against ? 1 : -1 };
}

function heading(data) {
  const model = (name) => link("model", { stream: data.stream, model: name, partition: data.partition }, name);
  const asked = data.question;
  const said = [`stage ${stageName(data.stage, data.same)}`, data.segment ? `segment ${data.segment}` : null, `loss ${data.loss}`, data.untimed ? null : `newest label of ${clock(data.ts)}`];
  return [
    h("p", { class: "crumb" }, link("overview", {}, "Models"), " › ", link("overview", { search: data.stream }, data.stream), " › ", model(data.model), " and ", model(data.against)),
    h("h1", { tabindex: "-1" }, asked ? `Can ${asked.challenger} replace ${asked.champion} on ${data.stream}?` : `${data.model} and ${data.against} on ${data.stream}`),
    asked ? h("div", { class: `card answer ${asked.is_sure ? { Yes: "yes", No: "no" }[asked.answer] ?? "notyet" : "notyet"}` }, h("span", { class: "say" }, asked.answer, asked.basis ? h("small", { class: "basis" }, ` ${asked.basis}`) : null), h("p", {}, asked.reason)) : h("p", { class: "story" }, data.sentence),
    data.agreement ? h("p", { class: "story" }, h("b", {}, "Without labels. "), `${data.agreement[0].toUpperCase()}${data.agreement.slice(1)}.`) : null,
    data.thresholds ? h("p", { class: "card next" }, h("b", {}, "Different thresholds. "), data.thresholds) : null,
    h("p", { class: "meta" }, said.filter((one) => one).map((one) => h("span", {}, one))),
    horizons(data),
  ];
}

// How far back one looks decides what one sees: the whole run, since the latest change, the latest outcomes.
function horizons(data) {
  const { better, worse, sign } = sideOf(data);
  const name = (verdict) => ({ a_better: data.model, b_better: data.against })[verdict];
  const ahead = (difference) => (difference === null || difference === undefined ? "–" : difference === 0 ? "neither" : difference > 0 ? data.against : data.model);
  const valid = data.level === null ? "–" : `any number of looks, ${Number((100 * (1 - data.level)).toPrecision(4))}%`;
  const whole = { what: `all ${count(data.outcomes)} outcomes`, by: data.difference, interval: data.interval, ahead: ahead(data.difference), holds: valid,
    says: data.whole_verdict };
  const { recent, latest } = data;
  const since = { what: "since the latest change", by: recent ? data.since_then : null, interval: null, ahead: name(recent?.verdict) ?? "–", holds: valid, says: recent ? `${name(recent.verdict)} is better, since about outcome ${count(recent.since)}` : data.provisional ? "too early" : "undecided" };
  const window = latest ? { what: latest.estimator.startsWith("window:") ? `latest ${count(latest.n)} outcomes` : latest.estimator, by: latest.difference, interval: null, ahead: ahead(latest.difference), holds: "one look: no proof",
    says: data.contradicted ? `⇄ not the model that is better over the whole run` : latest.difference === 0 ? "no difference" : `${ahead(latest.difference)} is ahead` } : null;
  const rows = [whole, since, window].filter((one) => one);
  const reach = Math.max(...rows.flatMap((one) => [one.by, ...(one.interval ?? [])]).filter((value) => typeof value === "number").map(Math.abs), 1e-9);
  const turned = (ends) => ends && [sign * ends[0], sign * ends[1]].sort((a, b) => a - b);
  return h("section", {}, h("h2", {}, "Certainty, by how far back", " ", h("span", { class: "quiet" }, "difference of the mean loss, with its interval. It assumes that outcomes depend on each other over less than a sixth of the run.")),
    h("div", { class: "card" }, table(["outcomes", "ahead", "#by", `← ${brief(worse)} · ${brief(better)} →`, "holds for", "verdict"], rows.map((one) => [
      h("b", {}, one.what), one.ahead, h("span", {}, one.by === null || one.by === undefined ? "–" : number(Math.abs(one.by)), one.interval ? h("span", { class: "quiet" }, ` (${interval(one.by < 0 ? [-one.interval[1], -one.interval[0]] : one.interval)})`) : null),
      one.by === null || one.by === undefined ? "" : forest(sign * one.by, turned(one.interval), reach, one.interval ? "line-1" : "line-quiet"), one.holds, one.says]), { "aria-label": "certainty", class: "wide" })));
}

// A name as a heading of a column can have it.
function brief(name) {
  return name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name;
}

// The conditions of `report --promote`, in its words; the other way round in one line.
function gate(data) {
  const asked = data.question;
  const one = data.promotions.find((each) => each.model === asked?.challenger);
  if (!one) return null;
  const failed = one.answers.filter((answer) => answer.failed).length;
  const other = data.promotions.find((each) => each !== one);
  return h("section", { class: "card" }, h("h2", {}, "Conditions of the deployment gate", " ", h("span", { class: "quiet" }, failed ? `${failed} of ${one.answers.length} against` : "none against")),
    h("ul", { class: "plain" }, one.answers.map((answer, i) => h("li", {}, h("b", { class: answer.failed ? "t-worse" : "t-better" }, answer.failed ? "✗ " : i ? "· " : "✓ "), answer.sentence))),
    h("code", { class: "cmd" }, `prequential report --promote ${one.model} --champion ${one.champion}`),
    other ? h("p", { class: "quiet" }, `The other way round: ${other.model} ${other.allowed ? "can" : "cannot"} replace ${other.champion}.`) : null);
}

function standings(title, field, rows, data) {
  if (!rows.length) return null;
  const { better, sign } = sideOf(data);
  const reach = Math.max(...rows.flatMap((row) => [row.difference ?? 0, ...(row.interval ?? [])]).map(Math.abs), 1e-9);
  const turned = (ends) => ends && [sign * ends[0], sign * ends[1]].sort((a, b) => a - b);
  return card(title, `right of the line ${better} is better`, table([field, "", "better by recent outcomes", "better over the whole run", "#difference", "#interval", "#outcomes of both"],
    rows.map((row) => [
      link("pair", { stream: row.stream, model: row.model, against: row.against, partition: row.partition, stage: row.stage, loss: row.loss, segment: row.segment }, row[field]),
      forest(row.difference === null ? null : sign * row.difference, turned(row.interval), reach) ?? "", row.now ?? "not proven", row.whole ?? "not proven", number(row.difference), interval(row.interval), count(row.outcomes)]),
    { "aria-label": title, class: "wide" }));
}

function card(title, note, ...content) {
  return h("section", { class: "card" }, h("h2", {}, title, " ", note ? h("span", { class: "quiet" }, note) : null), content);
}

// Measures of both, those of probabilities separately; the better value is bold.
function sides(data) {
  const columns = data.models.flatMap((one) => [[one, one.latest], [one, one.whole]].filter(([, side]) => side));
  const heads = columns.map(([one, side]) => `#${brief(one.model)}, ${side.estimator}`);
  // Models are compared within the same kind of memory.
  const best = (name, kind) => {
    const values = data.models.map((one) => one[kind]?.values[name]);
    if (values.some((value) => value === undefined) || values.length < 2 || values[0] === values[1] || data.not_quality.includes(name)) return null;
    return data.less_is_better.includes(name) ? Math.min(...values) : Math.max(...values);
  };
  const cell = (name, one, side) => {
    const value = side.values[name];
    return value !== undefined && value === best(name, side === one.latest ? "latest" : "whole") ? h("b", {}, number(value)) : number(value);
  };
  const rows = (names) => names.map((name) => [name, ...columns.map(([one, side]) => cell(name, one, side))]);
  const known = [...new Set(columns.flatMap(([, side]) => Object.keys(side.values)))];
  const of = (title, names) => (names.length ? card(title, "bold: the better one", table(["measure", ...heads], rows(names), { "aria-label": title, class: "cards" })) : null);
  return [of("Measures of both", known.filter((name) => !data.calibration.includes(name))), of("Calibration", known.filter((name) => data.calibration.includes(name)))];
}

// What became of their predictions, and what isn't known yet.
function labels(data) {
  const length = data.untimed ? inRows : duration;
  const known = data.models.filter((one) => Object.keys(one.coverage).length || one.silent);
  if (!known.length) return null;
  const of = (one) => {
    const { coverage } = one;
    return [one.model, count(coverage.waiting), coverage.waiting ? length(coverage.oldest_waiting_ms ?? 0) : "–", percent(coverage.labelled?.horizon),
      coverage.label_latency_ms?.p50 === undefined ? "–" : length(coverage.label_latency_ms.p50), ...(data.models.some((other) => other.silent) ? [one.silent ? `no new outcomes since ${clock(one.silent.since)}; ${one.silent.why}` : ""] : [])];
  };
  return card("Labels of both, and pending predictions", null,
    table(["model", "#pending predictions", "#oldest for", "#get a label", "#label latency, median", ...(data.models.some((one) => one.silent) ? ["silent"] : [])], known.map(of), { "aria-label": "labels of both", class: "cards" }));
}

function expected(data) {
  const lines = data.models.flatMap((one) => one.expected.map((text) => h("li", {}, h("b", {}, one.model), `: ${text}`)));
  return lines.length ? card("Estimated performance", null, h("ul", {}, lines)) : null;
}

function others(data) {
  return data.others.length ? section("Other comparisons of these models", pairList(data.others)) : null;
}

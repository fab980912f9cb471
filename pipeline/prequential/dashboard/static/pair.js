// Two models: the difference of their losses over time, with the verdict about the whole run and what the latest outcomes say.

import { h, link, replace, section, table } from "./dom.js";
import { clock, count, duration, inRows, interval, number, percent } from "./format.js";
import { createChart } from "./chart.js";
import { pairList, rangeOf } from "./model.js";

const WHOLE = "all";

export function pairPage(root, params, context) {
  const head = h("div");
  const charts = h("div", { class: "charts wide" });
  const decision = h("div");
  const below = h("div");
  root.append(head, decision, charts, below);
  let chart = null;
  let data = null;
  let zoomed = null;
  const draw = () => {
    if (!data) return;
    const axis = !data.untimed && Object.values(data.series).some((course) => course.t.length > 1 && course.t[course.t.length - 1] > course.t[0]) ? "t" : "outcomes";
    const courses = Object.entries(data.series);
    // The interval is about all history, so it stands with the difference over all history.
    courses.sort(([a], [b]) => (b === WHOLE) - (a === WHOLE) || (a < b ? -1 : 1));
    const marks = [...data.marks, ...verdictMark(courses, data)];
    const lines = courses.map(([estimator, course], place) => ({
      name: estimator === WHOLE ? "all history" : estimator, short: estimator, x: course[axis], y: course.values.difference ?? course.t.map(() => null),
      ...(place === 0 && course.values.low ? { low: course.values.low, high: course.values.high } : {}),
    }));
    chart ??= createChart(charts, "difference of losses", (ends) => {
      zoomed = ends;
      draw();
    });
    chart.update({
      axis, range: zoomed ?? rangeOf(courses.map(([, course]) => course), marks, axis, null), lines, marks, bands: data.bands,
      references: [{ y: 0, text: `above 0: ${data.against} is better` }],
    });
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
      replace(decision, data.promotions.map(promotion));
      replace(below, standings("By segment", "segment", data.segments), standings("By other losses", "loss", data.losses), sides(data), labels(data), expected(data), others(data));
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

function heading(data) {
  const model = (name) => link("model", { stream: data.stream, model: name, partition: data.partition }, name);
  const better = { a_better: data.model, b_better: data.against }[data.verdict];
  const open = data.verdict === "by_partition" ? "each partition has its own verdict" : "undecided over the whole run";
  const of = better ? `${better} is better over the whole run` : open;
  const whole = h("p", { class: "verdict" }, h("b", {}, `${better ? "■" : "?"} ${of}`), data.since ? `, since outcome ${count(data.since)} of ${count(data.outcomes)}` : `, after ${count(data.outcomes)} outcomes of both`);
  return [
    h("h1", { tabindex: "-1" }, `${data.model} and ${data.against} on ${data.stream}`),
    data.contradicted ? [recent(data), latest(data), whole] : [whole, recent(data), latest(data)],
    h("p", { class: "quiet" }, "Models ", model(data.model), " and ", model(data.against), ` · stage ${[data.stage, ...data.same].join(" = ")}${data.segment ? ` · segment ${data.segment}` : ""} · loss ${data.loss} · difference ${number(data.difference)}, interval ${interval(data.interval)}, ${Number((100 * (1 - data.level)).toPrecision(3))}% for any number of looks, as long as outcomes depend on each other over less than a sixth of the run${data.untimed ? "" : ` · newest label of ${clock(data.ts)}`}`),
  ];
}

// Who is better now, by the verdict that forgets what was before the latest change.
function recent(data) {
  if (!data.recent) return null;
  return h("p", { class: "verdict" }, h("b", {}, `■ Now: ${data.recent.verdict === "a_better" ? data.model : data.against} is better`), `, since about outcome ${count(data.recent.since)}`);
}

// Who is better in the latest outcomes, and by how much.
function latest(data) {
  if (!data.latest) return null;
  const { estimator, n, difference } = data.latest;
  const where = estimator.startsWith("window:") ? `In the latest ${count(n)} outcomes` : `Lately (${estimator})`;
  const who = difference === 0 ? "there is no difference" : `${difference > 0 ? data.against : data.model} is better, by ${number(Math.abs(difference))}`;
  return h("p", { class: data.contradicted ? "verdict mark-missed" : null }, h("b", {}, `${data.contradicted ? "⇄ " : ""}${where} ${who}`), data.contradicted ? ": not the model that is better over the whole run" : null);
}

// What `report --promote` answers, in its words.
function promotion(one) {
  const list = (found) => h("ul", {}, found.map((answer) => h("li", {}, answer.sentence)));
  const against = one.answers.filter((answer) => answer.failed);
  const rest = one.answers.filter((answer) => !answer.failed);
  return section(`Can ${one.model} replace ${one.champion}?`,
    h("p", { class: "answer" }, h("b", { class: one.allowed ? "mark-better" : "mark-missed" }, one.allowed ? "■ Yes" : "✗ No"), one.allowed ? null : ", because:"),
    against.length ? list(against) : null,
    rest.length ? [against.length ? h("p", { class: "quiet" }, "Also known:") : null, list(rest)] : null,
    h("p", { class: "quiet" }, "A deployment gate checks the same: ", h("code", {}, `prequential report --promote ${one.model} --champion ${one.champion}`)));
}

function standings(title, field, rows) {
  if (!rows.length) return null;
  return section(title, table([field, "better now", "better over the whole run", "#difference", "#interval", "#outcomes of both"],
    rows.map((row) => [
      link("pair", { stream: row.stream, model: row.model, against: row.against, partition: row.partition, stage: row.stage, loss: row.loss, segment: row.segment }, row[field]),
      row.now ?? "neither", row.whole ?? "undecided", number(row.difference), interval(row.interval), count(row.outcomes)]),
    { "aria-label": title, class: "cards" }));
}

// Measures of both, those of probabilities by themselves.
function sides(data) {
  const columns = data.models.flatMap((one) => [[one, one.latest], [one, one.whole]].filter(([, side]) => side));
  const heads = columns.map(([one, side]) => `#${one.model}, ${side.estimator}`);
  const rows = (names) => names.map((name) => [name, ...columns.map(([, side]) => number(side.values[name]))]);
  const known = [...new Set(columns.flatMap(([, side]) => Object.keys(side.values)))];
  const of = (title, names) => (names.length ? section(title, table(["measure", ...heads], rows(names), { "aria-label": title, class: "cards" })) : null);
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
  return section("Labels of both, and pending predictions",
    table(["model", "#pending predictions", "#oldest for", "#get a label", "#label latency, median", ...(data.models.some((one) => one.silent) ? ["silent"] : [])], known.map(of), { "aria-label": "labels of both", class: "cards" }));
}

function expected(data) {
  const lines = data.models.flatMap((one) => one.expected.map((text) => h("li", {}, h("b", {}, one.model), `: ${text}`)));
  return lines.length ? section("Estimated performance", h("ul", {}, lines)) : null;
}

function others(data) {
  return data.others.length ? section("Other comparisons of these models", pairList(data.others)) : null;
}

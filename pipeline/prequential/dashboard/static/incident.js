// One incident, in the order in which somebody asks who was woken up; and the list of all.

import { h, link, partOf, replace, section, table } from "./dom.js";
import { age, clock, count, counted, interval, number, percent, words } from "./format.js";
import { createChart } from "./chart.js";
import { alarmTable, rangeOf } from "./model.js";
import { incidentLine } from "./overview.js";

// What a cause says, in words.
const CAUSES = {
  class_ratio: "the classes have other shares than before",
  concept: "the loss within the same classes, segments and versions, compared before and after: it isn't other shares of them. Outcomes don't say whether inputs, labels or the model itself changed",
  persistence: "labels repeat each other more or less than before",
  coverage: "another share of predictions gets labels",
  label_latency: "labels take longer or shorter than before",
  selection: "those with labels aren't like those before",
  segment: "one segment, rather than all",
  class: "one class, rather than all",
  model_version: "the model's version changed",
  inputs: "other inputs come in, harder ones where predictions have probabilities; they are served as before as far as these tell",
  not_clear: "no problem was found",
};

// Incidents of a model without which their record says little.
const LEAST_GRADED = 5;

export function incidentPage(root, params, context) {
  const head = h("div");
  const charts = h("div", { class: "charts wide" });
  const rest = h("div");
  root.append(head, charts, rest);
  let chart = null;
  let data = null;
  let zoomed = null;
  const draw = () => {
    const course = data?.series[data.stage];
    if (!course || !data.measure || !course.t.length) return;
    const axis = !data.untimed && course.t[course.t.length - 1] > course.t[0] ? "t" : "outcomes";
    chart ??= createChart(charts, `${data.measure}, ${data.stage}, ${data.estimator}`, (ends) => {
      zoomed = ends;
      draw();
    });
    const marks = data.marks.filter((mark) => (mark.segment ?? null) === null);
    chart.update({
      axis, range: zoomed ?? rangeOf([course], marks, axis, null), marks, bands: data.bands, references: [],
      lines: [{ name: data.measure, x: course[axis], y: course.values[data.measure] }],
    });
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
      replace(head, heading(data), since(data), severity(data));
      replace(rest, causes(data), neighbours(data), baselines(data), noise(data), records(data));
      draw();
    },
    close() {
      chart?.close();
    },
  };
}

function heading(data) {
  return [
    h("h1", { tabindex: "-1" }, `◆ Incident of ${data.model} on ${data.stream}${data.segment === null ? "" : `, ${data.segment}`}: ${data.status}`),
    h("p", { class: "quiet" }, link("model", { stream: data.stream, model: data.model, partition: data.partition }, "all of this model"), ` · stage ${data.stage} · revision ${data.revision} · id `, h("code", {}, data.id)),
  ];
}

// Whether what came after agrees: with this incident, and with those of the model so far.
function grade(data) {
  const graded = data.graded ?? { incidents: 0, agreed: 0 };
  const own = data.agreed === undefined || data.agreed === null ? null
    : data.agreed ? "The clusters that followed are nearer to the new level. " : "The clusters that followed are nearer to the earlier level. ";
  const record = graded.incidents < LEAST_GRADED ? null : `Later clusters were nearer to the new level after ${graded.agreed} of the model's ${graded.incidents} incidents that were graded.`;
  return own || record ? h("p", { class: "quiet" }, own, record ?? "") : null;
}

function place(what, one, now, untimed) {
  if (!one) return null;
  if (untimed) return h("li", {}, h("b", {}, what), ` outcome ${count(one.outcome)}`);
  const predicted = one.prediction_ts ? `; the prediction was made at ${clock(one.prediction_ts)}` : "";
  return h("li", {}, h("b", {}, what), ` ${clock(one.ts)}, ${age(now - one.ts)} ago, at outcome ${count(one.outcome)}${predicted}`);
}

function since(data) {
  const { now } = data.board;
  return section("1. Since when", h("ul", {},
    place("It began at", data.change_point, now, data.untimed), place("It was noticed at", data.opened, now, data.untimed),
    place("It was over at", data.recovered, now, data.untimed)));
}

function level(one) {
  if (!one) return "–";
  return `${number(one.level)}${one.interval ? ` (${interval(one.interval)})` : ""}${one.n ? ` over ${counted(one.n, "outcome")}` : ""}`;
}

function severity(data) {
  const change = data.before?.level !== null && data.after?.level !== null && data.before && data.after ? data.after.level - data.before.level : null;
  return section("2. How bad",
    h("p", {}, "Loss before ", h("b", {}, level(data.before)), ", since then ", h("b", {}, level(data.after)), change === null ? null : `: ${change >= 0 ? "+" : ""}${number(change)}`),
    h("p", {}, `Severity ${number(data.severity)}, ${size(Math.abs(data.severity))}: the change in standard deviations of one outcome's loss (Cohen's d)`),
    grade(data));
}

// Cohen's words (1988).
function size(d) {
  return d >= 0.8 ? "large" : d >= 0.5 ? "medium" : d >= 0.2 ? "small" : "less than small";
}

function causes(data) {
  if (!data.causes.length) return section("3. What changed", h("p", {}, "Not known yet."));
  return section("3. What changed", h("ol", { class: "causes" }, data.causes.map((one) => {
    const details = Object.entries(one).filter(([name]) => !["cause", "share", "words", "since"].includes(name));
    return h("li", {}, h("b", {}, one.words), CAUSES[one.cause] ? `: ${CAUSES[one.cause]}` : null,
      one.since ? `, since ${data.untimed ? "" : `${clock(one.since.ts)}, `}outcome ${count(one.since.outcome)}` : null,
      details.length ? h("span", { class: "quiet" }, ` (${details.map(([name, value]) => `${words(name)} ${told(value)}`).join(", ")})`) : null);
  })));
}

// The first question at night: is it this model, or the stream?
function neighbours(data) {
  const { others_changed: changed, others_unchanged: same } = data;
  return h("div", { class: "neighbours" },
    changed.length ? h("p", {}, "Other models of the stream that changed at the same time:") : null,
    changed.length ? h("ul", { class: "plain" }, changed.map((one) => h("li", {}, incidentLine(one, data.board.now)))) : null,
    same.length ? h("p", {}, `${changed.length ? "Not" : "No other model of the stream changed at the same time: not"} ${same.join(", ")}.`) : null,
    changed.length || same.length ? null : h("p", {}, "No other model of the stream is known."));
}

// A detail of whatever kind, as text.
function told(value) {
  if (typeof value === "number") return number(value);
  if (Array.isArray(value)) return value.map(told).join(" to ");
  if (value !== null && typeof value === "object") return Object.entries(value).map(([name, one]) => `${name} ${told(one)}`).join(" ");
  return String(value);
}

function baselines(data) {
  const rows = Object.entries(data.baselines).map(([name, one]) => [words(name), percent(one?.before), percent(one?.after)]);
  return section("4. What the baselines did", rows.length
    ? table(["baseline", "#right before", "#right since"], rows, { "aria-label": "baselines", class: "cards" })
    : h("p", {}, "Nothing is known of them."));
}

function noise(data) {
  const { alarms, outcomes } = data.former_alarms;
  const earlier = data.incidents_before_total;
  return section("5. Are the detectors noisy here?",
    h("p", {}, alarms
      ? `${counted(alarms, "alarm")} of this model in the ${counted(outcomes, "outcome")} before it; one in ${count(outcomes / alarms)}.`
      : `No alarm of this model in the ${counted(outcomes, "outcome")} before it: its detectors are quiet.`),
    data.noise.length ? table(["detector", "signal", "stage", "#alarms before"], data.noise.map((one) => [one.detector, one.signal, one.stage, count(one.count)]), { "aria-label": "alarms before", class: "cards" }) : null,
    h("p", {}, earlier ? `${counted(earlier, "incident")} of this model before:` : "No incident of this model before."),
    earlier ? h("ul", { class: "plain" }, data.incidents_before.slice(0, 10).map((one) => h("li", {}, incidentLine(one, data.board.now)))) : null,
    partOf(Math.min(10, data.incidents_before.length), earlier, "earlier incidents"),
    data.alarms.length
      ? h("details", { "data-key": "alarms" }, h("summary", {}, `${counted(data.alarm_count, "alarm")} of this one`), alarmTable(data.alarms), partOf(data.alarms.length, data.alarm_count, "alarms"))
      : h("p", {}, `${counted(data.alarm_count, "alarm")} of this one.`));
}

function records(data) {
  const ids = data.examples.map((one) => (typeof one === "object" && one !== null ? told(one) : String(one)));
  return section("6. Which records to look at", ids.length
    ? [h("p", {}, "Instances that were wrong, the first ones behind the change point:"), h("ul", { class: "ids" }, ids.map((id) => h("li", {}, h("code", {}, id))))]
    : h("p", {}, "No examples were sent."));
}

export function incidentsPage(root, params) {
  const body = h("div");
  root.append(h("h1", { tabindex: "-1" }, "Incidents, open ones first"), body);
  return {
    title: "Incidents",
    query: params,
    take(data) {
      replace(body, data.incidents.length
        ? [h("ul", { class: "plain" }, data.incidents.map((one) => h("li", {}, incidentLine(one, data.board.now)))), partOf(data.incidents.length, data.total, "incidents")]
        : h("p", {}, "No incident was seen."));
    },
    close() {},
  };
}

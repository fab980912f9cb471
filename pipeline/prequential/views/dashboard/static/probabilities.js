// Calibration, and the effect of another threshold: drawn from the histogram of its scores.

import { h, section, select, svg, table } from "./dom.js";
import { count, number, percent } from "./format.js";
import { ticks } from "./small.js";
import { tick } from "./chart.js";

const STEPS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
const SIZE = 260;
const LEFT = 44;
const BOTTOM = 36;
const EDGE = 10;

// `view` remembers the memory that is chosen, and what mistakes cost; `again` draws anew.
export function probabilities(data, view, again) {
  const memories = Object.keys(data.probabilities);
  if (!memories.length) return null;
  const memory = memories.includes(view.memory) ? view.memory : memories.includes(data.estimator) ? data.estimator : memories[0];
  const one = data.probabilities[memory];
  const present = { recall: one.recall[one.present], precision: one.precision[one.present], rate: one.false_positive_rate[one.present] };
  return section("Calibration, and the effect of another threshold",
    h("div", { class: "controls" },
      memories.length > 1 ? select("Scores of", memories, memory, null, (chosen) => {
        view.memory = chosen;
        again();
      }) : h("span", {}, `Scores of ${memory}`),
      h("span", { class: "quiet" }, `${count(one.positives)} positives, ${count(one.negatives)} negatives${Object.entries(one.values).map(([name, value]) => `, ${name} ${number(value)}`).join("")}. ● where the threshold is 0.5`)),
    h("div", { class: "curves" },
      plot("reliability", "mean score", "share of positives", [0, 1], [0, 1], (x, y) => reliabilityOf(one, x, y), `ECE of the positive class ${number(one.ece)}; areas are outcomes`),
      plot("ROC", "false positive rate", "recall", [0, 1], [0, 1], (x, y) => [
        diagonal(x, y), curve(one.false_positive_rate, one.recall, x, y), dot(present.rate, present.recall, x, y)], `recall ${percent(present.recall)}, false positives ${percent(present.rate)}`),
      plot("precision and recall", "recall", "precision", [0, 1], [0, 1], (x, y) => [
        svg("line", { class: "rule", x1: x(0), x2: x(1), y1: y(share(one)), y2: y(share(one)) }),
        curve(one.recall, one.precision, x, y), dot(present.recall, present.precision, x, y)], `precision ${percent(present.precision)} at recall ${percent(present.recall)}`),
      one.costs ? configured(one) : costs(one, view, again)),
    thresholdTable(one));
}

// What each threshold would have given: shares by class, and of all outcomes that would be predicted positive.
function thresholdTable(one) {
  const all = one.positives + one.negatives;
  const place = (threshold) => one.thresholds.reduce((found, value, i) => (value >= threshold ? i : found), 0);
  const decides = one.decides;
  const wanted = [...STEPS, ...(decides === null || STEPS.some((step) => Math.abs(step - decides) < 0.015) ? [] : [decides])].sort((a, b) => a - b);
  return [h("h3", {}, "Results by threshold", decides === null ? null : h("span", { class: "quiet" }, ` The model's own predictions are those of about ${decides.toFixed(2)}.`)),
    table(["threshold", "#predicted positive", "#precision", "#recall", "#F1", "#false positive rate"], wanted.map((threshold) => {
      const i = place(threshold);
      const [recall, precision, rate] = [one.recall[i], one.precision[i], one.false_positive_rate[i]];
      const own = decides !== null && Math.abs(threshold - decides) < 0.015;
      const f1 = precision === null || recall === null || precision + recall === 0 ? null : (2 * precision * recall) / (precision + recall);
      const row = [percent(all ? ((recall ?? 0) * one.positives + (rate ?? 0) * one.negatives) / all : null), number(precision), number(recall), number(f1), number(rate)];
      return [own ? h("b", {}, `${threshold.toFixed(2)} (in use)`) : threshold.toFixed(2), ...row];
    }), { "aria-label": "results by threshold", class: "cards" })];
}

function share(one) {
  return one.positives / (one.positives + one.negatives || 1);
}

export function plot(title, across, upwards, [left, right], [low, high], inside, said) {
  const x = (value) => LEFT + ((value - left) / (right - left)) * (SIZE - LEFT - EDGE);
  const y = (value) => EDGE + (1 - (value - low) / (high - low)) * (SIZE - EDGE - BOTTOM);
  return h("figure", { class: "curve", "data-title": title }, h("figcaption", {}, title),
    svg("svg", { class: "small", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": `${title}: ${said}` },
      ticks(low, high).map((value) => [svg("line", { class: "rule", x1: LEFT, x2: SIZE - EDGE, y1: y(value), y2: y(value) }), svg("text", { class: "tick", x: LEFT - 4, y: y(value) + 3.5, "text-anchor": "end" }, tick(value))]),
      ticks(left, right).map((value) => [svg("line", { class: "rule", y1: EDGE, y2: SIZE - BOTTOM, x1: x(value), x2: x(value) }), svg("text", { class: "tick", x: x(value), y: SIZE - BOTTOM + 13, "text-anchor": "middle" }, tick(value))]),
      svg("text", { class: "tick", x: (LEFT + SIZE - EDGE) / 2, y: SIZE - 6, "text-anchor": "middle" }, across),
      svg("text", { class: "tick", x: 10, y: SIZE / 2, "text-anchor": "middle", transform: `rotate(-90 10 ${SIZE / 2})` }, upwards),
      inside(x, y)),
    h("p", { class: "quiet" }, said));
}

function diagonal(x, y) {
  return svg("line", { class: "objective", x1: x(0), x2: x(1), y1: y(0), y2: y(1) });
}

function curve(xs, ys, x, y) {
  const points = xs.map((value, i) => (value === null || ys[i] === null ? null : `${x(value).toFixed(1)},${y(ys[i]).toFixed(1)}`)).filter((point) => point);
  return svg("g", { class: "line-1", "data-points": points.length }, svg("polyline", { points: points.join(" ") }));
}

function dot(across, up, x, y) {
  return across === null || up === null ? null : svg("g", { class: "line-2" }, svg("circle", { cx: x(across), cy: y(up), r: 4 }));
}

function reliabilityOf(one, x, y) {
  const most = Math.max(...one.reliability.map(([, , n]) => n));
  return [diagonal(x, y), svg("g", { class: "line-1", "data-points": one.reliability.length }, one.reliability.map(([mean, positive, n]) =>
    svg("circle", { cx: x(mean).toFixed(1), cy: y(positive).toFixed(1), r: Math.max(1.8, 9 * Math.sqrt(n / most)).toFixed(1), "fill-opacity": 0.7 },
      svg("title", {}, `mean score ${number(mean)}: ${number(positive)} are positives, of ${count(n)} outcomes`))))];
}

// Mean cost of an outcome by threshold, by the stream's `costs`; nothing is moved by that.
function configured(one) {
  const { mean, threshold, cost, interval, present, present_cost, present_interval, gain, gain_interval } = one.costs;
  const within = ([low, high]) => `(${number(low)} to ${number(high)})`;
  const decisions = one.cost === null ? "" : `, ${number(one.cost)} at its decisions`;
  const best = mean.indexOf(Math.min(...mean));
  const said = `at ${present}: ${number(present_cost)} ${within(present_interval)} an outcome${decisions}; least ${where(one, best, threshold)} ${within(interval)}: ${number(cost)}, a gain of ${number(gain)} ${within(gain_interval)}`;
  return costPlot(one.thresholds, mean, one.present, best, said);
}

// A threshold in words: the highest one is above every score, also above those of exactly 1.
function where(one, place, threshold) {
  return one.precision[place] === null ? "where nothing is predicted positive" : `at ${number(threshold)}`;
}

function costPlot(thresholds, mean, present, best, said) {
  return plot("cost by threshold", "threshold", "mean cost", [0, 1], [Math.min(0, ...mean), Math.max(...mean) || 1], (x, y) => [
    curve(thresholds, mean, x, y), dot(thresholds[present], mean[present], x, y),
    svg("g", { class: "line-3" }, svg("path", { d: `M${x(thresholds[best]) - 4} ${y(mean[best])}l4 -4l4 4l-4 4z` }))], said);
}

// Mean cost of an outcome by threshold, for what mistakes are said to cost; nothing is moved by that.
function costs(one, view, again) {
  view.costs ??= { alarm: 1, miss: 1 };
  const { alarm, miss } = view.costs;
  const positive = share(one);
  const mean = one.thresholds.map((at, i) => miss * positive * (1 - (one.recall[i] ?? 0)) + alarm * (1 - positive) * (one.false_positive_rate[i] ?? 0));
  const best = mean.indexOf(Math.min(...mean));
  const field = (name, label) => h("label", {}, `${label} `, h("input", {
    type: "number", min: 0, step: "any", value: view.costs[name], "data-key": `cost ${name}`, class: "cost", change: (event) => {
      const value = Number(event.target.value);
      if (Number.isFinite(value) && value >= 0) view.costs[name] = value;
      again();
    },
  }));
  const said = `at 0.5: ${number(mean[one.present])} an outcome; least ${where(one, best, one.thresholds[best])}: ${number(mean[best])}`;
  return h("div", {},
    costPlot(one.thresholds, mean, one.present, best, said),
    h("div", { class: "controls" }, field("alarm", "A false positive costs"), field("miss", "a missed positive")));
}

// What a model gets wrong: the confusion matrix of a memory, and what is right and wrong by class.

import { h, select, table } from "./dom.js";
import { count, number, percent } from "./format.js";

// Classes with rows of their own, the most frequent; the others are one.
const MOST = 12;

export function mistakes(data, chosen, choose) {
  const memories = Object.keys(data.mistakes);
  if (!memories.length) return null;
  const memory = memories.includes(chosen) ? chosen : memories.includes(data.estimator) ? data.estimator : memories[0];
  const { n, confusion, per_class: byClass } = data.mistakes[memory];
  const known = Object.keys(confusion).length > 0;
  return h("section", { class: "card" }, h("h2", {}, "Which mistakes"),
    h("div", { class: "controls" },
      memories.length > 1 ? select("Memory", memories, memory, null, choose) : h("span", {}, `Memory ${memory}`),
      h("span", { class: "quiet" }, `${weight(n)} outcomes${data.stages.length ? `, ${data.stages[0]}` : ""}`)),
    known ? matrix(confusion) : null,
    known ? classes(rowsOf(confusion)) : classes(Object.entries(byClass).map(([name, one]) => ({ name, labels: one.support, ...one }))));
}

// Of a faded memory they are sums of weights.
function weight(value) {
  return Number.isInteger(value) ? count(value) : number(value);
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

// Labels and predictions of each class, the most frequent labels first.
function rowsOf(confusion) {
  const names = [...new Set([...Object.keys(confusion), ...Object.values(confusion).flatMap((row) => Object.keys(row))])];
  return names.map((name) => {
    const row = confusion[name] ?? {};
    const labels = sum(Object.values(row));
    const predictions = sum(Object.values(confusion).map((one) => one[name] ?? 0));
    const hits = row[name] ?? 0;
    return { name, labels, predictions, recall: labels ? hits / labels : undefined, precision: predictions ? hits / predictions : undefined };
  }).sort((a, b) => b.labels - a.labels || (a.name < b.name ? -1 : 1));
}

function matrix(confusion) {
  const names = rowsOf(confusion).map((one) => one.name);
  const own = names.length > MOST ? names.slice(0, MOST) : names;
  const rest = names.slice(own.length);
  const groups = [...own.map((name) => [name]), ...(rest.length ? [rest] : [])];
  const title = (group) => (group.length > 1 ? `${count(group.length)} other classes` : group[0]);
  const cell = (labels, predictions) => sum(labels.flatMap((label) => predictions.map((one) => confusion[label]?.[one] ?? 0)));
  return [h("p", { class: "quiet" }, "Rows: true class. Columns: predicted class. Cells: outcomes, and their share of the row."),
  h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "confusion matrix" },
    h("table", { class: "matrix", "aria-label": "confusion matrix" },
      h("thead", {}, h("tr", {}, h("td"), groups.map((group) => h("th", { scope: "col", class: "number" }, title(group))), h("th", { scope: "col", class: "number" }, "all"))),
      h("tbody", {}, groups.map((labels, i) => {
        const all = cell(labels, names);
        return h("tr", {}, h("th", { scope: "row" }, title(labels)),
          groups.map((predictions, j) => {
            const value = cell(labels, predictions);
            const share = all ? value / all : 0;
            return h("td", { class: `number ${i === j ? "right" : "wrong"} heat-${Math.round(10 * share)}` }, h("b", {}, weight(value)), " ", h("span", { class: "share" }, all ? percentOf(share) : "–"));
          }),
          h("td", { class: "number" }, weight(all)));
      }))))];
}

function percentOf(share) {
  return share === 0 || share === 1 ? `${100 * share}%` : share < 0.001 ? "< 0.1%" : share > 0.999 ? "> 99.9%" : `${(100 * share).toFixed(1)}%`;
}

function classes(rows) {
  const all = sum(rows.map((row) => row.labels));
  return table(["class", "#labels", "#share", "#recall", "#precision"],
    rows.map((row) => [row.name, weight(row.labels), percent(all ? row.labels / all : null), number(row.recall), number(row.precision)]), { "aria-label": "by class", class: "cards" });
}

// The gate: checks that pass or fail, the failed ones first, and who may replace a champion.

import { chip, h, link, partOf, replace, table } from "./dom.js";
import { count, counted } from "./format.js";

// How a result looks and what it is called.
const RESULTS = { failed: ["worse", "fails"], unknown: ["few", "unknown"], passed: ["steady", "passes"] };

export function gatePage(root, params) {
  const title = h("h1", { tabindex: "-1" }, "Gate");
  const body = h("div");
  root.append(title, body);
  return {
    title: "Gate",
    query: params,
    take(data) {
      title.textContent = heading(data);
      replace(body, h("p", { class: "meta" }, h("span", {}, `${count(data.passed)} pass`), h("span", {}, `${count(data.failed)} fail`), data.unknown ? h("span", {}, `${count(data.unknown)} unknown`) : null),
        h("p", { class: "quiet" }, "Each check has one side: a model fails where it is worse than expected, never where it is better. Objectives come from the configuration, conditions from ", h("code", {}, "--fail-if"), "."),
        list(data), promotions(data));
    },
    close() {},
  };
}

function heading(data) {
  if (!data.total) return "No model to check";
  if (data.failed) return `${counted(data.failed, "check")} of ${count(data.total)} ${data.failed === 1 ? "fails" : "fail"}`;
  return data.unknown ? `No check fails, ${count(data.unknown)} of ${count(data.total)} unknown` : data.total === 1 ? "The one check passes" : `All ${count(data.total)} checks pass`;
}

function result(name) {
  const [kind, word] = RESULTS[name];
  return chip(kind, word);
}

function list(data) {
  if (!data.checks.length) return null;
  const open = data.checks.filter((one) => one.result !== "passed");
  const passed = data.checks.filter((one) => one.result === "passed");
  return h("section", { class: "card" }, open.length ? checks(open) : null,
    passed.length ? h("details", { "data-key": "passed", open: !open.length }, h("summary", {}, `${counted(data.passed, "check")} that ${data.passed === 1 ? "passes" : "pass"}`), checks(passed)) : null,
    partOf(data.checks.length, data.total, "checks"));
}

function checks(list_) {
  return table(["check", "result", "model", "values"], list_.map((one) => [one.expected, result(one.result),
    one.model ? link("model", { stream: one.stream, model: one.model, partition: one.partition }, `${one.stream} / ${one.model}`) : "", one.sentence]), { class: "wide checks-list", "aria-label": "checks" });
}

function promotions(data) {
  return data.promotions.map((one) => h("section", { class: "card" },
    h("h2", {}, `May ${one.model} replace ${one.champion} on ${one.stream}? `, one.allowed ? chip("yes", "yes") : chip("notyet", "not yet")),
    h("ul", { class: "plain" }, one.answers.map((answer) => h("li", {}, h("b", { class: answer.failed ? "t-worse" : "t-better" }, answer.failed ? "✗ " : "✓ "), answer.sentence))),
    h("code", { class: "cmd" }, `prequential report --promote ${one.model} --champion ${one.champion}`)));
}

// By which settings messages are made: which are at work now, what has changed, and what differs.

import { h, link, replace, section, table } from "./dom.js";
import { clock, count, counted } from "./format.js";

// Digits of a digest that are shown, as everywhere.
const DIGITS = 12;

export function configurationsPage(root, params) {
  const body = h("div");
  root.append(h("h1", { tabindex: "-1" }, "Configurations"), body);
  return {
    title: "Configurations",
    query: params,
    take(data) {
      replace(body, said(data));
    },
    close() {},
  };
}

// Above every page, while some streams have changed and some aren't evaluated as this page is configured.
export function rolling(status) {
  const { streams, changed, others } = status.configurations ?? {};
  if (!status.live || !changed || !others) return null;
  return h("p", { class: "rolling" }, link("configurations", {}, `Settings of ${counted(changed, "stream")} have changed`),
    `; ${count(others)} of ${count(streams)} ${others === 1 ? "has" : "have"} others than this page.`);
}

function said(data) {
  if (!data.streams) return h("p", {}, "No metrics yet.");
  const { untimed } = data.board;
  return [
    h("p", {}, summary(data)),
    section("At work now", table(["settings", "#streams", "which", "partitions", "since", "newest message", "#messages"],
      data.at_work.map((one) => [
        [digest(one.config), " ", one.own === one.streams ? h("span", { class: "badge mark-verdict" }, "as this page") : h("span", { class: "badge mark-alarm" }, one.own ? `as this page: ${count(one.own)}` : "other settings than this page")],
        count(one.streams), names(one), partitions(one), untimed ? "–" : since(one), untimed ? "–" : clock(one.newest), count(one.messages)]),
      { class: "cards", "aria-label": "settings at work" }),
      data.more_at_work ? h("p", { class: "quiet" }, `and ${counted(data.more_at_work, "other")} of fewer streams`) : null),
    data.changes.map((one) => change(one, untimed)),
    data.beside_own.map((one) => section(["This page: ", digest(one.own), ", at work: ", digest(one.config)],
      h("p", {}, `${counted(one.streams, "stream")} (${names(one)}) in ${partitions(one, true)}.`), differences(one))),
    h("p", { class: "quiet" }, "Each stream has its own settings; messages name them by a digest (config), which leaves out when messages are due. To see what a change does to the state, run ",
      h("code", {}, "prequential config diff"), ", or read the worker's log or /ready."),
  ];
}

function summary({ streams, changed, others }) {
  const now = others ? `${count(others)} of ${counted(streams, "stream")} ${others === 1 ? "is" : "are"} evaluated with settings other than those of this page` : `All of ${counted(streams, "stream")} are evaluated with the settings of this page`;
  return `${now}; ${changed ? `in the messages read, the settings of ${count(changed)} have changed.` : "in the messages read, none has changed."}`;
}

function change(one, untimed) {
  const when = untimed ? "" : `, since ${clock(one.since)}${one.until > one.since ? `, the last of them since ${clock(one.until)}` : ""}`;
  const still = one.still.streams ? `The previous settings still apply to the newest messages of ${counted(one.still.streams, "stream")} (${names(one.still)}) in ${partitions(one.still, true)}${untimed ? "" : `, the newest of ${clock(one.still.newest)}`}.` : null;
  return section(["Changed: ", digest(one.before), " → ", digest(one.after)],
    h("p", {}, `${counted(one.streams, "stream")} (${names(one)}) in ${partitions(one, true)}${when}.`),
    still ? h("p", {}, still) : null, differences(one));
}

function differences(one) {
  if (one.untold.length) {
    return h("p", {}, "The differences are unknown: no message that was read explains ", one.untold.map((config, i) => [i ? " and " : "", digest(config)]), ". A worker sends this explanation every ten minutes; earlier versions do not send it.");
  }
  if (!one.keys.length) return h("p", {}, "No key differs in the digits shown.");
  return table(["key", "what differs"], one.keys.map((each) => [each.key, each.values.join("; ")]), { class: "cards", "aria-label": "what differs" });
}

function digest(config) {
  return h("code", { title: config }, config.slice(0, DIGITS));
}

function names(one) {
  const more = one.streams - one.names.length;
  return `${one.names.join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}`;
}

function partitions(one, worded = false) {
  // -1: all of them together, of a stream that lies in all.
  const text = `${one.partitions.map((number) => (number < 0 ? "all" : number)).join(", ")}${one.more_partitions ? ` and ${count(one.more_partitions)} more` : ""}`;
  return worded ? `partition${one.partitions.length > 1 ? "s" : ""} ${text}` : text;
}

function since(one) {
  if (one.since === null) return `before ${clock(one.first)}`;
  return one.until > one.since ? `${clock(one.since)} to ${clock(one.until)}` : clock(one.since);
}

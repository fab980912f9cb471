// Small plots, drawn as SVG at their real width: text is never scaled, and they are printed as sharp as text.

import { address, h, isThere, shown, svg } from "./dom.js";
import { clock, count, number, timeTicks } from "./format.js";
import { dashOf, FEW, lookOf, QUIET_DASHES, SETTLING, textWidth, tick, tickTexts } from "./chart.js";

const LEAST_LEFT = 40;
const TICK_FONT = "11px system-ui, sans-serif";
const RIGHT = 26; // expected values stand there

// Stands beside an expected value while too few periods are final to grade such values.
export const NO_RECORD = "no interval: too few final periods";
const TOP = 8;
const ROW = 8;

// Lanes have at most so many rows: later bars share the last one.
const ROWS = 3;

const drawings = new WeakMap();
const waiting = new Set();
const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => (target.isConnected ? paint(target) : observer.unobserve(target))));

// An element that `draw` fills, called with its width in pixels; again where the width changes.
export function sized(name, draw) {
  const host = h("div", { class: `small ${name}` });
  drawings.set(host, draw);
  waiting.add(host);
  observer.observe(host);
  return host;
}

// Draws what is new, so that it is complete when the page says so.
export function paintAll() {
  for (const host of waiting) if (host.isConnected) paint(host);
  waiting.clear();
}

function paint(host) {
  const width = host.clientWidth;
  if (!width || Number(host.dataset.width) === width) return;
  host.dataset.width = width;
  const drawing = drawings.get(host)(width);
  drawing.setAttribute("viewBox", `0 0 ${width} ${drawing.getAttribute("height")}`); // paper may be narrower
  host.replaceChildren(drawing);
}

// One stream with all of its models: lines with names above thin ones, baselines, the objective, incidents in a lane
// below, and on the right the expected value of each model's newest whole period.
export function streamPlot(plot, height = 130) {
  return sized("", (width) => {
    const [low, high] = heights(plot);
    const right = width - RIGHT;
    const heightTicks = ticks(low, high);
    const heightTexts = tickTexts(heightTicks, tick);
    const LEFT = Math.max(LEAST_LEFT, ...heightTexts.map((text) => Math.ceil(textWidth(text, TICK_FONT)) + 8));
    const x = (place) => LEFT + place * (right - LEFT);
    const y = (value) => TOP + (1 - (value - low) / (high - low)) * (height - TOP);
    const named = plot.lines.map((line) => `${line.model} ${number(line.values[plot.measure])}`).join(", ");
    const worse = plot.bands.filter((band) => !band.better);
    const better = plot.bands.filter((band) => band.better);
    let below = height + 10;
    const lanes = [worse, better].filter((bars, i) => bars.length || !i).map((bars) => {
      const one = lane(bars.map((band) => ({ ...band, x: x(band.from), width: x(band.to) - x(band.from) })), LEFT, right, below);
      below += one.height + 3;
      return one.marks;
    });
    return svg("svg", { width, height: below + 18, role: "img", "aria-label": shown(`${plot.stream}, ${plot.measure}: ${named}`) },
      heightTicks.map((value, i) => [
        svg("line", { class: "rule", x1: LEFT, x2: right, y1: y(value), y2: y(value) }),
        svg("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, heightTexts[i])]),
      ticksOf(plot, LEFT, right, below, plot.low, plot.high),
      within(plot.objective, low, high) ? svg("line", { class: "objective", x1: LEFT, x2: right, y1: y(plot.objective), y2: y(plot.objective) }) : null,
      plot.thin.map((line) => course(line, x, y, "thin", null, height)),
      plot.baselines.map((line, i) => course(line, x, y, "beside", QUIET_DASHES[i % QUIET_DASHES.length].join(" "), height)),
      // The worst one is above the others.
      plot.lines.map((line, i) => course(line, x, y, line.baseline ? "beside" : `line-${lookOf(line, i)}`, dashOf(plot.lines, i).join(" ") || null, height)).reverse(),
      worse.filter((band) => band.open).map((band) => svg("line", { class: "began", x1: x(band.from), x2: x(band.from), y1: TOP, y2: height + 10 })),
      lanes,
      // Above the curves, which would cover it.
      within(plot.objective, low, high) ? svg("text", { class: "tick halo", x: LEFT + 4, y: y(plot.objective) - 3 }, `objective ${plot.objective}`) : null,
      plot.lines.map((line, i) => (line.expected ? expected(line, i, plot, right, y, low, high) : null)));
  });
}

// Ticks of a plot's axis: times, or outcomes where there are none.
export function ticksOf(plot, left, right, y, low, high) {
  const across = (value) => left + ((value - low) / (high - low || 1)) * (right - left);
  const timed = plot.axis === "t";
  const found = timed ? timeTicks(low, high, Math.max(2, Math.floor((right - left) / 80)))
    : ((values) => tickTexts(values, tick).map((text, i) => [values[i], `${text}${values[i] === 0 ? ` ${plot.untimed ? "rows" : "outcomes"}` : ""}`]))(ticks(low, high));
  return found.map(([at, text]) => {
    const place = across(at);
    const half = textWidth(text, TICK_FONT) / 2;
    const anchor = place - half < 0 ? "start" : place + half > right + RIGHT ? "end" : "middle";
    return svg("text", { class: "tick", x: place.toFixed(1), y: y + 13, "text-anchor": anchor }, text);
  });
}

// Bars in rows of one lane: those that overlap stand below each other. A bar is {x, width, open, better, text, id}.
export function lane(bars, left, right, top, href = (bar) => address("incident", { id: bar.id })) {
  const rows = [];
  const placed = [...bars].sort((a, b) => a.x - b.x).map((bar) => {
    const x = Math.max(left, Math.min(bar.x, right - 3));
    const one = { ...bar, x, width: Math.max(3, Math.min(bar.x + bar.width, right) - x) };
    let row = rows.findIndex((end) => end + 1 <= x);
    if (row < 0) row = Math.min(rows.length, ROWS - 1);
    rows[row] = Math.max(rows[row] ?? 0, x + one.width);
    return { ...one, row };
  });
  const height = ROW * Math.max(1, rows.length) + 3;
  return {
    height,
    marks: [svg("rect", { class: "ground", x: left, y: top, width: Math.max(0, right - left), height, rx: 3 }),
      placed.map((bar) => svg(isThere("incident", { id: bar.id }) ? "a" : "g", { href: isThere("incident", { id: bar.id }) ? href(bar) : null, "data-key": `bar ${bar.id}`, "aria-label": shown(bar.text) },
        svg("rect", { class: `bar${bar.better ? " better" : ""}${bar.open ? " open" : ""}`, x: bar.x.toFixed(1), y: top + 2 + ROW * bar.row, width: bar.width.toFixed(1), height: 7, rx: 2 }, svg("title", {}, bar.text))))],
  };
}

// Values from which to which the plot goes, as in large ones: of many points the first ones don't count.
function heights(plot) {
  const found = [];
  for (const line of [...plot.lines, ...plot.thin, ...plot.baselines]) {
    const known = line.y.filter((value) => value !== null);
    found.push(...(known.length >= SETTLING ? known.slice(Math.floor(known.length / 12)) : known));
  }
  for (const line of plot.lines) if (line.expected) found.push(...[line.expected.value, line.expected.low, line.expected.high].filter((value) => value !== null));
  if (!found.length) return [0, 1];
  let low = Math.min(...found);
  let high = Math.max(...found);
  const height = high - low || Math.abs(high) || 1;
  if (within(plot.objective, low - height, high + height)) {
    low = Math.min(low, plot.objective);
    high = Math.max(high, plot.objective);
  }
  const air = 0.06 * (high - low) || 0.05 * Math.abs(high) || 0.5;
  const [least, most] = plot.bounds;
  return [Math.max(least ?? -Infinity, low - air), Math.min(most ?? Infinity, high + air)];
}

function within(value, low, high) {
  return value !== null && value !== undefined && value >= low && value <= high;
}

// Two to five round numbers between the ends.
export function ticks(low, high) {
  const size = 10 ** Math.floor(Math.log10((high - low || 1) / 2));
  const step = [5, 2, 1].map((one) => one * size).find((one) => Math.floor(high / one) - Math.ceil(low / one) >= 1) ?? size;
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high + step / 1e6; n += 1) found.push(Number((n * step).toPrecision(8)));
  return found;
}

// Few points are points: a line through them would show what nobody knows.
function course(line, x, y, name, dash, bottom) {
  const points = line.x.map((place, i) => (line.y[i] === null ? null : [x(place), y(line.y[i])]));
  const known = points.filter((point) => point !== null);
  const held = ([, at]) => Math.max(TOP, Math.min(bottom, at));
  if (known.length < FEW) return svg("g", { class: `course ${name}`, "data-points": known.length }, known.map((point) => svg("circle", { cx: point[0].toFixed(1), cy: held(point).toFixed(1), r: 2.6 })));
  const runs = [[]];
  for (const point of points) {
    if (point) runs[runs.length - 1].push(`${point[0].toFixed(1)},${held(point).toFixed(1)}`);
    else runs.push([]);
  }
  return svg("g", { class: `course ${name}`, "data-points": known.length }, runs.filter((run) => run.length).map((run) => svg("polyline", { points: run.join(" "), "stroke-dasharray": dash })));
}

// An open diamond with its interval, right of the newest labels.
function expected(line, place, plot, right, y, low, high) {
  const at = right + 8 + 3 * (place % 5);
  const one = line.expected;
  const held = (value) => y(Math.max(low, Math.min(high, value)));
  return svg("g", { class: `expected line-${lookOf(line, place)}`, "data-model": line.model },
    svg("title", {}, `${line.model}: ${one.period} is expected to have ${number(one.value)} (${one.low === null ? NO_RECORD : `${number(one.low)} to ${number(one.high)}`})`),
    one.low === null ? null : svg("line", { x1: at, x2: at, y1: held(one.low), y2: held(one.high) }),
    svg("path", { d: `M${at - 4} ${held(one.value)}l4 -4l4 4l-4 4z` }));
}

// The course of a number, without an axis: its newest value is a dot.
export function spark(values, name = "line-1", base = null) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length < 2) return null;
  return sized("spark", (width) => {
    const all = base === null ? known : [...known, base];
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const x = (i) => 1 + (i / (values.length - 1)) * (width - 7);
    const y = (value) => 4 + (1 - (value - low) / (high - low || 1)) * 22;
    const points = values.map((value, i) => (value === null || value === undefined ? null : `${x(i).toFixed(1)},${y(value).toFixed(1)}`)).filter((one) => one);
    return svg("svg", { width, height: 30, "aria-hidden": "true", class: name },
      base === null ? null : svg("line", { class: "objective", x1: 0, x2: width, y1: y(base), y2: y(base) }),
      svg("polyline", { points: points.join(" ") }),
      svg("circle", { cx: points[points.length - 1].split(",")[0], cy: points[points.length - 1].split(",")[1], r: 2.6 }));
  });
}

// From a value before (hollow) to the value since (full), with their intervals, on a scale that rows share.
export function move(one, name, [low, high] = rangeOfMoves([one])) {
  if (one.before === null || one.after === null) return null;
  return sized("move", (width) => {
    const x = (value) => 50 + ((Math.max(low, Math.min(high, value)) - low) / (high - low || 1)) * (width - 100); // room for a number on each side
    const [a, b] = [x(one.before), x(one.after)];
    const side = b >= a ? 1 : -1;
    const ends = [one.before_interval, one.after_interval].filter((ends_) => ends_);
    // Numbers stand beside the points and their intervals, not on them.
    const outer = [a, b, ...ends.flat().map(x)];
    const [left, right] = [Math.min(...outer) - 9, Math.max(...outer) + 9];
    const [beforeX, afterX] = side > 0 ? [left, right] : [right, left];
    return svg("svg", { width, height: 22, role: "img", class: name, "aria-label": `${number(one.before)} before, ${number(one.after)} since` },
      svg("line", { class: "rule", x1: x(low), x2: x(high), y1: 11, y2: 11 }),
      ends.map(([from, to]) => svg("line", { class: "span", x1: x(from), x2: x(to), y1: 11, y2: 11 })),
      svg("line", { class: "t", x1: a, x2: b, y1: 11, y2: 11 }),
      svg("circle", { class: "hollow", cx: a, cy: 11, r: 3.6 }), svg("circle", { cx: b, cy: 11, r: 4.2 }),
      svg("text", { class: "halo", x: beforeX, y: 15, "text-anchor": side > 0 ? "end" : "start" }, number(one.before)),
      svg("text", { class: "on halo", x: afterX, y: 15, "text-anchor": side > 0 ? "start" : "end" }, number(one.after)));
  });
}

// The scale for several of these.
export function rangeOfMoves(all) {
  const found = all.flatMap((one) => [one.before, one.after, ...(one.before_interval ?? []), ...(one.after_interval ?? [])]).filter((value) => typeof value === "number");
  return found.length ? [Math.min(...found), Math.max(...found)] : [0, 1];
}

// A difference with its interval next to zero.
export function forest(value, ends, reach, name = "line-quiet") {
  if (value === null || value === undefined) return null;
  return sized("forest", (width) => {
    const x = (one) => width / 2 + (Math.max(-1, Math.min(1, one / (reach || 1)))) * (width / 2 - 6);
    return svg("svg", { width, height: 24, role: "img", class: name, "aria-label": `${number(value)}${ends ? `, ${number(ends[0])} to ${number(ends[1])}` : ""}` },
      svg("line", { class: "rule", x1: x(0), x2: x(0), y1: 0, y2: 24 }),
      ends ? svg("line", { class: "span", x1: x(ends[0]), x2: x(ends[1]), y1: 12, y2: 12 }) : null,
      svg("circle", ends ? { cx: x(value), cy: 12, r: 4 } : { class: "hollow", cx: x(value), cy: 12, r: 4 }));
  });
}

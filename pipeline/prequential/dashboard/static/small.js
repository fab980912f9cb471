// Small plots, drawn as SVG: they are printed as sharp as text, and there may be many of them.

import { svg } from "./dom.js";
import { clock, count, number } from "./format.js";
import { dashOf, FEW, SETTLING, tick } from "./chart.js";

const HEIGHT = 150;
const LEFT = 44;
const RIGHT = 26; // what is expected stands there, and so beside the lines
const TOP = 8;
const BOTTOM = 20;

// One stream with all of its models: lines with names above thin ones, baselines, the objective, incidents as bands
// behind them, and on the right what each model's newest whole period is expected to be.
export function streamPlot(plot, width = 360) {
  const [low, high] = heights(plot);
  const right = width - RIGHT;
  const x = (place) => LEFT + place * (right - LEFT);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const named = plot.lines.map((line) => `${line.model} ${number(line.values[plot.measure])}`).join(", ");
  return svg("svg", { class: "small", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${plot.stream}, ${plot.measure}: ${named}` },
    plot.bands.map((band) => svg("rect", { class: band.better ? "band band-better" : "band", x: x(band.from), width: Math.max(2, x(band.to) - x(band.from)), y: TOP, height: HEIGHT - TOP - BOTTOM })),
    ticks(low, high).map((value) => [
      svg("line", { class: "rule", x1: LEFT, x2: right, y1: y(value), y2: y(value) }),
      svg("text", { class: "tick", x: LEFT - 5, y: y(value) + 3.5, "text-anchor": "end" }, tick(value))]),
    ends(plot).map((text, i) => svg("text", { class: "tick", x: i ? right : LEFT, y: HEIGHT - 5, "text-anchor": i ? "end" : "start" }, text)),
    within(plot.objective, low, high) ? [
      svg("line", { class: "objective", x1: LEFT, x2: right, y1: y(plot.objective), y2: y(plot.objective) }),
      svg("text", { class: "tick", x: LEFT + 4, y: y(plot.objective) - 3 }, `objective ${plot.objective}`)] : null,
    plot.thin.map((line) => course(line, x, y, "thin", null)),
    plot.beside.map((line, i) => course(line, x, y, "beside", ["2 3", "6 4"][i % 2])),
    // The worst one is above the others.
    plot.lines.map((line, i) => course(line, x, y, line.baseline ? "beside" : `line-${i + 1}`, dashOf(i).join(" ") || null)).reverse(),
    plot.lines.map((line, i) => (line.expected ? expected(line, i, plot, right, y, low, high) : null)));
}

// Values from which to which the plot goes, as in large ones: of many points the first ones don't count.
function heights(plot) {
  const found = [];
  for (const line of [...plot.lines, ...plot.thin, ...plot.beside]) {
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
  const size = 10 ** Math.floor(Math.log10((high - low) / 2));
  const step = [5, 2, 1].map((one) => one * size).find((one) => Math.floor(high / one) - Math.ceil(low / one) >= 1) ?? size;
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high + step / 1e6; n += 1) found.push(Number((n * step).toPrecision(8)));
  return found;
}

function ends(plot) {
  if (plot.axis !== "t") return [count(plot.low), `${count(plot.high)} ${plot.untimed ? "rows" : "outcomes"}`];
  const [first, last] = [clock(plot.low), clock(plot.high)];
  return first.slice(0, 10) === last.slice(0, 10) ? [first.slice(0, 19), last.slice(11)] : [first.slice(0, 16), last.slice(0, 16)];
}

// Few points are points: a line through them would show what nobody knows.
function course(line, x, y, name, dash) {
  const points = line.x.map((place, i) => (line.y[i] === null ? null : [x(place), y(line.y[i])]));
  const known = points.filter((point) => point !== null);
  const held = ([, at]) => Math.max(TOP, Math.min(HEIGHT - BOTTOM, at));
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
  return svg("g", { class: `expected line-${place + 1}`, "data-model": line.model },
    svg("title", {}, `${line.model}: the period ${plot.untimed ? `of rows ${count(one.start)} to ${count(one.end - 1)}` : `from ${clock(one.start)}`} is expected to have ${number(one.value)}${one.low === null ? "" : ` (${number(one.low)} to ${number(one.high)})`}`),
    one.low === null ? null : svg("line", { x1: at, x2: at, y1: held(one.low), y2: held(one.high) }),
    svg("path", { d: `M${at - 4} ${held(one.value)}l4 -4l4 4l-4 4z` }));
}

// Courses on an axis of time or outcomes: lines that differ in dash and mark, bands, and what happened.

import { h, svg, shown } from "./dom.js";
import { clock, count, number, timeTicks } from "./format.js";

// The height of a chart's curves unless another is given, and of its axis.
const HEIGHT = 180;
const BELOW = 46;

// Room for the vertical axis, at least and in use: the widest text on the page needs it. And behind the curves for their names and newest values.
const LEAST_AXIS = 62;
export const gutter = { width: LEAST_AXIS };
const drawn = new Set();
const FONT = "12px system-ui, sans-serif";
const AIR = 18;
const ruler = document.createElement("canvas").getContext("2d");

// The width of a text in a font.
export function textWidth(text, font = FONT) {
  ruler.font = font;
  return ruler.measureText(text).width;
}

// Steps of an axis of lengths of time: people count them in 2, 5, 10, 15 and 30, days in weeks.
const DURATIONS = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat([1, 2, 5, 10, 15, 30].map((s) => 1000 * s), [1, 2, 5, 10, 15, 30].map((m) => 60000 * m),
  [1, 2, 3, 6, 12].map((hours) => 3600000 * hours), [1, 2, 7, 14, 28, 91, 182, 365, 730, 1825, 3650].map((days) => 86400000 * days));

// Texts of ticks, of which no two are the same: more digits where they would be, else nothing.
export function tickTexts(values, told) {
  let texts = values.map((value) => told(value));
  for (let digits = 5; new Set(texts).size < texts.length && digits <= 9; digits += 1) texts = values.map((value) => String(Number(value.toPrecision(digits))));
  return texts.map((text, i) => (texts.indexOf(text) === i ? text : ""));
}

// Each page begins with the least room.
export function resetGutter() {
  gutter.width = LEAST_AXIS;
}

function axisWidth(texts) {
  const needed = Math.ceil(Math.max(0, ...(texts ?? []).map((text) => textWidth(text))) + AIR);
  if (needed > gutter.width) {
    gutter.width = needed;
    queueMicrotask(() => drawn.forEach((redraw) => redraw()));
  }
  return gutter.width;
}
const NAMES = 168;
const NAMES_NARROW = 12;

// Lines are told apart without colour: dashes, and the names at their ends.
const COLOURS = 6;
const DASHES = [[], [7, 4], [10, 3, 2, 3], [4, 2, 1, 2], [1, 5]];
export const QUIET_DASHES = [[2, 3], [6, 4], [1, 4]];
export const GLYPHS = { alarm: "▲", incident: "◆", version: "●", verdict: "■" };

// Points of a line up to which each is marked.
const MARKED = 60;

// A line of fewer points is its points: nobody knows what was between them.
export const FEW = 8;

// Points of a line from which on the first of them don't matter for its heights.
export const SETTLING = 24;

// How far intervals are seen beyond the curves, in heights of these.
const INTERVALS = 0.5;

// Rows of the table beneath a chart.
const LISTED = 100;

// The dash of a line: quiet lines, such as baselines, have their own, so that each looks the same on every page.
export function dashOf(lines, place) {
  if (lines[place].look !== undefined && !lines[place].quiet) return DASHES[lines[place].look % DASHES.length];
  const alike = lines.slice(0, place).filter((line) => !line.quiet === !lines[place].quiet);
  const dashes = lines[place].quiet ? QUIET_DASHES : DASHES;
  return dashes[alike.length % dashes.length];
}

// A chart below a heading. `update` takes {axis, range, lines, references, marks, bands}; `zoom` is told what was
// dragged over, `tables` holds the values as text: by default the chart does, else an element below all that belongs to it.
export function createChart(parent, title, zoom, tables = null) {
  const holder = h("div", { class: "plot", tabindex: "0", role: "img", "aria-label": title });
  const legend = h("div", { class: "legend" });
  const readout = h("span", { class: "readout", "aria-live": "polite" });
  const values = h("details", { "data-key": `values ${title}` }, h("summary", {}, tables ? `Values as a table: ${title}` : "Values as a table"));
  const figure = h("figure", { class: "chart", "data-title": title }, h("figcaption", {}, h("span", {}, title), readout), legend, holder, tables ? null : values);
  parent.append(figure);
  tables?.append(values);
  let plot = null;
  let state = null;
  let made = "";

  const draw = () => {
    const width = holder.clientWidth;
    if (!state || width < 50) return;
    const data = aligned(state);
    // What a plot is made of; other data alone need no other plot.
    const shape = JSON.stringify([state.axis, state.lines.map((line) => [line.name, Boolean(line.low), isFew(line)]), narrow(width), state.height, state.hasAxis, dark(), figure.dataset.redraw]);
    if (!plot || shape !== made) {
      if (plot) plot.destroy();
      holder.replaceChildren();
      plot = new globalThis.uPlot(options(state, width, () => state, readout, zoom), data, holder);
      made = shape;
    } else {
      if (plot.width !== width) plot.setSize({ width, height: heightOf(state) });
      plot.setData(data, false);
    }
    plot.setScale("x", { min: scaled(state, state.range[0]), max: scaled(state, state.range[1]) });
    const drawn = state.lines.map((line) => line.y.filter((value) => value !== null && value !== undefined).length);
    figure.classList.toggle("narrow", narrow(width));
    figure.dataset.points = drawn.reduce((sum, one) => sum + one, 0);
    figure.dataset.marks = marksWithin(state).length;
    figure.dataset.bands = bandsWithin(state).length;
    holder.setAttribute("aria-label", `${title}: ${state.lines.map((line) => `${line.name} ${number(last(line.y))}`).join(", ")}`);
    legend.replaceChildren(...state.lines.map((line, place) => sample(state, line, place)), ...notes(state));
    fillTable(values, state);
  };

  // Where another chart needs more room, all of them are made again with it.
  const wider = () => {
    made = "";
    draw();
    state?.widened?.();
  };
  drawn.add(wider);
  const observer = new ResizeObserver(() => draw());
  observer.observe(holder);
  holder.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!plot || !step) return;
    event.preventDefault();
    const from = plot.cursor.idx ?? (step > 0 ? -1 : plot.data[0].length);
    const to = Math.max(0, Math.min(from + step, plot.data[0].length - 1));
    plot.setCursor({ left: plot.valToPos(plot.data[0][to], "x"), top: 30 });
  });
  values.addEventListener("toggle", () => state && fillTable(values, state));
  return {
    element: figure,
    values,
    update(next) {
      state = next;
      draw();
    },
    close() {
      observer.disconnect();
      drawn.delete(wider);
      if (plot) plot.destroy();
      values.remove();
      figure.remove();
    },
  };
}

// Points of its own are all that such a line has.
function isFew(line) {
  return !line.level && line.y.filter((value) => value !== null && value !== undefined).length < FEW;
}

// On a phone names stand above the chart alone.
export function narrow(width) {
  return width < 560;
}

// The room behind the curves.
export function endOf(width) {
  return narrow(width) ? NAMES_NARROW : NAMES;
}

function heightOf(state) {
  return (state.height ?? HEIGHT) + (state.hasAxis === false ? 8 : BELOW);
}

function dark() {
  return !document.documentElement.hasAttribute("data-print") && globalThis.matchMedia("(prefers-color-scheme: dark)").matches;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function lineColour(line, place) {
  if (line.tone) return colour(line.tone);
  return colour(line.quiet ? "--quiet" : `--line-${lookOf(line, place)}`);
}

// The number of a line's colour: a model has the same one on every page and in a notebook.
export function lookOf(line, place) {
  return ((line.look ?? place) % COLOURS) + 1;
}

// What is counted on an axis that has no times.
function whatOf(state) {
  return state.axis === "row" ? "row" : "outcome";
}

// uPlot's times are seconds.
function scaled(state, value) {
  return state.axis === "t" ? value / 1000 : value;
}

function lastPlace(values) {
  for (let i = values.length - 1; i >= 0; i -= 1) if (values[i] !== null && values[i] !== undefined) return i;
  return -1;
}

function last(values) {
  return values[lastPlace(values)] ?? null;
}

// All lines on one axis. A place of another line's point is undefined (drawn through), a missing value null (a gap).
function aligned(state) {
  const tables = state.lines.map((line) => {
    const xs = [];
    const ys = [[], [], []];
    line.x.forEach((x, i) => {
      // Of points at the same place the last one counts.
      const at = xs.length && xs[xs.length - 1] === scaled(state, x) ? xs.length - 1 : xs.length;
      xs[at] = scaled(state, x);
      [line.y, line.low ?? [], line.high ?? []].forEach((column, c) => {
        ys[c][at] = column[i] ?? null;
      });
    });
    return line.low ? [xs, ...ys] : [xs, ys[0]];
  });
  return tables.length ? globalThis.uPlot.join(tables) : [[]];
}

function marksWithin(state) {
  const [low, high] = state.range;
  return state.marks.filter((mark) => at(state, mark) >= low && at(state, mark) <= high);
}

// Incidents: one that is open goes on to the end.
function bandsWithin(state) {
  const [low, high] = state.range;
  if (state.axis === "row") return []; // periods' rows are no outcomes
  return (state.bands ?? []).map((band) => {
    const [from, to] = band[state.axis === "t" ? "t" : "outcome"];
    return { ...band, from, to: to === null ? high : Math.max(from, to) };
  }).filter((band) => band.from <= high && band.to >= low);
}

function at(state, mark) {
  return state.axis === "t" ? mark.t : mark.outcome;
}

function options(first, width, now, readout, zoom) {
  const text = colour("--text");
  const grid = { stroke: colour("--grid"), width: 1 };
  const font = FONT;
  const time = first.axis === "t";
  const series = [{}];
  const bands = [];
  first.lines.forEach((line, place) => {
    const marked = line.y.length <= MARKED && !line.level;
    const few = isFew(line);
    series.push({
      label: line.name, stroke: lineColour(line, place), width: line.quiet ? 1.2 : 2, dash: dashOf(first.lines, place),
      points: { show: few || (marked && !line.quiet), size: few ? 8 : 5 }, ...(few ? { paths: () => null } : {}),
    });
    if (line.low) {
      series.push({ stroke: "transparent", width: 0, points: { show: false } }, { stroke: "transparent", width: 0, points: { show: false } });
      if (!few) bands.push({ series: [series.length - 1, series.length - 2], fill: `${lineColour(line, place)}30` });
    }
  });
  const told = first.format ?? tick;
  return {
    width,
    height: heightOf(first),
    padding: [10, endOf(width), first.hasAxis === false ? 8 : 0, 0],
    legend: { show: false },
    tzDate: (seconds) => globalThis.uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: {
      x: { time, range: (plot, low, high) => [low, high > low ? high : low + 1] },
      y: { range: (plot) => spread(plot, now()) },
    },
    axes: [
      { show: first.hasAxis !== false, size: BELOW, stroke: text, font, grid: { show: false }, ticks: grid, space: 84, ...(time ? timeAxis() : { values: (plot, splits) => tickTexts(splits, count) }) },
      { stroke: text, font, grid, ticks: grid, size: (plot, texts) => axisWidth(texts), space: 34, ...(first.durations ? { incrs: DURATIONS } : {}), values: (plot, splits) => tickTexts(splits, told) },
    ],
    series,
    bands,
    cursor: { sync: { key: `prequential ${first.axis}`, setSeries: false, scales: ["x", null] }, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => zoom(null) }, points: { size: 7 } },
    hooks: {
      draw: [(plot) => decorate(plot, now())],
      setCursor: [(plot) => {
        tell(plot, now(), readout);
        now().cross?.(plot.cursor.left < 0 ? -9 : plot.bbox.left / (globalThis.devicePixelRatio || 1) + plot.cursor.left);
      }],
      setSelect: [(plot) => {
        const { left, width: chosen } = plot.select;
        if (chosen < 5) return;
        const ends = [plot.posToVal(left, "x"), plot.posToVal(left + chosen, "x")];
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        zoom(time ? ends.map((end) => end * 1000) : ends);
      }],
    },
  };
}

// The times of the axis, as in the lanes below the curves: uPlot's are seconds.
function timeAxis() {
  const ticksOf = (plot, low, high) => timeTicks(1000 * low, 1000 * high, Math.max(2, Math.floor(plot.bbox.width / (globalThis.devicePixelRatio || 1) / 84)));
  return {
    splits: (plot, axis, low, high) => ticksOf(plot, low, high).map(([at_]) => at_ / 1000),
    values: (plot, splits) => {
      const texts = new Map(ticksOf(plot, plot.scales.x.min, plot.scales.x.max).map(([at_, text_]) => [at_ / 1000, text_]));
      return splits.map((split) => texts.get(split) ?? "");
    },
  };
}

export function tick(value) {
  return Math.abs(value) >= 1e4 ? number(value) : String(Number(value.toPrecision(4)));
}

// The heights of what is seen, with some air; lines of reference are seen if they are near. Of many points the first
// ones don't count: estimates of a few outcomes are anywhere, and their intervals everywhere.
function spread(plot, state) {
  // While a plot is made its axis has no ends yet.
  const min = plot.scales.x.min ?? scaled(state, state.range[0]);
  const max = plot.scales.x.max ?? scaled(state, state.range[1]);
  let low = Infinity;
  let high = -Infinity;
  for (const one of state.lines) {
    const seen = one.x.map((x, i) => i).filter((i) => scaled(state, one.x[i]) >= min && scaled(state, one.x[i]) <= max);
    for (const i of seen.length >= SETTLING ? seen.slice(Math.floor(seen.length / 12)) : seen) {
      const value = one.y[i];
      if (value === null || value === undefined) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  // The newest interval is seen whole. Earlier ones are seen as far as they don't make the curves flat.
  const [least, most] = [low, high];
  for (const one of state.lines.filter((line_) => line_.low && low <= high)) {
    const place = lastPlace(one.low);
    const reach = Math.max(INTERVALS * (most - least), place < 0 ? 0 : one.high[place] - one.low[place]);
    one.x.forEach((x, i) => {
      if (one.low[i] === null || one.low[i] === undefined || scaled(state, x) < min || scaled(state, x) > max) return;
      const whole = i === place || isFew(one);
      low = Math.min(low, whole ? one.low[i] : Math.max(one.low[i], least - reach));
      high = Math.max(high, whole ? one.high[i] : Math.min(one.high[i], most + reach));
    });
  }
  if (low > high) return [0, 1];
  for (const one of state.references) {
    const height = high - low || Math.abs(high) || 1;
    if (one.y >= low - height && one.y <= high + height) {
      low = Math.min(low, one.y);
      high = Math.max(high, one.y);
    }
  }
  const air = 0.08 * (high - low) || 0.05 * Math.abs(high) || 0.5;
  return [low >= 0 ? Math.max(0, low - air) : low - air, high + air]; // nothing is below 0 where no value is
}

// Lines of reference, versions and verdicts, the beginnings of open incidents, and the names of lines at their ends.
function decorate(plot, state) {
  const { ctx } = plot;
  const ratio = globalThis.devicePixelRatio || 1;
  const { left, top, width, height } = plot.bbox;
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.lineWidth = ratio;
  for (const one of state.references) {
    const y = plot.valToPos(one.y, "y", true);
    if (y < top || y > top + height) continue;
    ctx.strokeStyle = ctx.fillStyle = colour("--reference");
    ctx.setLineDash([1 * ratio, 3 * ratio]);
    line(ctx, left, y, left + width, y);
  }
  ctx.textAlign = "center";
  for (const mark of marksWithin(state)) {
    const x = plot.valToPos(scaled(state, at(state, mark)), "x", true);
    ctx.strokeStyle = ctx.fillStyle = colour(`--${mark.kind}`);
    ctx.setLineDash(mark.kind === "version" ? [4 * ratio, 4 * ratio] : []);
    // Alarms are in a lane below the curves.
    if (mark.kind !== "alarm") line(ctx, x, top, x, top + height);
  }
  ctx.setLineDash([]);
  ctx.strokeStyle = colour("--incident");
  for (const band of bandsWithin(state).filter((one) => one.status === "open" && !one.better && one.from >= state.range[0])) {
    const x = plot.valToPos(scaled(state, band.from), "x", true);
    line(ctx, x, top, x, top + height);
  }
  whiskers(plot, state, ctx, ratio);
  if (!narrow(plot.width)) endNames(plot, state, ctx, ratio);
  ctx.restore();
}

// Intervals of few points are those of the points: nothing is known between them.
function whiskers(plot, state, ctx, ratio) {
  ctx.setLineDash([]);
  ctx.lineWidth = 1.5 * ratio;
  state.lines.forEach((one, place) => {
    if (!one.low || !isFew(one)) return;
    ctx.strokeStyle = lineColour(one, place);
    one.x.forEach((x, i) => {
      if (one.low[i] === null || one.low[i] === undefined) return;
      const at_ = plot.valToPos(scaled(state, x), "x", true);
      line(ctx, at_, plot.valToPos(one.low[i], "y", true), at_, plot.valToPos(one.high[i], "y", true));
    });
  });
}

function line(ctx, x, y, toX, toY) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(toX, toY);
  ctx.stroke();
}

// Newest values and names behind the curves, moved apart where they would cover each other; those of references too.
function endNames(plot, state, ctx, ratio) {
  const { left, top, width, height } = plot.bbox;
  const names = [
    ...state.lines.map((one, place) => ({ text: one.short ?? one.name, value: last(one.y), colour: lineColour(one, place), end: plot.valToPos(last(one.y) ?? NaN, "y", true), bold: !one.quiet })),
    ...state.references.map((one) => ({ text: one.short ?? one.text, value: one.y, colour: colour("--reference"), end: plot.valToPos(one.y, "y", true) })),
  ].filter((one) => one.end >= top - 1 && one.end <= top + height + 1).sort((a, b) => a.end - b.end);
  const step = 13 * ratio;
  names.forEach((one, i) => {
    one.y = Math.max(one.end, i ? names[i - 1].y + step : -Infinity);
  });
  for (let i = names.length - 1, most = top + height; i >= 0; i -= 1, most = names[i + 1].y - step) names[i].y = Math.min(names[i].y, most);
  ctx.textAlign = "left";
  for (const one of names) {
    ctx.fillStyle = one.colour;
    ctx.font = `${one.bold ? "600 " : ""}${11 * ratio}px system-ui, sans-serif`;
    const value = `${format(state)(one.value)} `;
    const room = (NAMES - 14) * ratio - ctx.measureText(value).width;
    let text = shown(one.text);
    while (text.length > 1 && ctx.measureText(text).width > room) text = `${text.slice(0, -2)}…`;
    ctx.fillText(value + text, left + width + 9 * ratio, one.y + 4 * ratio);
  }
}

// What is beneath the cursor, in words.
function tell(plot, state, readout) {
  const place = plot.cursor.idx;
  if (place === null || place === undefined || plot.cursor.left < 0) {
    readout.replaceChildren();
    return;
  }
  const x = plot.data[0][place];
  let column = 1;
  const parts = state.lines.map((one) => {
    const value = plot.data[column][place];
    column += one.low ? 3 : 1;
    return value === undefined ? null : `${one.name} ${format(state)(value)}`;
  });
  const near = marksWithin(state).filter((mark) => Math.abs(plot.valToPos(scaled(state, at(state, mark)), "x") - plot.cursor.left) < 6);
  const inside = bandsWithin(state).filter((band) => scaled(state, band.from) <= x && scaled(state, band.to) >= x);
  const where = state.axis === "t" ? clock(x * 1000) : `${whatOf(state)} ${count(x)}`;
  readout.textContent = shown([where, ...parts.filter((part) => part), ...near.slice(0, 5).map((mark) => `${GLYPHS[mark.kind]} ${mark.text}`), ...inside.slice(0, 3).map((band) => `${GLYPHS.incident} ${band.number} ${band.name}`)].join(" · "));
}

function format(state) {
  return state.format ?? number;
}

// How a line looks, and its newest value.
function sample(state, one, column) {
  const place = lastPlace(one.y);
  const end = one.y[place] ?? null;
  const low = one.low?.[place] ?? null;
  const within = low === null ? "" : ` (${number(low)} to ${number(one.high[place])})`;
  return h("span", { class: "sample" },
    svg("svg", { width: 34, height: 8, "aria-hidden": "true", class: one.tone ? `c${one.tone.slice(1)}` : one.quiet ? "line-quiet" : `line-${lookOf(one, column)}` },
      isFew(one) ? svg("circle", { cx: 17, cy: 4, r: 3.5 }) : svg("line", { x1: 1, y1: 4, x2: 33, y2: 4, "stroke-dasharray": dashOf(state.lines, column).join(" ") || null })),
    ` ${one.name} `, h("b", {}, end === null ? "–" : format(state)(end)), within);
}

function notes(state) {
  const kinds = new Set([...marksWithin(state).map((mark) => mark.kind), ...(bandsWithin(state).length ? ["incident"] : [])]);
  return Object.keys(GLYPHS).filter((kind) => kinds.has(kind))
    .map((kind) => h("span", { class: `sample mark-${kind}` }, `${GLYPHS[kind]} ${kind}`));
}

// The newest points as text; only while somebody looks.
function fillTable(details, state) {
  const shownBefore = details.querySelector(".scroll");
  if (shownBefore) shownBefore.remove();
  if (!details.open) return;
  const rows = new Map();
  state.lines.forEach((one, column) => one.x.forEach((x, i) => {
    if (!rows.has(x)) rows.set(x, new Array(state.lines.length).fill(null));
    rows.get(x)[column] = one.y[i];
  }));
  const newest = Array.from(rows).sort((a, b) => b[0] - a[0]).slice(0, LISTED);
  details.append(h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, state.axis === "t" ? "time" : whatOf(state)), state.lines.map((one) => h("th", { scope: "col", class: "number" }, one.name)))),
    h("tbody", {}, newest.map(([x, values]) => h("tr", {}, h("th", { scope: "row" }, state.axis === "t" ? clock(x) : count(x)), values.map((value) => h("td", { class: "number" }, number(value)))))))));
}

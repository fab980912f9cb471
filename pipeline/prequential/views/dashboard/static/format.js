// Numbers and times as they are read. Times are UTC, as in messages and logs.

const UNITS = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];

// A measure in at most eight characters; a dash for none.
export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 5e-4)) return value.toExponential(1);
  if (size >= 1e12) return `${trimmed(value / 1e12)}T`;
  if (size >= 1e9) return `${trimmed(value / 1e9)}G`;
  if (size >= 1e6) return `${trimmed(value / 1e6)}M`;
  if (size >= 1e4) return `${trimmed(value / 1e3)}k`;
  return value.toFixed(size < 10 ? 3 : size < 100 ? 2 : 1);
}

function trimmed(value) {
  return String(Number(value.toPrecision(4)));
}

export function count(value) {
  if (value === null || value === undefined) return "–";
  return value < 1e6 ? (Math.round(value) || 0).toLocaleString("en") : number(value); // no "-0"
}

export function counted(value, what) {
  return `${count(value)} ${what}${value === 1 ? "" : "s"}`;
}

export function percent(share) {
  return share === null || share === undefined ? "–" : `${(100 * share).toPrecision(3)}%`;
}

// A length of time in its largest unit.
export function age(ms) {
  for (const [unit, size] of UNITS) if (ms >= size) return `${Math.floor(ms / size)} ${unit}`;
  return "0 s";
}

// A measured length of time, to three digits.
export function duration(ms) {
  for (const [unit, size] of UNITS) if (ms >= size) return `${Number((ms / size).toPrecision(3))} ${unit}`;
  return `${Number(Number(ms).toPrecision(3))} ms`;
}

// Epoch ms as UTC, to the second: a page has one form of times.
export function clock(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()} ${date.toISOString().slice(11, 19)} UTC`;
}

// The time of day where it is the same day as `now`.
export function moment(ms, now) {
  return new Date(ms).toISOString().slice(0, 10) === new Date(now).toISOString().slice(0, 10) ? clock(ms).slice(-12) : clock(ms);
}

// A length of time of records without times: each row of theirs is a millisecond.
export function inRows(ms) {
  return counted(Math.round(ms), "row");
}

// A name of ours, such as `class_ratio`, in words.
export function words(name) {
  return String(name).replaceAll("_", " ");
}

export function interval(ends) {
  return ends ? `${number(ends[0])} to ${number(ends[1])}` : "–";
}

/** What a partition is called; -1 is all of them together. */
export function place(partition) {
  return partition === -1 ? "all partitions" : `partition ${partition} alone`;
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const DAY = 86400000;
const STEPS = [1, 10, 60, 300, 900, 1800, 3600, 10800, 21600, 43200].map((s) => 1000 * s).concat([1, 2, 7, 14].map((d) => DAY * d));

// Whether the page is about the past, as a report is: its times then have their year.
export const era = { past: false };

// Epoch ms as a day and a minute of UTC, with the year where it is another one than that of `now`.
export function short(ms, now) {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const year = !era.past && now !== undefined && new Date(now).getUTCFullYear() === date.getUTCFullYear() ? "" : ` ${date.getUTCFullYear()}`;
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}${year} ${date.toISOString().slice(11, 16)}`;
}

// Round times between two ends (epoch ms), at most `room`, each with its text. The first tick of each year has it,
// where the ends are in different years or a year apart from now.
export function timeTicks(low, high, room) {
  if (!(high > low) || Math.abs(low) > 8e15 || high > 8e15) return [];
  const step = STEPS.find((one) => (high - low) / one <= room);
  if (step) {
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
      const date = new Date(at);
      const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
      const time = date.toISOString().slice(11, step < 60000 ? 19 : 16);
      found.push([at, step >= DAY || (time.startsWith("00:00") && step >= 3600000) ? day : time]);
    }
    return step >= DAY ? withYears(found) : found;
  }
  const all = [];
  const first = new Date(low);
  for (let month = first.getUTCFullYear() * 12 + first.getUTCMonth(); ; month += 1) {
    const at = Date.UTC(Math.floor(month / 12), month % 12, 1);
    if (at > high) break;
    if (at >= low) all.push([at, month]);
  }
  // So that ticks stay in step with years, every 1, 2, 3, 4, 6 or 12 months, or whole years.
  const least = all.length / room;
  const every = [1, 2, 3, 4, 6, 12].find((one) => one >= least) ?? 12 * Math.ceil(least / 12);
  const chosen = all.filter(([, month]) => month % every === 0);
  if (every >= 12) return chosen.map(([at, month]) => [at, String(Math.floor(month / 12))]);
  return withYears(chosen.map(([at, month]) => [at, MONTHS[month % 12]]));
}

function withYears(found) {
  const yearOf = (place) => new Date(found[place][0]).getUTCFullYear();
  return found.map(([at, text], i) => [at, i === 0 || yearOf(i) !== yearOf(i - 1) ? `${text} ${yearOf(i)}` : text]);
}

// A difference, with its sign.
export function signed(value) {
  return value === null || value === undefined ? "" : `${value < 0 ? "-" : "+"}${number(Math.abs(value))}`;
}

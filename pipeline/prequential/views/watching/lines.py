"""Messages as plain lines, for output that isn't a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from prequential.engine.measures.declaration import CLASSIFICATION, MULTILABEL, REGRESSION
from prequential.engine.measures.registry import OF_NUMBERS, OF_SETS
from prequential.topics.errors import printable
from prequential.topics.outputs import ALL_PARTITIONS, Incident
from prequential.topics.specs import COMPARISONS, DRIFT_ALARMS, INCIDENTS
from prequential.views.watching.incidents import decode_incident
from prequential.views.watching.messages import (
    Heading,
    Notice,
    Reading,
    decode_comparison,
    decode_heading,
    decode_notice,
    decode_reading,
)
from prequential.views.watching.state import WatchState
from prequential.views.watching.text import clock
from prequential.views.wording.comparing import Pair, pair_of
from prequential.views.wording.measures import COLUMNS

#: The most measures in a line, by task.
_MEASURES = {CLASSIFICATION: 4, MULTILABEL: 4, REGRESSION: 3}


def line(topic: str, value: bytes, split: Collection[str] = ()) -> str:
    """Return a message of a topic as one line; raises msgspec's errors if it can't be read.

    `split` are the streams in several partitions. For these, the line ends with the partition.
    """
    if topic == DRIFT_ALARMS:
        alarm = decode_notice(value)
        return alarm_line(alarm) + _place(alarm, split)
    if topic == INCIDENTS:
        incident = decode_incident(value)
        return incident_line(incident) + _place(incident, split)
    if topic == COMPARISONS:
        pair = pair_of(decode_comparison(value))
        return comparison_line(pair) + _place(pair, split)
    heading = decode_heading(value)
    return metrics_line(heading, decode_reading(value)) + _place(heading, split)


def newest_lines(state: WatchState) -> Iterator[str]:
    """Yield the newest message of each sequence by name with its pairs; then alarms and incidents."""
    alarms: list[Notice] = []
    incidents: list[Incident] = []
    for key, model in sorted(state.models.items()):
        for sequence in sorted(model.sequences, key=lambda one: (one.segment or "", *one[1:])):
            if (reading := state.reading(model.sequences[sequence])) is not None:
                heading = Heading(
                    key.stream, key.model, *sequence, key.partition, same=model.sequences[sequence].same
                )
                yield metrics_line(heading, reading) + _place(heading, state.split)
        for pair in state.pairs(key.stream, key.partition):
            # A pair is listed with its first model, unless that model is not selected.
            first = key._replace(model=pair.model)
            if key.model == (pair.model if first in state.models else pair.against):
                yield comparison_line(pair) + _place(pair, state.split)
        incidents += [one.message for one in model.incidents.newest_first()]
        alarms += [alarm for change in model.changes.newest_first() for alarm in change.alarms]
    for alarm in sorted(alarms, key=lambda alarm: alarm.ts):
        yield alarm_line(alarm) + _place(alarm, state.split)
    for incident in sorted(incidents, key=lambda one: one.ts):
        yield incident_line(incident) + _place(incident, state.split)


def metrics_line(heading: Heading, reading: Reading) -> str:
    """Return a metrics message as a line; `-` stands for a missing time or value.

    >>> metrics_line(Heading("s", "nb", None, "final", "all"), Reading(2, 2, 0, {"kappa": 0.5}))
    '1970-01-01T00:00:00Z s nb final all n=2 outcomes=2 accuracy=- kappa=0.5000 kappa_per=- kappa_plus=-'
    """
    task = REGRESSION
    if (known := reading.measures.keys()).isdisjoint(OF_NUMBERS):
        task = CLASSIFICATION if known.isdisjoint(OF_SETS) else MULTILABEL
    values = ((name, reading.measures.get(name)) for name in COLUMNS[task][: _MEASURES[task]])
    return _line(
        None if reading.untimed else reading.ts,
        heading,
        f"{heading.estimator} n={reading.n:.0f} outcomes={reading.outcomes}",
        *(f"{name}={'-' if value is None else f'{value:.4f}'}" for name, value in values),
    )


def comparison_line(pair: Pair) -> str:
    """Return the verdicts about two models over all history, and over the latest outcomes, as a line.

    `-` stands for an unknown or undecided verdict.
    """
    low, high = pair.interval or (None, None)
    latest = pair.latest
    of_latest = () if latest is None else (
        f"latest={latest.estimator}", f"latest_difference={latest.difference:.4f}",
    )  # fmt: skip
    values = (("difference", pair.difference), ("low", low), ("high", high))
    return _line(
        None if pair.untimed else pair.ts,
        pair,
        f"COMPARED against={pair.against} loss={pair.loss} outcomes={pair.outcomes}",
        *(f"{name}={'-' if value is None else f'{value:.4f}'}" for name, value in values),
        f"verdict={pair.verdict} since={pair.since or '-'}",
        *of_latest,
    )


def alarm_line(alarm: Notice) -> str:
    """Return an alarm as a line: its signal, and its place in its sequence."""
    return _line(
        None if alarm.untimed else alarm.ts,
        alarm,
        f"ALARM {alarm.detector} {alarm.signal}",
        f"outcome={alarm.outcome}",
        f"statistic={alarm.statistic:.6g}",
        f"threshold={alarm.threshold:g}",
    )


def incident_line(incident: Incident) -> str:
    """Return an incident as a line: its first outcome, its severity, and its causes."""
    causes = ",".join(f"{one['cause']}:{one['share']:.2f}" for one in incident.causes)
    return _line(
        None if incident.untimed else incident.ts,
        incident,
        f"INCIDENT {incident.id[:8]} {incident.status}",
        f"since={incident.change_point['outcome']}",
        f"before={incident.before['level']:.4f}",
        f"after={incident.after['level']:.4f}",
        f"severity={incident.severity:.2f}",
        f"causes={causes}",
        f"alarms={incident.alarm_count}",
    )


def _line(ts: int | None, about: Heading | Pair | Notice | Incident, *details: str) -> str:
    names = [about.stream, about.model, about.segment, about.stage]
    when = "-" if ts is None else clock(ts)
    same = f"same={','.join(about.same)}" if about.same else None
    return printable(" ".join((when, *(name for name in (*names, *details, same) if name is not None))))


def _place(about: Heading | Pair | Notice | Incident, split: Collection[str]) -> str:
    return f" partition={partition_name(about.partition)}" if about.stream in split else ""


def partition_name(partition: int) -> str:
    """Return the name of a partition.

    >>> partition_name(3), partition_name(-1)
    ('3', 'all')
    """
    return "all" if partition == ALL_PARTITIONS else str(partition)

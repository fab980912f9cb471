"""Facts: changes of a shard's state, for an observer that reads messages about them.

Code that changes state is an iterator of facts. It makes the next changes when its caller asks for the next
fact, so until then the state is the one that the fact names. The caller must go through the whole iterator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.streams import Entity
from prequential.engine.delay.due_periods import PeriodState
from prequential.engine.detectors.objectives import PeriodAlarm
from prequential.topics.outputs import Alarm


class MetricsDue(NamedTuple):
    """These entities (rows) count as reported, in their present state."""

    rows: Sequence[int]
    covered: bool = False  # whether all records so far are accounted for


class PeriodForecast(NamedTuple):
    """The estimates of a period: `expected` in its message, and its maturity (-1: before its end)."""

    maturity: int
    message: dict[str, Any]
    alarms: list[PeriodAlarm]
    book: dict[str, Any] | None = None  # `expected_book` in the message about the newest whole period


class PeriodDue(NamedTuple):
    """A period of a model (row) counts as reported, in this state."""

    model: int
    state: PeriodState
    measures: tuple[dict[str, float], dict[str, str]]  # of its labels so far; why others have no value
    forecast: PeriodForecast | None


class PeriodsDue(NamedTuple):
    """Periods count as reported, in the order of streams and models."""

    periods: list[PeriodDue]
    #: By model, the periods (rows) that changed enough or became final; others only have new estimates.
    changed: dict[int, list[int]]


class AlarmRaised(NamedTuple):
    """An outcome or a period has raised an alarm, which incidents join by its id."""

    alarm: Alarm


class IncidentChanged(NamedTuple):
    """The open incident of a model has begun or changed, or ends now."""

    entity: Entity


class DueReport(NamedTuple):
    """A sequence of a pair that counts as reported, in its present state."""

    number: int  # of its tables
    side: int
    row: int
    group: int  # number of the instance that has made it due, going up
    revised: tuple[int, int]  # revisions of both until then
    encounters: int = 0  # of the log of the micro-batch, those until then; 0: tables have all of them


class ComparisonsDue(NamedTuple):
    """Sequences of pairs count as reported."""

    reports: list[DueReport]


class ModelSequence(NamedTuple):
    """A model's sequence in a stage, whose groups are compared."""

    plan: Plan
    entity: Entity
    stage_index: int
    row: int


class GroupsDue(NamedTuple):
    """The groups of models' sequences count as reported."""

    sequences: list[ModelSequence]
    after: int = 0  # row of the outcome log that has made them due


class PartsDue(NamedTuple):
    """Parts of streams in all partitions are due, from one multiple of `emit.every` (ms) to another."""

    every: int
    since: int
    until: int | None  # None: the end of a replay


class RecordRejected(NamedTuple):
    """A record is invalid."""

    kind: int
    offset: int
    reason: str
    #: The number of its row in its message; None if the message is one record.
    row: int | None = None


Fact: TypeAlias = (
    MetricsDue | PeriodsDue | AlarmRaised | IncidentChanged | ComparisonsDue | GroupsDue | PartsDue
    | RecordRejected
)  # fmt: skip

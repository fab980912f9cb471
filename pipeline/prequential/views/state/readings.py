"""Decode messages as far as they are shown: other fields are skipped, and unknown fields are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from prequential.configuration.settings.stages import sides
from prequential.engine.tables.scores import SCORE_BINS
from prequential.topics.foreign_json import Unreadable, converted, reader
from prequential.topics.outputs import BY_PARTITION, Comparison

#: The value of a missing field.
ABSENT = msgspec.Raw()


class WaitingCount(msgspec.Struct, frozen=True, gc=False):
    """The number of pending predictions in a message's `counts`."""

    waiting: int | None = None


class Heading(msgspec.Struct, gc=False):
    """The identifying fields of a metrics message, which take a quarter of the time to decode all of it.

    `coverage` and `period` stay undecoded.
    """

    stream: str
    model: str
    segment: str | None
    stage: str
    estimator: str
    #: Workers of earlier versions omit this field, which then means the first partition.
    partition: int = 0
    outcomes: int = 0
    ts: int = 0
    model_version: str | None = None
    version_since: int | None = None
    coverage: msgspec.Raw = ABSENT
    period: msgspec.Raw = ABSENT
    counts: WaitingCount = WaitingCount()
    config: str = ""
    #: No record had a time: `ts` is none.
    untimed: bool = False
    #: Stages that are the same up to now, and have no messages.
    same: tuple[str, ...] = ()


class Reading(msgspec.Struct, gc=False):
    """The state of an estimator, as a metrics message has it; fields are those of `outputs.Metrics`."""

    n: float
    outcomes: int
    ts: int
    measures: dict[str, float]
    undefined: dict[str, str] = {}
    counts: dict[str, int] = {}
    model_version: str | None = None
    #: The first outcome of this model version.
    version_since: int | None = None
    started_empty: bool = False
    #: By measure, if configured.
    intervals: dict[str, tuple[float, float]] = {}
    #: By label and prediction, and by class; if configured.
    confusion: dict[str, dict[str, float]] = {}
    per_class: dict[str, dict[str, float]] = {}
    #: Histogram of the positive class's scores, if configured.
    scores: dict[str, Any] = {}
    #: Measures of the reference period, and the differences from them, if configured.
    reference: dict[str, Any] = {}
    #: Deciles of predicted numbers.
    residuals: dict[str, Any] = {}
    untimed: bool = False
    same: tuple[str, ...] = ()


class PeriodProgress(msgspec.Struct, gc=False):
    """The period of prediction time in a message, and its progress (epoch ms, counts)."""

    start: int
    end: int = 0
    predictions: int = 0
    labelled: int = 0
    status: str = "provisional"


class PeriodExpectation(msgspec.Struct, gc=False):
    """Expected measures of a period; `maturity` is None until the period's time has passed."""

    #: By measure: value, interval and record, as in the message.
    measures: dict[str, dict[str, Any]] = {}
    maturity: float | None = None


class PeriodReading(msgspec.Struct, gc=False):
    """A message about a period; `measures` are computed from the labels so far."""

    period: PeriodProgress
    measures: dict[str, float]
    expected: PeriodExpectation | None = None
    untimed: bool = False

    @property
    def is_final(self) -> bool:
        """Whether all expected labels of the period have arrived."""
        return self.period.status == "final"

    @property
    def is_whole(self) -> bool:
        """Whether the period's time is known to have passed."""
        return self.is_final or (self.expected is not None and self.expected.maturity is not None)


class Notice(msgspec.Struct, gc=False):
    """A drift alarm, in any version of its message; fields as in `outputs.Alarm`."""

    stream: str
    model: str
    segment: str | None
    stage: str
    detector: str
    signal: str
    outcome: int
    ts: int
    statistic: float
    threshold: float
    partition: int = 0
    id: str = ""
    instance_id: str = ""
    untimed: bool = False
    same: tuple[str, ...] = ()


Interval = tuple[float, float]


# The fields that are shown from objects whose schema is open. A message with fields of other types can't be
# read: it is only counted.


#: A weight as a number of equal outcomes; its limit keeps sums precise.
_Weight = Annotated[float, msgspec.Meta(ge=0, le=1 << 53)]


class _Scores(msgspec.Struct):
    bins: list[Annotated[int, msgspec.Meta(ge=0, lt=SCORE_BINS)]]
    negatives: list[_Weight]
    positives: list[_Weight]

    def __post_init__(self) -> None:
        if not len(self.bins) == len(self.negatives) == len(self.positives):
            raise ValueError("expected as many negatives and positives as bins")


class _Beside(msgspec.Struct):
    value: float
    difference: float
    interval: Interval | None


class _Reference(msgspec.Struct):
    outcomes: int = 0
    measures: dict[str, _Beside] = {}


class _Record(msgspec.Struct):
    finals: int = 0
    coverage: float | None = None
    mean_error: float | None = None
    labelled_so_far: float | None = None
    last_final: float | None = None
    lost_to: str | None = None


class _ExpectedMeasure(msgspec.Struct):
    value: float
    interval: Interval | None = None
    record: _Record | None = None


class _Verdict(msgspec.Struct):
    """A verdict and the outcome since which it holds, for all history or for recent outcomes."""

    verdict: Literal["a_better", "b_better", "equivalent", "undecided", "by_partition"]
    since: int | None

    def __post_init__(self) -> None:
        if (self.since is None) != (self.verdict in ("undecided", BY_PARTITION)):
            raise ValueError("expected since with a verdict, and none while it is undecided or by_partition")


class _PendingFields(msgspec.Struct):
    predictions: float
    labels: float
    right: float
    interval: Interval | None = None


class _Coverage(msgspec.Struct):
    label_latency_ms: dict[str, float] | None = None
    recent_label_latency_ms: dict[str, float] | None = None
    labelled: dict[str, float] | None = None
    labelled_by_class: dict[str, float] | None = None
    segment_psi: dict[str, float] | None = None
    waiting_expected: _PendingFields | None = None


decode_heading = reader(Heading)
decode_notice = reader(Notice)
_reading = reader(Reading)
_period = reader(PeriodReading)
_comparison = reader(Comparison)
_coverage = reader(dict[str, Any])


def decode_reading(value: bytes) -> Reading:
    """Decode the state of an estimator; raises Unreadable if it can't be read."""
    read = _reading(value)
    if read.scores:
        converted(read.scores, _Scores)
    if read.reference:
        converted(read.reference, _Reference)
    return read


def decode_period(value: bytes) -> PeriodReading:
    """Decode a message about a period; raises Unreadable if it can't be read."""
    read = _period(value)
    if read.expected is not None:
        converted(read.expected.measures, dict[str, _ExpectedMeasure])
    return read


def decode_comparison(value: bytes) -> Comparison:
    """Decode a comparison of two models; raises Unreadable if it can't be read."""
    read = _comparison(value)
    converted({"verdict": read.verdict, "since": read.since}, _Verdict)
    if read.recent:
        converted(read.recent, _Verdict)
    if read.model == read.against and len(sides(read.stage)) != 2:
        raise Unreadable(f"{read.model} against itself in stage {read.stage!r}: expected two stages")
    return read


def decode_coverage(value: bytes | msgspec.Raw) -> dict[str, Any]:
    """Decode the label coverage; raises Unreadable if it can't be read."""
    read = _coverage(bytes(value))
    converted(read, _Coverage)
    return read

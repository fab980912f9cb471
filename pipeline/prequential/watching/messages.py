"""Messages as far as they are shown: what isn't needed isn't decoded, and what is new is no obstacle."""

from __future__ import annotations

from typing import Any

import msgspec
from prequential.topics.outputs import Comparison

#: Stands for a field that isn't there.
ABSENT = msgspec.Raw()


class Heading(msgspec.Struct, gc=False):
    """What a metrics message is about: a quarter of the cost of decoding it as a whole.

    `coverage` and `period` are left as they are.
    """

    stream: str
    model: str
    segment: str | None
    stage: str
    estimator: str
    #: Whose absence (from a worker before there was such a field) means the first partition.
    partition: int = 0
    outcomes: int = 0
    ts: int = 0
    model_version: str | None = None
    version_since: int | None = None
    coverage: msgspec.Raw = ABSENT
    period: msgspec.Raw = ABSENT
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
    #: The outcome that was the first of this version.
    version_since: int | None = None
    started_empty: bool = False
    #: By measure, where the configuration asks for them.
    intervals: dict[str, tuple[float, float]] = {}
    #: By label and prediction, and by class; where the configuration asks for them.
    confusion: dict[str, dict[str, float]] = {}
    per_class: dict[str, dict[str, float]] = {}
    #: Histogram of the positive class's scores, likewise.
    scores: dict[str, Any] = {}
    #: First outcomes that it stands beside, likewise.
    reference: dict[str, Any] = {}
    #: Deciles of predicted numbers.
    residuals: dict[str, Any] = {}
    #: No record had a time: `ts` is none.
    untimed: bool = False
    #: Stages that are the same up to now, and have no messages.
    same: tuple[str, ...] = ()


class Period(msgspec.Struct, gc=False):
    """Of a message about a period of prediction time: which one, and how far it is (epoch ms, counts)."""

    start: int
    end: int = 0
    predictions: int = 0
    labelled: int = 0
    status: str = "provisional"


class Expected(msgspec.Struct, gc=False):
    """What is expected of a period; `maturity` is None while its time isn't over."""

    #: By measure its value, interval and record, as the message has them.
    measures: dict[str, dict[str, Any]] = {}
    maturity: float | None = None


class PeriodReading(msgspec.Struct, gc=False):
    """A message about a period; `measures` are those of the labels there are."""

    period: Period
    measures: dict[str, float]
    expected: Expected | None = None
    untimed: bool = False

    @property
    def is_final(self) -> bool:
        """Whether its labels are there, as far as they come."""
        return self.period.status == "final"

    @property
    def is_whole(self) -> bool:
        """Whether its time is known to be over."""
        return self.is_final or (self.expected is not None and self.expected.maturity is not None)


class Notice(msgspec.Struct, gc=False):
    """A drift alarm, of the versions of its message that there have been; fields as in `outputs.Alarm`."""

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
    #: No record had a time: `ts` is none.
    untimed: bool = False
    #: Stages that are the same up to now, and have no messages.
    same: tuple[str, ...] = ()


decode_heading = msgspec.json.Decoder(Heading).decode
decode_reading = msgspec.json.Decoder(Reading).decode
decode_period = msgspec.json.Decoder(PeriodReading).decode
decode_comparison = msgspec.json.Decoder(Comparison).decode
decode_notice = msgspec.json.Decoder(Notice).decode
decode_coverage = msgspec.json.Decoder(dict[str, Any]).decode

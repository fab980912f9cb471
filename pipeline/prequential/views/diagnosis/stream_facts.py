"""Facts about streams and their records, and findings, which are sentences about likely mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from prequential.engine.input.refusals import Refusal
from prequential.mapping.clocks import Clocks, TimeColumn
from prequential.mapping.uses import Uses
from prequential.views.diagnosis.identifiers import IdentifierDifference

#: Records after the longest step of time that count as few: this number, or this share.
_FEW, _FEW_SHARE = 3, 0.01


class Finding(NamedTuple):
    """A likely mistake. `code` is its kind; `stream` is None if it is about no single stream.

    Findings `about` the same are one finding, even if the numbers in their sentences differ.
    """

    code: str
    stream: str | None
    sentence: str
    about: str = ""

    def __str__(self) -> str:
        return self.sentence if self.stream is None else f"{self.stream}: {self.sentence}"


class OddRecords(NamedTuple):
    """Records of a kind whose times are odd in one way (see `core.input.odd_times`)."""

    oddity: int
    kind: int
    number: int
    place: str | None  # of the first one


class Step(NamedTuple):
    """The longest step of a stream's time: from `before` to `at` (ms), the ts of a record of a kind."""

    before: int
    at: int
    kind: int
    earlier: int  # records before it, and records as late or later
    later: int
    place: str | None

    @property
    def is_astray(self) -> bool:
        """Return whether the few records after it may have a wrong time."""
        return self.later <= max(_FEW, _FEW_SHARE * (self.earlier + self.later))


class Example(NamedTuple):
    """Ids of pending instances: one with predictions and no label, one with a label only."""

    prediction: str | None = None
    label: str | None = None


#: No instance is pending, or nothing was searched.
NO_EXAMPLE = Example()


@dataclass(frozen=True)
class StreamFacts:
    """The facts of one stream in one partition. Times are ms; triples are by kind of record."""

    name: str
    partition: int
    task: str
    horizon: int
    records: tuple[int, int, int]  # usable ones
    earliest: tuple[int, int, int]  # ts, 0 without records
    latest: tuple[int, int, int]
    matched: int  # labels that met a prediction
    late_predictions: int  # made after their labels
    late_labels: int
    lateness: int | None = None  # median time of late labels beyond the horizon, if it is known
    reused: tuple[int, int] = (0, 0)  # of predictions that were followed: all, and with an id of others
    latency: int | None = None  # median from predictions to labels with the same id, met or not
    sampled: tuple[int, int] = (0, 0)  # of sampled ids: those with a label; of these, with a prediction
    settle: int = 0
    unmatched: int = 0  # labels that had met no prediction when their horizon ended
    waiting_labels: int = 0
    after_settle: int = 0  # labels of instances that were settled and forgotten
    first_after_settle: str | None = None  # where the first one is
    odd: tuple[OddRecords, ...] = ()  # records whose times are odd
    step: Step | None = None  # the longest step of time
    cause: IdentifierDifference | None = None  # why ids differ
    ended: bool = False  # whether no more records come
    predicted: tuple[str, ...] = ()  # classes that predictions have named, and labels, if these are few
    labelled: tuple[str, ...] = ()
    positive_class: str | None = None
    classes: tuple[str, ...] = ()  # of labels, the most frequent first
    named: tuple[str, ...] = ()  # all classes of the stream
    costs: tuple[str, ...] = ()  # classes that `costs` name
    at_horizon: str | None = None  # `label_at_horizon`
    scored: tuple[int, int] = (0, 0)  # predictions with probabilities; without one of their own class
    foreign: tuple[str, ...] = ()  # names in the latter, if none of them is the class of a label
    unseen_keys: tuple[str, ...] = ()  # of segments: configured, in no record
    other_keys: tuple[str, ...] = ()  # … in records, not configured
    example: Example = NO_EXAMPLE
    models: tuple[str, ...] = ()
    champion: str | None = None  # where others are compared with it alone
    lacking: tuple[tuple[str, str], ...] = ()  # measures without a value in any model, and the reason of each
    estimate: str | None = None  # the model whose predictions estimate errors
    pairs_left_out: int = 0  # pairs of models beyond `most_pairs`, which aren't compared
    most_pairs: int = 0
    lost: bool = False  # whether records are missing, so that labels may have lost their predictions


@dataclass(frozen=True)
class Facts:
    """The facts of some shards together, in which `findings` searches for mistakes."""

    streams: tuple[StreamFacts, ...]
    records: tuple[int, int, int]  # read, invalid ones included
    reasons: tuple[Refusal, ...] = ()  # why some are invalid
    configured: tuple[str, ...] = ()  # streams with a section of their own that should be here
    misplaced: tuple[tuple[str, int], ...] = ()  # streams in a partition of other streams, and their records
    elsewhere: frozenset[str] = frozenset()  # streams of which other processes may have a part
    clocks: Mapping[str, Clocks] = field(default_factory=dict)  # zones of times, by input
    time_columns: tuple[TimeColumn, ...] = ()  # of files without times, which may contain times
    uses: tuple[Uses, ...] = ()  # values and conditions of mappings that have occurred

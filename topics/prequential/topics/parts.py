"""What one partition knows of a stream whose instances lie in all of them (`key: instance`): it adds up.

Such *parts* go from the shards to who merges them, by the topic `prequential-parts`. Everything in them is
named, as codes differ from shard to shard, and is a total up to a moment: of two parts of one partition the
later one says all.
"""

from __future__ import annotations

from typing import Any

import msgspec
from prequential.topics import foreign_json

#: Counts of what was lost to retention, where anything was.
LOST = ("lost_records", "lost_journal_entries")

#: Count of deleted records that an earlier state had processed. Only the ids of messages depend on it.
FORGOTTEN = "forgotten_records"


class MemoryPart(msgspec.Struct, gc=False, omit_defaults=True):
    """What an estimator that adds up has of one sequence."""

    #: As in messages.
    stage: str
    estimator: str
    #: Label time (epoch ms) as of which weights are; 0 where they don't fade.
    at: int = 0
    #: Label, prediction (positions in `Part.classes`) and how many outcomes, or their weight.
    cells: list[tuple[int, int, float]] = []
    #: Sums of scores (`engine.tables.scores`), where there are any.
    sums: list[float] | None = None
    #: For regression: weight and mean of the labels, and Σw(y - ȳ)².
    labels: tuple[float, float, float] | None = None
    #: What the mean of the labels has no digits for.
    rest: float = 0.0
    #: Histogram of the positive class's scores: place and how many.
    scores: list[tuple[int, float]] | None = None
    #: Sums of costs by value (`engine.measures.costs`).
    paid: list[float] | None = None


class Foreseen(msgspec.Struct, gc=False, omit_defaults=True):
    """What is expected of a period that is provisional, of all its predictions that have or get a label."""

    #: How many these are.
    n: float
    #: How much of the difference between labels and calibration is believed, 0 … 1.
    weight: float
    #: False where nothing can be said before a horizon has passed.
    known: bool = True
    #: As in `MemoryPart`.
    cells: list[tuple[int, int, float]] = []
    #: How many will be wrong, and right, where classes are too many to be told apart.
    right: tuple[float, float] | None = None
    #: The first sums of scores, as in `MemoryPart`, where mean losses are expected.
    sums: list[float] | None = None
    #: Histogram of scores, as in `MemoryPart`, where ranks are expected.
    scores: list[tuple[int, float]] | None = None
    #: By measure half of the width of its interval, where it has one.
    halves: dict[str, float] = {}


class PeriodPart(msgspec.Struct, gc=False, omit_defaults=True):
    """What has become of the predictions of one period (`engine.delay.periods`)."""

    #: Epoch ms.
    start: int
    end: int
    predictions: int
    #: Of its outcomes, as of an estimator that forgets nothing.
    memory: MemoryPart
    labelled: int = 0
    revisions: int = 0
    corrections: int = 0
    at_horizon: int = 0
    #: The newest label time (epoch ms), even if that label was withdrawn; 0 without labels.
    ts: int = 0
    #: Whether it is final in this partition.
    final: bool = False
    #: Whether it has changed enough by `Part.since` to be spoken of.
    said: bool = False
    #: Until it is final, what it will be like then, as far as that is estimated.
    expected: Foreseen | None = None


class Evaluated(msgspec.Struct, gc=False, omit_defaults=True):
    """A model, one of its segments, or it at an age."""

    model: str
    segment: str | None
    #: In which order messages go (`engine.tables.streams`).
    kind: int
    age: str | None
    outcomes: int
    revisions: int
    ts: int
    initial_is_final: bool
    counts: dict[str, int]
    memories: list[MemoryPart]
    #: Of a model: what became of its predictions; counts that add up.
    coverage: dict[str, Any] | None = None
    #: Of a model: those that aren't forgotten, in order of time.
    periods: list[PeriodPart] = []
    #: The stream's `changes` there at its newest outcome or revision.
    newest_change: int = 0


class Compared(msgspec.Struct, gc=False, omit_defaults=True):
    """Joint outcomes of two models by one loss, in one stage."""

    model: str
    against: str
    segment: str | None
    stage: str
    loss: str
    #: Whether `memories` are counts, else sums of losses.
    counted: bool
    outcomes: int
    ts: int
    #: k: the pair is the k-th of the stream that began in this stage and segment.
    pairs: int
    #: By estimator its name, the label time (epoch ms) as of which weights are, and the four cells 2·(A is
    #: wrong) + (B is wrong), or the sums of both models' losses and their number.
    memories: list[tuple[str, int, list[float]]]
    same: list[str] = []
    #: Revisions of both models' outcomes.
    revisions: int = 0


class PredictedByBoth(msgspec.Struct, gc=False, omit_defaults=True):
    """How often the first predictions of two models differ, with or without labels."""

    model: str
    against: str
    #: Instances that both have predicted, and those that they have predicted differently.
    n: int
    differing: int
    #: Time of the newest of these, epoch ms.
    ts: int
    #: Upper bound of the expected share, at the pair's level divided by the number of partitions.
    at_most: float
    #: The clusters (days) that the bound counts by, and how many it takes; null: instances have none.
    clusters: tuple[int, int] | None = None
    #: Whether each model has predicted each instance once.
    once: bool = True


class Part(msgspec.Struct, gc=False, omit_defaults=True):
    """What a partition knows of a stream."""

    stream: str
    #: Which one it is, of how many.
    partition: int
    partitions: int
    #: The digest of the stream's settings there.
    config: str
    #: `emit.every` (ms), of which `since` and `until` are multiples.
    every: int
    #: It is so at each of these moments of record time (epoch ms), and between them.
    since: int
    until: int
    #: The stream's clock there, epoch ms.
    clock: int = 0
    #: Names of the classes that cells speak of.
    classes: list[str] = []
    #: Of the stream's records; they add up.
    counts: dict[str, int] = {}
    #: By bin of label latencies how many, of all labels and of the latest ones.
    latencies: tuple[dict[int, int], dict[int, int]] = ({}, {})
    #: Models, in the order in which they came there, with the record times (epoch ms) of their first
    #: predictions.
    models: dict[str, int] = {}
    #: By segment key the values that have segments of their own there, as `models`.
    values: dict[str, dict[str, int]] = {}
    #: Models that are compared with each other there, each pair in either order.
    pairs: list[tuple[str, str]] = []
    #: Versions that gave way to newer ones there, of which other partitions may still have some.
    retired: list[str] = []
    evaluated: list[Evaluated] = []
    compared: list[Compared] = []
    predicted: list[PredictedByBoth] = []


decode = foreign_json.reader(Part)
encode = msgspec.json.Encoder().encode

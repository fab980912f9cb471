"""What one partition knows of a stream whose instances lie in all of them (`key: instance`): it adds up.

Such *parts* go from the shards to who merges them, by the topic `prequential-parts`. Everything in them is
named, as codes differ from shard to shard, and is a total up to a moment: of two parts of one partition the
later one says all.
"""

from __future__ import annotations

from typing import Any

import msgspec

#: Counts of what was lost to retention, where anything was.
LOST = ("lost_records", "lost_journal_entries")


class MemoryPart(msgspec.Struct, gc=False, omit_defaults=True):
    """What an estimator that adds up has of one sequence.

    Attributes
    ----------
    stage, estimator
        As in messages.
    at
        Label time (epoch ms) as of which weights are; 0 where they don't fade.
    cells
        Label, prediction (positions in `Part.classes`) and how many outcomes, or their weight.
    sums
        Sums of scores (`engine.tables.scores`), where there are any.
    labels
        Of numbers: weight and mean of the labels, and Σw(y - ȳ)².
    rest
        What the mean of the labels has no digits for.
    scores
        Histogram of the positive class's scores: place and how many.
    paid
        Sums of costs by value (`engine.measures.costs`).
    """

    stage: str
    estimator: str
    at: int = 0
    cells: list[tuple[int, int, float]] = []
    sums: list[float] | None = None
    labels: tuple[float, float, float] | None = None
    rest: float = 0.0
    scores: list[tuple[int, float]] | None = None
    paid: list[float] | None = None


class Foreseen(msgspec.Struct, gc=False, omit_defaults=True):
    """What is expected of a period that is provisional, of all its predictions that have or get a label.

    Attributes
    ----------
    n
        How many these are.
    weight
        How much of the difference between labels and calibration is believed, 0 … 1.
    known
        False where nothing can be said before a horizon has passed.
    cells
        As in `MemoryPart`.
    right
        How many will be wrong, and right, where classes are too many to be told apart.
    sums
        The first sums of scores, as in `MemoryPart`, where mean losses are expected.
    halves
        By measure half of the width of its interval, where it has one.
    """

    n: float
    weight: float
    known: bool = True
    cells: list[tuple[int, int, float]] = []
    right: tuple[float, float] | None = None
    sums: list[float] | None = None
    halves: dict[str, float] = {}


class PeriodPart(msgspec.Struct, gc=False, omit_defaults=True):
    """What has become of the predictions of one period (`engine.delay.periods`).

    Attributes
    ----------
    start, end
        Epoch ms.
    memory
        Of its outcomes, as of an estimator that forgets nothing.
    ts
        The newest label time (epoch ms); 0 without labels.
    final
        Whether it is final in this partition.
    said
        Whether it has changed enough by `Part.since` to be spoken of.
    expected
        Until it is final, what it will be like then, as far as that is estimated.
    """

    start: int
    end: int
    predictions: int
    memory: MemoryPart
    labelled: int = 0
    revisions: int = 0
    corrections: int = 0
    at_horizon: int = 0
    ts: int = 0
    final: bool = False
    said: bool = False
    expected: Foreseen | None = None


class Evaluated(msgspec.Struct, gc=False, omit_defaults=True):
    """A model, one of its segments, or it at an age.

    Attributes
    ----------
    kind
        In which order messages go (`engine.tables.streams`).
    single
        Whether `initial` is the same as `final`, which has it.
    changed
        Whether there are outcomes or revisions that the part before this one hadn't.
    coverage
        Of a model: what became of its predictions; counts that add up.
    periods
        Of a model: those that aren't forgotten, in order of time.
    """

    model: str
    segment: str | None
    kind: int
    age: str | None
    outcomes: int
    revisions: int
    ts: int
    initial_is_final: bool
    changed: bool
    counts: dict[str, int]
    memories: list[MemoryPart]
    coverage: dict[str, Any] | None = None
    periods: list[PeriodPart] = []


class Compared(msgspec.Struct, gc=False, omit_defaults=True):
    """Joint outcomes of two models by one loss, in one stage.

    Attributes
    ----------
    counted
        Whether `memories` are counts, else sums of losses.
    pairs
        k: the pair is the k-th of the stream that began in this stage and segment.
    memories
        By estimator its name, the label time (epoch ms) as of which weights are, and the four cells
        2·(A is wrong) + (B is wrong), or the sums of both models' losses and their number.
    """

    model: str
    against: str
    segment: str | None
    stage: str
    loss: str
    counted: bool
    outcomes: int
    ts: int
    pairs: int
    memories: list[tuple[str, int, list[float]]]
    same: list[str] = []


class Part(msgspec.Struct, gc=False, omit_defaults=True):
    """What a partition knows of a stream.

    Attributes
    ----------
    partition, partitions
        Which one it is, of how many.
    config
        The digest of the stream's settings there.
    every
        `emit.every` (ms), of which `since` and `until` are multiples.
    since, until
        It is so at each of these moments of record time (epoch ms), and between them.
    clock
        The stream's clock there, epoch ms.
    classes
        Names of the classes that cells speak of.
    counts
        Of the stream's records; they add up.
    latencies
        By bin of label latencies how many, of all labels and of the latest ones.
    models
        Models, in the order in which they came there, with the record times (epoch ms) of their first
        predictions.
    values
        By segment key the values that have segments of their own there, as `models`.
    pairs
        Models that are compared with each other there, each pair in either order.
    retired
        Versions that gave way to newer ones there, of which other partitions may still have some.
    """

    stream: str
    partition: int
    partitions: int
    config: str
    every: int
    since: int
    until: int
    clock: int = 0
    classes: list[str] = []
    counts: dict[str, int] = {}
    latencies: tuple[dict[int, int], dict[int, int]] = ({}, {})
    models: dict[str, int] = {}
    values: dict[str, dict[str, int]] = {}
    pairs: list[tuple[str, str]] = []
    retired: list[str] = []
    evaluated: list[Evaluated] = []
    compared: list[Compared] = []


decode = msgspec.json.Decoder(Part).decode
encode = msgspec.json.Encoder().encode

"""Outcomes of the past by sequence, from files or from a cluster's input topics.

They are made by driving the shard that workers drive, so they are the outcomes that detectors see, in the
order in which they see them.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt
from prequential.configuration.settings.model import Config, StreamConfig
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.detectors import signals
from prequential.engine.measures.losses import own_column
from prequential.engine.measures.positive import Positives
from prequential.engine.past.past import PastOutcomes
from prequential.engine.shard import Shard
from prequential.engine.tables.outcomes import Log
from prequential.engine.tables.streams import BASELINE, BASELINE_AGE
from prequential.offline.replay.sources import AnySource, replay
from prequential.topics.outputs import DeadLetter, Output
from rich.progress import Progress

#: Labels and predictions: class codes, or numbers.
Values = npt.NDArray[np.int32] | Floats


@dataclass(frozen=True, eq=False)
class PastSequence:
    """The outcomes of one (stream, model, segment, stage), in order (`engine.tables.outcomes`)."""

    stream: str
    partition: int
    model: str
    segment: str | None
    stage: str
    #: The stream's settings.
    config: StreamConfig
    #: Names of the classes by their codes, and the positive class, of one sequence in row 0.
    classes: tuple[str, ...]
    positives: Positives
    #: Whether detectors watch it: not those of evaluated baselines.
    watched: bool
    #: Rows of the outcome log.
    rows: Log

    def __len__(self) -> int:
        """Outcomes."""
        return len(self.rows.number)

    @property
    def numbers(self) -> bool:
        """Whether labels are numbers (`task: regression`)."""
        return self.config.task == "regression"

    @cached_property
    def loss(self) -> Floats:
        """Return signal `error` of each outcome, (n,) float64: 0 or 1, for regression the stream's loss."""
        losses, fed = np.empty(len(self)), np.empty(len(self), dtype=np.uint8)
        rows = np.arange(len(self), dtype=np.int32)
        signals.error(self.rows, rows, own_column(self.config), losses, fed)
        return losses

    @property
    def label(self) -> Values:
        """True classes, (n,), as codes by which `classes` has their names; or true numbers."""
        return self.rows.value if self.numbers else self.rows.label

    @property
    def prediction(self) -> Values:
        """Predicted classes, (n,), as codes by which `classes` has their names; or predicted numbers."""
        return self.rows.value + self.rows.error if self.numbers else self.rows.prediction

    @property
    def t1(self) -> Ints:
        """Label times in ms, (n,) int64, in the order of outcomes."""
        return self.rows.t1

    @cached_property
    def gaps(self) -> Ints:
        """By how much label times are beyond all before them, in ms, (n,) int64; 0 for the first."""
        latest: Ints = np.maximum.accumulate(self.rows.t1)
        return np.diff(latest, prepend=latest[:1])

    @property
    def ts(self) -> Ints:
        """Prediction times in ms, (n,) int64, in the order of outcomes."""
        return self.rows.ts


def sequences(
    config: Config,
    sources: collections.abc.Sequence[AnySource] | None,
    put: Callable[[Output], None] = lambda output: None,
    progress: Progress | None = None,
    ended: Callable[[Shard], None] = lambda shard: None,
) -> list[PastSequence]:
    """All sequences of files (`offline.replay.sources`), or (None) of the cluster's topics to their ends.

    `put` takes alarms and dead letters on the way, `ended` each shard at its end; there are no metrics
    messages. In the order of streams, models, segments and stages as they first came. Raises WorkError if
    the cluster or a topic can't be read.
    """
    all_sequences: list[PastSequence] = []

    def finish(shard: Shard) -> None:
        all_sequences.extend(_of_shard(shard))
        ended(shard)

    progress = progress or Progress(disable=True)
    if sources is None:
        from prequential.offline.replay.from_topics import (
            replay_topics,  # a broker's clients aren't needed else
        )

        def dead_letter(letter: DeadLetter, *where: object) -> None:
            put(letter)

        replay_topics(config, put, dead_letter, progress, finish, metrics=False, past=True)
        return all_sequences
    task = progress.add_task("replay", total=sum(map(len, sources)))
    finish(
        replay(
            config, sources, put, lambda processed: progress.advance(task, processed), metrics=False,
            past=PastOutcomes(),
        )
    )  # fmt: skip
    return all_sequences


def _of_shard(shard: Shard) -> list[PastSequence]:
    """The sequences of a shard that messages are about."""
    catalog, past = shard.catalog, cast(PastOutcomes, shard.state.past)
    by_place = []
    for entity, place, rows in past.sequences():
        about = catalog.entities[entity]
        if about is None:
            continue
        stream = catalog.streams[about.stream]
        stage = (stream.evaluated if about.age is None else (about.age,))[place]
        if stream.reports(stage):
            watched = about.kind not in (BASELINE, BASELINE_AGE)
            sequence = PastSequence(
                stream.name, shard.partition, about.model, about.segment, stage, stream.config,
                tuple(stream.class_names), catalog.positives_of(stream), watched, rows,
            )  # fmt: skip
            by_place.append((about.stream, about.kind, entity, place, sequence))
    return [one[-1] for one in sorted(by_place, key=lambda one: one[:4])]

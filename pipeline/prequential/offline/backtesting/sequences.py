"""Outcomes of the past by sequence, from files or from a cluster's input topics.

They are made by driving the shard that workers drive, so they are the outcomes that detectors see, in the
order in which they see them.

Streams like a past result from a circular block bootstrap (Politis and Romano 1992). A run is made of blocks
of consecutive outcomes that begin anywhere in the past; behind the last one comes the first. Within a block
outcomes depend on each other as they did. All columns of the outcome log go with an outcome, so any signal
can be made of a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.positives import positives_of_stream
from prequential.engine.compiled.kernel import Floats, Ints, copy_of_rows
from prequential.engine.detectors import signals
from prequential.engine.measures.losses import SQUARED, own_column
from prequential.engine.measures.per_class import Positives
from prequential.engine.past import PastOutcomes
from prequential.engine.shard import Shard
from prequential.engine.tables.outcomes import Log
from prequential.engine.tables.streams import BASELINE, BASELINE_AGE
from prequential.offline.replay.sources import Located, place_of, replay
from prequential.offline.replay.summary import Account, Summary, why
from prequential.topics.encoding import identity
from prequential.topics.errors import WorkError, printable
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
    config: Config, sources: Sequence[Located] | None, put: Callable[[Output], None] = lambda output: None,
    progress: Progress | None = None, ended: Callable[[Shard], None] = lambda shard: None,
) -> list[PastSequence]:  # fmt: skip
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

        def dead_letter(letter: DeadLetter, *origin: object) -> None:
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
    for entity_row, stage_index, rows in past.sequences():
        entity = catalog.entities[entity_row]
        if entity is None:
            continue
        stream = catalog.streams[entity.stream]
        stage = (stream.evaluated if entity.age is None else (entity.age,))[stage_index]
        if stream.reports(stage):
            watched = entity.kind not in (BASELINE, BASELINE_AGE)
            sequence = PastSequence(
                stream.name, shard.partition, entity.model, entity.segment, stage, stream.config,
                tuple(stream.class_names), positives_of_stream(catalog, stream), watched, rows,
            )  # fmt: skip
            by_place.append((entity.stream, entity.kind, entity_row, stage_index, sequence))
    return [entry[-1] for entry in sorted(by_place, key=lambda entry: entry[:4])]


#: By which sequences can be chosen.
CHOICES = ("stream", "model", "segment", "stage")

#: How an option is spelled where it is given, by its name.
Spelled = Callable[[str], str]

#: … on a command line.
OPTION: Spelled = "--{}".format


def read_past(
    config: Config, sources: Sequence[Located] | None, put: Callable[[Output], None], progress: Progress
) -> tuple[list[PastSequence], Summary]:
    """All sequences of files, or (None) of the cluster's topics, and what became of their records.

    `put` takes alarms. Raises WorkError if nothing was evaluated, or something can't be read.
    """
    account = Account(place_of({source.kind: source for source in sources or ()}, config))
    past = sequences(config, sources, put, progress, account.add)
    summary = account.summary(None)
    if not past:
        raise WorkError(printable(why(summary, account.facts())))
    return past, summary


def watched(
    past: Sequence[PastSequence], wanted: Mapping[str, str | None], spelled: Spelled = OPTION
) -> list[PastSequence]:
    """The sequences that detectors watch, and whose names (`CHOICES`) are the `wanted` ones; None: any.

    Raises WorkError if there is none of a name.
    """
    chosen = [sequence for sequence in past if sequence.watched]
    for name, asked in wanted.items():
        if asked is not None:
            names_there = sorted({str(getattr(sequence, name)) for sequence in chosen})
            chosen = [sequence for sequence in chosen if getattr(sequence, name) == asked]
            if not chosen:
                raise WorkError(
                    f"no sequence of {spelled(name)} {asked!r}: there are {', '.join(names_there)}"
                )
    return chosen


#: Autocorrelation of neighbours beyond which blocks grow no longer: a sample can't tell it from 1.
_MOST_CORRELATED = 0.99

#: Hex digits of a run's seed: 60 bits.
_SEED_DIGITS = 15


class ResampledRun(NamedTuple):
    """Outcomes of a past sequence by their indices in it, (m,) int64 from 0, one after the other.

    `factors`, (m,), multiply regression errors; None: errors stay as they are.
    """

    indices: Ints
    factors: Floats | None


def block_length(losses: Floats) -> int:
    """Outcomes in a block: n^(1/3), times (√6·|r|/(1 - r²))^(2/3) where that is above 1 (Carlstein 1986).

    r is the correlation of neighbouring losses, of which `losses` has n, (n,) float64. The rule is that for
    the variance of a mean of values that each depend on the one before. From 1 to n.

    >>> rng = np.random.default_rng(1)
    >>> block_length((rng.random(8_000) < 0.1).astype(float)), block_length(np.repeat([0.0, 1.0] * 100, 20))
    (20, 82)
    """
    n = len(losses)
    off = losses - losses.mean() if n else losses
    square = float(off @ off)
    r = 0.0 if square == 0.0 else min(abs(float(off[1:] @ off[:-1])) / square, _MOST_CORRELATED)
    more = (math.sqrt(6.0) * r / (1.0 - r * r)) ** (2.0 / 3.0)
    length: int = max(1, min(n, math.ceil(n ** (1.0 / 3.0) * max(1.0, more))))
    return length


def generator(seed: int, *names: object) -> np.random.Generator:
    """A generator of random numbers that are a function of a seed and of names, the same on every machine."""
    return np.random.default_rng(int(identity(seed, *names)[:_SEED_DIGITS], 16))


def blocks(random: np.random.Generator, n: int, length: int, block: int) -> Ints:
    """Places in a past of `n` outcomes, in blocks of `block` that begin anywhere: (length,) int64, from 0.

    A block that reaches the past's end goes on at its beginning (circular block bootstrap).

    >>> blocks(np.random.default_rng(2), 10, 6, 3).tolist()
    [8, 9, 0, 2, 3, 4]
    """
    starts = random.integers(0, n, -(-length // block))
    indices: Ints = (starts[:, None] + np.arange(block)).ravel()[:length] % n
    return indices


def risen(random: np.random.Generator, past: PastSequence, indices: Ints, rise: Floats) -> ResampledRun:
    """The run of these places with its mean loss risen by `rise`, (m,) float64 from 0 on, at each outcome.

    For classification, correct outcomes become wrong ones, drawn from the past's own. Each is drawn
    separately, so they don't come in runs. For regression, errors are multiplied. Raises ValueError if the
    loss can't rise so much.
    """
    loss, most = past.loss, float(rise.max(initial=0.0))
    mean = float(loss.mean())
    if most == 0.0:
        return ResampledRun(indices, None)
    if past.numbers:
        if mean == 0.0:
            raise ValueError("no prediction was wrong, so there is no error to be multiplied")
        factors = 1.0 + rise / mean
        return ResampledRun(indices, np.sqrt(factors) if own_column(past.config) == SQUARED else factors)
    if mean == 0.0:
        raise ValueError("no prediction was wrong, so there is none to take for those that become wrong")
    if mean + most > 1.0:
        raise ValueError(f"its error is {mean:.3g}, which can't rise by {most:.3g}")
    wrong = np.flatnonzero(loss > 0.0)
    replaced = (loss[indices] == 0.0) & (random.random(len(indices)) * (1.0 - mean) < rise)
    wrong_indices = wrong[random.integers(0, len(wrong), len(indices))]
    return ResampledRun(np.where(replaced, wrong_indices, indices), None)


def log_of(past: PastSequence, run: ResampledRun, since: int = 0) -> Log:
    """The run as m rows of an outcome log, of a sequence in row 0 with outcomes from 1.

    Its label times go on from `since` (ms), each outcome as long after the one before as it was in the past.
    """
    log = copy_of_rows(past.rows, run.indices)
    log.t1[:] = since + np.cumsum(past.gaps[run.indices])
    log.sequence[:], log.number[:] = 0, np.arange(1, len(run.indices) + 1)
    if run.factors is not None:
        log.error[:] *= run.factors
    return log

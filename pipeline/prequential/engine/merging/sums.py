"""Adds up the memories of one sequence in several partitions, and computes measures from the sum.

Weights that decay are first brought to the latest label time of all partitions. Partitions are added in their
order, so that sums of floats are reproducible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import TASKS
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_of_stream
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.estimators.histograms import rank_bins
from prequential.engine.estimators.naming import parse_estimator
from prequential.engine.measures.costs import SUMS
from prequential.engine.measures.declaration import BY_PARTITION, EMPTY
from prequential.engine.measures.per_class import new_classes
from prequential.engine.measures.positive import positive_of
from prequential.engine.measures.registry import INDEX, MEASURES, NAMES
from prequential.engine.measures.table import InMemory, measure_cells, measure_numbers
from prequential.engine.output.estimates import EstimatorState
from prequential.engine.tables.outcomes import JointCells
from prequential.engine.tables.score_bins import WIDTH
from prequential.engine.tables.scores import NO_WEIGHT, SIZE
from prequential.topics.parts import MemoryPart, Part

#: By task, the columns of measures that need the previous label, which may be in another partition.
_OF_LABELS_BEFORE = {
    task: [INDEX[one.name] for one in MEASURES.values() if one.needs_label and one.fits(task)]
    for task in TASKS
}


#: The type of the names of counts.
_Name = TypeVar("_Name")


class Sum(NamedTuple):
    """The memory of an estimator for a sequence in all partitions."""

    n: float
    whole: bool  # whether each outcome counts 1
    cells: Floats  # (4·k²,) joint cells of the classes, without baselines
    sums: Floats | None  # (SIZE,) of scores
    spread: float  # Σw(y - ȳ)² of labels that are numbers
    scores: Floats | None  # (WIDTH,) histogram
    paid: Floats  # (SUMS,) costs by value


class MergedClasses:
    """The classes of a stream at one moment, ordered by name."""

    def __init__(self, config: Config, name: str, names: Iterable[str]) -> None:
        self.catalog = Catalog(config)
        self.stream: Stream = self.catalog.add_stream(name, baselines=False)
        for one in sorted(names):
            self.catalog.add_class(self.stream, one)

    @property
    def capacity(self) -> int:
        """Capacity for classes: their number, at least 1."""
        return max(1, len(self.stream.class_names))

    def places(self, parts: Iterable[Part]) -> list[list[int]]:
        """By part, the positions of its classes in this order; unused ones have any position."""
        known = self.stream.classes
        return [[known.get(name, 0) for name in part.classes] for part in parts]


def called(cells: Iterable[tuple[int, int, float]], part: Part) -> Iterator[str]:
    """The names of the classes in cells, by the names of their part; for regression, there are none."""
    if part.classes:
        for y, h, _ in cells:
            yield part.classes[y]
            yield part.classes[h]


def added(memories: Sequence[tuple[MemoryPart, Sequence[int]]], estimator: str, capacity: int) -> Sum:
    """The sum of memories of one estimator; each memory has the positions of its classes."""
    memory, parameter = parse_estimator(estimator)
    newest = max((one.at for one, _ in memories), default=0)
    cells, paid, sums = np.zeros(4 * capacity * capacity), np.zeros(SUMS), np.zeros(SIZE)
    scores = np.zeros(WIDTH)
    weight = mean = rest = spread = 0.0
    for one, places in memories:
        left = memory.weight_left(parameter, 0, newest - one.at)
        for y, h, n in one.cells:
            if n * left >= NO_WEIGHT:
                place = places[y] * capacity + places[h] if places else 0
                cells[4 * place] += n * left
        if one.sums is not None:
            sums += np.array(one.sums) * left
        if one.labels is not None:
            n, of_labels, apart = one.labels[0] * left, one.labels[1], one.labels[2] * left
            weight, mean, rest, spread = _spread(weight, mean, rest, spread, n, of_labels, one.rest, apart)
        for place, n in one.scores or ():
            scores[place] += n * left
        if one.paid is not None:
            paid += np.array(one.paid) * left
    has_sums = any(one.sums is not None for one, _ in memories)
    has_scores = any(one.scores is not None for one, _ in memories)
    return Sum(
        float(sum(cells.tolist())), memory.whole, cells, sums if has_sums else None, spread,
        scores if has_scores else None, paid,
    )  # fmt: skip


def _spread(
    weight: float, mean: float, rest: float, spread: float, n: float, other: float, other_rest: float,
    apart: float,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Weight, mean and Σw(y - ȳ)² of two sets of numbers together (Chan, Golub and LeVeque 1979).

    A mean is two floats; the second one has the digits beyond the precision of the first.

    >>> _spread(2.0, 1.0, 0.0, 2.0, 1.0, 4.0, 0.0, 0.0)
    (3.0, 2.0, 0.0, 8.0)
    """
    if not n:
        return weight, mean, rest, spread
    total, step = weight + n, (other - mean) + (other_rest - rest)
    moved = rest + step * n / total
    middle = mean + moved
    return total, middle, moved - (middle - mean), spread + apart + step * step * weight * n / total


def measured(of: Sum, classes: MergedClasses, *, chance: bool) -> EstimatorState:
    """The measures of a sum; with `chance`, those of random predictions with the model's distribution.

    Measures that need the previous label have no value, because it may be in another partition.
    """
    config = classes.stream.config
    values: Floats = np.zeros(len(NAMES))
    reasons: Ints = np.zeros(len(NAMES), dtype=np.int64)
    given = np.zeros(SIZE) if of.sums is None else of.sums
    if config.task == "regression":
        quantile = config.quantile or 0.0
        measure_numbers(given, of.sums is not None, of.spread, quantile, values, reasons)
    else:
        positives = positives_of_stream(classes.catalog, classes.stream)
        matrix = new_classes(classes.capacity)
        by_label = new_classes(positives.members.shape[1])
        memory = InMemory(JointCells(of.cells), True, given, of.sums is not None, of.whole, of.paid, by_label)
        measure_cells(memory, matrix, positives, 0, chance, values, reasons)
        if of.scores is not None and not chance:
            positive = np.array([positive_of(positives, 0, matrix.labels)])
            each = np.ones(1, dtype=np.uint8)
            rank_bins(of.scores[None], positive, each, values[None], reasons[None])
    for column in _OF_LABELS_BEFORE[config.task]:
        if reasons[column] != EMPTY:
            values[column], reasons[column] = 0.0, BY_PARTITION
    n = int(of.n) if of.whole else of.n
    return EstimatorState(n, values.tolist(), reasons.astype(np.uint8).tobytes())


def totals(counts: Iterable[Mapping[_Name, int]]) -> dict[_Name, int]:
    """Counts by name, added up.

    >>> totals([{"a": 1, "b": 2}, {"a": 3}])
    {'a': 4, 'b': 2}
    """
    found: dict[_Name, int] = {}
    for one in counts:
        for name, count in one.items():
            found[name] = found.get(name, 0) + count
    return found

"""Expected values for periods of a stream in all partitions: sums of the partitions' expectations.

Each partition learns from its own final periods, in their order. Its expectation for a period is a number of
predictions by class and label, and these numbers add up. Where a period is final in a partition, the
partition's known numbers are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from prequential.configuration.settings.model import StreamConfig
from prequential.engine.delay import records
from prequential.engine.delay.accounts import samples
from prequential.engine.measures.registry import MEASURES
from prequential.engine.merging.foreseeing import MEANS
from prequential.engine.merging.parting_periods import ALL
from prequential.engine.merging.periods import MergedPeriod
from prequential.engine.merging.sums import MergedClasses, added
from prequential.engine.output.missing import miss
from prequential.engine.output.period_measures import expected_of
from prequential.engine.tables.scores import SIZE
from prequential.topics.parts import Foreseen, MemoryPart

#: Fields that depend on the order of a partition's own periods.
_BY_PARTITION = ["record", "signals"]

#: Why a sample has no expected value where a partition is final: the weights of its labels aren't kept.
_SAMPLED = "by_partition"


def foreseen(of: MergedPeriod, classes: MergedClasses, places: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The field `expected` of a period's message.

    Parameters
    ----------
    of
        The period, for which at least one partition has an expectation.
    classes
        The classes of the stream.
    places
        By partition, the positions of its classes in `classes`.

    Returns
    -------
    dict
        JSON data (`docs/reference/semantics-periods.md`).
    """
    config, state = classes.stream.config, of.state
    known = [one.expected for _, one in of.periods if one.expected is not None]
    message: dict[str, Any] = {
        "labelled_share": state.labelled_share, "predictions": state.predictions,
        "maturity": records.share_of(of.maturity), "measures": {},
    }  # fmt: skip
    if samples(config) and of.finals:
        undefined = dict.fromkeys(config.measures, _SAMPLED)
    elif not all(one.known for one in known):
        undefined = dict.fromkeys(config.measures, "first_horizon")
    else:
        values, undefined = _values(of, classes, places)
        message["measures"] = {
            name: _with_interval(config, name, value, of, known) for name, value in values.items()
        }
    weights = [(one.n, one.weight) for one in known]
    return message | {
        "undefined": undefined, "correction": _mean(weights), "by_partition": _BY_PARTITION,
    }  # fmt: skip


def _values(
    of: MergedPeriod, classes: MergedClasses, places: Sequence[Sequence[int]]
) -> tuple[dict[str, float], dict[str, str]]:
    """Expected values of measures, and the reasons why others have none."""
    config = classes.stream.config
    numbers, right, losses = config.task == "regression", np.zeros(2), np.zeros(SIZE)
    told_apart, has_losses = True, False
    memories = []
    for number, one in of.periods:
        here = one.expected
        cells = one.memory.cells if here is None else here.cells
        sums = one.memory.sums if here is None else here.sums
        if here is not None and here.right is not None:
            told_apart = False
            right += here.right
        right += _right(cells)
        memories.append((MemoryPart(ALL, ALL, cells=cells), places[number]))
        has_losses |= here is not None and here.sums is not None
        if sums is not None:
            losses[:MEANS] += sums[:MEANS]
    joint = None if numbers else added(memories, ALL, classes.capacity).cells
    found = expected_of(
        joint, None if told_apart else (float(right[0]), float(right[1])), losses if has_losses else None,
        classes.catalog.positives_of(classes.stream), numbers=numbers,
    )  # fmt: skip
    return found.by_name([config.measures])[0]


def _right(cells: Sequence[tuple[int, int, float]]) -> tuple[float, float]:
    """The numbers of wrong and of right predictions in cells by class."""
    right = sum(n for y, h, n in cells if y == h)
    return sum(n for _, _, n in cells) - right, right


def _with_interval(
    config: StreamConfig, name: str, value: float, of: MergedPeriod, known: Sequence[Foreseen]
) -> dict[str, Any]:
    """A value with its interval, which assumes that all partitions err by their half width to the same side.

    The half width is therefore the weighted mean of the partitions' half widths.
    """
    found: dict[str, Any] = {"value": value, "record": None}
    if not all(name in one.halves for one in known):
        return found
    final = sum(one.labelled for _, one in of.periods if one.expected is None)
    half, one = _mean([*((one.n, one.halves[name]) for one in known), (final, 0.0)]), MEASURES[name]
    found |= {
        "interval": [max(one.low, value - half), min(one.high, value + half)], "level": records.LEVEL,
    }  # fmt: skip
    if config.objective is not None and name in config.objective.bounds:
        bound = config.objective.bounds[name]
        found["miss"] = miss(one, bound, config.objective.tolerance, value, half)
    return found


def _mean(some: Sequence[tuple[float, float]]) -> float:
    """The mean of values; each pair is a weight and a value.

    >>> _mean([(1.0, 0.5), (3.0, 0.1)])
    0.2
    """
    return sum(n * value for n, value in some) / sum(n for n, _ in some)

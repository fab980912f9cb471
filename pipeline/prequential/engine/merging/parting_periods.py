"""A shard's results for periods of prediction time in its parts, as far as results can be added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from prequential.configuration.settings.stages import PERIOD
from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.streams import Stream
from prequential.engine.delay import due_periods, periods
from prequential.engine.measures.costs import SUMS, sum_up_stakes
from prequential.engine.merging.foreseeing import foreseen_of
from prequential.engine.state import ShardState
from prequential.engine.tables.scores import SIZE
from prequential.engine.tables.streams import MODEL
from prequential.topics.parts import MemoryPart, Part, PeriodPart

#: The estimator whose rules apply to a period's outcomes: the one that forgets nothing.
ALL = "all"


def add_periods(part: Part, state: ShardState, spoken_of: Mapping[int, Sequence[int]]) -> None:
    """Add to a part the periods of its models.

    The part gets all periods that aren't forgotten. Another partition may have news of any of them at any
    moment, and the merger has only the latest part of this partition.

    Parameters
    ----------
    part
        A new part, of a stream of this shard.
    state
        The state of the shard.
    spoken_of
        By model (row), the periods (rows) that have messages at this moment.
    """
    catalog = state.catalog
    if catalog.config.stream(part.stream).period is None or part.stream not in catalog.by_name:
        return
    stream, entities = catalog.by_name[part.stream], catalog.columns.entities
    for one in part.evaluated:
        if one.kind == MODEL:
            model = stream.models[one.model]
            plan, said = catalog.plans[entities.plan[model]], spoken_of.get(model, ())
            known = due_periods.known(state.accounts.periods, model, said)
            foreseen = foreseen_of(state, stream, model, known)
            one.periods = [
                PeriodPart(
                    of.start, of.end, of.predictions, _memory(state, stream, plan, of.row), of.labelled,
                    of.revisions, of.corrections, of.at_horizon, of.newest_ts if of.labelled else 0,
                    of.is_final, of.row in said, foreseen.get(of.row),
                ) for of in known
            ]  # fmt: skip


def _memory(state: ShardState, stream: Stream, plan: Plan, row: int) -> MemoryPart:
    tables, k = state.accounts.periods, plan.capacity
    by_class = periods.cells_of(tables, row, k).reshape(-1, 4).sum(axis=1)
    places = np.flatnonzero(by_class).tolist()
    cells = [(*divmod(place, k), float(by_class[place])) for place in places]
    memory = MemoryPart(PERIOD, ALL, cells=cells)
    sums = periods.sums_of(tables, row)
    if sums is not None:
        memory.sums = sums[:SIZE].tolist()
        if plan.numbers:
            n, mean, memory.rest, spread = sums[SIZE:].tolist()
            memory.labels = n, mean, spread
    if stream.config.cost_per_value and not plan.numbers:
        paid = np.zeros(SUMS)
        sum_up_stakes(state.catalog.positives_of(stream), 0, periods.stakes_of(tables, row, k), k, paid)
        memory.paid = paid.tolist()
    return memory

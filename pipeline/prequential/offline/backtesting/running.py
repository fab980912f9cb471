"""Run detectors over the past, and over generated streams like it with rises of the error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from prequential.engine.catalog.plans import Plan
from prequential.engine.compiled.kernel import Ints
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.tables.outcomes import Log
from prequential.offline.backtesting.changes import Injection, profile
from prequential.offline.backtesting.scores import Judged, SequenceChange, judge
from prequential.offline.past.bootstrap import block_length, blocks, generator, log_of, risen
from prequential.offline.past.sequences import PastSequence


def alarms_of(past: PastSequence, runs: Iterable[tuple[str, Log]]) -> Iterator[list[Ints]]:
    """Yield for each run, by detector of the sequence's stream, the outcomes at which it raises alarms.

    A run is a name and the outcome rows of a sequence in row 0. Detectors that draw random numbers draw
    different ones in runs with different names. The detectors run in a plan, as in a shard.
    """
    config = replace(past.config, estimators=(), details=())
    plan = Plan(0, config, (past.stage,), True, max(2, len(past.classes)))
    for name, log in runs:
        row = plan.take(0, 0, past.stream, past.model, past.segment, name)
        raised = plan.consume(log, np.arange(len(log.number), dtype=np.int32), past.positives)
        count = int(raised.raised[0])
        places, detectors = raised.place[:count] + 1, raised.detector[:count]
        yield [places[detectors == one].astype(np.int64) for one in range(len(plan.watches))]
        plan.give(row)


def length_of(injections: Sequence[Injection], tolerance: int) -> int:
    """Return the number of outcomes in a run, which ends with the last change's window."""
    return max(one.change.outcome + one.change.width for one in injections) + tolerance


def inject(
    past: PastSequence, injections: Sequence[Injection], seeds: int, tolerance: int, block: int | None
) -> list[list[Judged]]:
    """Return, by detector of the sequence's stream and by seed, its alarms in a stream like the past one.

    Raises ValueError if the error can't rise that much.
    """
    length = length_of(injections, tolerance)
    rise = profile(injections, length)
    changes: list[SequenceChange] = sorted(one.change for one in injections)
    block = block or block_length(past.loss)

    def runs() -> Iterator[tuple[str, Log]]:
        for seed in range(1, seeds + 1):
            random = generator(seed, past.stream, past.partition, past.model, past.segment, past.stage)
            places = blocks(random, len(past), length, block)
            yield str(seed), log_of(past, risen(random, past, places, rise))

    by_detector: list[list[Judged]] = [[] for _ in every_detector(past.config)]
    for alarms in alarms_of(past, runs()):
        for place, raised in enumerate(alarms):
            by_detector[place].append(judge(raised, changes, length, tolerance))
    return by_detector

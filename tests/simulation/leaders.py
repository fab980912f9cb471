"""A partition without a leader: its shard can't publish, and the others of its worker go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prequential.runtime.kafka import fetching
from prequential.topics.specs import INPUTS

if TYPE_CHECKING:
    from tests.simulation.world import World

#: Seconds within which records of the other shards are taken. A shard counts as stuck some time after its
#: last progress, and the others have waited for a part of it.
_TAKEN_SECONDS = 2 * fetching._STUCK_SECONDS


def why_others_wait(world: World) -> str | None:
    """Return which record of another shard has not been taken for too long; None: they go on.

    Judged only where nothing else is wrong.
    """
    plan = world.plan
    is_alone = plan.poison is None and {fault.kind for fault in plan.faults} == {"leaderless"}
    if world.leaderless is None or not is_alone:
        return None
    before = world.cluster.now_ms() - 1000 * _TAKEN_SECONDS
    for partition in range(world.config.kafka.partitions):
        if partition == world.leaderless:
            continue
        for kind, name in enumerate(INPUTS):
            log = world.cluster.topics[world.config.kafka.topic(name)][partition]
            entries = [entry for entry in log.read(0, log.stable_end, committed=True) if entry.time < before]
            for runner in world.holders(partition):
                taken = runner.shard.merge.vector[kind]
                if entries and taken <= entries[-1].offset:
                    return (
                        f"shard {partition} has not taken {log.topic} offset {entries[-1].offset} for "
                        f"{_TAKEN_SECONDS:g} s, while shard {world.leaderless} can't publish"
                    )
    return None

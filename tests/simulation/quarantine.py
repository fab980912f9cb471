"""Records at which workers die: who is passed over, after how many deaths, and what is said of it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from prequential.runtime.worker.journal import Quarantine
from prequential.topics.specs import INPUTS

from tests.simulation.machine import CRASH, CRASH_OF_PARSER, UNLUCKY

if TYPE_CHECKING:
    from tests.simulation.world import World

#: How many workers die, at most, before the record is tried alone: at a micro-batch, and at a part of it; and
#: how many before that, each after it has published something.
_UNTIL_ALONE, _UNKNOWN = 2, 10

_WITHOUT_A_WORD = "the process ended without an error of its own"


def why_wrong(world: World) -> str | None:
    """Return what is wrong with the records that were passed over; None: exactly those had to be.

    Judged only where nothing else ends workers: else whoever is near is suspected as well.
    """
    plan = world.plan
    if plan.poison is None or {fault.kind for fault in plan.faults} - {"compact"}:
        return None
    notes = [
        (partition, entry.note)
        for partition in range(world.config.kafka.partitions)
        for entry in world.journal(partition)
        if isinstance(entry.note, Quarantine)
    ]
    deaths = sum(
        re.fullmatch(r"critical: .*the record is poison.*|has ended \(-11\)", line.text) is not None
        for line in world.story.lines
    )
    if any(before == after for before, after in pairwise(world.crashes)):
        return "a worker has crashed like the one before it, and the journals don't show either"
    if plan.poison == UNLUCKY:
        return f"passed over after {deaths} deaths: {notes}" if notes else None
    if len(notes) != 1:
        return f"{len(notes)} records are passed over, and there is one at which workers die: {notes}"
    partition, note = notes[0]
    log = world.cluster.topics[world.config.kafka.topic(INPUTS[note.kind])][partition]
    [entry] = log.read(note.offset, note.offset + 1, committed=True)
    assert entry.record is not None
    if f'"{plan.poison}"'.encode() not in (entry.record.value or b""):
        return f"the record that is passed over is another one: {entry.record.value!r}"
    after = plan.config.worker.quarantine_after
    crashes = plan.poison in (CRASH, CRASH_OF_PARSER)
    most = _UNKNOWN + _UNTIL_ALONE + after if crashes else max(_UNTIL_ALONE + 1, after)
    most += plan.workers - 1  # who has lost the shard to another worker at this moment may die of it as well
    if not after <= deaths <= most:
        return f"{deaths} workers died until it was passed over: expected {after} to {most}"
    error = _WITHOUT_A_WORD if crashes else "ValueError: the record is poison"
    # In a row: a worker that lets the shard go, while it tries records, is not a death.
    counted = range(after, (after if crashes else deaths) + 1)
    if note.reason not in [f"{count} workers in a row died at it: {error}" for count in counted]:
        return f"the reason is {note.reason!r}"
    return None

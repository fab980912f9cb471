"""Mistakes in the records of a stream, and whether what workers say about them is true.

Until some time all records of the stream have the mistake, and none has it afterwards. A worker may find it
while it has seen such records within the time that its findings cover, and has to find it if it has seen
enough of them, and no others.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from prequential.runtime.worker import findings
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import INPUTS

from tests.simulation.loop import Process

if TYPE_CHECKING:
    from tests.simulation.world import SimulatedProgram, World

#: Kinds of mistakes, with the input that has them: predictions are made after their labels, labels have
#: ids of their own, or predictions lack a field; or the times of predictions are in seconds, in microseconds,
#: or those of a clock that is ahead.
LATE, IDS, INVALID = "late", "ids", "invalid"
SECONDS, MICROSECONDS, AHEAD = "seconds", "microseconds", "ahead"
KINDS = {LATE: 1, IDS: 2, INVALID: 1, SECONDS: 1, MICROSECONDS: 1, AHEAD: 1}

#: Kinds in which times are wrong.
CLOCKS = (SECONDS, MICROSECONDS, AHEAD)

#: By how much (ms) a clock is ahead: more than the horizon of streams allows.
_AHEAD_MS = 7_200_000


def wrong_time(kind: str, time: int) -> int | None:
    """Return what a producer with a mistake says instead of a time (ms); None: it says no time."""
    times = {SECONDS: time // 1000, MICROSECONDS: time * 1000, AHEAD: time + _AHEAD_MS}
    return times.get(kind)

#: Records with the mistake that are certainly enough for a finding (`findings._LEAST` in worlds is 10).
_ENOUGH = 12


class Mistake(NamedTuple):
    """A mistake of a stream's producer, and until when it makes it (seconds from the beginning)."""

    kind: str
    stream: str
    until: float
    #: From when on it makes it, and at how many instances at most.
    since: float = 0.0
    most: int = 1_000


class Seen(NamedTuple):
    """How many records with the mistake, and without it, a shard has seen since it was restored."""

    wrong: int
    right: int


class MistakeWatch:
    """Checks what the workers of a world find about its mistake."""

    def __init__(self, world: World, mistake: Mistake) -> None:
        self._world, self._mistake = world, mistake
        self._kind = KINDS[mistake.kind]
        #: By process and shard: its offsets when it was restored.
        self._restored: dict[tuple[Process, int], tuple[int, ...]] = {}
        #: By process: since when a worker must find the mistake.
        self._since: dict[Process, float] = {}
        self.was_found = False

    @property
    def _partition(self) -> int:
        return partition_of(self._mistake.stream, self._world.config.kafka.partitions)

    def note_restored(self, process: Process, text: str) -> None:
        """Note where a shard begins; `text` is the line in which its worker says so."""
        number = int(text.partition("shard ")[2].partition(":")[0])
        runner = process.program.runners[number]
        self._restored[process, number] = tuple(runner.shard.merge.vector)

    def seen(self, process: Process, kind: int) -> Seen:
        """What a worker has seen of an input of the stream since it restored the shard.

        Only what is within the time of findings counts.
        """
        world, partition = self._world, self._partition
        runner = process.program.runners.get(partition)
        restored = self._restored.get((process, partition))
        if runner is None or restored is None:
            return Seen(0, 0)
        log = world.cluster.topics[world.config.kafka.topic(INPUTS[kind])][partition]
        since = world.cluster.now_ms() - 1000 * (2 * findings._HOUR + findings.LOOK_SECONDS)
        entries = log.read(restored[kind], runner.shard.merge.vector[kind], committed=True)
        wrong = right = 0
        for entry in entries:
            assert entry.record is not None
            value = json.loads(entry.record.value or b"null")
            if value["stream"] == self._mistake.stream and entry.time >= since:
                wrong += self._has_mistake(value)
                right += not self._has_mistake(value)
        return Seen(wrong, right)

    def _has_mistake(self, value: dict[str, Any]) -> bool:
        if self._mistake.kind == INVALID:
            return "y_pred" not in value
        return str(value["instance_id"]).startswith(self._mistake.kind)

    def is_true(self, process: Process) -> bool:
        """Whether a worker may find something about the stream now.

        Where times were wrong, also labels of such instances are odd: they come long after, or before.
        """
        kinds = (1, 2) if self._mistake.kind in CLOCKS else (self._kind,)
        return any(self.seen(process, kind).wrong > 0 for kind in kinds)

    def why_silent(self, program: SimulatedProgram) -> str | None:
        """Return why a worker should have found the mistake by now, if it should."""
        process = program.process
        seen = self.seen(process, self._kind)
        assert program.worker is not None
        if program.worker._findings.present:
            self.was_found = True
        if seen.wrong < _ENOUGH or seen.right or program.worker._findings.present:
            self._since.pop(process, None)
            return None
        now = self._world.loop.time()
        if now - self._since.setdefault(process, now) > 2 * findings.LOOK_SECONDS:
            return f"{process.name} has seen {seen.wrong} records with {self._mistake}, and finds none"
        return None

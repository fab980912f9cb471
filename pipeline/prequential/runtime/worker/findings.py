"""Likely mistakes in a worker's streams, which `/ready` and the log show."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from prequential.configuration.settings.model import Config
from prequential.engine.input.refusals import Refusal
from prequential.engine.shard import Shard
from prequential.runtime.worker.runner import ShardRunner
from prequential.topics.errors import printable
from prequential.topics.partitioning import partition_of
from prequential.views.diagnosis.facts import lacks_example, read_by, since, streams_of, triple, unpaired
from prequential.views.diagnosis.findings import findings
from prequential.views.diagnosis.stream_facts import (
    Example,
    Facts,
    Finding,
    IdentifierDifference,
    StreamFacts,
    likely_cause,
)

if TYPE_CHECKING:
    from prequential.runtime.worker.runner import ShardRunner

log = logging.getLogger(__name__)


#: Seconds between two checks, and streams checked before the shards run again (about 2 ms).
LOOK_SECONDS = 30.0

_STREAMS = 50

#: Seconds after which earlier counts no longer matter: a check covers the last one to two hours.
_HOUR = 3600.0

#: Fewest labels or records of a stream for which shares are judged, because the first few vary too much.
_LEAST = 100

#: Streams of a shard for which one check searches examples of ids: the search reads the whole state.
_EXAMPLES = 1

#: Most findings that are shown.
_SHOWN = 20


class ShardCounts(NamedTuple):
    """The counts of a shard at some time."""

    streams: dict[str, StreamFacts]
    records: tuple[int, int, int]
    refusals: dict[tuple[int, str], int]
    misplaced: dict[str, int]  # records by stream


#: The counts of a shard without records.
_NOTHING = ShardCounts({}, (0, 0, 0), {}, {})


class _Window:
    """The counts of a shard at the beginning of this hour, and of the previous one."""

    def __init__(self, shard: Shard, now: float, began: ShardCounts) -> None:
        self.shard = shard
        self.before = self._middle = began
        self._turn = now + _HOUR
        self.examples: dict[str, tuple[Example, IdentifierDifference | None]] = {}

    def turn(self, now: float, counts: ShardCounts) -> None:
        if now >= self._turn:
            self.before, self._middle, self._turn = self._middle, counts, now + _HOUR
            self.examples.clear()


class Findings:
    """All findings of a worker; `present` has those of the last check."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._windows: dict[int, _Window] = {}
        self._logged: set[tuple[str, str | None, str]] = set()
        self.present: list[Finding] = []

    def text(self) -> str:
        """Return the present findings, one per line."""
        lines = [f"looks wrong: {printable(str(finding))}\n" for finding in self.present[:_SHOWN]]
        if len(self.present) > _SHOWN:
            lines.append(f"… and {len(self.present) - _SHOWN} more\n")
        return "".join(lines)

    async def look(self, runners: Mapping[int, ShardRunner], partitions: int) -> None:
        """Check the running shards and log new findings; the topics have `partitions` partitions."""
        running = {
            partition: shard_runner
            for partition, shard_runner in runners.items()
            if not shard_runner.recovering
        }
        streams: list[StreamFacts] = []
        records = [0, 0, 0]
        refusals: list[Refusal] = []
        misplaced: list[tuple[str, int]] = []
        for partition, runner in running.items():
            window = self._window(partition, runner)
            counts = await self._counts(runner.shard)
            judged = [since(now, window.before.streams.get(name)) for name, now in counts.streams.items()]
            streams += await self._with_examples(window, judged)
            records = [a + b - c for a, b, c in zip(records, counts.records, window.before.records)]
            refusals += _since(runner.shard, window.before)
            for name, count in counts.misplaced.items():
                if (new := count - window.before.misplaced.get(name, 0)) > 0:
                    misplaced.append((name, new))
            window.turn(monotonic(), counts)
        self._windows = {partition: self._windows[partition] for partition in running}
        wide = self._config.wide
        configured = [
            name for name in self._config.streams if name in wide or partition_of(name, partitions) in running
        ]
        facts = Facts(
            tuple(streams), triple(records), tuple(refusals), tuple(configured), tuple(misplaced),
            frozenset() if len(running) == partitions else frozenset(wide),
        )  # fmt: skip
        self.present = findings(facts, _LEAST)
        for finding in self.present:
            key = finding.code, finding.stream, finding.subject
            if key not in self._logged:
                self._logged.add(key)
                log.warning("looks wrong: %s", printable(str(finding)))

    def _window(self, partition: int, runner: ShardRunner) -> _Window:
        window = self._windows.get(partition)
        if window is None or window.shard is not runner.shard:
            began = {facts.name: facts for facts in runner.restored}
            window = _Window(runner.shard, monotonic(), _NOTHING._replace(streams=began))
            self._windows[partition] = window
        return window

    @staticmethod
    async def _counts(shard: Shard) -> ShardCounts:
        """Return the counts of a shard, collected in small parts."""
        streams: dict[str, StreamFacts] = {}
        for start in range(0, len(shard.catalog.streams), _STREAMS):
            streams |= {facts.name: facts for facts in streams_of(shard, start, start + _STREAMS)}
            await asyncio.sleep(0)
        refusals = {(refusal.kind, refusal.sentence): refusal.records for refusal in shard.refusals.reasons()}
        return ShardCounts(streams, read_by(shard), refusals, dict(shard.misplaced_streams))

    @staticmethod
    async def _with_examples(window: _Window, streams: list[StreamFacts]) -> list[StreamFacts]:
        """Add example ids of labels that lack predictions, for a few streams at a time."""
        examples_left = _EXAMPLES
        with_examples = []
        for facts in streams:
            if lacks_example(facts):
                if facts.name not in window.examples and examples_left:
                    examples_left -= 1
                    example, ids = unpaired(window.shard, window.shard.catalog.by_name[facts.name])
                    window.examples[facts.name] = example, await asyncio.to_thread(likely_cause, ids)
                if facts.name in window.examples:
                    example, cause = window.examples[facts.name]
                    facts = replace(facts, example=example, cause=cause)
            with_examples.append(facts)
        return with_examples


def _since(shard: Shard, before: ShardCounts) -> list[Refusal]:
    """Return the invalid records since `before`."""
    return [
        refusal._replace(records=refusal.records - before.refusals.get((refusal.kind, refusal.sentence), 0))
        for refusal in shard.refusals.reasons()
    ]

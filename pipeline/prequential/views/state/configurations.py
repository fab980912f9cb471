"""Track the settings with which messages are made: the current ones, their changes and their differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.texts import ListedSettings, between, texts
from prequential.topics.foreign_json import Unreadable, reader
from prequential.views.state.newest import StreamPartition

#: The largest numbers of stream names and of partitions that are listed for each settings.
_NAMES, _PARTITIONS = 5, 20

#: The largest number of digests whose settings are kept. Most files have fewer sections; each needs 1.4 KB.
_MOST_SETTINGS = 10_000

#: The largest numbers of current settings (those of most streams) and of changes (the newest) that are shown.
_MOST_AT_WORK, _MOST_CHANGES = 50, 20

#: Stands for a key that only one of two settings contains.
_NOT_SET = "(not set)"

#: A digest of settings, or two.
_Group = TypeVar("_Group", str, tuple[str, str])

#: Settings by key, as workers publish them (`listing.texts`).
Texts = Mapping[str, str | list[str]]


class Run(msgspec.Struct, gc=False):
    """Consecutive messages of a place with the same settings; times are Kafka's, in epoch ms.

    `former` is the digest of the previous settings; None if no earlier message was read.
    """

    config: str
    first: int
    newest: int
    messages: int
    former: str | None = None


class Configurations:
    """The newest run of each stream and partition; `config` is the page's own configuration."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._of_page = {
            stream_config.digest: stream_config
            for stream_config in (config.defaults, *config.streams.values())
        }
        self._runs: dict[StreamPartition, Run] = {}
        self._settings: dict[str, Texts] = {}
        #: Places whose newest messages have other settings than the page, and places with changed settings.
        self._others = self._changed = 0

    def counts(self) -> dict[str, int]:
        """Count all places, those with changed settings, and those that differ from the page's own."""
        return {"streams": len(self._runs), "changed": self._changed, "others": self._others}

    def add(self, stream: str, partition: int, config: str, time: int) -> None:
        """Note the settings of a message; the messages of a place must arrive in their order.

        `config` is empty in messages of old versions, which are ignored.
        """
        if not config:
            return
        stream_partition = StreamPartition(stream, partition)
        run = self._runs.get(stream_partition)
        if run is not None and run.config == config:
            run.newest = time
            run.messages += 1
            return
        own = self._config.stream(stream).digest
        if run is not None:
            self._others -= run.config != own
            self._changed -= run.former is not None
        former = None if run is None else run.config
        self._runs[stream_partition] = Run(config, time, time, 1, former)
        self._others += config != own
        self._changed += former is not None

    def tell(self, header: bytes) -> None:
        """Note the settings of a digest from a message's header; an unreadable header is ignored."""
        try:
            published = _decode(header)
        except Unreadable:
            return
        if len(self._settings) < _MOST_SETTINGS or published.config in self._settings:
            self._settings[published.config] = published.settings

    def page(self) -> dict[str, Any]:
        """Return the current settings, their changes and their differences as the page's JSON."""
        by_config: dict[str, list[StreamPartition]] = {}
        for stream_partition, run in self._runs.items():
            by_config.setdefault(run.config, []).append(stream_partition)
        at_work = _largest_first(by_config)
        return {
            **self.counts(),
            "at_work": [
                self._line(config, stream_partitions) for config, stream_partitions in at_work[:_MOST_AT_WORK]
            ],
            "more_at_work": max(0, len(at_work) - _MOST_AT_WORK),
            "changes": self._changes(by_config),
            "beside_own": self._beside_own(),
        }

    def _line(self, config: str, stream_partitions: list[StreamPartition]) -> dict[str, Any]:
        runs = [self._runs[stream_partition] for stream_partition in stream_partitions]
        changed = [run.first for run in runs if run.former is not None]
        return {
            "config": config,
            **_extent(stream_partitions),
            "own": sum(self._own(stream_partition) == config for stream_partition in stream_partitions),
            # Only places whose settings changed show since when: the others may always have had these.
            "since": min(changed, default=None),
            "until": max(changed, default=None),
            "first": min(run.first for run in runs),
            "newest": max(run.newest for run in runs),
            "messages": sum(run.messages for run in runs),
        }

    def _changes(self, by_config: Mapping[str, list[StreamPartition]]) -> list[dict[str, Any]]:
        """Return places with changed settings, by the settings before and after, the newest change first."""
        changed: dict[tuple[str, str], list[StreamPartition]] = {}
        for stream_partition, run in self._runs.items():
            if run.former is not None:
                changed.setdefault((run.former, run.config), []).append(stream_partition)
        changes = []
        for (before, after), stream_partitions in changed.items():
            firsts = [self._runs[stream_partition].first for stream_partition in stream_partitions]
            # A place whose own settings on the page are the previous ones need not change.
            still = [
                stream_partition
                for stream_partition in by_config.get(before, ())
                if self._own(stream_partition) != before
            ]
            newest = max((self._runs[stream_partition].newest for stream_partition in still), default=None)
            changes.append({
                "before": before, "after": after, **_extent(stream_partitions),
                "since": min(firsts), "until": max(firsts),
                "still": {**_extent(still), "newest": newest}, **self._difference(before, after),
            })  # fmt: skip
        changes.sort(key=lambda change: (-change["until"], change["before"], change["after"]))
        return changes[:_MOST_CHANGES]

    def _beside_own(self) -> list[dict[str, Any]]:
        """Return the differences between the page's own settings and the current ones."""
        pairs: dict[tuple[str, str], list[StreamPartition]] = {}
        for stream_partition, run in self._runs.items():
            if self._own(stream_partition) != run.config:
                pairs.setdefault((self._own(stream_partition), run.config), []).append(stream_partition)
        largest = _largest_first(pairs)[:_MOST_CHANGES]
        return [
            {"own": own, "config": config, **_extent(stream_partitions), **self._difference(own, config)}
            for (own, config), stream_partitions in largest
        ]

    def _difference(self, before: str, after: str) -> dict[str, Any]:
        """Return the differences by key; `untold` lists digests whose settings were in no message."""
        both = {
            config: texts(self._of_page[config]) if config in self._of_page else self._settings.get(config)
            for config in (before, after)
        }
        untold = [config for config, config_texts in both.items() if config_texts is None]
        was, now = both[before] or {}, both[after] or {}
        keys = [
            {"key": key, "values": list(between(old, new))}
            for key in dict.fromkeys((*was, *now))
            if (old := was.get(key, _NOT_SET)) != (new := now.get(key, _NOT_SET))
        ]
        return {"untold": untold, "keys": [] if untold else keys}

    def _own(self, stream_partition: StreamPartition) -> str:
        return self._config.stream(stream_partition.stream).digest


def _largest_first(
    groups: Mapping[_Group, list[StreamPartition]],
) -> list[tuple[_Group, list[StreamPartition]]]:
    """Return groups of evaluations with their names, the largest first, then by name."""
    names = sorted(groups, key=lambda name: (-len(groups[name]), name))
    return [(name, groups[name]) for name in names]


def _extent(stream_partitions: list[StreamPartition]) -> dict[str, Any]:
    """Return the number of places, some of their streams' names, and their partitions."""
    partitions = sorted({stream_partition.partition for stream_partition in stream_partitions})
    return {
        "streams": len(stream_partitions),
        "names": sorted({stream_partition.stream for stream_partition in stream_partitions})[:_NAMES],
        "partitions": partitions[:_PARTITIONS],
        "more_partitions": max(0, len(partitions) - _PARTITIONS),
    }


_decode = reader(ListedSettings)

"""Which configurations messages were made with, stream by stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from prequential.configuration.settings.model import Config
from prequential.topics.dead_letters import clock
from prequential.views.watching.tail import OutputRecord


class _Made(msgspec.Struct):
    """The fields of a metrics message about its configuration."""

    stream: str
    partition: int
    config: str


_decode = msgspec.json.Decoder(_Made).decode


class Use(NamedTuple):
    """A configuration of a stream, in one partition: times are Kafka's of its messages (epoch ms)."""

    stream: str
    partition: int
    config: str
    messages: int
    first: int
    newest: int


def uses(records: Iterable[OutputRecord]) -> list[Use]:
    """By stream and partition the configurations of metrics messages, in the order in which they came last.

    What is no such message is passed over.
    """
    found: dict[tuple[str, int, str], Use] = {}
    for _, value, time, _ in records:
        try:
            made = _decode(value or b"")
        except msgspec.MsgspecError:
            continue
        key = made.stream, made.partition, made.config
        use = found.get(key) or Use(*key, 0, time, time)
        found[key] = use._replace(
            messages=use.messages + 1, first=min(use.first, time), newest=max(use.newest, time)
        )
    return sorted(found.values(), key=lambda use: (use.stream, use.partition, use.newest, use.config))


class Live(NamedTuple):
    """What of a configuration is live."""

    lines: list[str]
    #: Whether the newest messages of all streams are as it would have them.
    everywhere: bool


def live(found: Iterable[Use], config: Config) -> Live:
    """In words, of streams with messages that aren't as `config` would have them; of the others their number.

    The newest messages of a partition are those of the worker that has its shard now.
    """
    by_stream: dict[str, list[Use]] = {}
    for use in found:
        by_stream.setdefault(use.stream, []).append(use)
    lines, alike, everywhere = [], 0, True
    for name, its in by_stream.items():
        own = config.stream(name).digest
        if all(use.config == own for use in its):
            alike += 1
            continue
        newest = {use.partition: use for use in its}
        everywhere &= all(use.config == own for use in newest.values())
        for use in its:
            which = "as in the file" if use.config == own else "another than in the file"
            over = "" if newest[use.partition] is use else ", no more"
            lines.append(
                f"{name} partition {use.partition}: config {use.config[:12]}, {which}, messages from "
                f"{clock(use.first)} to {clock(use.newest)}: {use.messages:,}{over}"
            )
    lines.append(f"streams with messages as in the file alone: {alike:,}")
    return Live(lines, everywhere)

"""Log without flooding: invalid records at most once a minute, the same error at most every 10 seconds.

While no broker is reachable, each client of librdkafka tries again up to twenty times a second. librdkafka
reports each failure, and also writes it to its own log on standard error.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic

from confluent_kafka import KafkaError
from prequential.topics.errors import kind_of, printable

log = logging.getLogger(__name__)

#: Seconds between two lines: often enough for an operator who has just changed a producer.
_EVERY_SECONDS = 60.0

#: Seconds between two checks whether a line is due. So the first line counts up to 5 s of records together.
_LOOK_SECONDS = 5.0

#: The number of kinds of reasons that are counted separately, and how many of them a line names.
_MOST_KINDS, _NAMED_KINDS = 1_000, 10


class _Kind:
    """The number of records of one topic and kind of reason, and the place of the first one."""

    def __init__(self, first: str) -> None:
        self.first = first
        self.count = 0


class Rejected:
    """Counts of dead letters by reason since the last log line.

    >>> rejected = Rejected()
    >>> rejected.note("labels", 3, 17, "class 'a' is one too many: limits.classes_per_stream is 2")
    >>> rejected.note("labels", 3, 19, "class 'b' is one too many: limits.classes_per_stream is 2")
    >>> rejected.note("labels", 0, 5, "the record has no value")
    >>> print(rejected.due(now=100.0))
    3 records can't be used: 2 of labels: class '…' is one too many: limits.classes_per_stream is 2 (first: \
labels/3 offset 17); 1 of labels: the record has no value (labels/0 offset 5)
    >>> rejected.note("labels", 0, 6, "the record has no value")
    >>> rejected.due(now=159.0)
    >>> rejected.due(now=160.0)
    "1 record can't be used: labels: the record has no value (labels/0 offset 6)"
    >>> rejected.due(now=300.0)
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._total = 0
        self._logged_at = float("-inf")

    def note(self, topic: str, partition: int, offset: int, reason: str) -> None:
        """Count a dead letter, with the place of the original and the reason why it is invalid."""
        self._total += 1
        kind_key = (topic, kind_of(reason))
        kind = self._kinds.get(kind_key)
        if kind is None:
            if len(self._kinds) >= _MOST_KINDS:
                return
            kind = self._kinds[kind_key] = _Kind(f"{topic}/{partition} offset {offset}")
        kind.count += 1

    def due(self, now: float) -> str | None:
        """Return the next line if there are new dead letters and the last line is old enough."""
        if not self._total or now - self._logged_at < _EVERY_SECONDS:
            return None
        self._logged_at = now
        return self._take()

    def remaining(self) -> str | None:
        """Return the line about the dead letters that no line has counted yet, for the end of the process."""
        return self._take() if self._total else None

    def _take(self) -> str:
        kinds = sorted(self._kinds.items(), key=lambda item: -item[1].count)
        total, self._kinds, self._total = self._total, {}, 0
        if total == 1:
            [((topic, reason), kind)] = kinds
            return printable(f"1 record can't be used: {topic}: {reason} ({kind.first})")
        parts = [
            f"{kind.count} of {topic}: {reason} ({'first: ' if kind.count > 1 else ''}{kind.first})"
            for (topic, reason), kind in kinds[:_NAMED_KINDS]
        ]
        if rest := total - sum(kind.count for _, kind in kinds[:_NAMED_KINDS]):
            parts.append(f"{rest} for other reasons")
        return printable(f"{total} records can't be used: {'; '.join(parts)}")


#: The counts of all shards of a process.
rejected = Rejected()


async def tell() -> None:
    """Log lines about rejected records when they are due; never returns."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        say(rejected.due(monotonic()))


def say(line: str | None) -> None:
    """Log a line, if there is one."""
    if line is not None:
        log.warning("%s; `prequential dead-letters` shows them", line)


#: Seconds until the same error is logged again.
_AGAIN_SECONDS = 10.0


class Complaints:
    """The common `error_cb` of several clients.

    >>> complaints = Complaints()
    >>> complaints.news("b:9092/1: Connection refused (after 3ms in state CONNECT)", now=100.0)
    'b:9092/1: Connection refused'
    >>> complaints.news("b:9092/1: Connection refused (after 0ms in state CONNECT)", now=109.0)
    >>> complaints.news("b:9092/1: Connection refused (after 4ms in state CONNECT)", now=110.0)
    'b:9092/1: Connection refused'
    """

    def __init__(self) -> None:
        self._logged: dict[str, float] = {}  # when each error was last logged

    def __call__(self, error: KafkaError) -> None:
        """Log an error, unless it was logged a moment ago."""
        if (text := self.news(error.str(), monotonic())) is not None:
            log.warning("Kafka: %s", text)

    def news(self, text: str, now: float) -> str | None:
        """Return an error's text without its variable part; None if it was logged a moment ago."""
        text = text.partition(" (after ")[0]
        if now - self._logged.get(text, float("-inf")) < _AGAIN_SECONDS:
            return None
        self._logged[text] = now
        return text


#: The callback of all clients of a process, because most errors concern all of them.
complain = Complaints()

#: Settings of a client with which `complain` logs its errors, and librdkafka does not.
COMPLAINING = {"error_cb": complain, "log_level": 0}

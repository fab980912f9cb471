"""Compares published messages with those that are recomputed from the inputs, by id and field.

Messages are recomputed in the order in which they were published. So what is recomputed before a message that
was published must have been published too, unless Kafka has removed it since. What is recomputed after the
newest published message may still be to come, or is of the last set of a replay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple, TypeAlias

import msgspec
from prequential.topics.outputs import ALL_PARTITIONS

#: Most bytes of published messages that are kept in memory.
_IN_MEMORY = 64_000_000

#: Stands for a field that a message lacks.
_ABSENT = "(absent)"

#: Fields that say which message it is, in this order.
_SUBJECT = (
    "stream", "partition", "model", "against", "segment", "stage", "estimator", "loss", "key", "measure",
    "detector", "signal",
)  # fmt: skip

#: Fields that say where in its sequence a message is: the first one that it has.
_PLACE = "outcomes", "revision", "outcome"


class _Heading(msgspec.Struct):
    """The fields of a message by which it is found and ordered."""

    id: str
    stream: str
    partition: int
    revision: int | None = None  # of an incident, whose messages share an id


#: A message: its topic, its id, and the revision of an incident.
_Key: TypeAlias = tuple[str, str, int | None]

#: Messages that are recomputed in the order in which they were published: those of a topic and a partition;
#: of streams in all partitions, those of a stream.
_Sequence: TypeAlias = tuple[str, int, str | None]

_heading = msgspec.json.Decoder(_Heading).decode


class _Extent(NamedTuple):
    """Where a message is in the texts of published ones, in bytes."""

    start: int
    size: int


class MessageDifference(NamedTuple):
    """A field of a message that isn't as recomputed."""

    topic: str
    id: str
    subject: str
    field: str  # names of nested fields are joined by dots; empty: one of the messages doesn't exist
    published: str  # as JSON
    recomputed: str

    def __str__(self) -> str:
        """The difference in one line."""
        name = f"{self.topic} {self.id} ({self.subject})"
        if not self.field:
            return f"{name}: only {'published' if self.published else 'recomputed'}"
        return f"{name}: {self.field}: published {self.published}, recomputed {self.recomputed}"


class Verification:
    """Published messages, and how they differ from recomputed ones.

    >>> verification = Verification()
    >>> published = b'{"id":"a1","stream":"s","partition":0,"outcomes":7,"counts":{"late":3}}'
    >>> list(verification.add("metrics", published))
    []
    >>> recomputed = published.replace(b"3", b"5")
    >>> [str(one) for one in verification.compare("metrics", recomputed)]
    ['metrics a1 (s, 0, outcomes 7): counts.late: published 3, recomputed 5']
    >>> list(verification.only_published())
    []
    >>> verification.close()
    """

    def __init__(self) -> None:
        #: Topics of which the first messages that were ever published are among those to add.
        self.whole: set[str] = set()
        self._texts = SpooledTemporaryFile(_IN_MEMORY)
        self._size = 0
        #: By message that hasn't been recomputed so far, and then by one that has: its place in the texts.
        self._extents: dict[_Key, _Extent] = {}
        self._recomputed: dict[_Key, _Extent] = {}
        #: By sequence, messages that were only recomputed since the latest one that was also published.
        self._pending: dict[_Sequence, list[MessageDifference]] = {}
        self._begun: set[_Sequence] = set()  # those with a message that was published and recomputed
        self.published = self.compared = 0
        #: Number of published messages that were made with other settings, and aren't compared.
        self.other_settings = 0

    def close(self) -> None:
        """Delete the texts of the published messages."""
        self._texts.close()

    def add(self, topic: str, text: bytes) -> Iterator[MessageDifference]:
        """Add a published message; yields how it differs from an earlier one with the same id."""
        self.published += 1
        key, _ = _key_of(topic, text)
        if key not in self._extents:
            self._texts.seek(self._size)
            self._texts.write(text)
            self._extents[key] = _Extent(self._size, len(text))
            self._size += len(text)
        elif (earlier := self._text(self._extents[key])) != text:
            yield from _differences(topic, earlier, text)

    @staticmethod
    def partition_of(text: bytes) -> int:
        """The partition that a message names; -1: it is about a stream in all partitions."""
        return _heading(text).partition

    def compare(self, topic: str, text: bytes) -> Iterator[MessageDifference]:
        """Compare a recomputed message; yields how published ones differ."""
        key, sequence = _key_of(topic, text)
        if (again := self._recomputed.get(key)) is not None:
            # The last set of a replay repeats messages, which says nothing about those recomputed before it.
            if (published := self._text(again)) != text and _config_of(published) == _config_of(text):
                yield from _differences(topic, published, text)
            return
        extent = self._extents.pop(key, None)
        if extent is None:
            subject = _subject_of(msgspec.json.decode(text))
            difference = MessageDifference(topic, key[1], subject, "", "", text.decode())
            self._pending.setdefault(sequence, []).append(difference)
            return
        pending = self._pending.pop(sequence, [])
        if topic in self.whole or sequence in self._begun:
            yield from pending
        self._begun.add(sequence)
        self._recomputed[key] = extent
        self.compared += 1
        published = self._text(extent)
        if published != text:
            yield from self._changed(topic, published, text)

    def _changed(self, topic: str, published: bytes, recomputed: bytes) -> Iterator[MessageDifference]:
        if _config_of(published) == _config_of(recomputed):
            yield from _differences(topic, published, recomputed)
        else:
            self.compared -= 1
            self.other_settings += 1

    def only_published(self, configs: Collection[str] = ()) -> Iterator[MessageDifference]:
        """Yield the published messages that weren't recomputed.

        `configs` has the digests of the present settings: messages of other settings are only counted.
        """
        for (topic, name, _), extent in self._extents.items():
            text = self._text(extent)
            config = _config_of(text)
            if configs and config is not None and config not in configs:
                self.other_settings += 1
            else:
                subject = _subject_of(msgspec.json.decode(text))
                yield MessageDifference(topic, name, subject, "", text.decode(), "")

    def _text(self, extent: _Extent) -> bytes:
        self._texts.seek(extent.start)
        return self._texts.read(extent.size)


def _key_of(topic: str, text: bytes) -> tuple[_Key, _Sequence]:
    heading = _heading(text)
    stream = heading.stream if heading.partition == ALL_PARTITIONS else None
    return (topic, heading.id, heading.revision), (topic, heading.partition, stream)


def _config_of(text: bytes) -> str | None:
    config: str | None = msgspec.json.decode(text).get("config")
    return config


def _subject_of(message: dict[str, Any]) -> str:
    """Which message it is, in words."""
    names = [str(message[name]) for name in _SUBJECT if message.get(name) is not None]
    position = next((f"{name} {message[name]}" for name in _PLACE if name in message), None)
    return ", ".join(names if position is None else [*names, position])


def _differences(topic: str, published: bytes, recomputed: bytes) -> Iterator[MessageDifference]:
    """The fields in which two messages with one id differ."""
    before, after = msgspec.json.decode(published), msgspec.json.decode(recomputed)
    subject = _subject_of(before)
    for field, ours, theirs in _fields(before, after):
        yield MessageDifference(topic, before["id"], subject, field, ours, theirs)


def _fields(published: Any, recomputed: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """The fields in which two values differ, each with both values as JSON.

    >>> list(_fields({"n": 1, "counts": {"late": 1}}, {"n": 1, "counts": {"late": 2}, "same": ["initial"]}))
    [('counts.late', '1', '2'), ('same', '(absent)', '["initial"]')]
    """
    if not (isinstance(published, dict) and isinstance(recomputed, dict)):
        yield path, _as_json(published), _as_json(recomputed)
        return
    for name in dict.fromkeys([*published, *recomputed]):
        before, after = published.get(name, _ABSENT), recomputed.get(name, _ABSENT)
        if type(before) is not type(after) or before != after:
            yield from _fields(before, after, f"{path}.{name}" if path else name)


def _as_json(value: Any) -> str:
    return _ABSENT if value is _ABSENT else msgspec.json.encode(value).decode()

"""Messages as JSON, written by one compiled loop: most of a message's cost is formatting its numbers.

A message consists of constant texts (its subject), of numbers from tables, and of a rest that the caller
encodes:

    {"id":…, HEAD "n":…,"outcomes":…,"ts":…,"measures":{…},"undefined":{…}, REST, ENDING}

Messages of a *group* share outcomes, time and rest, such as those of all estimators of one model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.decimals import LONGEST_NUMBER, put_bytes, put_float, put_int
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inlined, kernel
from prequential.topics.encoding import ID_BYTES, digest_of, fields_of
from prequential.topics.outputs import Encoded

#: Bytes of a digest; the first ones are an id.
_DIGEST = 32

#: Bytes that are written before they are copied: few enough to stay in the processor's cache.
_BUFFER = 1 << 18

#: An upper bound of the bytes around names, values, head and rest.
_AROUND = 256


def _text(text: bytes) -> Bytes:
    return np.frombuffer(text, dtype=np.uint8)


_HEX = _text(b"0123456789abcdef")
_BEGIN, _N, _OUTCOMES, _TS = _text(b'{"id":"'), _text(b',"n":'), _text(b',"outcomes":'), _text(b',"ts":')
_MEASURES, _UNDEFINED, _REST = _text(b',"measures":{'), _text(b'},"undefined":{'), _text(b"},")
_QUOTE, _COMMA = _text(b'",'), ord(",")


class TextPool(NamedTuple):
    """Concatenated texts."""

    text: Bytes
    ends: Ints

    @classmethod
    def from_texts(cls, texts: Sequence[bytes]) -> TextPool:
        """Concatenate these texts.

        >>> TextPool.from_texts([b"ab", b"", b"c"]).ends
        array([2, 2, 3])
        """
        ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
        return cls(_text(b"".join(texts) or b" "), ends)


class Vocabulary(NamedTuple):
    """Names of columns, and by code the reasons why there is no value."""

    names: TextPool  # `"accuracy":`
    reasons: TextPool  # `"empty"`; a column whose reason is an empty text is left out
    counts: Bytes  # by column: whether it is an integer whenever n is
    longest: int  # the largest number of bytes of a column


def vocabulary(names: Sequence[str], reasons: Sequence[str], counts: Iterable[str] = ()) -> Vocabulary:
    """The texts of columns and reasons. The first reason means a value; `counts` are integers."""
    named = [b'"%b":' % name.encode() for name in names]
    why = [b'"%b"' % reason.encode() if reason else b"" for reason in reasons]
    whole = np.isin(np.array(names), list(counts)).astype(np.uint8)
    longest = max(map(len, named)) + max(LONGEST_NUMBER, *map(len, why)) + 1
    return Vocabulary(TextPool.from_texts(named), TextPool.from_texts(why), whole, longest)


class Form(NamedTuple):
    """The parts that a topic's messages have in common."""

    words: Vocabulary
    columns: Ints  # (choices, columns) the published columns, in their order; -1: none
    endings: TextPool


class MessageValues(NamedTuple):
    """Rows of values: n, and by column a value or a reason's code (below 0: the column is left out)."""

    n: Floats
    whole: Bytes  # whether n is a whole number, and so are counts
    values: Floats
    reasons: Ints
    ending: Ints  # which ending


def joined(parts: Sequence[MessageValues]) -> MessageValues:
    """All rows of these parts, in the order of the parts."""
    columns: Any = map(np.concatenate, zip(*parts))
    return MessageValues(*columns)


class MessageGroups(NamedTuple):
    """Groups of messages, by group."""

    ends: Ints  # after the last message
    outcomes: Ints
    ts: Ints
    columns: Ints  # row of `Form.columns`
    rests: TextPool


class MessageTexts(NamedTuple):
    """By message: the digest of its id, its subject, and the row of its values."""

    digests: Bytes
    heads: TextPool
    rows: Ints


@inlined
def _size(pool: TextPool, index: int) -> int:
    """Bytes of one of the texts."""
    return pool.ends[index] - (pool.ends[index - 1] if index else 0)


@inlined
def _put(out: Bytes, position: int, pool: TextPool, index: int) -> int:
    """Write one of the texts; returns where it ends."""
    return put_bytes(out, position, pool.text, pool.ends[index] - _size(pool, index), pool.ends[index])


@kernel
def _write(
    out: Bytes, ends: Ints, first: int, group: int, messages: MessageTexts, groups: MessageGroups, form: Form,
    values: MessageValues,
) -> int:  # fmt: skip
    """Write messages from `first` on, which is in `group`, while there is room; returns the next message.

    `ends`: by message, where it ends in `out`.
    """
    words, columns, endings = form
    position, m = 0, first
    while m < len(messages.rows):
        while m >= groups.ends[group]:
            group += 1
        row, chosen = messages.rows[m], columns[groups.columns[group]]
        size = _size(messages.heads, m) + _size(groups.rests, group)
        if position + size + len(chosen) * words.longest + _AROUND > len(out):
            return m
        position = put_bytes(out, position, _BEGIN, 0, len(_BEGIN))
        for index in range(m * _DIGEST, m * _DIGEST + ID_BYTES):
            byte = messages.digests[index]
            out[position], out[position + 1] = _HEX[byte >> 4], _HEX[byte & 15]
            position += 2
        position = put_bytes(out, position, _QUOTE, 0, len(_QUOTE))
        position = _put(out, position, messages.heads, m)
        position = put_bytes(out, position, _N, 0, len(_N))
        position = (
            put_int(out, position, int(values.n[row]))
            if values.whole[row]
            else put_float(out, position, values.n[row])
        )
        position = put_bytes(out, position, _OUTCOMES, 0, len(_OUTCOMES))
        position = put_int(out, position, groups.outcomes[group])
        position = put_bytes(out, position, _TS, 0, len(_TS))
        position = put_int(out, position, groups.ts[group])
        position = put_bytes(out, position, _MEASURES, 0, len(_MEASURES))
        begun = position
        for column in chosen:
            if column >= 0 and values.reasons[row, column] == 0:
                if position > begun:
                    out[position] = _COMMA
                    position += 1
                position = _put(out, position, words.names, column)
                if words.counts[column] and values.whole[row]:
                    position = put_int(out, position, int(values.values[row, column]))
                else:
                    position = put_float(out, position, values.values[row, column])
        position = put_bytes(out, position, _UNDEFINED, 0, len(_UNDEFINED))
        begun = position
        for column in chosen:
            if column >= 0 and values.reasons[row, column] > 0:
                if position > begun:
                    out[position] = _COMMA
                    position += 1
                position = _put(out, position, words.names, column)
                position = _put(out, position, words.reasons, values.reasons[row, column])
        position = put_bytes(out, position, _REST, 0, len(_REST))
        position = _put(out, position, groups.rests, group)
        position = _put(out, position, endings, values.ending[row])
        ends[m] = position
        m += 1
    return m


class Subjects(NamedTuple):
    """The subjects of messages, by message: the first parts of their ids, and their first fields."""

    digests: list[Any]  # digests that have the first parts of their ids
    heads: list[bytes]

    @classmethod
    def from_fields(cls, abouts: Iterable[dict[str, Any]]) -> Subjects:
        """The subjects of messages, from the fields that name them, in their order."""
        abouts = list(abouts)
        return cls([digest_of(*fields.values()) for fields in abouts], list(map(fields_of, abouts)))

    def part(self, start: int, stop: int) -> Subjects:
        """The subjects of messages `start` to `stop` - 1."""
        return Subjects(self.digests[start:stop], self.heads[start:stop])


class Draft:
    """Messages for `Writer.write`, group by group."""

    def __init__(self) -> None:
        self._digests: list[bytes] = []  # … by message
        self._heads: list[bytes] = []
        self._rows: list[int] = []
        self.streams: list[str] = []
        self._groups: list[tuple[int, int, int, int]] = []  # by group: see `MessageGroups`
        self._rests: list[bytes] = []

    def add(
        self, stream: str, subjects: Subjects, numbers: bytes, rows: Iterable[int], outcomes: int, ts: int,
        columns: int, fields: bytes,
    ) -> None:  # fmt: skip
        """Add a group: messages with the same outcome count, time and rest, about the subjects `subjects`.

        `stream` is the record's key, `numbers` the part of their ids after the subject. `rows` has by message
        the row of its values. `ts` is the label time of the newest outcome (ms), `columns` the published
        measures (a number from `Writer.columns`), `fields` the JSON after the measures, without braces.
        """
        digests = self._digests
        for begun in subjects.digests:
            digest = begun.copy()
            digest.update(numbers)
            digests.append(digest.digest())
        self._heads += subjects.heads
        self._rows += rows
        self._groups.append((len(self._rows), outcomes, ts, columns))
        self._rests.append(fields)
        self.streams += [stream] * len(subjects.heads)

    def messages(self) -> MessageTexts:
        """Digests, heads and rows of values of all messages, in the order in which they were added."""
        digests = np.frombuffer(b"".join(self._digests), dtype=np.uint8)
        return MessageTexts(digests, TextPool.from_texts(self._heads), np.array(self._rows, dtype=np.int64))

    def groups(self) -> MessageGroups:
        """The groups in the order in which they were added, with the cumulative number of messages."""
        ends, outcomes, ts, columns = np.array(self._groups, dtype=np.int64).T.copy()
        return MessageGroups(ends, outcomes, ts, columns, TextPool.from_texts(self._rests))


class Writer:
    """Writes the messages of one topic, with the names of one vocabulary."""

    def __init__(self, topic: str, words: Vocabulary, endings: Sequence[bytes] = (b"}",)) -> None:
        self._topic = topic
        self._words, self._endings = words, TextPool.from_texts(endings)
        self._out = np.empty(0, dtype=np.uint8)
        self._columns = np.full((1, 1), -1, dtype=np.int64)
        self._numbers: dict[tuple[int, ...], int] = {}

    def columns(self, chosen: tuple[int, ...]) -> int:
        """The number of this choice of columns of values, for `Draft.add`."""
        number = self._numbers.get(chosen)
        if number is None:
            number = self._numbers[chosen] = len(self._numbers)
            self._columns = np.full(
                (len(self._numbers), max(map(len, self._numbers)) or 1), -1, dtype=np.int64
            )
            for row, choice in enumerate(self._numbers):
                self._columns[row, : len(choice)] = choice
        return number

    def write(self, draft: Draft, values: MessageValues) -> list[Encoded]:
        """The draft's messages, encoded, in order; their rows are those of `values`."""
        if not draft.streams:
            return []
        written = self._written(draft.messages(), draft.groups(), values)
        return list(map(Encoded, repeat(self._topic), draft.streams, written))

    def _written(self, messages: MessageTexts, groups: MessageGroups, values: MessageValues) -> list[bytes]:
        count, first, group = len(messages.rows), 0, 0
        ends = np.zeros(count, dtype=np.int64)
        form = Form(self._words, self._columns, self._endings)
        texts: list[bytes] = []
        while first < count:
            stop = _write(self._out, ends, first, group, messages, groups, form, values)
            if stop == first:  # no buffer yet, or a message that is larger than it
                self._out = np.empty(max(_BUFFER, 2 * len(self._out)), dtype=np.uint8)
                continue
            text, behind = self._out[: ends[stop - 1]].tobytes(), ends[first:stop].tolist()
            texts += [text[start:end] for start, end in zip([0, *behind], behind)]
            first = stop
            group = int(groups.ends.searchsorted(first, side="right"))
        return texts

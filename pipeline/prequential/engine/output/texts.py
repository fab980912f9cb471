"""Messages as JSON, written by one compiled loop: most of a message's cost is formatting its numbers.

A message consists of constant texts (its subject), of numbers from tables, and of further fields, which are
texts that several messages may share:

    {"id":…, HEAD "n":…,"outcomes":…,"ts":…,"measures":{…},"undefined":{…}, FIELDS, ENDING}

Messages of a *group* share outcomes and time, such as those of all estimators of one model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.decimals import LONGEST_NUMBER, put_bytes, put_float, put_int
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, kernel
from prequential.engine.compiled.spans import Spans
from prequential.engine.output.encoded_messages import EncodedMessages
from prequential.engine.output.fields import TextPool, as_bytes, put_comma, put_text, size_of
from prequential.topics.encoding import ID_BYTES, begun_identity, fields_of
from prequential.topics.outputs import Encoded

#: Bytes of a digest; the first ones are an id.
_DIGEST = 32

#: Bytes of a buffer beyond those that its messages are expected to need: room for the longest form of one.
_BUFFER = 1 << 12

#: Bytes of a message that are expected before there were any.
_MESSAGE = 1_024

#: An upper bound of the bytes around names, values, head and fields.
_AROUND = 256

_HEX = as_bytes(b"0123456789abcdef")
_BEGIN, _N, _TS = as_bytes(b'{"id":"'), as_bytes(b',"n":'), as_bytes(b',"ts":')
_OUTCOMES = as_bytes(b',"outcomes":')
_MEASURES, _UNDEFINED, _END = as_bytes(b',"measures":{'), as_bytes(b'},"undefined":{'), as_bytes(b"}")
_QUOTE, _COMMA = as_bytes(b'",'), ord(",")


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


class MessageTexts(NamedTuple):
    """By message: the digest of its id, its subject, the row of its values, and its further fields."""

    digests: Bytes
    heads: TextPool
    rows: Ints
    texts: TextPool
    fields: Ints  # (messages, fields) which texts, in their order; -1: none


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
        size = size_of(messages.heads, m)
        for index in messages.fields[m]:
            size += 1 + (size_of(messages.texts, index) if index >= 0 else 0)
        if position + size + len(chosen) * words.longest + _AROUND > len(out):
            return m
        position = put_bytes(out, position, _BEGIN, 0, len(_BEGIN))
        for index in range(m * _DIGEST, m * _DIGEST + ID_BYTES):
            byte = messages.digests[index]
            out[position], out[position + 1] = _HEX[byte >> 4], _HEX[byte & 15]
            position += 2
        position = put_bytes(out, position, _QUOTE, 0, len(_QUOTE))
        position = put_text(out, position, messages.heads, m)
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
        for column in chosen:
            if column >= 0 and values.reasons[row, column] == 0:
                position = put_comma(out, 0, position)
                position = put_text(out, position, words.names, column)
                if words.counts[column] and values.whole[row]:
                    position = put_int(out, position, int(values.values[row, column]))
                else:
                    position = put_float(out, position, values.values[row, column])
        position = put_bytes(out, position, _UNDEFINED, 0, len(_UNDEFINED))
        for column in chosen:
            if column >= 0 and values.reasons[row, column] > 0:
                position = put_comma(out, 0, position)
                position = put_text(out, position, words.names, column)
                position = put_text(out, position, words.reasons, values.reasons[row, column])
        position = put_bytes(out, position, _END, 0, len(_END))
        for index in messages.fields[m]:
            if index >= 0:
                out[position] = _COMMA
                position = put_text(out, position + 1, messages.texts, index)
        position = put_text(out, position, endings, values.ending[row])
        ends[m] = position
        m += 1
    return m


class SubjectText(NamedTuple):
    """The beginning of a message's subject: of its id, see `begun_identity`, and of its first fields."""

    identity: bytes
    head: bytes


class SubjectEnding(NamedTuple):
    """How the subject of a message ends, after one of several beginnings."""

    beginning: int
    identity: bytes
    head: bytes


def endings_of(fields: Iterable[tuple[int, dict[str, Any]]]) -> tuple[SubjectEnding, ...]:
    """The endings of messages' subjects: the number of its beginning, and its last fields, for each.

    >>> endings_of([(0, {"stage": "final", "estimator": "all"})])[0].identity
    b',"final","all"'
    """
    return tuple(
        SubjectEnding(beginning, b"," + begun_identity(*ending.values())[1:], b"," + fields_of(ending))
        for beginning, ending in fields
    )


@cache
def _whole(count: int) -> tuple[SubjectEnding, ...]:
    """The endings of subjects that nothing follows."""
    return tuple(SubjectEnding(number, b"", b"") for number in range(count))


class Subjects(NamedTuple):
    """The subjects of messages. Their endings are one object for all subjects that end in the same way."""

    beginnings: tuple[SubjectText, ...]
    endings: tuple[SubjectEnding, ...]  # by message

    @classmethod
    def from_fields(
        cls, beginnings: Iterable[dict[str, Any]], endings: tuple[SubjectEnding, ...] | None = None
    ) -> Subjects:
        """The subjects of messages, from the first fields that name them, and their endings.

        Without `endings`, each beginning is a whole subject, of one message.
        """
        texts = tuple(SubjectText(begun_identity(*own.values()), fields_of(own)) for own in beginnings)
        return cls(texts, _whole(len(texts)) if endings is None else endings)


class Draft(NamedTuple):
    """Messages for `Writer.write`.

    By group: the stream, which is the record's key; the subjects of its messages; the part of their ids after
    the subject; outcomes; the label time of the newest one (ms); and the published measures, a number from
    `Writer.columns`.
    """

    streams: Sequence[str]
    subjects: Sequence[Subjects]
    numbers: Sequence[bytes]
    outcomes: Ints
    ts: Ints
    columns: Ints
    rows: Ints  # by message: the row of its values
    texts: TextPool  # of fields behind the measures, as JSON without braces
    fields: Ints  # (messages, fields) by message: which texts, in their order; -1: none

    def messages(self) -> MessageTexts:
        """Digests, heads, rows of values and further fields of all messages."""
        digests = b"".join([
            sha256(subjects.beginnings[ending.beginning].identity + ending.identity + numbers).digest()
            for subjects, numbers in zip(self.subjects, self.numbers) for ending in subjects.endings
        ])  # fmt: skip
        heads = [
            subjects.beginnings[ending.beginning].head + ending.head
            for subjects in self.subjects for ending in subjects.endings
        ]  # fmt: skip
        ends = np.cumsum(np.fromiter(map(len, heads), np.int64, len(heads)))
        # In one form, however a caller made them: others would be compiled in the middle of a stream.
        texts = self.texts.text.view()
        texts.flags.writeable = False
        rows, fields = map(np.ascontiguousarray, (self.rows, self.fields))
        return MessageTexts(
            as_bytes(digests), TextPool(as_bytes(b"".join(heads) or b" "), ends), rows,
            TextPool(texts, self.texts.ends), fields,
        )  # fmt: skip

    def groups(self) -> MessageGroups:
        """The groups, with the cumulative number of messages."""
        ends = np.cumsum([len(subjects.endings) for subjects in self.subjects])
        return MessageGroups(ends, *map(np.ascontiguousarray, (self.outcomes, self.ts, self.columns)))


class Writer:
    """Writes the messages of one topic, with the names of one vocabulary."""

    def __init__(self, topic: str, words: Vocabulary, endings: Sequence[bytes] = (b"}",)) -> None:
        self._topic = topic
        self._words, self._endings = words, TextPool.from_texts(endings)
        self._mean = _MESSAGE  # bytes of a message, at the latest call
        self._columns = np.full((1, 1), -1, dtype=np.int64)
        self._numbers: dict[tuple[int, ...], int] = {}

    def columns(self, chosen: tuple[int, ...]) -> int:
        """The number of this choice of columns of values, for `Draft.columns`."""
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
        return list(self.write_together(draft, values)) if len(draft.rows) else []

    def write_together(self, draft: Draft, values: MessageValues) -> EncodedMessages:
        """The same messages, without an object for each."""
        groups = draft.groups()
        texts = self._written(draft.messages(), groups, values)
        return EncodedMessages(self._topic, draft.streams, groups.ends, texts)

    def _written(self, messages: MessageTexts, groups: MessageGroups, values: MessageValues) -> Spans:
        count, first, group = len(messages.rows), 0, 0
        ends = np.zeros(count, dtype=np.int64)
        form = Form(self._words, self._columns, self._endings)
        parts: list[Bytes] = []
        behind, room = 0, 0  # bytes of the parts; bytes that one message has needed
        while first < count:
            # As a rule one buffer has room for all of them, so nothing is copied.
            room = max(room, (count - first) * self._mean * 9 // 8 + _BUFFER)
            out = np.empty(room, dtype=np.uint8)
            stop = _write(out, ends, first, group, messages, groups, form, values)
            if stop == first:  # the message is larger than the buffer
                room *= 2
                continue
            size = int(ends[stop - 1])
            parts.append(out[:size])
            ends[first:stop] += behind
            behind += size
            first = stop
            group = int(groups.ends.searchsorted(first, side="right"))
        self._mean = behind // max(1, count)
        text = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.uint8), *parts])
        return Spans.from_ends(text, ends)

"""Convert the records of a source to messages for the inputs, and to dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import repeat
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Message
from prequential.configuration.settings.model import Config
from prequential.mapping.evaluations import read_json
from prequential.mapping.model import Path, RecordMapping
from prequential.mapping.rows import has_name
from prequential.mapping.translation import KafkaRecords, Translator
from prequential.mapping.units import Clocks
from prequential.runtime.ingest import mapped_parts
from prequential.runtime.ingest.formats import FRAME_BYTES, MAGIC, Content, Decode
from prequential.runtime.ingest.reading import SourceCounts
from prequential.runtime.kafka.rejected import rejected
from prequential.runtime.kafka.transactions import BY_KEY, Outgoing
from prequential.topics.dead_letters import headers_of
from prequential.topics.decoding import KINDS, LABELS
from prequential.topics.foreign_json import Unreadable
from prequential.topics.messages import MAX_VALUE_BYTES, Instance, Label, Prediction
from prequential.topics.partitioning import key_of
from prequential.topics.specs import DEAD_LETTERS
from prequential.topics.values import why_no_record_time, written

#: Why a deletion that doesn't name its instance is invalid.
_NO_INSTANCE = "a deletion must name the instance whose label it withdraws; set REPLICA IDENTITY FULL"

#: Kafka's value for a missing timestamp.
_NO_TIMESTAMP = -1

#: The most existing names that a dead letter quotes when a path does not match.
_MOST_NAMES = 20

#: Comes before the numbers of rows.
_NO_ROW = -1

_NO_PLACES = frozenset[int]()


#: Records as they are written: without fields that have their defaults.
_STRUCTS = tuple(
    msgspec.defstruct(f"Written{struct.__name__}", [], bases=(struct,), omit_defaults=True, gc=False)
    for struct in (Instance, Prediction, Label)
)

_encode = msgspec.json.Encoder(enc_hook=written).encode
_stream: Callable[[Any], str] = attrgetter("stream")


class _Writing(Translator):
    """A translator into records as they are written.

    A null label withdraws the label, unless it means that the label isn't known yet: in `nullable` sources,
    and in Debezium's rows.
    """

    def __init__(self, mapping: RecordMapping, config: Config, nullable: bool) -> None:
        waits = nullable or mapped_parts.operation_path([path for _, path in mapping.paths()]) is not None
        super().__init__(
            mapping, lambda stream: config.stream(stream).task,
            classes_of=lambda stream: config.stream(stream).classes,
            withdraws=mapping.kind == LABELS and not waits,
        )  # fmt: skip
        self._struct = _STRUCTS[mapping.kind]


class _Table(KafkaRecords):
    """A batch for a translator, with values in the form of their format."""

    def __init__(self, messages: Sequence[Message], content: Content, **options: Any) -> None:
        super().__init__(content.values, **options)
        self._messages, self._content = messages, content

    def column(self, path: Path) -> list[Any]:
        """Return from every record the value at a path; None if it has nothing there."""
        return self._content.column(path.keys) if path.root == "value" else super().column(path)

    def has_null(self, path: Path, index: int) -> bool:
        """Whether a record without a value at a path has it as null."""
        value = whole(self._messages[index], self._content.values[index])
        return path.root == "value" and has_name(value, path.keys)


class Made(NamedTuple):
    """The result of one mapping for a batch: records of one kind and their values, or None.

    `places` has the source's record of each.
    """

    kind: int
    records: list[Any]
    values: list[bytes | None]
    places: Sequence[int]


#: Why a record gives no message, and isn't invalid; values of the label `reason` of the counter.
TOMBSTONE, DELETION, TRUNCATION, OTHER_EVENT = "tombstone", "deletion", "truncation", "message"
EXCLUDED, UNLABELLED, NO_ROWS, NO_EVENTS = "when", "unlabelled", "no_rows", "no_events"

#: By reason, what the dry run prints.
SKIPPED = {
    TOMBSTONE: "no value, and no label that a key or header names",
    DELETION: "deletes a row without a label of this mapping",
    TRUNCATION: "truncates a table",
    OTHER_EVENT: "a message of an application in Debezium's log",
    EXCLUDED: "excluded by `when`",
    UNLABELLED: "no label yet",
    NO_ROWS: "no rows in it",
    NO_EVENTS: "no event that the format reads",
}

#: Debezium's operations without a current row, as reasons.
_OF_OPERATION = {mapped_parts.DELETION: DELETION, "t": TRUNCATION, "m": OTHER_EVENT}


class MappedRecords(NamedTuple):
    """The result of all mappings for a batch."""

    made: list[Made]
    #: By place, the reasons why a record, or an event or row within it, becomes a dead letter.
    reasons: dict[int, list[str]]
    #: By place of a record that gives no message and isn't invalid, the reason, of `SKIPPED`.
    passed: dict[int, str]
    #: Places of rows whose label isn't known yet, even if they give other messages.
    unlabelled: frozenset[int] = frozenset()


class SourceTranslator:
    """Makes messages from the records of one source.

    A record becomes the messages of all its mappings. If one mapping doesn't fit, the record becomes a dead
    letter and nothing else. The same holds for each event of a batch, and for each row of a mapping with
    rows. `decode` reads values, and `decode_key` reads keys if paths lead into them.
    `letters` is the number of partitions of the dead letters' topic. With `nullable`, a null label means that
    the label isn't known yet.
    """

    def __init__(
        self, config: Config, topic: str, mappings: Sequence[RecordMapping], decode: Decode, *,
        decode_key: Decode | None = None, letters: int = 1, nullable: bool = False,
    ) -> None:  # fmt: skip
        self.topic = topic
        self._nullable = nullable
        self._translators = [
            (mapping_of_kind.kind, _Writing(mapping_of_kind, config, nullable))
            for mapping_of_kind in mappings
        ]
        #: By mapping without `rows`, for deleted rows and for tombstones: what withdraws labels, or None.
        self._withdrawals = [
            tuple(
                None if mapping is None else _Writing(mapping, config, nullable)
                for mapping in (
                    mapped_parts.of_deleted_row(mapping_of_kind),
                    mapped_parts.of_tombstone(mapping_of_kind),
                )
            )
            for mapping_of_kind in mappings
            if mapping_of_kind.rows is None
        ]
        #: By mapping: what withdraws the labels of rows whose label was updated to null, or None.
        self._cleared = [
            None if mapping is None else _Writing(mapping, config, nullable)
            for mapping in map(mapped_parts.of_cleared_row, mappings)
        ]
        #: Counts of times with and without a zone, by input.
        self.clocks: dict[str, Clocks] = {}
        for kind, translator in self._translators:
            translator.clocks = self.clocks.setdefault(KINDS[kind], Clocks())
        self._decode, self._decode_key, self._letters = decode, decode_key, letters
        self._names = [config.kafka.topic(name) for name in KINDS]
        self._dead_letters = config.kafka.topic(DEAD_LETTERS)
        self._wide = frozenset(config.wide)
        paths = [path for mapping_of_kind in mappings for _, path in mapping_of_kind.paths()]
        self._paths = paths
        self._roots = {path.root for path in paths}
        self._operation = mapped_parts.operation_path(paths)
        self._repeats = len({mapping_of_kind.kind for mapping_of_kind in mappings}) < len(mappings)

    def translate(self, partition: int, messages: Sequence[Message], counts: SourceCounts) -> list[Outgoing]:
        """Return the messages to write for a batch of one partition, in its order."""
        parts, reasons, passed, unlabelled = self.apply(messages)
        outgoing: list[Any] = []
        for kind, records, values, message_indices in parts:
            if None in values:
                kept = [index for index, value in enumerate(values) if value is not None]
                records, values = [records[index] for index in kept], [values[index] for index in kept]
                message_indices = [message_indices[index] for index in kept]
            keys: Iterable[bytes] = map(str.encode, map(_stream, records))
            if self._wide:
                keys = [key_of(record.stream, record.instance_id, self._wide) for record in records]
            written = map(
                Outgoing, repeat(self._names[kind]), keys, values, repeat(None), repeat(BY_KEY)
            )  # fmt: skip
            outgoing += zip(message_indices, written) if self._repeats else written
            counts.messages[self.topic, kind] += len(records)
        if self._repeats:  # a record may give several messages for one input: restore the order of records
            outgoing = [record for _, record in sorted(outgoing, key=lambda placed: placed[0])]
        letters = [
            (message_index, why)
            for message_index, several in sorted(reasons.items())
            for why in mapped_parts.few_reasons(several)
        ]
        outgoing += [self._letter(partition, messages[message_index], why) for message_index, why in letters]
        counts.records[self.topic] += len(messages)
        counts.passed.update((self.topic, reason) for reason in passed.values())
        counts.dead[self.topic] += len(letters)
        counts.unlabelled[self.topic] += len(unlabelled)
        return outgoing

    def apply(self, messages: Sequence[Message]) -> MappedRecords:
        """Apply all mappings to a batch.

        1. Decode the records. A record may have several parts, such as the events of a batch.
        2. Translate each part, or each of its rows, by each mapping.
        3. Remove the parts that are unreadable or don't fit a mapping, and also the rows.
        """
        content = self._decode(messages)  # step 1
        records: Sequence[int] = range(len(messages)) if content.records is None else content.records
        parts = messages if content.records is None else [messages[part_index] for part_index in records]
        reasons = {part_index: f"value: {reason}" for part_index, reason in content.reasons.items()}
        operations = None if self._operation is None else content.column(self._operation)
        nothing = self._without_content(content, operations)
        table = self._table(parts, content, reasons)
        times = _times(parts)
        results = []
        idle, unlabelled = frozenset(range(len(parts))), frozenset[int]()
        for (kind, translator), clears in zip(self._translators, self._cleared):  # step 2
            mapping_result = mapped_parts.mapped(translator, table)
            awaited = _NO_PLACES
            if mapping_result.rows is None:
                awaited = self._awaited(translator, mapping_result.reasons, parts, content)
            if clears is not None and awaited and operations is not None:
                awaited = self._clear(translator, clears, mapping_result, awaited, parts, content, operations)
            unlabelled |= awaited
            idle &= mapping_result.passed | awaited
            for part_index, reason in mapping_result.reasons.items():
                if part_index not in awaited:
                    reasons.setdefault(part_index, reason)
            _set_times(mapping_result, times, reasons)
            values = [None if record is None else _encode(record) for record in mapping_result.records]
            if max(map(len, filter(None, values)), default=0) > MAX_VALUE_BYTES:
                mapping_result.note(_too_large(kind, values), reasons)
            results.append(
                (mapping_result, Made(kind, mapping_result.records, values, mapping_result.places))
            )
        for part_index in nothing:
            reasons.pop(part_index, None)
        gone = nothing.union(reasons)  # step 3
        of_rows = {  # the first mapping's reason comes last, and counts
            key: why for mapping_result, _ in reversed(results)
            for key, why in mapping_result.of_rows.items() if key[0] not in gone
        }  # fmt: skip
        for mapping_result, part in results:
            for index in mapping_result.lost(gone, of_rows):
                part.records[index] = part.values[index] = None
        withdrawn = self._withdraw(parts, content, operations, nothing, results, reasons)
        letters = [(part_index, _NO_ROW, why) for part_index, why in reasons.items()]
        letters += [(part_index, number, why) for (part_index, _, number), why in of_rows.items()]
        by_record: dict[int, list[str]] = {}
        for part_index, _, why in sorted(letters, key=lambda letter: letter[:2]):
            name = None if content.names is None else content.names[part_index]
            by_record.setdefault(records[part_index], []).append(why if name is None else f"{name}: {why}")
        idle = idle.difference(content.reasons) | (nothing - withdrawn)
        busy = {records[part_index] for part_index in range(len(parts)) if part_index not in idle}
        unused = (message_index for message_index in range(len(messages)) if message_index not in busy)
        passed = dict.fromkeys(unused, NO_EVENTS)
        whys = self._whys_passed(
            idle, content, operations, unlabelled, [mapping_result for mapping_result, _ in results]
        )
        passed.update((records[part_index], why) for part_index, why in whys if records[part_index] in passed)
        return MappedRecords(
            [part._replace(places=[records[part_index] for part_index in part.places]) for _,
                part in results],
            by_record, passed,
            frozenset(records[part_index] for part_index in unlabelled - nothing - reasons.keys()),
        )  # fmt: skip

    def _whys_passed(
        self, idle: Set[int], content: Content, operations: Sequence[Any] | None, unlabelled: Set[int],
        mapped: Sequence[mapped_parts.MappedParts],
    ) -> Iterator[tuple[int, str]]:  # fmt: skip
        """Yield parts that give no message with the reasons, the last part first."""
        by_rows = all(mapping_result.rows is not None for mapping_result in mapped)
        with_rows = set[int]()
        if by_rows:
            with_rows.update(*(mapping_result.places for mapping_result in mapped))
        for part_index in sorted(idle, reverse=True):
            operation = None if operations is None else operations[part_index]
            if content.values[part_index] is None:
                why = TOMBSTONE
            elif type(operation) is str and operation in _OF_OPERATION:
                why = _OF_OPERATION[operation]
            elif part_index in unlabelled:
                why = UNLABELLED
            elif by_rows and part_index not in with_rows:
                why = NO_ROWS
            else:
                why = EXCLUDED
            yield part_index, why

    def _clear(
        self, translator: Translator, clears: Translator, mapping_result: mapped_parts.MappedParts,
        awaited: Set[int], parts: Sequence[Message], content: Content, operations: Sequence[Any],
    ) -> frozenset[int]:  # fmt: skip
        """Put withdrawals in place of rows whose label was updated to null; returns the other awaited ones.

        A row that had no label before its update has none to withdraw. A database that doesn't tell the row
        as it was (`before` is null) may have had one.
        """
        updated = [
            part_index for part_index in sorted(awaited)
            if operations[part_index] == mapped_parts.UPDATE and not mapped_parts.had_no_label(
                translator.mapping, whole(parts[part_index], content.values[part_index])
            )
        ]  # fmt: skip
        updated_parts = [parts[part_index] for part_index in updated]
        reasons: dict[int, str] = {}
        translated = (
            clears(self._table(updated_parts, self._decode(updated_parts), reasons))
            if updated_parts
            else None
        )
        cleared = set[int]()
        for index, record in enumerate(translated.records if translated is not None else ()):
            if record is not None and index not in reasons:
                mapping_result.records[updated[index]] = record
                del mapping_result.reasons[updated[index]]
                cleared.add(updated[index])
        return frozenset(awaited - cleared)

    def _withdraw(
        self, messages: Sequence[Message], content: Content, operations: Sequence[Any] | None,
        nothing: Iterable[int], results: Sequence[tuple[mapped_parts.MappedParts, Made]],
        reasons: dict[int, str],
    ) -> set[int]:  # fmt: skip
        """Put withdrawals of labels in place of tombstones and deleted rows; returns the places of these.

        A deleted row without the columns that name its instance is invalid, and counts as one of these.
        """
        deletions, tombstones = list[int](), list[int]()
        for index in sorted(nothing):
            if content.values[index] is None:
                tombstones.append(index)
            elif operations is not None and operations[index] == mapped_parts.DELETION:
                deletions.append(index)
        done: set[int] = set()
        parts_of_records = [part for of_parts, part in results if of_parts.rows is None]
        for part, (of_row, of_key) in zip(parts_of_records, self._withdrawals):
            for translator, indices in ((of_row, deletions), (of_key, tombstones)):
                if translator is None or not indices:
                    continue
                deleted = [messages[index] for index in indices]
                undecodable: dict[int, str] = {}
                translated = translator(self._table(deleted, self._decode(deleted), undecodable))
                if translator is of_row:
                    for i, reason in (undecodable | translated.reasons).items():
                        reasons.setdefault(indices[i], f"{reason}: {_NO_INSTANCE}")
                        done.add(indices[i])
                for index, record, time in zip(indices, translated.records, _times(deleted)):
                    if record is not None:
                        record.ts = time if record.ts is None else record.ts
                        part.records[index], part.values[index] = record, _encode(record)
                        done.add(index)
        for part in parts_of_records:
            for index in done & reasons.keys():
                part.records[index] = part.values[index] = None
        return done

    def _awaited(
        self, translator: Translator, reasons: Mapping[int, str], messages: Sequence[Message],
        content: Content,
    ) -> frozenset[int]:  # fmt: skip
        """Return places of Debezium's rows and Avro's records whose label is null, so not known yet."""
        path = translator.mapping.fields["y_true"].path if translator.mapping.kind == LABELS else None
        if (
            path is None
            or path.root != "value"
            or not (self._nullable or mapped_parts.operation_path([path]))
        ):
            return frozenset()
        return frozenset(
            index for index, reason in reasons.items()
            if reason == f"{path} is missing"
            and names_beside(whole(messages[index], content.values[index]), path) is None
        )  # fmt: skip

    def names_there(self, message: Message, reason: str) -> str | None:
        """Return the names that exist where a path of the value ends, if a record has nothing at the path."""
        for path in self._paths:
            if path.root == "value" and reason == f"{path} is missing":
                values = self._decode([message]).values
                value = values[0] if len(values) == 1 else None
                beside = names_beside(whole(message, value), path)
                if beside is None:
                    return None
                parent, names = beside
                more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
                return f"{parent} has {', '.join(names[:_MOST_NAMES]) or 'nothing'}{more}"
        return None

    def choices(self, messages: Sequence[Message]) -> dict[str, tuple[list[int], str]]:
        """Return paths that select one of several values: a place of a list, or a repeated header.

        By path, the result has the places of these records, and a description of the first one.
        """
        content = self._decode(messages)
        choices: dict[str, tuple[list[int], str]] = {}
        for path in dict.fromkeys(self._paths):
            for index, message in enumerate(messages):
                if path.root == "headers":
                    several = several_headers(message.headers(), path.keys[0])
                elif path.root == "value":
                    several = several_below(whole(message, content.values[index]), path)
                else:
                    several = None
                if several is not None:
                    choices.setdefault(path.text, ([], several))[0].append(index)
        return choices

    def _without_content(self, content: Content, operations: Sequence[Any] | None) -> frozenset[int]:
        """Return places of tombstones, and of Debezium's events without a current row."""
        nothing: set[int] = set()
        if None in content.values:
            absent = [index for index, value in enumerate(content.values) if value is None]
            nothing = {index for index in absent if index not in content.reasons}
        if operations is not None:
            nothing |= {
                index
                for index, done in enumerate(operations)
                if type(done) is str and done in mapped_parts.WITHOUT_ROW
            }
        return frozenset(nothing)

    def _table(self, messages: Sequence[Message], content: Content, reasons: dict[int, str]) -> _Table:
        """Return the batch for the translators, with only the parts that paths start with."""
        keys: list[Any] | None = None
        if self._decode_key is not None:
            decoded = self._decode_key(messages)
            keys = decoded.values
            for index, reason in decoded.reasons.items():
                reasons.setdefault(index, f"key: {reason}")
        elif "key" in self._roots:
            keys = [message.key() for message in messages]
        return _Table(
            messages, content, keys=keys,
            headers=[message.headers() for message in messages] if "headers" in self._roots else None,
            topics=[self.topic] * len(messages) if "topic" in self._roots else None,
            timestamps=_times(messages) if "timestamp" in self._roots else None,
        )  # fmt: skip

    def _letter(self, partition: int, message: Message, reason: str) -> Outgoing:
        """Return the dead letter: the original record, with the reason and its origin in headers."""
        if (there := self.names_there(message, reason)) is not None:
            reason = f"{reason}; {there}"
        origin = (self.topic, partition, message.offset())
        rejected.note(*origin, reason)
        return Outgoing(
            self._dead_letters, message.key(), message.value(), headers_of(reason, *origin),
            partition % self._letters,
        )  # fmt: skip


def clocks_of(translators: Mapping[str, SourceTranslator]) -> dict[str, Clocks]:
    """Return counts of times with and without a zone, by input and topic."""
    return {
        f"{kind} in {topic}": clocks
        for topic, translator in translators.items() for kind, clocks in translator.clocks.items()
    }  # fmt: skip


def _times(messages: Sequence[Message]) -> list[int | None]:
    """Return the times when the records were written (epoch ms); None for a record without a time."""
    times = [message.timestamp()[1] for message in messages]
    return [None if time == _NO_TIMESTAMP else time for time in times]


def _set_times(
    mapping_result: mapped_parts.MappedParts, times: Sequence[int | None], reasons: dict[int, str]
) -> None:
    """Give records without a time that of their Kafka record; a time that can't be one is a reason."""
    for record, part_index in zip(mapping_result.records, mapping_result.places):
        time = times[part_index]
        if record is not None and record.ts is None and time is not None:
            record.ts = time
            if (why := why_no_record_time(time)) is not None:
                reasons.setdefault(part_index, why)


def _too_large(kind: int, values: Sequence[bytes | None]) -> dict[int, str]:
    return {
        index: f"its message for {KINDS[kind]} has {len(value)} bytes: at most {MAX_VALUE_BYTES} are allowed"
        for index, value in enumerate(values)
        if value is not None and len(value) > MAX_VALUE_BYTES
    }


def whole(message: Message, value: Any) -> Any:
    """Return the complete value of a record, even if only parts of its JSON were decoded."""
    if not isinstance(value, msgspec.Struct):
        return value
    content = message.value() or b""
    try:
        return read_json(content[FRAME_BYTES:] if content[:1] == bytes([MAGIC]) else content)
    except Unreadable:
        return None


def names_beside(value: Any, path: Path) -> tuple[str, list[str]] | None:
    """Return the path and the names of the object in which a path finds no name; None if the path exists.

    >>> names_beside({"a": {"b": 1, "c": None}}, Path.parse("value.a.d"))
    ('value.a', ['b', 'c'])
    >>> names_beside({"a": {"b": 1, "c": None}}, Path.parse("value.a.c"))
    """
    for depth, key in enumerate(path.keys):
        if not isinstance(value, Mapping):
            return None
        if key not in value:
            return ".".join((path.root, *path.keys[:depth])), [str(name) for name in value]
        value = value[key]
    return None


def several_headers(headers: Any, name: str) -> str | None:
    """Describe a header that occurs more than once, of which the last one counts; None if it doesn't.

    >>> several_headers([("id", b"1"), ("id", b"2")], "id")
    'the last of 2 headers'
    """
    count = [header for header, _ in headers or ()].count(name)
    return f"the last of {count} headers" if count > 1 else None


def several_below(value: Any, path: Path) -> str | None:
    """Describe the list from which a path takes one of several values; None if there is no such list.

    >>> several_below({"models": [{"id": 1}, {"id": 2}]}, Path.parse("value.models.0.id"))
    'value.models has 2 values'
    """
    for depth, key in enumerate(path.keys):
        if isinstance(value, (list, tuple)):
            if len(value) > 1:
                return f"{'.'.join((path.root, *path.keys[:depth]))} has {len(value)} values"
            value = value[int(key)] if key.isdigit() and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
    return None

"""Copy records from librdkafka's queues with a compiled loop, without an object for each record.

`rd_kafka_queue_forward(queue, NULL)` separates a partition's queue from the client's own queue. So records
and callbacks are in different queues. The client's `poll` calls the callbacks with the interpreter's lock, as
they expect.
"""

from __future__ import annotations

import ctypes
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaError
from llvmlite import ir  # type: ignore[import-untyped]
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from prequential.engine.compiled.kernel import Bytes, Ints, Words, inlined, inner, kernel
from prequential.engine.input.message_rows import rows_of
from prequential.engine.input.plain import SEPARATOR, JoinedValues
from prequential.runtime.kafka import readers
from prequential.runtime.kafka.librdkafka import (
    ERROR,
    HALF,
    KEY,
    LENGTH,
    OFFSET,
    PAYLOAD,
    WORDS,
    declared,
    handle_of,
)
from prequential.topics.errors import existing

#: The least number of messages that one call requests from a partition, unless they are large, because a call
#: costs 1 µs.
_LEAST = 500

_HALF = np.uint64(HALF)
_SEPARATOR = SEPARATOR[0]


class _Functions:
    """librdkafka's functions that Python calls, and the addresses of those that a compiled loop calls."""

    def __init__(self) -> None:
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        self.partition_queue = declared("queue_get_partition", pointer, pointer, text, ctypes.c_int32)
        self.forward = declared("queue_forward", None, pointer, pointer)
        self.destroy_queue = declared("queue_destroy", None, pointer)
        self.consume = declared(
            "consume_batch_queue", ctypes.c_ssize_t, pointer, ctypes.c_int, pointer, ctypes.c_size_t
        )
        self.error_text = declared("message_errstr", text, pointer)
        self.destroy = declared("message_destroy", None, pointer)
        timestamp = declared("message_timestamp", ctypes.c_int64, pointer, pointer)
        pointer_out = ctypes.POINTER(pointer)
        self.headers = declared("message_headers", ctypes.c_int, pointer, pointer_out)
        self.header = declared(
            "header_get_all", ctypes.c_int, pointer, ctypes.c_size_t, ctypes.POINTER(text), pointer_out,
            ctypes.POINTER(ctypes.c_size_t),
        )  # fmt: skip
        self.timestamp_at, self.destroy_at = (
            int(ctypes.cast(function, pointer).value or 0) for function in (timestamp, self.destroy)
        )


@cache
def _functions() -> _Functions | None:
    """Return librdkafka's functions, or None if one of them is missing."""
    try:
        return _Functions()
    except AttributeError:
        return None


def reader_of(consumer: Consumer, topic: str) -> readers.PartitionReader:
    """Return the fastest available reader of one topic's partitions that uses this client."""
    missing = _functions() is None or handle_of(consumer) is None
    if config.DISABLE_JIT or missing:  # type: ignore[attr-defined]
        return readers.ObjectReader(consumer, topic)
    return QueueReader(consumer, topic)


class QueueReader(readers.PartitionReader):
    """Reads records from the partitions' queues."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        super().__init__(consumer, topic)
        self._functions = existing(_functions(), "librdkafka's functions")
        warm_up()  # so that no stream waits for the compiler
        self._handle = existing(handle_of(consumer), "the client's handle")
        #: Queues by partition. A read in another thread needs its queues until it ends.
        self._queues: dict[int, int] = {}
        self._looking = Lock()
        self._had_more: set[int] = set()  # partitions of which the last read may have left records
        self._messages = np.zeros(0, dtype=np.uint64)

    def open(self, partition: int, offset: int) -> None:
        """See `PartitionReader`."""
        queue = self._functions.partition_queue(self._handle, self.topic.encode(), partition)
        if not queue:
            raise RuntimeError(f"librdkafka has no queue for {self.topic}/{partition}")
        self._functions.forward(queue, None)
        with self._looking:
            self._queues[partition] = queue
        super().open(partition, offset)

    def close(self, partition: int) -> None:
        """See `PartitionReader`."""
        super().close(partition)
        with self._looking:
            self._had_more.discard(partition)
            self._functions.destroy_queue(self._queues.pop(partition))

    def look(self, most: int) -> readers.TopicRead:
        """See `PartitionReader`; the call also serves callbacks."""
        with self._looking:
            return self._look(most)

    def _look(self, most: int) -> readers.TopicRead:
        look = readers.TopicRead([], [], True)
        message = self.consumer.poll(0)
        if message is not None:
            error = message.error()
            if error is None:
                raise RuntimeError(f"{self.topic}/{message.partition()}: a record arrived outside its queue")
            look.failures.append(readers.failure_of(message, error))
        if not self._queues:
            return look
        # Partitions with few records do not use their whole shares. Partitions that had more records come
        # last, and get the rest.
        room, partitions = most, sorted(self._queues, key=self._had_more.__contains__)
        for index, partition in enumerate(partitions):
            share = self.most_messages(max(_LEAST, room // (len(partitions) - index)))
            if len(self._messages) < share:
                self._messages = np.zeros(share, dtype=np.uint64)
            count = self._functions.consume(self._queues[partition], 0, self._messages.ctypes.data, share)
            if count > 0:
                run = self._run(partition, count, look.failures)
                look.runs.append(run)
                room = max(0, room - readers.records_in([run]))
            (self._had_more.add if count == share else self._had_more.discard)(partition)
            look = look._replace(whole=look.whole and count < share)
        return look

    def release(self) -> None:
        """See `PartitionReader`."""
        with self._looking:
            while self._queues:
                self._functions.destroy_queue(self._queues.popitem()[1])

    def _run(self, partition: int, count: int, failures: list[readers.Failure]) -> readers.PartitionRead:
        """Return the records of the messages that were consumed last, and destroy the messages."""
        messages, end = self._messages, None
        sizes = np.zeros(_SIZES, dtype=np.int64)
        measure(messages, count, sizes)
        records = int(sizes[_RECORDS])
        if records < count:
            for index in range(count):
                if (event_end := self._event(partition, index, failures)) is not None:
                    end = event_end
        if not records:
            return readers.PartitionRead(partition, None, end)
        headers = self._headers(count) if sizes[_VALUELESS] else {}
        text, key_text = (np.empty(sizes[column] + records, np.uint8) for column in (_TEXT, _KEY_TEXT))
        columns = np.empty((4, records + 1), dtype=np.int64)
        absent = np.zeros((2, records), dtype=np.uint8)
        time_type = np.zeros(1, dtype=np.int64)
        calls = self._functions.timestamp_at, self._functions.destroy_at, time_type.ctypes.data
        take(messages, count, *calls, text, text.ctypes.data, key_text, key_text.ctypes.data, columns, absent)
        offsets, times, bounds, key_bounds = columns
        values = JoinedValues(text, bounds[:-1], bounds[1:] - 1, absent[0])
        keys = JoinedValues(key_text, key_bounds[:-1], key_bounds[1:] - 1, absent[1])
        by_producer = int(time_type[0]) & 0xFFFFFFFF == TIMESTAMP_CREATE_TIME
        positions = readers.consecutive(offsets[:records]), times[:records]
        run_records = readers.ConsumerRecords(
            *positions, values, keys, by_producer=by_producer, headers=headers
        )
        self.note_size(records, int(sizes[_TEXT]), len(run_records))
        return readers.PartitionRead(partition, run_records, end)

    def _headers(self, count: int) -> dict[int, readers.Headers]:
        """Return the headers of records without a value, by their place among the records."""
        headers_by_record: dict[int, readers.Headers] = {}
        messages = self._messages[:count]
        for record, message in enumerate(messages[messages != 0].tolist()):
            if not (ctypes.c_int64 * WORDS).from_address(message)[PAYLOAD]:
                headers_by_record[record] = self._headers_of(message)
        return headers_by_record

    def _headers_of(self, message: int) -> readers.Headers:
        headers, name, content = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_void_p()
        size = ctypes.c_size_t()
        pairs: list[tuple[str, bytes | None]] = []
        if self._functions.headers(message, headers):  # it has none
            return []
        while not self._functions.header(headers, len(pairs), name, content, size):
            value = ctypes.string_at(content.value, size.value) if content.value else None
            pairs.append(((name.value or b"").decode(errors="replace"), value))
        return pairs

    def _event(self, partition: int, index: int, failures: list[readers.Failure]) -> int | None:
        """Return the partition's end if a message reports it; a message that is a record is not changed."""
        message, end = int(self._messages[index]), None
        words = (ctypes.c_int64 * WORDS).from_address(message)
        code = ctypes.c_int32(words[ERROR]).value
        if not code:
            return None
        if code == KafkaError._PARTITION_EOF:
            end = words[OFFSET]
        else:
            text = (self._functions.error_text(message) or b"").decode(errors="replace")
            failures.append(readers.Failure(partition, words[OFFSET], KafkaError(code, text)))
        self._functions.destroy(message)
        self._messages[index] = 0
        return end


# ---- the loops


def _in_code(function: Any) -> Any:
    """Let numba compile the code that a function generates; untyped because numba adds a context argument."""
    return intrinsic(function)


#: The results of `measure`: the number of records among messages, the bytes of their values and keys, and the
#: number of records without a value.
_RECORDS, _TEXT, _KEY_TEXT, _VALUELESS, _SIZES = range(5)


@_in_code
def _word(typing: Any, address: Any) -> Any:
    """Return the 8 bytes at an address."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))

    return types.uint64(types.uint64), code


@_in_code
def _copy(typing: Any, target: Any, source: Any, size: Any) -> Any:
    """Copy bytes from an address to another one."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        to, origin = (builder.inttoptr(argument, byte) for argument in arguments[:2])
        cgutils.raw_memcpy(builder, to, origin, arguments[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.int64), code


@_in_code
def _timestamp(typing: Any, function: Any, message: Any, kind: Any) -> Any:
    """Call `rd_kafka_message_timestamp` by its address; `kind` is the address for the timestamp's type."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        called = builder.inttoptr(arguments[0], ir.FunctionType(word, [word, word]).as_pointer())
        return builder.call(called, arguments[1:])

    return types.int64(types.uint64, types.uint64, types.uint64), code


@_in_code
def _destroy(typing: Any, function: Any, message: Any) -> Any:
    """Call `rd_kafka_message_destroy` by its address."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), code


@inlined
def _field(message: int, field: int) -> Any:
    return _word(np.uint64(message) + np.uint64(8 * field))


@kernel
def measure(messages: Words, count: int, sizes: Ints) -> None:
    """Count the records among messages, and the bytes of their values and keys."""
    for index in range(count):
        message = messages[index]
        if not _field(message, ERROR) & _HALF:
            sizes[_RECORDS] += 1
            if _field(message, PAYLOAD):
                sizes[_TEXT] += np.int64(_field(message, PAYLOAD + LENGTH))
            else:
                sizes[_VALUELESS] += 1
            if _field(message, KEY):
                sizes[_KEY_TEXT] += np.int64(_field(message, KEY + LENGTH))


@inner
def _copied(message: int, field: int, target: int, absent: Bytes, record: int) -> Any:
    """Copy a message's key or value, or note its absence; the length follows the address in the message."""
    source, size = _field(message, field), np.int64(0)
    if source:
        size = np.int64(_field(message, field + LENGTH))
        _copy(np.uint64(target), source, size)
    else:
        absent[record] = 1
    return size


@kernel
def take(
    messages: Words, count: int, timestamp: int, destroy: int, time_type: int,
    text: Bytes, text_at: int, key_text: Bytes, key_at: int, columns: Ints, absent: Bytes,
) -> None:  # fmt: skip
    """Copy the records among messages, and destroy them; the other messages must be destroyed already.

    `columns`, (4, records + 1): offsets, times, and where values and keys begin.
    """
    end, key_end, record = np.int64(0), np.int64(0), np.int64(0)
    columns[2, 0] = columns[3, 0] = 0
    for index in range(count):
        message = messages[index]
        if not message:
            continue
        columns[0, record] = np.int64(_field(message, OFFSET))
        # Only the type of the first record's time is written; the types of the others are not needed.
        columns[1, record] = _timestamp(
            np.uint64(timestamp), np.uint64(message), np.uint64(time_type if record == 0 else 0)
        )
        end += _copied(message, PAYLOAD, text_at + end, absent[0], record)
        key_end += _copied(message, KEY, key_at + key_end, absent[1], record)
        text[end] = key_text[key_end] = _SEPARATOR
        end += 1
        key_end += 1
        record += 1
        columns[2, record], columns[3, record] = end, key_end
        _destroy(np.uint64(destroy), np.uint64(message))


def warm_up() -> None:
    """Compile the loops, or fetch them from numba's cache."""
    nothing, bytes_ = np.zeros(0, dtype=np.uint64), np.zeros(1, dtype=np.uint8)
    measure(nothing, 0, np.zeros(_SIZES, dtype=np.int64))
    take(nothing, 0, 0, 0, 0, bytes_, 0, bytes_, 0, np.zeros((4, 1), np.int64), np.zeros((2, 0), np.uint8))
    rows_of([b"[{}]"])

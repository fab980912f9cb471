"""librdkafka itself, which confluent-kafka brings as a shared library: its functions, called by address.

What is called is its public interface (`rdkafka.h`). Of confluent-kafka one thing is known that it doesn't
promise: its clients' structure has librdkafka's handle first, behind Python's own head, in all versions
(`confluent_kafka.h`, `Handle`). That is verified before the handle is used.

Many messages are passed in one call, without the interpreter's lock. One call for each message costs about 3
µs with the lock, and its delivery report takes the lock once more. librdkafka copies keys and values from the
memory of Python's bytes, whose content lies behind their head. That is verified, too.
"""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import confluent_kafka
import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, cimpl
from prequential.engine.compiled.kernel import Words
from prequential.engine.compiled.spans import Spans

log = logging.getLogger(__name__)

#: `rd_kafka_message_t` in words of 8 bytes: the error in the first half of its word, so is the partition.
ERROR, PAYLOAD, KEY, OFFSET, WORDS = 0, 3, 5, 7, 9

#: By how many words the length of a payload, and of a key, lies behind its address.
LENGTH = 1

#: The half of a word that has the error.
HALF = 0xFFFFFFFF


@cache
def library() -> Any | None:
    """The library; None where it can't be found, or where words have another size."""
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        return ctypes.CDLL(cimpl.__file__)
    except (OSError, TypeError):  # no file
        return None


def declared(name: str, result: Any, *arguments: Any) -> Any:
    """The function `rd_kafka_…` with types; raises AttributeError where it isn't there.

    A call releases the interpreter's lock.
    """
    function = getattr(library(), f"rd_kafka_{name}")
    function.restype, function.argtypes = result, arguments
    return function


def handle_of(client: Consumer | Producer) -> int | None:
    """The address of a client's `rd_kafka_t`; None if it isn't found where it is expected.

    For the first client of each class, this function verifies the address: librdkafka must return the
    client's name for it.
    """
    address = ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value
    if address is None:  # a client that is closed has none
        return None
    kind = type(client)
    if kind not in _verified:
        _verified[kind] = _is_handle(address, "consumer" if isinstance(client, Consumer) else "producer")
        if not _verified[kind]:
            log.warning(
                "librdkafka's handle isn't where confluent-kafka %s is expected to have it: records and "
                "messages go one by one, which is slower", confluent_kafka.__version__,
            )  # fmt: skip
    return address if _verified[kind] else None


#: By class of clients: whether its handle is where it is expected.
_verified: dict[type, bool] = {}


def _is_handle(address: int, kind: str) -> bool:
    """Whether librdkafka names what is at an address as it names clients: `rdkafka#consumer-1`."""
    try:
        # It doesn't follow the address, but returns one a little further on.
        name = declared("name", ctypes.c_void_p, ctypes.c_void_p)(address)
    except AttributeError:
        return False
    return name is not None and re.match(rb"[^\0]*#%b-\d+\0" % kind.encode(), _read(name, 300)) is not None


def _read(address: int, size: int) -> bytes:
    """Bytes at an address; empty if there is no memory, where the system can be asked for that."""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)
    except FileNotFoundError:  # not Linux
        return ctypes.string_at(address, size)
    except (OSError, OverflowError, ValueError):
        return b""


#: `RD_KAFKA_MSG_F_COPY`: librdkafka copies the messages that it receives.
_COPY = 2


class _ProducerFunctions(NamedTuple):
    """librdkafka's functions that this module calls."""

    topic: Any
    forget_topic: Any
    produce: Any


@cache
def _functions() -> _ProducerFunctions | None:
    """Return librdkafka's functions, or None if one of them is missing."""
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    try:
        return _ProducerFunctions(
            declared("topic_new", pointer, pointer, text, pointer),
            declared("topic_destroy", None, pointer),
            declared(
                "produce_batch", ctypes.c_int, pointer, ctypes.c_int32, ctypes.c_int, pointer, ctypes.c_int
            ),
        )
    except AttributeError:
        return None


def produce_batch(
    producer: Producer, topic: str, partition: int, keys: Sequence[bytes], values: Sequence[bytes]
) -> int:
    """Send messages to one partition of a topic, in their order; there are no delivery reports.

    Of keys and values that are `Spans` only addresses are passed on, without an object for each.

    Returns how many messages librdkafka took: the first ones, until the producer's queue was full. Also 0 if
    librdkafka's functions, or the producer's handle, are missing. Raises KafkaException, as
    `Producer.produce` does, for the first message that cannot be sent; librdkafka takes the others.
    """
    functions, handle = _functions(), handle_of(producer)
    if functions is None or handle is None or not _has_content_behind_head():
        return 0
    messages = np.zeros((len(values), WORDS), dtype=np.uint64)
    _place(messages, KEY, keys)
    _place(messages, PAYLOAD, values)
    topic_handle = functions.topic(handle, topic.encode(), None)
    if not topic_handle:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC, topic))
    try:
        produced: int = functions.produce(topic_handle, partition, _COPY, messages.ctypes.data, len(messages))
    finally:
        functions.forget_topic(topic_handle)
    if produced < len(messages):
        codes = (messages[:, ERROR] & np.uint64(HALF)).astype(np.uint32).astype(np.int32)
        first = int(np.flatnonzero(codes)[0])
        if codes[first] != KafkaError._QUEUE_FULL:
            raise KafkaException(KafkaError(int(codes[first])))
    return produced


#: Bytes of the head of Python's bytes, which a zero ends that `__basicsize__` counts.
_HEAD = bytes.__basicsize__ - 1


@cache
def _has_content_behind_head() -> bool:
    """Whether bytes have their content behind their head."""
    text = b"content"
    return ctypes.sizeof(ctypes.c_void_p) == 8 and _read(id(text) + _HEAD, len(text)) == text


def _place(messages: Words, word: int, parts: Sequence[bytes]) -> None:
    """Set the messages' keys or values to these bytes, which the caller keeps until librdkafka has them."""
    if isinstance(parts, Spans):
        messages[:, word] = parts.begins.astype(np.uint64) + np.uint64(parts.text.ctypes.data)
        messages[:, word + LENGTH] = parts.sizes
        return
    messages[:, word] = np.fromiter(map(id, parts), dtype=np.uint64, count=len(parts)) + np.uint64(_HEAD)
    messages[:, word + LENGTH] = np.fromiter(map(len, parts), dtype=np.uint64, count=len(parts))

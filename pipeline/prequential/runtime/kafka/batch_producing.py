"""Pass many messages to librdkafka in one call, without the interpreter's lock.

One call for each message costs about 3 µs with the lock, and its delivery report takes the lock once more.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Producer
from prequential.engine.compiled.kernel import Words
from prequential.runtime.kafka.librdkafka import ERROR, HALF, KEY, LENGTH, PAYLOAD, WORDS, declared, handle_of

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

    Parameters
    ----------
    producer, topic, partition
        The client, and the target. The partitioner cannot choose the partition.
    keys, values
        The messages' keys and values, (n,) each.

    Returns
    -------
    int
        How many messages librdkafka took: the first ones, until the producer's queue was full. Also 0 if
        librdkafka's functions, or the producer's handle, are missing.

    Raises
    ------
    KafkaException
        As from `Producer.produce`, for the first message that cannot be sent; librdkafka takes the others.
    """
    functions, handle = _functions(), handle_of(producer)
    if functions is None or handle is None:
        return 0
    key_text, text = b"".join(keys), b"".join(values)
    messages = np.zeros((len(values), WORDS), dtype=np.uint64)
    _place(messages, KEY, key_text, keys)
    _place(messages, PAYLOAD, text, values)
    place = functions.topic(handle, topic.encode(), None)
    if not place:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC, topic))
    try:
        taken: int = functions.produce(place, partition, _COPY, messages.ctypes.data, len(messages))
    finally:
        functions.forget_topic(place)
    if taken < len(messages):
        codes = (messages[:, ERROR] & np.uint64(HALF)).astype(np.uint32).astype(np.int32)
        first = int(np.flatnonzero(codes)[0])
        if codes[first] != KafkaError._QUEUE_FULL:
            raise KafkaException(KafkaError(int(codes[first])))
    return taken


def _place(messages: Words, word: int, text: bytes, parts: Sequence[bytes]) -> None:
    """Set the messages' keys or values to consecutive parts of a text."""
    lengths = np.fromiter(map(len, parts), dtype=np.uint64, count=len(parts))
    begin = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value or 0
    messages[:, word + LENGTH] = lengths
    messages[:, word] = np.uint64(begin) + np.fromiter(
        accumulate(map(len, parts[:-1]), initial=0), dtype=np.uint64, count=len(parts)
    )

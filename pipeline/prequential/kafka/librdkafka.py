"""librdkafka itself, which confluent-kafka brings as a shared library: its functions, called by address.

What is called is its public interface (`rdkafka.h`). Of confluent-kafka one thing is known that it doesn't
promise: its clients' structure has librdkafka's handle first, behind Python's own head, in all versions
(`confluent_kafka.h`, `Handle`).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from confluent_kafka import Consumer, Producer, cimpl

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


def handle_of(client: Consumer | Producer) -> int:
    """The address of a client's `rd_kafka_t`."""
    return ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value or 0

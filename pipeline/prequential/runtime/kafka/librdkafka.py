"""librdkafka itself, which confluent-kafka brings as a shared library: its functions, called by address.

What is called is its public interface (`rdkafka.h`). Of confluent-kafka one thing is known that it doesn't
promise: its clients' structure has librdkafka's handle first, behind Python's own head, in all versions
(`confluent_kafka.h`, `Handle`). That is verified before the handle is used.
"""

from __future__ import annotations

import ctypes
import logging
import re
from functools import cache
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Producer, cimpl

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

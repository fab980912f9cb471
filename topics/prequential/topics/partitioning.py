"""Which partition a stream's records belong into: the one that the Java client gives its name as a key.

A stream's records must meet in one partition number of all three inputs, whoever writes them. Java's default
partitioner, Faust's, and librdkafka's `murmur2_random` agree on it; librdkafka's own default doesn't.
"""

from __future__ import annotations

from collections.abc import Container

#: Constants of Kafka's murmur2: its seed, its multiplier, and its shift in bits.
_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_SHIFT = 24

_32_BITS = 0xFFFFFFFF

#: Java's `Utils.toPositive`: all bits but the sign (not the absolute value, which 2^31 doesn't have).
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit hash, unsigned: `org.apache.kafka.common.utils.Utils.murmur2`, whose int is signed.

    >>> murmur2(b"foobar") - 2**32
    -790332482
    >>> murmur2(b"abc")
    479470107
    """
    whole = len(data) & ~3
    h = _SEED ^ len(data)
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _FACTOR & _32_BITS
        k = (k ^ k >> _SHIFT) * _FACTOR & _32_BITS
        h = h * _FACTOR & _32_BITS ^ k
    if last_bytes := data[whole:]:
        h = (h ^ int.from_bytes(last_bytes, "little")) * _FACTOR & _32_BITS
    h = (h ^ h >> 13) * _FACTOR & _32_BITS
    return h ^ h >> 15


def key_of(stream: str, instance_id: str, wide: Container[str]) -> bytes:
    """The key of a record: its stream's name, or its instance's id where the stream is `wide`.

    `wide` are the streams with `key: instance`, whose records lie in all partitions.

    >>> key_of("elec2", "17", ()), key_of("ads", "17", {"ads"})
    (b'elec2', b'17')
    """
    return (instance_id if stream in wide else stream).encode()


def partition_of(key: str, partitions: int) -> int:
    """The partition, from 0, of a topic with so many, that records with a key, a stream's name, belong into.

    It takes some microseconds, growing with the name: who asks again and again keeps the answer. Raises
    ValueError (UnicodeEncodeError) for a name that isn't Unicode, which no decoded record has.

    >>> partition_of("elec2", 4)
    1
    >>> [partition_of(f"stream-{i}", 3) for i in range(6)]
    [2, 1, 2, 1, 1, 1]
    """
    return (murmur2(key.encode()) & _POSITIVE) % partitions

"""Reads tombstones of the labels' topic: records with a key and without a value, which withdraw labels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec
from prequential.runtime.kafka.consumer_records import ConsumerRecords, Headers


def with_withdrawals(records: ConsumerRecords, wide: Sequence[str]) -> Sequence[bytes | None]:
    """Return the values of labels' records, with the label `y_true: null` for each tombstone.

    `wide` are the streams with `key: instance`. A tombstone that names no instance keeps its value, None.
    """
    if not records.headers:
        return records.values
    values = list(records.values)
    for place, headers in records.headers.items():
        values[place] = withdrawal(records.keys[place], headers, wide)
    return values


def withdrawal(key: bytes | None, headers: Headers, wide: Sequence[str]) -> bytes | None:
    """Return the label that a tombstone stands for; None if the tombstone names no instance.

    The header `instance_id` names the instance, or a key that is an object with `instance_id`, or any key if
    streams have `key: instance`. The header `stream`, or that object, names the stream. Without them it is
    the only stream with `key: instance`, or else the key.

    >>> withdrawal(b"elec2", [("instance_id", b"17")], [])
    b'{"stream":"elec2","instance_id":"17","y_true":null}'
    >>> withdrawal(b'{"stream":"elec2","instance_id":17}', [], [])
    b'{"stream":"elec2","instance_id":17,"y_true":null}'
    >>> withdrawal(b"17", [], ["ads"])
    b'{"stream":"ads","instance_id":"17","y_true":null}'
    >>> withdrawal(b"elec2", [], []) is None
    True
    """
    try:
        named = {name: (content or b"").decode() for name, content in headers}
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return None
    of_key: dict[str, object] = {}
    if text.startswith("{"):
        with suppress(msgspec.DecodeError):
            of_key = msgspec.json.decode(text, type=dict[str, object])
    instance: object = named.get("instance_id", of_key.get("instance_id"))
    if instance is None and wide:
        instance = text
    stream: object = named.get("stream", of_key.get("stream"))
    if stream is None and not of_key:
        is_instance = len(wide) == 1 and text == instance
        stream = wide[0] if is_instance else text
    if key is None or instance is None or stream is None:
        return None
    return msgspec.json.encode({"stream": stream, "instance_id": instance, "y_true": None})

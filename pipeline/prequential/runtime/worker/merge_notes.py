"""The newest published moments of merged streams, as the text that a group commits with its offsets.

Kafka keeps 4,096 bytes of the text (`offset.metadata.max.bytes` of the broker), so the text is short. The
length does not depend on the moments, so a worker can refuse a configuration with too many streams at the
start.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping

import msgspec
from prequential.configuration.settings.model import Config
from prequential.engine.merging.merger import ReportedMoments
from prequential.topics.errors import WorkError
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import PARTS

#: Most bytes that a broker with its default configuration accepts.
MOST = 4_096

#: Bytes of an encoded moment (in ms, plus one): enough for 8,900 years.
_BYTES = 6

_encode, _decode = msgspec.json.encode, msgspec.json.Decoder(dict[str, str]).decode


def text_of(said: Mapping[str, ReportedMoments], wide: Collection[str]) -> str:
    """Return the text of these moments by stream.

    `wide` names the streams that lie in all partitions. Other streams were in all partitions earlier, or are
    by another worker's configuration. The text includes them only if there is room.

    >>> text_of({"ads": ReportedMoments(1_700_000_000_000)}, ["ads"])
    '{"ads":"AYvP5WgBAAAAAAAA"}'
    """
    text = _text_of(said)
    if len(text.encode()) <= MOST:
        return text
    return _text_of({name: moments for name, moments in said.items() if name in wide})


def _text_of(said: Mapping[str, ReportedMoments]) -> str:
    moments = {
        name: b64encode(b"".join((moment + 1).to_bytes(_BYTES, "big") for moment in one)).decode()
        for name, one in said.items()
    }
    return _encode(moments).decode()


def moments_of(text: str) -> dict[str, ReportedMoments]:
    """Return the moments of a text, which may be empty.

    >>> moments_of(text_of({"ads": ReportedMoments(1_700_000_000_000, 0)}, ["ads"]))
    {'ads': ReportedMoments(metrics=1700000000000, comparisons=0)}
    """
    found = {}
    for name, moments in (_decode(text) if text else {}).items():
        both = b64decode(moments)
        metrics, comparisons = (
            int.from_bytes(both[at : at + _BYTES], "big") - 1 for at in (0, _BYTES)
        )
        found[name] = ReportedMoments(metrics, comparisons)
    return found


def require_room(config: Config, partitions: int) -> None:
    """Raise WorkError if the text of moments has no room for all streams that lie in all partitions.

    `partitions` is the number of partitions of the topic of parts; each stream is merged in one of them.
    """
    by_partition: dict[int, list[str]] = {}
    for name in config.wide:
        by_partition.setdefault(partition_of(name, partitions), []).append(name)
    for number, names in sorted(by_partition.items()):
        if (size := _size(names)) > MOST:
            raise WorkError(
                f"{len(config.wide):,} streams have key: instance, and {len(names):,} of them are merged in "
                f"partition {number} of the {partitions:,} of {config.kafka.topic(PARTS)}, which takes "
                f"{size:,} bytes of its offset's metadata; Kafka keeps {MOST:,}: expected fewer such "
                "streams, or shorter names"
            )


def _size(names: Iterable[str]) -> int:
    return len(_text_of(dict.fromkeys(names, ReportedMoments())).encode())

"""Read messages from the lines of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from prequential.topics.errors import WorkError
from prequential.topics.specs import COMPARISONS, DRIFT_ALARMS, INCIDENTS, METRICS
from prequential.views.watching.messages import ABSENT
from prequential.views.watching.tail import OutputRecord


class Kind(msgspec.Struct, gc=False):
    """The fields that identify a message's topic, and its time (epoch ms)."""

    ts: int = 0
    detector: str | None = None
    against: str | None = None
    status: str | None = None
    measures: msgspec.Raw = ABSENT


_decode = msgspec.json.Decoder(Kind).decode


def record_of(value: bytes) -> OutputRecord:
    """Return a message as a record of its topic; raises msgspec's errors if it is no message.

    >>> record_of(b'{"ts": 7, "detector": "adwin"}').topic, record_of(b'{"ts": 7, "measures": {}}').topic
    ('drift-alarms', 'metrics')
    """
    kind = _decode(value)
    if kind.against is not None:
        topic = COMPARISONS
    elif kind.measures is not ABSENT:
        topic = METRICS
    elif kind.detector is not None:
        topic = DRIFT_ALARMS
    elif kind.status is not None:
        topic = INCIDENTS
    else:
        raise msgspec.ValidationError("neither metrics, nor a comparison, an alarm or an incident")
    return OutputRecord(topic, value, kind.ts)


def records_of(path: str, lines: Iterable[bytes]) -> Iterator[OutputRecord]:
    """Yield the messages of a file, which may belong to several topics; blank lines are skipped.

    Raises WorkError, which names the line, if a line is no message.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield record_of(line)
            except (msgspec.MsgspecError, ValueError) as error:
                name = "standard input" if path == "-" else path
                raise WorkError(f"{name}, line {number}: {error}: expected a message of `replay`") from error

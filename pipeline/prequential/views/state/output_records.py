"""Records of output topics, also from lines of files, whose topics follow from their fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from prequential.topics import specs
from prequential.topics.errors import WorkError
from prequential.topics.foreign_json import Unreadable, reader
from prequential.views.state.readings import ABSENT


class OutputRecord(NamedTuple):
    """A record of an output topic: the topic's name without prefix, and Kafka's time (epoch ms)."""

    topic: str
    value: bytes | None
    time: int
    #: The header of that name, which has the settings behind the message's digest.
    settings: bytes | None = None


class Kind(msgspec.Struct, gc=False):
    """The fields that identify a message's topic, and its time (epoch ms)."""

    ts: int = 0
    detector: str | None = None
    against: str | None = None
    status: str | None = None
    mark: str | None = None
    measures: msgspec.Raw = ABSENT


_decode = reader(Kind)


def record_of(value: bytes) -> OutputRecord | None:
    """Return a message as a record of its topic; None if it is of no output topic.

    Raises Unreadable if it is no JSON object with such fields.

    >>> record_of(b'{"ts": 7, "detector": "adwin"}').topic, record_of(b'{"ts": 7, "measures": {}}').topic
    ('drift-alarms', 'metrics')
    >>> record_of(b'{"ts": 7}')
    """
    kind = _decode(value)
    for topic, is_there in (
        (specs.COMPARISONS, kind.against is not None),
        (specs.METRICS, kind.measures is not ABSENT),
        (specs.DRIFT_ALARMS, kind.detector is not None),
        (specs.INCIDENTS, kind.status is not None),
        (specs.INCIDENT_MARKS, kind.mark is not None),
    ):
        if is_there:
            return OutputRecord(topic, value, kind.ts)
    return None


def records_of(path: str, lines: Iterable[bytes]) -> Iterator[OutputRecord]:
    """Yield the messages of a file, which may belong to several topics; blank lines are skipped.

    Raises WorkError, which names the line, if a line is no message.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                record = record_of(line)
                if record is None:
                    raise Unreadable("neither metrics, nor a comparison, an alarm or an incident")
            except Unreadable as error:
                name = "standard input" if path == "-" else path
                raise WorkError(f"{name}, line {number}: {error}: expected a message of `replay`") from error
            yield record

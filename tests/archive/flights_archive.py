"""An archive of a real evaluation, which tests read."""

from __future__ import annotations

from pathlib import Path

from prequential import evaluate
from prequential.archive.columns import ConsumedRecord, row_of
from prequential.archive.storage import storage_of
from prequential.archive.writing import ArchiveWriter
from prequential.datasets import flights
from prequential.topics import specs
from prequential.topics.encoding import encode
from prequential.topics.outputs import Alarm, Comparison, Incident, Metrics

_TOPICS = {
    Metrics: specs.METRICS, Comparison: specs.COMPARISONS, Alarm: specs.DRIFT_ALARMS,
    Incident: specs.INCIDENTS,
}  # fmt: skip


def archive_flights(folder: Path) -> Path:
    """Archive forty days of flights, of two models, with periods and a detector; returns the folder."""
    detectors = [{"detector": "ddm", "signal": "error"}]
    result = evaluate(*flights(), stream="flights", period="1d", detectors=detectors)
    with ArchiveWriter(storage_of(str(folder)), "") as archive:
        for offset, message in enumerate(result.all_messages):
            topic = _TOPICS[type(message)]
            record = ConsumedRecord(topic, 0, offset, message.ts, b"flights", encode(message))
            archive.add(row_of(record))
            archive.progress(topic).offsets[0] = offset + 1
            if offset % 1_000 == 0:
                archive.flush()
        archive.flush()
    return folder

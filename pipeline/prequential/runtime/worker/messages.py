"""Converts a shard's outputs to messages for Kafka; also logs alarms and incidents."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from time import monotonic

from prequential.configuration.settings.model import Config
from prequential.engine.catalog.streams import Stream
from prequential.runtime.kafka.rejected import rejected
from prequential.runtime.worker.batches import Originals
from prequential.runtime.worker.origin import TopicsOrigin
from prequential.runtime.worker.publisher import Outgoing
from prequential.runtime.worker.settings_header import SettingsHeader
from prequential.topics.dead_letters import headers_of
from prequential.topics.outputs import Alarm, DeadLetter, Encoded, Incident, Output, encode
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import (
    COMPARISONS,
    DEAD_LETTERS,
    DISPARITIES,
    DRIFT_ALARMS,
    INCIDENTS,
    INPUTS,
    METRICS,
    PARTS,
)
from prequential.views.wording.incidents import sentence

log = logging.getLogger(__name__)


class MessageConverter:
    """Converts a shard's outputs to messages; `originals` has the original records of dead letters."""

    def __init__(
        self,
        config: Config,
        partition: int,
        streams: list[Stream],
        originals: Originals,
        origin: TopicsOrigin,
    ) -> None:
        self._config, self._partition, self._streams = config, partition, streams
        self._originals, self._origin = originals, origin
        self._topics = {name: config.kafka.topic(name) for name in (METRICS, COMPARISONS, DISPARITIES)}
        self._settings_header = SettingsHeader()

    def of(self, outputs: Sequence[Output]) -> list[Outgoing]:
        """Return the messages of these outputs, in the same order."""
        messages = [self._outgoing(output) for output in outputs]
        self._settings_header.add(self._streams, outputs, messages, monotonic())
        return messages

    def _outgoing(self, output: Output) -> Outgoing:
        if isinstance(output, Encoded):  # nearly all outputs
            if output.topic == PARTS:
                place = partition_of(output.stream, self._origin.partitions)
                topic = self._config.kafka.topic(PARTS)
                return Outgoing(topic, output.stream.encode(), output.json, None, place)
            return Outgoing(self._topics[output.topic], output.stream.encode(), output.json)
        kafka = self._config.kafka
        if isinstance(output, Alarm):
            segment = f" {output.segment}" if output.segment else ""
            log.warning(
                "drift: %s/%s%s %s: %s on %s at outcome %d (%.1f > %g)",
                output.stream, output.model, segment, output.stage, output.detector, output.signal,
                output.outcome, output.statistic, output.threshold,
            )  # fmt: skip
            return Outgoing(kafka.topic(DRIFT_ALARMS), output.stream.encode(), encode(output))
        if isinstance(output, Incident):
            log.warning("incident %s: %s", output.id[:8], sentence(output))
            return Outgoing(kafka.topic(INCIDENTS), output.stream.encode(), encode(output))
        return self._dead_letter(output)

    def _dead_letter(self, letter: DeadLetter) -> Outgoing:
        """Return the original record, with the reason and its place in headers."""
        original = self._originals.take(letter)
        kafka = self._config.kafka
        origin = (kafka.topic(INPUTS[letter.kind]), self._partition, letter.offset)
        rejected.note(*origin, letter.reason)
        headers = headers_of(letter.reason, *origin)
        return Outgoing(kafka.topic(DEAD_LETTERS), original.key, original.value, headers)

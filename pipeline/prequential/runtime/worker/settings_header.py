"""The settings that belong to a digest, in a header of metrics messages from time to time.

Each message has the digest of the settings with which it was made (`config`). The header `settings` of one
message in ten minutes, for each shard and each digest, lists these settings. They are in a header so that the
message itself depends only on the records. A reader that finds two configurations can show how they differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from prequential.configuration.settings.listing import ListedSettings, texts
from prequential.engine.catalog.streams import Stream
from prequential.runtime.kafka.transactions import Outgoing
from prequential.topics.outputs import Encoded, Output
from prequential.topics.specs import METRICS, SETTINGS_HEADER

#: Seconds between two headers with the same settings. A reader that starts at any time receives them within
#: this time, and 1.4 KB in ten minutes are negligible next to the messages.
_EVERY = 600.0

#: Seconds between checks of which digests are due again.
_CHECK = 10.0


class SettingsHeader:
    """Adds the header to messages of one shard.

    This costs nothing while no digest is due. While one is due, `add` checks each message for its stream.
    """

    def __init__(self) -> None:
        #: By digest: when its settings were last published (monotonic seconds).
        self._published: dict[str, float] = {}
        #: Streams whose settings are due, by name.
        self._due: dict[str, Stream] = {}
        self._check_at = 0.0
        #: Number of streams that were checked since the last full check.
        self._checked = 0

    def add(
        self, streams: Sequence[Stream], outputs: Sequence[Output], messages: list[Outgoing], now: float
    ) -> None:
        """Give the header to the first metrics message of each digest that is due.

        Parameters
        ----------
        streams
            All streams of the shard.
        outputs
            The outputs of the shard.
        messages
            The messages of these outputs, in the same order; this method replaces some of them.
        now
            The present time in monotonic seconds.
        """
        if now >= self._check_at:
            self._check_at, self._checked = now + _CHECK, 0
        for stream in streams[self._checked :]:
            if self._is_due(stream, now):
                self._due[stream.name] = stream
        self._checked = len(streams)
        if not self._due:
            return
        before = len(self._due)
        for place, output in enumerate(outputs):
            if isinstance(output, Encoded) and output.topic == METRICS and output.stream in self._due:
                stream = self._due.pop(output.stream)
                if self._is_due(stream, now):
                    self._published[stream.config.digest] = now
                    settings = ListedSettings(stream.config.digest, texts(stream.config))
                    header = [(SETTINGS_HEADER, msgspec.json.encode(settings))]
                    messages[place] = msgspec.structs.replace(messages[place], headers=header)
        if len(self._due) < before:
            self._due = {name: one for name, one in self._due.items() if self._is_due(one, now)}

    def _is_due(self, stream: Stream, now: float) -> bool:
        published = self._published.get(stream.config.digest)
        return published is None or now - published >= _EVERY

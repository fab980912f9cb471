"""Which settings a digest stands for: said in a header of metrics messages, now and then.

Messages name the settings by which they were made by a digest (`config`). What these are stands in the header
`settings` of one message in ten minutes, of each shard and each digest: beside the messages, which stay a
function of the log. Whoever shows that two configurations are at work can so say what differs between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from prequential.core.catalog.streams import Stream
from prequential.kafka.transactions import Outgoing
from prequential.settings.listing import Settings, texts
from prequential.topics.outputs import Encoded, Output
from prequential.topics.specs import METRICS, SETTINGS_HEADER

#: Seconds between two messages that say the same: whoever begins to read at some time knows it so soon, and
#: 1.4 KB in ten minutes are nothing beside the messages.
_EVERY = 600.0

#: Seconds between looks at which digests are due again.
_LOOK = 10.0


class SettingsHeader:
    """Adds the header to messages of one shard.

    Where nothing is due that costs nothing; while a stream's message is awaited, a look at each message.
    """

    def __init__(self) -> None:
        #: By digest: when it was said (monotonic seconds).
        self._said: dict[str, float] = {}
        #: By name of a stream whose settings are due: these.
        self._due: dict[str, Stream] = {}
        self._look_at = 0.0
        #: Streams that have been looked at since then.
        self._known = 0

    def add(
        self, streams: Sequence[Stream], outputs: Sequence[Output], messages: list[Outgoing], now: float
    ) -> None:
        """Give the header to the first metrics message of each digest that is due.

        Parameters
        ----------
        streams
            Those that the shard knows.
        outputs
            What the shard gives.
        messages
            The same, as it is published: place by place.
        now
            Monotonic seconds.
        """
        if now >= self._look_at:
            self._look_at, self._known = now + _LOOK, 0
        for stream in streams[self._known :]:
            if self._is_due(stream, now):
                self._due[stream.name] = stream
        self._known = len(streams)
        if not self._due:
            return
        before = len(self._due)
        for place, output in enumerate(outputs):
            if isinstance(output, Encoded) and output.topic == METRICS and output.stream in self._due:
                stream = self._due.pop(output.stream)
                if self._is_due(stream, now):
                    self._said[stream.config.digest] = now
                    said = Settings(stream.config.digest, texts(stream.config))
                    header = [(SETTINGS_HEADER, msgspec.json.encode(said))]
                    messages[place] = msgspec.structs.replace(messages[place], headers=header)
        if len(self._due) < before:
            self._due = {name: one for name, one in self._due.items() if self._is_due(one, now)}

    def _is_due(self, stream: Stream, now: float) -> bool:
        said = self._said.get(stream.config.digest)
        return said is None or now - said >= _EVERY

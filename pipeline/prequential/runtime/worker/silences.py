"""When a shard without new records publishes."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

from prequential.configuration.settings.model import Config


class SilenceTimer:
    """Decides when a silence has lasted long enough to publish, and again each time its length has doubled.

    The shard publishes again because each stream may have its own `emit.idle`. Also, a stream in all
    partitions is merged only up to a time that every partition has reached.

    >>> now = 100.0
    >>> silence = SilenceTimer(Config(), lambda: now)
    >>> now = 130.5
    >>> silence.due(), silence.due()
    (30000, None)
    >>> now = 160.0
    >>> silence.due()
    60000
    """

    def __init__(self, config: Config, clock: Callable[[], float] = monotonic) -> None:
        streams = (config.defaults, *config.streams.values())
        self._values = sorted(
            {stream_config.emit_idle for stream_config in streams if stream_config.emit_idle is not None}
        )
        self._clock = clock
        self.end()

    def end(self) -> None:
        """End the silence: a record has arrived."""
        self._since = self._clock()
        self._next: float = self._values[0] if self._values else math.inf

    def due(self) -> int | None:
        """Return the silence's length (ms) if the shard should publish now; None if not yet or not again."""
        quiet = 1000 * (self._clock() - self._since)
        if quiet < self._next:
            return None
        due = int(self._next)
        self._next = min([2 * due, *(silence for silence in self._values if silence > due)])
        return due

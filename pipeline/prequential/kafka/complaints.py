"""What Kafka's clients complain of, for the log: the same once in a while, however often it happens.

While no broker can be reached, librdkafka tries again up to twenty times a second and client, and reports
each failure, to its own log on standard error as well.
"""

from __future__ import annotations

import logging
from time import monotonic

from confluent_kafka import KafkaError

log = logging.getLogger(__name__)

#: Seconds until the same is said again.
_AGAIN_SECONDS = 10.0


class Complaints:
    """The `error_cb` of several clients.

    >>> complaints = Complaints()
    >>> complaints.news("b:9092/1: Connection refused (after 3ms in state CONNECT)", now=100.0)
    'b:9092/1: Connection refused'
    >>> complaints.news("b:9092/1: Connection refused (after 0ms in state CONNECT)", now=109.0)
    >>> complaints.news("b:9092/1: Connection refused (after 4ms in state CONNECT)", now=110.0)
    'b:9092/1: Connection refused'
    """

    def __init__(self) -> None:
        self._said: dict[str, float] = {}  # when each was said last

    def __call__(self, error: KafkaError) -> None:
        """Say it, unless it was said a moment ago."""
        if (text := self.news(error.str(), monotonic())) is not None:
            log.warning("Kafka: %s", text)

    def news(self, text: str, now: float) -> str | None:
        """A complaint without what differs each time; None if it was news a moment ago."""
        text = text.partition(" (after ")[0]
        if now - self._said.get(text, float("-inf")) < _AGAIN_SECONDS:
            return None
        self._said[text] = now
        return text


#: Of all clients of a process: what befalls one befalls all.
complain = Complaints()

#: Settings of a client whose errors are logged by `complain`, and not by librdkafka as well.
COMPLAINING = {"error_cb": complain, "log_level": 2}

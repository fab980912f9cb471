"""Log the errors of Kafka clients, and repeat the same error at most every 10 seconds.

While no broker is reachable, each client of librdkafka tries again up to twenty times a second. librdkafka
reports each failure, and also writes it to its own log on standard error.
"""

from __future__ import annotations

import logging
from time import monotonic

from confluent_kafka import KafkaError

log = logging.getLogger(__name__)

#: Seconds until the same error is logged again.
_AGAIN_SECONDS = 10.0


class Complaints:
    """The common `error_cb` of several clients.

    >>> complaints = Complaints()
    >>> complaints.news("b:9092/1: Connection refused (after 3ms in state CONNECT)", now=100.0)
    'b:9092/1: Connection refused'
    >>> complaints.news("b:9092/1: Connection refused (after 0ms in state CONNECT)", now=109.0)
    >>> complaints.news("b:9092/1: Connection refused (after 4ms in state CONNECT)", now=110.0)
    'b:9092/1: Connection refused'
    """

    def __init__(self) -> None:
        self._logged: dict[str, float] = {}  # when each error was last logged

    def __call__(self, error: KafkaError) -> None:
        """Log an error, unless it was logged a moment ago."""
        if (text := self.news(error.str(), monotonic())) is not None:
            log.warning("Kafka: %s", text)

    def news(self, text: str, now: float) -> str | None:
        """Return an error's text without its variable part; None if it was logged a moment ago."""
        text = text.partition(" (after ")[0]
        if now - self._logged.get(text, float("-inf")) < _AGAIN_SECONDS:
            return None
        self._logged[text] = now
        return text


#: The callback of all clients of a process, because most errors concern all of them.
complain = Complaints()

#: Settings of a client with which `complain` logs its errors, and librdkafka does not.
COMPLAINING = {"error_cb": complain, "log_level": 2}

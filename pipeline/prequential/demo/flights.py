"""The bundled flights as a live stream: a year of predictions, and labels when the flights have landed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, ClassVar

from prequential.configuration.settings.durations import exact_duration
from prequential.datasets import flights
from prequential.demo.source import EMIT_OUTCOMES, DemoStream, PreparedMessage

#: Milliseconds of the flights' time that pass in a second, by default: the year takes a minute and a half.
SPEED = 4 * 86_400_000


class FlightSource(DemoStream):
    """Replays the flights `speed` ms of their time a second, for at most `seconds` (None: all of them).

    Records have the flights' own times.

    >>> source = FlightSource(speed=7 * 86_400_000, seconds=1.0)
    >>> messages = list(source.messages())
    >>> source.duration, source.instances, source.labels, len(messages)
    (1.0, 282, 274, 838)
    >>> messages[0].fields["ts"], source.position
    (1358247600000, '2013-01-22')
    """

    stream = "flights"
    #: The worker's default.
    horizon = 7 * 86_400_000
    settings: ClassVar[Mapping[str, Any]] = {
        "positive_class": "late",
        "details": ["confusion", "scores"],
        "emit": {"outcomes": EMIT_OUTCOMES, "every": "1s"},
    }

    def __init__(self, speed: int, seconds: float | None = None) -> None:
        super().__init__()
        self._speed = speed
        self._data = flights(days=None)
        self._first: int = self._data.predictions[0]["ts"]
        whole = (self._data.labels[-1]["ts"] - self._first) / speed
        self.duration = whole if seconds is None else min(whole, seconds)
        self._ts = self._first

    def messages(self) -> Iterator[PreparedMessage]:
        """Yield predictions and labels in the order of their times."""
        instance = None
        rows = heapq.merge(self._data.predictions, self._data.labels, key=_time)
        for row in rows:
            due_ms = round((row["ts"] - self._first) / self._speed * 1000)
            if due_ms > self.duration * 1000:
                return
            self._ts = row["ts"]
            topic = "predictions" if "model" in row else "labels"
            if topic == "labels":
                self.labels += 1
                self.outcomes += 1
            elif row["instance_id"] != instance:
                instance = row["instance_id"]
                self.instances += 1
            yield PreparedMessage(due_ms, topic, row)

    @property
    def legend(self) -> list[str]:
        """Lines that explain the flights to a newcomer."""
        return [
            "American Airlines' flights from New York LaGuardia in 2013, and two models, daily and monthly:",
            "before departure, each predicts whether a flight lands more than 15 minutes late;",
            f"the label comes once it has landed; a second shows {exact_duration(self._speed)} of the year",
        ]

    @property
    def position(self) -> str:
        """The day that the replay has reached, in UTC and ISO format: `2015-01-31`."""
        return datetime.fromtimestamp(self._ts / 1000, timezone.utc).date().isoformat()


def _time(row: dict[str, Any]) -> int:
    ts: int = row["ts"]
    return ts

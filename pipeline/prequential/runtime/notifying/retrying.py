"""Interpret the webhook's answer, and choose when to send a message again."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import NamedTuple

#: Seconds before a message is sent a second time; each further pause is twice as long, up to the longest.
_FIRST, _LONGEST = 1.0, 300.0

#: The longest pause in seconds that a receiver may request. A mistake there must not stop all messages.
_LONGEST_ASKED = 3600.0

#: Statuses after which a retry may succeed: request timeout, too early, too many requests.
_LATER = frozenset({408, 425, 429})


class WebhookAnswer(NamedTuple):
    """The result of a request; without a status (0), `why` is the error."""

    status: int
    retry_after: str | None = None
    why: str = ""

    @property
    def taken(self) -> bool:
        """Whether the receiver has accepted the message."""
        return 200 <= self.status < 300

    @property
    def again(self) -> bool:
        """Whether to send the message again: no answer, a receiver's error, or the receiver's request."""
        return not self.status or self.status >= 500 or self.status in _LATER

    def __str__(self) -> str:
        return f"status {self.status}" if self.status else self.why


def pause(attempt: int, retry_after: str | None, now: float, draw: Callable[[], float]) -> float:
    """Return the seconds until a message is sent again after so many attempts, counted from 1.

    The pause doubles with each attempt. `draw` shortens it by a random share of up to a half, so that senders
    do not retry together. `Retry-After` sets a lower limit, which counts for at most an hour. It is a number
    of seconds, or an HTTP date that is compared with `now` (epoch seconds).

    >>> [pause(attempt, None, 0.0, lambda: 0.0) for attempt in (1, 2, 9, 10, 2000)]
    [1.0, 2.0, 256.0, 300.0, 300.0]
    >>> pause(2, None, 0.0, lambda: 1.0), pause(1, "17", 0.0, lambda: 0.0), pause(1, "1e9", 0.0, lambda: 0.0)
    (1.0, 17.0, 1.0)
    >>> pause(1, "Thu, 01 Jan 1970 00:01:00 GMT", 50.0, lambda: 0.0), pause(1, "86400", 0.0, lambda: 0.0)
    (10.0, 3600.0)
    """
    own = min(_LONGEST, _FIRST * 2.0 ** min(attempt - 1, 60)) * (1 - draw() / 2)
    return max(own, min(_asked(retry_after, now), _LONGEST_ASKED))


def _asked(retry_after: str | None, now: float) -> float:
    text = (retry_after or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:10])
    try:
        return parsedate_to_datetime(text).timestamp() - now
    except (TypeError, ValueError, OverflowError):
        return 0.0

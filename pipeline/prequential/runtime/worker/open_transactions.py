"""Open transactions, which hold back a topic's records."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from time import monotonic

log = logging.getLogger(__name__)


#: Seconds for which records of a partition must be unreadable before a transaction counts as open. Until then
#: the records may just be in transit.
_SURE_SECONDS = 2.0

#: Seconds after which an open transaction is logged, and after which it is logged as a warning. The latter is
#: the default of transaction.timeout.ms.
_LONG_SECONDS, _VERY_LONG_SECONDS = 10.0, 60.0

#: Seconds for which other topics wait for an open transaction. By default brokers abort longer ones
#: (transaction.max.timeout.ms), so one that is still open after that may stay open for ever.
_WAIT_SECONDS = 900.0


class OpenTransaction:
    """Whether a transaction is open in one partition, and since when.

    >>> now = 100.0
    >>> found = OpenTransaction("predictions/0", lambda: now)
    >>> found.look(7, 9)
    >>> found.age is None, found.holds_back
    (True, False)
    >>> now = 103.0
    >>> found.look(7, 12)
    >>> found.age, found.holds_back, found.text
    (3.0, True, 'a transaction in predictions/0 has been open for 3 s: 5 offsets from 7 on wait for its end')
    >>> found.look(12, 12)
    >>> found.age is None, found.text is None
    (True, True)

    Producers' transactions may overlap. When the first one ends, the records of the next are as old:

    >>> found.look(20, 25)
    >>> now = 106.0
    >>> found.look(None, 25)
    >>> found.look(23, 25)
    >>> found.age is None, found.holds_back
    (True, True)
    """

    def __init__(self, name: str, clock: Callable[[], float] = monotonic) -> None:
        """`name` is the topic and the partition."""
        self._name, self._clock = name, clock
        self._end = -1  # offset up to which the partition can be read
        self._high = -1
        self._since = math.inf
        self._withheld_since = (
            math.inf
        )  # as `_since`, and goes on when readers get to another open transaction
        self._logged = 0.0  # the age in the latest log line

    def look(self, end: int | None, high: int | None, *, is_fresh: bool = True) -> None:
        """Note where the partition ends for readers of committed records, and for readers of all records.

        `end` is None unless the partition was read to its end. `is_fresh` is false if `high` is from before
        then, so that the partition may end later.
        """
        if end is not None and high is not None:
            if high > end:
                self._withheld_since = min(self._withheld_since, self._clock())
            elif is_fresh:
                self._withheld_since = math.inf
        if end is None or high is None or high <= end:
            if self._logged:
                log.info("the transaction in %s has ended", self._name)
            self._since, self._logged, self._end = math.inf, 0.0, -1
            return
        if end != self._end:
            self._since, self._logged, self._end = self._clock(), 0.0, end
        self._high = high
        age = self.age or 0.0
        if age >= max(_LONG_SECONDS, 2 * self._logged):
            self._logged = age
            log.log(logging.WARNING if age >= _VERY_LONG_SECONDS else logging.INFO, "%s", self.text)

    @property
    def age(self) -> float | None:
        """Seconds for which this worker has observed an open transaction; None if there is none."""
        age = self._clock() - self._since
        return age if age >= _SURE_SECONDS else None

    @property
    def holds_back(self) -> bool:
        """Whether other topics wait, because the withheld records precede theirs in time."""
        withheld = self._clock() - self._withheld_since
        return withheld >= _SURE_SECONDS and (self.age or 0.0) < _WAIT_SECONDS

    @property
    def text(self) -> str | None:
        """A sentence about the open transaction; None if there is none."""
        age = self.age
        if age is None:
            return None
        return (
            f"a transaction in {self._name} has been open for {age:.0f} s: {self._high - self._end} offsets "
            f"from {self._end} on wait for its end"
        )

"""Time zones: UTC from local times, and local times from UTC, of whole columns."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from prequential.topics.errors import existing

_Times = npt.NDArray[np.int64]

#: Years whose changes of the clock are looked up. Outside of them the first or the last offset holds.
_FIRST_YEAR, _LAST_YEAR = 1970, 2100

_DAY, _SECOND = 86_400, 1_000


class ClockChanges(NamedTuple):
    """When the clocks of a zone change, (n,) ms of UTC, and the offsets from UTC before and after it, ms.

    Row 0 is before all times, so there always is a latest change.
    """

    moments: _Times
    before: _Times
    after: _Times


class LocalTimes(NamedTuple):
    """UTC of local times (ms), and which of these occur twice or not at all in their zone."""

    utc: _Times
    twice: npt.NDArray[np.bool_]
    never: npt.NDArray[np.bool_]


@cache
def changes_of(zone: str) -> ClockChanges:
    """The changes of a zone's clock from 1970 to 2100.

    >>> changes = changes_of("Europe/Berlin")
    >>> i = int(changes.moments.searchsorted(1_792_886_400_000))  # 25 October 2026
    >>> str(np.datetime64(int(changes.moments[i]), "ms")), int(changes.before[i]), int(changes.after[i])
    ('2026-10-25T01:00:00.000', 7200000, 3600000)
    """
    info = ZoneInfo(zone)
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)

    def offset(second: int) -> int:
        moment = (epoch + timedelta(seconds=second)).astimezone(info)
        local = existing(moment.utcoffset(), f"the offset of zone {zone}")
        return round(local.total_seconds()) * _SECOND

    first, last = (
        int((datetime(year, 1, 1, tzinfo=timezone.utc) - epoch).total_seconds())
        for year in (_FIRST_YEAR, _LAST_YEAR)
    )
    present = offset(first)
    rows = [(-(1 << 62), present, present)]
    for day in range(first, last, _DAY):
        after = offset(day + _DAY)
        if after == present:
            continue
        low, high = day, day + _DAY
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == present else (low, middle)
        rows.append((high * _SECOND, present, after))
        present = after
    return ClockChanges(*(np.array(column, dtype=np.int64) for column in zip(*rows)))


def utc_of(local: _Times, zone: str) -> LocalTimes:
    """UTC (ms) of local times, which are ms since 1970 on the clock of a zone.

    Of a time that occurs twice it is the earlier one. A time that the clocks skip is read with the offset
    before the change, as Python reads it.

    >>> from datetime import datetime, timezone
    >>> hours = [datetime(2026, 10, 25, 2, 30), datetime(2026, 3, 29, 2, 30), datetime(2026, 7, 1)]
    >>> local = [round(one.replace(tzinfo=timezone.utc).timestamp() * 1000) for one in hours]
    >>> utc, twice, never = utc_of(np.array(local), "Europe/Berlin")
    >>> utc.astype("datetime64[ms]").astype(str).tolist()
    ['2026-10-25T00:30:00.000', '2026-03-29T01:30:00.000', '2026-06-30T22:00:00.000']
    >>> twice.tolist(), never.tolist()
    ([True, False, False], [False, True, False])
    """
    moments, before, after = changes_of(zone)
    # Up to the later one of both clocks' times at a change its old offset holds.
    ends = moments + np.maximum(before, after)
    index = ends.searchsorted(local, side="right") - 1
    following = np.minimum(index + 1, len(moments) - 1)
    inside = (following > index) & (local >= moments[following] + np.minimum(before, after)[following])
    back = after[following] < before[following]
    return LocalTimes(local - after[index], inside & back, inside & ~back)

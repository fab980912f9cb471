"""Findings about times of records: in another unit, or far ahead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from prequential.core.input.odd_times import AHEAD, LEAST_MICROSECONDS, MICROSECONDS, SECONDS
from prequential.diagnosis.found import Finding
from prequential.settings.durations import shown_duration
from prequential.topics.decoding import KINDS

if TYPE_CHECKING:
    from prequential.diagnosis.findings import StreamFacts

#: No current stream has times after the year 2200, or times in milliseconds before March 1973.
_YEAR_2200, _LEAST_MS = 7_258_118_400_000, 100_000_000_000

_YEAR = 31_556_952_000

#: Records after the longest step of time that count as few: this number, or this share.
_FEW, _FEW_SHARE = 3, 0.01

#: Number of units (ms) from which on a long time is shown in this unit.
_COARSE = (3_600_000, 60_000, 1_000)
_MANY = 10


class OddRecords(NamedTuple):
    """Records of a kind whose times are odd in one way (see `core.input.odd_times`)."""

    oddity: int
    kind: int
    number: int
    place: str | None  # of the first one


class Step(NamedTuple):
    """The longest step of a stream's time: from `before` to `at` (ms), the ts of a record of a kind."""

    before: int
    at: int
    kind: int
    earlier: int  # records before it, and records as late or later
    later: int
    place: str | None

    @property
    def is_astray(self) -> bool:
        """Return whether the few records after it may have a wrong time."""
        return self.later <= max(_FEW, _FEW_SHARE * (self.earlier + self.later))


def time_findings(stream: StreamFacts, least: int) -> Iterator[Finding]:
    """Yield times of a stream in seconds or microseconds, and records far ahead of others."""
    yield from _units(stream)
    yield from _ahead(stream)


def has_wrong_times(stream: StreamFacts) -> bool:
    """Return whether times of the stream are wrong, so that late and expired records mean nothing."""
    return bool(stream.odd) or max(stream.latest) >= _YEAR_2200 or _astray(stream) is not None


def shown(duration: int) -> str:
    """Return a duration in ms for a sentence, in years if it has many.

    >>> shown(86_100_000), shown(1_790_000), shown(250), shown(50 * _YEAR)
    ('1d', '30m', '250ms', 'about 50 years')
    """
    if duration >= _MANY * _YEAR:
        return f"about {round(duration / _YEAR)} years"
    return shown_duration(rounded(duration))


def rounded(duration: int) -> int:
    """Return a duration in ms, such as a quantile, which is accurate to 1%, in whole units."""
    for unit in _COARSE:
        if duration >= _MANY * unit:
            return (duration + unit // 2) // unit * unit
    return duration


def _units(stream: StreamFacts) -> Iterator[Finding]:
    """Yield times in seconds or microseconds, of all records of a kind or of a share."""
    given = [kind for kind, count in enumerate(stream.records) if count]
    for oddity, code, text in (
        (SECONDS, "seconds", "in January 1970: are they in seconds instead of milliseconds?"),
        (MICROSECONDS, "future", "in the year {}: are they in microseconds instead of milliseconds?"),
    ):
        odd = [one for one in stream.odd if one.oddity == oddity]
        whole = [one.kind for one in odd if one.number >= stream.records[one.kind]]
        year = 1970 + max(stream.latest) // _YEAR
        if whole:
            which = "" if whole == given else f" of {' and '.join(KINDS[kind] for kind in whole)}"
            yield Finding(code, stream.name, f"all ts{which} are {text.format(year)}")
        for one in odd:
            # Some test streams begin at 0, and reach times that look like seconds.
            if one.kind not in whole and max(stream.latest) >= _LEAST_MS:
                of = stream.records[one.kind]
                yield Finding(
                    code, stream.name,
                    f"{one.number:,} of {of:,} ts of {KINDS[one.kind]} ({100 * one.number / of:.2g}%) are "
                    f"{text.format(year)} (first: {one.place}): use one unit for all ts of a field",
                    KINDS[one.kind],
                )  # fmt: skip


def _ahead(stream: StreamFacts) -> Iterator[Finding]:
    """Yield records whose times are far ahead of their record time, or of all other records."""
    for one in stream.odd:
        if one.oddity == AHEAD:
            yield Finding(
                "ahead", stream.name,
                f"{one.number:,} {KINDS[one.kind]} have a ts far ahead of the record's own time (first: "
                f"{one.place}): check the producer's clock; one record moves the stream's clock by at most "
                "an hour, or label_horizon/10 if that is less",
                KINDS[one.kind],
            )  # fmt: skip
    step = _astray(stream)
    if step is not None and not any(one.oddity == MICROSECONDS for one in stream.odd):
        which = f"{step.later:,} of {sum(stream.records):,} records"
        yield Finding(
            "ahead", stream.name,
            f"{which} have a ts {shown(step.at - step.before)} after all others (first: {step.place}, "
            f"{_date(step.at)}): check that time",
            "step",
        )  # fmt: skip
    elif max(stream.latest) >= _YEAR_2200 and max(stream.latest) < LEAST_MICROSECONDS:
        year = 1970 + max(stream.latest) // _YEAR
        yield Finding("future", stream.name, f"some ts are in the year {year}: check the producer's clock")


def _astray(stream: StreamFacts) -> Step | None:
    return stream.step if stream.step is not None and stream.step.is_astray else None


def _date(ms: int) -> str:
    return str(np.datetime64(ms, "ms").astype("datetime64[s]")) + "Z"

"""Findings about times of records: in another unit, far ahead, without a time zone, or not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from prequential.configuration.settings.durations import shown_duration
from prequential.engine.input.odd_times import AHEAD, LEAST_MICROSECONDS, MICROSECONDS, SECONDS
from prequential.mapping.units import Clocks, TimeColumn
from prequential.topics.decoding import KINDS
from prequential.views.diagnosis.classes import quoted
from prequential.views.diagnosis.stream_facts import Finding, Step, StreamFacts

#: No current stream has times after the year 2200, or times in milliseconds before March 1973.
_YEAR_2200, _LEAST_MS = 7_258_118_400_000, 100_000_000_000

_YEAR = 31_556_952_000

#: Number of units (ms) from which on a long time is shown in this unit.
_COARSE = (3_600_000, 60_000, 1_000)
_MANY = 10


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


# ---- time zones


def zone_findings(clocks: Mapping[str, Clocks]) -> Iterator[Finding]:
    """Yield likely mistakes with time zones, by the name of the input that they are in.

    >>> naive, aware = Clocks(), Clocks()
    >>> naive.note("naive", "2026-01-05 05:00:00")
    >>> aware.note("aware", "2026-01-05T10:10:00Z")
    >>> [finding] = zone_findings({"predictions": naive, "labels": aware})
    >>> print(finding)
    1 ts of predictions has no time zone and was read as UTC (e.g. 2026-01-05 05:00:00), but ts of labels \
has a time zone (e.g. 2026-01-05T10:10:00Z): set `timezone` for ts of predictions, such as {path: ts, \
timezone: America/New_York}, or UTC if that is right
    """
    clocks = _alike(clocks)
    aware = next((name for name, one in clocks.items() if one.counts.get("aware")), None)
    for name, one in clocks.items():
        naive = one.counts.get("naive", 0)
        if aware is not None and naive:
            other = "other" if aware == name else f"ts of {aware}"
            has = "times have" if aware == name else "has"
            verb = ("has", "was") if naive == 1 else ("have", "were")
            yield Finding(
                "naive_times", None,
                f"{naive:,} ts of {name} {verb[0]} no time zone and {verb[1]} read as UTC (e.g. "
                f"{one.examples['naive']}), but {other} {has} a time zone (e.g. "
                f"{clocks[aware].examples['aware']}): set `timezone` for ts of {name}, such as {{path: ts, "
                "timezone: America/New_York}, or UTC if that is right",
                name,
            )  # fmt: skip
        for kind, occurs, way in (
            ("twice", "occur twice", "each was read as the earlier of the two"),
            ("never", "don't exist, as clocks skip them,", "each was read with the offset before the change"),
        ):
            if count := one.counts.get(kind, 0):
                yield Finding(
                    f"{kind}_local", None,
                    f"{count:,} of {one.counts['named']:,} local ts of {name} {occurs} in {one.zone} (e.g. "
                    f"{one.examples[kind]}); {way}: send times in UTC or with an offset",
                    name,
                )  # fmt: skip


def _alike(clocks: Mapping[str, Clocks]) -> dict[str, Clocks]:
    """Return the clocks with one entry for inputs with the same facts, as from the same column."""
    names: list[tuple[list[str], Clocks]] = []
    for name, one in clocks.items():
        same = next((known for known, other in names if other == one), None)
        if same is None:
            names.append(([name], one))
        else:
            same.append(name)
    return {" and ".join(known): one for known, one in names}


#: The section of a mapping that was given in Python, rather than in a configuration file, begins with this.
_IN_PYTHON = "columns"


def untimed_findings(columns: Iterable[TimeColumn]) -> Iterator[Finding]:
    """Yield the columns that may contain times, if no record had a time and rows were taken in order.

    >>> for one in untimed_findings([TimeColumn(1, "created_at", "files.predictions")]):
    ...     print(one)
    no record has a ts, so the order of rows is that of time; predictions have a column 'created_at': if \
that is the time, set files.predictions.ts to created_at
    """
    by_kind: dict[int, list[TimeColumn]] = {}
    for one in columns:
        by_kind.setdefault(one.kind, []).append(one)
    if not by_kind:
        return
    names = {kind: [one.name for one in some] for kind, some in by_kind.items()}
    several = "columns" if any(len(some) > 1 for some in names.values()) else "a column"
    if len(set(map(tuple, names.values()))) == 1:
        who = " and ".join(KINDS[kind] for kind in names)
        have = f"{who} have {several} {quoted(next(iter(names.values())))}"
    else:
        have = " and ".join(f"{KINDS[kind]} have {quoted(some)}" for kind, some in names.items())
    if any(one.section.startswith(_IN_PYTHON) for some in by_kind.values() for one in some):
        kinds = {KINDS[kind]: {"ts": some[0]} for kind, some in names.items()}
        same = {some[0] for some in names.values()}
        fix = f"pass columns={{'ts': {same.pop()!r}}}" if len(same) == 1 else f"pass columns={kinds}"
    else:
        fix = "set " + ", ".join(f"{some[0].section}.ts to {some[0].name}" for some in by_kind.values())
    said = f"no record has a ts, so the order of rows is that of time; {have}: if that is the time, {fix}"
    yield Finding("untimed", None, said)

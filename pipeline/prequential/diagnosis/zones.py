"""Findings about the time zones of input times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prequential.diagnosis.found import Finding
from prequential.mapping.clocks import Clocks


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

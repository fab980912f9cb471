"""Findings about columns with times that were not read as the times of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prequential.mapping.clocks import TimeColumn
from prequential.topics.decoding import KINDS
from prequential.views.diagnosis.classes import quoted
from prequential.views.diagnosis.stream_facts import Finding

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

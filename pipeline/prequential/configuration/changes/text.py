"""What differs, as lines to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prequential.configuration.changes.diff import Difference, KeyChange, Section

#: Names of streams that are written out.
_MOST_NAMES = 5


def lines(difference: Difference) -> Iterator[str]:
    """Section by section, key by key; nothing if nothing differs."""
    for section in difference.sections:
        yield from _section(section, difference.anew)
    if not difference.same:
        before, after = difference.digests
        if before == after:
            yield f"config {before[:12]} as before: outcomes are evaluated alike"
        else:
            yield f"config {before[:12]} -> {after[:12]} (prequential_config_info)"


#: What it means that a stream's section is there only before, or only after.
_SECTIONS = {
    "added": " (a section of its own; `defaults` held for it before)",
    "removed": " (no section of its own any more: `defaults` hold for it)",
}


def _section(section: Section, anew: bool) -> Iterator[str]:
    if section.names:
        yield f"{_some(section.names)}{_SECTIONS.get(section.section, '')}:"
    indent = "  " if section.names else ""
    for change in section.changes:
        # If streams start again completely, no more lines are needed.
        said = list(_change(change))[: 1 if anew and section.names else None]
        yield from (indent + line for line in said)
    if section.names and not section.changes:
        yield f"{indent}nothing differs"
    if section.refused:
        yield f"{indent}refused: {section.refused}"
        return
    if section.begins_empty:
        yield f"{indent}begin empty, by several keys together: {', '.join(section.begins_empty)}"
    if section.ends:
        yield f"{indent}end, by several keys together: {', '.join(section.ends)}"
    if section.kept and any(change.begins_empty or change.ends for change in section.changes):
        yield f"{indent}kept: {', '.join(section.kept)}"


def _change(change: KeyChange) -> Iterator[str]:
    yield f"{change.key}: {'; '.join(change.values)}"
    if change.state:
        yield f"  {change.state}"
    if change.begins_empty:
        yield f"  begins empty: {', '.join(change.begins_empty)}"
    if change.ends:
        yield f"  ends: {', '.join(change.ends)}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")

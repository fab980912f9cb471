"""Other models of a stream that changed at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prequential.engine.estimators.naming import BASELINE_PREFIX, RANDOM_SUFFIX
from prequential.topics.outputs import Incident
from prequential.topics.reasons import printable
from prequential.views.wording.incidents import levels_in_words

#: Models that are named.
_NAMED = 10


def changed_with(one: Incident, incidents: Iterable[Incident]) -> list[Incident]:
    """Return incidents of other models of the stream whose changes overlap with this one's.

    A change lasts from its change point to its alarm. A change point is an estimate, so a change
    extends to both sides by the time that either took to be noticed.
    """
    begins, ends = _span(one)
    neighbours = []
    for other in incidents:
        if (other.stream, other.partition) != (one.stream, one.partition) or other.model == one.model:
            continue
        first, last = _span(other)
        slack = max(ends - begins, last - first)
        if first - slack <= ends and begins - slack <= last:
            neighbours.append(other)
    return sorted(neighbours, key=lambda other: (abs(_span(other)[0] - begins), other.model, other.id))


def unchanged(one: Incident, changed: Iterable[Incident], models: Iterable[str]) -> list[str]:
    """Return the stream's models without a change at that time, except baselines."""
    others = {name for name in models if not name.startswith(BASELINE_PREFIX)}
    others = {name for name in others if not name.endswith(RANDOM_SUFFIX)}
    return sorted(others - {one.model} - {other.model for other in changed})


def in_words(one: Incident, incidents: Iterable[Incident], models: Iterable[str]) -> Iterator[str]:
    """Yield a line for each model that changed, and one for the others."""
    changed = changed_with(one, incidents)
    for other in changed[:_NAMED]:
        levels = levels_in_words(other)
        yield f"{printable(other.model)} changed at the same time: {levels} ({other.id[:8]})"
    if len(changed) > _NAMED:
        yield f"… and {len(changed) - _NAMED:,} more"
    others = unchanged(one, changed, models)
    names = ", ".join(map(printable, others[:_NAMED])) + (" …" if len(others) > _NAMED else "")
    if others:
        yield f"{'no change of' if changed else 'none of the others changed:'} {names}"
    elif not changed:
        yield "no other model of the stream is known"


def _span(one: Incident) -> tuple[int, int]:
    """Return the time from the change point to the alarm that opened the incident (label times, ms)."""
    return one.change_point["ts"], max(one.change_point["ts"], one.opened["ts"])

"""Incidents in words, for terminals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prequential.topics.outputs import Alarm, Incident
from prequential.topics.reasons import printable

#: Causes in words.
WORDS = {
    "class_ratio": "class distribution", "concept": "concept", "persistence": "persistence of labels",
    "coverage": "coverage", "label_latency": "label latency", "selection": "which predictions get labels",
    "segment": "segment", "class": "class", "model_version": "version", "inputs": "other inputs",
    "not_clear": "not clear",
}  # fmt: skip

#: Share of a change that is due to the class distribution from which on the classes themselves are unchanged.
_ALL = 0.9

#: Characters of an incident's ID by which `explain` finds it.
_ID = 8

#: Fields with the subject of a cause.
_NAMED = {"segment": "segment", "class": "class", "model_version": "version"}


def cause_in_words(cause: dict[str, Any]) -> str:
    """Return a cause of an incident as text: its subject, and its share in per cent.

    >>> cause_in_words({"cause": "segment", "share": 0.93, "segment": "region=eu"})
    'segment region=eu (93%)'
    >>> cause_in_words({"cause": "class_ratio", "share": 0.96, "class": "a", "before": 0.25, "after": 0.55})
    'more of class a: 25% → 55% (96%), errors within classes unchanged'
    >>> cause_in_words({"cause": "not_clear", "share": 0.0})
    'not clear'
    """
    if cause["cause"] == "not_clear":
        return cause_name(cause)
    share = f"({100 * cause['share']:.0f}%)"
    if cause["cause"] != "class_ratio" or not cause.keys() >= {"class", "before", "after"}:
        return f"{cause_name(cause)} {share}"
    before, after = cause["before"], cause["after"]
    subject = f"{'more' if after > before else 'less'} of class {printable(str(cause['class']))}"
    unchanged = ", errors within classes unchanged" if cause["share"] >= _ALL else ""
    return f"{subject}: {100 * before:.0f}% → {100 * after:.0f}% {share}{unchanged}"


def cause_name(cause: dict[str, Any]) -> str:
    """Return the subject of a cause of an incident, as text.

    >>> cause_name({"cause": "segment", "share": 0.93, "segment": "region=eu"})
    'segment region=eu'
    """
    name = str(cause["cause"])
    which = cause.get(_NAMED.get(name, ""))
    return f"{WORDS.get(name, printable(name))}{'' if which is None else f' {printable(str(which))}'}"


def span_of(message: Incident, axis: str) -> tuple[int, int | None]:
    """Return start and end of an incident on axis `ts` or `outcome`; an open incident has no end."""
    start: int = message.change_point[axis]
    if message.status == "open":
        return start, None
    if isinstance(message.recovered, dict):
        return start, message.recovered[axis]
    return start, message.ts if axis == "ts" else message.outcome


def levels_in_words(message: Incident) -> str:
    """Return the mean losses before and after the change, as text: `0.1 → 0.25`."""
    return f"{message.before['level']:.3g} → {message.after['level']:.3g}"


def subject_of(message: Incident | Alarm) -> str:
    """Return the model of an incident, and its segment."""
    segment = "" if message.segment is None else f" {printable(message.segment)}"
    return f"{printable(message.stream)}/{printable(message.model)}{segment}"


def sentence(message: Incident) -> str:
    """Return an incident in one line: since when, how bad, what changed, and its status."""
    causes = ", ".join(cause_in_words(one) for one in message.causes[:2])
    alarms = f"{message.alarm_count:,} alarm{'' if message.alarm_count == 1 else 's'}"
    return (
        f"{subject_of(message)} {message.stage}: {message.status}, began at outcome "
        f"{message.change_point['outcome']:,}, loss {levels_in_words(message)}; {causes}; {alarms}; "
        f"incident {printable(message.id[:_ID])}"
    )


class NewestIncidents:
    """The newest message about each incident, by the order in which they opened."""

    def __init__(self) -> None:
        self._known: dict[str, Incident] = {}

    def add(self, message: Incident) -> None:
        """Store a message; ignore one that is older than the stored one."""
        known = self._known.get(message.id)
        if known is None or known.revision <= message.revision:
            self._known[message.id] = message

    def __iter__(self) -> Iterator[Incident]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

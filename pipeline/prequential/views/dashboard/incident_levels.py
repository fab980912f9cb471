"""The levels of an incident: before, since, at its worst, in the latest outcomes; and where it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from prequential.topics.outputs import Incident
from prequential.views.state.history import History, newest_point
from prequential.views.state.incidents import OPEN
from prequential.views.state.newest import ModelKey, SequenceName
from prequential.views.state.series import Point, Series
from prequential.views.wording import status

#: Parts that are listed, the worst first.
_PARTS = 20

#: Outcomes without which the value of a part says little.
_LEAST = 30


class LevelsOverTime(NamedTuple):
    """Levels of an incident, as shares right or mean losses; None if they are unknown."""

    before: float | None
    since: float | None
    worst: float | None
    latest: float | None
    #: The moment of `latest` (epoch ms); None: it is that of the newest message about the model.
    latest_ts: int | None = None

    @property
    def is_back(self) -> bool:
        """Whether the latest level is nearer to that before than to that since."""
        if self.before is None or self.since is None or self.latest is None:
            return False
        return abs(self.latest - self.before) < abs(self.latest - self.since)


def levels_over_time(incident: Incident, series: Series | None, newest: Point | None) -> LevelsOverTime:
    """Return the levels that the message has, or else those of the sequence's course."""
    before, since = (status.level(side.get("level"), incident) for side in (incident.before, incident.after))
    worst, latest = (_level_of(getattr(incident, name, msgspec.UNSET), incident) for name in ("worst", "now"))
    latest_ts = None if latest is None or incident.untimed else incident.ts
    name = status.level_name(incident).replace(" ", "_")
    values = [] if series is None or name not in series.names else list(_since(series, incident, name))
    if worst is None and values:
        worst = min(values) if status.is_share(incident) else max(values)
    if latest is None and newest is not None and incident.status == OPEN:
        latest = newest.values.get(name)
    if worst is not None and latest is not None:
        worst = min(worst, latest) if status.is_share(incident) else max(worst, latest)
    return LevelsOverTime(before, since, worst, latest, latest_ts)


def _level_of(side: Any, incident: Incident) -> float | None:
    value = side.get("level") if isinstance(side, dict) else None
    return status.level(value, incident) if isinstance(value, int | float) else None


def _since(series: Series, incident: Incident, name: str) -> Iterator[float]:
    """Yield the values of a course from the beginning of an incident to its end."""
    start, end = status.span_of(incident, "outcome")
    for outcomes, value in zip(series.outcomes(), series.values(name)):
        if outcomes > start and (end is None or outcomes <= end) and value is not None:
            yield value


class PartLevels(NamedTuple):
    """A segment or a class: its share right (or mean loss) before an incident and since."""

    kind: str
    name: str
    before: float | None
    since: float


def parts_of(history: History, incident: Incident, estimator: str | None) -> list[PartLevels]:
    """Return segments and classes before and since an incident, the one that became worst first."""
    part_by_name = {part.name: part for part in _causes(incident)}
    name = status.level_name(incident).replace(" ", "_")
    key = ModelKey(incident.stream, incident.model, incident.partition)
    past, model = history.past.get(key), history.models.get(key)
    if past is None or model is None or estimator is None or incident.status != OPEN:
        return list(part_by_name.values())
    for sequence, series in past.series.items():
        if sequence.segment is None or (sequence.stage, sequence.estimator) != (incident.stage, estimator):
            continue
        newest = newest_point(history.reading(model.sequences.get(SequenceName(*sequence))))
        if newest is None or name not in newest.values or newest.outcomes < _LEAST:
            continue
        earlier = [
            value for time, value in zip(series.times(), series.values(name))
            if time <= incident.change_point["ts"] and value is not None
        ] if name in series.names else []  # fmt: skip
        before = earlier[-1] if earlier else None
        part_by_name[sequence.segment] = PartLevels("segment", sequence.segment, before, newest.values[name])
    worse = -1 if status.is_share(incident) else 1

    def harm(part: PartLevels) -> float:
        return 0.0 if part.before is None else worse * (part.since - part.before)

    return sorted(part_by_name.values(), key=lambda part: (-harm(part), part.name))[:_PARTS]


def _causes(incident: Incident) -> Iterator[PartLevels]:
    """Yield the segments and classes that are causes, with their levels, which are losses in the message."""
    for cause in incident.causes:
        kind = str(cause["cause"])
        if kind in ("segment", "class") and {"before", "after", kind} <= cause.keys():
            before, since = (status.level(cause[side], incident) for side in ("before", "after"))
            if since is not None:
                yield PartLevels(kind, str(cause[kind]), before, since)


def where_sentence(parts: list[PartLevels], incident: Incident) -> str:
    """Return the parts that became much worse, and the range of the others, as a sentence; "" without them.

    A part became much worse if its change is at least half of the largest one.
    """
    compared = [part for part in parts if part.before is not None]
    if not compared:
        return ""
    worse = -1 if status.is_share(incident) else 1
    changes = [worse * (part.since - (part.before or 0.0)) for part in compared]
    if changes[0] <= 0:
        return ""
    count = sum(change >= changes[0] / 2 for change in changes)
    shown = status.levels_text(incident)
    named = ", ".join(
        f"{part.name} is at {shown(part.since)}, {shown(part.before or 0.0)} before"
        for part in compared[: min(count, 3)]
    )
    more = f" and {count - 3} more" if count > 3 else ""
    rest = [part.since for part in compared[count:]]
    if not rest:
        return f"Where: {named}{more}."
    low, high = shown(min(rest)), shown(max(rest))
    within = low if low == high else f"{low} to {high}"
    return f"Where: {named}{more}; {'the other is' if len(rest) == 1 else 'the others are'} at {within}."


def as_json(incident: Incident, levels: LevelsOverTime, parts: list[PartLevels]) -> Mapping[str, Any]:
    """Return the grade, the levels and the parts of an incident as the page's JSON."""
    return {
        "grade": incident.grade if incident.grade is not msgspec.UNSET else None,
        "levels": {**levels._asdict(), "is_back": levels.is_back},
        "parts": [part._asdict() for part in parts], "where": where_sentence(parts, incident),
    }  # fmt: skip

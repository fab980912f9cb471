"""The status of a model: its most urgent one, with the sentence that explains it."""

from __future__ import annotations

from typing import Any

from prequential.topics.outputs import Incident
from prequential.views.dashboard.history import History
from prequential.views.dashboard.incidents import began
from prequential.views.dashboard.story import missed
from prequential.views.dashboard.verdicts import Verdicts
from prequential.views.watching.ranking import RankedModel, is_baseline
from prequential.views.wording.incidents import level, level_name
from prequential.views.wording.measures import COMPARED
from prequential.views.wording.neighbours import changed_with
from prequential.views.wording.references import referred
from prequential.views.wording.status import (
    FEW,
    URGENT,
    WORDS,
    better_sentence,
    incident_sentence,
    objective_sentence,
    silence_sentence,
)

_ORDER = list(WORDS)


class Statuses:
    """One status for each model, by urgency; with `live`, models may be silent by the current time."""

    def __init__(self, history: History, verdicts: Verdicts, live: bool) -> None:
        self._history = history
        self._verdicts = verdicts
        self._live = live

    def kind(self, row: RankedModel, now: int) -> str:
        """Return the name of a model's status, a key of `WORDS`; `now` is in epoch ms."""
        if is_baseline(row.model.key.model):
            return "baseline"
        if self._incident(row) is not None:
            return "worse"
        if row.reading is None:
            return "waiting"
        if missed(self._history, row):
            return "objective"
        if self._history.silence(row.model, now if self._live else None) is not None:
            return "silent"
        if row.reading.outcomes < FEW:
            return "few"
        return "beaten" if self._verdicts.against(row.model.key) else "steady"

    def urgent(self, rows: list[RankedModel], now: int) -> list[tuple[RankedModel, str]]:
        """Return the models that need attention with the name of their status, the most urgent first."""
        found = [(row, kind) for row in rows if (kind := self.kind(row, now)) in URGENT]
        return sorted(found, key=lambda one: (_ORDER.index(one[1]), -self._severity(one[0])))

    def of(self, row: RankedModel, now: int) -> dict[str, Any]:
        """Return a model's status as the page's JSON.

        `since` is its beginning (epoch ms, None if unknown), `before` and `after` are levels named `level`.
        """
        kind = self.kind(row, now)
        said: dict[str, Any] = {
            "kind": kind, "word": WORDS[kind], "sentence": "", "since": None, "outcome": None,
            "before": None, "after": None, "level": None, "incident": None,
        }  # fmt: skip
        key, untimed = row.model.key, row.model.untimed
        incident = self._incident(row)
        if kind == "worse" and incident is not None:
            together = changed_with(incident, self._history.incidents.all())
            said |= {
                "sentence": incident_sentence(incident, list(dict.fromkeys(one.model for one in together))),
                "since": None if untimed else began(incident),
                "outcome": incident.change_point["outcome"],
                **levels(incident),
                "incident": incident.id,
            }
        elif kind == "objective":
            one = missed(self._history, row)[0]
            said |= {
                "sentence": objective_sentence(one.measure, one.value, one.bound, one.less_is_better),
                "before": one.bound, "after": one.value, "level": one.measure,
            }  # fmt: skip
        elif kind == "silent":
            silence = self._history.silence(row.model, now if self._live else None)
            if silence is not None:
                said |= {"sentence": silence_sentence(silence.since, silence.why), "since": silence.since}
        elif kind == "beaten":
            better = [one["name"] for one in self._verdicts.better_than(key)]
            said |= {"sentence": better_sentence(better), "word": f"{better[0]} is better"}
        elif kind == "waiting":
            said["sentence"] = "No prediction has a label yet."
        elif kind == "few" and row.reading is not None:
            said["sentence"] = f"{row.reading.outcomes:,} outcomes so far; {FEW} are the least for a status."
        return said

    def _incident(self, row: RankedModel) -> Incident | None:
        """Return a model's most severe open incident, unless it is an improvement."""
        key = row.model.key
        one = self._history.incidents.open_of(key.stream, key.model, key.partition)
        return None if one is None or one.severity < 0 else one

    def _severity(self, row: RankedModel) -> float:
        one = self._incident(row)
        return 0.0 if one is None else one.severity


def levels(incident: Incident) -> dict[str, Any]:
    """Return the levels before and since an incident, with intervals, as shares right or mean losses."""
    said: dict[str, Any] = {"level": level_name(incident)}
    for name, one in (("before", incident.before), ("after", incident.after)):
        said[name] = level(one.get("level"), incident)
        ends = one.get("interval")
        said[f"{name}_interval"] = None if not ends else sorted(level(end, incident) or 0.0 for end in ends)
    return said


def difference(row: RankedModel) -> float | None:
    """Return the difference of a model's main measure from its reference; None without one."""
    reading = row.reading
    if reading is None:
        return None
    name = next((one for one in COMPARED if one in reading.measures), None)
    found = (one.difference for one in referred(reading.reference) if one.measure == name)
    return next(found, None)

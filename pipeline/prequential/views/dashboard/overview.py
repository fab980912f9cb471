"""Return one page of the overview of all models, the worst first."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

from prequential.engine.estimators.naming import is_baseline
from prequential.topics.outputs import Incident
from prequential.views.dashboard import courses
from prequential.views.state import ranking
from prequential.views.state.history import History
from prequential.views.state.incidents import AlarmGroup, began
from prequential.views.state.newest import ModelKey, ModelSilence, StreamPartition
from prequential.views.state.statuses import (
    Statuses,
    UrgentModel,
    Verdicts,
    difference,
    levels,
    missed,
    worse_than,
)
from prequential.views.wording import status
from prequential.views.wording.measures import main_measure

#: The largest number of rows on a page: more than a reader needs, and few enough to send every second.
MOST_ROWS = 200

#: The largest number of plots on a page: as many as a reader may scroll through.
MOST_PLOTS = 24

#: The largest numbers of columns with measures, and of lines in the lists above the table.
_MEASURES, _LISTED = 4, 8

#: The number of points of a small line next to a model that needs attention.
_SPARK = 30


class _AlarmsOfModel(NamedTuple):
    """The newest alarms of a model, which are about one change."""

    change: AlarmGroup
    key: ModelKey


class Overview:
    """Pages of models in the order of a choice; with `live`, models may be silent by the current time."""

    def __init__(self, history: History, live: bool = False) -> None:
        self._history, self._live = history, live
        #: The current time (epoch ms) by which models are silent; None for files.
        self._now: int | None = None
        self._ranking = ranking.Ranking(history, self._urgency, live)
        self._verdicts = Verdicts(history)
        self._rows: list[ranking.RankedModel] = []
        self._statuses = Statuses(history, self._verdicts, live)
        #: Models that need attention, with their status, and the number of models without baselines.
        self._urgent: list[UrgentModel] = []
        self._models = 0
        #: The choice and the stamp from which the rows were made.
        self._order_key: tuple[Any, ...] = ()

    def rows(self, choice: ranking.Choice, now: int, stamp: object = None) -> list[ranking.RankedModel]:
        """Return the chosen models in their order, which is reused if `stamp` is the same as before."""
        order_key = choice, stamp
        self._now = now if self._live else None
        if stamp is None or order_key != self._order_key:
            self._ranking.choice = choice
            self._rows = self._ranking.rows(now)
            self._order_key = order_key
            self._urgent = self._statuses.urgent(self._rows, now)
            self._models = sum(not is_baseline(row.model.key.model) for row in self._rows)
        return self._rows

    def page(
        self, choice: ranking.Choice, now: int, page: int = 0, size: int = 50, stamp: object = None,
        as_table: bool = True,
    ) -> dict[str, Any]:  # fmt: skip
        """Return page number `page` (from 0, at most the last) of the models in the choice's order, as JSON.

        `now` is in epoch ms. With the same `stamp` as before, the previous order is reused; with None, the
        order is made again. A table has `rows`, one for each model; otherwise the page contains `plots`, one
        for each stream, in the order of their first models.
        """
        history = self._history
        rows = self.rows(choice, now, stamp)
        streams = courses.by_stream(rows)
        size = max(1, min(size, MOST_ROWS if as_table else MOST_PLOTS))
        page = max(0, min(page, (len(rows if as_table else streams) - 1) // size))
        part = slice(page * size, (page + 1) * size)
        measures = ranking.measures_shown(history.measures, choice.by)[:_MEASURES]
        changes = self._changes()
        sequences = [row.sequence for row in rows if row.sequence is not None]
        all_sequences = [sequence for model in history.models.values() for sequence in model.sequences]
        return {
            "now": now,
            "heading": status.attention(len(self._urgent), self._models),
            "needs": self._needs(now), "needs_total": len(self._urgent), "total": len(rows),
            "total_streams": len(streams), "as_table": as_table, "models": len(history.models),
            "streams": len({key.stream for key in history.models}),
            "page": page, "size": size, "measures": measures,
            "choice": asdict(choice),
            "shown": sorted({f"{sequence.stage} · {sequence.estimator}" for sequence in sequences})[:_LISTED],
            "options": {
                "by": [*ranking.OTHER_WAYS, *ranking.measures_shown(history.measures, None)],
                "stages": sorted({sequence.stage for sequence in all_sequences}),
                "estimators": sorted({sequence.estimator for sequence in all_sequences}),
            },
            "rows": [self.row(row, measures, now) for row in rows[part]] if as_table else [],
            "plots": [] if as_table else self.plots(dict(list(streams.items())[part]), choice.by, now),
            "incidents": [incident_line(incident) for incident in history.incidents.all()[:_LISTED]],
            "incidents_open": history.incidents.open_count(),
            "changes": [{**_change(change, now), **key._asdict()} for change, key in changes[:_LISTED]],
            "changes_total": sum(not self._live or ranking.is_recent(change, now) for change, _ in changes),
        }  # fmt: skip

    def plots(
        self, streams: dict[StreamPartition, list[ranking.RankedModel]], by: str | None, now: int
    ) -> list[dict[str, Any]]:
        """Return a plot of each of these streams as JSON; `now` is in epoch ms."""
        return courses.stream_plots(
            self._history, streams, by, lambda row, measures: self.row(row, measures, now)
        )

    def row(self, row: ranking.RankedModel, measures: list[str], now: int) -> dict[str, Any]:
        """Return a model as a line of the overview, as JSON; `now` is in epoch ms."""
        history, key, reading = self._history, row.model.key, row.reading
        values = {} if reading is None else reading.measures
        incident = history.incidents.open_of(*key)
        change = row.change
        silent = history.silence(row.model, now if self._live else None)
        return {
            **key._asdict(),
            "split": key.stream in history.split,
            "baseline": is_baseline(key.model),
            "status": self._statuses.as_json(row, now),
            "difference": difference(row),
            "stage": row.sequence.stage if row.sequence else None,
            "estimator": row.sequence.estimator if row.sequence else None,
            "as_chosen": row.as_chosen,
            "n": reading.n if reading else None,
            "outcomes": reading.outcomes if reading else None,
            "heard": row.model.time,
            "untimed": row.model.untimed,
            "silent": None if silent is None else silent_line(silent),
            "version": reading.model_version if reading else None,
            "started_empty": bool(reading and reading.started_empty),
            "values": {name: values[name] for name in measures if name in values},
            "missed": [missed_bound._asdict() for missed_bound in missed(history, row)],
            "worse_than": worse_than(row),
            "better": self._verdicts.better_than(key),
            "incident": None if incident is None else incident_line(incident),
            "alarms": None if change is None else _change(change, now),
        }

    def _urgency(self, row: ranking.RankedModel) -> tuple[Any, ...]:
        """Return a sort key: open incidents by severity, missed objectives, silence, verdicts against it."""
        key = row.model.key
        incident = self._history.incidents.open_of(*key)
        severity = 0.0 if incident is None else incident.severity
        silent = self._history.silence(row.model, self._now) is not None
        trouble = bool(missed(self._history, row)), silent, self._verdicts.against(key)
        return incident is None, -severity, *(not problem for problem in trouble)

    def _needs(self, now: int) -> list[dict[str, Any]]:
        """Return the first models that need attention; a stream that is silent as a whole is one of them."""
        needs: dict[object, dict[str, Any]] = {}
        for row, kind in self._urgent:
            key, silent = row.model.key, self._history.silence(row.model, now if self._live else None)
            together = kind in ("silent", "unlabelled") and silent is not None and not silent.alone
            group: object = (key.stream, key.partition) if together else key
            if group in needs:
                needs[group]["models"] += 1
            elif len(needs) < _LISTED:
                needs[group] = {
                    "stream": key.stream, "model": key.model, "partition": key.partition, "models": 1,
                    "split": key.stream in self._history.split,
                    "status": self._statuses.as_json(row, now), "spark": self._spark(row),
                }  # fmt: skip
        return list(needs.values())

    def _spark(self, row: ranking.RankedModel) -> list[float | None]:
        """Return the newest values of a model's main measure, evenly spread over its course."""
        measures = {} if row.reading is None else row.reading.measures
        name = main_measure(measures)
        course = None if name is None else courses.course_of(self._history, row, name, _SPARK)
        return [] if course is None else [
            None if value is None else float(f"{value:.4g}") for value in course["values"][name]
        ]  # fmt: skip

    def _changes(self) -> list[_AlarmsOfModel]:
        """Return the alarms, grouped by change, the newest first; without models with an open incident."""
        changes = [
            _AlarmsOfModel(change, model.key)
            for model in self._history.models.values()
            if (change := model.changes.newest) is not None
            and self._history.incidents.open_of(*model.key) is None
        ]
        changes.sort(key=lambda alarms: (-alarms.change.time, alarms.key))
        return changes


def incident_line(incident: Incident) -> dict[str, Any]:
    """Return an incident's summary."""
    return {
        "id": incident.id,
        "stream": incident.stream,
        "model": incident.model,
        "partition": incident.partition,
        "stage": incident.stage,
        "status": incident.status,
        "severity": incident.severity,
        "began": began(incident),
        "outcome": incident.change_point["outcome"],
        "untimed": bool(incident.untimed),
        "segment": incident.segment,
        "causes": [status.cause_in_words(cause) for cause in incident.causes[:2]],
        "alarm_count": incident.alarm_count,
        "ended": status.span_of(incident, "outcome" if incident.untimed else "ts")[1],
        **levels(incident),
    }


def silent_line(silent: ModelSilence) -> dict[str, Any]:
    """Return since when a model has no new outcomes, and the reason."""
    return {"since": silent.since, "alone": silent.alone, "why": silent.why, "kind": silent.kind}


def _change(change: AlarmGroup, now: int) -> dict[str, Any]:
    return {
        "count": change.count,
        "began": change.began,
        "untimed": change.untimed,
        "time": change.time,
        "recent": ranking.is_recent(change, now),
        "outcome": change.outcome,
        "signals": list(change.signals),
        "stages": list(change.stages),
        "segments": list(change.segments),
        "whole": change.whole,
    }

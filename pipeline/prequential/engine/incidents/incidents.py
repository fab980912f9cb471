"""Incidents: lasting worsenings of a model's loss, from the cluster that shows one to its end.

Incidents are a function of the log. When a cluster is closed, the shard decides whether the level has
worsened lastingly (`engine.incidents.lasting`). Alarms of detectors join the incident of their
change; they open none.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from prequential.configuration.settings.durations import parse_budget
from prequential.configuration.settings.stages import FINAL
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_by_owner
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.compiled.kernel import Ints, grown
from prequential.engine.facts import AlarmRaised, Fact, IncidentChanged
from prequential.engine.incidents import following, history, incident, lasting
from prequential.engine.incidents.clusters import DAY
from prequential.engine.incidents.finding import Change, View, examine, levels_since, locate, now_of, view_of
from prequential.engine.incidents.incident import ModelStatus, Noted, OpenIncident, Raised
from prequential.engine.incidents.lasting import FORMER, UNUSUAL, USUAL, Decision, Means
from prequential.engine.input.plain import completed_ids
from prequential.engine.measures.losses import BINARY, column_of, identity_of
from prequential.engine.measures.per_class import NO_OWNER, Positives
from prequential.engine.tables.logs import EVENTS, OUTCOMES, Logs
from prequential.engine.tables.streams import AGE, BASELINE, BASELINE_AGE, CORRECTION, MODEL, SEGMENT
from prequential.topics.encoding import identity

#: Most examples of an incident that are remembered.
_REMEMBERED = 32

#: A message is due when the severity has moved by this and by this part of itself.
_MOVE, _MOVE_PART = 0.2, 0.25

#: Budget of a stream that is not watched.
_NO_BUDGET = "1 per 30d"


class Incidents:
    """The incidents of a shard's models: open incidents, and earlier measurements."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.history = history.new_history()
        self.open: dict[int, OpenIncident] = {}  # by owner
        #: By owner: number of alarms, wrong outcomes, and the newest alarms and warnings.
        self.alarms: dict[int, int] = {}
        self.examples: dict[int, list[tuple[int, str]]] = {}
        self.noted: dict[int, list[Noted]] = {}
        #: By owner: incidents so far, by the first cause that they opened with.
        self.opened: dict[int, dict[str, int]] = {}
        #: By owner: incidents that are over or lasting, and those of them that are or were lasting.
        self.graded: dict[int, tuple[int, int]] = {}

    def model_statuses(self, rows: Iterable[int]) -> dict[int, ModelStatus]:
        """Incidents of those of these entities (rows) that are watched, by row."""
        position = self.history.owners.position
        statuses = {}
        for row in rows:
            if row < len(position) and position[row] and self.history.owners.owner[row] == row:
                opened, state = dict(self.opened.get(row, {})), self.open.get(row)
                statuses[row] = ModelStatus("", 0.0, opened)
                if state is not None:
                    statuses[row] = ModelStatus(
                        state.cause, state.reported[0], opened, state.id, state.opened["ts"],
                        state.details["change_point"]["prediction_ts"], state.grade,
                    )  # fmt: skip
        return statuses

    # ---- rows

    def add(self, rows: Sequence[int]) -> None:
        """Watch entities that are evaluated now: models and corrections themselves, segments for a model."""
        catalog = self._catalog
        if rows and rows[-1] >= len(self.history.owners.position):
            self.history = history.with_entities(self.history, len(catalog.entities))
        by_config: dict[str, list[int]] = {}
        for row in rows:
            entity = catalog.entity(row)
            stream = catalog.streams[entity.stream]
            unwatched = not stream.evaluated or stream.config.incident_budget is None
            if not unwatched and entity.kind not in (BASELINE, BASELINE_AGE, AGE):
                by_config.setdefault(stream.config.digest, []).append(row)
        for watched in by_config.values():
            self._watch(catalog.streams[catalog.entity(watched[0]).stream], np.array(watched))

    def _watch(self, stream: Stream, rows: Ints) -> None:
        """Watch these entities of streams that are configured as this one."""
        owners, entities, config = self.history.owners, self._catalog.columns.entities, stream.config
        is_owner = np.isin(entities.kind[rows], (MODEL, CORRECTION))
        owners.position[rows] = 1 + stream.evaluated.index(watched_stage(stream.evaluated))
        owners.owner[rows] = np.where(is_owner, rows, entities.model[rows])
        owners.model[rows] = entities.model[rows]
        owners.measure[rows] = column = column_of(config, config.incident_loss)
        owners.loss_identity[rows] = identity_of(config)
        owners.binary[rows], owners.of_classes[rows] = column in BINARY, config.has_classes
        budget = parse_budget(config.incident_budget or _NO_BUDGET)
        owners.budget[rows] = budget.period / budget.alarms
        owners.fixed[rows], owners.horizon[rows] = config.cluster or 0, config.label_horizon

    def forget(self, gone: Sequence[Entity]) -> Iterator[Fact]:
        """Drop these entities, and close their open incidents."""
        for entity in gone:
            state = self.open.get(entity.row)
            if state is not None:
                yield from self._end(entity, state, incident.CLOSED)
        rows = [entity.row for entity in gone]
        tables: list[dict[int, Any]] = [
            self.open, self.alarms, self.examples, self.noted, self.opened, self.graded
        ]  # fmt: skip
        for row in rows:
            for by_owner in tables:
                by_owner.pop(row, None)
        self.history = history.without(self.history, rows)

    def copy_stage(self, row: int, source: str, target: str) -> None:
        """Copy the signals of an entity's alarms in one stage to another, which has alarms from here on.

        The entity's history is that of one stage, whichever stage has alarms.
        """
        entity = self._entity(row)
        owner = self.owner_of(entity)
        if not self._catalog.streams[entity.stream].reports(target):
            return
        state = self.open.get(owner)
        if state is not None:
            signals = incident.with_stage(state.signals, entity.segment, source, target)
            del signals[incident.MOST_SIGNALS :]
            if state.reported[1] == len(state.signals):  # there is nothing new to report
                state.reported[1] = len(signals)
            state.signals = signals
        noted = []
        for former in self.noted.get(owner, ()):
            signals = incident.with_stage([former.signal], entity.segment, source, target)
            noted += [*(Noted(former.outcome, "", signal) for signal in signals[:-1]), former]
        if noted:
            self.noted[owner] = noted[-incident.MOST_SIGNALS :]

    def stage_of(self, owner: int) -> str:
        """The name of the stage of a model that is watched."""
        return watched_stage(self._stream(owner).evaluated)

    def _model(self, row: int) -> int:
        return int(self._catalog.columns.entities.model[row])

    def owner_of(self, entity: Entity) -> int:
        """Whose incidents its alarms belong to: of segments and stages at an age their model's."""
        return self._model(entity.row) if entity.kind in (SEGMENT, AGE) else entity.row

    # ---- the log

    def consume(self, logs: Logs, records: Sequence[Any], raised: list[Raised]) -> Iterator[Fact]:
        """Take over the join's logs, and these alarms and warnings of detectors, in order of records.

        `records` are the micro-batch's, for ids of examples.
        """
        count = int(logs.used[OUTCOMES])
        positives = positives_by_owner(self._catalog, NO_OWNER)
        past = self.history
        self.history = past._replace(
            due=grown(past.due, len(self._catalog.entities)), examples=grown(past.examples, count)
        )
        row = event = index = 0
        while index < len(raised):
            record, first = raised[index].record, index
            while index < len(raised) and raised[index].record == record:
                index += 1
            stop = int(np.searchsorted(logs.outcomes.record[:count], record, side="right"))
            row, event = yield from self._follow(logs, positives, row, stop, event, records)
            yield from self.raise_alarms(raised[first:index])
        _, event = yield from self._follow(logs, positives, row, count, event, records)
        self.follow_events(logs, event)

    def follow_events(self, logs: Logs, event: int = 0) -> None:
        """Take over the events from row `event` on: what became of predictions after all outcomes."""
        why = following.NEEDS_ROOM
        while why == following.NEEDS_ROOM:
            event, why = following.follow_events(
                self.history, logs.events, event, int(logs.used[EVENTS]), self._catalog.untimed
            )
            if why == following.NEEDS_ROOM:
                self.history = history.with_room(self.history)

    def _follow(
        self, logs: Logs, positives: Positives, row: int, stop: int, event: int, records: Sequence[Any]
    ) -> Generator[Fact, None, tuple[int, int]]:
        """Take over outcomes up to `stop`; closed clusters open, continue or end incidents on the way."""
        entities = self._catalog.registry.entities
        why = following.NEEDS_ROOM
        while why != following.FOLLOWED:
            unread = following.UnreadRows(row, stop, event, int(logs.used[EVENTS]))
            row, event, why = following.follow(
                self.history, logs.outcomes, logs.events, unread, entities, positives, self._catalog.untimed
            )
            self._note_examples(logs, records)
            if why == following.NEEDS_ROOM:
                self.history = history.with_room(self.history)
            elif why == following.LOOK_DUE:
                notes = self.history.notes
                due = self.history.due[: notes[history.DUE_COUNT]].tolist()
                notes[history.DUE_COUNT] = 0
                for owner in due:
                    yield from self._look(owner)
        return row, event

    def _note_examples(self, logs: Logs, records: Sequence[Any]) -> None:
        past, log = self.history, logs.outcomes
        count = int(past.notes[history.EXAMPLE_COUNT])
        past.notes[history.EXAMPLE_COUNT] = 0
        if not count:
            return
        rows = past.examples[:count]
        owners, first, counts = np.unique(log.entity[rows], return_index=True, return_counts=True)
        ordered = rows[np.argsort(log.entity[rows], kind="stable")].tolist()
        ends, sizes, owner_rows = np.cumsum(counts).tolist(), counts.tolist(), owners.tolist()
        # Most of these are dropped again, so only those that stay need their ids.
        wanted: list[tuple[list[Any], int]] = []
        for group in np.argsort(first).tolist():
            kept: list[Any] = self.examples.setdefault(owner_rows[group], [])
            _remember(kept, ordered[ends[group] - sizes[group] : ends[group]])
            start = len(kept)
            while start and type(kept[start - 1]) is int:  # the new ones come last
                start -= 1
            wanted += [(kept, index) for index in range(start, len(kept))]
        chosen = np.array([kept[index] for kept, index in wanted], dtype=np.int64)
        names = completed_ids(logs, records, log.record[chosen].astype(np.int64))
        for (kept, index), number, name in zip(wanted, log.number[chosen].tolist(), names):
            kept[index] = number, name

    # ---- alarms

    def raise_alarms(self, raised: list[Raised]) -> Iterator[Fact]:
        """Note alarms of one record, or of one time, of any models, for the incidents that they join."""
        yield from (
            AlarmRaised(raised_alarm.alarm) for raised_alarm in raised if raised_alarm.level == incident.ALARM
        )
        for raised_alarm in raised:
            owner = self.owner_of(self._catalog.entity(raised_alarm.entity))
            if not self.history.owners.position[owner]:
                continue
            is_alarm = raised_alarm.level == incident.ALARM
            self.alarms[owner] = self.alarms.get(owner, 0) + is_alarm
            outcome = now_of(self.history, owner).outcome
            noted = Noted(
                outcome, raised_alarm.alarm.id if is_alarm else "", incident.signal_of(raised_alarm)
            )
            state = self.open.get(owner)
            if state is None:
                kept = self.noted.setdefault(owner, [])
                kept.append(noted)
                del kept[: -incident.MOST_SIGNALS]
                continue
            state.join(noted)
            if len(state.signals) != state.reported[1]:
                yield _report(self._entity(owner), state)

    # ---- decisions

    def _look(self, owner: int) -> Iterator[Fact]:
        """A cluster was closed: an incident opens, goes on, recovers or ends."""
        stop, decision = following.decision(self.history, owner, self._catalog.untimed)
        means = self.history.scratch.means
        state = self.open.get(owner)
        if state is not None:
            yield from self._continue(owner, state, means, stop, decision)
        elif decision.is_lasting:
            excess = decision.excess
            start = lasting.change_place(means, excess.start, stop, excess.mean)
            yield from self._begin(owner, means, start, stop, float(excess.mean), float(excess.deviation))

    def _begin(
        self, owner: int, means: Means, start: int, stop: int, before: float, deviation: float
    ) -> Iterator[Fact]:
        """Open an incident whose new level began about with the closed cluster at place `start`.

        It opens only if the level since the change is worse than the one before.
        """
        view = self.view(owner)
        ts = view.clusters.ts.tolist()
        change = locate(view, ts[start], ts[max(start, stop - lasting.LASTING)], ts[stop - 1])
        start = ts.index(change.begin)
        after = _mean(means, start, stop)
        if not after > before:
            return
        finding = examine(view, change, deviation)
        if not finding.after.level > finding.before.level or not finding.before.n:
            return
        now = now_of(self.history, owner)
        state = OpenIncident(
            self.id_of(owner, now.outcome), now._asdict(), self.alarms.get(owner, 0), before, after,
            deviation, view.length, ts[start], ts[stop - 1], details=finding.details,
        )  # fmt: skip
        for noted in self.noted.pop(owner, []):
            if noted.outcome >= change.outcome:
                state.join(noted)
        state.former_alarms -= state.alarm_count
        state.observe(levels_since(view, state.begin, stop))
        self.open[owner] = state
        self.history.owners.is_open[owner] = 1
        history.mark_clusters(self.history.outcomes, owner, range(start, stop), UNUSUAL)
        counts = self.opened.setdefault(owner, {})
        counts[state.cause] = counts.get(state.cause, 0) + 1
        yield _report(self._entity(owner), state)

    def _continue(
        self, owner: int, state: OpenIncident, means: Means, stop: int, decision: Decision
    ) -> Iterator[Fact]:
        """Follow an open incident: the level comes back, worsens further, has become usual, or goes on."""
        pool, view = self.history.outcomes, self.view(owner)
        clusters = view.clusters
        # Means of longer clusters vary less.
        state.deviation *= math.sqrt(state.length / view.length)
        state.length = view.length
        ts, marks = clusters.ts.tolist(), clusters.mark.tolist()
        first = sum(begin <= state.known for begin in ts[:stop])
        since = [k for k in range(stop) if ts[k] >= state.begin]
        history.mark_clusters(pool, owner, [k for k in since if k >= first], UNUSUAL)
        closed = [k for k in range(first, stop) if means.n[k] >= lasting.LEAST_OUTCOMES]
        n, loss = ([float(column[k]) for k in closed] for column in (means.n, means.loss))
        # The level by which it opened is uncertain, and the cluster in which it changed has both levels.
        after, binary = state.after, bool(self.history.owners.binary[owner])
        if len(since) > 1:
            after = _mean(means, since[1], min(stop, first + lasting.NEWEST)) or after
        spread = lasting.deviation_at(after, state.before, state.deviation, binary)
        state.observe(levels_since(view, state.begin, stop))
        went = lasting.course(
            means, first, stop, state.before, state.deviation, after, spread, float(decision.h)
        )
        # Other hours of the day have other levels: once hours are known, a change lasts for a day.
        end = ts[stop - 1] + view.length if stop else 0
        latest = end - DAY if not self._catalog.untimed and end - ts[0] >= following.YOUNG else end
        if went.back >= lasting.RECOVERY and ts[went.back_from] <= latest:
            index = went.back_from
            state.recovered = {"outcome": int(clusters.number[index]), "ts": int(clusters.t1[index])}
            self._find(owner, state, ts[index] - 1)
            history.mark_clusters(
                pool, owner, [k for k in range(len(ts)) if marks[k] == UNUSUAL or k in since], USUAL
            )
            yield from self._end(self._entity(owner), state, incident.RECOVERED)
            return
        start = went.further_from
        if (
            went.further >= decision.h
            and ts[start] <= latest
            and lasting.is_evident(means, since[0], start, stop, FORMER, binary, float(decision.days))
        ):
            self._find(owner, state, ts[start] - 1)
            yield from self._end(self._entity(owner), state, incident.CLOSED)
            # The level before is that of the incident that ends.
            history.mark_clusters(pool, owner, [k for k in range(start) if ts[k] < state.begin], FORMER)
            history.mark_clusters(pool, owner, [k for k in since if k < start], USUAL)
            yield from self._begin(owner, means, start, stop, after, spread)
            return
        if len(since) >= max(lasting.MEMORY, len(ts) - len(since)):
            history.mark_clusters(pool, owner, [k for k in range(len(ts)) if ts[k] < state.begin], FORMER)
            history.mark_clusters(pool, owner, since, USUAL)
            yield from self._end(self._entity(owner), state, incident.CLOSED)
            return
        cause, severity = state.cause, state.reported[0]
        self._find(owner, state, ts[stop - 1])
        moved = abs(state.details["severity"] - severity)
        graded = state.grade == incident.POSSIBLE and state.has_lasted(n, loss)
        if graded:
            state.grade, state.confirmed = incident.LASTING, now_of(self.history, owner)._asdict()
            self._count(owner, 1)
        has_moved = moved > _MOVE + _MOVE_PART * abs(severity) or state.has_moved(spread)
        if graded or state.cause != cause or has_moved:
            yield _report(self._entity(owner), state)

    def _find(self, owner: int, state: OpenIncident, end: int) -> None:
        """Examine the change again, with the clusters up to the one at `end` (ms); what it rests on stays."""
        point = state.details["change_point"]
        if end < state.begin:
            return
        change = Change(state.begin, end, point["outcome"], point["ts"], point["prediction_ts"])
        finding = examine(self.view(owner), change, state.deviation)
        if finding.before.n and finding.after.level > finding.before.level:
            state.details = finding.details

    def _count(self, owner: int, lasted: int) -> None:
        """Count an incident whose grade is known for good, and whether it has lasted."""
        graded, lasting_ones = self.graded.get(owner, (0, 0))
        self.graded[owner] = graded + 1, lasting_ones + lasted

    def _end(self, entity: Entity, state: OpenIncident, status: str) -> Iterator[Fact]:
        """End an incident."""
        if state.grade == incident.POSSIBLE:
            self._count(entity.row, 0)
        state.status, state.now = status, None
        yield _report(entity, state)
        del self.open[entity.row]
        self.history.owners.is_open[entity.row] = 0

    def view(self, owner: int) -> View:
        """What is known of a model (its row), for attribution."""
        return view_of(self._catalog, self.history, owner)

    def id_of(self, owner: int, opened: int) -> str:
        """The id of a model's incident that opened at this outcome."""
        entity, stream = self._entity(owner), self._stream(owner)
        key = stream.name, self._catalog.partition, entity.model
        return identity(*key, "incident", opened, *self._catalog.loss)

    def _entity(self, owner: int) -> Entity:
        return self._catalog.entity(owner)

    def _stream(self, owner: int) -> Stream:
        return self._catalog.streams[self._entity(owner).stream]


def watched_stage(stages: tuple[str, ...]) -> str:
    """The stage of a model that is watched: `final`, or else the first."""
    return FINAL if FINAL in stages else stages[0]


def _report(entity: Entity, state: OpenIncident) -> IncidentChanged:
    """Mark a model's incident as reported in its present state."""
    state.revision += 1
    present = None if state.now is None else state.now["level"]
    state.reported = [state.details["severity"], len(state.signals), present]
    return IncidentChanged(entity)


def _mean(means: Means, start: int, stop: int) -> float:
    """The mean loss of the outcomes of these clusters."""
    count = sum(means.n[start:stop].tolist())
    return float(sum(means.loss[start:stop].tolist()) / count) if count else 0.0


def _remember(kept: list[Any], new: Sequence[Any]) -> None:
    """Append examples to a list; each time it is too long, every other one of its older half is dropped.

    >>> kept = list(range(31))
    >>> _remember(kept, [31, 32])
    >>> kept[:8], kept[8:11], len(kept)
    ([1, 3, 5, 7, 9, 11, 13, 15], [16, 17, 18], 25)
    """
    examples = [*kept, *new]
    kept[:] = [examples[place] for place in _places_kept(len(kept), len(new))]


#: Numbers of examples of which the places are remembered: a busy stream often has as many new ones as before.
_NUMBERS_REMEMBERED = 1_024


@lru_cache(_NUMBERS_REMEMBERED)
def _places_kept(kept: int, new: int) -> tuple[int, ...]:
    """The places of the examples that stay, when new ones are appended to as many as are kept."""
    places = list(range(kept))
    while new:
        added = min(new, _REMEMBERED + 1 - len(places))
        places += range(kept, kept + added)
        kept, new = kept + added, new - added
        if len(places) > _REMEMBERED:
            del places[: len(places) // 2 : 2]
    return tuple(places)

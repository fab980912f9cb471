"""Incidents: alarms of one model of one change, from the first one until it is over.

A function of the log: alarms are taken at the end of their record, and what is open is looked at again after
so many outcomes, and at the label time at which it may end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from prequential.core.catalog.catalog import Catalog
from prequential.core.catalog.streams import Entity, Stream
from prequential.core.compiled.kernel import grown
from prequential.core.detectors.signals import WRONG
from prequential.core.detectors.watch import LOSSES
from prequential.core.incidents import change_point, history
from prequential.core.incidents.analysis import Fixed, View, details, examine, has_relapsed
from prequential.core.incidents.change_point import SURE
from prequential.core.incidents.following import FOLLOWED, LOOK_DUE, NEEDS_ROOM, follow, follow_events
from prequential.core.incidents.history import NEVER
from prequential.core.incidents.incident import (
    ALARM,
    CLOSED,
    MOST_SIGNALS,
    OPEN,
    RECOVERED,
    PairStatus,
    Raised,
    State,
    is_enough,
    is_same,
    signal_of,
    with_stage,
)
from prequential.core.incidents.levels import Level, phase, widening
from prequential.core.incidents.steps import Step
from prequential.core.incidents.views import now_of, view_of
from prequential.core.input.origins import completed_ids
from prequential.core.tables.logs import EVENTS, OUTCOMES, Logs
from prequential.core.tables.streams import AGE, BASELINE, BASELINE_AGE, CORRECTION, MODEL, SEGMENT
from prequential.settings.stages import FINAL
from prequential.topics.outputs import Alarm, Incident, identity

#: Outcomes after which an incident is looked at again: a quarter of those since the change, but at least and
#: at most so many. Recovery is noticed soon enough, and looking costs next to nothing for each outcome.
_SOON, _PART, _LATE = 64, 4, 1_000

#: Outcomes after the first alarm up to which the change point may still move: a second change might lie
#: behind them.
_SETTLED = 300

#: Outcomes behind the last alarm up to which evidence of a change may come: one that is half as large as what
#: is clear at once has it by then.
_WAITING = 5_000

#: Outcomes after a change from which on what was found of its causes stays: blocks tell up to there to some
#: 125 outcomes when something moved, and what moves later has no part in it.
_EXPLAINED = 1_000

#: Most examples in a message, and most of these that are remembered.
_EXAMPLES, _REMEMBERED = 5, 32

#: A message is due when the severity has moved by this and by this part of itself.
_MOVE, _MOVE_PART = 0.2, 0.25


#: Place in `State.said` of the number of signals.
_SIGNALS = 3

#: What no message has said.
_NOTHING_SAID: tuple[Any, ...] = ("", "", 0.0, 0, [])


class Incidents:
    """The incidents of a shard's models: what is open, and what was measured before."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.history = history.new_history()
        self.open: dict[int, State] = {}  # by owner
        #: By owner: what alarms have told of, and there is too little evidence of.
        self.waiting: dict[int, State] = {}
        #: By owner: number of the first outcome of the present level, alarms so far, and wrong outcomes.
        self.since: dict[int, int] = {}
        self.alarms: dict[int, int] = {}
        self.examples: dict[int, list[tuple[int, str]]] = {}
        #: By owner: warnings that no incident has yet, by signal, and at which outcome.
        self.warned: dict[int, list[dict[str, Any]]] = {}
        #: By owner: incidents so far, by the first cause that they opened with.
        self.opened: dict[int, dict[str, int]] = {}

    def pair_statuses(self, rows: Iterable[int]) -> dict[int, PairStatus]:
        """How those of these entities (rows) stand whose incidents are looked for, by row."""
        position = self.history.owners.position
        statuses = {}
        for row in rows:
            if row < len(position) and position[row] and self.history.owners.owner[row] == row:
                state, opened = self.open.get(row), dict(self.opened.get(row, {}))
                is_open = state is not None and state.status == OPEN
                _, cause, severity, *_ = state.said if is_open and state is not None else _NOTHING_SAID
                if state is None or not is_open:
                    statuses[row] = PairStatus(cause, severity, opened)
                    continue
                times = state.opened["ts"], state.change_point["ts"]
                statuses[row] = PairStatus(cause, severity, opened, state.id, *times)
        return statuses

    # ---- rows

    def add(self, row: int) -> None:
        """Watch an entity that is evaluated now: a model or a correction itself, a segment for its model."""
        about = self._catalog.entity(row)
        if row >= len(self.history.owners.position):
            self.history = history.with_entities(self.history, len(self._catalog.entities))
        owners, stream = self.history.owners, self._catalog.streams[about.stream]
        unwatched = not stream.evaluated or not stream.config.raises_alarms
        if unwatched or about.kind in (BASELINE, BASELINE_AGE, AGE):
            return
        is_owner = about.kind in (MODEL, CORRECTION)
        owners.position[row] = 1 + stream.evaluated.index(watched_stage(stream.evaluated))
        owners.owner[row] = row if is_owner else self._model(row)
        owners.model[row] = self._model(row)
        numbers = stream.config.task == "regression"
        owners.kind[row] = LOSSES[stream.config.loss] if numbers else WRONG
        if not owners.check_number[row]:
            owners.check_number[row] = owners.check_time[row] = NEVER

    def forget(self, gone: Sequence[Entity]) -> list[Incident]:
        """Drop these entities; returns the messages that close what is open of them."""
        messages = []
        for about in gone:
            state = self.open.get(about.row)
            if state is not None:
                state.status = CLOSED
                messages.append(self._say(about, state))
        rows = [about.row for about in gone]
        known: list[dict[int, Any]] = [
            self.open, self.waiting, self.since, self.alarms, self.examples, self.warned, self.opened
        ]  # fmt: skip
        for row in rows:
            for by_owner in known:
                by_owner.pop(row, None)
        self.history = history.without(self.history, rows)
        return messages

    def copy_stage(self, row: int, source: str, target: str) -> None:
        """What an entity's alarms in a stage have told is what those in another one have, from here on.

        Its history is that of one stage, whichever has alarms.
        """
        about = self._entity(row)
        owner = self.owner_of(about)
        if not self._catalog.streams[about.stream].reports(target):
            return
        for state in filter(None, (self.open.get(owner), self.waiting.get(owner))):
            signals = with_stage(state.signals, about.segment, source, target)[:MOST_SIGNALS]
            if state.said and state.said[_SIGNALS] == len(state.signals):  # nothing new is to be said
                state.said[_SIGNALS] = len(signals)
            state.signals = signals
        if owner in self.warned:
            warned = with_stage(self.warned[owner], about.segment, source, target)
            self.warned[owner] = warned[-MOST_SIGNALS:]

    def stage_of(self, owner: int) -> str:
        """The stage of a model that is watched."""
        return watched_stage(self._stream(owner).evaluated)

    def _model(self, row: int) -> int:
        return int(self._catalog.columns.entities.model[row])

    def owner_of(self, about: Entity) -> int:
        """Whose incidents its alarms belong to: of segments and stages at an age their model's."""
        return self._model(about.row) if about.kind in (SEGMENT, AGE) else about.row

    # ---- the log

    def consume(self, logs: Logs, records: Sequence[Any], raised: list[Raised]) -> list[Alarm | Incident]:
        """Take over all that the logs have, and these alarms, which are in order of records.

        Parameters
        ----------
        logs
            What the join has written.
        records
            The micro-batch's, for ids of examples.
        raised
            Alarms and warnings of detectors.

        Returns
        -------
        list of Alarm or Incident
            Messages in the order of records: the alarms, and those about incidents among them.
        """
        count = int(logs.used[OUTCOMES])
        messages: list[Alarm | Incident] = []
        self._ensure(count)
        row = event = at = 0
        while at < len(raised):
            record, first = raised[at].record, at
            while at < len(raised) and raised[at].record == record:
                at += 1
            stop = int(np.searchsorted(logs.outcomes.record[:count], record, side="right"))
            row, event = self._follow(logs, row, stop, event, records, messages)
            messages += (one.alarm for one in raised[first:at] if one.level == ALARM)
            messages += self.raise_alarms(raised[first:at])
        _, event = self._follow(logs, row, count, event, records, messages)
        self.follow_events(logs, event)
        return messages

    def follow_events(self, logs: Logs, event: int = 0) -> None:
        """Take over the events from row `event` on: what became of predictions after all outcomes."""
        why = NEEDS_ROOM
        while why == NEEDS_ROOM:
            event, why = follow_events(self.history, logs.events, event, int(logs.used[EVENTS]))
            if why == NEEDS_ROOM:
                self.history = history.with_room(self.history)

    def _follow(
        self, logs: Logs, row: int, stop: int, event: int, records: Sequence[Any],
        messages: list[Alarm | Incident],
    ) -> tuple[int, int]:
        """Take over outcomes up to `stop`; incidents that are due on the way are looked at."""
        entities = self._catalog.registry.entities
        why = NEEDS_ROOM
        while why != FOLLOWED:
            row, event, why = follow(
                self.history, logs.outcomes, row, stop, logs.events, event, int(logs.used[EVENTS]), entities
            )
            self._note_examples(logs, records)
            if why == NEEDS_ROOM:
                self.history = history.with_room(self.history)
            elif why == LOOK_DUE:
                notes = self.history.notes
                due = self.history.due[: notes[history.DUE_COUNT]].tolist()
                notes[history.DUE_COUNT] = 0
                for owner in due:
                    messages += self._look(owner)
        return row, event

    def _ensure(self, rows: int) -> None:
        past = self.history
        self.history = past._replace(
            due=grown(past.due, len(self._catalog.entities)), examples=grown(past.examples, rows)
        )

    def _note_examples(self, logs: Logs, records: Sequence[Any]) -> None:
        past, log = self.history, logs.outcomes
        count = int(past.notes[history.EXAMPLE_COUNT])
        past.notes[history.EXAMPLE_COUNT] = 0
        if not count:
            return
        rows = past.examples[:count]
        names = completed_ids(logs, records, log.record[rows].astype(np.int64))
        for owner, number, name in zip(log.entity[rows].tolist(), log.number[rows].tolist(), names):
            kept = self.examples.setdefault(owner, [])
            kept.append((number, name))
            if len(kept) > _REMEMBERED:  # the older they are, the fewer
                del kept[: len(kept) // 2 : 2]

    # ---- alarms

    def raise_alarms(self, raised: list[Raised]) -> list[Incident]:
        """Take over alarms of one record, or of one time, of whichever models; returns what incidents say."""
        by_owner: dict[int, list[Raised]] = {}
        for one in raised:
            about = self._catalog.entity(one.entity)
            by_owner.setdefault(self.owner_of(about), []).append(one)
        messages = []
        for owner, alarms in by_owner.items():
            if self.history.owners.position[owner]:
                messages += self._alarmed(owner, alarms)
        return messages

    def _alarmed(self, owner: int, raised: list[Raised]) -> list[Incident]:
        """Alarms and warnings of one model at one record."""
        messages: list[Incident] = []
        config = self._stream(owner).config.incidents
        opening = [one for one in raised if one.level == ALARM or config.warnings]
        state = self.open.get(owner)
        if state is not None and opening and self._is_another(owner, state):
            messages.append(self._close(owner, state))
            state = None
        if state is None:
            if not opening:
                for one in raised:
                    self._note_warning(owner, one)
                return messages
            state = self.waiting.pop(owner, None) or self._begin(owner)
        for one in raised:
            state.join(one)
        alarms = sum(one.level == ALARM for one in raised)
        self.alarms[owner] = self.alarms.get(owner, 0) + alarms
        if opening:
            state.last = now_of(self.history, owner)._asdict()
        if state.revision:
            self._schedule(owner, state)
        else:
            messages += self._open(owner, state, any(is_enough(one) for one in opening))
        return messages

    def _open(self, owner: int, state: State, enough: bool = False) -> list[Incident]:
        """Open an incident if there is evidence of a change, or without; else look for it later."""
        now = now_of(self.history, owner)
        if not enough and not self._is_sure(owner, state):
            if now.outcome - state.last["outcome"] < _WAITING:
                self.waiting[owner] = state
                self._look_later(owner, state.last["outcome"])
            return []
        state.id, state.opened = self.id_of(owner, now.outcome), now._asdict()
        self.open[owner] = state
        self._find(owner, state)
        state.recovered = None  # it has just opened
        self._schedule(owner, state)
        return [self._say(self._entity(owner), state)]

    def _is_sure(self, owner: int, state: State) -> bool:
        """Whether there is evidence that the level has changed, of the model or of a segment that alarmed."""
        view = self.view(owner)
        first = int(np.searchsorted(view.blocks.number, state.first))
        change = change_point.find(view.blocks, view.binary, view.now, first, state.last["outcome"])
        if change is not None and change.evidence > SURE:
            return True
        segments = [one["segment"] for one in state.signals if one["segment"]]
        if not segments:
            return False
        finding = examine(view, state.first, state.last["outcome"], None, segments)
        # How a segment's outcomes depend on each other isn't known: not more than the model's do.
        whole = phase(view.blocks, first, len(view.blocks.n))
        return finding.segment is not None and finding.change.statistic / widening(whole, view.binary) > SURE

    def _begin(self, owner: int) -> State:
        now = now_of(self.history, owner)
        time = self._time(owner, now._asdict())
        state = State(
            self.id_of(owner, now.outcome), now._asdict(), self.since.get(owner, 1), self.alarms.get(owner, 0)
        )
        quiet = self._stream(owner).config.incidents
        for signal in self.warned.pop(owner, []):
            if time - signal.pop("ts") < quiet.quiet:
                state.signals.append(signal)
        return state

    def _note_warning(self, owner: int, one: Raised) -> None:
        kept = self.warned.setdefault(owner, [])
        at = {"outcome": now_of(self.history, owner).outcome, "ts": one.alarm.ts}
        signal = signal_of(one) | {"ts": self._time(owner, at)}
        kept[:] = [*(other for other in kept if not is_same(other, signal)), signal][-MOST_SIGNALS:]

    def _is_another(self, owner: int, state: State) -> bool:
        """Whether an alarm now is of another change: after a quiet time, and clear behind the last alarm."""
        if not self._is_quiet(owner, state.newest):
            return False
        view = self.view(owner)
        first = int(np.searchsorted(view.blocks.number, state.change_point["outcome"]))
        change = change_point.find(view.blocks, view.binary, view.now, first)
        return change is not None and change.evidence > SURE and change.outcome > state.last["outcome"]

    def _is_quiet(self, owner: int, last: dict[str, int]) -> bool:
        config, now = self._stream(owner).config.incidents, now_of(self.history, owner)
        return (
            self._since(owner, last) >= config.quiet
            and now.outcome - last["outcome"] >= config.quiet_outcomes
        )

    def _since(self, owner: int, place: dict[str, int]) -> int:
        """Time from a place (outcome, ts) to now, ms."""
        return self._time(owner, now_of(self.history, owner)._asdict()) - self._time(owner, place)

    def _time(self, owner: int, place: dict[str, int]) -> int:
        """The time of a place (outcome, ts), ms; without times so many outcomes take `quiet` as it says."""
        if not self._catalog.untimed:
            return place["ts"]
        config = self._stream(owner).config.incidents
        return place["outcome"] * config.quiet // config.quiet_outcomes

    # ---- looked at

    def _look(self, owner: int) -> list[Incident]:
        """An incident's time has come: what has changed of it is said."""
        state = self.open.get(owner)
        if state is None:
            waits = self.waiting.pop(owner, None)
            return [] if waits is None else self._open(owner, waits)
        self._find(owner, state)
        accept = self._stream(owner).config.incidents.accept
        state.status = RECOVERED if state.recovered and state.clear else OPEN
        quiet = self._is_quiet(owner, state.newest)
        if quiet and (state.recovered or self._since(owner, state.newest) >= accept):
            return [self._close(owner, state)]
        self._schedule(owner, state)
        status, cause, severity, signals, several = state.said
        moved = abs(state.details["severity"] - severity)
        if (
            (status, cause) != (state.status, state.cause)
            or (state.clear and moved > _MOVE + _MOVE_PART * abs(severity))
            or (signals, several) != (len(state.signals), state.several)
        ):
            return [self._say(self._entity(owner), state)]
        return []

    def _close(self, owner: int, state: State) -> Incident:
        state.status = CLOSED
        message = self._say(self._entity(owner), state)
        del self.open[owner]
        owners = self.history.owners
        owners.check_number[owner] = owners.check_time[owner] = NEVER
        if state.clear:
            self.since[owner] = (state.recovered or state.change_point)["outcome"]
        return message

    def _schedule(self, owner: int, state: State) -> None:
        """When it is looked at again."""
        owners, config = self.history.owners, self._stream(owner).config.incidents
        self._look_later(owner, state.change_point["outcome"])
        last, length = state.newest, config.quiet if state.recovered else config.accept
        if self._catalog.untimed:
            end = last["outcome"] + -(-length * config.quiet_outcomes // config.quiet)
            if owners.outcomes[owner] < end < owners.check_number[owner]:
                owners.check_number[owner] = end
            return
        end = last["ts"] + length
        owners.check_time[owner] = end if end > owners.newest[owner] else NEVER

    def _look_later(self, owner: int, since: int) -> None:
        """It is looked at again when a quarter more outcomes have come since this one."""
        owners = self.history.owners
        now = int(owners.outcomes[owner])
        owners.check_number[owner] = now + min(_LATE, max(_SOON, (now - since) // _PART))

    def view(self, owner: int) -> View:
        """What is known of a model (its row), for attribution."""
        return view_of(self._catalog, self.history, owner)

    def _find(self, owner: int, state: State) -> None:
        """Note what is known of an incident's change by now; what has recovered stays as it was then."""
        view = self.view(owner)
        known = None
        if state.clear:
            former = Level.from_message(state.details["before"])
            point = state.change_point
            explained = [Step(*one) for one in state.steps if one[0] + _EXPLAINED < view.now.outcome]
            known = Fixed(
                state.segment, point["outcome"], point["ts"], point["prediction_ts"], state.statistic, former,
                explained,
            )  # fmt: skip
            if state.recovered and not has_relapsed(
                view, state.segment, state.recovered["outcome"], former.level, state.details["after"]["level"]
            ):
                return
        elif state.details and view.blocks.number[0] > state.last["outcome"]:
            # Of what it told of no outcome is left to find a change in: what was found stays.
            state.recovered = {name: state.change_point[name] for name in ("outcome", "ts")}
            return
        settled = state.recovered is not None or view.now.outcome > state.opened["outcome"] + _SETTLED
        segments = [one["segment"] for one in state.signals if one["segment"]]
        finding = examine(view, state.first, state.last["outcome"], known if settled else None, segments)
        state.recovered = finding.recovered
        if not finding.forgotten:
            state.statistic, state.segment = finding.change.statistic, finding.segment
            state.details, state.steps = details(finding), [list(one) for one in finding.steps]

    def _say(self, about: Entity, state: State) -> Incident:
        """The next message about an incident."""
        owner, stream = about.row, self._catalog.streams[about.stream]
        state.revision += 1
        if state.revision == 1:
            counts = self.opened.setdefault(owner, {})
            counts[state.cause] = counts.get(state.cause, 0) + 1
        state.said = [
            state.status, state.cause, state.details["severity"], len(state.signals), state.several
        ]  # fmt: skip
        place = stream.name, self._catalog.partition, about.model
        now, point = now_of(self.history, owner), state.change_point["outcome"]
        kept = self.examples.get(owner, [])
        message = Incident(
            state.id, *place, state.revision, state.status, stage=watched_stage(stream.evaluated),
            opened=dict(state.opened), alarms=list(state.alarms), alarm_count=state.alarm_count,
            signals=[dict(one) for one in state.signals],
            examples=[name for number, name in kept if number >= point][:_EXAMPLES],
            former_alarms={"alarms": state.former_alarms, "outcomes": state.opened["outcome"]},
            outcome=now.outcome, ts=now.ts, config=stream.config.digest, **state.details,
        )  # fmt: skip
        if state.recovered is not None and state.clear and state.status != OPEN:
            message.recovered = state.recovered
        if self._catalog.untimed:
            message.untimed = True
        if same := self._catalog.same_as(owner, message.stage, stream):
            message.same = same
        return message

    def id_of(self, owner: int, opened: int) -> str:
        """The id of a model's incident that opened at this outcome."""
        about, stream = self._entity(owner), self._stream(owner)
        place = stream.name, self._catalog.partition, about.model
        return identity(*place, "incident", opened, *self._catalog.loss)

    def _entity(self, owner: int) -> Entity:
        return self._catalog.entity(owner)

    def _stream(self, owner: int) -> Stream:
        return self._catalog.streams[self._entity(owner).stream]


def watched_stage(stages: tuple[str, ...]) -> str:
    """The stage of a model that is watched: `final`, or else the first."""
    return FINAL if FINAL in stages else stages[0]

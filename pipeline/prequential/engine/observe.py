"""The observer of a shard: it reads messages about facts from the state, and changes no state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from prequential.engine import facts
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Entity
from prequential.engine.comparisons.reporting import ComparisonReporter
from prequential.engine.incidents.finding import now_of
from prequential.engine.incidents.incidents import Incidents, watched_stage
from prequential.engine.merging.merger import LAST
from prequential.engine.merging.parting import add_periods, part_of
from prequential.engine.output.disparities import DisparityReporter
from prequential.engine.output.period_measures import messages_of as messages_of_periods
from prequential.engine.output.reporter import Reporter
from prequential.engine.output.unwritten import Unwritten
from prequential.engine.state import ShardState
from prequential.topics.outputs import DeadLetter, Encoded, Incident, Output
from prequential.topics.parts import Part
from prequential.topics.parts import encode as encode_part
from prequential.topics.specs import PARTS

#: Most examples in a message.
_EXAMPLES = 5


def message_of(catalog: Catalog, incidents: Incidents, entity: Entity) -> Incident:
    """The message about the open incident of a model, or of a correction."""
    owner, stream, state = entity.row, catalog.streams[entity.stream], incidents.open[entity.row]
    now, point = now_of(incidents.history, owner), state.details["change_point"]["outcome"]
    kept = incidents.examples.get(owner, [])
    message = Incident(
        state.id, stream.name, catalog.partition, entity.model, state.revision, state.status,
        stage=watched_stage(stream.evaluated), grade=state.grade, worst=dict(state.worst),
        opened=dict(state.opened), alarms=list(state.alarms),
        alarm_count=state.alarm_count, signals=[dict(signal) for signal in state.signals],
        examples=[name for number, name in kept if number >= point][:_EXAMPLES],
        former_alarms={"alarms": state.former_alarms, "outcomes": state.opened["outcome"]},
        outcome=now.outcome, ts=now.ts, config=stream.config.digest, **state.details,
    )  # fmt: skip
    if state.recovered is not None:
        message.recovered = state.recovered
    if state.now is not None:
        message.now = dict(state.now)
    if state.confirmed is not None:
        message.confirmed = dict(state.confirmed)
    if owner in incidents.graded:
        message.graded = dict(zip(("incidents", "lasting"), incidents.graded[owner]))
    if stream.config.incident_loss != "error":
        message.loss = stream.config.incident_loss
    if catalog.untimed:
        message.untimed = True
    if same := catalog.same_as(owner, message.stage, stream):
        message.same = same
    return message


#: The order of messages: about entities, their periods, alarms and incidents; about pairs; about groups.
_ENTITIES, _PAIRS, _GROUPS = range(3)


class Outbox:
    """Outputs since the last flush.

    `writers` write the messages that were read and aren't written yet.
    """

    def __init__(self, *writers: Callable[[], None]) -> None:
        self.writers = writers
        self.messages: list[Output | Unwritten] = []
        self.dead_letters: list[DeadLetter] = []

    def __len__(self) -> int:
        return len(self.messages) + len(self.dead_letters)

    def flush(self) -> list[Output]:
        """Return and forget the outputs: dead letters by topic, offset and row, then messages."""
        letters = sorted(self.dead_letters, key=lambda letter: (letter.kind, letter.offset, letter.row or 0))
        for write in self.writers:
            write()
        messages = [
            message.encoded() if isinstance(message, Unwritten) else message for message in self.messages
        ]
        outputs = [*letters, *messages]
        self.dead_letters, self.messages = [], []
        return outputs


class Observer:
    """Turns facts into messages, and puts these into an outbox."""

    def __init__(
        self, state: ShardState, reporter: Reporter, comparisons: ComparisonReporter,
        disparities: DisparityReporter, outbox: Outbox,
    ) -> None:  # fmt: skip
        self._state, self._outbox = state, outbox
        self._reporter, self._comparisons, self._disparities = reporter, comparisons, disparities
        self._begin()

    def _begin(self) -> None:
        #: Messages with their positions, and parts that lack their periods.
        self._messages: list[tuple[tuple[int, int, Any], Iterable[Output | Unwritten]]] = []
        self._parts: list[Part] = []
        self._changed: dict[int, list[int]] = {}  # by model: periods (rows)
        #: Number of sets so far. Metrics that cover all records begin one: at a tick, or for each stream at
        #: the end of a replay.
        self._sets = 0

    def observe(self, changes: Iterable[facts.Fact]) -> None:
        """Read the messages about facts, each at its moment, and put them in order when all have come."""
        self._begin()
        for fact in changes:
            self._read(fact)
        self._finish()
        self._begin()

    def _finish(self) -> None:
        """Put the messages into the outbox, with those that need all facts."""
        for part in self._parts:
            add_periods(part, self._state, self._changed)
        messages = self._outbox.messages
        messages += [Encoded(PARTS, part.stream, encode_part(part)) for part in self._parts]
        for _, outputs in sorted(self._messages, key=itemgetter(0)):
            messages += outputs

    def _read(self, fact: facts.Fact) -> None:
        """Read the messages about a fact."""
        catalog = self._state.catalog
        match fact:
            case facts.MetricsDue(rows, covered):
                self._sets += covered
                self._add_entities(self._reporter.read(rows, covered=covered))
            case facts.PeriodsDue(periods, changed):
                self._changed |= changed
                self._add_entities(messages_of_periods(catalog, self._state.accounts, periods))
            case facts.AlarmRaised(alarm):
                self._add_entities([alarm])
            case facts.IncidentChanged(entity):
                self._add_entities([message_of(catalog, self._state.incidents, entity)])
            case facts.ComparisonsDue(reports):
                for order, messages in self._comparisons.read(reports):
                    self._add(_PAIRS, order, messages)
            case facts.GroupsDue(sequences, after):
                self._add(_GROUPS, after, self._disparities.messages(sequences))
            case facts.PartsDue():
                self._parts += self._begun(fact)
            case facts.RecordRejected():
                self._outbox.dead_letters.append(DeadLetter(*fact))

    def _add(self, kind: int, order: Any, messages: Iterable[Output | Unwritten]) -> None:
        self._messages.append(((self._sets, kind, order), messages))

    def _add_entities(self, messages: Sequence[Output | Unwritten]) -> None:
        """Add messages about entities, which are in the order of streams in a set, else in that of facts."""
        if not self._sets:
            self._add(_ENTITIES, 0, messages)
            return
        for name, of_stream in groupby(messages, key=attrgetter("stream")):
            self._add(_ENTITIES, self._state.catalog.by_name[name].code, list(of_stream))

    def _begun(self, fact: facts.PartsDue) -> Iterator[Part]:
        """The shard's parts of streams in all partitions, without their periods: these may be due now."""
        state, every = self._state, fact.every
        until = LAST // every * every if fact.until is None else fact.until
        for name in sorted(state.catalog.wide):
            if state.config.streams[name].emit_every == every:
                yield part_of(state, self._comparisons, name, fact.since, until)

"""The observer of a shard: it reads messages about facts from the state, and changes no state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
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
from prequential.engine.output.encoded_messages import Outputs, single_outputs
from prequential.engine.output.period_measures import messages_of as messages_of_periods
from prequential.engine.output.reporter import Reporter
from prequential.engine.output.unwritten import Unwritten, encoded
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
        single = len(self.messages) + len(self.dead_letters)
        return single + sum(len(message) - 1 for message in self.messages if isinstance(message, Unwritten))

    def flush(self) -> list[Output]:
        """Return and forget the outputs: dead letters by topic, offset and row, then messages."""
        return list(single_outputs(self.flush_together()))

    def flush_together(self) -> Outputs:
        """The same as `flush`, with one object for messages that were written together."""
        letters = sorted(self.dead_letters, key=lambda letter: (letter.kind, letter.offset, letter.row or 0))
        for write in self.writers:
            write()
        outputs = [*letters, *encoded(self.messages)]
        self.dead_letters, self.messages = [], []
        return outputs


def _runs(codes: Sequence[int], apart: Container[int]) -> Iterator[tuple[int, int]]:
    """Parts of a sequence of codes, from their first place to the one after their last.

    A code that is in `apart` is not in one part with another code.

    >>> list(_runs([1, 2, 2, 3, 4, 4, 5], {2, 5}))
    [(0, 1), (1, 3), (3, 6), (6, 7)]
    """
    first = 0
    for place in range(1, len(codes) + 1):
        if place == len(codes) or (
            codes[place] != codes[place - 1] and (codes[place] in apart or codes[place - 1] in apart)
        ):
            yield first, place
            first = place


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
        self._messages: list[tuple[tuple[int, int, Any], Sequence[Output] | Unwritten]] = []
        #: By set: messages about entities, in the order of facts; those of a fact are in order of streams.
        self._of_entities: dict[int, list[Sequence[Output] | Unwritten]] = {}
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
        for number, additions in self._of_entities.items():
            self._messages += [
                ((number, _ENTITIES, code), outputs) for code, outputs in self._by_stream(additions)
            ]
        for _, outputs in sorted(self._messages, key=itemgetter(0)):
            if isinstance(outputs, Unwritten):
                messages.append(outputs)
            else:
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

    def _add(self, kind: int, order: Any, messages: Sequence[Output] | Unwritten) -> None:
        self._messages.append(((self._sets, kind, order), messages))

    def _add_entities(self, messages: Sequence[Output] | Unwritten) -> None:
        """Add messages about entities, which are in the order of streams in a set, else in that of facts."""
        if not len(messages):
            return
        if self._sets:
            self._of_entities.setdefault(self._sets, []).append(messages)
        else:
            self._add(_ENTITIES, 0, messages)

    def _by_stream(
        self, additions: Sequence[Sequence[Output] | Unwritten]
    ) -> Iterator[tuple[int, Sequence[Output] | Unwritten]]:
        """Parts of these messages, each with the code of its first stream.

        In the order of these codes, messages are in the order of streams, and within a stream in the order
        of the additions. Messages that were read together stay so, unless others come between them.
        """
        by_name = self._state.catalog.by_name
        names = [
            addition.streams if isinstance(addition, Unwritten) else [
                name for name, _ in groupby(addition, key=attrgetter("stream"))
            ]
            for addition in additions
        ]  # fmt: skip
        codes = [[by_name[name].code for name in names_of_addition] for names_of_addition in names]
        shared = {
            code for code, count in Counter(code for own in codes for code in set(own)).items() if count > 1
        }
        for addition, own in zip(additions, codes):
            if isinstance(addition, Unwritten):
                for first, stop in _runs(own, shared if own == sorted(own) else set(own)):
                    yield own[first], addition.part(first, stop)
            else:
                for code, (_, of_stream) in zip(own, groupby(addition, key=attrgetter("stream"))):
                    yield code, list(of_stream)

    def _begun(self, fact: facts.PartsDue) -> Iterator[Part]:
        """The shard's parts of streams in all partitions, without their periods: these may be due now."""
        state, every = self._state, fact.every
        until = LAST // every * every if fact.until is None else fact.until
        for name in sorted(state.catalog.wide):
            if state.config.streams[name].emit_every == every:
                yield part_of(state, self._comparisons, name, fact.since, until)

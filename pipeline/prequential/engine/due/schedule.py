"""When messages are due: by numbers of outcomes, and by record time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.comparisons.reporting import ComparisonReporter
from prequential.engine.compiled.kernel import Ints32
from prequential.engine.incidents.incident import ALARM, Raised
from prequential.engine.merging.merger import LAST
from prequential.engine.merging.parting import add_periods, part_of
from prequential.engine.outbox import Outbox
from prequential.engine.output.disparities import DisparityReporter
from prequential.engine.output.messages import Reporter
from prequential.engine.output.period_messages import OfPeriods
from prequential.engine.state import ShardState
from prequential.engine.tables.logs import Logs
from prequential.topics.errors import Fault
from prequential.topics.outputs import Encoded, Output
from prequential.topics.parts import Part
from prequential.topics.parts import encode as encode_part
from prequential.topics.specs import PARTS


class Schedule:
    """Decides which messages of a shard are due, marks them as reported, and reads them for its outbox."""

    def __init__(self, state: ShardState, outbox: Outbox) -> None:
        self._state, self._outbox = state, outbox
        self.reporter = Reporter(
            state.catalog, state.accounts, state.notes, lambda stream: state.timeline.cluster[stream]
        )
        self.comparisons = ComparisonReporter(state.catalog, state.pairing, outbox)
        self.disparities = DisparityReporter(state.catalog, outbox)
        #: By stream: whether records have come since its last tick. This matters only once a stream has
        #: periods; until then all streams count as touched.
        self._touched = np.zeros(0, dtype=np.bool_)
        self._periodic = False
        #: For streams in all partitions: by model (row), the periods (rows) that have messages now.
        self._spoken_of: dict[int, list[int]] = {}

    def touch(self, streams: Ints32) -> None:
        """Note that records of these streams (codes, (n,) int32) have come: their periods may be due."""
        if self._periodic:
            self._touched[streams] = True

    def add_streams(self) -> None:
        """Add rows for streams that are new in the catalog."""
        streams, known = self._state.catalog.streams, len(self._touched)
        self._periodic |= any(one.config.period is not None for one in streams[known:])
        self._touched = np.append(self._touched, np.ones(len(streams) - known, dtype=np.bool_))

    def of_entities(self, due: list[int]) -> list[Encoded]:
        """Metrics messages of these entities, which are due because of their numbers of outcomes."""
        kinds = self._state.catalog.columns.entities.kind
        rows = sorted(due, key=lambda row: (int(kinds[row]), row))
        self.reporter.mark(rows)
        return self._outbox.read(self.reporter.metrics, rows)

    def of_outcomes(self, logs: Logs) -> list[Encoded]:
        """Let pairs and groups process the log's outcomes; returns the messages that became due."""
        compared = self.comparisons.consume(logs)
        return [*compared, *self.disparities.consume(logs)]

    def tick(self, time: int) -> list[Output]:
        """Messages that are due because record time has passed multiples of durations in `emit`.

        `time` is the new record time, ms.
        """
        state, passed = self._state, set()
        parts: list[Part] = []
        for every, due in state.ticks.items():
            if due is None or time >= due:
                parts += self._parts(every, due or 0, time // every * every)
                if due is not None:
                    passed.add(every)
                state.ticks[every] = (time // every + 1) * every
        state.next_tick = min(due for due in state.ticks.values() if due is not None)
        messages = self._changed(lambda config: config.emit_every in passed)
        compared = self.comparisons.passed(passed)
        groups = self.disparities.news(lambda config: config.emit_comparisons in passed)
        return [*self._encoded(parts), *messages, *compared, *groups]

    def idle(self, quiet: int) -> list[Output]:
        """Messages about all that is unpublished after `quiet` ms without a record.

        Only streams whose `emit.idle` isn't longer than `quiet` have such messages. Parts of streams in all
        partitions are made only at multiples of `emit.every`; for these, the silence counts as record time.
        """
        is_idle = partial(_is_idle, quiet)
        parts: list[Part] = []
        state, time = self._state, self._state.merge.newest + quiet
        for every, due in self._silent_ticks(quiet):
            parts += self._parts(every, due, time // every * every)
            state.ticks[every] = (time // every + 1) * every
            state.next_tick = min(due for due in state.ticks.values() if due is not None)
        messages = self._changed(is_idle)
        compared = self.comparisons.news(is_idle)
        groups = self.disparities.news(is_idle)
        return [*self._encoded(parts), *messages, *compared, *groups]

    def has_unpublished(self, quiet: int) -> bool:
        """Whether `idle` has anything to publish."""
        catalog, is_idle = self._state.catalog, partial(_is_idle, quiet)
        entities = catalog.columns.entities
        codes = entities.stream[np.flatnonzero(entities.changed[: len(catalog.entities)])]
        idle = [stream for stream in catalog.streams if is_idle(stream.config)]
        changed = {stream.code for stream in idle}.intersection(codes.tolist())
        periodic = any(self._touched[one.code] for one in idle if one.config.period is not None)
        compared = self.comparisons.has_news(is_idle) or self.disparities.has_news(is_idle)
        return bool(changed or periodic or self._silent_ticks(quiet)) or compared

    def _silent_ticks(self, quiet: int) -> list[tuple[int, int]]:
        """Values of `emit.every` of which a multiple has passed in silence, with the first such multiple.

        Only streams in all partitions count.
        """
        config, time = self._state.config, self._state.merge.newest + quiet
        streams = map(config.streams.__getitem__, self._state.catalog.wide)
        wide = {one.emit_every for one in streams if _is_idle(quiet, one)}
        return [
            (every, due) for every, due in self._state.ticks.items()
            if every in wide and due is not None and time >= due
        ]  # fmt: skip

    def _parts(self, every: int, since: int, until: int) -> list[Part]:
        """The shard's parts of streams in all partitions, from one multiple of `every` to another."""
        if not self._outbox.is_open:
            return []
        wide = sorted(self._state.catalog.wide)
        return [
            part_of(self._state, self.comparisons, name, since, until)
            for name in wide if self._state.config.streams[name].emit_every == every
        ]  # fmt: skip

    def _encoded(self, parts: list[Part]) -> list[Encoded]:
        """These parts with their periods, encoded; call it after the messages about periods were made."""
        for part in parts:
            add_periods(part, self._state, self._spoken_of)
        self._spoken_of.clear()
        return [Encoded(PARTS, part.stream, encode_part(part)) for part in parts]

    def last_set(self) -> list[Output]:
        """Messages about every sequence, at the end of a replay."""
        catalog = self._state.catalog
        outcomes = catalog.columns.entities.outcomes
        outputs: list[Output] = []
        parts: list[Part] = []
        for every, due in self._state.ticks.items():
            parts += self._parts(every, due or 0, LAST // every * every)
        for stream in catalog.streams:
            rows = [one.row for one in catalog.entities_of(stream) if outcomes[one.row]]
            self.reporter.mark(rows, covered=True)
            outputs += self._outbox.read(self.reporter.metrics, rows, covered=True)
            if stream.config.period is not None:
                [found] = self.reporter.periods.due([stream], all_news=True)
                outputs += self._of_periods(found)
            outputs += self.comparisons.of_all(stream)
            outputs += self.disparities.of_all(stream)
        return [*self._encoded(parts), *outputs]

    def _changed(self, is_due: Callable[[StreamConfig], bool]) -> Sequence[Output]:
        """Messages about entities and periods that have changed since their last message, for due streams."""
        catalog = self._state.catalog
        entities = catalog.columns.entities
        changed = np.flatnonzero(entities.changed[: len(catalog.entities)])
        if not len(changed) and not self._periodic:
            return []
        order = np.lexsort((changed, entities.kind[changed], entities.stream[changed]))
        rows = [
            row
            for row in changed[order].tolist()
            if is_due(catalog.streams[entities.stream[row]].config)
        ]
        new = self.reporter.unreported_among(rows)
        self.reporter.mark(new, covered=True)
        messages = self._outbox.read(self.reporter.metrics, new, covered=True)
        entities.changed[rows] = 0
        if self._periodic:
            return self._with_due_periods(messages, is_due)
        return messages

    def _with_due_periods(
        self, metrics: list[Encoded], is_due: Callable[[StreamConfig], bool]
    ) -> list[Output]:
        """These messages, in order of streams, each stream's followed by the messages about its periods.

        Periods change only with records of their stream.
        """
        catalog, merged = self._state.catalog, list[Output]()
        by_stream = groupby(metrics, key=attrgetter("stream"))
        name, messages = next(by_stream, (None, iter(())))
        touched = [
            stream for stream in map(catalog.streams.__getitem__, np.flatnonzero(self._touched).tolist())
            if is_due(stream.config)
        ]  # fmt: skip
        self._touched[[stream.code for stream in touched]] = False
        periodic = [stream for stream in touched if stream.config.period is not None]
        found = dict(zip((stream.code for stream in periodic), self.reporter.periods.due(periodic)))
        for stream in touched:
            if name == stream.name:
                merged += messages
                name, messages = next(by_stream, (None, iter(())))
            if stream.code in found:
                merged += self._of_periods(found[stream.code])
        if name is not None:
            raise Fault(f"stream {name!r} has changed though no record of it has come")
        return merged

    def _of_periods(self, found: OfPeriods) -> Sequence[Output]:
        """Messages about a stream's periods, then their alarms, then the incidents that follow from these."""
        raised = [Raised(0, model, alarm, ALARM) for model, alarm in found.alarms]
        incidents = self._state.incidents.raise_alarms(raised)
        self._spoken_of |= found.rows
        return [*found.messages, *(alarm for _, alarm in found.alarms), *incidents]


def _is_idle(quiet: int, config: StreamConfig) -> bool:
    """Whether a stream's unpublished messages are due after so many ms without a record."""
    return config.emit_idle is not None and config.emit_idle <= quiet

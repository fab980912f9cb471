"""When messages are due: by numbers of outcomes, by record time, and after a silence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine import facts
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_of_plan
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.comparisons.pairing import Pairing
from prequential.engine.comparisons.reporting import ComparisonReporter
from prequential.engine.compiled.kernel import Ints, Ints32
from prequential.engine.delay import maturity
from prequential.engine.delay.due_periods import due_of
from prequential.engine.expectations import DuePeriods, Expectations
from prequential.engine.incidents.incident import ALARM, Raised, alarm_of_period
from prequential.engine.measures.registry import INDEX
from prequential.engine.output.counts import reported_numbers
from prequential.engine.output.disparities import DisparityReporter
from prequential.engine.output.estimates import MessageSubject, States, predicting, state_of
from prequential.engine.output.period_measures import SoFar
from prequential.engine.output.reporter import Reporter
from prequential.engine.state import ShardState
from prequential.engine.tables.logs import OUTCOMES, Logs
from prequential.topics.errors import existing


class DuePairs:
    """Lets a shard's pairs follow the outcome log, and marks sequences of pairs as reported."""

    def __init__(self, catalog: Catalog, pairing: Pairing, reporter: ComparisonReporter) -> None:
        self._catalog, self._pairing, self._reporter = catalog, pairing, reporter

    def follow(self, logs: Logs) -> Iterator[facts.ComparisonsDue]:
        """Let the pairing take over the outcome log; its outcomes make sequences due."""
        for due in self._pairing.consume(logs):
            yield from self._report(due)

    def news(self, is_due: Callable[[StreamConfig], bool]) -> Iterator[facts.ComparisonsDue]:
        """Report sequences with joint outcomes since their last messages, of streams that are due."""
        yield from self._report(list(self._with_news(is_due)))

    def has_news(self, is_due: Callable[[StreamConfig], bool]) -> bool:
        """Whether there is anything that `news` reports."""
        return next(self._with_news(is_due), None) is not None

    def _with_news(self, is_due: Callable[[StreamConfig], bool]) -> Iterator[facts.DueReport]:
        for report in self._pairing.unreported_sequences():
            subject = self._reporter.pair_of(report)
            has_messages = (report.side, report.row) in subject.indices
            if has_messages and is_due(self._catalog.streams[subject.a.stream].config):
                yield report

    def all_of(self, stream: Stream) -> Iterator[facts.ComparisonsDue]:
        """Report all pairs of a stream that have anything to compare, at the end of a replay."""
        pairing, reports = self._pairing, list[facts.DueReport]()
        revisions = self._catalog.columns.entities.revisions
        for pair in {pair for row in stream.entities for pair in pairing.by_entity.get(row, ())}:
            subject = self._reporter.subject(pair)
            revised = int(revisions[subject.a.row]), int(revisions[subject.b.row])
            sides = pairing.tables[subject.number].sides
            reports += [
                facts.DueReport(subject.number, side, row, 0, revised)
                for side, row in subject.indices
                if sides[side].columns.n[row] or pairing.has_only_predictions(pair, sides[side], row)
            ]  # fmt: skip
        yield from self._report(reports)

    def _report(self, reports: list[facts.DueReport]) -> Iterator[facts.ComparisonsDue]:
        """Mark these sequences as reported."""
        for report in reports:
            side = self._pairing.tables[report.number].sides[report.side]
            side.report(report.row, self._pairing.disagreements.counts)
        if reports:
            yield facts.ComparisonsDue(reports)


class DueGroups:
    """Lets the groups of a shard's models follow the outcome log, and marks models as reported."""

    def __init__(self, catalog: Catalog, reporter: DisparityReporter) -> None:
        self._catalog, self._reporter = catalog, reporter

    def follow(self, logs: Logs) -> Iterator[facts.GroupsDue]:
        """Take over what the outcome log has, plan by plan; verdicts that begin or end make models due."""
        catalog = self._catalog
        for plan in catalog.plans:
            if plan.groups is None:
                continue
            log = logs.outcomes
            rows = np.flatnonzero(log.plan[: int(logs.used[OUTCOMES])] == plan.number).astype(np.int32)
            positives = positives_of_plan(catalog, plan) if len(rows) else None
            while len(rows):
                done, due = plan.groups.consume(log, rows, catalog.registry, existing(positives, "positives"))
                if due >= 0:
                    entity = catalog.entity(int(plan.entity[due]))
                    first = int(catalog.columns.entities.first[entity.row])
                    yield _report([facts.ModelSequence(plan, entity, due - first, due)], int(rows[done - 1]))
                rows = rows[done:]

    def news(self, is_due: Callable[[StreamConfig], bool]) -> Iterator[facts.GroupsDue]:
        """Report models with outcomes since their last messages, of streams that are due."""
        if sequences := list(self._with_news(is_due)):
            yield _report(sequences)

    def has_news(self, is_due: Callable[[StreamConfig], bool]) -> bool:
        """Whether there is anything that `news` reports."""
        return next(self._with_news(is_due), None) is not None

    def all_of(self, stream: Stream) -> Iterator[facts.GroupsDue]:
        """Report all models of a stream with outcomes, at the end of a replay."""
        if sequences := list(self._reporter.sequences(stream)):
            yield _report(sequences)

    def _with_news(self, is_due: Callable[[StreamConfig], bool]) -> Iterator[facts.ModelSequence]:
        for stream in self._catalog.streams:
            if stream.config.disparity is not None and is_due(stream.config):
                for sequence in self._reporter.sequences(stream):
                    table = existing(sequence.plan.groups, "groups").table
                    if table.outcomes[sequence.row] != table.reported[sequence.row]:
                        yield sequence


def _report(sequences: list[facts.ModelSequence], after: int = 0) -> facts.GroupsDue:
    """Mark these models' sequences as reported."""
    for sequence in sequences:
        table = existing(sequence.plan.groups, "groups").table
        table.reported[sequence.row] = table.outcomes[sequence.row]
    return facts.GroupsDue(sequences, after)


#: The measures that are baselines' accuracies.
_REFERENCES = {"persistent": INDEX["p_per"], "majority": INDEX["p_maj"]}
_ACCURACIES = [INDEX["accuracy"], *_REFERENCES.values()]


class _Accuracies:
    """The accuracies of models and of baselines at entities' estimates."""

    def __init__(self, states: States) -> None:
        self._states = states
        values = states.rows.values[:, _ACCURACIES]
        values[states.rows.reasons[:, _ACCURACIES] != 0] = np.nan
        self._values: list[list[float]] = values.tolist()
        self._first, self._step = states.first.tolist(), states.step.tolist()

    def at(self, index: int, line: MessageSubject, alpha: float) -> list[float]:
        """The model's accuracy, then that of each baseline, at a line of an entity; NaN: it has no value."""
        if len(line.positions) == 1:
            return self._values[self._first[index] + line.block * self._step[index] + line.positions[0]]
        state = state_of(self._states, index, line, alpha)
        return [math.nan if state.reasons[column] else state.values[column] for column in _ACCURACIES]


#: Outcomes and revisions of what has had no messages so far.
_NOTHING = 0, 0


class DueEntities:
    """Marks entities of a shard as reported."""

    def __init__(self, state: ShardState, reporter: Reporter) -> None:
        self._catalog, self._accounts, self._notes = state.catalog, state.accounts, state.notes
        self._latest, self._reporter = state.latest_estimates, reporter

    def unreported(self, streams: Sequence[Stream]) -> dict[int, tuple[int, ...]]:
        """The entities of these streams that differ from their last messages, in the order of messages.

        By row, their present numbers (`reported_numbers`).

        They have new outcomes or revisions. Models, and their stages at an age, may also have other counts,
        or no messages so far.
        """
        entities = self._catalog.columns.entities
        changed = np.flatnonzero(entities.changed[: len(self._catalog.entities)])
        is_due = np.zeros(len(self._catalog.streams), dtype=np.bool_)
        is_due[[stream.code for stream in streams]] = True
        changed = changed[is_due[entities.stream[changed]]]
        rows = np.union1d(changed, np.array(self._rows_of_models(streams), dtype=np.int64))
        order = np.lexsort((rows, entities.kind[rows], entities.stream[rows]))
        return self._unreported_among(rows[order].tolist())

    def all_of(self, stream: Stream) -> dict[int, tuple[int, ...]]:
        """The entities of a stream that have messages, also without outcomes, as `unreported`."""
        outcomes = self._catalog.columns.entities.outcomes
        models = set(self._rows_of_models([stream]))
        return self.numbers_of([
            entity.row for entity in self._catalog.entities_of(stream)
            if outcomes[entity.row] or entity.row in models
        ])  # fmt: skip

    def numbers_of(self, rows: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """By entity (row), in this order, its present numbers."""
        return dict(zip(rows, reported_numbers(self._catalog, self._accounts, rows)))

    def _rows_of_models(self, streams: Iterable[Stream]) -> list[int]:
        """The models of streams that have made predictions, and their stages at an age."""
        entities = self._catalog.columns.entities
        models = [row for stream in streams for row in stream.models.values()]
        rows = predicting(self._catalog, self._accounts, models)
        for model in list(rows) if entities.after.any() else ():
            ages = self._catalog.streams[entities.stream[model]].ages
            rows += range(entities.after[model], entities.after[model] + len(ages))
        return rows

    def _unreported_among(self, rows: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """The entities among these that differ from their last messages, in this order."""
        reported, present = self._notes.reported, self.numbers_of(rows)
        return {row: numbers for row, numbers in present.items() if reported.get(row, _NOTHING) != numbers}

    def report(self, numbers: Mapping[int, tuple[int, ...]], *, covered: bool = False) -> facts.MetricsDue:
        """Mark these entities as reported in their present state: `numbers` are their present ones, by row.

        It also notes since when models are worse than baselines. `covered`: all records so far are accounted
        for, so label maturity curves and estimates of pending predictions are brought up to date.
        """
        catalog, rows = self._catalog, list(numbers)
        if covered and rows:
            _, models = self._reporter.covered(rows)
            clocks = self._reporter.clocks_of(models)
            maturity.update(self._accounts.coverage, models, clocks)
            self._latest.note_waiting(models.tolist(), self._reporter.of_waiting(models, clocks))
        self._notes.reported.update(numbers)
        catalog.columns.entities.changed[rows] = 0
        codes = catalog.columns.entities.stream[rows].tolist()
        with_detail = {
            code for code in set(codes) if "worse_than_baseline" in catalog.streams[code].config.details
        }
        compared = [row for row, code in zip(rows, codes) if code in with_detail] if with_detail else []
        if compared:
            accuracies = _Accuracies(self._reporter.of_estimators.states(compared))
            for index, row in enumerate(compared):
                entity = catalog.entity(row)
                self._note_worse(row, entity, catalog.streams[entity.stream], accuracies, index)
        return facts.MetricsDue(rows, covered)

    def _note_worse(
        self, row: int, entity: Entity, stream: Stream, accuracies: _Accuracies, index: int
    ) -> None:
        """Note at which estimates it is worse than a baseline, and since when.

        `index` is the entity's place among those whose accuracies were read.
        """
        before, ts = self._notes.worse.get(row, {}), int(self._catalog.columns.entities.newest_ts[row])
        worse = {}
        for line in self._reporter.of_estimators.lines(row, entity, stream).all:
            if line.chance:
                continue
            accuracy, *references = accuracies.at(index, line, stream.config.alpha)
            for baseline, reference in zip(_REFERENCES, references):
                if accuracy < reference:  # false where one of the two has no value
                    key = line.stage, line.estimator, baseline
                    worse[key] = before.get(key, ts)
        self._notes.worse[row] = worse


class Schedule:
    """Decides which messages of a shard are due, and marks their subjects as reported.

    Its methods that change the state are iterators of facts. The reporters read the state for it.
    """

    def __init__(
        self, state: ShardState, reporter: Reporter, comparisons: ComparisonReporter,
        disparities: DisparityReporter,
    ) -> None:  # fmt: skip
        self._state = state
        self._entities = DueEntities(state, reporter)
        self._pairs = DuePairs(state.catalog, state.pairing, comparisons)
        self._groups = DueGroups(state.catalog, disparities)
        self.expectations = Expectations(state.catalog, state.accounts, state.latest_estimates)
        settings = (state.config.defaults, *state.config.streams.values())
        self._comparing = {stream_config.emit_comparisons for stream_config in settings}
        #: By stream: whether records have come since its last tick. Nothing else changes what is due of it.
        self._touched = np.zeros(0, dtype=np.bool_)

    def touch(self, streams: Ints32) -> None:
        """Note that records of these streams (codes, (n,) int32) have come: messages may be due."""
        self._touched[streams] = True

    def add_streams(self) -> None:
        """Add rows for streams that are new in the catalog."""
        streams, count = self._state.catalog.streams, len(self._touched)
        self._touched = np.append(self._touched, np.ones(len(streams) - count, dtype=np.bool_))

    def of_entities(self, due: list[int]) -> Iterator[facts.Fact]:
        """Report these entities, which are due because of their numbers of outcomes."""
        kinds = self._state.catalog.columns.entities.kind
        rows = sorted(due, key=lambda row: (int(kinds[row]), row))
        yield self._entities.report(self._entities.numbers_of(rows))

    def follow(self, logs: Logs) -> Iterator[facts.Fact]:
        """Let pairs and groups process the log's outcomes, which make some of them due."""
        yield from self._pairs.follow(logs)
        yield from self._groups.follow(logs)

    def tick(self, time: int) -> Iterator[facts.Fact]:
        """Report what is due because record time has passed multiples of durations in `emit`.

        `time` is the new record time, ms.
        """
        state, passed = self._state, set()
        for every, due in state.ticks.items():
            if due is None or time >= due:
                yield facts.PartsDue(every, due or 0, time // every * every)
                if due is not None:
                    passed.add(every)
                state.ticks[every] = (time // every + 1) * every
        state.next_tick = min(due for due in state.ticks.values() if due is not None)
        yield from self._changed(lambda config: config.emit_every in passed)
        if not passed.isdisjoint(self._comparing):
            yield from self._compared(lambda config: config.emit_comparisons in passed)

    def idle(self, quiet: int) -> Iterator[facts.Fact]:
        """Report all that is unpublished after `quiet` ms without a record.

        Only streams whose `emit.idle` isn't longer than `quiet` have such messages. Parts of streams in all
        partitions are due only at multiples of `emit.every`; for these, the silence counts as record time.
        """
        is_idle = partial(_is_idle, quiet)
        state, time = self._state, self._state.merge.newest + quiet
        for every, due in self._silent_ticks(quiet):
            yield facts.PartsDue(every, due, time // every * every)
            state.ticks[every] = (time // every + 1) * every
            state.next_tick = min(due for due in state.ticks.values() if due is not None)
        yield from self._changed(is_idle)
        yield from self._compared(is_idle)

    def has_unpublished(self, quiet: int) -> bool:
        """Whether `idle` has anything to report."""
        is_idle = partial(_is_idle, quiet)
        idle = self._touched_streams(is_idle)
        periodic = any(stream.config.period is not None for stream in idle)
        compared = self._pairs.has_news(is_idle) or self._groups.has_news(is_idle)
        if periodic or compared or self._silent_ticks(quiet):
            return True
        return bool(self._entities.unreported(idle))

    def _silent_ticks(self, quiet: int) -> list[tuple[int, int]]:
        """Values of `emit.every` of which a multiple has passed in silence, with the first such multiple.

        Only streams in all partitions count.
        """
        config, time = self._state.config, self._state.merge.newest + quiet
        streams = map(config.streams.__getitem__, self._state.catalog.wide)
        wide = {stream_config.emit_every for stream_config in streams if _is_idle(quiet, stream_config)}
        return [
            (every, due) for every, due in self._state.ticks.items()
            if every in wide and due is not None and time >= due
        ]  # fmt: skip

    def last_set(self) -> Iterator[facts.Fact]:
        """Report every sequence, at the end of a replay."""
        for every, due in self._state.ticks.items():
            yield facts.PartsDue(every, due or 0, None)
        for stream in self._state.catalog.streams:
            yield self._entities.report(self._entities.all_of(stream), covered=True)
            if stream.config.period is not None:
                yield from self._periods([stream], all_news=True)
            yield from self._pairs.all_of(stream)
            yield from self._groups.all_of(stream)

    def _changed(self, is_due: Callable[[StreamConfig], bool]) -> Iterator[facts.Fact]:
        """Report entities and periods that have changed since their last messages, of due streams."""
        touched = self._touched_streams(is_due)
        if not touched:
            return
        yield self._entities.report(self._entities.unreported(touched), covered=True)
        self._touched[[stream.code for stream in touched]] = False
        periodic = [stream for stream in touched if stream.config.period is not None]
        if periodic:
            yield from self._periods(periodic)

    def _touched_streams(self, is_due: Callable[[StreamConfig], bool]) -> list[Stream]:
        """The due streams that have had records since their last tick."""
        streams = map(self._state.catalog.streams.__getitem__, np.flatnonzero(self._touched).tolist())
        return [stream for stream in streams if is_due(stream.config)]

    def _compared(self, is_due: Callable[[StreamConfig], bool]) -> Iterator[facts.Fact]:
        """Report pairs and groups that have changed since their last messages, of due streams."""
        yield from self._pairs.news(is_due)
        yield from self._groups.news(is_due)

    def _periods(self, streams: list[Stream], *, all_news: bool = False) -> Iterator[facts.Fact]:
        """Report due periods of these streams, then their alarms, then the incidents that these change.

        With `all_news`, any change makes a period due.
        """
        catalog, accounts = self._state.catalog, self._state.accounts
        # Only of models with predictions so far: to look at a model forgets its old periods, and a first
        # prediction may be in one of these. When its round registers the model depends on the division.
        stream_of = {row: stream for stream in streams for row in stream.models.values()}
        stream_models = [(stream_of[row], row) for row in predicting(catalog, accounts, list(stream_of))]
        models = np.array([row for _, row in stream_models], dtype=np.int64)
        codes = np.array([stream.code for stream, _ in stream_models], dtype=np.int64)
        clocks = catalog.columns.streams.clock[codes].astype(np.int64)
        shares = maturity.shares_at_horizon(accounts.coverage, models, clocks)
        states = due_of(accounts.periods, models, clocks, shares, all_news=all_news)
        of_models = zip(stream_models, clocks.tolist(), shares.tolist(), states)
        due = [
            DuePeriods(*model, clock, share, model_states) for model, clock, share, model_states in of_models
        ]
        changed = {
            model_due.model: [state.row for state in model_due.periods]
            for model_due in due
            if model_due.periods
        }
        labelled = SoFar(catalog, accounts.periods)
        labelled.add((model_due.model, state.row) for model_due in due for state in model_due.periods)
        forecasts = self.expectations.of_models(due, labelled)
        periods = [
            facts.PeriodDue(model_due.model, state, labelled[state.row], forecasts.get(state.row))
            for model_due in due for state in model_due.periods
        ]  # fmt: skip
        yield facts.PeriodsDue(periods, changed)
        yield from self._state.incidents.raise_alarms([
            Raised(0, period.model, alarm_of_period(catalog, period, alarm), ALARM)
            for period in periods if period.forecast for alarm in period.forecast.alarms
        ])  # fmt: skip


def _is_idle(quiet: int, config: StreamConfig) -> bool:
    """Whether a stream's unpublished messages are due after so many ms without a record."""
    return config.emit_idle is not None and config.emit_idle <= quiet


class Ticks:
    """Finds the next tick, at which messages are due by record time, among records processed in rounds.

    `times` are the records' times in their order, ms. Those at the places `valid` take part in
    rounds. Invalid records only move the time on.

    >>> import numpy as np
    >>> ticks = Ticks(np.array([100, 200, 300, 400]), np.array([0, 1, 3]))
    >>> ticks.find(250), ticks.find(500)
    ((2, 300), (3, None))
    >>> ticks.processed(2)
    >>> ticks.find(250)
    (0, 300)
    """

    def __init__(self, times: Ints, valid: Ints) -> None:
        self._times, self._valid = times, valid
        self._begin = 0  # of the present round, among valid records

    def processed(self, count: int) -> None:
        """Begin the next round: so many records of the present one are processed."""
        self._begin += count

    def find(self, due: int) -> tuple[int, int | None]:
        """The first record of the round at or after the time `due` (ms), and the time that it has come at.

        Without such a record, the number of records left. The time may be that of an invalid record before
        it; None if no record has come at or after `due`.
        """
        first = int(self._times.searchsorted(due))
        position = int(self._valid.searchsorted(first)) - self._begin
        return position, int(self._times[first]) if first < len(self._times) else None

"""Messages: what is said of a subject's sequences, when it is due (`docs/semantics.md`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
from prequential.core import coverage as coverage_of
from prequential.core import latency, periods, selection
from prequential.core.catalog import RANDOM_SUFFIX, Catalog, Stream, Subject
from prequential.core.details import details_of
from prequential.core.label_dependence import LabelDependence
from prequential.core.mathematics import exp, log
from prequential.core.measures import INDEX, NAMES, REASONS
from prequential.core.measures.per_class import new_classes
from prequential.core.measures.positive import positive_of
from prequential.core.measures.table import measure_cells, measure_numbers, sum_up
from prequential.core.measuring import Measured, cells_of, measured, pairs_of
from prequential.core.naming import FADING
from prequential.core.plans import Plan
from prequential.core.scores import SIZE
from prequential.core.streams import AGE, MODEL
from prequential.topics.outputs import Alarm, Metrics, identity

#: The measures that are baselines' accuracies.
_REFERENCES = {"persistent": INDEX["p_per"], "majority": INDEX["p_maj"]}
_ACCURACY = INDEX["accuracy"]


class Selected(NamedTuple):
    """Which of the configured measures have a value."""

    names: tuple[str, ...]
    pick: Any  # from a row of all measures
    undefined: dict[str, str]


class State(NamedTuple):
    """An estimator's state in one stage: a row of measures."""

    n: float
    values: Any
    reasons: Any


class Estimate(NamedTuple):
    """What there is to say of one estimator in one stage of a subject: its state, and details."""

    subject: Subject
    model: str  # … or of random predictions with the model's distribution
    stage: str
    estimator: str
    state: State
    details: dict[str, Any]


class Reporter:
    """Makes the messages about what a catalog holds, and knows what was said before."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.coverage = coverage_of.new_coverage()
        self.selection = selection.new_selection()
        self.periods = periods.new_periods()
        self.latencies = latency.new_latencies()
        #: By subject: how the labels of its outcomes depend on each other, where a detail asks for it.
        self.labels: dict[int, LabelDependence] = {}
        #: By subject: `outcomes` and `revisions` at its last messages.
        self.reported: dict[int, tuple[int, int]] = {}
        #: By subject: since which label time (ms) it is worse, by (stage, estimator, baseline).
        self.worse: dict[int, dict[tuple[str, str, str], int]] = {}
        #: By subject: what a new configuration has brought.
        self.started_empty: dict[int, list[str]] = {}
        self._selected: dict[tuple[tuple[str, ...], bytes], Selected] = {}

    # ---- metrics

    def is_new(self, row: int) -> bool:
        """Whether a subject has outcomes or revisions that its last messages didn't know of."""
        subjects = self._catalog.columns.subjects
        return self.reported.get(row, (0, 0)) != (int(subjects.outcomes[row]), int(subjects.revisions[row]))

    def metrics(
        self, rows: Sequence[int], *, covered: bool = False, replaying: bool = False
    ) -> list[Metrics]:
        """The messages about subjects in their present state, in the order of the rows.

        With `covered`, all records up to now are accounted for, and so is what became of predictions. Where
        it is `replaying`, only what is state goes on.
        """
        catalog, subjects = self._catalog, self._catalog.columns.subjects
        found: list[Metrics] = []
        states = {} if replaying and not self._compares(rows) else self._states(rows)
        for row in rows:
            about = catalog.subjects[row]
            assert about is not None
            stream = catalog.streams[about.stream]
            self.reported[row] = int(subjects.outcomes[row]), int(subjects.revisions[row])
            subjects.changed[row] = 0
            if "worse_than_baseline" in stream.config.details:
                self._note_worse(row, about, stream, states)
            extra = self._coverage(about, stream) if covered else None
            if not replaying:
                found += self._messages(row, about, stream, states, extra)
        return found

    def _compares(self, rows: Sequence[int]) -> bool:
        streams = self._catalog.streams
        of = (self._catalog.subjects[row] for row in rows)
        return any("worse_than_baseline" in streams[one.stream].config.details for one in of if one)

    def _states(self, rows: Sequence[int]) -> dict[tuple[int, str, bool], tuple[Measured, int]]:
        """By first row of a subject's sequences, estimator, chance: the measures, and where rows begin."""
        catalog, subjects = self._catalog, self._catalog.columns.subjects
        by_plan: dict[int, list[int]] = {}
        for row in rows:
            by_plan.setdefault(int(subjects.plan[row]), []).append(row)
        states = {}
        for number, own in by_plan.items():
            plan = catalog.plans[number]
            stages = len(plan.stages)
            if not stages:
                continue
            first = subjects.first[own].astype(np.int64)
            sequences = (first[:, None] + np.arange(stages)).ravel()
            positives = catalog.positives(plan)
            chances = (False, True) if "random" in plan.config.baselines and not plan.numbers else (False,)
            for estimator in plan.estimators:
                for chance in chances:
                    found = measured(estimator, sequences, positives, chance)
                    for i, row in enumerate(own):
                        states[row, estimator.name, chance] = found, i * stages
        return states

    def _messages(
        self, row: int, about: Subject, stream: Stream, states: Any, coverage: dict[str, Any] | None
    ) -> Iterator[Metrics]:
        subjects, config = self._catalog.columns.subjects, stream.config
        counts = self._counts(about, stream)
        outcomes, revisions = int(subjects.outcomes[row]), int(subjects.revisions[row])
        ts = int(subjects.newest_ts[row])
        began_later = self.started_empty.get(row)
        for _, name, stage, estimator, state, details in self._estimates(row, about, stream, states):
            selected = self._selection(config.measures, state.reasons)
            key = (stream.name, name, about.segment, stage, estimator)
            message = Metrics(
                identity(*key, outcomes, revisions),
                *key, state.n, outcomes, ts, dict(zip(selected.names, selected.pick(state.values))),
                selected.undefined, counts, config.digest, **details,
            )  # fmt: skip
            if began_later and self._began_later(began_later, stage, estimator, stream):
                message.started_empty = True
            if coverage is not None and name == about.model:
                message.coverage = coverage
            yield message

    def estimates(self, rows: Sequence[int]) -> Iterator[Estimate]:
        """What messages about these subjects would say of their estimators now; nothing is noted of it."""
        states = self._states(rows)
        for row in rows:
            about = self._catalog.subjects[row]
            assert about is not None
            yield from self._estimates(row, about, self._catalog.streams[about.stream], states)

    def _estimates(self, row: int, about: Subject, stream: Stream, states: Any) -> Iterator[Estimate]:
        config, plan = stream.config, self._catalog.plans[self._catalog.columns.subjects.plan[row]]
        names = [about.model]
        if (
            (about.kind in (MODEL, AGE) or about.segment is not None)
            and "random" in config.baselines
            and config.task == "classification"
        ):
            names.append(about.model + RANDOM_SUFFIX)
        for chance, name in enumerate(names):
            for stage, state_of in self._stages(row, about, stream, plan, states, bool(chance)):
                for place, estimator in enumerate(config.estimators):
                    details = (
                        {} if chance else self._details(row, about, stream, plan, stage, place, estimator)
                    )
                    yield Estimate(about, name, stage, estimator, state_of(estimator), details)

    def _stages(
        self, row: int, about: Subject, stream: Stream, plan: Plan, states: Any, chance: bool
    ) -> Iterator[tuple[str, Any]]:
        """The stages of a subject's messages, each with what gives an estimator's state in it."""

        def at(position: int) -> Any:
            def state(estimator: str) -> State:
                found, start = states[row, estimator, chance]
                i = start + position
                n = found.n[i].item()
                whole = not estimator.startswith("fading")
                return State(int(n) if whole else n, found.values[i], found.reasons[i])

            return state

        if about.age is not None:
            yield about.age, at(0)
            return
        for stage in stream.everywhere:
            if stage == "bins":
                for b in range(1, stream.bins + 1):
                    yield f"bin:{b}", at(plan.stages.index(f"bin:{b}"))
            elif stage == "intermediate":
                first = plan.stages.index("initial")
                positions = [first, *(plan.stages.index(f"bin:{b}") for b in range(1, stream.bins + 1))]

                def over(estimator: str, positions: list[int] = positions) -> State:
                    return _intermediate([at(p)(estimator) for p in positions], stream.config.alpha)

                yield stage, over
            else:
                yield stage, at(plan.stages.index(stage))

    def _selection(self, names: tuple[str, ...], reasons: Any) -> Selected:
        key = names, reasons.tobytes()
        selected = self._selected.get(key)
        if selected is None:
            of = [(name, int(reasons[INDEX[name]])) for name in names]
            defined = tuple(name for name, reason in of if not reason)
            columns = [INDEX[name] for name in defined]
            selected = self._selected[key] = Selected(
                defined,
                _picker(columns),
                {name: REASONS[reason] for name, reason in of if reason},
            )
        return selected

    def _details(
        self, row: int, about: Subject, stream: Stream, plan: Plan, stage: str, place: int, estimator: str
    ) -> dict[str, Any]:
        names = stream.config.details
        if not names or plan.numbers:
            return {}
        found: dict[str, Any] = {}
        if stage != "intermediate":
            own = plan.estimators[place]
            sequence = int(self._catalog.columns.subjects.first[row])
            sequence += 0 if about.age is not None else plan.stages.index(stage)
            cells = cells_of(own, sequence)
            matrix = new_classes(own.capacity)
            if sum_up(cells, matrix).n:
                positive = positive_of(self._catalog.positives(plan), sequence, matrix.labels)
                factor = own.parameter if own.kind == FADING else None
                pairs = pairs_of(own, sequence) if plan.paired else []
                found = details_of(names, cells, own.capacity, factor, pairs, positive, stream.class_names)
                if row in self.labels and "dependence" in found:
                    found["dependence"] |= self.labels[row].report(stream.class_names)
        if "worse_than_baseline" in names:
            found["worse_than_baseline"] = {
                baseline: since
                for (where, which, baseline), since in self.worse.get(row, {}).items()
                if (where, which) == (stage, estimator)
            }
        return found

    def _note_worse(self, row: int, about: Subject, stream: Stream, states: Any) -> None:
        """Note at which estimates it is worse than a baseline, and since when; at an emission."""
        subjects = self._catalog.columns.subjects
        plan = self._catalog.plans[subjects.plan[row]]
        before, ts = self.worse.get(row, {}), int(subjects.newest_ts[row])
        worse = {}
        for stage, state_of in self._stages(row, about, stream, plan, states, False):
            for estimator in stream.config.estimators:
                state = state_of(estimator)
                for baseline, reference in _REFERENCES.items():
                    defined = not state.reasons[_ACCURACY] and not state.reasons[reference]
                    if defined and state.values[_ACCURACY] < state.values[reference]:
                        key = stage, estimator, baseline
                        worse[key] = before.get(key, ts)
        self.worse[row] = worse

    @staticmethod
    def _began_later(kept: list[str], stage: str, estimator: str, stream: Stream) -> bool:
        """Whether a new configuration brought it, so that it hasn't seen the whole sequence."""
        stages = [stage]
        if stage == "intermediate":
            stages = ["initial", *(f"bin:{b}" for b in range(1, stream.bins + 1))]
        return any(
            what in kept for one in stages for what in (f"stage {one}", f"{one} estimator {estimator}")
        )

    def _counts(self, about: Subject, stream: Stream) -> dict[str, int]:
        """The `counts` of a subject's messages: its model's and its stream's (see `docs/semantics.md`)."""
        registry = self._catalog.columns
        streams, subjects, at = registry.streams, registry.subjects, stream.code
        model = int(subjects.model[about.row]) if about.kind in (MODEL, AGE) else 0
        duplicates = streams.duplicate_instances[at] + streams.duplicate_labels[at]
        return {
            "late": int(subjects.late[model]),
            "expired": int(subjects.expired[model]),
            "duplicate": int(subjects.duplicate[model] + duplicates),
            "late_label": int(streams.late_label[at]),
            "unmatched_label": int(streams.unmatched_label[at]),
            "revisions": int(streams.revisions[at]),
        }

    def _coverage(self, about: Subject, stream: Stream) -> dict[str, Any] | None:
        """The `coverage` of a subject's messages; None for what isn't predicted by anybody."""
        if about.kind not in (MODEL, AGE) or not stream.config.coverage:
            return None
        if about.kind == MODEL and not stream.everywhere:
            return None
        streams, at = self._catalog.columns.streams, stream.code
        model, clock = int(self._catalog.columns.subjects.model[about.row]), int(streams.clock[at])
        found: dict[str, Any] = {
            "waiting": int(self.coverage.models.waiting[model]),
            "oldest_waiting_ms": coverage_of.oldest(self.coverage, model, clock),
            "labelled": coverage_of.labelled(self.coverage, model, clock),
            "label_latency_ms": latency.quantiles(self.latencies, at),
            "unpredicted_labels": int(streams.unmatched_label[at]),
            "instances_without_predictions": int(streams.instances_without_predictions[at]),
            "predictions_without_instance": int(streams.predictions_without_instance[at]),
        }
        if stream.config.task == "classification":
            found["labelled_by_class"] = selection.shares(self.selection, model, stream.class_names)
            found["prediction_psi"] = selection.index(self.selection, model)
        if stream.config.segments:
            found["segment_psi"] = self.segment_psi(stream, model)
        return found

    def segment_psi(self, stream: Stream, model: int) -> dict[str, float]:
        """By key of segments: how a model's labelled predictions differ from those without a label."""
        start = int(self._catalog.columns.subjects.segments[model])
        slots = stream.config.segments_per_key + 1
        found = {}
        for key, name in enumerate(stream.config.segments):
            index = selection.segment_index(
                self.selection, np.arange(start + key * slots, start + (key + 1) * slots, dtype=np.int32)
            )
            if index is not None:
                found[name] = index
        return found

    # ---- periods

    def of_periods(self, stream: Stream, *, all_news: bool = False) -> list[Metrics]:
        """What there is to say of periods of prediction time."""
        found = []
        registry = self._catalog.columns
        clock = int(registry.streams.clock[stream.code])
        for name, model in stream.models.items():
            expected = coverage_of.labelled(self.coverage, model, clock).get("horizon")
            for state in periods.due(self.periods, model, clock, expected, all_news=all_news):
                found.append(self._period(stream, name, model, state))
        return found

    def _period(self, stream: Stream, model: str, row: int, state: periods.PeriodState) -> Metrics:
        key = (stream.name, model, None, "period", state.name)
        subject = self._catalog.subjects[row]
        assert subject is not None
        selected = self._measure_period(stream, row, state.row)
        said = {
            "start": state.start, "end": state.end, "status": state.status,
            "predictions": state.predictions, "labelled": state.labelled,
            "labelled_share": state.labelled_share, "expected_share": state.expected_share,
            "corrections": state.corrections,
        }  # fmt: skip
        return Metrics(
            identity(
                *key, state.predictions, state.labelled, state.revisions, state.corrections, state.status
            ),
            *key, state.labelled, state.labelled, state.newest_ts, *selected,
            self._counts(subject, stream), stream.config.digest, period=said,
        )  # fmt: skip

    def _measure_period(
        self, stream: Stream, model: int, period: int
    ) -> tuple[dict[str, float], dict[str, str]]:
        catalog = self._catalog
        subjects = catalog.columns.subjects
        plan = catalog.plans[subjects.plan[model]]
        sums = periods.sums_of(self.periods, period)
        values, reasons = np.zeros(len(NAMES)), np.zeros(len(NAMES), dtype=np.int64)
        given = np.zeros(SIZE) if sums is None else sums
        if plan.numbers:
            measure_numbers(given, sums is not None, periods.spread_of(self.periods, period), values, reasons)
        else:
            cells = periods.cells_of(self.periods, period, plan.capacity)
            positives = catalog.positives(plan)._replace(owner=np.array([stream.code], dtype=np.int32))
            measure_cells(
                cells, new_classes(plan.capacity), positives, 0, False, given, sums is not None, values,
                reasons,
            )  # fmt: skip
        selected = self._selection(stream.config.measures, reasons)
        return dict(zip(selected.names, selected.pick(values))), selected.undefined

    # ---- alarms

    def alarm(
        self, about: Subject, stage: str, outcome: int, detector: Any, statistic: float, correlation: float,
        instance_id: str, ts: int,
    ) -> Alarm:  # fmt: skip
        """An alarm's message."""
        config = detector.config
        params: dict[str, float] = {"delta": config.delta, "lambda": config.threshold}
        if config.min_outcomes != type(config).min_outcomes:
            params["min_outcomes"] = config.min_outcomes
        stream = self._catalog.streams[about.stream]
        key = (stream.name, about.model, about.segment, stage, config.detector)
        return Alarm(
            identity(*key, config.signal, params, outcome),
            *key, config.signal, outcome, instance_id, ts, statistic, config.threshold, params,
            msgspec.UNSET if correlation != correlation else correlation,
        )  # fmt: skip


def _picker(columns: list[int]) -> Any:
    """Takes these columns of a row, as plain numbers."""
    if len(columns) < 2:
        return lambda row: [row[column].item() for column in columns]
    pick = itemgetter(*columns)
    return lambda row: pick(row.tolist())


def _intermediate(states: list[State], alpha: float) -> State:
    """Ψ_α = Σ Λ(b)·(1/α)^(b/B) / Σ (1/α)^(b/B) of every measure over bins 0 … B, bin 0 being the initial one.

    (Grzenda et al. 2020, eq. 1.) A measure that has no value in one of them has none, for the first one's
    reason.
    """
    last = len(states) - 1
    weights = [exp(-log(alpha) * (b / last)) for b in range(last + 1)]
    total = sum(weights)
    values, reasons = np.zeros(len(NAMES)), np.zeros(len(NAMES), dtype=np.int64)
    for column in range(len(NAMES)):
        missing = [int(state.reasons[column]) for state in states if state.reasons[column]]
        if missing:
            reasons[column] = missing[0]
        else:
            parts = (float(state.values[column]) * weight for state, weight in zip(states, weights))
            values[column] = sum(parts) / total
    return State(states[0].n, values, reasons)



"""One stream of a shard: its join, its models' evaluation, and the messages that come of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import msgspec
from prequential.config import Limits, StreamConfig
from prequential.core.bulk import BulkJoin
from prequential.core.columns import NONE, Columns
from prequential.core.companions import NOTHING
from prequential.core.errors import Unusable
from prequential.core.latency import Latencies
from prequential.core.model import Model
from prequential.core.periods import PeriodState
from prequential.core.remembering import REPEATED, SETTLED, Entry
from prequential.core.segments import key_of
from prequential.core.sequence import Raised
from prequential.core.stages import triples
from prequential.topics.decoding import INSTANCES, LABELS
from prequential.topics.outputs import Alarm, Metrics, Output, identity


class Owner(Protocol):
    """What a stream needs of its shard."""

    outputs: list[Output]
    silent: bool
    touched: list[Stream]
    unpublished: dict[Stream, None]
    remembered: int


class Stream(BulkJoin):
    """A stream: `instance / prediction / label` take records, messages go to the owner's outputs."""

    def __init__(
        self, index: int, name: str, config: StreamConfig, limits: Limits, owner: Owner
    ) -> None:
        super().__init__(config, limits)
        self.index = index
        self.name = name
        self.latency = Latencies()
        self._owner = owner
        self._unpublished: dict[Model, None] = {}
        #: Messages since the log began, by row of the log, 0 (alarms) or 1 (metrics), and code of the model.
        self._pending: list[tuple[tuple[int, int, int], Output]] = []

    @property
    def waiting(self) -> int:
        """Predictions that wait for a label."""
        return sum(model.coverage.waiting for model in self.by_code)

    # ---- what the join calls

    def on_full(self, model: Model) -> None:
        row = model.positions[-1]
        self._evaluate(model)
        if model.emission_due:
            self._pending += (((row, 1, model.code), message) for message in self._emit(model))

    def on_completions(self) -> None:
        self._owner.touched.append(self)

    def on_revision(self, model: Model) -> None:
        self._unpublished[model] = None
        self._owner.unpublished[self] = None

    def on_period(self) -> None:
        self._owner.unpublished[self] = None

    def remember(self, more: int) -> None:
        owner = self._owner
        if more > 0 and owner.remembered + more > self.limits.instances_per_shard:
            raise Unusable(
                "the shard remembers too many instances: limits.instances_per_shard is "
                f"{self.limits.instances_per_shard}"
            )
        owner.remembered += more

    # ---- evaluation

    def flush(self) -> None:
        """Evaluate what was collected, and clear the log of completions."""
        for model in dict.fromkeys(self.dirty):
            if model.positions:
                self._evaluate(model)
            for outcome, stage, raised, row in model.detect():
                if not self._owner.silent:
                    alarm = self._alarm(model, stage, outcome, raised, row)
                    self._pending.append(((row, 0, model.code), alarm))
        self.dirty.clear()
        # A function of the log, however it was cut; where keys are equal (stages, detectors) order is kept.
        self._owner.outputs += (
            message for _, message in sorted(self._pending, key=lambda pending: pending[0])
        )
        self._pending.clear()
        self.latency.update(self.log_latencies)
        self.log_names = []
        self.log_times, self.log_latencies, self.log_ordinals = array("q"), array("q"), array("q")
        self.log_labels = array("Q")

    def _evaluate(self, model: Model) -> None:
        model.evaluate(self.log_ordinals, self.log_times, self.log_labels, self.classes.capacity)
        self._unpublished[model] = None
        self._owner.unpublished[self] = None

    # ---- messages

    def tick(self) -> None:
        """Record time passed a multiple of `emit.every`: messages for what changed since the last."""
        self.flush()
        for model in sorted(self._unpublished, key=lambda model: model.code):
            if (model.outcomes, model.revisions) != model.emitted:
                self._owner.outputs += self._emit(model, covered=True)
        self._unpublished.clear()
        self._tell_periods()

    def last_set(self) -> None:
        """Messages for every sequence, whatever was sent before."""
        self.flush()
        for model in self.every_model:
            if model.outcomes:
                self._owner.outputs += self._emit(model, covered=True)
        self._tell_periods(all_news=True)

    @property
    def open_periods(self) -> bool:
        """Whether time alone may make messages about periods due."""
        return any(model.periods for model in self.by_code)

    def _tell_periods(self, *, all_news: bool = False) -> None:
        """Put out what there is to tell of periods of prediction time."""
        for model in self.by_code:
            if model.periods is None:
                continue
            expected = model.coverage.labelled(self.clock).get("horizon")
            for state in model.periods.due(
                self.clock, expected, self.classes.capacity, all_news=all_news
            ):
                if not self._owner.silent:
                    self._owner.outputs.append(self._period(model, state))

    def _period(self, model: Model, state: PeriodState) -> Metrics:
        about = (self.name, model.name, None, "period", state.name)
        told = {
            "start": state.start, "end": state.end, "status": state.status,
            "predictions": state.predictions, "labelled": state.labelled,
            "labelled_share": state.labelled_share, "expected_share": state.expected_share,
            "corrections": state.corrections,
        }  # fmt: skip
        return Metrics(
            identity(
                *about, state.predictions, state.labelled, state.revisions, state.corrections, state.status
            ),
            *about, state.labelled, state.labelled, state.newest_ts, state.values, state.undefined,
            self.counts(model), self.config.digest, period=told,
        )  # fmt: skip

    def _emit(self, model: Model, *, covered: bool = False) -> list[Metrics]:
        """The model's messages; with `coverage` where all records up to now are accounted for."""
        model.emitted = (model.outcomes, model.revisions)
        self._unpublished.pop(model, None)
        if "worse_than_baseline" in self.config.details:
            model.note_worse()
        wanted = covered and model.told and self.config.coverage
        coverage = self.coverage(model) if wanted else None
        return [] if self._owner.silent else list(self.metrics(model, coverage))

    def metrics(self, model: Model, coverage: dict[str, Any] | None = None) -> Iterable[Metrics]:
        """The model's metrics messages in its present state."""
        counts = self.counts(model)
        for name, stage, estimator, (n, measures, undefined, details) in model.everything():
            about = (self.name, name, model.segment, stage, estimator)
            if "worse_than_baseline" in self.config.details and name == model.name:
                details["worse_than_baseline"] = {
                    baseline: since
                    for (where, which, baseline), since in model.worse.items()
                    if (where, which) == (stage, estimator)
                }
            message = Metrics(
                identity(*about, model.outcomes, model.revisions),
                *about, n, model.outcomes, model.newest_ts, measures, undefined, counts,
                self.config.digest, **details,
            )  # fmt: skip
            if model.started_empty and model.began_later(stage, estimator):
                message.started_empty = True
            if coverage is not None and name == model.name:
                message.coverage = coverage
            yield message

    def counts(self, model: Model) -> dict[str, int]:
        """The `counts` of a model's messages: its own and its stream's, by contract section 2."""
        if model.stage is not None:  # what is counted is the model's, whatever the stage
            model = self.models.get(model.name, model)
        return {
            "late": model.late,
            "expired": model.expired,
            "duplicate": model.duplicate + self.duplicates[INSTANCES] + self.duplicates[LABELS],
            "late_label": self.late_label,
            "unmatched_label": self.unmatched_label,
            "revisions": self.revisions,
        }

    def coverage(self, model: Model) -> dict[str, Any] | None:
        """The `coverage` of a model's messages; None for what isn't predicted by anybody."""
        model = self.models.get(model.name, model) if model.segment is None else model
        if model not in self.by_code:
            return None
        ledger = model.coverage
        told: dict[str, Any] = {
            "waiting": ledger.waiting,
            "oldest_waiting_ms": ledger.oldest(self.clock),
            "labelled": dict(ledger.labelled(self.clock)),
            "label_latency_ms": self.latency.quantiles,
            "unpredicted_labels": self.unmatched_label,
            "instances_without_predictions": self.instances_without_predictions,
            "predictions_without_instance": self.predictions_without_instance,
        }
        if not self._measures.regression:
            told["labelled_by_class"] = model.selection.shares(self.classes.names)
            told["prediction_psi"] = model.selection.index()
        if self.segments is not None:
            told["segment_psi"] = model.selection.index_by_key(self.segments.keys)
        return told

    def _alarm(self, model: Model, stage: str, outcome: int, raised: Raised, row: int) -> Alarm:
        _, statistic, detection, autocorrelation = raised
        config = detection.config
        about = (self.name, model.name, model.segment, stage, config.detector)
        return Alarm(
            identity(*about, config.signal, detection.params, outcome),
            *about, config.signal, outcome, self.log_names[row], self.log_times[row],
            statistic, config.threshold, detection.params,
            msgspec.UNSET if autocorrelation is None else autocorrelation,
        )  # fmt: skip

    # ---- snapshot

    def snapshot(self) -> dict[str, object]:
        """State without the book, which is large and is copied by itself (see `Shard.snapshot`)."""
        assert not self.log_names, "flush before taking a snapshot"
        return {
            "name": self.name,
            "horizon": self.config.label_horizon,
            "clock": self.clock,
            "classes": self.classes.snapshot(),
            "baselines": self.baselines.snapshot(),
            "numbers": [
                self.waiting_labels, self.late_label, self.unmatched_label, self.revisions,
                self._completed, self.instances_without_predictions, self.predictions_without_instance,
            ],
            "duplicates": list(self.duplicates),
            "latency": self.latency.snapshot(),
            "models": [model.snapshot() for model in self.by_code],
            "labels": None if self.labels is None else self.labels.snapshot(),
            "shadows": [[code, shadow.snapshot()] for code, shadow in self.shadows.items()],
            "propensities": None if self.propensities is None else self.propensities.copy(),
            "segments": None if self.segments is None else self.segments.snapshot(),
            "segment_models": [
                [code, segment, model.snapshot()]
                for (code, segment), model in self.segment_models.items()
            ],
            "companions": [model.snapshot() for model in self.companions],
            "afters": [
                [model.name, model.stage, model.snapshot()] for model in self.after_models.values()
            ],
            "unpublished": [[model.name, model.segment, model.stage] for model in self._unpublished],
        }  # fmt: skip

    def restore(self, state: Any) -> list[str]:
        """Take a snapshot over; returns what the configuration has and the snapshot hasn't."""
        self.clock = state["clock"]
        self.classes.restore(state["classes"])
        if self.companions:
            self.classes.add(NOTHING)
        self.baselines.restore(state["baselines"])
        (
            self.waiting_labels, self.late_label, self.unmatched_label, self.revisions,
            self._completed, self.instances_without_predictions, self.predictions_without_instance,
        ) = state["numbers"]
        self.duplicates = list(state["duplicates"])
        self.latency.restore(state["latency"])
        missing = []
        for saved in state["models"]:
            model = self._add_model(saved["name"])
            missing += [f"{self.name}/{model.name}: {what}" for what in model.restore(saved, self._completed)]
        saved_companions = {saved["name"]: saved for saved in state["companions"]}
        for companion in self.companions:
            if companion.name in saved_companions:
                found = companion.restore(saved_companions[companion.name], self._completed)
                missing += [f"{self.name}/{companion.name}: {what}" for what in found]
            elif state["models"]:
                companion.begin(self._completed)
                missing.append(f"{self.name}/{companion.name}")
        if self.labels is not None and state["labels"] is not None:
            self.labels.restore(state["labels"])
            for code, saved in state["shadows"]:
                self.add_shadow(self.by_code[code])
                found = self.shadows[code].restore(saved, self._completed)
                missing += [f"{self.name}/{saved['name']}: {what}" for what in found]
        if self.segments is not None and state["segments"] is not None:
            self.segments.restore(state["segments"])
            for code, segment, saved in state["segment_models"]:
                if key_of(segment, self.segments.keys):
                    added = self.add_segment(self.by_code[code], segment)
                    found = added.restore(saved, self._completed)
                    missing += [f"{self.name}/{saved['name']} {segment}: {what}" for what in found]
        if self.propensities is not None and state["propensities"] is not None:
            self.propensities = dict(state["propensities"])
        saved_afters = {(name, stage): saved for name, stage, saved in state["afters"]}
        for model in self.after_models.values():
            if (model.name, model.stage) in saved_afters:
                found = model.restore(saved_afters[model.name, model.stage], self._completed)
                missing += [f"{self.name}/{model.name}: {what}" for what in found]
            elif state["models"]:
                model.begin(self._completed)
                model.started_empty = [f"stage {model.stage}"]
                missing.append(f"{self.name}/{model.name}: stage {model.stage}")
        by_name = {(model.name, model.segment, model.stage): model for model in self.every_model}
        for name, segment, stage in state["unpublished"]:
            if (name, segment, stage) in by_name:
                self.on_revision(by_name[name, segment, stage])
        if self.open_periods:
            self.on_period()
        self._moved = self.config.label_horizon - state["horizon"]
        self._corrections_missing = self.labels is not None and state["labels"] is None
        return missing

    def restore_entries(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """Take part of a book over; a changed horizon moves the deadlines of what waits."""
        moved, book, add = self._moved, self.book, self._expiry.add
        for name, entry in entries:
            entry = tuple(entry)
            if self.target.scored is not None:
                entry = tuple(map(_as_tuples, entry))
                if self._corrections_missing:  # what waits was predicted when nothing was corrected
                    entry = tuple((p[0], (*p[1], None)) if type(p) is tuple else p for p in entry)
            else:  # what was scored under another configuration isn't any more
                entry = tuple(part[0] if type(part) is list else part for part in entry)
            if moved and entry[0] != SETTLED:
                entry = (entry[0], entry[1] + moved, *entry[2:])
            book[name] = entry
            if entry[0] != SETTLED:
                add(entry[1], name)

    def restore_columns(self, part: list[object]) -> int:
        """Take part of the columns over, likewise; returns how many instances that are."""
        if self.columns is None:
            self.columns = Columns()
        before = len(self.columns)
        self.columns.restore(part, self._moved)
        return len(self.columns) - before

    def _begin_periods(self, codes: set[int]) -> None:
        """Periods are new for these models: what waits is of them."""
        found = [
            (code, ts)
            for entry in self.book.values()
            if entry[0] <= REPEATED
            for code, ts, _ in triples(entry, 3)
        ]
        if self.columns is not None:
            found += _waiting_in(self.columns)
        for code, ts in sorted(found):
            periods = self.by_code[code].periods
            if code in codes and periods is not None:
                periods.wait(ts)
                self.on_period()

    def restored(self) -> None:
        """All parts are here: put what is settled in order of its deadlines; periods may be new."""
        begun = [model for model in self.by_code if model.periods is not None and not len(model.periods)]
        if begun:
            self._begin_periods({model.code for model in begun})
        settled = [(entry[1], name) for name, entry in self.book.items() if entry[0] == SETTLED]
        settled.sort()
        self._settled.extend(name for _, name in settled)
        if settled:
            self._settled_until = settled[0][0]
        columns = self.columns
        if columns is not None:
            columns.restored()
            self._settled_until = min(self._settled_until, columns.settled_until)
            waiting = columns.waiting()
            self._expiry.add_many(columns.deadline[waiting], columns.names_of(waiting))


def _waiting_in(columns: Columns) -> Iterator[tuple[int, int]]:
    """(model, ts) of the predictions that wait in columns."""
    for times in columns.ts[columns.waiting()].tolist():
        for code, ts in enumerate(times):
            if ts != NONE:
                yield code, ts


def _as_tuples(part: Any) -> Any:
    """What was a tuple before it was written down."""
    return tuple(map(_as_tuples, part)) if isinstance(part, (list, tuple)) else part

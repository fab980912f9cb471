"""The evaluation of one model of a stream: outcomes that wait to be evaluated, and its sequences."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from prequential.config import StreamConfig
from prequential.core.arrays import Ints, Packed
from prequential.core.coverage import Coverage
from prequential.core.label_dependence import LabelDependence
from prequential.core.measures import MeasureSet
from prequential.core.outcomes import H_MASK, H_SHIFT
from prequential.core.periods import periods_of
from prequential.core.scores import Score, Scores
from prequential.core.selection import Selection
from prequential.core.sequence import Measured, Raised, Sequence
from prequential.core.stages import FINAL, FIRST_BIN, INITIAL, bins_of, psi

#: The parts of a packed outcome (see `prequential.core.outcomes`), for whole columns.
_LABEL = np.uint64(0xFFFF)
_WITHOUT_LABEL = ~_LABEL
_PREDICTION = np.uint64(H_MASK)

#: Most outcomes evaluated at once: enough that numpy's cost per call vanishes.
_CHUNK = 4096

#: The measures that are baselines' accuracies.
_REFERENCES = {"persistent": "p_per", "majority": "p_maj"}


class Model:
    """A model of a stream.

    Every instance whose label met a counting prediction gives one outcome in each stage, so all
    stages of a model have their outcomes at the same places. They are collected in `positions` (rows
    of the stream's log of completions), `first` (the first prediction with its baselines, packed) and
    `views` (all stages' predictions where one instance had several, by place), with their scores in
    `scores`, and evaluated in chunks; detectors look at larger ones, before the log is cleared.

    As long as no instance had several predictions every bin's sequence is the initial one, and that
    one stands for all: bins cost nothing where there are none.
    """

    #: Whether what is scored is its own prediction, so that its outcomes may have weights.
    weighed = True

    def __init__(
        self,
        code: int,
        name: str,
        config: StreamConfig,
        measures: MeasureSet,
        stage: str | None = None,
    ) -> None:
        self.code = code
        self.name = name
        #: The one stage that it is about, `after:D`; None for all that every outcome is in.
        self.stage = stage
        #: The part of the stream that it is about, None for all of it (see `prequential.core.segments`).
        self.segment: str | None = None
        self.initial = Sequence(config, measures)
        self.final = Sequence(config, measures)
        self.bins: list[Sequence] = []  # none while `initial` stands for them
        #: Of the labels in the order of the outcomes, where a detail asks for it.
        self.labels: LabelDependence | None = None
        if "dependence" in config.details and not measures.regression:
            self.labels = LabelDependence(config.dependence_order)
        self.coverage = Coverage(config.label_horizon)
        self.selection = Selection()
        #: Its performance by the time of prediction, where that is wanted.
        self.periods = periods_of(config, measures)
        self.outcomes = 0  # evaluated
        self.revisions = 0
        self.newest_ts = 0  # label time of the newest outcome, ms
        self.late = 0
        self.expired = 0
        self.duplicate = 0
        #: `outcomes` and `revisions` at the last metrics messages.
        self.emitted = (0, 0)
        self.started_empty: list[str] = []
        #: By (stage, estimator, baseline): label time (ms) of the message since which it is worse.
        self.worse: dict[tuple[str, str, str], int] = {}
        self._config = config
        self._measures = measures
        self._bins = bins_of(config)
        self._needs = ("initial" in config.stages or self._bins > 0, "final" in config.stages)
        windows = [int(name[7:]) for name in config.estimators if name.startswith("window:")]
        self._remembered = max(windows, default=0)
        self._ordinals: Ints = np.zeros(0, dtype=np.int64)  # of the last outcomes' labels
        #: Rows of the log of the outcomes that detectors haven't seen, in chunks.
        self._undetected: list[Ints] = []
        self._clear()

    def _clear(self) -> None:
        self.positions = array("q")
        self.first = array("Q")
        self.views: dict[int, tuple[int, ...]] = {}
        self.scores: dict[int, tuple[Score | None, ...]] = {}
        emit = self._config.emit_outcomes
        #: Evaluate when this many outcomes have been collected.
        self.room = min(_CHUNK, emit - self.outcomes % emit) if emit else _CHUNK

    # ---- stages

    def at(self, stage: str, code: int) -> Model:
        """The model at a stage that not every outcome is in: a sequence of its own."""
        config = replace(self._config, stages=("initial",), period=None)
        return Model(code, self.name, config, self._measures, stage)

    @property
    def told(self) -> bool:
        """Whether any messages are about it: stages at an age have models of their own."""
        return bool(self._config.stages)

    def sequences(self) -> Iterator[tuple[str, Sequence]]:
        """The sequences that are put out, by the stage's name in messages."""
        for stage in self._config.stages:
            if stage == "bins":
                for b in range(1, self._bins + 1):
                    yield f"bin:{b}", self.bins[b - 1] if self.bins else self.initial
            elif stage != "intermediate":
                yield self.stage or stage, self.initial if stage == "initial" else self.final

    def everything(self) -> Iterator[tuple[str, str, str, Measured]]:
        """(model's name, stage, estimator, state) for every metrics message, in their order.

        The states are the model's own, and then, if that baseline is wanted, those of random predictions
        with its distribution, `MODEL@random`.
        """
        for stage, estimator, state in self.measured():
            yield self.name, stage, estimator, state
        if "random" in self._config.baselines and not self._measures.regression:
            for stage, estimator, state in self.measured(by_chance=True):
                yield f"{self.name}@random", stage, estimator, state

    def measured(self, *, by_chance: bool = False) -> Iterator[tuple[str, str, Measured]]:
        """(stage, estimator, state) of the model, or of random predictions with its distribution."""
        known: dict[tuple[int, str], Measured] = {}
        labels = None if self.labels is None else self.labels.told(self._measures.class_names)

        def state(sequence: Sequence, estimator: str) -> Measured:
            key = id(sequence), estimator
            if key not in known:
                known[key] = sequence.by_chance(estimator) if by_chance else sequence.measured(estimator)
                if labels is not None and "dependence" in known[key].details:
                    known[key].details["dependence"] |= labels
            return known[key]

        sequences = self.sequences()
        for stage in self._config.stages:
            if stage == "intermediate":
                periods = [self.initial, *(self.bins or [self.initial] * self._bins)]
                for estimator in self._config.estimators:
                    states = [state(sequence, estimator) for sequence in periods]
                    yield stage, estimator, _intermediate(states, self._config.alpha)
                continue
            for _ in range(self._bins if stage == "bins" else 1):
                name, sequence = next(sequences)
                for estimator in self._config.estimators:
                    yield name, estimator, state(sequence, estimator)

    def note_worse(self) -> None:
        """Note at which estimates the model is worse than a baseline, and since when; at an emission."""
        worse = {}
        for stage, estimator, measured in self.measured():
            values = measured.values
            for baseline, reference in _REFERENCES.items():
                if values.get("accuracy", 1.0) < values.get(reference, 0.0):
                    key = stage, estimator, baseline
                    worse[key] = self.worse.get(key, self.newest_ts)
        self.worse = worse

    def began_later(self, stage: str, estimator: str) -> bool:
        """Whether a new configuration brought it, so that it hasn't seen the whole sequence."""
        stages = [stage]
        if stage == "intermediate":
            stages = ["initial", *(f"bin:{b}" for b in range(1, self._bins + 1))]
        about = {what for one in stages for what in (f"stage {one}", f"{one} estimator {estimator}")}
        return not about.isdisjoint(self.started_empty)

    def _part(self) -> None:
        """Let every bin have a sequence of its own from now on."""
        self.bins = [self.initial.clone() for _ in range(self._bins)]

    # ---- outcomes

    @property
    def emission_due(self) -> bool:
        """Whether the outcome just evaluated is one after which metrics messages are due."""
        emit = self._config.emit_outcomes
        return emit is not None and self.outcomes % emit == 0

    def evaluate(
        self, ordinals: array[int], times: array[int], labels: array[int], capacity: int
    ) -> None:
        """Update the estimators with what was collected.

        `ordinals`, `times` and `labels` are the log's columns.
        """
        positions = np.frombuffer(self.positions, dtype=np.int64)
        label = np.frombuffer(labels, dtype=np.uint64)[positions]
        first = np.frombuffer(self.first, dtype=np.uint64) & _WITHOUT_LABEL
        if self._bins and not self.bins and self.views:
            self._part()
        fresh = np.frombuffer(ordinals, dtype=np.int64)[positions]
        if self._needs[INITIAL]:
            self.initial.update(
                self._outcome(first | (label & _LABEL)), capacity, self._scores(INITIAL), fresh
            )
        if self._needs[FINAL]:
            last = self._seen(first, FINAL) & _PREDICTION
            self.final.update(self._outcome(last | label), capacity, self._scores(FINAL), fresh)
        for place, sequence in enumerate(self.bins, FIRST_BIN):
            seen = self._seen(first, place) & _WITHOUT_LABEL
            sequence.update(self._outcome(seen | (label & _LABEL)), capacity, self._scores(place), fresh)
        if self.labels is not None:
            self.labels.update_many((label & _LABEL).astype(np.int64))
        self._undetected.append(positions)
        if self._remembered:
            self._ordinals = np.concatenate((self._ordinals, fresh))[-self._remembered :]
        self.outcomes += len(positions)
        self.newest_ts = times[int(positions[-1])]
        self._clear()

    def _outcome(self, packed: Packed) -> Packed:
        """An outcome as it is evaluated (see `prequential.core.companions`)."""
        return packed

    def _seen(self, first: Packed, place: int) -> Packed:
        """The predictions that count at a place of the views."""
        if not self.views:
            return first
        seen = first.copy()
        seen[list(self.views)] = [view[place] for view in self.views.values()]
        return seen

    def _scores(self, place: int) -> Scores | None:
        if not self.scores:
            return None
        found = {row: view[place if len(view) > 1 else 0] for row, view in self.scores.items()}
        there = {row: score for row, score in found.items() if score is not None}
        return Scores.of(len(self.positions), there)

    def detect(self) -> list[tuple[int, str, Raised, int]]:
        """Run the detectors on all outcomes since the last call.

        Returns (outcome, stage, alarm, row of the log) for each alarm: by outcome, then as configured, so
        their order doesn't depend on when detectors are run.
        """
        if not self._undetected:
            return []
        rows = np.concatenate(self._undetected)
        self._undetected.clear()
        before = self.outcomes - len(rows)
        raised = {id(s): s.detect() for s in (self.initial, self.final, *self.bins)}
        found = [
            (before + alarm.place + 1, stage, alarm, int(rows[alarm.place]))
            for stage, sequence in self.sequences()
            for alarm in raised[id(sequence)]
        ]
        found.sort(key=lambda alarm: alarm[0])
        return found

    def revise(self, ordinal: int, old_y: int, new_y: int, seen: tuple[int, ...], room: int) -> None:
        """A label was revised: move its outcome. `seen` has it packed, for every place of a view."""
        if self._measures.regression:
            self.revisions += 1
            return
        found = np.flatnonzero(self._ordinals == ordinal)
        # Older than all that is remembered: beyond every window, within the whole history.
        age = len(self._ordinals) - 1 - int(found[-1]) if len(found) else len(self._ordinals)
        for place, sequence in enumerate((self.initial, self.final, *self.bins)):
            packed = seen[place if place < len(seen) else INITIAL]
            first_y, per, maj = packed & 0xFFFF, packed >> 32 & 0xFFFF, packed >> 48
            bits = (per == first_y) * 2 + (maj == first_y)
            sequence.revise(ordinal, age, old_y, new_y, (packed & H_MASK) >> H_SHIFT, bits, room)
        self.revisions += 1

    # ---- snapshot

    def snapshot(self) -> dict[str, object]:
        assert not self.positions, "evaluate before taking a snapshot"
        return {
            "name": self.name,
            "needs": list(self._needs),
            "sequences": [s.snapshot() for s in (self.initial, self.final, *self.bins)],
            "bins": self._bins,
            "labels": None if self.labels is None else self.labels.snapshot(),
            "order": self._config.dependence_order,
            "numbers": [
                self.outcomes, self.revisions, self.newest_ts, self.late, self.expired,
                self.duplicate, *self.emitted,
            ],
            "coverage": self.coverage.snapshot(),
            "selection": self.selection.snapshot(),
            "periods": None if self.periods is None else self.periods.snapshot(),
            "started_empty": list(self.started_empty),
            "worse": [[*key, since] for key, since in self.worse.items()],
            "ordinals": self._ordinals.tobytes(),
        }  # fmt: skip

    def begin(self, labels: int) -> None:
        """A new configuration brought it when so many labels had met predictions."""
        for sequence in (self.initial, self.final, *self.bins):
            sequence.begin(labels)

    def restore(self, state: Any, labels: int = 0) -> list[str]:
        """Take a snapshot over, taken when `labels` had met predictions.

        Returns what the configuration has and the snapshot hasn't.
        """
        (
            self.outcomes, self.revisions, self.newest_ts, self.late, self.expired,
            self.duplicate, *emitted,
        ) = state["numbers"]
        self.emitted = tuple(emitted)
        self.coverage.restore(state["coverage"])
        self.selection.restore(state["selection"])
        periods_missing = False
        if self.periods is not None:
            periods_missing = state["periods"] is None or not self.periods.restore(state["periods"])
        self._ordinals = np.frombuffer(state["ordinals"], dtype=np.int64)
        saved = state["sequences"]
        missing = ["periods"] if periods_missing else []
        found = {}
        for place, sequence in enumerate((self.initial, self.final)):
            stage = (self.stage or "initial", "final")[place]
            if state["needs"][place]:
                found[stage] = sequence.restore(saved[place], labels)
            elif self._needs[place]:
                sequence.begin(labels)
                missing.append(f"stage {stage}")
        if self._bins and self._bins == state["bins"]:
            self.bins = [Sequence(self._config, self._measures) for _ in saved[FIRST_BIN:]]
            for b, sequence in enumerate(self.bins, 1):
                found[f"bin:{b}"] = sequence.restore(saved[FIRST_BIN + b - 1], labels)
        elif self._bins:
            # Whether an instance had several predictions before isn't known: they begin empty.
            self.bins = [Sequence(self._config, self._measures) for _ in range(self._bins)]
            for sequence in self.bins:
                sequence.begin(labels)
            missing += [f"stage bin:{b}" for b in range(1, self._bins + 1)]
        missing += [f"{stage} {what}" for stage, whats in found.items() for what in whats]
        self.worse = {(stage, estimator, name): since for stage, estimator, name, since in state["worse"]}
        if self.labels is not None:
            if state["labels"] is not None and state["order"] == self._config.dependence_order:
                self.labels.restore(state["labels"])
            else:
                missing.append("detail dependence")
        kept: list[str] = state["started_empty"]
        self.started_empty = sorted({*kept, *missing})
        self._clear()
        return missing


def _intermediate(states: list[Measured], alpha: float) -> Measured:
    """Ψ_α of every measure over the states of bins 0 … B, bin 0 being the initial one (2020 paper, eq. 1)."""
    values, undefined = {}, {}
    first = states[0]
    for name in (*first.values, *first.undefined):
        reasons = [state.undefined[name] for state in states if name in state.undefined]
        if reasons:
            undefined[name] = reasons[0]
        else:
            values[name] = psi([state.values[name] for state in states], alpha)
    return Measured(first.n, values, undefined, {})

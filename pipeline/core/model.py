"""The evaluation of one model of a stream: outcomes that wait to be evaluated, and its sequences."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from pipeline.config import StreamConfig
from pipeline.core.outcomes import H_MASK, H_SHIFT, Ints
from pipeline.core.sequence import Raised, Sequence

#: The parts of a packed outcome (see `pipeline.core.outcomes`), for whole columns.
_LABEL = np.uint64(0xFFFF)
_WITHOUT_LABEL = ~_LABEL
_PREDICTION = np.uint64(H_MASK)

#: Most outcomes evaluated at once: enough that numpy's cost per call vanishes.
_CHUNK = 4096


class Model:
    """A model of a stream.

    Every instance whose label met a counting prediction gives one outcome in each stage, so all
    stages of a model have their outcomes at the same places. They are collected in `positions` (rows
    of the stream's log of completions), `first` (the first prediction with its baselines, packed) and
    `last` (the last prediction where it isn't the first one, by place), and evaluated in chunks;
    detectors look at larger ones, before the log is cleared.
    """

    def __init__(self, code: int, name: str, config: StreamConfig) -> None:
        self.code = code
        self.name = name
        self.sequences = {stage: Sequence(stage, config) for stage in config.stages}
        self.outcomes = 0  # evaluated
        self.revisions = 0
        self.newest_ts = 0  # label time of the newest outcome, ms
        self.late = 0
        self.expired = 0
        self.duplicate = 0
        #: `outcomes` and `revisions` at the last metrics messages.
        self.emitted = (0, 0)
        self.started_empty: list[str] = []
        self._emit_outcomes = config.emit_outcomes
        windows = [int(name[7:]) for name in config.estimators if name.startswith("window:")]
        self._remembered = max(windows, default=0)
        self._ordinals: Ints = np.zeros(0, dtype=np.int64)  # of the last outcomes' labels
        #: Rows of the log of the outcomes that detectors haven't seen, in chunks.
        self._undetected: list[Ints] = []
        self._clear()

    def _clear(self) -> None:
        self.positions = array("q")
        self.first = array("Q")
        self.last: dict[int, int] = {}
        emit = self._emit_outcomes
        #: Evaluate when this many outcomes have been collected.
        self.room = min(_CHUNK, emit - self.outcomes % emit) if emit else _CHUNK

    @property
    def emission_due(self) -> bool:
        """Whether the outcome just evaluated is one after which metrics messages are due."""
        return self._emit_outcomes is not None and self.outcomes % self._emit_outcomes == 0

    def evaluate(
        self, ordinals: array[int], times: array[int], labels: array[int], capacity: int
    ) -> None:
        """Update the estimators with what was collected.

        `ordinals`, `times` and `labels` are the log's columns.
        """
        positions = np.frombuffer(self.positions, dtype=np.int64)
        label = np.frombuffer(labels, dtype=np.uint64)[positions]
        first = np.frombuffer(self.first, dtype=np.uint64) & _WITHOUT_LABEL
        for stage, sequence in self.sequences.items():
            if stage == "initial":
                packed = first | (label & _LABEL)
            else:
                packed = first & _PREDICTION
                if self.last:
                    packed[list(self.last)] = [code & H_MASK for code in self.last.values()]
                packed |= label
            sequence.update(packed, capacity)
        self._undetected.append(positions)
        if self._remembered:
            fresh = np.frombuffer(ordinals, dtype=np.int64)[positions]
            self._ordinals = np.concatenate((self._ordinals, fresh))[-self._remembered :]
        self.outcomes += len(positions)
        self.newest_ts = times[int(positions[-1])]
        self._clear()

    def detect(self) -> list[tuple[int, str, Raised, int]]:
        """Run the detectors on all outcomes since the last call.

        Returns (outcome, stage, alarm, row of the log) for each alarm.
        """
        if not self._undetected:
            return []
        rows = np.concatenate(self._undetected)
        self._undetected.clear()
        before = self.outcomes - len(rows)
        return [
            (before + raised.place + 1, stage, raised, int(rows[raised.place]))
            for stage, sequence in self.sequences.items()
            for raised in sequence.detect()
        ]

    def revise(self, ordinal: int, old_y: int, new_y: int, seen: dict[str, int], room: int) -> None:
        """A label was revised: move its outcome. `seen` has the outcome as packed, by stage."""
        found = np.flatnonzero(self._ordinals == ordinal)
        # Older than all that is remembered: beyond every window, within the whole history.
        age = len(self._ordinals) - 1 - int(found[-1]) if len(found) else len(self._ordinals)
        for stage, sequence in self.sequences.items():
            packed = seen[stage]
            first_y, per, maj = packed & 0xFFFF, packed >> 32 & 0xFFFF, packed >> 48
            bits = (per == first_y) * 2 + (maj == first_y)
            sequence.revise(age, old_y, new_y, (packed & H_MASK) >> H_SHIFT, bits, room)
        self.revisions += 1

    def snapshot(self) -> dict[str, object]:
        assert not self.positions, "evaluate before taking a snapshot"
        return {
            "name": self.name,
            "sequences": {stage: s.snapshot() for stage, s in self.sequences.items()},
            "numbers": [
                self.outcomes, self.revisions, self.newest_ts, self.late, self.expired,
                self.duplicate, *self.emitted,
            ],
            "started_empty": list(self.started_empty),
            "ordinals": self._ordinals.tobytes(),
        }  # fmt: skip

    def restore(self, state: Any) -> list[str]:
        """Take a snapshot over; returns what the configuration has and the snapshot hasn't."""
        (
            self.outcomes, self.revisions, self.newest_ts, self.late, self.expired,
            self.duplicate, *emitted,
        ) = state["numbers"]
        self.emitted = tuple(emitted)
        self._ordinals = np.frombuffer(state["ordinals"], dtype=np.int64)
        sequences: dict[str, dict[str, object]] = state["sequences"]
        missing = []
        for stage, sequence in self.sequences.items():
            if stage in sequences:
                missing += [f"{stage} {what}" for what in sequence.restore(sequences[stage])]
            else:
                missing.append(f"stage {stage}")
        kept: list[str] = state["started_empty"]
        self.started_empty = sorted({*kept, *missing})
        self._clear()
        return missing

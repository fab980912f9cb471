"""Notes on entities that aren't in their tables."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from prequential.engine.details.label_dependence import LabelDependence


class Notes:
    """Notes on entities that aren't in their tables; every dict is by the entity's row."""

    def __init__(self) -> None:
        #: How the labels of its outcomes depend on each other, where a detail asks for it.
        self.labels: dict[int, LabelDependence] = {}
        #: What its last messages said: `outcomes` and `revisions`, then a model's `counts`.
        self.reported: dict[int, tuple[int, ...]] = {}
        #: Since which label time (ms) it is worse, by (stage, estimator, baseline).
        self.worse: dict[int, dict[tuple[str, str, str], int]] = {}
        #: What a new configuration has brought.
        self.started_empty: dict[int, list[str]] = {}

    def forget(self, rows: Sequence[int]) -> None:
        """Drop all notes of these entities (rows); nothing happens for those without."""
        for by_entity in vars(self).values():
            for row in rows:
                by_entity.pop(row, None)

    def part(self, rows: Sequence[int]) -> Notes:
        """A copy for reading of the labels' dependence of these entities, and of no other notes."""
        part = Notes()
        part.labels = {row: copy.deepcopy(self.labels[row]) for row in rows if row in self.labels}
        return part

    def note_empty(self, row: int, item: str) -> None:
        """Note that something of an entity started empty with a new configuration; once for each `item`."""
        kept = self.started_empty.setdefault(row, [])
        if item not in kept:
            kept.append(item)

    def copy_stage(self, row: int, source: str, target: str) -> None:
        """Copy the notes of an entity's stage `source` to its stage `target`."""
        kept = {key: since for key, since in self.worse.get(row, {}).items() if key[0] != target}
        copied = {(target, *key[1:]): since for key, since in kept.items() if key[0] == source}
        if kept or copied:
            self.worse[row] = kept | copied  # type: ignore[operator]
        for item in list(self.started_empty.get(row, ())):
            if item == f"stage {source}" or item.startswith(f"{source} "):
                self.note_empty(row, item.replace(source, target, 1))

    def head(self) -> dict[str, Any]:
        """All notes as lists of rows and values, for a snapshot's head."""
        return {
            "labels": [[row, labels.snapshot()] for row, labels in self.labels.items()],
            "reported": [[row, *counts] for row, counts in self.reported.items()],
            "worse": [[row, *key, since] for row, keys in self.worse.items() for key, since in keys.items()],
            "started_empty": [[row, list(items)] for row, items in self.started_empty.items()],
        }

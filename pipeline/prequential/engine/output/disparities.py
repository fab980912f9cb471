"""Messages about disparity: the segments of a key as groups, their values, and whether they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from prequential.configuration.settings.stages import INITIAL
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.disparity import DIFFERS, TOO_FEW, VERDICTS
from prequential.engine.disparity.following import ComparedGroups
from prequential.engine.facts import ModelSequence
from prequential.topics.disparities import Disparity
from prequential.topics.encoding import encode, identity
from prequential.topics.errors import existing
from prequential.topics.outputs import Encoded
from prequential.topics.specs import DISPARITIES


class DisparityReporter:
    """Makes the messages about the groups of a shard's models."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def sequences(self, stream: Stream) -> Iterator[ModelSequence]:
        """The sequences of a stream's models that have outcomes, in reported stages."""
        entities = self._catalog.columns.entities
        for row in stream.models.values():
            about, plan = self._catalog.entity(row), self._catalog.plans[entities.plan[row]]
            for place, stage in enumerate(plan.stages if plan.groups is not None else ()):
                at = int(entities.first[row]) + place
                if existing(plan.groups, "groups").table.outcomes[at] and self._is_reported(about, stage):
                    yield ModelSequence(plan, about, place, at)

    def _is_reported(self, about: Entity, stage: str) -> bool:
        is_final = self._catalog.columns.entities.initial_is_final[about.row] and stage == INITIAL
        return not is_final and self._catalog.streams[about.stream].reports(stage)

    def messages(self, sequences: Iterable[ModelSequence]) -> list[Encoded]:
        """The messages about models' sequences, as far as their stages are reported."""
        streams = self._catalog.streams
        return [
            Encoded(DISPARITIES, streams[one.about.stream].name, encode(said))
            for one in sequences if self._is_reported(one.about, one.plan.stages[one.place])
            for said in self._messages_of(one)
        ]  # fmt: skip

    # ---- content of messages

    def statuses(self, streams: Iterable[int]) -> Iterator[Disparity]:
        """The present messages about all models of these streams (codes), for readers of the state."""
        for stream in map(self._catalog.streams.__getitem__, streams):
            if stream.config.disparity is not None:
                for one in self.sequences(stream):
                    yield from self._messages_of(one)

    def _messages_of(self, one: ModelSequence) -> Iterator[Disparity]:
        """The messages about a model's sequence, by key and measure."""
        groups = existing(one.plan.groups, "groups")
        for key in range(len(groups.keys)):
            for m in range(len(groups.measures)):
                yield self._message(one, groups, key, m)

    def _message(self, one: ModelSequence, groups: ComparedGroups, key: int, m: int) -> Disparity:
        catalog, about, table = self._catalog, one.about, groups.table
        stream, stage = catalog.streams[about.stream], one.plan.stages[one.place]
        wanted = existing(stream.config.disparity, "the setting disparity")
        place = key * len(groups.measures) + m
        verdict, outcomes = int(table.verdict[one.row, place]), int(table.outcomes[one.row])
        shown, bounds = self._groups(one, groups, key, m)
        values = {name: group["value"] for name, group in shown.items() if "interval" in group}
        largest, smallest = max(values, key=values.__getitem__, default=None), None
        difference = ratio = interval = None
        if verdict != TOO_FEW and largest is not None:
            smallest = min(values, key=values.__getitem__)
            difference = values[largest] - values[smallest]
            ratio = values[smallest] / values[largest] if values[largest] > 0.0 else None
            # All others' mean is between the means of groups, so two of these differ at least as much.
            least = max(max(low, -high) for low, high in bounds)
            most = max(high for _, high in bounds) - min(low for low, _ in bounds)
            interval = (max(least, 0.0), min(most, 1.0))
        about_it = (
            stream.name, catalog.partition, about.model, stage, groups.keys[key], groups.measures[m],
            outcomes, int(table.revised[one.row]), *catalog.loss,
        )  # fmt: skip
        same = catalog.same_as(about.row, stage)
        return Disparity(
            id=identity(*about_it), stream=stream.name, partition=catalog.partition, model=about.model,
            stage=stage, key=groups.keys[key], measure=groups.measures[m], outcomes=outcomes,
            ts=int(table.newest[one.row]), groups=shown, largest=largest if smallest is not None else None,
            smallest=smallest, difference=difference, ratio=ratio, interval=interval, level=wanted.level,
            tolerance=wanted.tolerance, verdict=VERDICTS[verdict],
            since=int(table.since[one.row, place]) if verdict == DIFFERS else None,
            reason=_reason(shown) if verdict == TOO_FEW else msgspec.UNSET, config=stream.config.digest,
            same=same or msgspec.UNSET, untimed=True if catalog.untimed else msgspec.UNSET,
        )  # fmt: skip

    def _groups(
        self, one: ModelSequence, groups: ComparedGroups, key: int, m: int
    ) -> tuple[dict[str, dict[str, Any]], list[tuple[float, float]]]:
        """A key's groups with outcomes, by value of the segment; the intervals of those that count."""
        catalog, table = self._catalog, groups.table
        entities, stream = catalog.columns.entities, catalog.streams[one.about.stream]
        index, slots = stream.config.segments.index(groups.keys[key]), stream.config.segments_per_key + 1
        start = int(entities.segments[one.about.row]) + index * slots
        shown: dict[str, dict[str, Any]] = {}
        bounds: list[tuple[float, float]] = []
        for segment in filter(None, catalog.columns.segment_rows.entity[start : start + slots].tolist()):
            at = int(entities.first[segment]) + one.place
            n = int(table.counted[at, m])
            if not n:
                continue
            group: dict[str, Any] = {"n": n, "value": float(table.total[at, m]) / n}
            if table.judged[at, m]:
                bounds.append((float(table.low[at, m]), float(table.high[at, m])))
                group["difference"] = float(table.excess[at, m] / table.weight[at, m])
                group["interval"] = bounds[-1]
            name = existing(catalog.entity(segment).segment, "a segment's name")
            shown[name[len(groups.keys[key]) + 1 :]] = group
        return shown, bounds


def _reason(shown: dict[str, dict[str, Any]]) -> str:
    """Why there is no verdict."""
    return "few_outcomes" if shown else "no_outcomes"

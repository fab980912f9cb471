"""Messages about disparity between segments (`docs/reference/output-messages.md`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from prequential.configuration.settings.stages import INITIAL
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.disparity import DIFFERS, TOO_FEW, VERDICTS, ComparedGroups
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
            entity, plan = self._catalog.entity(row), self._catalog.plans[entities.plan[row]]
            for index, stage in enumerate(plan.stages if plan.groups is not None else ()):
                sequence = int(entities.first[row]) + index
                if existing(plan.groups, "groups").table.outcomes[sequence] and self._is_reported(
                    entity, stage
                ):
                    yield ModelSequence(plan, entity, index, sequence)

    def _is_reported(self, entity: Entity, stage: str) -> bool:
        is_final = self._catalog.columns.entities.initial_is_final[entity.row] and stage == INITIAL
        return not is_final and self._catalog.streams[entity.stream].reports(stage)

    def messages(self, sequences: Iterable[ModelSequence]) -> list[Encoded]:
        """The messages about models' sequences, as far as their stages are reported."""
        streams = self._catalog.streams
        return [
            Encoded(DISPARITIES, streams[sequence.entity.stream].name, encode(message))
            for sequence in sequences
            if self._is_reported(sequence.entity, sequence.plan.stages[sequence.stage_index])
            for message in self._messages_of(sequence)
        ]  # fmt: skip

    # ---- content of messages

    def statuses(self, streams: Iterable[int]) -> Iterator[Disparity]:
        """The present messages about all models of these streams (codes), for readers of the state."""
        for stream in map(self._catalog.streams.__getitem__, streams):
            if stream.config.disparity is not None:
                for sequence in self.sequences(stream):
                    yield from self._messages_of(sequence)

    def _messages_of(self, sequence: ModelSequence) -> Iterator[Disparity]:
        """The messages about a model's sequence, by key and measure."""
        groups = existing(sequence.plan.groups, "groups")
        for key in range(len(groups.keys)):
            for m in range(len(groups.measures)):
                yield self._message(sequence, groups, key, m)

    def _message(self, sequence: ModelSequence, groups: ComparedGroups, key: int, m: int) -> Disparity:
        catalog, entity, table = self._catalog, sequence.entity, groups.table
        stream, stage = catalog.streams[entity.stream], sequence.plan.stages[sequence.stage_index]
        wanted = existing(stream.config.disparity, "the setting disparity")
        column = key * len(groups.measures) + m
        verdict, outcomes = int(table.verdict[sequence.row, column]), int(table.outcomes[sequence.row])
        shown, bounds = self._groups(sequence, groups, key, m)
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
        ts = int(table.newest[sequence.row])
        subject = (
            stream.name, catalog.partition, entity.model, stage, groups.keys[key], groups.measures[m],
            outcomes, ts, int(table.revised[sequence.row]), *catalog.loss,
        )  # fmt: skip
        same = catalog.same_as(entity.row, stage)
        reason = "few_outcomes" if shown else "no_outcomes"
        return Disparity(
            id=identity(*subject), stream=stream.name, partition=catalog.partition, model=entity.model,
            stage=stage, key=groups.keys[key], measure=groups.measures[m], outcomes=outcomes,
            ts=ts, groups=shown, largest=largest
            if smallest is not None else None,
            smallest=smallest, difference=difference, ratio=ratio, interval=interval, level=wanted.level,
            tolerance=wanted.tolerance, verdict=VERDICTS[verdict],
            since=int(table.since[sequence.row, column]) if verdict == DIFFERS else None,
            reason=reason if verdict == TOO_FEW else msgspec.UNSET, config=stream.config.digest,
            same=same or msgspec.UNSET, untimed=True if catalog.untimed else msgspec.UNSET,
        )  # fmt: skip

    def _groups(
        self, sequence: ModelSequence, groups: ComparedGroups, key: int, m: int
    ) -> tuple[dict[str, dict[str, Any]], list[tuple[float, float]]]:
        """A key's groups with outcomes, by value of the segment; the intervals of those that count."""
        catalog, table = self._catalog, groups.table
        entities, stream = catalog.columns.entities, catalog.streams[sequence.entity.stream]
        index, slots = stream.config.segments.index(groups.keys[key]), stream.config.segments_per_key + 1
        start = int(entities.segments[sequence.entity.row]) + index * slots
        shown: dict[str, dict[str, Any]] = {}
        bounds: list[tuple[float, float]] = []
        for segment in filter(None, catalog.columns.segment_rows.entity[start : start + slots].tolist()):
            row = int(entities.first[segment]) + sequence.stage_index
            n = int(table.counted[row, m])
            if not n:
                continue
            group: dict[str, Any] = {"n": n, "value": float(table.total[row, m]) / n}
            if table.judged[row, m]:
                bounds.append((float(table.low[row, m]), float(table.high[row, m])))
                group["difference"] = float(table.excess[row, m] / table.weight[row, m])
                group["interval"] = bounds[-1]
            name = existing(catalog.entity(segment).segment, "a segment's name")
            shown[name[len(groups.keys[key]) + 1 :]] = group
        return shown, bounds

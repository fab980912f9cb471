"""Messages about disparity: the segments of a key as groups, their values, and whether they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
from prequential.configuration.settings.stages import INITIAL
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.disparity import DIFFERS, TOO_FEW, VERDICTS
from prequential.engine.disparity.following import ComparedGroups
from prequential.engine.outbox import Outbox
from prequential.engine.tables.logs import OUTCOMES, Logs
from prequential.topics.disparities import Disparity
from prequential.topics.errors import existing
from prequential.topics.outputs import Encoded, encode, identity
from prequential.topics.specs import DISPARITIES


class ModelSequence(NamedTuple):
    """A model's sequence in a stage, whose groups are compared."""

    plan: Plan
    about: Entity
    place: int  # of the stage
    row: int


class DisparityReporter:
    """Lets the groups of a shard follow the outcome log, and makes the messages about them."""

    def __init__(self, catalog: Catalog, outbox: Outbox) -> None:
        self._catalog, self._outbox = catalog, outbox

    def consume(self, logs: Logs) -> list[Encoded]:
        """Take over what the outcome log has; messages about verdicts that begin or end, in its order."""
        catalog, messages = self._catalog, list[tuple[int, list[Encoded]]]()
        for plan in catalog.plans:
            if plan.groups is None:
                continue
            log = logs.outcomes
            rows = np.flatnonzero(log.plan[: int(logs.used[OUTCOMES])] == plan.number).astype(np.int32)
            positives = catalog.positives(plan) if len(rows) else None
            while len(rows):
                done, due = plan.groups.consume(log, rows, catalog.registry, existing(positives, "positives"))
                if due >= 0:
                    about = catalog.entity(int(plan.entity[due]))
                    first = int(catalog.columns.entities.first[about.row])
                    one = ModelSequence(plan, about, due - first, due)
                    messages.append((int(rows[done - 1]), self._report([one])))
                rows = rows[done:]
        return [message for _, some in sorted(messages, key=lambda one: one[0]) for message in some]

    def news(self, is_due: Callable[[StreamConfig], bool]) -> list[Encoded]:
        """Messages about groups with outcomes since their last messages, of streams that are due."""
        return self._report(list(self._with_news(is_due)))

    def has_news(self, is_due: Callable[[StreamConfig], bool]) -> bool:
        """Whether there is anything that `news` has messages about."""
        return next(self._with_news(is_due), None) is not None

    def of_all(self, stream: Stream) -> list[Encoded]:
        """Messages about all models of a stream with outcomes, at the end of a replay."""
        return self._report(list(self._sequences(stream)))

    def _with_news(self, is_due: Callable[[StreamConfig], bool]) -> Iterator[ModelSequence]:
        for stream in self._catalog.streams:
            if stream.config.disparity is not None and is_due(stream.config):
                for one in self._sequences(stream):
                    table = existing(one.plan.groups, "groups").table
                    if table.outcomes[one.row] != table.reported[one.row]:
                        yield one

    def _sequences(self, stream: Stream) -> Iterator[ModelSequence]:
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

    def _report(self, sequences: list[ModelSequence]) -> list[Encoded]:
        messages = []
        for one in sequences:
            table = existing(one.plan.groups, "groups").table
            table.reported[one.row] = table.outcomes[one.row]
            if self._outbox.is_open and self._is_reported(one.about, one.plan.stages[one.place]):
                name = self._catalog.streams[one.about.stream].name
                messages += [Encoded(DISPARITIES, name, encode(said)) for said in self.messages_of(one)]
        return messages

    # ---- content of messages

    def statuses(self, streams: Iterable[int]) -> Iterator[Disparity]:
        """The present messages about all models of these streams (codes), for readers of the state."""
        for stream in map(self._catalog.streams.__getitem__, streams):
            if stream.config.disparity is not None:
                for one in self._sequences(stream):
                    yield from self.messages_of(one)

    def messages_of(self, one: ModelSequence) -> Iterator[Disparity]:
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

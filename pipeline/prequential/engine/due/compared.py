"""Which pairs of models, and groups of segments, have messages due: by outcomes, by time, after a silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_of_plan
from prequential.engine.catalog.streams import Stream
from prequential.engine.comparisons.pairing import Pairing
from prequential.engine.comparisons.reporting import ComparisonReporter
from prequential.engine.facts import ComparisonsDue, DueReport, GroupsDue, ModelSequence
from prequential.engine.output.disparities import DisparityReporter
from prequential.engine.tables.logs import OUTCOMES, Logs
from prequential.topics.errors import existing


class DuePairs:
    """Lets a shard's pairs follow the outcome log, and marks sequences of pairs as reported."""

    def __init__(self, catalog: Catalog, pairing: Pairing, reporter: ComparisonReporter) -> None:
        self._catalog, self._pairing, self._reporter = catalog, pairing, reporter

    def follow(self, logs: Logs) -> Iterator[ComparisonsDue]:
        """Let the pairing take over the outcome log; its outcomes make sequences due."""
        for due in self._pairing.consume(logs):
            yield from self._report(due)

    def news(self, is_due: Callable[[StreamConfig], bool]) -> Iterator[ComparisonsDue]:
        """Report sequences with joint outcomes since their last messages, of streams that are due."""
        yield from self._report(list(self._with_news(is_due)))

    def has_news(self, is_due: Callable[[StreamConfig], bool]) -> bool:
        """Whether there is anything that `news` reports."""
        return next(self._with_news(is_due), None) is not None

    def _with_news(self, is_due: Callable[[StreamConfig], bool]) -> Iterator[DueReport]:
        for one in self._pairing.unreported_sequences():
            if is_due(self._catalog.streams[self._reporter.pair_of(one).a.stream].config):
                yield one

    def all_of(self, stream: Stream) -> Iterator[ComparisonsDue]:
        """Report all pairs of a stream that have joint outcomes, at the end of a replay."""
        pairing, reports = self._pairing, list[DueReport]()
        revisions = self._catalog.columns.entities.revisions
        for pair in {pair for row in stream.entities for pair in pairing.by_entity.get(row, ())}:
            known = self._reporter.known(pair)
            revised = int(revisions[known.a.row]), int(revisions[known.b.row])
            sides = pairing.tables[known.number].sides
            reports += [
                DueReport(known.number, side, row, 0, revised)
                for side, row in known.at if sides[side].columns.n[row]
            ]  # fmt: skip
        yield from self._report(reports)

    def _report(self, reports: list[DueReport]) -> Iterator[ComparisonsDue]:
        """Mark these sequences as reported."""
        for one in reports:
            self._pairing.tables[one.number].sides[one.side].report(one.row)
        if reports:
            yield ComparisonsDue(reports)


class DueGroups:
    """Lets the groups of a shard's models follow the outcome log, and marks models as reported."""

    def __init__(self, catalog: Catalog, reporter: DisparityReporter) -> None:
        self._catalog, self._reporter = catalog, reporter

    def follow(self, logs: Logs) -> Iterator[GroupsDue]:
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
                    about = catalog.entity(int(plan.entity[due]))
                    first = int(catalog.columns.entities.first[about.row])
                    yield _report([ModelSequence(plan, about, due - first, due)], int(rows[done - 1]))
                rows = rows[done:]

    def news(self, is_due: Callable[[StreamConfig], bool]) -> Iterator[GroupsDue]:
        """Report models with outcomes since their last messages, of streams that are due."""
        if sequences := list(self._with_news(is_due)):
            yield _report(sequences)

    def has_news(self, is_due: Callable[[StreamConfig], bool]) -> bool:
        """Whether there is anything that `news` reports."""
        return next(self._with_news(is_due), None) is not None

    def all_of(self, stream: Stream) -> Iterator[GroupsDue]:
        """Report all models of a stream with outcomes, at the end of a replay."""
        if sequences := list(self._reporter.sequences(stream)):
            yield _report(sequences)

    def _with_news(self, is_due: Callable[[StreamConfig], bool]) -> Iterator[ModelSequence]:
        for stream in self._catalog.streams:
            if stream.config.disparity is not None and is_due(stream.config):
                for one in self._reporter.sequences(stream):
                    table = existing(one.plan.groups, "groups").table
                    if table.outcomes[one.row] != table.reported[one.row]:
                        yield one


def _report(sequences: list[ModelSequence], after: int = 0) -> GroupsDue:
    """Mark these models' sequences as reported."""
    for one in sequences:
        table = existing(one.plan.groups, "groups").table
        table.reported[one.row] = table.outcomes[one.row]
    return GroupsDue(sequences, after)

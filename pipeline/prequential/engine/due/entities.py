"""Which entities have messages due, and their marks: what was reported, and since when a model is worse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.delay import maturity
from prequential.engine.facts import MetricsDue
from prequential.engine.measures.registry import INDEX
from prequential.engine.output.estimates import States, state_of
from prequential.engine.output.messages import Reporter
from prequential.engine.state import ShardState

#: The measures that are baselines' accuracies.
_REFERENCES = {"persistent": INDEX["p_per"], "majority": INDEX["p_maj"]}
_ACCURACY = INDEX["accuracy"]


class DueEntities:
    """Marks entities of a shard as reported."""

    def __init__(self, state: ShardState, reporter: Reporter) -> None:
        self._catalog, self._accounts, self._notes = state.catalog, state.accounts, state.notes
        self._reporter = reporter

    def unreported_among(self, rows: Sequence[int]) -> list[int]:
        """The entities among these with outcomes or revisions since their last messages, in this order."""
        known = self._notes.reported
        return [row for row, counts in zip(rows, self._present(rows)) if known.get(row, (0, 0)) != counts]

    def _present(self, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
        """`outcomes` and `revisions` of entities."""
        entities = self._catalog.columns.entities
        return zip(entities.outcomes[rows].tolist(), entities.revisions[rows].tolist())

    def report(self, rows: Sequence[int], *, covered: bool = False) -> MetricsDue:
        """Mark these entities as reported in their present state.

        It also notes since when models are worse than baselines. `covered`: all records so far are accounted
        for, so label maturity curves are brought up to date.
        """
        catalog = self._catalog
        if covered and (models := self._reporter.covered(rows)):
            maturity.update(self._accounts.coverage, *self._reporter.with_clocks(models.values()))
        self._notes.reported.update(zip(rows, self._present(rows)))
        catalog.columns.entities.changed[rows] = 0
        compared = [
            row for row in rows
            if "worse_than_baseline" in catalog.streams[catalog.entity(row).stream].config.details
        ]  # fmt: skip
        if compared:
            states = self._reporter.of_estimators.states(compared)
            for row in compared:
                about = catalog.entity(row)
                self._note_worse(row, about, catalog.streams[about.stream], states)
        return MetricsDue(rows, covered)

    def _note_worse(self, row: int, about: Entity, stream: Stream, states: States) -> None:
        """Note at which estimates it is worse than a baseline, and since when."""
        before, ts = self._notes.worse.get(row, {}), int(self._catalog.columns.entities.newest_ts[row])
        worse = {}
        for line in self._reporter.of_estimators.lines(row, about, stream).all:
            if line.chance:
                continue
            state = state_of(states, row, line, stream.config.alpha)
            for baseline, reference in _REFERENCES.items():
                defined = not state.reasons[_ACCURACY] and not state.reasons[reference]
                if defined and state.values[_ACCURACY] < state.values[reference]:
                    key = line.stage, line.estimator, baseline
                    worse[key] = before.get(key, ts)
        self._notes.worse[row] = worse

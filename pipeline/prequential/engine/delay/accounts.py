"""The tables that follow the join's log of events: outcomes of predictions, and arrival of labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Ints, grown, with_tables
from prequential.engine.delay import coverage, expected, following, latency, periods, selection
from prequential.engine.delay.calendars import PeriodSettings
from prequential.engine.tables.logs import EVENTS, LATENCIES, SEGMENT_EVENTS, Logs
from prequential.engine.tables.rows import StateTable

#: The parts in snapshots, by the prefix of their arrays' names.
_PARTS = {
    "coverage": coverage, "selection": selection, "periods": periods, "latencies": latency,
    "expected": expected,
}  # fmt: skip

#: Measures that show that labels are a sample.
_WEIGHTED = frozenset({"ipw_accuracy", "ipw_n"})

#: Measures of the ranks of scores.
_RANKED = frozenset({"auc", "pr_auc"})


def samples(config: StreamConfig) -> bool:
    """Whether labels are a sample, with propensities."""
    # If each instance gets a label, labels are no sample.
    of_classes = config.task != "regression" and config.label_at_horizon is None
    return of_classes and not _WEIGHTED.isdisjoint(config.measures)


def ranks(config: StreamConfig) -> bool:
    """Whether outcomes of periods are ranked by their scores."""
    return config.task != "regression" and not _RANKED.isdisjoint(config.measures)


class Accounts:
    """Coverage, selection, periods and latencies of a shard; rows are entities, segments and streams."""

    def __init__(self) -> None:
        self.coverage = coverage.new_coverage()
        self.selection = selection.new_selection()
        self.periods = periods.new_periods()
        self.expected = expected.new_expected()
        #: Whether any model has periods, and whether any has estimates: without them events aren't read.
        self.has_periods = self.expects = False
        self.latencies = latency.new_latencies()
        #: By how much labels were later than the horizon, since the start of the process.
        self.late_latencies = latency.new_latencies()

    # ---- rows

    def ensure(self, streams: int, entities: int, segments: int) -> None:
        """Make room for these numbers of streams, entities and (model, segment) pairs."""
        self.latencies = latency.with_streams(self.latencies, streams)
        self.late_latencies = latency.with_streams(self.late_latencies, streams)
        self.selection = selection.with_rows(self.selection, entities, segments)
        self.periods = self.periods._replace(models=grown(self.periods.models, entities))
        self.expected = self.expected._replace(models=grown(self.expected.models, entities))

    def add(self, rows: Sequence[int], config: StreamConfig, at_horizon: int) -> None:
        """Begin the accounts of entities (their rows), of a stream with this configuration.

        `at_horizon`: 1 + the class of instances without a label by the horizon; 0: they expire.
        """
        self.coverage = coverage.with_models(self.coverage, rows, config.label_horizon)
        if config.period is None:
            return
        sampled = samples(config)
        settings = PeriodSettings(
            config.period, config.label_horizon, config.settle, config.task == "regression", ranks(config),
            config.period_zone,
        )  # fmt: skip
        for row in rows:
            self.has_periods, self.expects = True, self.expects or config.expected
            # The number of a sample's labels isn't known in advance: all have come only after the horizon.
            final_at = inf if sampled and config.expected else config.period_final_at
            self.periods, _ = periods.with_model(
                self.periods, row, settings, final_at=final_at, valued=config.cost_per_value
            )
            if config.expected:
                self.expected, _ = expected.with_model(
                    self.expected, row, settings, binned=True,
                    scored=not {"log_loss", "brier"}.isdisjoint(config.measures),
                    sampled=sampled, at_horizon=at_horizon,
                )  # fmt: skip

    def forget(self, entities: Sequence[int], segments: Ints) -> None:
        """Drop the data of these entities, and empty these rows of segments, (n,) int64."""
        self.coverage = coverage.forget(self.coverage, entities)
        self.selection = selection.forget(self.selection, entities, segments)
        self.periods = periods.without(self.periods, np.array(entities, dtype=np.int64))
        self.expected = expected.without(self.expected, np.array(entities, dtype=np.int64))

    # ---- events

    def consume(self, logs: Logs) -> None:
        """Take over all rows of the logs: events, events in segments, and latencies."""
        used = logs.used
        if count := used[EVENTS]:
            self.coverage = coverage.update(self.coverage, logs.events, 0, count)
            self.selection = selection.update(self.selection, logs.events, 0, count)
            if self.has_periods:
                self.periods = periods.update(self.periods, logs.events, 0, count)
            if self.expects:
                self.expected = following.update(self.expected, logs.events, 0, count)
        if used[SEGMENT_EVENTS]:
            selection.count_segments(self.selection, logs.segment_events, 0, used[SEGMENT_EVENTS])
        if count := int(used[LATENCIES]):
            log = logs.latencies
            # Copy the columns: else loops would be compiled twice, for strided and for contiguous arrays.
            streams, latencies, clocks = (
                column[:count].copy() for column in (log.stream, log.latency, log.clock)
            )
            late = log.late[:count] > 0
            if late.any():
                self.late_latencies = latency.update(
                    self.late_latencies, streams[late], latencies[late], clocks[late]
                )
                streams, latencies, clocks = streams[~late], latencies[~late], clocks[~late]
            self.latencies = latency.update(self.latencies, streams, latencies, clocks)

    # ---- as a whole

    def tables(self) -> Iterator[StateTable]:
        """All tables that are state, of all accounts, with the key of their rows."""
        for name, part in _PARTS.items():
            yield from part.tables(getattr(self, name))

    def load(self, arrays: Mapping[str, Any]) -> None:
        """Take over a snapshot's arrays by the names of `tables`; raises KeyError if one is missing."""
        own = {name: array.copy() for name, array in arrays.items() if name.partition("|")[0] in _PARTS}
        for name in _PARTS:
            setattr(self, name, with_tables(getattr(self, name), own, f"{name}|"))

    def part(self, models: Ints, segments: Ints, streams: Ints) -> Accounts:
        """A read-only copy of the data of these models, segments and streams (rows, (n,) int64).

        It has coverage, selection, and the latencies of labels within the horizon: charts show no others.
        """
        part = Accounts()
        part.coverage = coverage.part(self.coverage, models)
        part.selection = selection.part(self.selection, models, segments)
        part.latencies = latency.part(self.latencies, streams)
        return part

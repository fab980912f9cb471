"""What a worker shows of its state: Prometheus metrics at scrape time.

The event loop that runs the shards makes copies, one part at a time. The thread of the scrape computes the
samples from the copies and writes them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from prequential.configuration.settings.model import Config
from prequential.engine.shard import Shard
from prequential.engine.snapshot import read_snapshot
from prequential.engine.snapshot.read_snapshot import ReadSnapshot, SnapshotPart
from prequential.runtime.kafka.fetching import Fetcher
from prequential.runtime.program import VERSION
from prequential.runtime.worker.publisher import DURATION_BOUNDS
from prequential.runtime.worker.runner import ShardRunner
from prequential.runtime.worker.scrape import Scrape
from prequential.runtime.worker.series import add_disparities, add_expectations, add_merged
from prequential.topics.specs import INPUTS
from prequential.web.http import Family, labels

if TYPE_CHECKING:
    from prequential.runtime.worker.merging import Merging
    from prequential.runtime.worker.runner import ShardRunner

log = logging.getLogger(__name__)


#: Calls a function in the event loop that runs the shards, and returns its result.
InLoop = Callable[[Callable[[], Any]], Any]

#: Names of the durations in a shard's statistics, by metric name.
_DURATIONS = {
    "batch_processing_seconds": "processing",
    "transaction_seconds": "transactions",
    "snapshot_seconds": "snapshots",
    "snapshot_stall_seconds": "stall",
}


class Exporter:
    """Writes the metrics of a worker's shards."""

    def __init__(
        self, config: Config, fetcher: Fetcher, runners: dict[int, ShardRunner],
        merging: Merging | None = None,
    ) -> None:  # fmt: skip
        self._config, self._merging, self._fetcher, self._runners = config, merging, fetcher, runners
        self._http = config.http
        objectives = (
            stream_config.objective
            for stream_config in (config.defaults, *config.streams.values())
            if stream_config.objective
        )
        asked = frozenset(config.http.measures).union(*(stream_config.bounds for stream_config in objectives))
        self._scored = read_snapshot.needs_sums(asked)

    def text(self, in_loop: InLoop) -> str:
        """Return all metrics; call it in a thread that may wait for the event loop."""
        scrape = Scrape(self._http, self._config.group)
        scraped: list[tuple[ShardRunner, list[SnapshotPart]]] = in_loop(partial(self._begin, scrape))
        for runner, parts in scraped:
            for part in parts:
                snapshot = in_loop(partial(self._take, scrape, runner, part))
                if snapshot is not None:
                    scrape.add(snapshot)
        if self._merging is not None:
            add_merged(scrape.families, self._merging, self._config)
        return scrape.text()

    # ---- in the event loop

    def _begin(self, scrape: Scrape) -> list[tuple[ShardRunner, list[SnapshotPart]]]:
        """Add the samples of whole shards, and return each shard with its parts."""
        runners = list(self._runners.values())
        self._shards(scrape.families, runners)
        settings = {"scored": self._scored, "segments": self._http.segments}
        return [
            (runner, list(read_snapshot.parts(runner.shard.state, **settings)))
            for runner in runners
            if self._is_shown(runner)
        ]

    def _newest(self, families: dict[str, Family], shard: Shard, streams: list[int]) -> None:
        """Add when the newest labels of these streams and the newest predictions of their models arrived."""
        catalog = shard.catalog
        for stream in map(catalog.streams.__getitem__, streams):
            label_text = labels(stream=stream.name, partition=catalog.partition)
            if came := _at(shard.state.newest_labels, stream.code):
                families["newest_label_timestamp_seconds"].add(label_text, came / 1000)
            for model, row in stream.models.items():
                if came := _at(shard.state.newest_predictions, row):
                    of_model = f"{label_text},{labels(model=model)}"
                    families["newest_prediction_timestamp_seconds"].add(of_model, came / 1000)

    def _is_shown(self, runner: ShardRunner) -> bool:
        # While a shard is being restored, its numbers are from the past: a counter would seem to fall.
        return not runner.recovering and self._runners.get(runner.partition) is runner

    def _take(self, scrape: Scrape, runner: ShardRunner, part: SnapshotPart) -> ReadSnapshot | None:
        """Return copies of a part; None if the shard has left in the meantime."""
        if not self._is_shown(runner):
            return None
        self._newest(scrape.families, runner.shard, part.streams.tolist())
        shard = runner.shard
        streams = shard.catalog.streams

        def shows(stage: str, code: int, same: list[str]) -> bool:
            return self._http.shows_stage(stage, streams[code].config, same)

        of_part = scrape.families, shard.catalog
        add_expectations(scrape.families, shard, part.streams.tolist())
        add_disparities(*of_part, shard.disparities, part.streams.tolist(), self._http)
        comparisons = shard.comparisons
        return read_snapshot.take(shard.state, comparisons, part, scored=self._scored, shows=shows)

    def _shards(self, families: dict[str, Family], runners: list[ShardRunner]) -> None:
        for runner in runners:
            for kind, topic in enumerate(INPUTS):
                label_text = labels(topic=self._config.kafka.topic(topic), partition=runner.partition)
                families["records_total"].add(label_text, runner.statistics.records[kind])
                families["misplaced_records_total"].add(label_text, runner.shard.misplaced[kind])
                end = self._fetcher.ends.get((kind, runner.partition))
                if end is not None:
                    families["lag_records"].add(label_text, max(0, end - runner.shard.merge.vector[kind]))
                if (age := runner.open_transactions[kind].age) is not None:
                    families["open_transaction_seconds"].add(label_text, age)
                if not runner.recovering:
                    families["dead_letters_total"].add(label_text, runner.shard.state.dead_letters[kind])
                    families["quarantined_records_total"].add(
                        label_text, runner.shard.state.quarantined[kind]
                    )
                    families["lost_records_total"].add(label_text, runner.shard.catalog.lost[kind])
            if runner.halted is not None:
                families["shard_halted"].add(labels(partition=runner.partition), 1)
            families["snapshot_bytes"].add(
                labels(partition=runner.partition), runner.statistics.snapshot_bytes
            )
        for name, attribute in _DURATIONS.items():
            durations = [getattr(runner.statistics, attribute) for runner in runners]
            none = [0] * (len(DURATION_BOUNDS) + 1)
            counts = [sum(bins) for bins in zip(none, *(duration.counts for duration in durations))]
            total = float(sum(duration.total for duration in durations))
            families[name].add_buckets("", DURATION_BOUNDS, counts, total)
        states = Counter(_state(runner) for runner in runners)
        for state in ("running", "recovering", "halted"):
            families["shards"].add(labels(state=state), states[state])
        families["build_info"].add(labels(version=VERSION), 1)
        families["config_info"].add(labels(config=self._config.digest), 1)


def _at(column: Any, row: int) -> int:
    return int(column[row]) if row < len(column) else 0


def _state(runner: ShardRunner) -> str:
    if runner.halted is not None:
        return "halted"
    return "recovering" if runner.recovering else "running"

"""The product in the benchmark: its worker with the default configuration, durability and all.

`python -m tests.bench.prequential_worker --bootstrap-servers ADDR --prefix P --records N [--case NAME]`
A case (`tests.bench.cases`) brings settings of its own for streams; with `--only-metrics` it says what peers
say, and nothing else: no comparisons, no alarms. Loops are compiled before anything else.
The clock stops when the transaction with the last outputs and the journal has been committed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from prequential.cli.worker import quiet_collector
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config, WorkerConfig
from prequential.engine.shard import Shard
from prequential.runtime.compilation import compile_loops
from prequential.runtime.kafka.fetching import Fetched
from prequential.runtime.worker.app import Worker
from prequential.runtime.worker.batches import Content
from prequential.runtime.worker.runner import ShardRunner
from prequential.topics.clients import KafkaConfig
from prequential.topics.outputs import Metrics, decoded

from tests.bench.cases import CASES, QUIET
from tests.bench.feeding import models_of
from tests.bench.peer import Peer

#: Seconds between looks whether everything is processed and published: of a run as fast as possible, whose
#: time is measured, and of one in real time, of which only the CPU time is, to which looks contribute.
_LOOK, _LOOK_IN_REAL_TIME = 0.005, 0.25

#: What the last snapshot may take, when all has been measured: millions of instances are remembered.
_STOP_WITHIN_MS = 300_000


class TimedWorker(Worker):
    """The worker, and a note of when its first record came."""

    def __init__(self, config: Config, peer: Peer) -> None:
        super().__init__(config)
        self._peer = peer
        self._began = False

    def _feed(self, batch: Fetched, runner: ShardRunner | None, content: Content | None) -> None:
        if batch.records is not None and not self._began:
            self._began = True
            self._peer.start()
        super()._feed(batch, runner, content)

    @property
    def done(self) -> bool:
        """Whether all records are processed, and published what came of them."""
        runners = self.runners.values()
        fetched = sum(sum(runner.statistics.records) for runner in runners)
        taken = fetched - sum(sum(runner.shard.merge.buffered) for runner in runners)
        return taken >= self._peer.records and all(runner.published for runner in runners)


def outcomes(shards: Iterable[Shard]) -> int:
    """Outcomes of all models."""
    return sum(
        int(shard.catalog.columns.entities.outcomes[row]) for shard in shards for row in models_of(shard)
    )


def accuracy(shards: Iterable[Shard]) -> dict[str, float]:
    """Accuracy of each model's final predictions over the whole history; numbers have none."""
    return {
        f"{message.stream}/{message.model}": message.measures["accuracy"]
        for shard in shards
        for message in map(decoded, shard.reporter.metrics(models_of(shard)))
        if isinstance(message, Metrics)
        and (message.stage, message.estimator) == ("final", "all")
        and "accuracy" in message.measures
    }


async def main(peer: Peer) -> None:
    """Run the worker until everything is published."""
    defaults = CASES[peer.case].config
    if peer.only_metrics:
        peer.name = "prequential-metrics"
        defaults = replace(defaults, compare="off", detectors=())
    config = Config(
        kafka=KafkaConfig(peer.bootstrap_servers, prefix=peer.prefix),
        defaults=defaults,
        http=HttpConfig(port=peer.http_port),
        worker=WorkerConfig(group=peer.group, stop_within=_STOP_WITHIN_MS),
    )
    worker = TimedWorker(config, peer)
    running = asyncio.ensure_future(worker.run())
    look = _LOOK_IN_REAL_TIME if peer.case == QUIET else _LOOK
    while not worker.done and not running.done():
        await asyncio.sleep(look)
    if running.done():
        running.result()
    peer.stop()
    runners = worker.runners.values()
    shards = [runner.shard for runner in runners]
    # Of each shard that has anything to snapshot.
    counts = [sum(one.statistics.snapshots.counts) for one in runners if any(one.shard.merge.vector)]
    peer.report(outcomes(shards), accuracy(shards), snapshots=min(counts, default=0))
    os.kill(os.getpid(), signal.SIGTERM)
    with suppress(asyncio.CancelledError):
        await running


if __name__ == "__main__":
    asked = Peer.from_command_line("prequential", __doc__, CASES)
    # Before the worker joins its group, as the product does.
    compile_loops(partial(print, file=sys.stderr), Config(defaults=CASES[asked.case].config))
    quiet_collector()
    asyncio.run(main(asked))
    os._exit(0)

"""The product in the benchmark: its worker with the default configuration, durability and all.

`python -m tests.bench.prequential_worker --bootstrap-servers ADDR --prefix P --records N`
The clock stops when the transaction with the last outputs and the journal has been committed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

from prequential.cli.worker import quiet_collector
from prequential.config import Config, HttpConfig, WorkerConfig
from prequential.topics.clients import KafkaConfig
from prequential.worker.app import Worker
from prequential.worker.fetching import Fetched

from tests.bench.peer import Peer

#: Seconds between looks whether everything is processed and published.
_LOOK = 0.005


class TimedWorker(Worker):
    """The worker, and a note of when its first record came."""

    def __init__(self, config: Config, peer: Peer) -> None:
        super().__init__(config)
        self._peer = peer
        self._began = False

    def _feed(self, batch: Fetched) -> None:
        if batch.messages and not self._began:
            self._began = True
            self._peer.start()
        super()._feed(batch)

    @property
    def done(self) -> bool:
        """Whether all records are processed, and published what came of them."""
        runners = self.runners.values()
        taken = sum(sum(runner.shard.merge.cut) for runner in runners)
        return taken >= self._peer.records and all(runner.published for runner in runners)

    def accuracy(self) -> dict[str, float]:
        """Accuracy of each model's final predictions over the whole history."""
        found = {}
        for runner in self.runners.values():
            for stream in runner.shard.streams.values():
                for model in stream.by_code:
                    for message in stream.metrics(model):
                        if (message.stage, message.estimator) == ("final", "all"):
                            found[model.name] = message.measures["accuracy"]
        return found

    def outcomes(self) -> int:
        """Outcomes of all models."""
        return sum(
            model.outcomes
            for runner in self.runners.values()
            for stream in runner.shard.streams.values()
            for model in stream.by_code
        )


async def main(peer: Peer) -> None:
    """Run the worker until everything is published."""
    config = Config(
        kafka=KafkaConfig(peer.bootstrap_servers, prefix=peer.prefix),
        http=HttpConfig(port=0),
        worker=WorkerConfig(group=peer.group),
    )
    worker = TimedWorker(config, peer)
    running = asyncio.ensure_future(worker.run())
    while not worker.done and not running.done():
        await asyncio.sleep(_LOOK)
    if running.done():
        running.result()
    peer.stop()
    peer.report(worker.outcomes(), worker.accuracy())
    os.kill(os.getpid(), signal.SIGTERM)
    with suppress(asyncio.CancelledError):
        await running


if __name__ == "__main__":
    quiet_collector()
    asyncio.run(main(Peer.from_command_line("prequential", __doc__)))
    os._exit(0)

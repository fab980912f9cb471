"""Chaos: a stream goes on while its workers, and now and then the broker, are struck.

`python tests/worker/chaos.py --minutes 10 --seed 3` strikes for ten minutes, and then demands that
every message was published exactly once and is, digit for digit, what a replay of the topics says.
What strikes, whom and when follows from the seed; what is hit in the middle of what does not.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

if __name__ == "__main__":  # pytest does this through conftest.py
    _TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(_TESTS.parent), str(_TESTS)]

from comparison import assert_as_replayed
from processes import HANGS, WorkerProcess, await_published, eventually, write_config
from workload import HORIZON, SETTLE, Feeder, records

from tests.brokers import Broker, launch
from topics.admin import create
from topics.clients import KafkaConfig
from topics.specs import topic_specs

#: Seconds without a heartbeat after which the group gives a worker's shards to others, and for how
#: long a frozen worker stays so: long enough that it wakes up without its shards.
SESSION_SECONDS = 6.0
FROZEN_SECONDS = 9.0

#: Seconds within which a worker that is told to stop must have stopped.
_STOP_SECONDS = 10.0

#: Workers at most: they, the broker and the stream share few cores.
_MOST_WORKERS = 3

#: What a worker's log says once it takes part in its group, and if it couldn't reach the broker.
_UP = "shards of this worker"
_UNREACHABLE = "no Kafka broker answered"

#: Records a second of the stream.
RATE = 2_000

#: What workers under chaos are configured with: messages, alarms, transactions and snapshots so
#: often that every strike is in the middle of something.
DEFAULTS = {
    "estimators": ["all", "window:100", "fading:0.99"],
    "label_horizon": HORIZON,
    "settle": SETTLE,
    "emit": {"outcomes": 100, "every": "1s"},
    "detectors": [
        {"detector": "page-hinkley", "signal": "error", "lambda": 10},
        {"detector": "page-hinkley", "signal": "fading:0.9/fading:0.99", "delta": 0.1, "lambda": 20},
    ],
}
WORKER = {
    "session_timeout": f"{SESSION_SECONDS:.0f}s",
    "commit_every": "100ms",
    "snapshot_every": "1s",
}


class Flock:
    """The workers of one group, and what may happen to them.

    A worker that ends although nothing struck it, or that doesn't stop when it is told to, is an
    AssertionError of the next call, with its log.
    """

    def __init__(self, config: Path, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._frozen: dict[WorkerProcess, float] = {}  # when each is to be thawed
        self._leaving: dict[WorkerProcess, float] = {}  # when each must have ended
        self.running: list[WorkerProcess] = []
        self.strikes: list[str] = []

    def start(self) -> None:
        """One worker more, unless there are enough."""
        if len(self.running) < _MOST_WORKERS:
            self.running.append(WorkerProcess(self._config))
            self.strikes.append("start")

    def kill(self) -> None:
        """kill -9, and a successor."""
        self._one("kill").kill()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP for longer than the session lasts."""
        if not self._frozen:
            worker = self._one("freeze")
            worker.freeze()
            self._frozen[worker] = time.monotonic() + FROZEN_SECONDS
            self.start()

    def leave(self) -> None:
        """SIGTERM, once the worker is up (before that it has no say in its exit status)."""
        up = [worker for worker in self.running if _UP in worker.log]
        if up:
            worker = self._one("leave", up)
            worker.terminate()
            self._leaving[worker] = time.monotonic() + _STOP_SECONDS
            self.start()

    def look(self) -> None:
        """Thaw whose time has come, and see whether all is well."""
        now = time.monotonic()
        for worker, due in list(self._frozen.items()):
            if now >= due:
                self.thaw(worker)
        for worker in list(self.running):
            if worker.status == 1 and _UNREACHABLE in worker.log and _UP not in worker.log:
                # The broker was away while it started: its supervisor tries again.
                self.running.remove(worker)
                self.start()
                continue
            assert worker.status is None, f"a worker ended with {worker.status}:\n{worker.log}"
        for worker, deadline in list(self._leaving.items()):
            if worker.status is None:
                assert now < deadline, f"it is told to stop and doesn't:\n{worker.log}"
            else:
                assert worker.status == 0, f"a worker stopped with {worker.status}:\n{worker.log}"
                del self._leaving[worker]

    def settle(self) -> None:
        """No more strikes: thaw all, and wait for those that leave."""
        for worker in list(self._frozen):
            self.thaw(worker)

        def settled() -> bool:
            self.look()
            return not self._leaving

        eventually("those that were told to stop have stopped", settled)

    def thaw(self, worker: WorkerProcess) -> None:
        """SIGCONT: it wakes up as one that has lost its shards, and doesn't know it yet."""
        del self._frozen[worker]
        worker.thaw()
        self.running.append(worker)
        self.strikes.append("thaw")

    def __enter__(self) -> Flock:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self.running, *self._frozen, *self._leaving):
            worker.kill()

    def _one(self, strike: str, among: list[WorkerProcess] | None = None) -> WorkerProcess:
        self.strikes.append(strike)
        worker = self._rng.choice(among or self.running)
        self.running.remove(worker)
        return worker


def strike(
    kafka: KafkaConfig,
    folder: Path,
    rng: random.Random,
    strikes: Iterator[tuple[float, Callable[[Flock], None]]],
    tell: Callable[[str], None] = lambda line: None,
) -> None:
    """Let a stream go on while `strikes` (pause in s before each, strike) happen; then compare.

    1. Two workers, and a stream of `RATE` records a second.
    2. The strikes.
    3. The stream ends; the workers that are left process all of it.
    4. Compare with the replay.
    """
    config = write_config(folder, kafka, defaults=DEFAULTS, worker=WORKER)
    stream = records(rng.randrange(1 << 30), 10**9, streams=8)
    with Flock(config, rng) as flock:
        flock.start()  # step 1
        flock.start()
        with Feeder(kafka, stream, RATE) as feeder:
            for pause, hit in strikes:  # step 2
                until = time.monotonic() + pause
                while time.monotonic() < until:
                    flock.look()
                    time.sleep(0.05)
                before = len(flock.strikes)
                hit(flock)
                tell(f"{feeder.sent:9,} records; {', '.join(flock.strikes[before:]) or '-'}")
            feeder.stop()  # step 3
        flock.settle()
        await_published(kafka, *flock.running, seconds=2 * HANGS)
        flock.look()
        tell(f"{feeder.sent:9,} records; all are processed; replaying them")
    assert_as_replayed(kafka, config)  # step 4


def _minutes(
    minutes: float, rng: random.Random, broker: Broker
) -> Iterator[tuple[float, Callable[[Flock], None]]]:
    """Strikes for some minutes, the broker's restart among them."""

    def restart(flock: Flock) -> None:
        flock.strikes.append("broker restarted")
        broker.restart()

    hits = [Flock.kill] * 6 + [Flock.leave] * 3 + [Flock.freeze] * 2 + [Flock.start, restart]
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        # Now and then in the middle of a recovery, mostly in the middle of work.
        yield rng.choice([0.1, 1.0, *(rng.uniform(2, 15) for _ in range(3))]), rng.choice(hits)


def main() -> int:
    """Strike for some minutes; exit status 0 if nothing was lost, repeated or different."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with launch("kafka") as broker, tempfile.TemporaryDirectory() as folder:
        print(f"broker: {broker.name}; seed {args.seed}", flush=True)
        kafka = broker.config(prefix=f"chaos-{args.seed}.", partitions=4)
        create(kafka, topic_specs(kafka))
        hits = _minutes(args.minutes, rng, broker)
        strike(kafka, Path(folder), rng, hits, lambda line: print(line, flush=True))
    print("every message once, and every digit as the replay says")
    return 0


if __name__ == "__main__":
    sys.exit(main())

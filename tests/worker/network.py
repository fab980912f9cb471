"""Chaos in its second form: three nodes of Kafka, and a bad network between them and the workers.

`python tests/worker/chaos.py --network --minutes 10 --seed 3`. Everything is there three times, of which two
must be in sync (`min.insync.replicas`). Nodes are killed and started again, so leaders and coordinators
change; a proxy delays everything, holds commits until after the connection broke, cuts connections or closes
one of their directions, and separates a worker from some of the nodes. Then the same is demanded as of the
first form: each message once, and digit for digit what a replay of the topics says.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import NamedTuple

from chaos import DEFAULTS, PARTITIONS, STREAMS, WORKER, Tell, conclude, watch
from confluent_kafka.admin import AdminClient
from flock import Flock
from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import topic_specs
from processes import WorkerProcess, await_ready, eventually, write_config
from workload import Feeder, records, spoiled

from tests.cluster import Cluster
from tests.proxy import END_TXN

#: Records a second of the stream: three nodes share the machine with it.
RATE = 1_500

#: What may strike, as often as it does within one round, which is shuffled.
NODE, ROLL, DELAY, HOLD = "kill -9 of a node", "a node restarts", "everything is late", "commits are held"
CUT, HALF, SEPARATE = "all connections are cut", "half-closed", "separated"
WORKER_KILL = "kill -9 of a worker"
ROUND = (NODE, NODE, ROLL, DELAY, HOLD, HOLD, HOLD, CUT, HALF, SEPARATE, SEPARATE, WORKER_KILL)

#: Seconds for which all bytes are late, and by how much; for which commits are held; a worker is separated;
#: and a node is down.
_LATE, _DELAY, _HELD, _APART, _DOWN = 3.0, 0.15, 2.0, 8.0, 2.0

#: Seconds within which a node that was started again has all that it missed.
_BACK_SECONDS = 90.0

#: The environment variable with the name under which a worker's clients are known to the proxy.
_NAME = "PREQUENTIAL_TEST_CLIENT"


class Strike(NamedTuple):
    """One blow."""

    pause: float  # seconds since the one before has struck
    what: str
    whom: float  # in [0, 1)

    def __str__(self) -> str:
        return f"{self.pause:4.1f} s  {self.what}"


def plan(seed: int, minutes: float) -> list[Strike]:
    """The strikes of some minutes; the same arguments give the same plan.

    >>> plan(1, 2.0) == plan(1, 2.0) != plan(2, 2.0)
    True
    """
    rng = random.Random(seed)
    strikes, left = [], 60 * minutes
    for what in _rounds(rng):
        pause = rng.choice([0.2, *(rng.uniform(1.0, 6.0) for _ in range(3))])
        left -= pause
        if left < 0:
            return strikes
        strikes.append(Strike(pause, what, rng.random()))
    raise AssertionError("rounds have an end")  # they have none


def _rounds(rng: random.Random) -> Iterator[str]:
    while True:
        yield from rng.sample(ROUND, len(ROUND))


class _NamedFlock(Flock):
    """Workers whose clients have names of their own."""

    def start(self) -> WorkerProcess:
        os.environ[_NAME] = f"worker-{WorkerProcess._number + 1}"
        return super().start()

    def kill_one(self, whom: float) -> None:
        """kill -9, and a successor."""
        worker = self.running.pop(int(whom * len(self.running)))
        worker.kill()
        self._fill(2)

    def name(self, whom: float) -> str:
        """The name of a worker that runs."""
        return self.running[int(whom * len(self.running))].folder.name


class _Network:
    """What strikes the cluster and its network."""

    def __init__(self, cluster: Cluster, kafka: KafkaConfig) -> None:
        self._cluster, self._kafka = cluster, kafka
        self._down: tuple[int, float] | None = None  # a node, and when it is to be started again
        self._timers: list[Timer] = []

    def strike(self, strike: Strike, flock: _NamedFlock) -> str:
        """Do it; what came of it."""
        proxy = self._cluster.proxy
        if strike.what in (NODE, ROLL):
            return f"{strike.what} ({self._node(strike)})"
        if strike.what == DELAY:
            proxy.delay = _DELAY
            self._later(_LATE, self._in_time)
        elif strike.what == HOLD:
            proxy.hold(END_TXN, 2)
            self._later(_HELD, lambda: proxy.vector(keep_held=True))
            self._later(2 * _HELD, proxy.let_all_go)
        elif strike.what == CUT:
            proxy.vector()
        elif strike.what == HALF:
            proxy.half_close(to_client=strike.whom < 0.5)
        elif strike.what == SEPARATE:
            name = flock.name(strike.whom)
            some = self._cluster.ports[: 1 + int(2 * strike.whom)]
            proxy.separate(name, some)
            self._later(_APART, proxy.reunite)
            return f"{name} is separated from {len(some)} of 3"
        else:
            flock.kill_one(strike.whom)
        return strike.what

    def look(self) -> None:
        """Start a node again whose time has come."""
        if self._down is not None and time.monotonic() >= self._down[1]:
            self._cluster.nodes[self._down[0]].start()
            self._down = None

    def calm(self) -> None:
        """All nodes run and have everything, and nothing holds anything up."""
        for timer in self._timers:
            timer.join()
        proxy = self._cluster.proxy
        self._in_time()
        proxy.let_all_go()
        proxy.reunite()
        if self._down is not None:
            self._down = self._down[0], 0.0
            self.look()
        eventually("all replicas are in sync", self._in_sync, _BACK_SECONDS)

    def _in_time(self) -> None:
        self._cluster.proxy.delay = 0.0

    def ready_for(self, strike: Strike) -> bool:
        """Whether it may strike: nodes one at a time, since without two in sync nobody may write."""
        return strike.what not in (NODE, ROLL) or (self._down is None and self._in_sync())

    def _node(self, strike: Strike) -> int:
        number = int(strike.whom * len(self._cluster.nodes))
        node = self._cluster.nodes[number]
        (node.kill if strike.what == NODE else node.shut_down)()
        self._down = number, time.monotonic() + _DOWN
        return number + 1

    def _in_sync(self) -> bool:
        """Whether all nodes have all of our topics."""
        try:
            found = AdminClient(self._kafka.client(**{"log_level": 0})).list_topics(timeout=10.0)
        except Exception:
            return False
        ours = [topic for name, topic in found.topics.items() if name.startswith(self._kafka.prefix)]
        return bool(ours) and all(len(p.isrs) == 3 for topic in ours for p in topic.partitions.values())

    def _later(self, seconds: float, call: object) -> None:
        timer = Timer(seconds, call)  # type: ignore[arg-type]
        timer.daemon = True
        timer.start()
        self._timers.append(timer)


def network_chaos(cluster: Cluster, folder: Path, seed: int, minutes: float, tell: Tell) -> KafkaConfig:
    """Let a stream go on while nodes and network are struck, then compare; the topics it was about."""
    began = time.monotonic()

    def say(line: str) -> None:
        tell(f"{time.monotonic() - began:6.1f} s  {line}")

    strikes = plan(seed, minutes)
    often = ", ".join(f"{n} {what}" for what, n in sorted(Counter(s.what for s in strikes).items()))
    say(f"seed {seed}, {minutes:g} minutes on {cluster.name}: {often}")
    plain = cluster.config(prefix=f"network-{seed}-{time.time_ns():x}.", partitions=PARTITIONS)
    create(plain, topic_specs(plain))
    kafka = cluster.config(prefix=plain.prefix, partitions=PARTITIONS, security={"client.id": f"env:{_NAME}"})
    config = write_config(folder, kafka, defaults=DEFAULTS, worker=WORKER)
    network = _Network(cluster, plain)
    stream = spoiled(seed, records(seed, 10**9, STREAMS), STREAMS)
    with _NamedFlock(config) as flock:
        await_ready(*flock.running)
        with Feeder(plain, stream, RATE) as feeder:
            for strike in strikes:
                watch(flock, feeder, strike.pause)
                network.look()
                while not network.ready_for(strike):
                    watch(flock, feeder, 0.5)
                    network.look()
                say(f"{feeder.sent:9,} records; {network.strike(strike, flock)}")
            network.calm()
            feeder.stop()
        os.environ[_NAME] = "replay"
        conclude(kafka, config, flock, feeder.sent, say)
    return kafka


def run(seed: int, minutes: float, *, plan_only: bool) -> int:
    """As a program."""
    if plan_only:
        print(*plan(seed, minutes), sep="\n")
        return 0
    with Cluster(3) as cluster, tempfile.TemporaryDirectory() as folder:
        network_chaos(cluster, Path(folder), seed, minutes, lambda line: print(line, flush=True))
    return 0

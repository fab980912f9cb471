"""The workers of one group, and what may happen to them."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

from processes import WorkerProcess, eventually
from schedule import ADD, DOZE, FREEZE, KILL, LEAVE, POWER_CUT, Strike

#: Seconds without a heartbeat after which the group gives a worker's shards to others.
SESSION_SECONDS = 6.0

#: For how long a frozen worker stays so: long enough that it wakes up without its shards, or so
#: short that it still has them.
_FROZEN_SECONDS = {FREEZE: 9.0, DOZE: 2.0}

#: Seconds within which a worker that is told to stop must have stopped. After 90 it ends itself,
#: with status 1; that is excused where the broker was away meanwhile, or some seconds before.
_STOP_SECONDS, _EXCUSED_SECONDS = 100.0, 15.0

#: Seconds after an absence of the broker in which clients that it has stranded are found and replaced. A
#: worker that is told to stop in between can't publish any more, says so, and ends with status 1.
_STRANDED_SECONDS = 75.0

#: Workers at first, and at most: they, the broker and the stream share few cores.
_FIRST, _MOST = 2, 3

#: What a worker's log says once it takes part in its group, and if it couldn't reach the broker.
_UP = "shards of this worker"
_UNREACHABLE = re.compile(r"no Kafka broker answered|^prequential: Kafka at ", re.MULTILINE)

#: What it says last when it is told to stop and can't publish.
_CANT_PUBLISH = re.compile(
    r"INFO .*: \w+: stopping; .*\n(.*\n)*.*: can't (take over|look what is committed) yet .*: waiting"
)


class Flock:
    """Two workers, sometimes three, that are struck.

    A worker that ends although nothing struck it, or that doesn't stop when it is told to, is an
    AssertionError of the next call, with its log.
    """

    def __init__(self, config: Path) -> None:
        self._config = config
        self._frozen: dict[WorkerProcess, float] = {}  # when each is to be thawed
        self._leaving: dict[WorkerProcess, float] = {}  # when each must have ended
        self._excused: set[WorkerProcess] = set()  # those that may stop with 1
        self._back = -math.inf  # when the broker came back
        self.running: list[WorkerProcess] = []
        self._fill(_FIRST)

    def strike(self, strike: Strike) -> str:
        """Do it; what came of it, in a word or two."""
        hit = {
            KILL: self._kill,
            POWER_CUT: self._power_cut,
            FREEZE: self._freeze,
            DOZE: self._freeze,
            LEAVE: self._leave,
            ADD: self._add,
        }[strike.what]
        return f"{strike.what}{hit(strike)}; {len(self.running)} run"

    def look(self) -> None:
        """Thaw whose time has come, and see whether all is well."""
        now = time.monotonic()
        for worker in [worker for worker, due in self._frozen.items() if now >= due]:
            self._thaw(worker)
        for worker in list(self.running):
            self._see(worker)
        for worker, deadline in list(self._leaving.items()):
            if worker.status is None:
                assert now < deadline, f"it is told to stop and doesn't:\n{worker.log}"
            else:
                good = (0, 1) if worker in self._excused or self._stranded(worker, now) else (0,)
                assert worker.status in good, f"it stopped with {worker.status}:\n{worker.log}"
                del self._leaving[worker]

    def excuse(self, seconds: float) -> None:
        """For so long nobody could stop as it should: the broker was away."""
        self._back = time.monotonic()
        for worker in self._leaving:
            self._leaving[worker] += seconds
            self._excused.add(worker)

    def settle(self) -> None:
        """No more strikes: thaw all, and wait until those that leave have left, and the others are up."""
        for worker in list(self._frozen):
            self._thaw(worker)

        def settled() -> bool:
            self.look()  # whoever found no broker when it started is started again
            return not self._leaving and all(_UP in worker.log for worker in self.running)

        eventually("all that were told to stop have stopped, and the others are up", settled)

    def stop(self) -> None:
        """SIGTERM to all that run, and wait until they have ended.

        Their status doesn't count: all is published, and one that the broker has stranded can't say more.
        """
        for worker in self.running:
            worker.terminate()
        for worker in self.running:
            worker.wait()

    def __enter__(self) -> Flock:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self.running, *self._frozen, *self._leaving):
            worker.kill()

    # ---- strikes

    def _kill(self, strike: Strike) -> str:
        """kill -9, and a successor."""
        self._take(strike).kill()
        self._fill(_FIRST)
        return ""

    def _power_cut(self, strike: Strike) -> str:
        """kill -9 of all at once, also of the frozen ones, and successors."""
        for worker in (*self.running, *self._frozen):
            worker.kill()
        self.running.clear()
        self._frozen.clear()
        self._fill(_FIRST)
        return ""

    def _freeze(self, strike: Strike) -> str:
        """SIGSTOP, and one that takes over if it is for long."""
        worker = self._take(strike)
        worker.freeze()
        self._frozen[worker] = time.monotonic() + _FROZEN_SECONDS[strike.what]
        self._fill(_FIRST if strike.what == FREEZE else 1)
        return ""

    def _leave(self, strike: Strike) -> str:
        """SIGTERM, once the worker is up (before that it has no say in its exit status)."""
        up = [worker for worker in self.running if _UP in worker.log]
        if not up:
            return " of nobody: none is up"
        worker = self._take(strike, up)
        worker.terminate()
        now = time.monotonic()
        self._leaving[worker] = now + _STOP_SECONDS
        if now < self._back + _EXCUSED_SECONDS:
            self._excused.add(worker)
        self._fill(_FIRST)
        return ""

    def _add(self, strike: Strike) -> str:
        """One worker more, unless there are enough."""
        if len(self.running) >= _MOST:
            return " would be too many"
        self._fill(len(self.running) + 1)
        return ""

    # ---- parts of them

    def start(self) -> WorkerProcess:
        """A new worker."""
        return WorkerProcess(self._config)

    def _stranded(self, worker: WorkerProcess, now: float) -> bool:
        return now < self._back + _STRANDED_SECONDS and bool(_CANT_PUBLISH.search(worker.log))

    def _take(self, strike: Strike, among: list[WorkerProcess] | None = None) -> WorkerProcess:
        among = among or self.running
        worker = among[int(strike.whom * len(among))]
        self.running.remove(worker)
        return worker

    def _fill(self, count: int) -> None:
        while len(self.running) < count:
            self.running.append(self.start())

    def _thaw(self, worker: WorkerProcess) -> None:
        """SIGCONT: it wakes up as one that may have lost its shards, and doesn't know it yet."""
        del self._frozen[worker]
        worker.thaw()
        self.running.append(worker)

    def _see(self, worker: WorkerProcess) -> None:
        if worker.status == 1 and _UNREACHABLE.search(worker.log) and _UP not in worker.log:
            # The broker was away while it started: its supervisor tries again.
            self.running.remove(worker)
            self.running.append(self.start())
        else:
            assert worker.status is None, f"a worker ended with {worker.status}:\n{worker.log}"

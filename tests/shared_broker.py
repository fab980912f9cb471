"""One Apache Kafka for all processes of a parallel run: a JVM takes the time of hundreds of tests."""

from __future__ import annotations

import fcntl
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.brokers import Broker, launch

#: Seconds between checks of the process that launched the broker whether others use it.
_LOOK_SECONDS = 0.2


class BrokerOfOthers(Broker):
    """What another process has launched, and stops."""

    kind = "shared"

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @property
    def is_apache(self) -> bool:
        """True: no other one is shared."""
        return True

    def stop(self) -> None:
        """Nothing to stop."""


class SharedBroker:
    """The first process that needs the broker launches it, and stops it after the last one has released it.

    The processes of a run have `folder` in common.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "broker"
        self._users: IO[bytes] | None = None
        self._broker: Broker | None = None

    def get(self) -> Broker:
        """Return the broker. Raises Unavailable if this machine can have none."""
        if self._broker is None:
            with self._door() as address:
                if address.exists():
                    self._broker = BrokerOfOthers(address.read_text("utf-8"))
                else:
                    self._broker = launch("kafka")
                    address.write_text(self._broker.bootstrap_servers, "utf-8")
                self._users = (self._folder / "users").open("ab")
                fcntl.flock(self._users, fcntl.LOCK_SH)
        return self._broker

    def stop(self) -> None:
        """Release the broker. The process that launched it waits for the others, and stops it."""
        if self._broker is None or self._users is None:
            return
        gc.collect()  # producers that tests have left would report that the broker is gone
        with self._users as users:
            while not isinstance(self._broker, BrokerOfOthers):
                with self._door() as address:
                    if _is_alone(users):
                        self._broker.stop()
                        address.unlink()
                        break
                time.sleep(_LOOK_SECONDS)
            fcntl.flock(users, fcntl.LOCK_UN)  # also of copies of this process
        self._broker = self._users = None

    @contextmanager
    def _door(self) -> Iterator[Path]:
        """One process at a time: the file with its address, which is there while the broker is."""
        self._folder.mkdir(exist_ok=True)
        with (self._folder / "door").open("ab") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            yield self._folder / "address"


def _is_alone(users: IO[bytes]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # A conversion that fails may have lost the lock that was there.
        fcntl.flock(users, fcntl.LOCK_SH)
        return False
    return True

"""An embedded Kafka-compatible broker, for trying out, the demo, the benchmark and tests.

The broker is the program in the Python package noida-db: one process, everything in memory, gone
when it stops. It stamps records with LogAppendTime, fences producers, hides open and aborted
transactions from read_committed consumers and compacts, as Apache Kafka does. In four ways it is
not Apache Kafka, and so no place for production data:

- It answers a fetch with all there is, whatever limit the client states: see `CLIENT_SETTINGS`.
- A group's member that died without leaving is never thrown out, and the group then waits for it;
  a successor with the same `group.instance.id` takes its place at once.
- `transaction.timeout.ms` does nothing: an abandoned transaction stays open until a producer with
  the same transactional.id starts.
- What it holds it holds in memory, and it writes that out now and then (into nowhere here), so it
  gets slower beyond some hundred MB.
"""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.errors import UsageError, WorkError

log = logging.getLogger(__name__)

#: The Python package with the broker, and the version whose behaviour the docstring describes:
#: earlier ones neither stamp with LogAppendTime nor compact.
PACKAGE = "noida-db"
VERSION = "0.2.3"

#: librdkafka settings that consumers of the embedded broker need once more than 100 MB are waiting
#: for them: it answers with all there is, and librdkafka refuses answers over this many bytes
#: (100,000,000 by default, this is the largest allowed).
CLIENT_SETTINGS: Mapping[str, str] = MappingProxyType({"receive.message.max.bytes": "2147483647"})

#: Only programs on this machine may reach the broker, because it has no authentication.
HOST = "127.0.0.1"

#: Seconds between two lines about a broker that has started and doesn't answer yet: the embedded one takes
#: 0.1 s, Apache Kafka 5 s, and both take longer on a machine that is busy with other things.
_TELL_SECONDS = 10.0

#: Seconds between two looks whether a starting broker already accepts connections.
_LOOK_SECONDS = 0.02

#: Ports that are picked for brokers. Above them (Linux: from 32768, elsewhere from 49152) systems
#: take the ports of outgoing connections, so that a client that tries to reconnect could occupy
#: the port of a broker that is just restarting.
_PORTS = range(20_000, 32_768)

#: Picks of a port before giving up: another program may take a port between pick and use.
_PICKS = 5

#: Seconds between two looks of the guard at its two processes: how long a broker may outlive the
#: program that started it.
_GUARD_SECONDS = 0.2

#: Starts a command, passes SIGTERM on to it as another signal, and kills it when the process that
#: started the guard is gone. Arguments: that process, the signal, seconds between looks, command.
#: (Linux's parent-death signal would not do: it comes when the starting *thread* ends.)
_GUARD = """
import os, signal, subprocess, sys, time
parent, sig, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
child = None
def stop(*_):
    if child is None:
        sys.exit(0)
    child.send_signal(sig)
signal.signal(signal.SIGTERM, stop)
child = subprocess.Popen(sys.argv[4:])
while child.poll() is None and os.getppid() == parent:
    time.sleep(pause)
if child.poll() is None:
    child.kill()
sys.exit(abs(child.wait()))
"""


class GuardedProcess:
    """A server process that ends at the latest when this one does, even if that is killed.

    It has a session of its own, so Ctrl-C in a terminal doesn't reach it. Its output goes to the
    file `log`. `stop_signal` is what `stop` sends.
    """

    def __init__(self, command: Sequence[str | os.PathLike[str]], log: Path, stop_signal: int) -> None:
        guard = [sys.executable, "-I", "-S", "-c", _GUARD]
        facts = [str(os.getpid()), str(int(stop_signal)), str(_GUARD_SECONDS)]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*guard, *facts, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether the server has not ended yet."""
        return self._process.poll() is None

    @property
    def group(self) -> int:
        """Return the group of the server's processes, for `os.killpg`."""
        return self._process.pid  # the guard leads it

    def stop(self, patience: float = 20.0) -> None:
        """Stop the server and wait for its end; kill it after `patience` seconds."""
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process.wait()

    def kill(self) -> None:
        """kill -9."""
        if self.running:
            os.killpg(self.group, signal.SIGKILL)
        self._process.wait()


#: Ports that this process has picked: their users may not have bound them yet.
_picked: set[int] = set()


def pick_port() -> int:
    """A port of the loopback interface that is free now, and another one at each call.

    Raises WorkError if none is found.
    """
    for port in random.sample(_PORTS, k=100):
        if port not in _picked and _refusal(port) is None:
            _picked.add(port)
            return port
    raise WorkError(f"found no free port between {_PORTS.start} and {_PORTS.stop - 1}")


def wait_until_ready(process: GuardedProcess, bootstrap_servers: str) -> bool:
    """Wait until a broker that is just starting answers a metadata request, and log that every 10 s.

    False if it ended instead. However long it takes: a busy machine is no failure.
    """
    began = told_at = time.monotonic()
    host, _, port = bootstrap_servers.rpartition(":")
    while process.running:
        try:
            # Knocking first spares librdkafka's pauses between attempts to connect.
            socket.create_connection((host, int(port)), timeout=1.0).close()
            connect(KafkaConfig(bootstrap_servers=bootstrap_servers), timeout=_TELL_SECONDS)
        except (OSError, WorkError):
            time.sleep(_LOOK_SECONDS)
        else:
            break
        now = time.monotonic()
        if now - told_at >= _TELL_SECONDS:
            log.warning("waiting for the broker at %s: %.0f s", bootstrap_servers, now - began)
            told_at = now
    return process.running


def last_words(log: Path) -> str:
    """Return the line of a log that explains the end of a server: the last error, else the last line."""
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines()]
    errors = [line for line in lines if re.search(r"(?i)\berror\b|exception:", line)]
    return next((line for line in reversed(errors or lines) if line), "it logged nothing")


class EmbeddedBroker:
    """The broker as a context manager; `port` 0 picks a free one.

    Raises UsageError if `port` is no port. After `start`, clients find the broker at
    `bootstrap_servers`.
    """

    name = f"embedded broker ({PACKAGE} {VERSION})"

    def __init__(self, port: int = 0) -> None:
        if not 0 <= port <= 65_535:
            raise UsageError(f"invalid port {port}: expected 1 to 65535, or 0 for any that is free")
        self._port = port
        self._process: GuardedProcess | None = None
        self._bootstrap_servers = ""

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find the broker: `host:port`. Raises WorkError unless it was started."""
        if not self._bootstrap_servers:
            raise WorkError("the embedded broker has no address yet: it was not started")
        return self._bootstrap_servers

    @property
    def running(self) -> bool:
        """Whether the broker's process is there."""
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Start the broker and wait until it answers; does nothing while it runs.

        Raises WorkError if the package is missing, the port is taken, or the broker doesn't come
        up.
        """
        if self.running:
            return
        program = _program()
        if self._port:
            refusal = _refusal(self._port)
            if refusal is not None:
                raise WorkError(f"can't open port {self._port} on {HOST}: {refusal}")
        words = ""
        for _ in range(1 if self._port else _PICKS):
            words = self._try(program, self._port or pick_port())
            if self.running:
                return
        raise WorkError(f"the embedded broker ended while it was starting: {words}")

    def stop(self) -> None:
        """End the broker, and with it all that it holds; does nothing if it doesn't run."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _try(self, program: Path, port: int) -> str:
        """Start on one port; return the last line of the log if the broker ended at once."""
        # The broker writes what it holds into its folder now and then, and as a whole. With the
        # folder gone it doesn't, and nothing is left behind however this program ends.
        folder = Path(tempfile.mkdtemp(prefix="prequential-broker-"))
        log = folder / "log"
        options = ["--data-dir", str(folder), "--host", HOST, "--only", "kafka", "--kafka-port"]
        # SIGKILL: on SIGTERM the broker writes all that it holds first, in vain.
        self._process = GuardedProcess([program, "start", *options, str(port)], log, signal.SIGKILL)
        try:
            self._bootstrap_servers = f"{HOST}:{port}"
            if wait_until_ready(self._process, self._bootstrap_servers):
                return ""
            return last_words(log)
        except BaseException:
            self.stop()
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _program() -> Path:
    """The broker's program in its Python package. Raises WorkError if it is not there."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        program = Path(folder) / PACKAGE
        if program.is_file():
            if not os.access(program, os.X_OK):  # not every installer keeps the permission
                program.chmod(0o755)
            return program
    raise WorkError(
        f"the embedded broker needs the Python package {PACKAGE}, which is not installed: "
        f"pip install '{PACKAGE}=={VERSION}'"
    )


def _refusal(port: int) -> str | None:
    """Why no server could listen on a port now, None if one could."""
    with socket.socket() as probe:
        # As servers do: connections of an earlier server that are still closing are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return "another program has it"
            return error.strerror or str(error)
    return None

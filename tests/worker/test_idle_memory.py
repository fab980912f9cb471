"""A worker without records: how much memory it takes, once its loops are compiled."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prequential.topics.clients import KafkaConfig

from tests.worker.processes import WorkerProcess, await_ready, write_config

#: Megabytes (10⁶ bytes) that an idle worker may take, with four partitions.
_MOST = 200

#: Imports what cached loops are called by, fetches them, and names what came with them of numba and scipy.
_FETCHED = """
import sys
from prequential.engine import warmup
from prequential.configuration.settings.model import Config
before = set(sys.modules)
warmup.warm_up(warmup.needed_by(Config()))
print(*sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in ("numba", "scipy")))
"""


def resident(pid: int) -> float:
    """Megabytes of a process that are in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1_024 / 1e6


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system has no /proc")
def test_an_idle_worker_takes_little_memory(
    cluster: KafkaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process of its own, and not a copy of one that has more in memory.
    monkeypatch.setattr("tests.worker.processes._PROGRAM", (sys.executable, "-um", "prequential.cli.main"))
    with WorkerProcess(write_config(tmp_path, cluster)) as worker:
        await_ready(worker)
        time.sleep(1.0)
        taken = resident(worker.pid)
        assert worker.stop() == 0
    assert taken < _MOST, worker.log


def test_loops_from_the_cache_bring_nothing_of_the_compiler() -> None:
    fetch = [sys.executable, "-c", _FETCHED]
    for _ in range(2):  # the first time, some may have to be compiled
        done = subprocess.run(fetch, env=os.environ, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split() == []

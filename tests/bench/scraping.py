"""A process seen from outside while it runs: its CPU time, and scrapes as Prometheus makes them."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

#: Seconds between two scrapes.
_EVERY: Final = 5.0

#: Seconds that an answer may take.
_PATIENCE: Final = 30.0

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Scraper:
    """Asks for `/metrics` at a port of this machine until its end; `answers` counts what came."""

    def __init__(self, port: int) -> None:
        headers = {"Accept-Encoding": "gzip"}  # as Prometheus does
        self._request = Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.answers = 0

    def __enter__(self) -> Scraper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        while not self._end.wait(_EVERY):
            try:
                with urlopen(self._request, timeout=_PATIENCE) as answer:
                    answer.read()
                self.answers += 1
            except OSError:
                continue  # it isn't up yet, or no more

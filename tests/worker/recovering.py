"""A worker whose broker is struck in the moment in which it begins to read what its shards knew.

The environment says which group of processes is to be sent which signal: `STRIKE_GROUP`, `STRIKE_SIGNAL`.
What is waited for is said soon, and clients are made anew soon.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from prequential.cli.main import main
from prequential.worker import recovery, runner

_read_known = runner.read_known
_struck = threading.Lock()


def _read_when_struck(*args: Any, **options: Any) -> Any:
    if _struck.acquire(blocking=False):
        os.killpg(int(os.environ["STRIKE_GROUP"]), int(os.environ["STRIKE_SIGNAL"]))
    return _read_known(*args, **options)


if __name__ == "__main__":
    recovery._TELL_SECONDS, recovery._SILENCE_SECONDS = 1.0, 3.0
    runner.read_known = _read_when_struck
    sys.exit(main())

"""A worker whose broker is struck when it looks at the topics, or begins to read what its shards knew.

The environment says when (`STRIKE_AT`: `_check_topics` or `read_known`), and which group of processes is to
be sent which signal (`STRIKE_GROUP`, `STRIKE_SIGNAL`). What is waited for is said soon, and clients are made
anew soon.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from prequential.cli.main import main
from prequential.runtime.worker import recovery, runner
from prequential.runtime.worker.app import Worker

_struck = threading.Lock()


def _struck_before(call: Callable[..., Any]) -> Callable[..., Any]:
    def strike(*args: Any, **options: Any) -> Any:
        if _struck.acquire(blocking=False):
            os.killpg(int(os.environ["STRIKE_GROUP"]), int(os.environ["STRIKE_SIGNAL"]))
            print("struck", flush=True)
        return call(*args, **options)

    return strike


if __name__ == "__main__":
    recovery._TELL_SECONDS, recovery._SILENCE_SECONDS = 1.0, 3.0
    for owner in (runner, Worker):
        name = os.environ["STRIKE_AT"]
        if hasattr(owner, name):
            setattr(owner, name, _struck_before(getattr(owner, name)))
    sys.exit(main())

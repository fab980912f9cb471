"""A worker whose engine fails at records about the instance `poison`: with an error, or a crash below Python.

`python faulty.py error|crash worker --config FILE …`
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from prequential.cli.main import main
from prequential.core.encoder import Encoder

_encode = Encoder.encode


def _failing(self: Encoder, records: Sequence[Any], times: Any, kinds: Any) -> Any:
    if any(record.instance_id == "poison" for record in records):
        if _failure == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        raise ValueError("the engine\nfails")
    return _encode(self, records, times, kinds)


if __name__ == "__main__":
    _failure = sys.argv.pop(1)
    Encoder.encode = _failing
    sys.exit(main())

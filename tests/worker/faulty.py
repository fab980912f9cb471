"""A worker that fails at records about the instance `poison`: with an error, or a crash below Python.

`python faulty.py engine|decoder error|crash worker --config FILE …`
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from prequential.cli.main import main
from prequential.engine.input.encoder import Encoder
from prequential.engine.input.plain import Parser

_encode, _parse = Encoder.encode, Parser.parse


def _fail() -> None:
    if _failure == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    raise ValueError(f"the {_part}\nfails")


def _encoding(self: Encoder, records: Sequence[Any], *about: Any) -> Any:
    if any(record.instance_id == "poison" for record in records):
        _fail()
    return _encode(self, records, *about)


def _parsing(self: Parser, kind: int, values: Sequence[bytes | None]) -> Any:
    if any(value is not None and b'"poison"' in value for value in values):
        _fail()
    return _parse(self, kind, values)


if __name__ == "__main__":
    _part, _failure = sys.argv.pop(1), sys.argv.pop(1)
    if _part == "engine":
        Encoder.encode = _encoding
    else:
        Parser.parse = _parsing
    sys.exit(main())

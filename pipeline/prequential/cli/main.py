"""The program `prequential`: its commands, and the exit status that each error means."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import traceback
import zlib
from types import TracebackType
from typing import Any, NoReturn

from prequential.runtime.program import VERSION
from prequential.topics.errors import UsageError, WorkError, redacted
from prequential.views.wording.console import complain, flush, printable_lines

_COMMANDS = (
    "demo", "worker", "ingest", "notify", "compile", "topics", "config", "broker", "produce", "dead-letters",
    "replay", "verify", "detectors", "calibrate", "watch", "status", "explain", "mark", "dashboard", "report",
    "mcp", "archive", "schema",
)  # fmt: skip

#: The files of commands that have none of their own; the function `add_COMMAND_parser` adds such a command.
_FILES = {
    "ingest": "worker", "notify": "worker", "broker": "demo", "calibrate": "detectors", "explain": "report",
    "schema": "topics",
}  # fmt: skip

#: Exit status of a program that Ctrl-C ended: 128 + SIGINT, as in shells.
_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"prequential: {printable_lines(message)}; run `{self.prog} --help` for usage\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as usual, but let a command report its own unknown arguments, with its own help."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns its exit status: 0 done, 1 the work failed, 2 wrong usage."""
    # For this process and those that it starts, before the commands import numpy. The program multiplies no
    # matrix, so BLAS's threads would only use CPU while idle. Other programs decide for themselves.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.excepthook = _unexpected
    if sys.stdout is None:  # it was closed (`>&-`): discard the output
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):  # as that of errors: some locales lack characters
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(argv)
    except SystemExit:  # of --help, say
        flush()
        raise
    except UsageError as error:
        return _complain(error, 2)
    except WorkError as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (EOFError, zlib.error, OSError) as error:  # a full disk, or content that its name doesn't match
        return _complain(error, 1)


def _run(argv: list[str] | None) -> int:
    """Run the command of a command line, and raise its errors; return its exit status."""
    parser = _Parser(
        prog="prequential",
        description="Live evaluation of streaming machine learning: how good are the predictions, "
        "although labels come late, classes are imbalanced and the data drift?",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    first = (sys.argv[1:] if argv is None else argv)[:1]
    for name in [name for name in first if name in _COMMANDS] or _COMMANDS:  # other commands aren't imported
        add_command(name, subparsers)
    args = parser.parse_args(argv)
    status = args.run(args)
    flush()
    return int(status)


def add_command(name: str, subparsers: Any) -> None:
    """Import the file of a command, and add its parser."""
    file = _FILES.get(name)
    module = importlib.import_module(f"prequential.cli.{file or name.replace('-', '_')}")
    getattr(module, f"add_{name}_parser" if file else "add_parser")(subparsers)


def _unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a fault of the program, without secrets that errors of libraries quote."""
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))


def _complain(error: Exception, status: int) -> int:
    complain(error)
    return status


if __name__ == "__main__":
    sys.exit(main())

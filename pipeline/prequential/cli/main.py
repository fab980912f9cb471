"""The program `prequential`: one file a command, and the exit status that each error means."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import zlib
from typing import NoReturn

from prequential.program.version import VERSION
from prequential.topics.errors import UsageError, WorkError

_COMMANDS = (
    "demo", "worker", "ingest", "notify", "topics", "config", "broker", "produce", "dead-letters", "replay",
    "detectors", "calibrate", "watch", "explain", "dashboard", "report", "size", "schema",
)  # fmt: skip

#: Exit status of a program that Ctrl-C ended: 128 + SIGINT, as shells have it.
_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line as everything else that is wrong: in one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"prequential: {message}; `{self.prog} --help` says what there is\n")


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns its exit status: 0 done, 1 the work failed, 2 wrong usage."""
    # For this process and those that it starts, before the commands import numpy. No matrix is multiplied
    # anywhere here: BLAS's threads would only wait, and busily. Who imports the library decides themselves.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    parser = _Parser(
        prog="prequential",
        description="Live evaluation of streaming machine learning: how good are the predictions, "
        "although labels come late, classes are imbalanced and the data drift?",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in _COMMANDS:
        module = name.replace("-", "_")
        importlib.import_module(f"prequential.cli.{module}").add_parser(subparsers)
    args = parser.parse_args(argv)
    try:
        status = args.run(args)
        sys.stdout.flush()
        return int(status)
    except UsageError as error:
        return _complain(error, 2)
    except WorkError as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (EOFError, zlib.error, OSError) as error:  # a full disk, or what isn't what its name says
        return _complain(error, 1)


def _complain(error: Exception, status: int) -> int:
    print(f"prequential: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())

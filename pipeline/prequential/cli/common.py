"""What several commands share: options for the cluster, and files that may be streams."""

from __future__ import annotations

import argparse
import gzip
import io
import os
import signal
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from prequential.configuration.reading.reader import load_config
from prequential.configuration.settings.model import Config
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.views.wording.console import flush, write


def add_kafka_options(parser: argparse.ArgumentParser) -> None:
    """Add --config, --bootstrap-servers and --prefix; the latter two win over the file."""
    group = parser.add_argument_group("cluster")
    group.add_argument("--config", metavar="FILE", help="configuration file (YAML)")
    group.add_argument(
        "--bootstrap-servers", metavar="ADDR", help="brokers as host:port (default: localhost:9092)"
    )
    group.add_argument("--prefix", metavar="P", help="prefix of all topic names, such as `eu.`")


def load(args: argparse.Namespace) -> Config:
    """The configuration: the file's, or the defaults, with the command line's overrides.

    Raises UsageError if the file can't be used.
    """
    given = {
        "kafka.bootstrap_servers": args.bootstrap_servers,
        "kafka.prefix": args.prefix,
    }
    return load_config(args.config, {k: value for k, value in given.items() if value is not None})


def kafka_from(args: argparse.Namespace) -> KafkaConfig:
    """The configuration's `kafka` section, for commands that need nothing else of it."""
    return load(args).kafka


@contextmanager
def open_input(path: str) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A file to read lines from: `-` is standard input, `.gz` is decompressed.

    Yields the stream of lines and the raw stream below it, whose position shows the progress of reading.
    Raises UsageError if the file can't be opened.
    """
    if path == "-":
        yield sys.stdin.buffer, sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(Path(path).open("rb"))
        except OSError as error:
            raise UsageError(f"can't read {path!r}: {error.strerror}") from error
        lines: Any = stack.enter_context(gzip.open(raw)) if path.endswith(".gz") else raw
        yield lines, raw


@contextmanager
def open_readable(path: str) -> Iterator[IO[bytes]]:
    """A file to read lines from, as `open_input`; raises WorkError in the block if reading fails."""
    with open_input(path) as (lines, _):
        try:
            yield lines
        except (OSError, EOFError, zlib.error) as error:
            raise WorkError(f"can't read {path!r}: {error}") from error


def refuse_one_file_twice(outputs: Iterable[str | None], inputs: Iterable[str | None]) -> None:
    """Raise UsageError where an output is an input as well, or another output: it would be overwritten."""
    taken: dict[object, str] = {}
    for path in inputs:
        if path and (file := _file_of(path, sys.stdin)) is not None:
            taken[file] = f"{path!r} is read"
    for path in outputs:
        if path and (file := _file_of(path, sys.stdout)) is not None:
            if said := taken.get(file):
                raise UsageError(f"can't write {path!r}: {said} as well, expected another file")
            if path != "-":  # several outputs may go there
                taken[file] = f"{path!r} is written"


def _file_of(path: str, standard: Any) -> object:
    """What is the same for all names of a file, as links and `-` are; None for pipes and devices."""
    try:
        found = os.fstat(standard.fileno()) if path == "-" else os.stat(path)
    except FileNotFoundError:
        return os.path.realpath(path)
    except (OSError, AttributeError):  # it can't be opened either; or it isn't a stream of a process
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Lets SIGTERM end the program as Ctrl-C does."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


@contextmanager
def open_output(path: str | None) -> Iterator[IO[bytes] | None]:
    """A file to write to: None is none, `-` is standard output, `.gz` is compressed.

    Raises UsageError if the file can't be opened.
    """
    if path is None:
        yield None
    elif not path:
        raise UsageError("can't write '': expected the name of a file")
    elif path == "-":
        output: Any = _StandardOutput()
        yield output
        flush()
    else:
        with ExitStack() as stack:
            try:
                file: Any = stack.enter_context(io.BufferedWriter(_NamingFile(path, "wb")))
            except OSError as error:
                raise UsageError(f"can't write {path!r}: {error.strerror}") from error
            yield stack.enter_context(gzip.open(file, "wb")) if path.endswith(".gz") else file


class _StandardOutput(io.RawIOBase):
    """Standard output, which stays open."""

    def write(self, data: Any, /) -> int:
        write(data)
        return len(data)


class _NamingFile(io.FileIO):
    """A file whose errors have its name, as when its disk is full; a pipe's reader may go: no error."""

    def write(self, data: Any, /) -> Any:
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)
        except OSError as error:
            error.filename = self.name
            raise

"""What several commands share: options for the cluster, files of the past, processes and their log."""

from __future__ import annotations

import argparse
import gzip
import io
import logging
import os
import signal
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.durations import duration
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config
from prequential.mapping.model import Field
from prequential.offline.backtesting.sequences import PastSequence, read_past
from prequential.offline.replay.sources import Located
from prequential.offline.replay.text import print_wide
from prequential.offline.tables.opening import DEFAULT_MODEL, DEFAULT_STREAM, open_sources
from prequential.runtime.compilation import progress_bar, reading
from prequential.topics.decoding import KINDS
from prequential.topics.errors import UsageError, WorkError, printable, redacted
from prequential.topics.outputs import Output
from prequential.views.wording.console import Console, flush, printable_lines, write
from rich.progress import Progress
from rich.table import Table

if TYPE_CHECKING:
    from prequential.archive.reading import ArchiveReader


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
    overrides = {"kafka.bootstrap_servers": args.bootstrap_servers, "kafka.prefix": args.prefix}
    return load_config(args.config, {k: value for k, value in overrides.items() if value is not None})


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
    uses_by_file: dict[object, str] = {}
    for path in inputs:
        if path and (file := _file_of(path, sys.stdin)) is not None:
            uses_by_file[file] = f"{path!r} is read"
    for path in outputs:
        if path and (file := _file_of(path, sys.stdout)) is not None:
            if earlier_use := uses_by_file.get(file):
                raise UsageError(f"can't write {path!r}: {earlier_use} as well, expected another file")
            if path != "-":  # several outputs may go there
                uses_by_file[file] = f"{path!r} is written"


def _file_of(path: str, standard: Any) -> object:
    """What is the same for all names of a file, as links and `-` are; None for pipes and devices."""
    try:
        status = os.fstat(standard.fileno()) if path == "-" else os.stat(path)
    except FileNotFoundError:
        return os.path.realpath(path)
    except (OSError, AttributeError):  # it can't be opened either; or it isn't a stream of a process
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


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

    The file is written under a temporary name next to it, and renamed at the end of the block. If the block
    raises, a file that existed stays as it was. Pipes and devices are written directly. Raises UsageError if
    the file can't be opened.
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
                file: Any = stack.enter_context(_replacing(path))
            except OSError as error:
                raise UsageError(f"can't write {path!r}: {error.strerror}") from error
            if path.endswith(".gz"):
                file = stack.enter_context(gzip.GzipFile(os.path.basename(path), "wb", fileobj=file))
            yield file


@contextmanager
def _replacing(path: str) -> Iterator[IO[bytes]]:
    """A file that becomes that of a path at the end of the block, unless the block raises."""
    target = os.path.realpath(path)
    former = _permissions(target)
    if former is None:
        with io.BufferedWriter(_NamingFile(target, path)) as file:
            yield file
        return
    temporary = os.path.join(os.path.dirname(target), f".{os.path.basename(target)[:200]}.{os.getpid()}.tmp")
    try:
        with io.BufferedWriter(_NamingFile(temporary, path)) as file:
            yield file
        if former:
            os.chmod(temporary, former)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _permissions(path: str) -> int | None:
    """Permissions of a regular file, 0 if there is none yet; None if it can't be replaced, as a pipe."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return 0
    except OSError:
        return None
    can_write = os.access(path, os.W_OK) and os.access(os.path.dirname(path), os.W_OK)
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) and can_write else None


class _StandardOutput(io.RawIOBase):
    """Standard output, which stays open."""

    def write(self, data: Any, /) -> int:
        write(data)
        return len(data)


class _NamingFile(io.FileIO):
    """A file whose errors have its name, as when its disk is full; a pipe's reader may go: no error.

    `shown` is its name in errors.
    """

    def __init__(self, path: str, shown: str) -> None:
        super().__init__(path, "wb")
        self._shown = shown

    def write(self, data: Any, /) -> Any:
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)
        except OSError as error:
            error.filename = self._shown
            raise


_LEVELS = {
    "crit": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}


class _Formatter(logging.Formatter):
    """Shows characters of a message that aren't printable as U+FFFD, so a name can't begin another line.

    It is the formatter of all loggers, those of libraries included, and shows no secret.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, and the lines of its exception."""
        return redacted(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        return printable_lines(super().formatException(ei))


def as_duration(text: str) -> int:
    """Return the ms of an option such as `30m`; an error of argparse otherwise."""
    try:
        return duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_process_options(parser: argparse.ArgumentParser, default: str = "") -> None:
    """Add --http, with what its help says of the default, and --log-level."""
    served = f"where to serve /metrics, /live and /ready{default}"
    parser.add_argument("--http", metavar="HOST:PORT", help=served)
    parser.add_argument("--log-level", choices=list(_LEVELS), default="info", help="default: info")


def load_process(args: argparse.Namespace) -> Config:
    """The configuration of `load`, with the address of --http, if it is given."""
    config = load(args)
    if args.http is None:
        return config
    http_address = address(args.http)
    return replace(config, http=replace(config.http, host=http_address.host, port=http_address.port))


def start_log(args: argparse.Namespace, quiet: Iterable[str]) -> None:
    """Log at the level of --log-level, and only errors of these loggers."""
    level = _LEVELS[args.log_level]
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    for name in quiet:
        logging.getLogger(name).setLevel(max(logging.ERROR, level))


def address(text: str) -> HttpConfig:
    """Return the address of --http.

    >>> address("[::1]:9464").host, address("127.0.0.1:0").port
    ('::1', 0)
    """
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"--http is {text!r}: expected HOST:PORT, e.g. 127.0.0.1:9464")
    return HttpConfig(host, int(port))


def add_source_options(parser: argparse.ArgumentParser) -> Any:
    """Add --instances, --predictions, --labels and --from-topics; returns their group."""
    files = parser.add_argument_group("files")
    for kind in KINDS:
        files.add_argument(f"--{kind}", metavar="F", help=f"the {kind} (JSON lines, CSV, Parquet, Arrow)")
    files.add_argument(
        "--from-topics",
        action="store_true",
        help="read the cluster's input topics up to their current ends instead, in the order "
        "that workers used; joins no group and changes nothing",
    )
    return files


def given_sources(args: argparse.Namespace, outputs: Iterable[str | None]) -> list[str]:
    """Return the kinds of records that have files; raise UsageError for a combination that is not possible.

    An output file must not be an input, and not another output.
    """
    kinds = [kind for kind in KINDS if getattr(args, kind) is not None]
    if args.from_topics and kinds:
        raise UsageError(f"--from-topics and --{kinds[0]} exclude each other")
    if not args.from_topics and not {"predictions", "labels"} <= set(kinds):
        raise UsageError("expected --predictions and --labels (or --from-topics)")
    if [getattr(args, kind) for kind in kinds].count("-") > 1:
        raise UsageError("standard input (-) can be only one of the files")
    refuse_one_file_twice(outputs, [args.config, *(getattr(args, kind) for kind in kinds)])
    return kinds


def read_sources(
    args: argparse.Namespace, kinds: list[str], progress: Progress, config: Config
) -> list[Located]:
    """Read the files; raise UsageError or WorkError if one is unreadable.

    Files without a stream or a model have the names that `evaluate` gives them.
    """
    paths = {KINDS.index(kind): getattr(args, kind) for kind in kinds}
    defaults = {"stream": Field(const=DEFAULT_STREAM), "model": Field(const=DEFAULT_MODEL)}
    return open_sources(config, paths, lambda kind: reading(progress, KINDS[kind]), defaults)


def past_of(
    args: argparse.Namespace, config: Config, kinds: list[str],
    put: Callable[[Output], None] = lambda output: None,
) -> list[PastSequence]:  # fmt: skip
    """Return all sequences of files or topics; `put` gets the alarms. Raises WorkError without outcomes."""
    with progress_bar() as progress:
        sources = None if args.from_topics else read_sources(args, kinds, progress, config)
        past, _ = read_past(config, sources, put, progress)
    return past


def as_json(report: object) -> bytes:
    """Return a result as indented JSON with an end of line."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def archive_at(place: str) -> ArchiveReader:
    """Return the archive at a path or address. Raises UsageError without pyarrow, or if there is none."""
    with needing_pyarrow():
        from prequential.archive.reading import open_archive
    return open_archive(place)


@contextmanager
def needing_pyarrow() -> Iterator[None]:
    """Turn the error of an import without pyarrow into a UsageError with the fix."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise UsageError(
            "an archive is Parquet, which needs pyarrow: pip install 'prequential[files]'"
        ) from error


def print_report(report: object, tables: Iterable[Table], *, json: bool) -> None:
    """Print a report as one JSON object, or its tables."""
    if json:
        write(as_json(report))
        return
    for table in tables:

        def shown(_: Console, table: Table = table) -> Table:
            return table

        print_wide(shown, Console())

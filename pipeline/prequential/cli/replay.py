"""`prequential replay`: the same engine on files, or on a cluster's topics, digit for digit."""

from __future__ import annotations

import argparse
import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
from prequential.cli.common import add_kafka_options, load, open_input
from prequential.compilation import compile_loops
from prequential.config import Config
from prequential.files import Source, read_lines, replay
from prequential.topics.decoding import KINDS
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.outputs import Alarm, Comparison, DeadLetter, Metrics, Output, encode
from rich.console import Console
from rich.progress import Progress

_HELP = "evaluate files (or a cluster's input topics) with the worker's engine"

_DESCRIPTION = """\
Reads instances, predictions and labels and writes the metrics messages and drift alarms that a worker
publishes for them. Files are JSON lines, `-` is a standard stream, names in .gz are (de)compressed.
Records are processed in order of their ts across the files (ties: instances, predictions, labels, then
the file's order). At the end comes one last set of metrics for every sequence."""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("replay", help=_HELP, description=_DESCRIPTION)
    add_kafka_options(parser)
    files = parser.add_argument_group("files")
    for kind in KINDS:
        files.add_argument(f"--{kind}", metavar="F", help=f"the {kind} (JSON lines)")
    files.add_argument(
        "--from-topics",
        action="store_true",
        help="read the cluster's own input topics up to their present ends instead, in the order "
        "that the workers took; joins no group and changes nothing",
    )
    parser.add_argument("--metrics-out", metavar="F", help="metrics messages (JSON lines)")
    parser.add_argument("--comparisons-out", metavar="F", help="comparisons of models (JSON lines)")
    parser.add_argument("--alarms-out", metavar="F", help="drift alarms (JSON lines)")
    parser.add_argument("--dead-letters-out", metavar="F", help="unusable records (JSON lines)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    given = [kind for kind in KINDS if getattr(args, kind) is not None]
    if args.from_topics and given:
        raise UsageError(f"--from-topics and --{given[0]} exclude each other")
    if not args.from_topics and not {"predictions", "labels"} <= set(given):
        raise UsageError("expected --predictions and --labels (or --from-topics)")
    if [getattr(args, kind) for kind in given].count("-") > 1:
        raise UsageError("standard input (-) can be only one of the files")
    config = load(args)
    compile_loops(lambda notice: print(f"prequential: {notice}", file=sys.stderr), config)
    try:
        return _replay(args, config, given)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise WorkError(f"can't write: {error.strerror}") from error


def _replay(args: argparse.Namespace, config: Config, given: list[str]) -> int:
    with ExitStack() as stack:
        out = _Writer(stack, args)
        progress = stack.enter_context(_progress())
        if args.from_topics:
            from prequential.worker.offline import replay_topics  # a broker's clients aren't needed else

            replay_topics(config, out.put, out.dead_letter, progress)
            return 0
        sources = []
        for kind in given:
            with open_input(getattr(args, kind)) as (lines, _):
                try:
                    sources.append(Source(KINDS.index(kind), read_lines(lines)))
                except (OSError, EOFError, zlib.error) as error:
                    raise WorkError(f"can't read {getattr(args, kind)!r}: {error}") from error
        out.sources = {source.kind: source for source in sources}
        task = progress.add_task("replay", total=sum(len(source.lines) for source in sources))
        replay(config, sources, out.put, lambda processed: progress.advance(task, processed))
    return 0


def _progress() -> Progress:
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)


class _Writer:
    """Writes outputs to the files that were asked for."""

    def __init__(self, stack: ExitStack, args: argparse.Namespace) -> None:
        self._metrics = stack.enter_context(_open_output(args.metrics_out))
        self._comparisons = stack.enter_context(_open_output(args.comparisons_out))
        self._alarms = stack.enter_context(_open_output(args.alarms_out))
        self._dead_letters = stack.enter_context(_open_output(args.dead_letters_out))
        self.sources: dict[int, Source] = {}

    def put(self, output: Output) -> None:
        if isinstance(output, Metrics):
            _write(self._metrics, output)
        elif isinstance(output, Alarm):
            _write(self._alarms, output)
        elif isinstance(output, Comparison):
            _write(self._comparisons, output)
        else:
            source = self.sources[output.kind]
            value = source.lines[source.order[output.offset]]
            self.dead_letter(output, 0, source.line_number(output.offset) - 1, None, value)

    def dead_letter(
        self, letter: DeadLetter, partition: int, offset: int, key: bytes | None, value: bytes | None
    ) -> None:
        """Write an unusable record; bytes that aren't UTF-8 are shown as U+FFFD."""
        if self._dead_letters is not None:
            row = {
                "error": letter.reason,
                "topic": KINDS[letter.kind],
                "partition": partition,
                "offset": offset,
                "key": None if key is None else key.decode("utf-8", "replace"),
                "value": None if value is None else value.decode("utf-8", "replace"),
            }
            self._dead_letters.write(msgspec.json.encode(row) + b"\n")


def _write(stream: IO[bytes] | None, message: Metrics | Comparison | Alarm) -> None:
    if stream is not None:
        stream.write(encode(message) + b"\n")


@contextmanager
def _open_output(path: str | None) -> Iterator[IO[bytes] | None]:
    if path is None:
        yield None
    elif path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        try:
            stream: Any = gzip.open(path, "wb") if path.endswith(".gz") else Path(path).open("wb")
        except OSError as error:
            raise UsageError(f"can't write {path!r}: {error.strerror}") from error
        with stream:
            yield stream

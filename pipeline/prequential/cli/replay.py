"""`prequential replay`: evaluate files or a cluster's topics, with the results that workers publish."""

from __future__ import annotations

import argparse
import gc
from contextlib import ExitStack, suppress
from typing import IO, Any

import msgspec
from prequential.cli import common
from prequential.configuration.settings.model import Config
from prequential.engine.past import PastCourses
from prequential.offline.replay import summary
from prequential.offline.replay.sources import Located, place_of, replay
from prequential.offline.replay.text import show
from prequential.runtime.compilation import compile_loops, loops_for, progress_bar
from prequential.topics import decoding, encoding, specs
from prequential.topics.errors import WorkError, as_text, printable
from prequential.topics.outputs import Alarm, DeadLetter, Encoded, Incident, Output
from prequential.views.diagnosis.findings import findings
from prequential.views.report import Report
from prequential.views.wording.console import Console, complain

_HELP = "evaluate files (or a cluster's input topics) with the worker's engine"

_DESCRIPTION = """\
Reads instances, predictions and labels, and writes the metrics messages, drift alarms and incidents that a
worker publishes for them. Files are JSON lines, CSV, Parquet or Arrow, recognised by their first bytes and
their names. The section `files` of the configuration maps their columns. Predictions and labels may be the
same file. `-` is a standard stream, and `.gz` is (de)compressed.
Processes records in order of their ts across the files (ties: instances, predictions, labels, then the order
of the file). Ends with one last set of metrics for every sequence. Prints a summary on standard error:
records read and dropped, outcomes, models, incidents and likely mistakes. Exit status 1 if nothing was
evaluated."""


#: The options that name files of messages, in which `-` is `_`, and the contents of these files.
_OUTPUTS = {
    "metrics_out": "metrics messages",
    "comparisons_out": "comparisons of models",
    "disparities_out": "disparity between segments",
    "alarms_out": "drift alarms",
    "incidents_out": "incidents",
    "dead_letters_out": "invalid records",
}


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("replay", help=_HELP, description=_DESCRIPTION)
    common.add_kafka_options(parser)
    common.add_source_options(parser)
    for name, content in _OUTPUTS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="F", help=f"{content} (JSON lines)")
    parser.add_argument("--report", metavar="FILE.html", help="report in one HTML file")
    parser.add_argument("--summary", metavar="F", help="the summary as JSON")
    parser.add_argument(
        "--reused-ids", action="store_true",
        help="evaluate files in which an id comes again while its label is pending",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    outputs = (getattr(args, name) for name in (*_OUTPUTS, "report", "summary"))
    kinds = common.given_sources(args, outputs)
    config = common.load(args)
    gc.freeze()  # objects so far stay: rows of files are many small objects, and collections are frequent
    try:
        with common.sigterm_as_ctrl_c():
            return _replay(args, config, kinds)
    except OSError as error:
        name = "standard output" if error.filename is None else repr(error.filename)
        raise WorkError(f"can't write {name}: {error.strerror}") from error


def _replay(args: argparse.Namespace, config: Config, kinds: list[str]) -> int:
    # The summary and invalid records explain a failure, so they are written in any case; results only if
    # there are any.
    with ExitStack() as explaining:
        summary_out = explaining.enter_context(common.open_output(args.summary))
        letters = explaining.enter_context(common.open_output(args.dead_letters_out))
        with suppress(_NoResults), ExitStack() as stack:
            report_out = stack.enter_context(common.open_output(args.report))
            out = _Writer(stack, args, config, letters)
            replayed = _from_topics if args.from_topics else _from_files
            emission = replayed(args, config, kinds, out)
            account = out.account
            result = account.summary(emission)
            if report_out is not None and out.report is not None:
                out.report.findings += map(str, findings(account.facts()))
                report_out.write(out.report.html())
            refusal = _refusal(args, result, account)
            if refusal is not None or not result.evaluated:
                raise _NoResults
        if summary_out is not None:
            summary_out.write(common.as_json(result))
    if refusal is not None:
        raise refusal
    show(result, config, Console(stderr=True))  # after all files are written
    if not result.evaluated:
        raise WorkError(printable(summary.why(result, account.facts())))
    return 0


class _NoResults(Exception):
    """Nothing was evaluated, or the records are refused: files of results stay as they were."""


def _refusal(args: argparse.Namespace, result: summary.Summary, account: summary.Account) -> WorkError | None:
    """Return why the records of files are refused as a whole; None if they are not."""
    if args.from_topics:
        return None
    try:
        if not args.reused_ids:
            summary.refuse_reused_ids(result, "--reused-ids")
        if result.evaluated:
            summary.refuse_mostly_invalid(account.facts())
    except WorkError as error:
        return error
    return None


def _from_topics(
    args: argparse.Namespace, config: Config, kinds: list[str], out: _Writer
) -> list[summary.EmissionTimes] | None:
    """Replay the cluster's topics; return the times of metrics messages, if there were any."""
    from prequential.offline.replay import from_topics  # only this path needs a broker's clients

    metrics = _asks_for_metrics(args)
    compile_loops(complain, config)
    with progress_bar() as progress:
        from_topics.replay_topics(
            config, out.put, out.dead_letter, progress, out.account.add, metrics=metrics
        )
    return summary.emission_of(config, config) if metrics else None


def _from_files(
    args: argparse.Namespace, config: Config, kinds: list[str], out: _Writer
) -> list[summary.EmissionTimes] | None:
    """Replay files; return the times of metrics messages, if there were any."""
    with progress_bar() as progress:
        sources = common.read_sources(args, kinds, progress, config)
    out.sources.update((source.kind, source) for source in sources)
    total = sum(map(len, sources))
    metrics = _asks_for_metrics(args)
    with loops_for(config, total, complain), progress_bar() as progress:
        task = progress.add_task("replay", total=total)
        shard = replay(
            config, sources, out.put, lambda processed: progress.advance(task, processed), metrics=metrics,
            courses=PastCourses(),
        )  # fmt: skip
    out.account.note_sources(sources)
    out.account.add(shard)
    return summary.emission_of(shard.config, config, untimed=shard.catalog.untimed) if metrics else None


def _asks_for_metrics(args: argparse.Namespace) -> bool:
    """Return whether messages are written that are due by `emit`: metrics, and comparisons with them."""
    asked = args.metrics_out, args.comparisons_out, args.disparities_out, args.report
    return any(path is not None for path in asked)


class _Writer:
    """Writes outputs to their files, and counts them."""

    def __init__(
        self, stack: ExitStack, args: argparse.Namespace, config: Config, dead_letters: IO[bytes] | None
    ) -> None:
        results = (getattr(args, name) for name in _OUTPUTS if name != "dead_letters_out")
        files = [stack.enter_context(common.open_output(path)) for path in results]
        *encoded, self._alarms, self._incidents = files
        self._dead_letters = dead_letters
        self._encoded = dict(zip((specs.METRICS, specs.COMPARISONS, specs.DISPARITIES), encoded))
        self.sources: dict[int, Located] = {}
        paths = [getattr(args, kind) for kind in decoding.KINDS]
        names = ["standard input" if path == "-" else as_text(path) for path in paths if path is not None]
        title = ", ".join(dict.fromkeys(names)) or config.kafka.bootstrap_servers
        self.report = Report(title, config) if args.report is not None else None
        self.account = summary.Account(place_of(self.sources, config), self._find)

    def _find(self, kind: int, stream: str, instance_id: str) -> summary.Place | None:
        return self.sources[kind].find(stream, instance_id) if kind in self.sources else None

    def put(self, output: Output) -> None:
        if self.report is not None:
            self.report.put(output)
        if isinstance(output, Encoded):
            _write(self._encoded[output.topic], output.json)
        elif isinstance(output, Alarm):
            _write(self._alarms, encoding.encode(output))
            self.account.alarms.append(output)
        elif isinstance(output, Incident):
            _write(self._incidents, encoding.encode(output))
            self.account.incidents.add(output)
        else:
            source = self.sources[output.kind]
            self.dead_letter(output, 0, source.row(output.offset), None, source.raw(output.offset))

    def dead_letter(
        self, letter: DeadLetter, partition: int, offset: int, key: bytes | None, value: bytes | None
    ) -> None:
        """Write an invalid record; bytes that are not UTF-8 become U+FFFD."""
        if self._dead_letters is not None:
            row = {
                "error": letter.reason,
                "topic": decoding.KINDS[letter.kind],
                "partition": partition,
                "offset": offset,
                "key": None if key is None else key.decode("utf-8", "replace"),
                "value": None if value is None else value.decode("utf-8", "replace"),
            }
            if letter.row is not None:
                row["row"] = letter.row
            self._dead_letters.write(msgspec.json.encode(row) + b"\n")


def _write(stream: IO[bytes] | None, message: bytes) -> None:
    if stream is not None:
        stream.write(message + b"\n")

"""`prequential report`: a replay's results as HTML and Markdown; and `explain`: an incident in words."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from prequential.cli import common
from prequential.offline.replay.sources import lines_of
from prequential.topics import clients, decoding, specs
from prequential.topics.errors import UsageError, WorkError, as_text, printable
from prequential.views.answers.explanation import ExplainingMessages, explain
from prequential.views.report import Challenge, Condition, Promotion, Report, markdown, parse_condition
from prequential.views.state.history import History
from prequential.views.state.newest import TOPICS
from prequential.views.state.output_records import records_of
from prequential.views.wording.console import Console, complain, say


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "report",
        help="report on a finished replay: one HTML file, Markdown for CI, exit status by conditions",
        description="Write the dashboard's pages over the messages of a replay as one HTML file below 2 MB, "
        "which needs no server and no network, and tables as Markdown. With --fail-if the exit status is 1 "
        "if a condition holds or is undefined: MEASURE [SELECTORS] SIGN NUMBER. Without selectors it refers "
        "to each model except baselines, its stage `final`, and all history. With --promote it is 1 if the "
        "model may not replace the champion.",
    )
    common.add_kafka_options(parser)
    parser.add_argument("metrics", nargs="*", metavar="METRICS", help="metrics messages (JSON lines, .gz, -)")
    _add_archive_options(parser)
    parser.add_argument("--comparisons", metavar="F", help="comparisons of models (JSON lines)")
    parser.add_argument("--alarms", metavar="F", help="drift alarms (JSON lines)")
    parser.add_argument("--incidents", metavar="F", help="incidents (JSON lines)")
    parser.add_argument("--out", metavar="FILE.html", help="the report")
    parser.add_argument("--markdown", metavar="F", help="tables as Markdown (- is standard output)")
    parser.add_argument(
        "--fail-if",
        type=as_text,
        action="append",
        default=[],
        metavar="CONDITION",
        help='e.g. "accuracy < 0.9", "kappa[model=nb,stage=initial,estimator=window:1000] < 0.5", '
        '"error[segment=country=*] > 0.2", "alarms > 0", "tree not better"; repeatable',
    )
    parser.add_argument(
        "--promote",
        type=as_text,
        metavar="MODEL",
        help="print whether this model may replace the champion, and why; exit status 1 if not",
    )
    parser.add_argument(
        "--champion",
        type=as_text,
        metavar="MODEL",
        help="model that it would replace (default: the stream's champion, else each other model)",
    )
    parser.add_argument(
        "--title", type=as_text, default="", help="title of the report (default: names of the files)"
    )
    parser.set_defaults(run=run)


def _add_archive_options(parser: argparse.ArgumentParser) -> None:
    """Add --archive, --since, --until and --stream."""
    group = parser.add_argument_group("archive")
    group.add_argument(
        "--archive", metavar="DIR", help="archive of `prequential archive`, in place of all files of messages"
    )
    for name, bound in (("since", "first"), ("until", "end of the")):
        group.add_argument(
            f"--{name}", metavar="TIME",
            help=f"with --archive: {bound} label time of messages (RFC 3339, or ms since 1970)",
        )  # fmt: skip
    group.add_argument(
        "--stream", type=as_text, action="append", metavar="NAME",
        help="with --archive: only this stream; repeatable",
    )  # fmt: skip


def _check_counted(
    conditions: list[Condition | Challenge], args: argparse.Namespace, history: History
) -> None:
    """Raise UsageError if a condition needs alarms, incidents or comparisons, and none were given."""
    alarms = any(past.alarm_counts for past in history.past.values())
    read = {
        "alarms": alarms,
        "incidents": bool(history.incidents.all()),
        "comparisons": bool(history.all_pairs()),
    }
    for condition in conditions:
        if (
            args.archive is None
            and not read.get(condition.measure, True)
            and getattr(args, condition.measure) is None
        ):
            verb = "read" if condition.measure == "comparisons" else "count"
            raise UsageError(
                f"--fail-if {condition.text!r}: expected --{condition.measure} FILE, to {verb} them"
            )


def run(args: argparse.Namespace) -> int:
    """Write the outputs; return 1 if a condition holds."""
    conditions = [parse_condition(text) for text in args.fail_if]
    if args.out is None and args.markdown is None and args.promote is None and not conditions:
        raise UsageError("expected --out, --markdown, --fail-if or --promote")
    _check_inputs(args)
    if args.promote is not None and args.comparisons is None and args.archive is None:
        raise UsageError(f"--promote {args.promote!r}: expected --comparisons FILE, which has the verdicts")
    if args.champion is not None and args.promote is None:
        raise UsageError(f"--champion {args.champion!r}: expected --promote MODEL with it")
    paths = [*args.metrics, *(path for path in (args.comparisons, args.alarms, args.incidents) if path)]
    if paths.count("-") > 1:
        raise UsageError("standard input (-) can be only one of the files")
    common.refuse_one_file_twice((args.out, args.markdown), [args.config, *paths])
    names = ", ".join(as_text(path) for path in args.metrics if path != "-")
    names = names or ("" if args.archive is None else as_text(args.archive))
    report = Report(args.title or names, common.load(args))
    if args.archive is not None:
        _read_archive(report.history, args)
    for path in paths:
        with common.open_readable(path) as stream:
            for record in records_of(path, lines_of(stream, specs.DEAD_LETTER_MESSAGE_BYTES)):
                report.history.update(*record)
    history = report.history
    if not any(model.sequences for model in history.models.values()):
        raise WorkError(f"no metrics message in {names or 'standard input'}")
    _check_counted(conditions, args, history)
    if history.unreadable:
        complain(f"{history.unreadable:,} messages can't be read")
    with common.open_output(args.out) as out, common.open_output(args.markdown) as text_out:
        report.conditions = conditions
        if out is not None:
            out.write(report.html())
        if text_out is not None:
            text_out.write(markdown(history, report.title, conditions).encode())
    failed = False
    for condition in conditions:
        for answer in condition.check(history):
            if answer.failed:
                failed = True
                complain(printable(f"{answer.sentence}: --fail-if holds: {condition.text}"))
    if args.promote is not None:
        failed |= _promotion(Promotion(args.promote, args.champion), history)
    return int(failed)


def _check_inputs(args: argparse.Namespace) -> None:
    """Raise UsageError unless messages come either from files or from an archive."""
    files = [*args.metrics, *(path for path in (args.comparisons, args.alarms, args.incidents) if path)]
    if args.archive is not None and files:
        raise UsageError(f"--archive and {files[0]!r} exclude each other: expected files or an archive")
    if args.archive is None and not args.metrics:
        raise UsageError("expected METRICS, files with metrics messages, or --archive DIR")
    if args.archive is None and (args.since or args.until or args.stream):
        raise UsageError("--since, --until and --stream need --archive")


def _read_archive(history: History, args: argparse.Namespace) -> None:
    """Add the messages of an archive within --since and --until."""
    since, until = (
        None if text is None else _time(f"--{name}", text)
        for name, text in (("since", args.since), ("until", args.until))
    )
    archive = common.archive_at(args.archive)
    for message in archive.messages(TOPICS, since=since, until=until, streams=args.stream):
        history.update(*message)


def _promotion(promotion: Promotion, history: History) -> bool:
    """Print the answers on standard error; return whether the promotion fails."""
    answers = promotion.check(history)
    failed = any(answer.failed for answer in answers)
    console = Console(stderr=True, soft_wrap=True)
    console.print(printable(f"promote {promotion.model}: {'no' if failed else 'yes'}"))
    for answer in sorted(answers, key=lambda answer: not answer.failed):
        console.print(printable(f"  {'no: ' if answer.failed else ''}{answer.sentence}"))
    return failed


_DESCRIPTION = """\
Prints since when a model is worse, by how much, what changed, what the baselines did, whether detectors are
noisy, which records to inspect, and the alarms. Names the incident by its id or the beginning of it, or by a
model and a time within the incident. Reads committed messages of the topics incidents, drift-alarms and
metrics, or files that `prequential replay` has written. Exit status 1 if there is no such incident."""


def add_explain_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "explain", help="explain an incident: since when, how bad, why", description=_DESCRIPTION
    )
    parser.add_argument("incident", nargs="?", metavar="INCIDENT", help="its id, or the beginning of it")
    parser.add_argument("--stream", type=as_text, metavar="NAME", help="without an id: its stream")
    parser.add_argument("--model", type=as_text, metavar="NAME", help="without an id: its model")
    parser.add_argument(
        "--at", metavar="TIME", help="without an id: a label time within it (RFC 3339, or ms since 1970)"
    )
    parser.add_argument(
        "--from", dest="files", nargs="+", metavar="FILE", default=[],
        help="files to read in place of the topics (JSON lines; also - and .gz)",
    )  # fmt: skip
    common.add_kafka_options(parser)
    parser.set_defaults(run=_run_explain)


def _run_explain(args: argparse.Namespace) -> int:
    named = [args.stream, args.model, args.at]
    if (args.incident is None) == (None in named) or (args.incident and any(named)):
        raise UsageError("expected the id of an incident, or --stream, --model and --at")
    ts = None if args.at is None else _time("--at", args.at)
    explaining = ExplainingMessages()
    for path in args.files:
        with common.open_readable(path) as stream:
            for message in lines_of(stream, specs.DEAD_LETTER_MESSAGE_BYTES):
                if message.strip():
                    explaining.add(message)
    if not args.files:
        _read_topics(explaining, common.load(args).kafka)
    if explaining.unreadable:
        complain(f"{explaining.unreadable:,} messages can't be read")
    incidents = (
        explaining.by_id(args.incident) if ts is None else explaining.incident_at(args.stream, args.model, ts)
    )
    for line in explain(explaining, incidents):
        say(line)
    return 0


def _time(option: str, text: str) -> int:
    """The time of an option, in the forms that records have."""
    try:
        return int(text) if text.lstrip("-").isdecimal() else decoding.milliseconds(text)
    except ValueError as error:
        raise UsageError(
            f"{option} {text!r}: expected a time such as 2026-08-30T00:00:00Z, or ms since the epoch"
        ) from error


def _read_topics(explaining: ExplainingMessages, kafka: clients.KafkaConfig) -> None:
    """Return all incidents and alarms, which are few, and the newest metrics."""
    from prequential.views.watching.tail import Tail  # only this path needs a broker's clients

    judged, optional = (specs.INCIDENTS, specs.DRIFT_ALARMS, specs.INCIDENT_MARKS), (specs.INCIDENT_MARKS,)
    for topics, whole in ((judged, True), ((specs.METRICS,), False)):
        with closing(Tail(kafka, topics, from_beginning=whole, optional=optional)) as tail:
            for record in tail.to_end():
                explaining.update(*record)

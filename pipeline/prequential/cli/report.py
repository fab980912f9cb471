"""`prequential report`: the results of a replay as one HTML file, and as Markdown for CI."""

from __future__ import annotations

import argparse
from typing import Any

from prequential.cli.common import add_kafka_options, load, open_output, open_readable, refuse_one_file_twice
from prequential.offline.replay.sources import lines_of
from prequential.topics.errors import UsageError, WorkError, as_text, printable
from prequential.topics.specs import DEAD_LETTER_MESSAGE_BYTES
from prequential.views.dashboard.history import History
from prequential.views.dashboard.sources import records_of
from prequential.views.report import Challenge, Condition, Promotion, Report, markdown, parse_condition
from prequential.views.wording.console import Console, complain


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
    add_kafka_options(parser)
    parser.add_argument("metrics", nargs="+", metavar="METRICS", help="metrics messages (JSON lines, .gz, -)")
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


def _check_counted(
    conditions: list[Condition | Challenge], args: argparse.Namespace, history: History
) -> None:
    """Raise UsageError if a condition needs alarms, incidents or comparisons, and none were given."""
    alarms = any(past.alarm_counts for past in history.past.values())
    read = {
        "alarms": alarms,
        "incidents": bool(history.incidents.all()),
        "comparisons": bool(history.recent),
    }
    for one in conditions:
        if not read.get(one.measure, True) and getattr(args, one.measure) is None:
            what = "read" if one.measure == "comparisons" else "count"
            raise UsageError(f"--fail-if {one.text!r}: expected --{one.measure} FILE, to {what} them")


def run(args: argparse.Namespace) -> int:
    """Write the outputs; return 1 if a condition holds."""
    conditions = [parse_condition(text) for text in args.fail_if]
    if args.out is None and args.markdown is None and args.promote is None and not conditions:
        raise UsageError("expected --out, --markdown, --fail-if or --promote")
    if args.promote is not None and args.comparisons is None:
        raise UsageError(f"--promote {args.promote!r}: expected --comparisons FILE, which has the verdicts")
    if args.champion is not None and args.promote is None:
        raise UsageError(f"--champion {args.champion!r}: expected --promote MODEL with it")
    paths = [*args.metrics, *(path for path in (args.comparisons, args.alarms, args.incidents) if path)]
    if paths.count("-") > 1:
        raise UsageError("standard input (-) can be only one of the files")
    refuse_one_file_twice((args.out, args.markdown), [args.config, *paths])
    names = ", ".join(as_text(path) for path in args.metrics if path != "-")
    report = Report(args.title or names, load(args))
    for path in paths:
        with open_readable(path) as stream:
            for record in records_of(path, lines_of(stream, DEAD_LETTER_MESSAGE_BYTES)):
                report.history.update(*record)
    history = report.history
    if not any(model.sequences for model in history.models.values()):
        raise WorkError(f"no metrics message in {names or 'standard input'}")
    _check_counted(conditions, args, history)
    if history.unreadable:
        complain(f"{history.unreadable:,} messages can't be read")
    with open_output(args.out) as out:
        if out is not None:
            out.write(report.html())
    with open_output(args.markdown) as out:
        if out is not None:
            out.write(markdown(history, report.title, conditions).encode())
    failed = False
    for condition in conditions:
        for answer in condition.check(history):
            if answer.failed:
                failed = True
                complain(printable(f"{answer.sentence}: --fail-if holds: {condition.text}"))
    if args.promote is not None:
        failed |= _promotion(Promotion(args.promote, args.champion), history)
    return int(failed)


def _promotion(promotion: Promotion, history: History) -> bool:
    """Print the answers on standard error; return whether the promotion fails."""
    answers = promotion.check(history)
    failed = any(answer.failed for answer in answers)
    console = Console(stderr=True, soft_wrap=True)
    console.print(printable(f"promote {promotion.model}: {'no' if failed else 'yes'}"))
    for answer in sorted(answers, key=lambda answer: not answer.failed):
        console.print(printable(f"  {'no: ' if answer.failed else ''}{answer.sentence}"))
    return failed

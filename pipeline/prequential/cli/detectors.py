"""`prequential detectors`: backtests on the past; and `calibrate`: thresholds for a budget of alarms."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from prequential.cli import common
from prequential.configuration.settings.durations import DEFAULT_BUDGET, parse_budget
from prequential.offline.backtesting import changes, making
from prequential.offline.backtesting.report import plot, tables
from prequential.offline.backtesting.sequences import CHOICES, watched
from prequential.offline.calibration import calibrating
from prequential.offline.replay.sources import lines_of
from prequential.runtime.compilation import compile_loops, progress_bar
from prequential.topics.errors import as_text, existing
from prequential.topics.outputs import Output
from prequential.views.wording.console import complain, write

_HELP = "backtest drift detectors: their alarms on the past, and how many changes they find"

_DESCRIPTION = """\
Evaluates files, or the cluster's input topics, as `replay` does, and prints the alarms of the
configuration's drift detectors, or of those of --detector in their place. With known changes (--changes) or
injected ones (--inject) it also prints how many changes are found, false alarms per 10,000 outcomes, delays
in outcomes, and F1. Detectors that alarm always and never are the reference. Exit status 1 if nothing was
evaluated."""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("detectors", help=_HELP, description=_DESCRIPTION)
    common.add_kafka_options(parser)
    common.add_source_options(parser)
    group = parser.add_argument_group("detectors and changes")
    group.add_argument(
        "--detector", metavar="'NAME [SIGNAL] [PARAMETER=VALUE ...]'", action="append", default=[],
        help="a detector in place of the configuration's, such as 'adwin delta=0.01' or 'page-hinkley "
        "window:100/window:1000 delta=0.1 lambda=100'; `all`: each one with its defaults; repeatable",
    )  # fmt: skip
    group.add_argument(
        "--changes", metavar="FILE|OUTCOME,...",
        help="known changes: the last outcomes before them, or a file of JSON lines with `outcome` or `ts`, "
        "and optionally `width`, `stream`, `model`, `segment`, `stage`",
    )  # fmt: skip
    group.add_argument(
        "--inject", metavar="abrupt:RISE@OUTCOME|gradual:RISE@OUTCOME+WIDTH", action="append", default=[],
        help="raise the error by RISE after an outcome, in streams of random blocks of each past sequence, "
        "such as abrupt:0.05@5000; repeatable",
    )  # fmt: skip
    group.add_argument(
        "--tolerance", metavar="N", type=_whole(1, making.MOST_OUTCOMES), default=making.TOLERANCE,
        help=f"outcomes after a change within which an alarm finds it (default: {making.TOLERANCE:,})",
    )  # fmt: skip
    group.add_argument(
        "--seeds", metavar="N", type=_whole(1, making.MOST_SEEDS),
        help=f"simulated streams per sequence (default: {making.SEEDS})",
    )  # fmt: skip
    group.add_argument(
        "--block", metavar="N", type=_whole(1, making.MOST_OUTCOMES),
        help="outcomes per block (default: by the dependence of neighbouring losses)",
    )  # fmt: skip
    for name in CHOICES:
        group.add_argument(f"--{name}", metavar="NAME", type=as_text, help="only sequences with this name")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--plot", metavar="F.svg", help="file for a drawing in SVG")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    kinds = common.given_sources(args, [args.plot])
    injections = [changes.parse_injection(text) for text in args.inject]
    asked = making.BacktestOptions((), injections, args.inject, args.tolerance, args.seeds, args.block)
    asked.check()
    config = common.load(args)
    detectors = [detector for text in args.detector for detector in changes.parse_detector(text)]
    if detectors:
        config = changes.with_detectors(config, detectors)
    asked = asked._replace(changes=_changes(args.changes))
    compile_loops(complain, config)
    messages: list[Output] = []
    wanted = {name: getattr(args, name) for name in CHOICES}
    past = watched(common.past_of(args, config, kinds, messages.append), wanted)
    report = making.backtest(past, messages, asked, complain)
    if args.plot is not None:
        with common.open_output(args.plot) as file:
            existing(file, "the drawing").write(plot(report, past).encode())
    common.print_report(report, tables(report), json=args.json)
    return 0


def _changes(changes_text: str | None) -> list[changes.KnownChange]:
    if changes_text is None:
        return []
    if changes.is_outcomes(changes_text):
        return changes.parse_outcomes(changes_text)
    with common.open_input(changes_text) as (lines, _):
        return changes.parse_lines(changes_text, lines_of(lines))


def _whole(least: int, most: int) -> Any:

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text[:20]) <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from {least} to {most}")
        return int(text)

    return parse


_CALIBRATE_HELP = "thresholds of drift detectors for a budget of false alarms"

_CALIBRATE_DESCRIPTION = """\
Makes long streams that resemble the past in files, or in the cluster's input topics: errors depend on each
other as they did. Counts how often each configured detector raises an alarm on them. Then finds the
thresholds at which all detectors of a stream together have as many false alarms as the budget allows, over
all models, stages and segments. Prints these thresholds, the delay of finding a change, and the lines for
the configuration."""


def add_calibrate_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("calibrate", help=_CALIBRATE_HELP, description=_CALIBRATE_DESCRIPTION)
    common.add_kafka_options(parser)
    common.add_source_options(parser)
    group = parser.add_argument_group("budget")
    group.add_argument(
        "--budget", metavar="'N per DURATION'",
        help="accepted false alarms of a stream (default: its alarm_budget, or else "
        f"{DEFAULT_BUDGET})",
    )  # fmt: skip
    group.add_argument(
        "--change", metavar="RISE", type=_above_zero,
        help="rise of the mean loss whose delay is reported (default: the stream's alarm_change)",
    )  # fmt: skip
    group.add_argument(
        "--outcomes", metavar="N", type=_whole(calibrating.LEAST_OUTCOMES, calibrating.MOST_OF_CALIBRATION),
        default=calibrating.OUTCOMES,
        help="simulated outcomes per sequence; more give narrower bounds "
        f"(default: {calibrating.OUTCOMES:,})",
    )  # fmt: skip
    group.add_argument("--seed", metavar="N", type=int, default=1, help="seed of random numbers (default: 1)")
    group.add_argument("--stream", metavar="NAME", type=as_text, help="only sequences of this stream")
    group.add_argument("--out", metavar="F.yaml", help="file for the lines of the configuration")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.set_defaults(run=_run_calibrate)


def _run_calibrate(args: argparse.Namespace) -> int:
    kinds = common.given_sources(args, [args.out])
    with common.open_output(args.out) as file:
        budget = None if args.budget is None else parse_budget(args.budget)
        config = common.load(args)
        compile_loops(complain, config)
        pasts = watched(common.past_of(args, config, kinds), {"stream": args.stream})
        with progress_bar() as progress:
            task = progress.add_task("sequences", total=len(pasts))
            settings = calibrating.CalibrationOptions(budget, args.change, args.outcomes, args.seed)
            report = calibrating.calibrate(pasts, settings, partial(progress.advance, task))
        common.print_report(report, calibrating.calibration_tables(report), json=args.json)
        calibrating.check_found(report)
        text = "".join(f"{line}\n" for line in calibrating.lines(report))
        if file is not None:
            file.write(text.encode())
        elif not args.json:
            write(f"\n{text}".encode())
    return 0


def _above_zero(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0")
    return number

"""`prequential calibrate`: thresholds of drift detectors for a budget of false alarms."""

from __future__ import annotations

import argparse
from functools import partial
from typing import IO, Any

import msgspec
from prequential.cli.common import add_kafka_options, load, open_output
from prequential.cli.sources import (
    add_source_options,
    as_it_is,
    given_sources,
    past_of,
)
from prequential.configuration.settings.durations import DEFAULT_BUDGET, parse_budget
from prequential.offline.calibration.calibrating import (
    LEAST_OUTCOMES,
    MOST_OUTCOMES,
    OUTCOMES,
    CalibrationOptions,
    calibrate,
)
from prequential.offline.calibration.report import check_found, lines, tables
from prequential.offline.past.sequences import watched
from prequential.offline.replay.text import print_wide
from prequential.runtime.program.compilation import compile_loops
from prequential.runtime.program.progress import progress_bar
from prequential.topics.errors import as_text
from prequential.views.wording.console import Console, complain, write

_HELP = "thresholds of drift detectors for a budget of false alarms"

_DESCRIPTION = """\
Makes long streams that resemble the past in files, or in the cluster's input topics: errors depend on each
other as they did. Counts how often each configured detector raises an alarm on them. Then finds the
thresholds at which all detectors of a stream together have as many false alarms as the budget allows, over
all models, stages and segments. Prints these thresholds, the delay of finding a change, and the lines for
the configuration."""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("calibrate", help=_HELP, description=_DESCRIPTION)
    add_kafka_options(parser)
    add_source_options(parser)
    what = parser.add_argument_group("budget")
    what.add_argument(
        "--budget", metavar="'N per DURATION'",
        help="accepted false alarms of a stream (default: its alarm_budget, or else "
        f"{DEFAULT_BUDGET})",
    )  # fmt: skip
    what.add_argument(
        "--change", metavar="RISE", type=_above_zero,
        help="rise of the mean loss whose delay is reported (default: the stream's alarm_change)",
    )  # fmt: skip
    what.add_argument(
        "--outcomes", metavar="N", type=_outcomes, default=OUTCOMES,
        help=f"simulated outcomes per sequence; more give narrower bounds (default: {OUTCOMES:,})",
    )  # fmt: skip
    what.add_argument("--seed", metavar="N", type=int, default=1, help="seed of random numbers (default: 1)")
    what.add_argument("--stream", metavar="NAME", type=as_text, help="only sequences of this stream")
    what.add_argument("--out", metavar="F.yaml", help="file for the lines of the configuration")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    given = given_sources(args, [args.out])
    with open_output(args.out) as file:
        return _calibrate(args, given, file)


def _calibrate(args: argparse.Namespace, given: list[str], file: IO[bytes] | None) -> int:
    budget = None if args.budget is None else parse_budget(args.budget)
    config = load(args)
    compile_loops(complain, config)
    pasts = watched(past_of(args, config, given), {"stream": args.stream})
    with progress_bar() as progress:
        task = progress.add_task("sequences", total=len(pasts))
        settings = CalibrationOptions(budget, args.change, args.outcomes, args.seed)
        report = calibrate(pasts, settings, partial(progress.advance, task))
    if args.json:
        write(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    else:
        for table in tables(report):
            print_wide(partial(as_it_is, table), Console())
    check_found(report)
    text = "".join(f"{line}\n" for line in lines(report))
    if file is not None:
        file.write(text.encode())
    elif not args.json:
        write(f"\n{text}".encode())
    return 0


def _above_zero(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0")
    return number


def _outcomes(text: str) -> int:
    """Return a number of outcomes to simulate."""
    if not text.isdigit() or not LEAST_OUTCOMES <= int(text[:20]) <= MOST_OUTCOMES:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected a whole number from {LEAST_OUTCOMES} to {MOST_OUTCOMES}"
        )
    return int(text)

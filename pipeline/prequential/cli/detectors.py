"""`prequential detectors`: what drift detectors would have said on the past, and how right they would be."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from prequential.backtesting.changes import Known, is_outcomes, parse_injection, parse_lines, parse_outcomes
from prequential.backtesting.detectors import parse_detector, with_detectors
from prequential.backtesting.making import injected, on_the_past
from prequential.backtesting.plot import plot
from prequential.backtesting.report import Report, tables
from prequential.cli.common import add_kafka_options, load, open_input
from prequential.cli.sources import (
    add_source_options,
    as_it_is,
    given_sources,
    notice,
    read_past,
)
from prequential.core.detectors.objectives import every_detector
from prequential.past.sequences import Sequence
from prequential.program.compilation import compile_loops
from prequential.replay.sources import lines_of
from prequential.replay.table import print_wide
from prequential.settings.model import Config
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.outputs import Alarm, Output
from prequential.topics.reasons import printable
from rich.console import Console

_HELP = "what drift detectors would have said on the past, and how right they would be"

_DESCRIPTION = """\
Drives the worker's engine over files, or over the cluster's input topics, as `replay` does, and prints the
alarms of the configuration's drift detectors, or of those of --detector in their place. Where changes are
known (--changes), or put into streams like the past ones (--inject), it says how right the detectors are:
share of changes found, false alarms for 10,000 outcomes, delay in outcomes, F1; beside who always raises an
alarm, and who never does. Ends with status 1 if nothing was evaluated."""

_SEEDS, _MOST_SEEDS = 100, 100_000
_TOLERANCE, _MOST_OUTCOMES = 2_000, 100_000_000

#: By which sequences can be chosen.
_CHOICES = ("stream", "model", "segment", "stage")


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("detectors", help=_HELP, description=_DESCRIPTION)
    add_kafka_options(parser)
    add_source_options(parser)
    what = parser.add_argument_group("detectors and changes")
    what.add_argument(
        "--detector", metavar="'NAME [SIGNAL] [PARAMETER=VALUE ...]'", action="append", default=[],
        help="a detector in place of the configuration's, such as 'adwin delta=0.01' or 'page-hinkley "
        "window:100/window:1000 delta=0.1 lambda=100'; `all` is each one with its defaults; may come again",
    )  # fmt: skip
    what.add_argument(
        "--changes", metavar="FILE|OUTCOME,...",
        help="known changes: the last outcomes before them, or a file of JSON lines with `outcome` or `ts`, "
        "and maybe `width`, `stream`, `model`, `segment`, `stage`",
    )  # fmt: skip
    what.add_argument(
        "--inject", metavar="abrupt:RISE@OUTCOME|gradual:RISE@OUTCOME+WIDTH", action="append", default=[],
        help="make streams like each past sequence (blocks of its outcomes drawn at random) in which the "
        "error rises by RISE after an outcome, such as abrupt:0.05@5000; may come again",
    )  # fmt: skip
    what.add_argument(
        "--tolerance", metavar="N", type=_whole(1, _MOST_OUTCOMES), default=_TOLERANCE,
        help=f"outcomes after a change within which an alarm finds it (default: {_TOLERANCE:,})",
    )  # fmt: skip
    what.add_argument(
        "--seeds", metavar="N", type=_whole(1, _MOST_SEEDS),
        help=f"streams made of each sequence (default: {_SEEDS})",
    )  # fmt: skip
    what.add_argument(
        "--block", metavar="N", type=_whole(1, _MOST_OUTCOMES),
        help="outcomes in a block (default: by the dependence of neighbouring losses)",
    )  # fmt: skip
    for name in _CHOICES:
        what.add_argument(f"--{name}", help=f"sequences of this {name} alone")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--plot", metavar="F.svg", help="draw it as SVG")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    given = given_sources(args)
    injections = [parse_injection(text) for text in args.inject]
    for name in ("seeds", "block"):
        if getattr(args, name) is not None and not injections:
            raise UsageError(f"--{name} is about streams that are made: expected --inject beside it")
    if len({one.change.outcome for one in injections}) < len(injections):
        raise UsageError("--inject: expected one rise after an outcome, here are two")
    config = load(args)
    detectors = [one for text in args.detector for one in parse_detector(text)]
    if detectors:
        config = with_detectors(config, detectors)
    known = _changes(args.changes)
    compile_loops(notice, config)
    past, alarms = _past(args, config, given)
    tolerance = args.tolerance
    report = Report(tolerance, on_the_past(past, alarms, known, tolerance), None)
    if known and not any(one.changes for one in report.past.sequences):
        longest = max(map(len, past))
        raise WorkError(f"no change of --changes lies within a sequence: the longest has {longest} outcomes")
    if injections:
        made = injected(past, injections, args.inject, args.seeds or _SEEDS, tolerance, args.block)
        report.injected = made
        for sentence in made.left_out:
            notice(f"no streams with --inject of {printable(sentence)}")
        if not made.lines:
            raise WorkError("no streams could be made with --inject")
    if args.plot is not None:
        try:
            Path(args.plot).write_text(plot(report, past), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"can't write {args.plot!r}: {error.strerror}") from error
    if args.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    else:
        for table in tables(report):
            print_wide(partial(as_it_is, table), Console())
    return 0


def _past(args: argparse.Namespace, config: Config, given: list[str]) -> tuple[list[Sequence], list[Alarm]]:
    """The sequences that detectors watch and that were asked for, and all alarms."""
    alarms: list[Alarm] = []

    def put(output: Output) -> None:
        if isinstance(output, Alarm):
            alarms.append(output)

    sequences = [one for one in read_past(args, config, given, put) if one.watched]
    for name in _CHOICES:
        asked = getattr(args, name)
        if asked is not None:
            known = sorted({str(getattr(one, name)) for one in sequences})
            sequences = [one for one in sequences if getattr(one, name) == asked]
            if not sequences:
                raise WorkError(f"no sequence of --{name} {asked!r}: there are {', '.join(known)}")
    if not any(every_detector(one.config) for one in sequences):
        raise WorkError("no detector is configured for what was evaluated: expected --detector")
    return sequences, alarms


def _changes(given: str | None) -> list[Known]:
    if given is None:
        return []
    if is_outcomes(given):
        return parse_outcomes(given)
    with open_input(given) as (lines, _):
        return parse_lines(given, lines_of(lines))


def _whole(least: int, most: int) -> Any:
    """A whole number within bounds."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text[:20]) <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from {least} to {most}")
        return int(text)

    return parse

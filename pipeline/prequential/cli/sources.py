"""Options for the past: files, or a cluster's input topics."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from prequential.cli.common import refuse_one_file_twice
from prequential.configuration.settings.model import Config
from prequential.offline.past.sequences import PastSequence, read_past
from prequential.offline.replay.sources import Located
from prequential.offline.tables.opening import open_sources
from prequential.runtime.program.progress import progress_bar, reading
from prequential.topics.decoding import KINDS
from prequential.topics.errors import UsageError
from prequential.topics.outputs import Output
from prequential.views.wording.console import Console
from rich.progress import Progress
from rich.table import Table


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
    given = [kind for kind in KINDS if getattr(args, kind) is not None]
    if args.from_topics and given:
        raise UsageError(f"--from-topics and --{given[0]} exclude each other")
    if not args.from_topics and not {"predictions", "labels"} <= set(given):
        raise UsageError("expected --predictions and --labels (or --from-topics)")
    if [getattr(args, kind) for kind in given].count("-") > 1:
        raise UsageError("standard input (-) can be only one of the files")
    refuse_one_file_twice(outputs, [args.config, *(getattr(args, kind) for kind in given)])
    return given


def read_sources(
    args: argparse.Namespace, given: list[str], progress: Progress, config: Config
) -> list[Located]:
    """Read the files; raise UsageError or WorkError if one is unreadable."""
    paths = {KINDS.index(kind): getattr(args, kind) for kind in given}
    return open_sources(config, paths, lambda kind: reading(progress, KINDS[kind]))


def past_of(
    args: argparse.Namespace, config: Config, given: list[str],
    put: Callable[[Output], None] = lambda output: None,
) -> list[PastSequence]:  # fmt: skip
    """Return all sequences of files or topics; `put` gets the alarms. Raises WorkError without outcomes."""
    with progress_bar() as progress:
        sources = None if args.from_topics else read_sources(args, given, progress, config)
        past, _ = read_past(config, sources, put, progress)
    return past


def as_it_is(table: Table, console: Console) -> Table:
    """Return a table for `print_wide` that is the same for every output."""
    return table

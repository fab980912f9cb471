"""`prequential topics create|check`: make the topics, or say how existing ones don't fit."""

from __future__ import annotations

import argparse
from typing import Any

from prequential.cli.common import add_kafka_options, kafka_from
from prequential.topics.admin import check, create
from prequential.topics.specs import topic_specs


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "topics",
        help="create or check the topics",
        description="Create the topics that are missing, or report every way in which existing "
        "ones don't fit. Existing topics are never changed. Exit status 1 for an error: a worker "
        "would refuse the topics, evaluate wrongly or lose data. A remark says what works, but "
        "isn't as it would be created.",
    )
    parser.add_argument("action", choices=("create", "check"))
    add_kafka_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what was made and every misfit, a line each; 1 if there are errors."""
    kafka = kafka_from(args)
    specs = topic_specs(kafka)
    if args.action == "create":
        report = create(kafka, specs)
        misfits = report.misfits
        for verb, names in (("created", report.created), ("left as it is:", report.existing)):
            for name in names:
                print(verb, name)
    else:
        misfits = check(kafka, specs)
    for kind, sentences in (("error", misfits.errors), ("remark", misfits.remarks)):
        for sentence in sentences:
            print(f"{kind}: {sentence}")
    if misfits.errors:
        return 1
    print(f"all {len(specs)} topics fit{', but for what is remarked' if misfits.remarks else ''}")
    return 0

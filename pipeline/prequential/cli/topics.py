"""`prequential topics create|check|grow`, and `schema [TOPIC]`: topics, and the form of their messages."""

from __future__ import annotations

import argparse
import json
import logging
from typing import Any

from prequential.cli.common import add_kafka_options, load
from prequential.configuration.settings.model import Config
from prequential.engine.comparisons.measuring import NAMES as OF_PAIRS
from prequential.engine.measures.registry import MEASURES
from prequential.topics import admin, avro, schemas
from prequential.topics.errors import UsageError
from prequential.topics.specs import COMPARISONS, topic_specs
from prequential.views.wording.console import say, write

log = logging.getLogger(__name__)


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "topics",
        help="create, check or grow the topics",
        description="Create missing topics, or report every way in which existing topics don't fit. "
        "Existing topics are never changed. Exit status 1 for an error: a worker "
        "would refuse the topics, evaluate wrongly or lose data. A remark is about a topic that works, but "
        "differs from what `create` makes. `grow` gives all topics more partitions and splits the state of "
        "their streams, while producers and workers are stopped. After an interruption, run it again.",
    )
    parser.add_argument("action", choices=("create", "check", "grow"))
    parser.add_argument(
        "--partitions", type=int, metavar="N",
        help="with grow: new number, a multiple of the current one (default: kafka.partitions)",
    )  # fmt: skip
    add_kafka_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the results and every misfit, a line each; return 1 if there are errors."""
    config = load(args)
    if args.action == "grow":
        return _grow(config, args.partitions)
    if args.partitions is not None:
        raise UsageError("--partitions goes with `topics grow`: create and check use kafka.partitions")
    kafka = config.kafka
    horizon = config.longest_horizon
    specs = topic_specs(kafka, horizon, wide=bool(config.wide), disparity=config.finds_disparity)
    if args.action == "create":
        report = admin.create(kafka, specs, horizon)
        misfits = report.misfits
        for verb, names in (("created", report.created), ("exists, unchanged:", report.existing)):
            for name in names:
                say(f"{verb} {name}")
    else:
        misfits = admin.check(kafka, specs, horizon=horizon)
    for kind, sentences in (("error", misfits.errors), ("remark", misfits.remarks)):
        for sentence in sentences:
            say(f"{kind}: {sentence}")
    if misfits.errors:
        return 1
    inputs = [spec.name for spec in specs if spec.role == "input"]
    differ = admin.partitions_differ(kafka, admin.partition_counts(kafka, inputs))
    if differ is not None:
        say(f"remark: {differ}")
    remarked = misfits.remarks or differ is not None
    say(f"all {len(specs)} topics fit{', except for the remarks' if remarked else ''}")
    return 0


def _grow(config: Config, partitions: int | None) -> int:
    from prequential.runtime.compilation import compile_loops
    from prequential.runtime.worker.growing import grow  # the engine is slow to import

    wanted = config.kafka.partitions if partitions is None else partitions
    compile_loops(log.info, config)
    before = grow(config, wanted, say)
    if before == wanted:
        say(f"all topics have {wanted} partitions already")
    else:
        say(f"all topics have {wanted} partitions now, {before} before: you may start workers and producers")
    if config.kafka.partitions != wanted:
        say(f"kafka.partitions is {config.kafka.partitions} in the configuration: change it to {wanted}")
    return 0


def add_schema_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "schema",
        help="print the JSON Schema of an output topic",
        description="Print the JSON Schema (2020-12) of the messages of an output topic, or of all topics. "
        "Dead letters are the original records; their schema is that of the lines of `dead-letters --json`.",
    )
    names = tuple(schemas.STRUCTS)
    parser.add_argument("topic", nargs="?", choices=names, metavar="TOPIC", help=", ".join(names))
    other_form = parser.add_mutually_exclusive_group()
    other_form.add_argument(
        "--connect", action="store_true",
        help="print the schema for Kafka Connect's JsonConverter in one line instead "
        "(schema.content, Connect 4.2 or later), with the fields that fit columns",
    )  # fmt: skip
    other_form.add_argument(
        "--avro", action="store_true",
        help="print the Avro schema of the messages of prequential.topics.avro instead",
    )  # fmt: skip
    parser.set_defaults(run=_run_schema)


def _run_schema(args: argparse.Namespace) -> int:
    if args.topic is None and (args.connect or args.avro):
        option = "--connect" if args.connect else "--avro"
        raise UsageError(f"{option} needs one topic: expected e.g. schema metrics {option}")
    if args.connect:
        measures = OF_PAIRS if args.topic == COMPARISONS else MEASURES
        text = json.dumps(schemas.connect_schema(args.topic, measures), separators=(",", ":"))
    else:
        form = avro.avro_schema if args.avro else schemas.schema
        schema_forms = (
            {topic: form(topic) for topic in schemas.STRUCTS} if args.topic is None else form(args.topic)
        )
        text = json.dumps(schema_forms, indent=2, ensure_ascii=False)
    write(text.encode() + b"\n")  # UTF-8 in every locale
    return 0

"""What is paid for measures and details: at each outcome of a model, and at each metrics message.

`python -m tests.bench.measures` (or `make bench ARGS=--measures`) evaluates outcomes with probabilities, in
two stages and by three estimators, under several choices of measures and details; then it makes messages
again and again: about one model at a time, as where they are due by count, and about all models at once with
what became of their predictions, as where they are due by time.

Seconds are CPU seconds of the thread that runs the engine; loops are compiled before.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import thread_time
from typing import Any

from prequential.cli.worker import quiet_collector
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DETAILS, StreamConfig
from prequential.engine.measures.registry import NAMES
from prequential.engine.shard import Shard
from prequential.runtime.program.compilation import compile_loops
from prequential.topics.encoding import encode
from prequential.topics.outputs import Metrics

from tests.bench.feeding import feed, models_of
from tests.bench.messages import generate

#: Two models each: windows are full, and many messages are due at once.
STREAMS, INSTANCES = 20, 24_000

#: Messages that are timed, at least.
MESSAGES = 4_000

#: Agreement alone: kappa against chance and both baselines.
FEW = ("error", "accuracy", "kappa", "p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus")
ALL = NAMES

CASES: dict[str, StreamConfig] = {
    "eight measures": StreamConfig(measures=FEW),
    "default measures": StreamConfig(),
    "all measures": StreamConfig(measures=ALL),
    "all measures and details": StreamConfig(measures=ALL, details=DETAILS),
    "default, bins 1 to 10, intermediate": StreamConfig(stages=("initial", "final", "bins", "intermediate")),
}


def measure(config: StreamConfig, classes: int, instances: int, messages: int) -> dict[str, float]:
    """CPU µs of an outcome, and of a message: made alone, made with many others, as JSON."""
    shard = Shard(Config(defaults=replace(config, emit_outcomes=None, emit_every=None)))
    evaluation: Any = shard.evaluation
    evaluate = evaluation.finish
    evaluating = 0.0

    def timed(*given: Any) -> Any:
        nonlocal evaluating
        began = thread_time()
        found = evaluate(*given)
        evaluating += thread_time() - began
        return found

    evaluation.finish = timed
    for _ in feed(shard, generate(instances, 2, STREAMS, classes=classes, case="y_proba")):
        pass
    del evaluation.finish
    catalog, reporter = shard.catalog, shard.reporter
    rows = models_of(shard)
    outcomes = int(catalog.columns.entities.outcomes[rows].sum())

    def alone() -> list[Metrics]:
        return [message for row in rows for message in reporter.metrics([row])]

    def together() -> list[Metrics]:
        return reporter.metrics(rows, covered=True)

    made = together()
    return {
        "us_outcome": evaluating / outcomes * 1e6,
        "us_alone": _each(alone, len(made), messages),
        "us_together": _each(together, len(made), messages),
        "us_json": _each(lambda: list(map(encode, made)), len(made), messages),
        "bytes": sum(len(encode(message)) for message in made) / len(made),
    }


def _each(make: Callable[[], object], size: int, messages: int) -> float:
    """CPU µs of each of `size` messages."""
    times = -(-messages // size)
    began = thread_time()
    for _ in range(times):
        make()
    return (thread_time() - began) / (times * size) * 1e6


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=INSTANCES, metavar="N")
    parser.add_argument("--messages", type=int, default=MESSAGES, metavar="N", help="timed, at least")
    parser.add_argument("--json", action="store_true", help="for machines")
    args = parser.parse_args()
    compile_loops(partial(print, file=sys.stderr), Config(streams=CASES))
    quiet_collector()
    if not args.json:
        print(f"{'CPU µs':35} classes  outcome  message, alone  with others  as JSON  bytes")
    for name, config in CASES.items():
        for classes in (2, 7):
            found = measure(config, classes, args.instances, args.messages)
            if args.json:
                print(json.dumps({"case": name, "classes": classes, **found}), flush=True)
            else:
                print(
                    f"{name:35} {classes:7}  {found['us_outcome']:7.2f}  {found['us_alone']:14.1f}  "
                    f"{found['us_together']:11.1f}  {found['us_json']:7.1f}  {found['bytes']:5.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

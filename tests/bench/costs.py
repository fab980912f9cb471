"""What an event costs in each of the benchmark's cases, in few streams and in many.

`python -m tests.bench.costs [--case y_proba] … [--streams 100] …` puts the benchmark's messages through a
shard, each case and number of streams in a process of its own, without a broker. Seconds are CPU seconds of
the thread that runs the engine, which is compiled before; the collector of cyclic garbage is set as the
worker sets it.

With `--no-incidents` nothing follows incidents, which a configuration can't have: what they cost is the
difference. With `--expected` each case runs with `expected` and without, in turn: what expected values of
periods cost is the median of the differences.

The rounds in which streams and models come for the first time stand apart: what is made for each of them once
isn't what an event costs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
from functools import partial
from statistics import median
from typing import Any

from prequential.cli.worker import quiet_collector
from prequential.configuration.settings.model import Config
from prequential.engine.shard import Shard
from prequential.runtime import program
from prequential.runtime.compilation import compile_loops

from tests.bench.cases import CASES
from tests.bench.feeding import ROUND, feed, models_of, per_event, resident
from tests.bench.messages import generate

MODELS = 2

STREAMS = (1, 100, 1_000)

#: Cases whose messages are single records: batches cost the engine the same.
_SINGLE = [name for name, about in CASES.items() if about.batch == 1]

#: Records of a run. At the benchmark's rate of instances they span ten seconds of event time, the default of
#: `emit.every`: messages by time become due once.
RECORDS = 400_000

_STEPS = ("decoding", "joining", "reporting", "encoding")


def measure(
    case: str, streams: int, records: int, incidents: bool = True, expected: bool = True
) -> dict[str, Any]:
    """One case."""
    about = CASES[case]
    about = dataclasses.replace(about, config=dataclasses.replace(about.config, expected=expected))
    compile_loops(partial(print, file=sys.stderr), Config(defaults=about.config))
    models = about.models or MODELS
    each = 2 + models * about.predictions
    before = resident()
    shard = Shard(Config(defaults=about.config))
    if not incidents:
        for name in ("consume", "follow_events"):
            setattr(shard.state.incidents, name, lambda *_: [])
    size = min(4 * ROUND, records // 2)
    rounds = list(feed(shard, generate(records // each, models, streams, case=case), size))
    program.give_back()  # as a worker does every 30 s
    memory = resident() - before
    known = 1 + min(len(rounds) - 2, streams * each // size)  # rounds until all streams are
    first, rest = rounds[:known], rounds[known:]
    outcomes = shard.catalog.columns.entities.outcomes
    return {
        "case": case if incidents and expected else f"{case} -",
        "streams": streams,
        "us": per_event(rest, "seconds"),
        **{f"{step}_us": per_event(rest, step) for step in _STEPS},
        "beginning_us": per_event(first, "seconds"),
        "messages": sum(spent.messages for spent in rest),
        "records": sum(spent.records for spent in rest),
        "outcomes": int(outcomes[models_of(shard)].sum()),
        "dead_letters": sum(shard.state.dead_letters),
        "mb": memory / 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


_HEADINGS = (
    "   all", "decode", " join", "messages", "as JSON", "while new", "messages/1,000", " each", "state MB",
)  # fmt: skip


def line(result: dict[str, Any]) -> str:
    """A case's figures under the headings: µs per event, messages for 1,000 events, µs per message."""
    made = result["reporting_us"] * result["records"] / max(1, result["messages"])
    figures = [
        *(f"{result[field]:,.2f}" for field in ("us", *(f"{step}_us" for step in _STEPS), "beginning_us")),
        f"{1_000 * result['messages'] / result['records']:,.0f}", f"{made:,.1f}", f"{result['mb']:,.0f}",
    ]  # fmt: skip
    shown = (figure.rjust(len(heading)) for figure, heading in zip(figures, _HEADINGS))
    return f"{result['case']:10} {result['streams']:>7,.0f}  " + "  ".join(shown)


def medians(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Of runs of one case: of all that is a number."""
    return {
        field: value if isinstance(value, str) else median(result[field] for result in results)
        for field, value in results[0].items()
    }


def paired(case: str, streams: int, records: int, rounds: int) -> str:
    """What expected values cost an outcome, from pairs of runs, of which every other begins without them."""
    differences: dict[str, list[float]] = {step: [] for step in ("us", "joining_us")}
    for one in range(rounds):
        runs = {}
        for expected in (one % 2 == 0, one % 2 == 1):
            runs[expected] = _alone(case=case, streams=streams, records=records, expected=expected)
        for step, found in differences.items():
            each = [run[step] * records / run["outcomes"] for run in (runs[True], runs[False])]
            found.append(each[0] - each[1])
    cells = (f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f})" for found in differences.values())
    return f"{case}, {streams} streams: {', of that in the join '.join(cells)} µs an outcome"


def _alone(**about: Any) -> dict[str, Any]:
    """A case in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.costs", "--one", json.dumps(about)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def main() -> None:
    """Run the cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=_SINGLE, help="only this (repeatable)")
    parser.add_argument(
        "--streams", action="append", type=int, metavar="N", help="so many (repeatable; 1, 100 and 1000)"
    )
    parser.add_argument("--records", type=int, default=RECORDS, metavar="N", help=f"default: {RECORDS}")
    parser.add_argument(
        "--rounds", type=int, default=1, metavar="N", help="go round so often, and print medians (default: 1)"
    )
    parser.add_argument("--no-incidents", action="store_true", help="follow none (marked with -)")
    parser.add_argument("--expected", action="store_true", help="each with `expected` and without")
    parser.add_argument("--json", action="store_true", help="for machines: every run by itself")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        program.map_large_blocks()
        quiet_collector()
        print(json.dumps(measure(**json.loads(args.one))))
        return
    if args.expected:
        for case in args.case or ("period",):
            for streams in args.streams or STREAMS:
                print(paired(case, streams, args.records, args.rounds), flush=True)
        return
    if not args.json:
        print("case       streams  " + "  ".join(_HEADINGS), flush=True)
    chosen = [(case, streams) for case in args.case or _SINGLE for streams in args.streams or STREAMS]
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {each: [] for each in chosen}
    for _ in range(args.rounds):
        for (case, streams), results in runs.items():
            incidents = not args.no_incidents
            found = _alone(case=case, streams=streams, records=args.records, incidents=incidents)
            results.append(found)
            if args.json:
                print(json.dumps(found), flush=True)
            elif len(results) == args.rounds:
                print(line(medians(results)), flush=True)


if __name__ == "__main__":
    main()

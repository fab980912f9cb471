"""What evaluation in Python costs: each call of an `Evaluator`'s loop, and the memory of `evaluate`.

`python -m tests.bench.in_python` goes 20,000 steps of a loop that asks after each label, and prints the
median and the mean of each call, as time on the clock and as processor time. `--case` chooses the settings.
`--rows N` evaluates a frame of pandas of so many rows in a process of its own, and prints how much the
process grew at its peak, beyond the frame. `--times` has a time in each record, `--probabilities` a `y_proba`
in each prediction.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from prequential.evaluation import Evaluator, evaluate

STEPS, FORMER = 20_000, 200
START = 1_700_000_000_000
CALLS = ("predict", "learn", "get", "drift_detected", "step")


#: Settings of an `Evaluator` whose step is timed, by name.
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "objective": {"objective": {"accuracy": 0.95, "tolerance": 0.02}},
    "versions": {"versions": "separate"},
}


def step_costs(
    steps: int, times: bool, probabilities: bool, clock: Callable[[], int], settings: dict[str, Any]
) -> dict[str, Any]:
    """By call the ns of each step, (steps,) int64: a loop of two classes and one model."""
    r, evaluator = random.Random(1), Evaluator(**settings)
    spent = np.zeros((len(CALLS), FORMER + steps), dtype=np.int64)
    for i in range(FORMER + steps):
        truth = r.choice("ab")
        guess = truth if r.random() < 0.8 else "a"
        more: dict[str, Any] = {"ts": START + 1000 * i} if times else {}
        proba: dict[str, Any] = {"y_proba": {"a": 0.75, "b": 0.25}} if probabilities else {}
        begun = clock()
        evaluator.predict(i, guess, **more, **proba)
        predicted = clock()
        evaluator.learn(i, truth, **more)
        learned = clock()
        evaluator.get()
        got = clock()
        _ = evaluator.drift_detected
        ended = clock()
        spent[:, i] = predicted - begun, learned - predicted, got - learned, ended - got, ended - begun
    return dict(zip(CALLS, spent[:, FORMER:]))


def growth(rows: int, times: bool, probabilities: bool) -> str:
    """A line about `evaluate` of a frame of so many rows, in this process, which should be a fresh one."""
    import pandas as pd

    r = np.random.default_rng(1)
    labels = r.integers(0, 2, rows)
    frame = pd.DataFrame({"y_pred": np.where(r.random(rows) < 0.8, labels, 1 - labels), "y_true": labels})
    if times:
        frame["ts"] = START + 1000 * np.arange(rows)
    if probabilities:
        frame["y_proba.0"] = np.where(frame["y_pred"] == 0, 0.75, 0.25)
        frame["y_proba.1"] = 1 - frame["y_proba.0"]
    del labels
    some = frame[:1000]
    evaluate(some, some, progress=False)  # which has the loops compiled
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    begun = time.perf_counter()
    result = evaluate(frame, frame)
    seconds = time.perf_counter() - begun
    return (
        f"{rows:,} rows: {_status('VmHWM') - before:.0f} MB above the frame at the peak, "
        f"{_status('VmRSS') - before:.0f} MB at the end, {seconds:.0f} s, {len(result.messages):,} messages"
    )


def _status(field: str) -> float:
    """A field of this process's status, MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1000


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--probabilities", action="store_true")
    parser.add_argument("--case", default="plain", choices=list(SETTINGS))
    parser.add_argument("--json", action="store_true", help="the processor's median, for machines")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rows and args.here:
        print(growth(args.rows, args.times, args.probabilities))
    elif args.rows:
        subprocess.run([sys.executable, "-m", "tests.bench.in_python", "--here", *sys.argv[1:]], check=True)
    elif args.json:
        for case, settings in SETTINGS.items():
            costs = step_costs(args.steps, args.times, args.probabilities, time.thread_time_ns, settings)
            print(json.dumps({"case": case, "median_us": float(np.median(costs["step"])) / 1e3}), flush=True)
    else:
        for what, clock in (("clock", time.perf_counter_ns), ("processor", time.thread_time_ns)):
            costs = step_costs(args.steps, args.times, args.probabilities, clock, SETTINGS[args.case])
            for call, spent in costs.items():
                median, mean = np.median(spent) / 1e3, spent.mean() / 1e3
                print(f"{what:9} {call:14} median {median:6.1f} µs  mean {mean:6.1f} µs")


if __name__ == "__main__":
    main()

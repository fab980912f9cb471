"""What the estimate step costs: memories, detectors and measures, for each outcome of a model.

`python -m tests.bench.measures` (or `prequential bench --measures`) evaluates outcomes of two stages and
three estimators, 10,000 between metrics messages, under several choices of measures and details.
"""

from __future__ import annotations

import argparse
import json
from array import array
from dataclasses import replace
from time import perf_counter

import numpy as np
from prequential.config import DETAILS, StreamConfig
from prequential.core.classes import Classes
from prequential.core.measures import MeasureSet
from prequential.core.measures.matrix import PositiveClass
from prequential.core.model import Model

#: Outcomes between two emissions, and how many emissions are timed.
EMIT, EMISSIONS = 10_000, 60

#: The measures of the first versions: accuracy, and kappa against chance and both baselines.
FEW = ("error", "accuracy", "kappa", "p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus")

CASES: dict[str, StreamConfig] = {
    "eight measures": StreamConfig(measures=FEW),
    "all measures (default)": StreamConfig(),
    "all, bins 1 to 10, intermediate": StreamConfig(
        stages=("initial", "final", "bins", "intermediate")
    ),
    "all, and all details": StreamConfig(details=DETAILS),
}


def seconds(config: StreamConfig, classes: int) -> tuple[float, float]:
    """Seconds per outcome: everything, and the part that makes values for messages."""
    config = replace(config, emit_outcomes=EMIT)
    names = Classes(classes)
    for code in range(classes):
        names.code(code)
    model = Model(0, "m", config, MeasureSet(config.measures, PositiveClass(None, names)))
    rng = np.random.default_rng(1)
    evaluated = made = 0.0
    for _ in range(EMISSIONS):
        y = rng.integers(0, classes, EMIT).astype(np.uint64)
        h = np.where(rng.random(EMIT) < 0.8, y, (y + 1) % classes).astype(np.uint64)
        baselines = np.roll(y, 1) << np.uint64(32)
        labels = array("Q", (y | baselines).tobytes())
        numbers = array("q", range(EMIT))
        predictions = h << np.uint64(16) | baselines
        before = perf_counter()
        for start in range(0, EMIT, model.room):
            stop = min(EMIT, start + model.room)
            model.positions.frombytes(np.arange(start, stop).tobytes())
            model.first.frombytes(predictions[start:stop].tobytes())
            model.evaluate(numbers, numbers, labels, names.capacity)
        model.detect()
        middle = perf_counter()
        for _stage in model.measured():
            pass
        made += perf_counter() - middle
        evaluated += middle - before
    return (evaluated + made) / (EMISSIONS * EMIT), made / (EMISSIONS * EMIT)


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="for machines")
    as_json = parser.parse_args().json
    for name, config in CASES.items():
        for classes in (2, 7):
            whole, measures = (1e6 * part for part in seconds(config, classes))
            if as_json:
                result = {"case": name, "classes": classes, "us": whole, "us_measures": measures}
                print(json.dumps(result), flush=True)
            else:
                print(f"{name:34} {classes} classes: {whole:.3f} µs, of which measures {measures:.3f}")


if __name__ == "__main__":
    main()

"""What each detector costs, an outcome: its loop alone, over errors without a change.

`python -m tests.bench.detectors` prints ns by detector, with its own parameters, and how many alarms there
were; the best of three runs. What alarms cost beyond that, and incidents, is in `tests.bench.costs --case
detectors`.
"""

from __future__ import annotations

import time

import numpy as np
from prequential.engine.detectors import DETECTORS
from prequential.engine.tables.logs import new_alarms
from prequential.engine.tables.outcomes import new_log

_OUTCOMES, _RUNS = 200_000, 3


def measure(name: str, error: float) -> tuple[float, int]:
    """Seconds of a detector for each outcome with this rate of errors, and its alarms."""
    detector = DETECTORS[name]
    settings = detector.configured({})
    values = (np.random.default_rng(1).random(_OUTCOMES) < error).astype(float)
    log, rows = new_log(_OUTCOMES), np.arange(_OUTCOMES, dtype=np.int32)
    log.number[:] = rows + 1
    fed, best, raised = np.ones(_OUTCOMES, np.uint8), np.inf, 0
    for _ in range(_RUNS):
        table, alarms = detector.new_table(1, settings), new_alarms(_OUTCOMES)
        begun = time.perf_counter()
        detector.run(table, settings, log, rows, values, fed, 0, alarms)
        best, raised = min(best, time.perf_counter() - begun), int(alarms.raised[0])
    return best / _OUTCOMES, raised


def main() -> None:
    """Print the table."""
    for error in (0.1, 0.3):
        total = 0.0
        for name in DETECTORS:
            seconds, alarms = measure(name, error)
            total += seconds
            print(f"{error:.0%} errors  {name:14} {1e9 * seconds:5.0f} ns  {alarms:4} alarms")
        print(f"{error:.0%} errors  {'all':14} {1e9 * total:5.0f} ns")


if __name__ == "__main__":
    main()

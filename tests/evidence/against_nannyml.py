"""Expected accuracy beside NannyML's CBPE (confidence-based performance estimation), where it is installed.

    python -m venv nannyml && nannyml/bin/pip install nannyml statsmodels
    PREQUENTIAL_NANNYML=nannyml/bin/python python -m tests.evidence.against_nannyml

Labels of the first 60 days are the reference; those of the days behind are what both have to say at the
end of each day. `calibrated`: y has the probability that the model says, which is what CBPE assumes, and no
label of the days behind has come: the engine's estimate is its first term, calibration, alone. In the other
worlds labels go on to come as late as they do there; CBPE doesn't use them.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.delay.expected import counters_of, open_rows
from prequential.engine.delay.expecting import MEAN

from tests.evidence.before_labels import DAY, graded, hours, messages_of
from tests.evidence.label_worlds import EACH, World, of_two, world
from tests.one_model import look

#: Where the interpreter is that has NannyML.
VARIABLE = "PREQUENTIAL_NANNYML"

#: Days of the reference, and behind it.
REFERENCE, BEHIND = 60, 10

WORLDS = ("stationary", "right", "iid", "covariate", "concept")

#: Run by that interpreter: scores, labels and days go in, CBPE's accuracy of each day comes out.
_PROGRAM = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import numpy as np, pandas as pd, nannyml
given = np.load(sys.argv[1])
frame = pd.DataFrame({"p": given["p"], "said": (given["p"] > 0.5).astype(int), "y": given["y"]})
frame["at"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(given["ts"], unit="D")
first = given["ts"] < int(sys.argv[2])
estimator = nannyml.CBPE(
    y_pred_proba="p", y_pred="said", y_true="y", timestamp_column_name="at", metrics=["accuracy"],
    problem_type="classification_binary", chunk_period="D",
).fit(frame[first])
found = estimator.estimate(frame[~first].drop(columns="y")).to_df()
rows = found[found[("chunk", "period")] == "analysis"]
print(json.dumps(rows[("accuracy", "value")].tolist()))
"""


class NotThere(Exception):
    """NannyML isn't: says how to have it."""


class Compared(NamedTuple):
    """Of each day behind the reference."""

    cbpe: Any
    expected: Any
    final: Any


def cbpe(of: World) -> Any:
    """What NannyML says of the accuracy of each day behind the reference."""
    python = os.environ.get(VARIABLE)
    if not python:
        raise NotThere(f"{VARIABLE} isn't set: the path of a Python that has nannyml")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.npz"
        np.savez(path, p=of.proba[0, :, 1], y=of.label, ts=of.ts)
        command = [python, "-c", _PROGRAM, str(path), str(REFERENCE)]
        quiet = {**os.environ, "NML_DISABLE_USAGE_LOGGING": "1"}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=quiet)
    return np.array(json.loads(done.stdout.splitlines()[-1]))


def calibrated(seed: int) -> World:
    """A world in which CBPE's assumptions hold; at its end labels of the reference have come, no others."""
    r = np.random.default_rng(seed)
    days = REFERENCE + BEHIND
    n = days * EACH
    t = np.sort(r.random(n)) * days
    s = r.beta(1.0, 1.0, n)
    return of_two(t, s, r.random(n) < s, np.full(n, BEHIND - 0.001), days)


def first_term(of: World) -> Any:
    """What calibration alone expects of the accuracy of each day behind the reference."""
    for _, shard in hours(of._replace(step=1.0)):  # noqa: B007 (of the last one)
        pass
    expected, row = shard.state.accounts.expected, shard.catalog.streams[0].models["m"]
    counters_of(expected, row).levels[:, :, MEAN] = 0.0
    # Without periods that have labels: their corrections would move the level.
    rows = open_rows(expected, row)
    cells = look(expected, row, rows[expected.pool.key[rows] >= REFERENCE], of.days * DAY).cells
    return np.trace(cells, axis1=1, axis2=2) / cells.sum(axis=(1, 2))


def compared(kind: str, seed: int) -> Compared:
    """What both say at the end of each day, and what the day's accuracy is in the end."""
    of = world(kind, 2 * REFERENCE, EACH, seed)
    said = {one.period: one for one in graded(messages_of(of)) if one.maturity == 0}
    days = sorted(day for day in said if day >= REFERENCE)
    found = cbpe(of)
    return Compared(
        found[[day - REFERENCE for day in days]], np.array([said[day].value for day in days]),
        np.array([said[day].final for day in days]),
    )  # fmt: skip


def main(seed: int = 11) -> None:
    """Print what both are off by."""
    own = calibrated(seed)
    ours, theirs = first_term(own), cbpe(own)
    apart = 100 * np.abs(ours - theirs)
    print(f"calibrated: first term and CBPE {apart.mean():.2f} points apart, at most {apart.max():.2f}")
    print("| world | CBPE | expected |\n| --- | --- | --- |")
    for kind in WORLDS:
        one = compared(kind, seed)
        errors = (100 * np.abs(value - one.final).mean() for value in (one.cbpe, one.expected))
        print(f"| {kind} | {' | '.join(f'{error:.2f}' for error in errors)} |", flush=True)


if __name__ == "__main__":
    main()

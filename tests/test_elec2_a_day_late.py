"""Elec2 with labels that come a day late: what a stage's predictions and baselines can have known.

The same predictor in both stages, it says the newest label that it knows: when the instance comes that is
the label of the day before, just before the label comes it is that of half an hour before.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from test_replay import DAY, HALF_HOUR, ROWS, START, elec2, rows, run

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

#: Rows in a day: a label comes with the instance so many rows after its own.
LATE = DAY // HALF_HOUR

#: Labels that repeat that of the day before: for the row before it is `REPEATS`.
A_DAY_BEFORE = 29_704

STAGES = ("initial", "final")

#: What the predictor says while it knows no label; the first row's is UP.
AT_FIRST = "DOWN"


@dataclass
class Stage:
    """For each outcome, what was right."""

    model: list[bool] = field(default_factory=list)
    persistent: list[bool] = field(default_factory=list)
    majority: list[bool] = field(default_factory=list)


@cache
def truth() -> tuple[dict[str, list[bytes]], dict[str, Stage]]:
    """The three files, and what a plain loop over everything that happens finds in each stage.

    The model `again` predicts 1 ms after the instance and 1 ms before its label; `once` says the first
    of these only, so its outcomes are those of `again` in the stage `initial`, in both stages.
    """
    labels = elec2()
    happens = []
    for i in range(ROWS):
        came = START + i * HALF_HOUR
        happens += [(came, "instances", i), (came + 1, "initial", i)]
        happens += [(came + DAY - 1, "final", i), (came + DAY, "labels", i)]
    files: dict[str, list[bytes]] = {"instances": [], "predictions": [], "labels": []}
    stages = {stage: Stage() for stage in STAGES}
    newest, counts = None, Counter[str]()  # which keeps the order in which classes came
    for ts, what, i in sorted(happens):
        line: dict[str, Any] = {"stream": "elec2", "instance_id": i, "ts": ts}
        if what == "instances":
            files["instances"].append(json.dumps(line).encode())
        elif what == "labels":
            newest = labels[i]
            counts[newest] += 1
            files["labels"].append(json.dumps({**line, "y_true": newest}).encode())
        else:
            said = newest or AT_FIRST
            for model in ("again", "once") if what == "initial" else ("again",):
                files["predictions"].append(json.dumps({**line, "model": model, "y_pred": said}).encode())
            most = max(counts, key=counts.__getitem__) if counts else None  # ties: seen first
            stages[what].model.append(said == labels[i])
            stages[what].persistent.append(newest == labels[i])
            stages[what].majority.append(most == labels[i])
    return files, stages


@pytest.fixture(scope="module")
def last(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], Any]:
    """`prequential replay`: the last message of each (model, stage, estimator)."""
    folder = tmp_path_factory.mktemp("elec2")
    for kind, lines in truth()[0].items():
        (folder / kind).write_bytes(b"\n".join(lines) + b"\n")
    (folder / "c.yaml").write_text("defaults: {emit: {outcomes: 1000, every: null}}")
    assert run(folder) == 0
    assert rows(folder / "dead-letters") == []
    return {(m["model"], m["stage"], m["estimator"]): m for m in rows(folder / "metrics")}


Last = dict[tuple[str, str, str], Any]


def test_the_plain_loop_is_what_it_says() -> None:
    """What was known is the label of 48 rows before, or that of the row before."""
    labels, stages = elec2(), truth()[1]
    assert LATE == 48
    assert stages["initial"].persistent == [False] * LATE + [
        before == label for before, label in zip(labels, labels[LATE:])
    ]
    assert sum(stages["initial"].persistent) == A_DAY_BEFORE
    assert stages["final"].persistent == [False] + [a == b for a, b in pairwise(labels)]
    assert stages["initial"].model[LATE:] == stages["initial"].persistent[LATE:]
    assert stages["final"].model == stages["final"].persistent


@pytest.mark.parametrize("model", ["again", "once"])
@pytest.mark.parametrize("stage", STAGES)
def test_every_count_is_that_of_the_plain_loop(last: Last, model: str, stage: str) -> None:
    """Baselines belong to the stage's prediction: who predicts once has the first one's in both."""
    known = truth()[1][stage if model == "again" else "initial"]
    right = known.model
    for estimator, n in (("all", ROWS), ("window:1000", 1000)):
        message = last[model, "final" if model == "once" else stage, estimator]
        assert message.get("same", []) == (["initial"] if model == "once" else [])
        assert (message["n"], message["outcomes"]) == (n, ROWS)
        found = message["measures"]
        assert found["accuracy"] == sum(right[-n:]) / n
        assert found["p_per"] == sum(known.persistent[-n:]) / n
        assert found["p_maj"] == sum(known.majority[-n:]) / n
        unlike = n - sum(known.persistent[-n:])
        gained = sum(right[-n:]) - sum(known.persistent[-n:])
        assert found["kappa_per"] == pytest.approx(gained / unlike, abs=1e-12)
        assert message["ts"] == START + (ROWS - 1) * HALF_HOUR + DAY
        assert not any(message["counts"].values())

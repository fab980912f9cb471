"""Short ways to write the records of a test case, to run the oracle on them and to read its result.

Times are ms. Unless a test says otherwise: stream `s`, record time = ts, label horizon 1000,
settle 100, a message after each outcome, none by time, no detectors.
"""

from __future__ import annotations

import random
from typing import Any

from oracle import Record, Result, run

HOUR = 3_600_000  # ms


def record(kind: str, ts: int | str | None, at: int | None, **fields: Any) -> Record:
    """A record of stream `s` unless `fields` names another; `at` is its record time."""
    obj = {"stream": "s", **fields}
    if ts is not None:
        obj["ts"] = ts
    if at is None:
        assert isinstance(ts, int)
        at = ts
    return kind, obj, at


def inst(i: int | str, ts: int | None, at: int | None = None, **more: Any) -> Record:
    """An instance record."""
    return record("instances", ts, at, instance_id=i, **more)


def pred(i: int | str, ts: int | None, y: Any, at: int | None = None, **more: Any) -> Record:
    """A prediction of model `m`, or of the model in `more`."""
    return record("predictions", ts, at, instance_id=i, y_pred=y, **{"model": "m", **more})


def lab(i: int | str, ts: int | None, y: Any, at: int | None = None, **more: Any) -> Record:
    """A label record."""
    return record("labels", ts, at, instance_id=i, y_true=y, **more)


def tick(ts: int) -> Record:
    """Advances the event clock and leaves no trace in outcomes or counters."""
    return inst(f"tick-{ts}", ts)


def evaluate(*records: Record, final: bool = False, **settings: Any) -> Result:
    """Run the oracle with the settings named above, those in `settings` changed."""
    defaults = {
        "label_horizon": "1s",
        "settle": "100ms",
        "estimators": ["all"],
        "detectors": [],
        "emit": {"outcomes": 1, "every": None},
        **settings,
    }
    return run({"defaults": defaults}, records, final=final)


def stream_of_losses(losses: list[int]) -> list[Record]:
    """Instance k at time k, label a, predicted a (loss 0) or b (loss 1)."""
    found = []
    for k, loss in enumerate(losses):
        found += [pred(k, k, "ab"[loss]), lab(k, k, "a")]
    return found


def classes(result: Result, stage: str = "final") -> list[tuple[str, str, str, str]]:
    """(model, instance, label, prediction) of a stage's outcomes."""
    return [
        (o["model"], o["instance_id"], o["y_true"], o["y_pred"])
        for o in result.outcomes
        if o["stage"] == stage
    ]


def baselines(result: Result, stage: str) -> list[tuple[str | None, str | None]]:
    """(persistent, majority) of a stage's outcomes."""
    return [(o["persistent"], o["majority"]) for o in result.outcomes if o["stage"] == stage]


def errors(result: Result, estimator: str, stage: str = "final") -> list[float]:
    """The errors that an estimator's messages tell, in order."""
    return [
        m["measures"]["error"]
        for m in result.metrics
        if m["estimator"] == estimator and m["stage"] == stage and m["outcomes"]
    ]


def random_records(seed: int) -> list[Record]:
    """Labels mostly after, sometimes before their predictions; everything within the horizon."""
    rng = random.Random(seed)
    timed: list[tuple[float, Record]] = []
    for k in range(60):
        t0 = 10 * k
        t1 = t0 + rng.randint(0, 80)
        if rng.random() < 0.5:
            timed.append((t0, inst(k, t0)))
        for model in ("m", "n")[: rng.randint(1, 2)]:
            for ts in rng.sample(range(t0, t0 + 90), rng.randint(1, 3)):
                delivered = ts + rng.choice([0, 0, 40])
                timed.append((delivered, pred(k, ts, rng.choice("ab"), delivered, model=model)))
        timed.append((t1, lab(k, t1, rng.choice("aab"))))
    return [found for _, found in sorted(timed, key=lambda pair: pair[0])]

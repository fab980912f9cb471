"""Messages as workers publish them, for what shows them."""

from __future__ import annotations

import json
from typing import Any

from prequential.watching.state import State

#: When the messages' labels were (epoch ms).
LABELLED = 1_700_000_000_000


def metrics(**changed: Any) -> bytes:
    message: dict[str, Any] = {
        "id": "x",
        "stream": "elec2",
        "partition": 0,
        "model": "nb",
        "segment": None,
        "stage": "final",
        "estimator": "window:1000",
        "n": 1000,
        "outcomes": 45312,
        "ts": LABELLED,
        "measures": {"accuracy": 0.81, "kappa": 0.6, "kappa_per": -0.3},
        "undefined": {"kappa_plus": "p_per_one"},
        "counts": {},
        "config": "sha",
    }
    return json.dumps({**message, **changed}).encode()


def alarm(**changed: Any) -> bytes:
    message: dict[str, Any] = {
        "id": "x",
        "stream": "elec2",
        "partition": 0,
        "model": "nb",
        "segment": None,
        "stage": "final",
        "detector": "page-hinkley",
        "signal": "error",
        "outcome": 17342,
        "instance_id": "17341",
        "ts": LABELLED,
        "statistic": 50.3,
        "threshold": 50.0,
        "params": {},
    }
    return json.dumps({**message, **changed}).encode()


def comparison(**changed: Any) -> bytes:
    message: dict[str, Any] = {
        "id": "x",
        "stream": "elec2",
        "partition": 0,
        "model": "nb",
        "against": "tree",
        "segment": None,
        "stage": "final",
        "estimator": "all",
        "loss": "error",
        "n": 4000,
        "outcomes": 4000,
        "ts": LABELLED,
        "measures": {"difference": 0.031},
        "undefined": {},
        "interval": [0.012, 0.05],
        "level": 0.05,
        "pairs": 1,
        "verdict": "b_better",
        "since": 712,
        "config": "sha",
    }
    return json.dumps({**message, **changed}).encode()


COMPARISON_LINE = (
    "2023-11-14T22:13:20Z elec2 nb final COMPARED against=tree loss=error outcomes=4000 "
    "difference=0.0310 low=0.0120 high=0.0500 verdict=b_better since=712"
)
METRICS_LINE = (
    "2023-11-14T22:13:20Z elec2 nb final window:1000 n=1000 outcomes=45312 "
    "accuracy=0.8100 kappa=0.6000 kappa_per=-0.3000 kappa_plus=-"
)
ALARM_LINE = (
    "2023-11-14T22:13:20Z elec2 nb final ALARM page-hinkley error outcome=17342 statistic=50.3 threshold=50"
)


def state_of(*values: bytes, time: int = LABELLED, **options: Any) -> State:
    """What is known after these messages, which Kafka got at this time."""
    state = State(**options)
    for value in values:
        topic = "drift-alarms" if b'"detector"' in value else "metrics"
        state.update("comparisons" if b'"against"' in value else topic, value, time)
    return state

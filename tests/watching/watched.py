"""Messages as workers publish them, for what shows them."""

from __future__ import annotations

import json
from typing import Any

from prequential.views.watching.state import WatchState

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


def incident(**changed: Any) -> bytes:
    message: dict[str, Any] = {
        "id": "0a1b2c3d4e5f", "stream": "elec2", "partition": 0, "model": "nb", "revision": 1,
        "status": "open", "segment": None, "stage": "final", "opened": {"outcome": 17342, "ts": LABELLED},
        "change_point": {
            "outcome": 17100, "ts": LABELLED - 300_000, "prediction_ts": LABELLED - 86_400_000,
        },
        "alarms": ["x"], "alarm_count": 12, "signals": [], "severity": 0.6,
        "before": {"level": 0.111, "interval": [0.1, 0.12], "n": 17000},
        "after": {"level": 0.352, "interval": [0.3, 0.4], "n": 200},
        "causes": [{"cause": "segment", "share": 0.97, "segment": "region=eu"}], "baselines": {},
        "examples": ["17101"], "former_alarms": {"alarms": 1, "outcomes": 17342}, "outcome": 17342,
        "ts": LABELLED, "config": "sha",
    }  # fmt: skip
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
INCIDENT_LINE = (
    "2023-11-14T22:13:20Z elec2 nb final INCIDENT 0a1b2c3d open since=17100 before=0.1110 after=0.3520 "
    "severity=0.60 causes=segment:0.97 alarms=12"
)
METRICS_LINE = (
    "2023-11-14T22:13:20Z elec2 nb final window:1000 n=1000 outcomes=45312 "
    "accuracy=0.8100 kappa=0.6000 kappa_per=-0.3000 kappa_plus=-"
)
ALARM_LINE = (
    "2023-11-14T22:13:20Z elec2 nb final ALARM page-hinkley error outcome=17342 statistic=50.3 threshold=50"
)


def state_of(*values: bytes, time: int = LABELLED, **options: Any) -> WatchState:
    """What is known after these messages, which Kafka got at this time."""
    state = WatchState(**options)
    for value in values:
        topic = "drift-alarms" if b'"detector"' in value else "metrics"
        topic = "incidents" if b'"revision"' in value else topic
        state.update("comparisons" if b'"against"' in value else topic, value, time)
    return state

"""Messages as workers publish them, for what shows them line by line."""

from __future__ import annotations

from typing import Any

import boards
from boards import START as LABELLED  # when the messages' labels were (epoch ms)
from prequential.views.state.newest import NewestMessages


def metrics(**changed: Any) -> bytes:
    measures = {"accuracy": 0.81, "kappa": 0.6, "kappa_per": -0.3}
    about: Any = {"n": 1000, "outcomes": 45312, "ts": LABELLED, "measures": measures, "counts": {}}
    return boards.metrics(**{**about, **changed}).value or b""


def alarm(**changed: Any) -> bytes:
    about: Any = {"id": "x", "outcome": 17342, "instance_id": "17341", "ts": LABELLED}
    return boards.alarm(**{**about, **changed}).value or b""


def incident(**changed: Any) -> bytes:
    about: Any = {
        "id": "0a1b2c3d4e5f", "opened": {"outcome": 17342, "ts": LABELLED},
        "change_point": {"outcome": 17100, "ts": LABELLED - 300_000, "prediction_ts": LABELLED - 86_400_000},
        "alarms": ["x"], "alarm_count": 12, "signals": [], "severity": 0.6,
        "before": {"level": 0.111, "interval": [0.1, 0.12], "n": 17000},
        "after": {"level": 0.352, "interval": [0.3, 0.4], "n": 200},
        "causes": [{"cause": "segment", "share": 0.97, "segment": "region=eu"}], "baselines": {},
        "examples": ["17101"], "former_alarms": {"alarms": 1, "outcomes": 17342}, "outcome": 17342,
        "ts": LABELLED,
    }  # fmt: skip
    return boards.incident(**{**about, **changed}).value or b""


def comparison(**changed: Any) -> bytes:
    return boards.comparison(**{"n": 4000, "ts": LABELLED, **changed}).value or b""


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


def state_of(*values: bytes, time: int = LABELLED, **options: Any) -> NewestMessages:
    """What is known after these messages, which Kafka got at this time."""
    state = NewestMessages(**options)
    for value in values:
        topic = "drift-alarms" if b'"detector"' in value else "metrics"
        topic = "incidents" if b'"revision"' in value else topic
        state.update("comparisons" if b'"against"' in value else topic, value, time)
    return state

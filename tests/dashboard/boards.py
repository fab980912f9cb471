"""Messages as workers publish them, as a page is given them; and a page over them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from prequential.configuration.settings.model import Config
from prequential.views.dashboard.server import Board, Server
from prequential.views.state.history import History
from prequential.views.state.output_records import OutputRecord

#: When the first message's labels were (epoch ms): 2023-11-14 22:13:20 UTC.
START = 1_700_000_000_000


def metrics(outcomes: int = 1000, accuracy: float = 0.8, **changed: Any) -> OutputRecord:
    """A message after so many outcomes, one of which comes each second."""
    ts = START + 1000 * outcomes
    message: dict[str, Any] = {
        "id": "x", "stream": "elec2", "partition": 0, "model": "nb", "segment": None, "stage": "final",
        "estimator": "window:1000", "n": min(outcomes, 1000), "outcomes": outcomes, "ts": ts,
        "measures": {"accuracy": accuracy, "kappa": 2 * accuracy - 1, "kappa_per": 0.1, "p_per": 0.7,
            "p_maj": 0.5},
        "undefined": {"kappa_plus": "p_per_one"}, "counts": {"late": 3}, "config": "sha",
    }  # fmt: skip
    return OutputRecord("metrics", json.dumps({**message, **changed}).encode(), ts)


#: A period's length, ms.
DAY = 86_400_000


def period(
    day: int, value: float, so_far: float | None = None, *, final: bool = False, maturity: float | None = 0.0,
    interval: tuple[float, float] | None = None, **changed: Any
) -> OutputRecord:  # fmt: skip
    """A message about a day's period, number `day` from `START`'s on: final, or expected and labelled so far.

    Half of 200 predictions are labelled; all of a final one's.
    """
    begin = START - START % DAY + day * DAY
    about = {"start": begin, "end": begin + DAY, "predictions": 200, "labelled": 200 if final else 100,
        "status": "final" if final else "provisional"}  # fmt: skip
    one: dict[str, Any] = {"value": value, "record": None}
    if interval is not None:
        one |= {"interval": interval, "level": 0.9, "record": {"finals": 50, "coverage": 0.92}}
    labelled = value if final else so_far
    return metrics(
        stage="period", estimator=f"period:{begin}", period=about,
        measures={} if labelled is None else {"accuracy": labelled},
        **({} if final else {"expected": {"measures": {"accuracy": one}, "maturity": maturity}}), **changed,
    )  # fmt: skip


def alarm(outcome: int = 5000, **changed: Any) -> OutputRecord:
    ts = START + 1000 * outcome
    message: dict[str, Any] = {
        "id": f"alarm-{outcome}", "stream": "elec2", "partition": 0, "model": "nb", "segment": None,
        "stage": "final", "detector": "page-hinkley", "signal": "error", "outcome": outcome,
        "instance_id": str(outcome - 1), "ts": ts, "statistic": 50.3, "threshold": 50.0, "params": {},
    }  # fmt: skip
    return OutputRecord("drift-alarms", json.dumps({**message, **changed}).encode(), ts)


def comparison(outcomes: int = 4000, **changed: Any) -> OutputRecord:
    ts = START + 1000 * outcomes
    message: dict[str, Any] = {
        "id": "x", "stream": "elec2", "partition": 0, "model": "nb", "against": "tree", "segment": None,
        "stage": "final", "estimator": "all", "loss": "error", "n": outcomes, "outcomes": outcomes, "ts": ts,
        "measures": {"difference": 0.031}, "undefined": {}, "interval": [0.012, 0.05], "level": 0.05,
        "pairs": 1,
        "verdict": "b_better", "since": 712, "config": "sha",
    }  # fmt: skip
    return OutputRecord("comparisons", json.dumps({**message, **changed}).encode(), ts)


def incident(began: int = 4800, **changed: Any) -> OutputRecord:
    """One that began, and was noticed 200 outcomes later."""
    ts = START + 1000 * (began + 200)
    signal = {"detector": "page-hinkley", "signal": "error", "stage": "final", "segment": None}
    message: dict[str, Any] = {
        "id": f"incident-{began}", "stream": "elec2", "partition": 0, "model": "nb", "revision": 1,
        "status": "open", "segment": None, "stage": "final", "opened": {"outcome": began + 200, "ts": ts},
        "change_point": {"outcome": began, "ts": ts - 200_000, "prediction_ts": ts - 260_000},
        "alarms": [f"alarm-{began + 200}"], "alarm_count": 1,
        "signals": [{**signal, "outcome": began + 200, "level": 0.3}], "severity": 0.54,
        "before": {"level": 0.12, "interval": [0.1, 0.14], "n": 4000},
        "after": {"level": 0.33, "interval": [0.27, 0.39], "n": 200},
        "causes": [
            {"cause": "segment", "share": 0.7, "segment": "country=fr"}, {"cause": "concept", "share": 0.3},
        ],
        "baselines": {"persistent": {"before": 0.3, "after": 0.31}}, "examples": ["4799", "4801", "4805"],
        "former_alarms": {"alarms": 2, "outcomes": 4800}, "outcome": began + 200, "ts": ts, "config": "sha",
    }  # fmt: skip
    return OutputRecord("incidents", json.dumps({**message, **changed}).encode(), ts)


def a_drift(model: str = "nb", **changed: Any) -> Iterator[OutputRecord]:
    """A model that becomes worse at outcome 4,800 of 6,000: a message after each 100."""
    for outcomes in range(100, 6001, 100):
        accuracy = 0.88 if outcomes <= 4800 else max(0.6, 0.88 - (outcomes - 4800) / 3000)
        yield metrics(outcomes, accuracy, model=model, **changed)


def without_times(record: OutputRecord) -> OutputRecord:
    """The message as it is of records without times: each is a row, and a ms after the one before."""

    def rows(value: Any) -> Any:
        if isinstance(value, dict):
            times = {"ts", "prediction_ts"}
            return {k: (v - START) // 1000 if k in times else rows(v) for k, v in value.items()}
        return [rows(one) for one in value] if isinstance(value, list) else value

    message = {**rows(json.loads(record.value or b"")), "untimed": True}
    return OutputRecord(record.topic, json.dumps(message).encode(), message["ts"])


def history_of(
    *records: Iterable[OutputRecord] | OutputRecord, config: Config | None = None, **options: Any
) -> History:
    """What is known after these."""
    history = History(config, **options)
    for some in records:
        for record in [some] if isinstance(some, OutputRecord) else some:
            history.update(*record)
    return history


@contextmanager
def live(*records: Any) -> Iterator[tuple[Server, Board, list[int]]]:
    """A page over topics; the last value is its clock, in a list: a second after 6,000 outcomes."""
    now = [START + 6_001_000]
    board = Board(history_of(*records), "a cluster", lambda: now[0])
    server = Server(board, "127.0.0.1", 0)
    try:
        yield server, board, now
    finally:
        server.stop()


@contextmanager
def served(
    *records: Iterable[OutputRecord] | OutputRecord, config: Config | None = None
) -> Iterator[tuple[str, Board]]:
    """The page over these messages: its address, and the board behind it."""
    board = Board(history_of(*records, config=config), "some files")
    server = Server(board, "127.0.0.1", 0)
    try:
        yield server.address, board
    finally:
        server.stop()

"""The table of figures and goals: what is read from the benchmarks' output, and which goals are reached."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench import goals

pytestmark = pytest.mark.bench


def cost(case: str, us: float) -> dict[str, Any]:
    """A line of `tests.bench.costs`."""
    return {
        "case": case, "us": us, "beginning_us": 30.0, "mb": 200.0, "reporting_us": us, "records": 100,
        "messages": 50,
    }  # fmt: skip


def contestant(name: str, speed: float) -> dict[str, Any]:
    """A row of `tests.bench.contest`."""
    return {"name": name, "events_per_second": speed, "megabytes": 2_100.0, "cpu_seconds_per_hour": 288.0}


def test_figures_of_each_output() -> None:
    costs = [cost("plain", 2.0), cost("period", 5.0), cost("segments", 4.0), cost("scored", 3.0)]
    speeds = [
        contestant("streams", 200.0),
        contestant("prequential", 300.0),
        contestant("prequential-metrics", 280.0),
    ]
    steps = [{"case": "plain", "median_us": 31.0}]
    printed = {
        "many-streams": costs, "one-stream": costs, "messages": costs[:2],
        "curve": [{"us": 1.5}, {"us": 6.0}], "python": steps,
        "latency": [{"p99_s": 0.5}],
    }  # fmt: skip
    printed |= {
        name: [{"results": speeds}] for name in ("scored", "plain-1", "plain-1000", "batches", "quiet")
    }
    parts = goals.PARTS.items()
    values = {name: [figure.value for figure in part.read(printed[name])] for name, part in parts}
    assert values == {
        "many-streams": [2.0, 5.0, 4.0, 30.0, 200.0], "one-stream": [2.0, 1.5], "messages": [4.0, 10.0],
        "curve": [4.0], "python": [31.0], "scored": [1.4, 1.5, 2_100.0], "plain-1": [1.4, 1.5],
        "plain-1000": [1.4, 1.5], "batches": [300.0, 280.0], "quiet": [10.0, 10.0], "latency": [0.5],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "more_is_better", "expected"),
    [(1.9, False, True), (2.0, False, True), (2.1, False, False), (1.9, True, False), (2.0, True, True)],
)
def test_a_goal_is_reached_at_its_value(value: float, more_is_better: bool, expected: bool) -> None:
    figure = goals.Figure("", value, "", 2.0, more_is_better)
    assert figure.is_reached is expected


def test_the_table_has_what_was_chosen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen: list[goals.Part] = []
    monkeypatch.setattr(
        goals, "figures_of", lambda part: chosen.append(part) or [goals.Figure("x", 1.0, "s", 2.0)]
    )
    goals.main(["--only", "curve"])
    assert chosen == [goals.PARTS["curve"]]
    assert "reached" in capsys.readouterr().out
    chosen.clear()
    goals.main([])
    assert not any(part.needs_kafka for part in chosen)
    assert len(chosen) == 5

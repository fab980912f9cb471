"""What the soak says of what it has seen: a bar that is broken must be said to be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.bench.live import Load, name_of
from tests.bench.observer import Delay
from tests.bench.running import Sample
from tests.evidence import soak

SECONDS = 400
PACE = 1_000.0


def sample(second: int, phase: str = "soak", lag: int = 300, mb: float = 1_000.0) -> Sample:
    sent = round(second * PACE)
    return Sample(
        second, phase, PACE, sent, sent - lag, lag, mb, 0.5, 0.3, 0.1, 10 * second, 50, 900.0, 700.0, 1.6e3
    )


def run_of(samples: list[Sample], published: int = 700) -> Any:
    delays = [("soak", Delay(published, published + 150))] * 1_000
    return SimpleNamespace(samples=samples, delays=delays)


def kept(run: Any) -> list[bool]:
    return [one.kept for one in soak.verdicts(run, PACE)]


def test_all_bars_are_kept_by_a_quiet_run() -> None:
    assert kept(run_of([sample(second) for second in range(SECONDS)])) == [True, True, True]


def test_memory_that_grows_by_three_percent_after_the_warm_up_is_not_flat() -> None:
    steady = [sample(second, mb=500 + second if second < 100 else 1_000.0) for second in range(SECONDS)]
    assert kept(run_of(steady))[0]
    grows = [sample(second, mb=1_000 + 0.1 * second) for second in range(SECONDS)]
    assert not kept(run_of(grows))[0]


def test_lag_is_bounded_by_ten_seconds_and_must_not_grow() -> None:
    peak = [sample(second, lag=11_000 if second == 200 else 300) for second in range(SECONDS)]
    assert not kept(run_of(peak))[1]
    grows = [sample(second, lag=20 * second) for second in range(SECONDS)]
    assert not kept(run_of(grows))[1]


def test_the_last_percent_counts() -> None:
    run = run_of([sample(second) for second in range(SECONDS)])
    run.delays = [("soak", Delay(500, 600))] * 980 + [("soak", Delay(1_500, 1_600))] * 20
    assert kept(run) == [True, True, False]


@pytest.mark.parametrize(
    ("less", "late", "expected"), [(0, 0, True), (1, 0, False), (1, 1, True), (0, 1, False)]
)
def test_a_label_without_its_outcome_is_a_loss(less: int, late: int, expected: bool) -> None:
    """Unless its prediction came to Kafka after it, and was counted as late."""
    outcomes = {(name_of(stream), f"m-{model}", "final"): 7 for stream in (0, 2) for model in (0, 1)}
    outcomes[name_of(2), "m-1", "final"] -= less
    found = outcomes, {(name_of(2), "m-1"): late, (name_of(2), "persistent"): 5}
    run: Any = SimpleNamespace(drain=lambda seconds: None, outcomes=lambda: found)
    feeder: Any = SimpleNamespace(labelled=[7, 0, 7], load=Load(3, 2))
    assert soak.complete(run, feeder).kept is expected


def test_the_capacity_is_what_is_taken_while_more_comes() -> None:
    """A worker that takes 2,600 records a second, whatever comes."""
    state = {"second": 0, "sent": 0.0, "taken": 0.0}

    def go(phase: str, pace: float, seconds: float, until: Any = None) -> list[Sample]:
        found = []
        for _ in range(int(seconds)):
            state["second"] += 1
            state["sent"] += pace
            state["taken"] = min(state["sent"], state["taken"] + 2_600)
            lag = round(state["sent"] - state["taken"])
            now = sample(state["second"], phase, lag)._replace(
                sent=round(state["sent"]), taken=round(state["taken"])
            )
            found.append(now)
            if until is not None and until(now):
                break
        return found

    run: Any = SimpleNamespace(go=go)
    assert soak.capacity(run) == pytest.approx(2_600, rel=0.01)
    assert state["sent"] - state["taken"] < 2_600


def test_the_plot_is_svg_with_five_panels() -> None:
    samples = [sample(second, "soak" if second < 60 else "overload") for second in range(100)]
    samples[3] = samples[3]._replace(published_p99=np.nan)
    tree = ElementTree.fromstring(soak.plot(samples))
    assert tree.tag.endswith("svg")
    assert len([one for one in tree.iter() if one.get("font-weight") == "bold"]) == 5

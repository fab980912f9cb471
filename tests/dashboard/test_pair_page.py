"""Champion and challenger on one page: who is better where, and whether one may replace the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from boards import a_drift, comparison, history_of, incident, metrics, period, served
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.views.dashboard.pair import Promotion, pair_page
from prequential.views.wording.comparing import PairKey

from tests.browser import opened, ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAIR = "#/pair?stream=elec2&model=nb&against=tree&partition=0&stage=final&loss=error"
ABOUT = PairKey("elec2", 0, "nb", "tree", None, "final", "error")

CHAMPION = Config(streams={"elec2": StreamConfig(champion="nb")})

COVERAGE = {"waiting": 120, "oldest_waiting_ms": 9_000_000, "labelled": {"1m": 0.2, "horizon": 0.97},
            "label_latency_ms": {"p50": 61_000.0}}  # fmt: skip
PROBABLE = {"accuracy": 0.86, "log_loss": 0.31, "brier": 0.2, "ece": 0.03}


def records(segment: str = "b_better") -> list[Any]:
    better = {"recent": {"verdict": "b_better", "since": 1200}}
    return [
        *a_drift(), *a_drift("tree"), incident(3000), period(0, 0.84, 0.93, interval=(0.81, 0.87)),
        metrics(6000, measures=PROBABLE, coverage=COVERAGE), metrics(6000, estimator="all", n=6000,
            measures={**PROBABLE, "accuracy": 0.8}),
        metrics(6000, measures={**PROBABLE, "brier": 0.1}, model="tree", coverage={**COVERAGE, "waiting": 7}),
        comparison(1000), comparison(**better), comparison(2000, segment="region=eu", verdict=segment,
            measures={"difference": -0.02}, interval=[-0.04, -0.005]),
        comparison(loss="log_loss", verdict="undecided", since=None, interval=None),
        comparison(against="@persistent"),
    ]  # fmt: skip


class TestPromotion:
    @pytest.mark.parametrize(("segment", "allowed"), [("b_better", True), ("a_better", False)])
    def test_it_is_what_the_command_says(self, segment: str, allowed: bool) -> None:
        history = history_of(records(segment), config=CHAMPION)
        [one] = pair_page(history, ABOUT)["promotions"]
        assert (one["model"], one["champion"], one["allowed"]) == ("tree", "nb", allowed)
        answers = Promotion("tree", "nb").check(history)
        assert one["answers"] == [answer._asdict() for answer in answers]
        assert any(answer.failed for answer in answers) is not allowed

    def test_without_a_champion_both_are_asked(self) -> None:
        told = pair_page(history_of(records()), ABOUT)["promotions"]
        assert [(one["model"], one["champion"], one["allowed"]) for one in told] == [
            ("tree", "nb", True), ("nb", "tree", False),
        ]  # fmt: skip

    def test_nobody_replaces_a_baseline(self) -> None:
        about = ABOUT._replace(against="@persistent")
        assert pair_page(history_of(records()), about)["promotions"] == []


def test_standings_by_segment_and_loss() -> None:
    told = pair_page(history_of(records("a_better")), ABOUT)
    [segment], [loss] = told["segments"], told["losses"]
    assert (segment["segment"], segment["now"], segment["whole"]) == ("region=eu", "nb", "nb")
    assert (segment["difference"], segment["interval"]) == (-0.02, (-0.04, -0.005))
    assert (loss["loss"], loss["now"], loss["whole"]) == ("log_loss", None, None)
    assert [(one["model"], one["against"]) for one in told["others"]] == [("nb", "@persistent")]


def test_both_sides() -> None:
    nb, tree = pair_page(history_of(records()), ABOUT)["models"]
    assert nb["latest"] == {"estimator": "window:1000", "n": 1000, "values": PROBABLE}
    assert nb["whole"]["values"]["accuracy"] == 0.8
    assert tree["whole"] is None
    assert (nb["coverage"]["waiting"], tree["coverage"]["waiting"]) == (120, 7)
    assert "expected 0.840 [0.810, 0.870]" in nb["expected"][0]
    assert tree["expected"] == []


@pytest.mark.slow
class TestInABrowser:
    def test_everything_is_on_one_page(self, page: Page) -> None:
        with served(records("a_better"), config=CHAMPION) as (address, _):
            ready(page, address + PAIR)
            text = page.inner_text("main")
            assert page.inner_text("h1") == "Can tree replace nb on elec2?"
            assert page.inner_text(".answer .say") == "Not yet"
            assert (
                "tree makes the lower error by recent outcomes since about outcome 1,200, but "
                "elec2 region=eu / tree against nb, error: nb is better." in text
            )
            assert "✗ elec2 region=eu / tree against nb, error: nb is better" in text
            assert "prequential report --promote tree --champion nb" in text
            since = page.locator("table[aria-label='certainty'] tbody tr").all_inner_texts()[1].split("\t")
            assert (since[1], since[-1]) == ("tree", "tree is better, since about outcome 1,200")
            cells = page.locator("table[aria-label='By segment'] tbody tr").inner_text().split("\t")
            assert cells.pop(1).strip() == ""  # a plot
            assert cells == ["region=eu", "nb", "nb", "-0.020", "-0.040 to -0.005", "2,000"]
            table = page.inner_text("table[aria-label='Calibration']")
            assert "brier\t0.200\t0.200\t0.100" in table
            labels = page.locator("table[aria-label='labels of both'] tbody tr").all_inner_texts()
            assert labels == ["nb\t120\t2.5 h\t97.0%\t1.02 min", "tree\t7\t2.5 h\t97.0%\t1.02 min"]
            assert "expected 0.840 [0.810, 0.870]" in text
            assert page.get_attribute("figure", "data-bands") == "1"

    def test_nothing_is_cut_off_on_a_phone(self, chromium: Browser) -> None:
        with opened(chromium, width=360) as page, served(records(), config=CHAMPION) as (address, _):
            ready(page, address + PAIR)
            assert page.inner_text(".answer .say") == "Yes by recent outcomes"
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

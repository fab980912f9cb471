"""The first page: a plot of each stream with all of its models, the streams with trouble first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from boards import START, a_drift, alarm, comparison, history_of, incident, metrics, period, served
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import Objective, StreamConfig
from prequential.views.dashboard.overview import Overview
from prequential.views.state.ranking import Choice

from tests.browser import opened, ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def plots_of(*records: Any, config: Config | None = None) -> list[dict[str, Any]]:
    history = history_of(*records, config=config)
    found: list[dict[str, Any]] = Overview(history).page(Choice(), history.newest_ts, as_table=False)["plots"]
    return found


class TestOrder:
    def test_streams_go_by_their_trouble(self) -> None:
        config = Config(streams={"missing": StreamConfig(objective=Objective({"accuracy": 0.95}))})
        calm = [metrics(n, 0.6, stream=name) for name in ("calm", "struck", "lost", "missing")
                for n in (1000, 2000)]  # fmt: skip
        some = [*calm, metrics(2000, 0.9, stream="lost", model="tree"), incident(stream="struck"),
                comparison(stream="lost")]  # fmt: skip
        assert [one["stream"] for one in plots_of(some, config=config)] == [
            "struck", "missing", "lost", "calm"
        ]  # fmt: skip

    @pytest.mark.parametrize(("champion", "first"), [(None, "nb"), ("nb", "nb"), ("tree", "tree")])
    def test_of_a_stream_with_a_champion_its_verdicts_alone_are_trouble(
        self, champion: str | None, first: str
    ) -> None:
        config = Config(streams={"elec2": StreamConfig(champion=champion)})
        some = [metrics(4000, 0.7, model="tree"), metrics(4000, 0.8), comparison()]
        [plot] = plots_of(some, config=config)
        assert plot["lines"][0]["model"] == first
        better = {line["model"]: [one["name"] for one in line["better"]] for line in plot["lines"]}
        assert better == {"nb": ["tree"], "tree": []}

    def test_a_verdict_that_the_latest_outcomes_contradict_is_none(self) -> None:
        window = comparison(estimator="window:1000", n=1000, measures={"difference": -0.04})
        [plot] = plots_of(metrics(4000), metrics(4000, model="tree"), comparison(), window)
        assert not any(line["better"] for line in plot["lines"])
        recent = comparison(recent={"verdict": "a_better", "since": 3500})
        [plot] = plots_of(metrics(4000), metrics(4000, model="tree"), recent)
        assert {line["model"] for line in plot["lines"] if line["better"]} == {"tree"}


class TestPoints:
    def test_they_are_those_of_messages(self) -> None:
        [plot] = plots_of(metrics(n, n / 10_000) for n in (1000, 2000, 3000))
        [line] = plot["lines"]
        assert (line["x"], line["y"]) == ([0.0, 0.5, 1.0], [0.1, 0.2, 0.3])
        assert (plot["low"], plot["high"]) == (START + 1_000_000, START + 3_000_000)
        assert [(one["name"], one["y"][0]) for one in plot["baselines"]] == [
            ("repeating the latest label", 0.7), ("the most frequent label", 0.5)
        ]  # fmt: skip

    def test_sixty_models_have_six_names_and_all_lines(self) -> None:
        many = (metrics(n, m / 100, model=f"m{m}") for m in range(60) for n in range(100, 5000, 100))
        [plot] = plots_of(many)
        assert [len(plot["lines"]), len(plot["thin"]), plot["models"]] == [6, 54, 60]
        assert all(len(one["y"]) == 20 for one in plot["thin"])

    def test_errors_have_their_baselines_errors(self) -> None:
        [plot] = plots_of(metrics(measures={"error": 0.2, "p_per": 0.7}))
        assert [one["y"] for one in plot["baselines"]] == [[pytest.approx(0.3)]]

    def test_where_times_stand_still_the_axis_is_outcomes(self) -> None:
        [plot] = plots_of(metrics(n, ts=0) for n in (1000, 3000))
        assert (plot["axis"], plot["low"], plot["high"]) == ("outcomes", 1000, 3000)


@pytest.mark.slow
class TestInABrowser:
    def test_a_plot_with_models_incidents_and_what_is_expected(self, page: Page) -> None:
        said = period(0, 0.84, 0.93, interval=(0.81, 0.87))
        some = [*a_drift(), *a_drift("tree"), alarm(), incident(), comparison(), said,
                *(metrics(n, 0.9, stream="few") for n in (1000, 2000, 2310))]  # fmt: skip
        config = Config(streams={"elec2": StreamConfig(objective=Objective({"accuracy": 0.85}))})
        with served(some, config=config) as (address, board):
            ready(page, address)
            names = page.locator(".stream").evaluate_all("all => all.map((one) => one.dataset.stream)")
            assert names == ["elec2", "few"]
            first, few = page.locator(".stream >> nth=0"), page.locator(".stream >> nth=1")
            assert first.locator(".course.line-1 polyline").count() == 1
            # An open incident is a bar in the lane below the curves; only its beginning crosses them.
            assert first.locator(".bar.open").count() == 1
            assert first.locator(".began").count() == 1
            bar = first.locator(".bar").bounding_box()
            curve = first.locator(".line-1 polyline").bounding_box()
            assert bar is not None
            assert curve is not None
            assert bar["y"] > curve["y"] + curve["height"]
            assert bar["height"] <= 8
            assert first.locator("line.objective").count() == 1
            assert first.locator(".expected title").text_content() == (
                "nb: 14 Nov 2023 is expected to have 0.840 (0.810 to 0.870)")
            key = first.locator(".key .line").all_inner_texts()
            assert key[0].split()[:6] == ["nb", "0.600", "◆", "worse", "for", "20"]
            assert "◇ expected 0.840 (0.810 to 0.870)" in key[0]
            base = first.locator(".key .base").all_inner_texts()[0]
            assert base.split() == ["repeat", "latest", "0.700", "baseline"]
            assert page.inner_text("h1") == "2 of 3 models need attention"  # `tree` misses its objective
            # Three points are three points, and no line.
            assert few.locator(".course.line-1 circle").count() == 3
            assert few.locator("polyline").count() == 0
            board.take([metrics(6100, 0.7)])
            page.wait_for_selector(".key b:text-is('0.700')")
            first.locator(".key a:text-is('nb')").click()
            page.wait_for_selector("h1:has-text('elec2 / nb')")

    def test_an_expected_value_without_final_periods_says_that_it_has_no_interval(self, page: Page) -> None:
        with served([*a_drift(), period(0, 0.84, 0.93)]) as (address, _):
            ready(page, address)
            said = "0.840 (no interval: too few final periods)"
            assert f"◇ expected {said}" in page.locator(".key .line").all_inner_texts()[0]
            assert str(page.locator(".expected title").text_content()).endswith(f"expected to have {said}")

    @pytest.mark.parametrize("models", [1, 3, 60])
    def test_nothing_is_cut_off_on_a_phone(self, chromium: Browser, models: int) -> None:
        many = [metrics(n, 0.5 + m / 200, model=f"a-model-with-a-long-name-{m}") for m in range(models)
                for n in range(100, 2000, 100)]  # fmt: skip
        with opened(chromium, width=360) as page, served(many, incident(model="x")) as (address, _):
            ready(page, address)
            assert page.locator(".stream .course").count() == models + 1 + 2
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

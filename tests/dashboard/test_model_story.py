"""A model's page: the story, incidents with their alarms, mistakes, probabilities, as messages have them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from boards import START, a_drift, alarm, comparison, history_of, incident, metrics, served
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import Objective, StreamConfig
from prequential.engine.details.curves import Costs, best_threshold, histogram_of, points
from prequential.views.dashboard.pages import curves_of, model_page
from prequential.views.state.newest import ModelKey

from tests.browser import opened, ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NB = ModelKey("elec2", "nb", 0)
MODEL = "#/model?stream=elec2&model=nb&partition=0"

CONFUSION = {"UP": {"UP": 410, "DOWN": 90}, "DOWN": {"DOWN": 450, "UP": 50}}
SCORES = {"bins": [20, 90, 110, 180], "negatives": [900, 50, 10, 0], "positives": [1, 50, 40, 9]}


RESIDUALS = {
    "n": 1000.0, "predicted": [float(i) for i in range(1, 11)],
    "actual": [*(float(i) for i in range(1, 10)), 14.5], "mae": [*[0.5] * 9, 5.0],
}  # fmt: skip


def told_of(*records: Any, config: Config | None = None) -> dict[str, Any]:
    return model_page(history_of(*records, config=config), NB)


class TestStory:
    def test_it_says_how_the_model_is_and_what_is_wrong(self) -> None:
        config = Config(streams={"elec2": StreamConfig(objective=Objective({"accuracy": 0.85}))})
        said = told_of(
            metrics(4000, 0.8), metrics(4000, 0.9, model="tree"), incident(), comparison(), config=config
        )["story"]
        assert said == (
            "Right in 80.0% of the latest 1,000 outcomes. Right in 67.0% of outcomes since "
            "14 Nov 2023 23:33, 88.0% before. Cause: segment country=fr (70%). "
            "accuracy is 0.800: the objective is at least 0.85. tree is better."
        )

    def test_it_says_that_nothing_is(self) -> None:
        said = told_of(metrics(400, measures={"mae": 0.5, "r2": 0.1}))["story"]
        assert said == "mae is 0.500 in all 400 outcomes. No problem was found."

    def test_without_metrics(self) -> None:
        assert told_of(alarm())["story"] == "It has no metrics yet."


class TestIncidents:
    def test_alarms_are_under_their_incident_and_others_by_themselves(self) -> None:
        over = {"recovered": {"outcome": 2500, "ts": START + 2_500_000}, "status": "recovered"}
        told = told_of(
            a_drift(), alarm(300), alarm(2200), alarm(5000), alarm(5100),
            incident(2000, alarms=["alarm-2200"], **over), incident(),
        )  # fmt: skip
        found = [(one["number"], one["status"], [its["outcome"] for its in one["alarms"]])
                 for one in told["incidents"]]  # fmt: skip
        assert found == [(2, "open", [5000]), (1, "recovered", [2200])]
        assert [one["outcome"] for one in told["alarms"]] == [5100, 300]
        assert [mark["outcome"] for mark in told["marks"]] == [300, 5100]
        assert [(one["number"], one["name"], one["outcome"]) for one in told["bands"]] == [
            (1, "segment country=fr", [2000, 2500]), (2, "segment country=fr", [4800, None]),
        ]  # fmt: skip

    def test_of_more_alarms_than_an_incident_names_those_within_are_its_own(self) -> None:
        told = told_of(a_drift(), alarm(5000), alarm(4990), alarm(5300),
                       incident(alarm_count=3, ts=START + 5_100_000))  # fmt: skip
        assert [its["outcome"] for its in told["incidents"][0]["alarms"]] == [5000]
        told = told_of(a_drift(), alarm(5000), alarm(5050), alarm(5300),
                       incident(alarm_count=3, ts=START + 5_100_000))  # fmt: skip
        assert [its["outcome"] for its in told["incidents"][0]["alarms"]] == [5050, 5000]

    def test_open_ones_come_first_and_numbers_go_by_time(self) -> None:
        told = told_of(a_drift(), incident(100, id="a"), incident(4000, id="b", status="closed"))
        assert [(one["id"], one["number"]) for one in told["incidents"]] == [("a", 1), ("b", 2)]


class TestProbabilities:
    def test_curves_are_those_of_the_histogram(self) -> None:
        found = curves_of(histogram_of(SCORES))
        at = points(histogram_of(SCORES))
        assert found["recall"] == pytest.approx([point.recall for point in at], abs=1e-4)
        assert (found["positives"], found["negatives"]) == (100, 960)
        present = found["present"]
        # Of scores of at least 0.5 49 are positives and 10 negatives.
        assert found["recall"][present] == 0.49
        assert found["precision"][present] == pytest.approx(49 / 59, abs=1e-4)
        assert found["thresholds"][present] >= 0.5

    def test_costs_are_those_of_the_settings(self) -> None:
        said = self.said(StreamConfig(positive_class="UP", costs={"UP": {"DOWN": 5.0}, "DOWN": {"UP": 1.0}}))
        best = best_threshold(histogram_of(SCORES), Costs(1, 5))
        assert said["costs"]["gain"] == pytest.approx(best.gain, rel=1e-4)
        assert said["costs"]["interval"] == pytest.approx(best.interval, rel=1e-4)
        assert min(said["costs"]["mean"]) == said["costs"]["cost"]
        assert said["costs"]["mean"][said["present"]] == said["costs"]["present_cost"]
        assert said["cost"] == 0.25

    @pytest.mark.parametrize("more", [
        {}, {"costs": {"UP": {"DOWN": 5.0}}},
        {"costs": {"UP": {"DOWN": 5.0, "SAME": 1.0}}, "positive_class": "UP"},
        {"costs": {"UP": {"DOWN": 5.0}}, "positive_class": "UP", "cost_per_value": True},
    ])  # fmt: skip
    def test_where_settings_dont_say_it_there_are_none(self, more: dict[str, Any]) -> None:
        assert self.said(StreamConfig(**more))["costs"] is None

    @staticmethod
    def said(settings: StreamConfig) -> Any:
        some = metrics(scores=SCORES, measures={"accuracy": 0.9, "cost": 0.25})
        return told_of(some, config=Config(streams={"elec2": settings}))["probabilities"]["window:1000"]

    @pytest.mark.parametrize("scores", [{"bins": [999], "negatives": [1], "positives": [1]}, {"other": 1}])
    def test_a_histogram_of_another_form_is_left_out(self, scores: dict[str, Any]) -> None:
        assert told_of(metrics(scores=scores))["probabilities"] == {}


class TestResiduals:
    def test_deciles_by_memory_of_the_first_stage(self) -> None:
        other = metrics(estimator="all", residuals={"n": 1})
        some = metrics(measures={"mae": 0.5}, residuals=RESIDUALS), other
        found = told_of(*some)["residuals"]
        assert list(found) == ["window:1000"]
        assert found["window:1000"][9] == [100.0, 10.0, 14.5, -4.5, 5.0]

    def test_others_have_none(self) -> None:
        assert told_of(metrics())["residuals"] == {}


#: Cells of a row whose contents overlap, and headings of a table that are broken within a word.
_OVERLAPPING = """() => {
  const wrong = [], range = document.createRange();
  const extent = (one) => { range.selectNodeContents(one); return range.getBoundingClientRect(); };
  const meet = (from, to, other, end) => from < end - 1 && other < to - 1;
  const over = (a, b) => meet(a.left, a.right, b.left, b.right) && meet(a.top, a.bottom, b.top, b.bottom);
  for (const row of document.querySelectorAll(".need, .kpi, tr")) {
    const all = [...row.children].map(extent).filter((one) => one.width && one.height);
    if (all.some((a, i) => all.slice(i + 1).some((b) => over(a, b)))) wrong.push(row.innerText);
  }
  for (const head of document.querySelectorAll("thead th"))
    if (!head.innerText.trim().includes(" ") && extent(head).height > 20) wrong.push(head.innerText);
  return wrong;
}"""


@pytest.mark.slow
class TestInABrowser:
    def test_predicted_against_actual(self, page: Page) -> None:
        some = [metrics(measures={"mae": 0.5}, residuals=RESIDUALS)]
        with served(some) as (address, _):
            ready(page, address + MODEL)
            page.click("summary:has-text('Predicted and actual values')")
            plot = page.locator(".curve[data-title='predicted against actual']")
            assert plot.locator("circle").count() == 10
            assert "largest bias -4.5" in plot.inner_text().replace("−", "-")
            rows = page.locator("table[aria-label='residuals by decile'] tbody tr").all_inner_texts()
            assert len(rows) == 10
            assert rows[0].split("\t") == ["1", "1.000", "1.000", "0.000", "0.500"]

    def test_bands_alarms_mistakes_and_curves(self, page: Page) -> None:
        details = {"confusion": CONFUSION, "scores": SCORES}
        some = [*a_drift(), alarm(5000), alarm(300), incident(), metrics(6100, 0.86, **details),
                metrics(6100, 0.86, estimator="all", n=6100, confusion={"UP": {"UP": 6000, "DOWN": 100}})]
        with served(some) as (address, _):
            ready(page, address + MODEL)
            assert page.inner_text(".story").startswith("Right in 86.0% of the latest 1,000 outcomes.")
            accuracy = page.locator('figure[data-title="accuracy"]')
            assert accuracy.get_attribute("data-bands") == "1"
            assert accuracy.get_attribute("data-marks") == "1"
            # An open incident with an alarm, in a table and in the lane below; another alarm has none.
            row = page.locator("table[aria-label='incidents'] tbody tr").inner_text().split("\t")
            assert [row[0], row[2], row[-1]] == ["◆ worse", "21 min, open", "1"]
            assert page.locator(".lanes .bar").count() == 1
            assert page.locator(".lanes path.alarm").count() == 1
            fold = page.inner_text("summary:has-text('Alarms without an incident')")
            assert fold.endswith("1, the newest 14 Nov 22:18")
            page.locator("details.fold").evaluate_all("all => all.forEach((one) => { one.open = true; })")
            assert "page-hinkley" in page.inner_text("table[aria-label='alarms']")
            matrix = page.locator(".matrix tbody tr").all_inner_texts()
            assert [row.split() for row in matrix] == [
                ["DOWN", "450", "90.0%", "50", "10.0%", "500"],
                ["UP", "90", "18.0%", "410", "82.0%", "500"],
            ]  # fmt: skip
            classes = page.locator("table[aria-label='by class'] tbody tr").all_inner_texts()
            assert [row.split("\t") for row in classes] == [
                ["DOWN", "500", "50.0%", "0.900", f"{450 / 540:.3f}"],
                ["UP", "500", "50.0%", "0.820", f"{410 / 460:.3f}"],
            ]  # fmt: skip
            page.select_option("label:has-text('Memory') select", "all")
            page.wait_for_selector(".matrix td:has-text('6,000')")
            curves = page.locator(".curve")
            titles = curves.evaluate_all("all => all.map((one) => one.dataset.title)")
            assert titles == ["reliability", "ROC", "precision and recall", "cost by threshold"]
            assert "recall 49.0%, false positives 1.04%" in page.inner_text('[data-title="ROC"]')
            both = page.inner_text('[data-title="precision and recall"]')
            assert "precision 83.1% at recall 49.0%" in both
            cost = '[data-title="cost by threshold"]'
            # 51 of 1,060 are missed, 10 are false: 1 each.
            assert f"at 0.5: {61 / 1060:.3f} an outcome" in page.inner_text(cost)
            page.fill("label:has-text('a missed positive') input", "5")
            page.press("label:has-text('a missed positive') input", "Tab")
            page.wait_for_selector(f"{cost}:has-text('at 0.5: {(5 * 51 + 10) / 1060:.3f} an outcome')")

    def test_costs_by_the_settings(self, page: Page) -> None:
        settings = StreamConfig(positive_class="UP", costs={"UP": {"DOWN": 5.0}, "DOWN": {"UP": 1.0}})
        config = Config(streams={"elec2": settings})
        some = [*a_drift(), metrics(6100, scores=SCORES, measures={"accuracy": 0.9, "cost": 0.25})]
        with served(some, config=config) as (address, _):
            ready(page, address + MODEL)
            page.click("summary:has-text('Probabilities and thresholds')")
            cost = page.inner_text('[data-title="cost by threshold"]')
            best = best_threshold(histogram_of(SCORES), Costs(1, 5))
            assert f"at 0.5: {best.present_cost:.3f} (" in cost
            assert ", 0.250 at its decisions; least at " in cost
            assert f"a gain of {best.gain:.3f} (" in cost
            assert page.locator("label:has-text('a missed positive')").count() == 0

    def test_many_classes_are_twelve_and_the_others(self, page: Page) -> None:
        many = {f"c{n:02}": {f"c{n:02}": 100 - n, "c00": 1} for n in range(1, 30)} | {"c00": {"c00": 200}}
        with served(metrics(confusion=many)) as (address, _):
            ready(page, address + MODEL)
            assert page.locator(".matrix tbody tr").count() == 13
            assert "18 other classes" in page.inner_text(".matrix")
            assert page.locator("table[aria-label='by class'] tbody tr").count() == 30

    def test_three_points_are_points(self, page: Page) -> None:
        some = [metrics(n, intervals={"accuracy": [0.7, 0.9]}) for n in (1000, 2000, 2310)]
        with served(some) as (address, _):
            ready(page, address + MODEL)
            legend = page.locator('figure[data-title="accuracy"] .legend')
            assert legend.locator("circle").count() == 3  # the model, and two baselines
            assert legend.locator("line").count() == 0

    def test_thirty_incidents(self, page: Page) -> None:
        over = [incident(200 * n, id=f"i{n}", status="closed", alarms=[]) for n in range(1, 30)]
        with served(a_drift(), over, incident()) as (address, _):
            ready(page, address + MODEL)
            assert page.get_attribute('figure[data-title="accuracy"]', "data-bands") == "30"
            rows = page.locator("table[aria-label='incidents'] tbody tr").all_inner_texts()
            assert rows[0].startswith("◆ worse")
            assert page.locator("h2:text-is('Incidents: 30')").count() == 1
            assert page.inner_text("summary:has-text('earlier')") == "25 earlier incidents"

    def test_nothing_is_cut_off_on_a_phone(self, chromium: Browser) -> None:
        some = [*a_drift(), *a_drift(estimator="all"), alarm(300), alarm(5000), incident(),
                metrics(6100, confusion=CONFUSION, scores=SCORES), metrics(6000, segment="country=fr")]
        with opened(chromium, width=360) as page, served(some) as (address, _):
            for view in (MODEL, "#/overview?as=table", "#/incidents", "#/incident?id=incident-4800"):
                ready(page, address + "?" + str(len(view)) + view)
                assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), view
                cut = page.evaluate(
                    "[...document.querySelectorAll('.scroll')].filter("
                    "(one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel)"
                )
                assert cut == [], view

    def test_nothing_overlaps_on_paper(self, chromium: Browser) -> None:
        """At the width of A4 within its margins; drawings are made for the screen, which may be wider."""
        some = [*a_drift(), alarm(300), incident(), incident(3000, id="i3", status="closed", alarms=[])]
        with opened(chromium, width=1200) as page, served(some) as (address, _):
            for view in ("#/overview", MODEL, "#/incidents", "#/incident?id=incident-4800"):
                ready(page, address + "?" + str(len(view)) + view)
                drawings = page.locator(".small svg")
                assert all(drawings.evaluate_all("all => all.map((one) => one.viewBox.baseVal.width)")), view
                page.emulate_media(media="print")
                page.set_viewport_size({"width": 703, "height": 1000})
                overlapping = page.evaluate(_OVERLAPPING)
                assert overlapping == [], view
                page.emulate_media(media="screen")
                page.set_viewport_size({"width": 1200, "height": 800})

    def test_paper_is_light(self, chromium: Browser) -> None:
        with opened(chromium, dark=True) as page, served(a_drift()) as (address, _):
            ready(page, address + MODEL)
            page.emulate_media(media="print", color_scheme="dark")
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
            assert not page.is_visible(".controls")
            before = page.evaluate("document.querySelector('figure canvas').toDataURL()")
            page.evaluate("window.dispatchEvent(new Event('beforeprint'))")  # charts are drawn anew, too
            assert page.evaluate("document.querySelector('figure canvas').toDataURL()") != before
            dark = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--text')")
            assert dark.strip() == "#1a1e23"


def test_alarms_of_incidents_in_messages_are_ids() -> None:
    """What the page groups by is what `incidents` say."""
    said = json.loads(incident().value or b"")
    assert said["alarms"] == [json.loads(alarm(5000).value or b"")["id"]]

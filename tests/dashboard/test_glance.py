"""What is seen at a glance: the first screen, short lists, whole tables, plain words, the gate, colours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from boards import DAY, START, a_drift, comparison, history_of, incident, live, metrics, period, served
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import Objective, StreamConfig
from prequential.views.dashboard.gate import gate_page
from prequential.views.dashboard.pages import model_page
from prequential.views.dashboard.pair import pair_page
from prequential.views.report import parse_condition
from prequential.views.state.newest import ModelKey
from prequential.views.wording.comparing import PairKey

from tests.browser import opened, ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NB = ModelKey("elec2", "nb", 0)
MODEL = "#/model?stream=elec2&model=nb&partition=0"
PAIR = "#/pair?stream=elec2&model=nb&against=tree&stage=final&loss=error"

#: A classifier that decides at 0.5, and one that decides at 0.3, with the same scores.
SCORES = {"bins": [20, 80, 90, 110, 180], "negatives": [900, 30, 20, 10, 0], "positives": [30, 20, 30, 40, 9]}
AT_HALF = {"UP": {"UP": 49, "DOWN": 80}, "DOWN": {"UP": 10, "DOWN": 950}}
AT_LESS = {"UP": {"UP": 99, "DOWN": 30}, "DOWN": {"UP": 60, "DOWN": 900}}
UP = Config(streams={"elec2": StreamConfig(positive_class="UP")})
VALUES = {
    "accuracy": 0.9, "precision": 0.83, "recall": 0.38, "f1": 0.52, "kappa": 0.5, "kappa_per": 0.1,
    "p_per": 0.7, "p_maj": 0.5,
}  # fmt: skip

#: Elements that are partly outside of what scrolls them, and texts of which each word is a line.
_CUT = (
    "() => [...document.querySelectorAll('main .scroll')]"
    ".filter((one) => !one.closest('.values') && one.scrollWidth > one.clientWidth + 1)"
    ".map((one) => one.getAttribute('aria-label'))"
)
_WORD_BY_WORD = """() => [...document.querySelectorAll('main :is(td, th, dt, dd, p, span, li, b)')].filter((one) => {
  const words = one.textContent.trim().split(/\\s+/);
  if (one.children.length || words.length < 3) return false;
  const range = document.createRange();
  range.selectNodeContents(one);
  const lines = new Set([...range.getClientRects()].filter((box) => box.width).map((box) => Math.round(box.top)));
  return lines.size >= words.length;
}).map((one) => one.textContent)"""  # noqa: E501


def detailed(model: str, confusion: dict[str, Any], **changed: Any) -> Any:
    return metrics(
        6100, 0.9, model=model, measures=VALUES, confusion=confusion, scores=SCORES, **changed
    )


class TestFirstScreen:
    def test_the_classifiers_measures_are_with_the_matrix_on_it(self, chromium: Browser) -> None:
        some = [*a_drift(), detailed("nb", AT_HALF), metrics(6100, estimator="all", n=6100, measures=VALUES)]
        with opened(chromium, width=1440) as page, served(some, config=UP) as (address, _):
            ready(page, address + MODEL)
            cards = page.locator(".kpi")
            names = [text.split("\n")[0] for text in cards.all_inner_texts()]
            assert names[:7] == ["accuracy", "precision", "recall", "f1", "auc", "kappa", "kappa_per"]
            for place in range(5):
                box = cards.nth(place).bounding_box()
                assert box is not None
                assert box["y"] + box["height"] < 900
                size = cards.nth(place).locator(".value").evaluate("(one) => getComputedStyle(one).fontSize")
                assert float(size.removesuffix("px")) >= 24
            matrix = page.locator("table.matrix").bounding_box()
            assert matrix is not None
            assert matrix["y"] + matrix["height"] < 900

    def test_the_latest_value_is_beside_that_of_the_whole_run_and_of_the_reference(self) -> None:
        reference = {"outcomes": 1000, "measures": {
            "accuracy": {"value": 0.8, "difference": 0.1, "interval": [0.05, 0.15]},
        }}  # fmt: skip
        whole = {**VALUES, "accuracy": 0.7}
        history = history_of(
            metrics(6000, measures=VALUES, reference=reference),
            metrics(6000, measures=whole, estimator="all", n=6000),
        )
        rows = model_page(history, NB)["cards"][0]["rows"]
        assert [(row["name"], row["value"], round(row["difference"], 3)) for row in rows[:2]] == [
            ("whole run", 0.7, 0.2), ("reference", 0.8, 0.1),
        ]  # fmt: skip

    def test_curves_and_a_table_of_thresholds_are_one_click_away(self, page: Page) -> None:
        with served(a_drift(), detailed("nb", AT_LESS), config=UP) as (address, _):
            ready(page, address + MODEL)
            page.click("summary:has-text('Probabilities and thresholds')")
            for title in ("ROC", "precision and recall"):
                assert page.is_visible(f"figure[data-title='{title}']")
            rows = page.locator("table[aria-label='results by threshold'] tbody tr").all_inner_texts()
            assert len(rows) == 10
            [used] = [row.split("\t") for row in rows if "in use" in row]
            assert used[0] == "0.13 (in use)"  # between the scores of the bins 20 and 80
            half = next(row.split("\t") for row in rows if row.startswith("0.50"))
            assert half[2:4] == ["0.831", "0.380"]  # 49 of 59, 49 of 129

    @pytest.mark.parametrize(("wide", "zone", "name"), [
        (DAY, "UTC", "14 Nov 2023"), (7 * DAY, "UTC", "14 Nov 2023 to 20 Nov 2023"),
        (DAY, "America/New_York", "13 Nov 2023 19:00 to 14 Nov 2023 19:00 (America/New_York)"),
    ])  # fmt: skip
    def test_an_estimate_names_its_period_and_why_it_has_no_interval(
        self, wide: int, zone: str, name: str
    ) -> None:
        record = period(0, 0.84, 0.93)
        message = json.loads(record.value or b"")
        message["period"]["end"] = message["period"]["start"] + wide
        config = Config(streams={"elec2": StreamConfig(period=wide, period_zone=zone)})
        record = record._replace(value=json.dumps(message).encode())
        [card] = [
            card for card in model_page(history_of(metrics(5000), record, config=config), NB)["cards"]
            if card["kind"] == "expected"
        ]  # fmt: skip
        assert card["period"] == name
        assert (card["interval"], card["no_interval"]) == (None, "no interval until 20 periods are graded")


class TestPlainWords:
    def test_no_jargon(self, page: Page) -> None:
        same = {"same": ["initial"]}
        undecided = {"verdict": "undecided", "since": None, "recent": {"verdict": "undecided", "since": None}}
        some = [*a_drift(**same), *a_drift("tree", **same), incident(), comparison(**undecided)]
        with live(some) as (server, _, _):
            shown = ""
            views = ["", "#/overview?as=table", MODEL, PAIR, "#/incidents", "#/incident?id=incident-4800",
                     "#/configurations", "#/gate"]  # fmt: skip
            for view in views:
                ready(page, f"{server.address}?{len(shown)}{view}")
                page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
                shown += page.inner_text("body")
            for jargon in ("final = initial", "another than", "reversed", "at level", "means of 1 "):
                assert jargon not in shown
            assert "final (same as initial)" in shown

    def test_a_version_as_the_cause_is_named_once(self, page: Page) -> None:
        causes = [{"cause": "model_version", "share": 1.0, "version": "28", "before": 0.1, "after": 0.3}]
        with served(a_drift(), incident(causes=causes)) as (address, _):
            ready(page, address + "#/incident?id=incident-4800")
            assert page.inner_text(".cause").count("version 28") == 1

    @pytest.mark.parametrize(("changed", "said"), [
        ({"provisional": {"verdict": "b_better", "days": 2, "needed": 8}},
         "too early: 2 of 8 days, tree is ahead"),
        ({"needed": {"outcomes": 21000, "days": 40}}, "undecided, about 40 more days at this pace"),
        ({"verdict": "equivalent", "since": 712}, "equivalent: the difference is within the margin"),
        ({"outcomes": 0, "n": 0, "ts": 0, "measures": {}, "level": None, "interval": [-1, 1],
          "disagreement": {"share": 0.005, "at_most": 0.006, "n": 100_000}}, "no labels yet"),
    ])  # fmt: skip
    def test_a_pair_says_what_a_verdict_needs(
        self, page: Page, changed: dict[str, Any], said: str
    ) -> None:
        undecided = {"verdict": "undecided", "since": None, "recent": {"verdict": "undecided", "since": None}}
        with served(a_drift(), a_drift("tree"), comparison(**{**undecided, **changed})) as (address, _):
            ready(page, address + PAIR)
            assert said in page.inner_text("table[aria-label='certainty']")
            answer = page.inner_text(".answer")
            if "needed" in changed:
                assert "A decision takes about 40 more days at this pace." in answer
            if "disagreement" in changed:
                assert "They disagree on 0.5% of 100,000 predictions" in page.inner_text("body")
                assert "No labels yet" in answer
            if "verdict" in changed:
                assert answer.startswith("Equivalent")
                assert "differs by at most 0.050" in answer

    def test_models_that_decide_at_different_thresholds_are_told(self) -> None:
        about = PairKey("elec2", 0, "nb", "tree", None, "final", "error")
        for other, differs in ((AT_LESS, True), (AT_HALF, False)):
            history = history_of(
                detailed("nb", AT_HALF), detailed("tree", other), comparison(), config=UP
            )
            said = pair_page(history, about)["thresholds"]
            assert (said is not None) == differs
            if said is not None:
                assert said.startswith("nb predicts UP from a probability of 0.50 on, tree from 0.13 on: ")


class TestLayout:
    def test_values_as_a_table_are_below_the_lanes(self, page: Page) -> None:
        with served(a_drift(), a_drift("tree"), incident(), comparison()) as (address, _):
            for view in (MODEL, PAIR, "#/incident?id=incident-4800"):
                ready(page, f"{address}?{len(view)}{view}")
                assert page.evaluate(
                    "[...document.querySelectorAll('.lanes')].every((one) => "
                    "one.nextElementSibling.className === 'values' && "
                    "one.previousElementSibling.querySelector('details') === null)"
                )

    @pytest.mark.parametrize("width", [1440, 820])
    def test_no_table_is_cut_and_no_column_has_one_word_a_line(
        self, chromium: Browser, width: int
    ) -> None:
        names = ("mcc", "balanced_accuracy", "g_mean", "macro_f1", "weighted_f1", "log_loss", "brier", "ece",
                 "kappa_plus", "macro_recall", "macro_precision")  # fmt: skip
        more = dict.fromkeys(names, 0.5)
        estimators = ("window:1000", "fading:0.999", "all", "decay:1d")
        some = [
            *a_drift(same=["initial"]), *a_drift("tree"), incident(), comparison(),
            *(metrics(6100, measures={**VALUES, **more}, estimator=name, stage=stage)
              for name in estimators for stage in ("initial", "final", "after:1h")),
            metrics(6100, segment="region=eu"),
        ]  # fmt: skip
        with opened(chromium, width=width) as page, served(some) as (address, _):
            for view in ("", "#/overview?as=table", MODEL, PAIR, "#/incidents", "#/gate"):
                ready(page, f"{address}?{len(view)}{view}")
                page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
                page.wait_for_timeout(100)
                assert page.evaluate(_CUT) == [], view
                assert page.evaluate(_WORD_BY_WORD) == [], view

    def test_lists_are_short_on_a_phone(self, chromium: Browser) -> None:
        over = {"status": "recovered", "recovered": {"outcome": 5900, "ts": START + 5_900_000}}
        some = [
            *(record for place in range(12) for record in a_drift(stream=f"s{place}")),
            *(incident(4800 - 30 * n, stream=f"s{n % 12}", **(over if n > 3 else {})) for n in range(40)),
        ]
        with opened(chromium, width=390) as page, served(some) as (address, _):
            for view, most in (("", 4500), ("#/overview?as=table", 4300), ("#/incidents", 2500)):
                ready(page, f"{address}?{len(view)}{view}")
                assert page.evaluate("document.documentElement.scrollHeight") < most, view
            assert "Earlier: 28" in page.inner_text("main")

    def test_a_phone_shows_a_next_step_once(self, chromium: Browser) -> None:
        streams = [record for place in range(3) for record in a_drift(stream=f"s{place}")]
        for width, times in ((390, 1), (1440, 3)):
            with opened(chromium, width=width) as page, served(streams) as (address, _):
                ready(page, address)
                steps = page.locator(".need .what").evaluate_all("all => all.map((what) => what.innerText)")
                named = ["Next: use the baseline" in step for step in steps]
                assert named == [place < times for place in range(3)]

    def test_numbers_stand_beside_points_and_intervals(self, page: Page) -> None:
        with served(a_drift(), incident()) as (address, _):
            ready(page, address + "#/incident?id=incident-4800")
            covered = page.evaluate(
                """() => [...document.querySelectorAll(".move text")].filter((text) => {
                  const box = text.getBoundingClientRect();
                  return [...text.parentElement.querySelectorAll("circle, .span, .t")].some((one) => {
                    const other = one.getBoundingClientRect();
                    return other.left < box.right - 1 && other.right > box.left + 1;
                  });
                }).length"""
            )
            assert covered == 0
            assert page.locator(".move text").count() > 0


class TestGate:
    OBJECTIVE = Config(
        streams={"elec2": StreamConfig(objective=Objective({"accuracy": 0.85}, tolerance=0.0))}
    )

    def test_checks_have_one_side(self) -> None:
        history = history_of(a_drift(), metrics(6000, 0.95, model="good"), incident(), config=self.OBJECTIVE)
        told = gate_page(history)
        found = {(one["model"], one["expected"]): one["result"] for one in told["checks"]}
        assert found == {
            ("nb", "predictions and labels arrive"): "passed",
            ("nb", "accuracy is at least 0.85"): "failed",
            ("nb", "at least as good as the baselines"): "failed",
            ("nb", "no incident is open"): "failed",
            ("good", "predictions and labels arrive"): "passed",
            ("good", "accuracy is at least 0.85"): "passed",
            ("good", "at least as good as the baselines"): "passed",
            ("good", "no incident is open"): "passed",
        }
        assert (told["failed"], told["passed"], told["unknown"], told["total"]) == (3, 5, 0, 8)
        assert [one["result"] for one in told["checks"]][:3] == ["failed"] * 3

    def test_what_is_unknown_is_no_pass(self) -> None:
        told = gate_page(history_of(metrics(20), config=self.OBJECTIVE))
        assert told["unknown"] == 1

    def test_conditions_of_a_build_are_checks(self) -> None:
        conditions = [parse_condition("accuracy[estimator=window:1000] < 0.5"), parse_condition("auc < 0.5")]
        told = gate_page(history_of(a_drift()), None, conditions)
        stated = {one["expected"]: one["result"] for one in told["checks"] if not one["model"]}
        assert stated == {
            "not: accuracy[estimator=window:1000] < 0.5": "passed", "not: auc < 0.5": "failed",
        }  # fmt: skip

    @pytest.mark.slow
    def test_it_is_a_tab(self, page: Page) -> None:
        champion = Config(streams={"elec2": StreamConfig(champion="nb")})
        better = {"recent": {"verdict": "b_better", "since": 1200}}
        some = [*a_drift(), *a_drift("tree"), incident(), comparison(**better)]
        with served(some, config=champion) as (address, _):
            ready(page, address)
            page.click("nav a:has-text('Gate')")
            page.wait_for_selector("h1:has-text('checks of 8 fail')")
            assert page.locator("table[aria-label='checks'] >> nth=0").locator(".chip.worse").count() >= 3
            assert "May tree replace nb on elec2? yes" in page.inner_text("main").replace("\n", " ")


class TestColours:
    def test_a_model_has_the_same_on_each_page(self, page: Page) -> None:
        """`tree` comes first on the overview, because it is the worst; its colour goes by its name."""
        with served(a_drift("tree"), *[[metrics(n, 0.9, model="nb")] for n in (5000, 6000)]) as (address, _):
            ready(page, address)
            assert page.locator(".key .line a >> nth=0").inner_text() == "tree"
            assert page.locator(".key .line >> nth=0").locator("svg.line-2").count() == 1
            ready(page, f"{address}?again#/model?stream=elec2&model=tree")
            assert page.locator(".kpi >> nth=0").locator("svg.line-2").count() == 1
            assert page.locator("figure[data-title='accuracy'] .legend svg.line-2").count() == 1

"""A report's first screen has a verdict, its links lead to pages that are there, and its room is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from boards import a_drift, comparison, history_of, incident, metrics
from prequential.views.dashboard.incident import incident_page
from prequential.views.dashboard.overview import Overview
from prequential.views.dashboard.pair import pair_page
from prequential.views.dashboard.server import static_files
from prequential.views.dashboard.verdict import verdict_of, worst_first
from prequential.views.report import Report
from prequential.views.report.html import MODULES
from prequential.views.state.ranking import Choice
from prequential.views.wording.comparing import PairKey

from tests.browser import ready

if TYPE_CHECKING:
    from playwright.sync_api import Page


def many_incidents(number: int) -> list[Any]:
    return [
        incident(10 * n + 10, severity=n / number, status="recovered", recovered={"outcome": 5900, "ts": 1})
        for n in range(number)
    ]


def report_of(*records: Any) -> Report:
    report = Report("the past")
    for record in records:
        report.history.update(*record[:3])
    return report


def test_a_verdict_has_dates_outcomes_baseline_and_incidents() -> None:
    whole = metrics(6000, 0.8, estimator="all", n=6000)
    history = history_of(a_drift(), whole, incident(3000))
    rows = Overview(history).rows(Choice(), history.newest_ts)
    [said] = verdict_of(history, rows)
    assert said["sentences"] == [
        "elec2, 14 Nov 2023 22:15 to 14 Nov 2023 23:53: 6,000 outcomes of 1 model.",
        "nb was right in 80.0% of the whole run.", "Repeating the latest label was right in 70.0%.",
        "1 of 1 is worse than a baseline in the latest outcomes.",
        "1 incident, 1 open at the end.",
    ]
    assert said["totals"][0]["measures"] == {"kappa": pytest.approx(0.6)}


class TestIncidentLevels:
    def page(self, accuracies: list[float], **changed: Any) -> dict[str, Any]:
        later = [metrics(5000 + 100 * n, value) for n, value in enumerate(accuracies)]
        before = [metrics(n, 0.88) for n in range(100, 4801, 100)]
        return incident_page(history_of(before, later, incident(**changed)), "incident-4800")

    def test_a_curve_that_is_back_is_said_to_be(self) -> None:
        told = self.page([0.6, 0.7, 0.87])
        assert told["levels"] == {"before": 0.88, "since": pytest.approx(0.67), "worst": 0.6, "latest": 0.87,
                                  "latest_ts": None, "is_back": True}  # fmt: skip
        assert told["finding"] == "nb was right in 67.0% of outcomes, 88.0% before, back at 87.0%"
        assert self.page([0.6])["finding"] == "nb is right in 67.0% of outcomes, 88.0% before"

    def test_where_it_is(self) -> None:
        cases = {"region=eu": (0.9, 0.5), "region=us": (0.9, 0.93), "region=br": (0.9, 0.85)}
        parts = [
            metrics(outcomes, value, segment=name)
            for name, values in cases.items() for outcomes, value in zip((4000, 6000), values)
        ]  # fmt: skip
        causes = [{"cause": "concept", "share": 0.9}]
        told = incident_page(history_of(a_drift(), parts, incident(causes=causes)), "incident-4800")
        assert [one["name"] for one in told["parts"]] == ["region=eu", "region=br", "region=us"]
        assert told["where"] == (
            "Where: region=eu is at 50.0%, 90.0% before; the others are at 85.0% to 93.0%."
        )
        assert told["next"] == "inspect the listed instances; consider retraining"


def test_a_recent_verdict_names_its_basis_and_the_difference_since_then() -> None:
    """Over all history the challenger has lost 0.01 x 4,000 up to outcome 4,000, and is better since."""
    recent = {"verdict": "b_better", "since": 4000}
    undecided = {"verdict": "undecided", "since": None, "recent": recent}
    history = history_of(
        a_drift(), a_drift("tree"), comparison(4000, measures={"difference": -0.01}, **undecided),
        comparison(6000, measures={"difference": 0.01}, **undecided),
    )
    told = pair_page(history, PairKey("elec2", 0, "nb", "tree", None, "final", "error"))
    assert told["since_then"] == pytest.approx((0.01 * 6000 + 0.01 * 4000) / 2000)
    question = told["question"]
    assert (question["answer"], question["basis"], question["is_sure"]) == (
        "Yes", "by recent outcomes only", False,
    )  # fmt: skip
    assert question["reason"] == (
        "tree makes the lower error by recent outcomes since about outcome 4,000; the whole run is "
        "undecided. nb is not proven better in any segment or by any other loss."
    )


@pytest.mark.slow
def test_no_link_leads_to_a_page_that_was_left_out(page: Page, tmp_path: Path) -> None:
    incidents = many_incidents(35)
    path = tmp_path / "report.html"
    report = report_of(*a_drift(), metrics(6000, 0.8, estimator="all", n=6000), *incidents)
    whole = report.html()
    assert whole.count(b'"finding"') == 35
    small = report.html(most=len(whole) - 120_000)
    assert 1 < small.count(b'"finding"') < 35
    path.write_bytes(small)
    known = worst_first(report.history.incidents.all())
    ready(page, path.as_uri())
    assert "6,000 outcomes of 1 model. nb was right in 80.0%" in page.inner_text(".verdict")
    assert "now" not in page.inner_text("main").split()
    for view in ("#/incidents", "#/model?stream=elec2&model=nb"):
        ready(page, f"{path.as_uri()}?{len(view)}{view}")
        page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        links = page.locator("a[href*='incident?']").evaluate_all("all => all.map((one) => one.href)")
        assert links
        assert any(known[0].id in link for link in links)
        for link in sorted(set(links))[:3]:
            ready(page, f"{path.as_uri()}?{links.index(link)}#{link.partition('#')[2]}")
            assert page.inner_text("h1").startswith("nb was right in")


@pytest.mark.slow
def test_trust_and_findings_of_one_kind(page: Page, tmp_path: Path) -> None:
    coverage = {"waiting": 120, "labelled": {"horizon": 0.97}}
    values = {
        "accuracy": 0.8, "kappa": 0.5, "kappa_per": 0.1, "precision": 0.7, "recall": 0.6, "f1": 0.65,
        "auc": 0.9,
    }  # fmt: skip
    report = report_of(*a_drift(), metrics(6100, 0.8, coverage=coverage, measures=values))
    report.findings += [f"stream s{n}: {n + 2} labels met no prediction" for n in range(11)]
    report.findings.append("3 records were rejected")
    path = tmp_path / "report.html"
    path.write_bytes(report.html())
    ready(page, f"{path.as_uri()}#/model?stream=elec2&model=nb")
    assert page.locator("header .problem").count() == 2
    assert "and 10 more of this kind" in page.inner_text("header .problem >> nth=0")
    cards = page.locator(".kpi").all_inner_texts()
    assert [card.split("\n")[0] for card in cards[:7]] == [
        "accuracy", "precision", "recall", "f1", "auc", "kappa", "kappa_per",
    ]  # fmt: skip
    assert "97.0% labelled, 120 pending, labels to 14 Nov 2023 23:55" in cards[0]


def test_a_report_has_each_module_of_the_page() -> None:
    scripts = {name.removesuffix(".js") for name in static_files() if name.endswith(".js")}
    assert set(MODULES) == scripts - {"uPlot.iife.min"}

"""A report as one file: its size, what is in it, and what a browser shows of it without any server."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from boards import START, a_drift, alarm, comparison, incident, metrics, without_times
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import Objective, StreamConfig
from prequential.topics.outputs import Alarm, Metrics
from prequential.views.dashboard.server import static_files
from prequential.views.report import Report
from prequential.views.report.html import MOST_BYTES, bundle
from prequential.views.state.output_records import OutputRecord

from tests.browser import ready

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL = "</script><script>document.title='taken'</script><!--"


def report_of(*records: OutputRecord, title: str = "a replay", config: Config | None = None) -> Report:
    report = Report(title, config)
    for record in records:
        report.history.update(*record[:3])
    return report


def data_of(written: bytes) -> dict[str, Any]:
    """What the file carries."""
    found = re.search(rb'<script type="application/json" id="report">(.*?)</script>', written, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


class TestSize:
    def many(self, streams: int, models: int, messages: int) -> Iterator[OutputRecord]:
        measures = {f"measure_{n}": n / 7 for n in range(20)}
        for outcomes in range(1000, 1000 * messages + 1, 1000):
            for s in range(streams):
                for m in range(models):
                    for stage in ("initial", "final"):
                        yield metrics(
                            outcomes, 0.5 + (s * models + m) / 20_000,
                            stream=f"a-stream-with-a-long-name-{s}",
                            model=f"m{m}", stage=stage, measures={"accuracy": s / streams, **measures},
                        )  # fmt: skip

    @pytest.mark.parametrize(("streams", "models", "messages"), [(1000, 5, 2), (30, 3, 100), (1, 2, 2000)])
    def test_it_stays_below_two_megabytes(self, streams: int, models: int, messages: int) -> None:
        report = Report("large")
        for record in self.many(streams, models, messages):
            report.history.update(*record[:3])
        for number in range(1, 600):
            report.history.update(*incident(number, id=f"i{number}")[:3])
            report.history.update(*comparison(4000, model=f"m{number}")[:3])
        written = report.html()
        assert len(written) < MOST_BYTES == 2_000_000
        data = data_of(written)
        assert data["overview"]["total"] == streams * models + 1  # an incident is of another one
        shown = {(one["stream"], one["model"]) for one in data["models"]}
        if len(shown) < data["overview"]["total"]:
            said = f"pages of the {len(shown):,} worst of {streams * models + 1:,}"
            assert said in data["board"]["left_out"]
        # The worst are in it.
        worst = [(row["stream"], row["model"]) for row in data["overview"]["rows"][: len(shown)]]
        assert set(worst) == shown
        assert len(written) > 300_000

    def test_names_that_are_long_in_the_file(self) -> None:
        """Each `<` takes six bytes there; findings have the names of streams."""
        report = Report("<" * 5_000)
        report.findings += [f"{'<' * 200} {number}: ids never meet" for number in range(3_000)]
        for number in range(600):
            report.history.update(*metrics(model=f"{'<' * 250}{number}", stage="initial")[:3])
        written = report.html()
        assert len(written) < MOST_BYTES
        data = data_of(written)
        assert len(data["models"]) > 50
        assert data["board"]["findings"][-1] == "… and 2,900 more of the kind"

    def test_what_fits_is_whole(self) -> None:
        config = Config(defaults=StreamConfig(objective=Objective({"accuracy": 0.9})))
        every = [*a_drift(), *a_drift(estimator="all"), *a_drift(segment="arm=A"), comparison(), alarm(),
            incident()]
        data = data_of(report_of(*every, config=config).html())
        assert data["board"]["left_out"] is None
        views = [(one["estimator"], one["segment"]) for one in data["models"]]
        assert views == [("window:1000", None), ("all", None), ("window:1000", "arm=A")]
        assert data["models"][0]["estimators"] == ["all", "window:1000"]
        assert data["models"][0]["segments"] == ["arm=A"]
        assert len(data["models"][0]["series"]["final"]["t"]) == 60
        assert data["models"][0]["objective"] == {"accuracy": 0.9}
        assert [len(data[name]) for name in ("pairs", "incidents")] == [1, 1]


class TestSafety:
    def test_its_policy_allows_exactly_its_own_scripts_and_styles(self) -> None:
        written = report_of(*a_drift()).html().decode()
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', written)
        assert policy is not None
        parts = dict(part.strip().split(" ", 1) for part in policy[1].split(";"))
        assert parts["default-src"] == "'none'"

        def digests(pattern: str) -> list[str]:
            bodies = re.findall(pattern, written, re.DOTALL)
            return [
                f"'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'"
                for body in bodies
            ]

        assert parts["script-src"].split() == digests("<script>(.*?)</script>")
        assert parts["style-src"].split() == digests("<style>(.*?)</style>")
        assert "MIT" in written  # the library's licence goes with it

    def test_names_cannot_leave_the_data(self) -> None:
        report = report_of(metrics(stream=EVIL, model=EVIL), title=EVIL)
        report.findings.append(EVIL)
        written = report.html().decode()
        assert EVIL not in written
        assert written.count("<script") == 3
        assert data_of(written.encode())["models"][0]["model"] == EVIL

    def test_nothing_is_left_of_modules(self) -> None:
        script = bundle({name: body.decode() for name, body in static_files().items()})
        assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
        assert "</script" not in script


def test_outputs_of_a_shard_are_shown_as_messages_of_files_are() -> None:
    records = metrics(1000), metrics(2000, 0.7), alarm(1500)
    report = Report("a replay")
    for record, form in zip(records, (Metrics, Metrics, Alarm)):
        report.put(msgspec.json.decode(record.value or b"", type=form))
    report.findings.append("look here")
    expected = report_of(*records)
    expected.findings.append("look here")
    assert report.html() == expected.html()
    data = data_of(report.html())
    assert data["board"]["findings"] == ["look here"]
    assert data["models"][0]["marks"][0]["t"] == START + 1_500_000


@pytest.mark.slow
class TestInABrowser:
    def test_all_pages_work_from_the_file_alone(self, page: Page, tmp_path: Path) -> None:
        report = report_of(
            *a_drift(), *a_drift("tree"), *a_drift(estimator="all"), *a_drift(segment="arm=A"),
            *(comparison(n) for n in range(100, 4001, 100)), alarm(5000), incident(),
        )  # fmt: skip
        report.findings.append("elec2: 7 labels came after the horizon")
        path = tmp_path / "report.html"
        path.write_bytes(report.html())
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        ready(page, path.as_uri())
        assert page.locator(".stream .course.line-1").get_attribute("data-points") == "40"
        page.click("button:text-is('Table')")
        page.wait_for_selector("table.models")
        assert "elec2: 7 labels came after the horizon" in page.inner_text("header")
        assert page.locator("table.models td:nth-child(2) a").all_inner_texts() == ["nb", "tree"]
        assert page.inner_text("h1") == "2 of 2 models need attention"
        assert page.inner_text(".tag") == "1"
        page.fill("input[type=search]", "tre")
        page.wait_for_selector("text=1 to 1 of 1 model")
        page.fill("input[type=search]", "")
        page.wait_for_selector("text=1 to 2 of 2 models")
        page.click("table.models a:text-is('nb')")
        page.wait_for_selector('figure[data-title="kappa"][data-points="60"]')
        assert page.get_attribute('figure[data-title="kappa"]', "data-marks") == "0"
        assert page.get_attribute('figure[data-title="kappa"]', "data-bands") == "1"
        row = page.locator("table[aria-label='incidents'] tbody tr").inner_text().split("\t")
        assert (row[0], row[-1]) == ("◆ worse", "1")
        page.select_option("label:has-text('Estimator') select", "all")
        page.wait_for_url("**estimator=all**")
        page.select_option("label:has-text('Estimator') select", "window:1000")
        page.wait_for_url("**estimator=window**")
        page.select_option("label:has-text('Segment') select", "arm=A")
        page.wait_for_url("**segment=arm**")
        page.wait_for_selector('figure[data-title="kappa"][data-points="60"]')
        page.click("a:has-text('tree beats nb') >> nth=0")
        page.wait_for_selector('figure[data-title="difference of losses"][data-points="40"]')
        page.click("nav a:has-text('Incidents')")
        page.click("table[aria-label='incidents'] a")
        page.wait_for_selector("h2:has-text('Records to inspect')")
        assert all(url.startswith("file://") for url in asked)

    def test_without_times_pages_show_outcomes(self, page: Page, tmp_path: Path) -> None:
        coverage = {"label_latency_ms": {"p50": 1500}, "waiting": 3, "oldest_waiting_ms": 4000}
        over = {"change_point": {"outcome": 2000, "ts": START + 2_000_000, "prediction_ts": START}}
        records = [
            *a_drift(coverage=coverage), *a_drift("tree"), *(comparison(n) for n in range(100, 4001, 100)),
            alarm(5000), alarm(3000, model="tree"), incident(), incident(2000, status="closed", **over,
                recovered={"outcome": 3000, "ts": START + 3_000_000}),
        ]  # fmt: skip
        path = tmp_path / "report.html"
        path.write_bytes(report_of(*map(without_times, records)).html())
        ready(page, path.as_uri() + "#/overview?as=table")
        shown = [page.inner_text("body")]
        assert "of outcomes since outcome 4,800, 88.0% before" in shown[0]
        assert "1 alarm since outcome 3,000" in shown[0]
        page.click("table.models a:text-is('nb')")
        page.wait_for_selector('figure[data-title="kappa"][data-points="60"]')
        assert page.get_attribute('figure[data-title="kappa"]', "data-bands") == "2"
        assert page.locator("label:has-text('Axis')").count() == 0
        page.click('[data-key="values kappa"] summary')
        assert page.inner_text('[data-key="values kappa"] th >> nth=0') == "outcome"
        shown.append(page.inner_text("body"))
        assert "the oldest for 4,000 rows" in shown[-1]
        assert "1,500 rows" in shown[-1]
        page.click("a:has-text('tree beats nb') >> nth=0")
        page.wait_for_selector('figure[data-title="difference of losses"][data-points="40"]')
        shown.append(page.inner_text("body"))
        page.click("nav a:has-text('Incidents')")
        page.wait_for_selector("table[aria-label='incidents'] a >> nth=1")
        shown.append(page.inner_text("body"))
        for place in range(2):
            page.click("nav a:has-text('Incidents')")
            page.click(f"main > div > div table[aria-label='incidents'] a >> nth={place}")
            page.wait_for_selector("h2:has-text('Records to inspect')")
            page.wait_for_selector("figure[data-points='64']")
            shown.append(page.inner_text("body"))
        assert "It ended at outcome 3,000." in shown[-1]
        for text in shown:
            assert "1970" not in text
            assert "UTC" not in text
            assert not re.search(r"\d (ms|s|min|h|d)\b", text)

    def test_lists_say_what_they_leave_out_and_courses_end_at_the_newest(
        self, page: Page, tmp_path: Path
    ) -> None:
        causes = [{"cause": "class_ratio", "share": 0.9, "class": "x", "before": 0.1, "after": 0.3}] * 2
        long = {"examples": ["e" * 250] * 200, "causes": causes}
        report = report_of(
            *(metrics(100 * n, 0.5 + n % 97 / 300) for n in range(1, 1400)),
            *(incident(100 * n, id=f"i{n}", status="closed", **long) for n in range(1, 2400)),
        )
        path = tmp_path / "report.html"
        path.write_bytes(report.html())
        ready(page, path.as_uri() + "#/incidents")
        text = page.inner_text("main")
        assert "object Object" not in text
        listed = page.locator("table[aria-label='incidents'] tbody tr").count()
        assert 100 < listed < 2399
        assert f"{listed:,} of 2,399 incidents are listed." in text
        assert "more of class x: 10% → 30% (90%)" in text
        ready(page, path.as_uri() + "?" + "#/model?stream=elec2&model=nb")
        assert f"final {0.5 + 1399 % 97 / 300:.3f}" in page.inner_text(".legend >> nth=0")
        assert f"Right in {50 + 1399 % 97 / 3:.1f}%" in page.inner_text(".story")
        assert "100 of 2,000 incidents are listed." in page.inner_text("main")

    def test_what_is_not_in_it_is_a_sentence(self, page: Page, tmp_path: Path) -> None:
        path = tmp_path / "report.html"
        path.write_bytes(report_of(*a_drift()).html())
        page.goto(f"{path.as_uri()}#/model?stream=elec2&model=x")
        page.wait_for_selector(".problem:has-text(\"Not included: the report keeps only the worst models\")")

"""What is on the screen of a real browser: text, order, points, marks; and that nothing complains."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from boards import START, a_drift, alarm, comparison, incident, live, metrics, period, served
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import Objective, StreamConfig
from prequential.views.state.newest import ModelKey, SequenceName

from tests.browser import ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Takes seconds to start.
pytestmark = pytest.mark.slow

TABLE = "#/overview?as=table"

NB, FINAL = ModelKey("elec2", "nb", 0), SequenceName(None, "final", "window:1000")

MODEL = "#/model?stream=elec2&model=nb&partition=0"

#: A name that would do harm if it were taken for markup.
EVIL = '<script>document.title="taken"</script><img src=x onerror=alert(1)>"\'&\u202e'


def rows(page: Page) -> list[list[str]]:
    """The texts of the table of models."""
    found = page.locator("table.models tbody tr")
    return [[cell.strip() for cell in row.split("\t")] for row in found.all_inner_texts()]


def models(page: Page) -> list[str]:
    return page.locator("table.models tbody tr td:nth-child(2) a").all_inner_texts()


def points(page: Page, title: str) -> int:
    """Points that a chart draws."""
    return int(page.get_attribute(f'figure[data-title="{title}"]', "data-points") or 0)


def colours(page: Page, title: str) -> int:
    """Colours that a chart's canvas has: one is an empty one."""
    return int(page.evaluate(
        """(title) => {
          const canvas = document.querySelector(`figure[data-title="${title}"] canvas`);
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const found = new Set();
          for (let i = 0; i < data.length; i += 4) found.add(data.slice(i, i + 4).join());
          return found.size;
        }""",
        title,
    ))  # fmt: skip


def titles(page: Page) -> list[str]:
    """The titles of all charts."""
    return page.locator("figcaption > span:first-child").all_inner_texts()


def unfold(page: Page) -> None:
    """Open what is folded."""
    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")


class TestOverview:
    def test_the_worst_come_first_and_say_why(self, page: Page) -> None:
        config = Config(streams={"kept": StreamConfig(objective=Objective({"accuracy": 0.95}))})
        some = [
            metrics(9000, 0.9, model="good"), metrics(9000, 0.5, model="@persistent"),
            metrics(9000, 0.7, model="bad"),
            metrics(9000, 0.6, model="alarmed"), alarm(8990, model="alarmed"),
            metrics(9000, 0.94, model="missing", stream="kept"), metrics(9000, 0.99, model="struck"),
            incident(model="struck"),
            metrics(9000, 0.8, model="repeats", measures={"accuracy": 0.8, "kappa_per": -0.4}),
        ]  # fmt: skip
        with served(some, config=config) as (address, _):
            ready(page, address + TABLE)
            assert models(page) == ["struck", "missing", "alarmed", "bad", "repeats", "good", "@persistent"]
            states = [row[2] for row in rows(page)]
            assert states[0].startswith("◆ worse for 1 h Right in 67.0% of outcomes since 14 Nov 2023")
            assert states[1] == "▽ misses objective accuracy is 0.940: the objective is at least 0.95."
            assert states[2].startswith("▽ below baseline Right in 60.0%")
            assert states[4] == "▽ below baseline It is worse than repeating the latest label. " \
                "Worse than repeating the latest label."
            assert states[5] == "✓ steady"
            assert page.inner_text("h1") == "4 of 6 models need attention"
            needs = page.locator(".need").all_inner_texts()
            assert [one.split("\n")[:2] for one in needs] == [
                ["◆ worse", "elec2 / struck"], ["▽ misses objective", "kept / missing"],
                ["▽ below baseline", "elec2 / alarmed"], ["▽ below baseline", "elec2 / repeats"],
            ]  # fmt: skip
            assert page.inner_text(".tag") == "1"
            page.click(".need >> nth=0")
            page.wait_for_url("**incident?id=incident-4800")
            page.wait_for_selector("main[data-ready]")

    def test_a_thousand_streams_with_five_models(self, page: Page) -> None:
        many = (
            metrics(2000, 0.5 + (7 * s + m) % 5000 / 10_000, stream=f"stream-{s:04}", model=f"model-{m}")
            for s in range(1000) for m in range(5)
        )  # fmt: skip
        with served(many) as (address, _):
            ready(page, address + TABLE)
            assert "1 to 50 of 5,000 models, 1,000 streams" in page.inner_text(".pager >> nth=0")
            assert len(rows(page)) == 50
            first = [float(row[3]) for row in rows(page)]
            assert first == sorted(first)
            page.click(".pager button:text-is('Next') >> nth=0")
            page.wait_for_selector("text=51 to 100 of 5,000")
            second = [float(row[3]) for row in rows(page)]
            assert second[0] >= first[-1]
            assert page.evaluate("document.querySelectorAll('*').length") < 2500
            page.fill("input[type=search]", "stream-0042")
            page.wait_for_selector("text=1 to 5 of 5 models")
            assert {row[0] for row in rows(page)} == {"stream-0042"}
            assert page.evaluate("document.activeElement.type") == "search"
            page.select_option("select >> nth=0", "name")
            page.wait_for_selector("table.models tbody tr:first-child a:text-is('model-0')")
            assert "by=name" in page.url
            assert "search=stream-0042" in page.url

    def test_the_keyboard_reaches_a_model_and_keeps_its_place_when_messages_come(self, page: Page) -> None:
        with served(metrics(model="first"), metrics(2000, 0.9, model="second")) as (address, board):
            ready(page, address + TABLE)
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.innerText") == "Skip to the content"
            for _ in range(20):
                page.keyboard.press("Tab")
                if page.evaluate("document.activeElement.innerText") == "second":
                    break
            board.take([metrics(3000, 0.5, model="second")])
            page.wait_for_selector("table.models tbody tr:first-child td:text-is('0.500')")
            assert page.evaluate("document.activeElement.innerText") == "second"
            page.keyboard.press("Enter")
            page.wait_for_selector("h1:has-text('elec2 / second')")
            assert page.evaluate("document.activeElement.tagName") == "H1"

    def test_without_messages_it_says_so(self, page: Page) -> None:
        with served() as (address, _):
            ready(page, address)
            text = page.inner_text("main")
            assert "No metrics yet" in text
            assert "prequential replay --help" in text


class TestModel:
    def test_measures_over_time_with_what_happened_on_the_same_axis(self, page: Page) -> None:
        cut = {"model_version": "v2", "version_since": 3001}
        some = [
            *(one for one in a_drift()), *a_drift(stage="initial"), *a_drift(estimator="all"),
            metrics(6000, 0.5, segment="country=fr"),
            metrics(6001, 0.6, **cut, intervals={"accuracy": [0.55, 0.65]},
                    coverage={"waiting": 17, "oldest_waiting_ms": 90_000,
                        "labelled": {"1m": 0.25, "horizon": 0.9},
                              "label_latency_ms": {"p50": 61_000.0, "p90": 90_000.0, "p99": 120_000.0}}),
            alarm(5000), alarm(5100, stage="initial"), incident(), comparison(),
            metrics(6000, 0.9, model="tree"),
        ]  # fmt: skip
        with served(some) as (address, _):
            ready(page, address + MODEL)
            unfold(page)
            text = page.inner_text("main")
            assert titles(page)[:3] == ["accuracy", "kappa", "kappa_per"]
            # Two stages, and both baselines of the first: 61 messages are `final`, 60 `initial`.
            assert points(page, "accuracy") == 61 + 60 + 61 + 61
            assert points(page, "kappa") == 61 + 60
            # An alarm of no incident, a version, an incident's band: the same on each axis.
            for title in ("accuracy", "kappa", "kappa_per"):
                assert page.get_attribute(f'figure[data-title="{title}"]', "data-marks") == "2"
                assert page.get_attribute(f'figure[data-title="{title}"]', "data-bands") == "1"
                assert colours(page, title) > 8
            legend = page.inner_text('figure[data-title="accuracy"] .legend')
            assert "final 0.600 (0.550 to 0.650)" in legend
            assert "repeating the latest label 0.700" in legend
            assert {"▲ alarm", "◆ incident", "● version"} <= set(
                page.locator('figure[data-title="accuracy"] .legend .sample').all_text_contents())
            assert "version v2 since outcome 3,001" in text
            assert "17 predictions pending, the oldest for 1.5 min" in text
            assert "country=fr" in text
            # Incidents and alarms are in lanes below the last chart; their widths are those of the curves.
            assert page.locator(".lanes .bar.open").count() == 1
            assert page.locator(".lanes path.alarm").count() == 1
            over = page.locator('figure[data-title="kappa_per"] .u-over').bounding_box()
            ground = page.locator(".lanes .ground >> nth=0").bounding_box()
            assert over is not None
            assert ground is not None
            assert abs(over["x"] - ground["x"]) < 2
            assert abs(over["width"] - ground["width"]) < 2
            assert ground["y"] > over["y"] + over["height"] - 1
            assert "tree beats nb over the whole run: error lower by 0.031 (0.012 to 0.050), since outcome 712 of 4,000" in text  # noqa: E501
            assert "◆ worse for 20 min" in page.inner_text("h1")

    def test_periods_by_time_of_prediction_with_what_parts(self, page: Page) -> None:
        title = "accuracy by time of prediction"
        days = [period(day, 0.84, 0.93, interval=(0.81, 0.87)) for day in range(6)]
        with served(metrics(), days, period(0, 0.85, final=True)) as (address, board):
            ready(page, address + MODEL)
            assert points(page, title) == 1 + 6 + 6
            legend = page.inner_text(f'figure[data-title="{title}"] .legend')
            assert "final 0.850" in legend
            assert "expected 0.840 (0.810 to 0.870)" in legend
            assert "labelled so far 0.930" in legend
            assert colours(page, title) > 8
            text = page.inner_text("main")
            assert "labelled so far 0.930 (50% of predictions), expected 0.840 [0.810, 0.870]" in text
            assert "Assumes that a pending prediction is like those with labels" in text
            board.take([period(1, 0.83, final=True), period(6, 0.7, 0.9)])
            page.wait_for_selector(f'figure[data-title="{title}"][data-points="16"]')
            # The newest one has no interval.
            assert "expected 0.700 labelled" in page.inner_text(f'figure[data-title="{title}"] .legend')
            page.select_option("label:has-text('Axis') select", "outcomes")
            assert points(page, title) == 16

    def test_numbers_without_times_are_drawn_over_outcomes(self, page: Page) -> None:
        some = [metrics(n, ts=0, measures={"mae": n / 1e4, "rmse": n / 9e3, "r2": -1.0}) for n in range(100,
            2100, 100)]
        with served(some) as (address, _):
            ready(page, address + MODEL)
            assert titles(page) == ["mae", "rmse", "r2"]
            assert points(page, "mae") == 20
            assert page.input_value("label:has-text('Axis') select") == "outcomes"
            page.focus('figure[data-title="mae"] .plot')
            page.keyboard.press("ArrowLeft")
            page.wait_for_selector(".readout:has-text('outcome 2,000 · final 0.200')")
            assert colours(page, "mae") > 8

    def test_numbers_stand_beside_the_reference(self, page: Page) -> None:
        def reference(interval: list[float] | None) -> dict[str, Any]:
            one = {"value": 0.9, "difference": -0.2, "interval": interval}
            return {"reference": {"outcomes": 1000, "measures": {"accuracy": one}}}

        some = [
            metrics(6000, 0.7, **reference([-0.25, -0.15])),
            metrics(6000, 0.7, estimator="all", **reference([-0.3, 0.1])),
            metrics(6000, 0.7, estimator="fading:0.9", **reference(None)),
        ]
        with served(some) as (address, _):
            ready(page, address + MODEL)
            unfold(page)
            fold = page.inner_text("summary:has-text('Comparison with the reference')")
            assert "1 measure of 3 differs" in fold
            found = page.locator("table[aria-label='compared with the reference'] tbody tr").all_inner_texts()
            assert [re.split(r"\s*\t\s*", row.strip()) for row in found] == [
                ["all", "accuracy", "0.900", "0.700", "-0.200", "-0.300 to 0.100"],
                ["fading:0.9", "accuracy", "0.900", "0.700", "-0.200", "–"],
                ["window:1000", "accuracy", "0.900", "0.700", "-0.200", "-0.250 to -0.150", "◆ differs"],
            ]

    def test_another_estimator_segment_axis_and_measure(self, page: Page) -> None:
        some = [*a_drift(), *a_drift(estimator="all"), *a_drift(segment="arm=A")]
        with served(some) as (address, _):
            ready(page, address + MODEL)
            page.select_option("label:has-text('Estimator') select", "all")
            page.wait_for_url("**estimator=all**")
            page.wait_for_selector("main[data-ready] figure")
            page.select_option("label:has-text('Axis') select", "outcomes")
            page.click("summary:has-text('Measures')")
            page.click("label:has-text('p_per')")
            page.wait_for_selector('figure[data-title="p_per"][data-points="60"]')
            page.click('[data-key="values accuracy"] summary')
            table = page.inner_text('[data-key="values accuracy"] table')
            assert table.splitlines()[1].split("\t")[0] == "6,000"
            page.select_option("label:has-text('Segment') select", "arm=A")
            page.wait_for_selector("text=Estimator all has no messages in the segment arm=A.")
            page.select_option("label:has-text('Estimator') select", "window:1000")
            page.wait_for_selector('figure[data-title="kappa"][data-points="60"]')

    def test_the_keyboard_reads_points_out(self, page: Page) -> None:
        with served(a_drift()) as (address, _):
            ready(page, address + MODEL)
            page.focus('figure[data-title="accuracy"] .plot')
            page.keyboard.press("ArrowLeft")
            page.wait_for_selector(".readout:has-text('final')")
            assert "14 Nov 2023 23:53:20 UTC · final 0.600" in page.inner_text(".readout >> nth=0")

    def test_new_messages_come_by_themselves(self, page: Page) -> None:
        with served(a_drift()) as (address, board):
            ready(page, address + MODEL)
            before = points(page, "kappa")
            board.take([metrics(6100, 0.71), metrics(6200, 0.72), alarm(6150)])
            page.wait_for_selector(f'figure[data-title="kappa"][data-points="{before + 2}"]')
            assert "final 0.720" in page.inner_text('figure[data-title="accuracy"] .legend')
            assert page.locator("summary:has-text('Alarms without an incident')").count() == 1

    def test_an_unknown_model_is_a_sentence(self, chromium: Browser) -> None:
        with served(a_drift()) as (address, _):
            page = chromium.new_page()  # its console tells of the answer 404
            page.goto(f"{address}#/model?stream=elec2&model=none&partition=0")
            page.wait_for_selector(".problem:not([hidden])")
            assert "no message of model 'none' on stream 'elec2' was seen" in page.inner_text(".problem")
            page.close()


class TestOneValue:
    """Courses keep some messages only; each page shows one value of one number nevertheless."""

    @pytest.mark.parametrize("messages", [3, 1023, 1025, 1600])
    def test_of_a_model(self, page: Page, messages: int) -> None:
        some = [metrics(100 * n, 0.5 + n % 97 / 300, intervals={"accuracy": [0.1, 0.5 + n % 97 / 290]},
                        coverage={"waiting": n}) for n in range(1, messages)]  # fmt: skip
        last = 0.5 + (messages - 1) % 97 / 300
        with served(some) as (address, board):
            ready(page, address)
            assert page.inner_text(".key b") == f"{last:.3f}"
            ready(page, address + "?" + MODEL)
            legend = page.locator('figure[data-title="accuracy"] .legend')
            assert f"final {last:.3f} (0.100 to " in legend.inner_text()
            assert f"Right in {100 * last:.1f}%" in page.inner_text(".story")
            drawn = points(page, "kappa")
            assert drawn == len(set(board.history.past[NB].series[FINAL].outcomes()) | {100 * (messages - 1)})
            waiting = 'figure[data-title="predictions waiting for a label"] .legend'
            assert f"waiting {messages - 1:,}" in page.inner_text(waiting)
            for n in (messages, messages + 1):  # neither may be kept, and both replace the last point
                value = 0.9 - n / 1e5
                board.take([metrics(100 * n, value)])
                shown = f'figure[data-title="accuracy"] .legend b:text-is("{value:.3f}")'
                page.wait_for_selector(shown, state="attached")
                assert f"Right in {100 * value:.1f}%" in page.inner_text(".story")
            kept = set(board.history.past[NB].series[FINAL].outcomes())
            drawn = len(kept | {100 * (messages + 1)})
            page.wait_for_selector(f'figure[data-title="kappa"][data-points="{drawn}"]')

    def test_of_a_pair(self, page: Page) -> None:
        some = [
            comparison(100 * n, estimator=name, measures={"difference": n % 89 / 300}, n=100 * n)
            for n in range(1, 1400) for name in ("all", "window:1000")
        ]  # fmt: skip
        with served(some, metrics(), metrics(model="tree")) as (address, _):
            ready(page, f"{address}#/pair?stream=elec2&model=nb&against=tree&stage=final&loss=error")
            legend = page.inner_text(".legend")
            assert f"all history {1399 % 89 / 300:.3f}" in legend
            assert f"window:1000 {1399 % 89 / 300:.3f}" in legend


class TestPair:
    def test_the_difference_with_its_interval_and_the_verdict(self, page: Page) -> None:
        course = [
            comparison(n, measures={"difference": 0.03}, interval=[0.03 - 30 / n, 0.03 + 30 / n],
                       verdict="b_better" if n > 1000 else "undecided", since=1001 if n > 1000 else None)
            for n in range(100, 4001, 100)
        ]  # fmt: skip
        with served(course, metrics(model="nb"), metrics(model="tree")) as (address, _):
            ready(page,
                f"{address}#/pair?stream=elec2&model=nb&against=tree&partition=0&stage=final&loss=error")
            whole = page.locator("table[aria-label='certainty'] tbody tr").all_inner_texts()[0].split("\t")
            assert whole.pop(3).strip() == ""  # a plot
            assert whole == ["all 4,000 outcomes", "tree", "0.030 (0.022 to 0.037)",
                             "any number of looks, 95%", "tree is better, since outcome 1,001"]  # fmt: skip
            assert page.inner_text("h1") == "Can tree replace nb on elec2?"
            assert points(page, "difference of losses") == 40
            assert page.get_attribute("figure", "data-marks") == "1"
            assert "all history 0.030 (0.022 to 0.037)" in page.inner_text(".legend")

    def test_the_latest_window_comes_first_where_it_contradicts_the_verdict(self, page: Page) -> None:
        window = comparison(estimator="window:1000", n=1000, measures={"difference": -0.04})
        with served(comparison(), window, metrics(), metrics(model="tree")) as (address, _):
            ready(page, address + MODEL)
            assert "⇄ the latest outcomes say otherwise in the latest" not in page.inner_text(".plain")
            assert page.locator(".badge:has-text('the latest outcomes say otherwise')").count() == 1
            ready(page,
                f"{address}#/pair?stream=elec2&model=nb&against=tree&partition=0&stage=final&loss=error")
            rows = page.locator("table[aria-label='certainty'] tbody tr").all_inner_texts()
            whole, since, latest = (row.split("\t") for row in rows)
            assert (whole[1], whole[-1]) == ("tree", "tree is better, since outcome 712")
            assert since[-1] == "undecided"
            assert latest[:3] == ["latest 1,000 outcomes", "nb", "0.040"]
            assert latest[-2:] == ["one look: no proof", "⇄ not the model that is better over the whole run"]
            # nb is ahead now, so it is the challenger, and up is better for nb.
            assert page.inner_text("h1") == "Can nb replace tree on elec2?"
            assert page.inner_text(".answer .say") == "Not yet"
            assert "window:1000 0.040" in page.inner_text(".legend")
            assert "all history -0.031" in page.inner_text(".legend")


class TestIncident:
    def test_it_answers_in_the_order_of_the_questions(self, page: Page) -> None:
        some = [*a_drift(), alarm(2000), alarm(2500), alarm(5000), incident(1900, status="closed"),
            incident()]
        with served(some) as (address, board):
            ready(page, f"{address}#/incidents")
            assert page.inner_text("h1") == "1 incident is open"
            assert page.locator("table[aria-label='incidents']").count() == 2
            page.click("table[aria-label='incidents'] a >> nth=0")
            page.wait_for_selector("h1:has-text('nb is right in 67.0% of outcomes, 88.0% before')")
            facts = page.locator(".facts > div").all_inner_texts()
            assert [one.split("\n")[:2] for one in facts] == [
                ["Since when", "14 Nov 23:33"], ["Noticed", "3 min later"],
                ["How bad", "67.0% accuracy"], ["Who", "this model alone"],
            ]  # fmt: skip
            assert "before 88.0%, since 67.0%" in facts[2]
            assert "33 wrong in 100, before 12: 2.8 times as many" in facts[2]
            assert "severity" not in facts[2]  # people count wrong ones; the number is below
            assert "severity 0.54, on a scale from 0.2 (small)" in page.inner_text("main > div > div > .meta")
            assert "Next step: Check upstream features of that segment." in page.inner_text(".next")
            assert page.locator("h2:visible").all_inner_texts() == [
                "Causes shares of the change in loss",
                "Records to inspect wrong predictions, the first after the change point",
                "Other models and baselines share right before and since",
                "Is it noise?",
            ]
            causes = page.locator(".cause").all_inner_texts()
            assert [one.split("\n")[:2] for one in causes] == [
                ["70%", "segment country=fr"], ["30%", "concept"],
            ]  # fmt: skip
            assert "Outcomes don't say whether inputs, labels or the model itself changed." in causes[1]
            rows = page.locator("table[aria-label='who changed'] tbody tr").all_inner_texts()
            assert [row.split("\t")[::3] for row in rows] == [
                ["nb", "67.0%"], ["persistent baseline", "31.0%"],  # shares right, as `explain` prints them
            ]  # fmt: skip
            text = page.inner_text("main")
            assert "2 alarms in the 4,800 outcomes before: one in 2,400. This incident has 1 alarm." in text
            assert "Earlier incidents of this model: 1" in text
            assert page.locator(".ids li").all_inner_texts() == ["4799", "4801", "4805"]
            # The course, and the levels before and since.
            assert points(page, "accuracy, final, window:1000") == 60 + 2 + 2
            legend = page.inner_text(".legend")
            assert "before 0.880" in legend
            assert "since 0.670" in legend
            board.take([metrics(6100, 0.7), incident(revision=2, status="recovered")])
            page.wait_for_selector('figure[data-points="65"]')
            page.wait_for_selector("h1:has-text('recovered')")


class TestAge:
    def test_live_only_while_it_is_and_silent_models_stand_out(self, page: Page) -> None:
        both = (metrics(n) for n in range(1, 300)), (metrics(n, model="tree") for n in range(1, 600))
        with live(*both) as (server, board, now):
            now[0] = START + 600_000
            ready(page, server.address + TABLE)
            assert "live, newest message" in page.inner_text(".status")
            assert "not live" not in page.inner_text(".status")
            models = page.inner_text("table.models")
            assert "No labelled prediction for 5 min: its predictions stopped" in models
            assert page.inner_text("h1") == "1 of 2 models needs attention"
            now[0] += 3_600_000
            board.trouble = None
            ready(page, server.address + "?again" + TABLE)
            assert "not live, newest message 1 h ago" in page.inner_text(".status")
            assert "steady" not in page.inner_text("table.models")
            assert page.inner_text(".need").split("\n")[:2] == ["○ silent", "elec2 / 2 models"]
            why = "either the labels of its stream stopped, or all its predictions"
            assert why in page.inner_text("table.models")

    def test_a_lost_connection_isnt_live(self, page: Page) -> None:
        with live(a_drift()) as (server, _, _):
            ready(page, server.address)
            page.evaluate("Date.now = ((before) => () => before() + 50000)(Date.now)")
            page.wait_for_selector(".status:has-text('not live, newest message')")


class TestSafety:
    def test_names_are_text_everywhere(self, page: Page) -> None:
        named = {"stream": EVIL, "model": EVIL}
        some = [
            *(metrics(n, **named) for n in (1000, 2000)), metrics(2000, **named, segment=f"arm={EVIL}"),
            metrics(2001, **named, model_version=EVIL, version_since=1500),
            alarm(1500, **named, instance_id=EVIL),
            comparison(**named | {"against": EVIL + "2"}),
            incident(**named, id=EVIL, examples=[EVIL], causes=[{"cause": EVIL, "share": 0.5, EVIL: EVIL}]),
        ]  # fmt: skip
        with served(some) as (address, _):
            ready(page, address + TABLE)
            seen = EVIL.replace("\u202e", "\ufffd")
            assert rows(page)[0][0] == seen
            page.click("table.models tbody a >> nth=0")
            page.wait_for_selector("summary:has-text('Alarms')")
            unfold(page)
            assert page.inner_text("h1").startswith(f"{seen} / {seen}")
            page.click("a:has-text('lower by') >> nth=0")
            page.wait_for_selector("table[aria-label='certainty']")
            page.goto(f"{address}#/incidents")
            page.click("table[aria-label='incidents'] a")
            page.wait_for_selector(".causes")
            assert seen in page.inner_text(".causes")
            assert page.locator("main script, main img").count() == 0
            assert page.title().endswith("prequential")

    def test_nothing_comes_from_elsewhere(self, page: Page) -> None:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        with served(a_drift(), alarm()) as (address, _):
            ready(page, address + MODEL)
            assert asked
            assert all(url.startswith(address) for url in asked)

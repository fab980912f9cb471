"""States of the page, each in a browser; widths, names and contrast on all pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from boards import START, a_drift, alarm, comparison, incident, live, metrics, period, served

from tests.browser import opened, ready
from tests.nightly import few

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Takes seconds to start.
pytestmark = pytest.mark.slow

MODEL = "#/model?stream=elec2&model=nb&partition=0"

#: Names of 256 characters: without a place to break, and as markup.
LONG, MARKUP = "W" * 256, "<b onclick=alert(1)>x</b>".ljust(256, "&")


class TestStates:
    def test_loading_shows_the_share_read_instead_of_parts(self, page: Page) -> None:
        with live(a_drift()) as (server, board, _):
            board.catching_up, board.read, board.to_read = True, 38, 100
            ready(page, server.address)
            assert page.is_visible(".skeleton .bone")
            assert not page.is_visible(".stream")
            assert page.inner_text(".status") == "a cluster · loading history: 38% (38 messages)"
            assert page.get_attribute(".status", "class") == "status busy"
            board.catching_up = False
            page.wait_for_selector(".stream .course.line-1")
            assert not page.is_visible(".skeleton")

    def test_empty_names_what_is_missing_and_one_command(self, page: Page) -> None:
        with live() as (server, _, _):
            ready(page, server.address)
            assert page.locator(".void h2").inner_text() == "No metrics yet"
            assert "a prediction and its label" in page.inner_text(".void p")
            assert page.locator(".cmd").all_inner_texts() == ["prequential topics check --config config.yaml"]
            assert "no messages yet" in page.inner_text(".status")
            assert not page.is_visible(".controls")

    @pytest.mark.parametrize(("trouble", "reason"), [
        (None, "No new messages came. It is unknown whether a worker runs."),
        ("no broker answers", "The dashboard is cut off: it cannot read the topics."),
    ])  # fmt: skip
    def test_stale_values_are_grey_and_have_their_time(
        self, page: Page, trouble: str | None, reason: str
    ) -> None:
        with live(a_drift()) as (server, board, now):
            ready(page, server.address)
            assert not page.is_visible(".notice")
            assert page.get_attribute(".status", "class") == "status "
            if trouble is None:
                now[0] += 3_600_000
            board.trouble = trouble
            ready(page, server.address + "?again")
            assert page.inner_text(".notice") == (
                f"Not live. {reason} These values are of 14 Nov 2023 23:53 UTC."
            )
            assert page.get_attribute(".status", "class") == "status stale"
            grey = "getComputedStyle(document.querySelector('.small')).filter"
            assert page.evaluate(grey) == "grayscale(1)"
            assert (trouble in page.inner_text("header")) if trouble else True
            board.trouble = None
            now[0] += 1000
            board.take([metrics(6000 + (now[0] - START) // 1000)])
            page.wait_for_selector(".notice", state="hidden")

    def test_a_lost_connection(self, chromium: Browser) -> None:
        page = chromium.new_page()  # its console tells of the refused connection
        with live(a_drift()) as (server, _, _):
            ready(page, server.address)
        page.wait_for_selector(".notice:has-text('This page is cut off')")
        assert page.is_visible(".stream")  # what was known stays
        page.close()

    def test_no_label_yet(self, page: Page) -> None:
        with served(period(0, 0.84, interval=(0.8, 0.9)), metrics(model="other")) as (address, _):
            ready(page, address + "#/overview?as=table")
            assert "… no label yet No prediction has a label yet." in page.inner_text("table.models")
            ready(page, address + "?again" + MODEL)
            assert "… no label yet" in page.inner_text("h1")
            assert "It has no metrics yet." in page.inner_text(".story")
            assert "expected 0.840 [0.800, 0.900]" in page.inner_text("main")

    def test_few_outcomes(self, page: Page) -> None:
        with served(metrics(20)) as (address, _):
            ready(page, address + MODEL)
            assert "… few outcomes" in page.inner_text("h1")
            assert "20 outcomes so far; 30 are the least for a status." in page.inner_text("main")


def pages_of(stream: str, model: str, other: str) -> list[str]:
    pair = f"stream={stream}&model={model}&against={other}&stage=final&loss=error"
    return [
        "", "#/overview?as=table", f"#/model?stream={stream}&model={model}", f"#/pair?{pair}", "#/incidents",
        "#/incident?id=incident-4800",
    ]  # fmt: skip


@pytest.mark.parametrize(("models", "incidents"), few([(3, 120), (1, 0), (60, 1)]))
def test_nothing_overflows(chromium: Browser, models: int, incidents: int) -> None:
    """Names of 256 characters on all pages, from a small phone to a wide screen."""
    names = [LONG, MARKUP, *(f"{n}-{LONG}"[:256] for n in range(models))][: max(2, models)]
    some = [
        *(metrics(n, 0.8, stream=LONG, model=model, segment=segment, coverage={"waiting": 3})
          for model in names for n in (1000, 2000) for segment in (None, f"origin={LONG}"[:256])),
        alarm(stream=LONG, model=LONG), comparison(stream=LONG, model=LONG, against=MARKUP),
        *(incident(4800 - 20 * n, stream=LONG, model=LONG, status="open" if n == 0 else "closed",
                   causes=[{"cause": "segment", "share": 0.7, "segment": LONG}], examples=[LONG])
          for n in range(incidents)),
    ]  # fmt: skip
    with served(some) as (address, _):
        for width in (320, 820, 1920):
            with opened(chromium, width=width) as page:
                for view in pages_of(LONG, LONG, MARKUP.replace("&", "%26")):
                    if "incident?" in view and not incidents:
                        continue
                    ready(page, f"{address}?{len(view)}{view}")
                    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
                    page.wait_for_timeout(100)
                    wide = page.evaluate(
                        "[...document.querySelectorAll('main *')].filter((one) => {"
                        " const box = one.getBoundingClientRect();"
                        " return box.right > innerWidth + 1 && box.width"
                        " && !one.closest('.scroll, svg, .u-wrap, .key, .chart details, .values');"
                        "}).map((one) => `${one.tagName}.${one.className}`).slice(0, 5)"
                    )
                    scrolled = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                    assert (scrolled, wide) == (0, []) or scrolled < 0, (width, view[:20], scrolled, wide)


@pytest.mark.parametrize(("dark", "stale"), [(True, False), (False, True)])
def test_all_text_has_contrast(chromium: Browser, dark: bool, stale: bool) -> None:
    """Each text against what is behind it, and each colour of marks, by WCAG 2's formula: 4.5.

    Also where the page is not live, and its values are grey.
    """
    some = [*a_drift(), *a_drift("tree"), alarm(300), alarm(5000), incident(), comparison(),
            incident(2000, status="closed"), period(0, 0.84, 0.93, interval=(0.81, 0.87))]  # fmt: skip
    with opened(chromium, dark) as page, live(some) as (server, _, now):
        now[0] += 3_600_000 if stale else 0
        for view in [*pages_of("elec2", "nb", "tree"), "#/gate"]:
            ready(page, f"{server.address}?{len(view)}{view}")
            assert (page.locator("main.is-stale").count() == 1) == stale
            low = page.evaluate(
                """() => {
                  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
                  const over = (colours) => {
                    canvas.clearRect(0, 0, 1, 1);
                    for (const one of colours) { canvas.fillStyle = one; canvas.fillRect(0, 0, 1, 1); }
                    return [...canvas.getImageData(0, 0, 1, 1).data];
                  };
                  const light = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, share, i) => {
                    const c = rgb[i] / 255;
                    return sum + share * (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
                  }, 0);
                  const found = [];
                  const check = (name, front, back) => {
                    const [a, b] = [light(front), light(back)];
                    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                    if (ratio < 4.5) found.push([name, ratio]);
                  };
                  const root = getComputedStyle(document.documentElement);
                  const named = (name) => over([root.getPropertyValue(`--${name}`).trim()]);
                  for (const name of ["text", "quiet", "link", "alarm", "incident", "version", "verdict", "worse",
                    "better", "warn", "beaten", ...[1, 2, 3, 4, 5, 6].map((n) => `line-${n}`)])
                    check(name, named(name), named("back"));
                  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
                  while (walker.nextNode()) {
                    const element = walker.currentNode.parentElement;
                    const text = walker.currentNode.textContent.trim();
                    if (!text || !element.getClientRects().length || element.closest(".skip, script, title")) continue;
                    const behind = [];
                    for (let one = element; one; one = one.parentElement) behind.unshift(getComputedStyle(one).backgroundColor);
                    const style = getComputedStyle(element);
                    const back = over(behind);
                    check(text, over([...behind, element instanceof SVGElement ? style.fill : style.color]), back);
                  }
                  return found;
                }"""  # noqa: E501
            )
            assert low == [], view
            back = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (back == "rgb(248, 248, 247)") == (not dark)

"""Somebody who looks at the dashboard, in a Chromium, for as long as it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser import browser, opened, ready

if TYPE_CHECKING:
    from playwright.sync_api import Page


class Viewer:
    """Goes from page to page, and keeps the last picture of each."""

    def __init__(self, page: Page, address: str, pictures: Path) -> None:
        self._page, self._address, self._pictures = page, address, pictures
        self.looks = 0
        #: Names of streams that the overview has shown.
        self.streams: set[str] = set()
        #: Numbers of points that models' curves had, at each look.
        self.points: list[int] = []

    def look(self, streams: set[str]) -> None:
        """The overview, a model's page with its curves, the incidents.

        Raises playwright's TimeoutError if one doesn't come.
        """
        page = self._page
        ready(page, f"{self._address}#/overview?as=table")
        page.wait_for_selector(".status:has-text('live')")
        text = page.inner_text("main")
        self.streams |= {name for name in streams if name in text}
        self._picture("overview")
        page.click("main tbody a")
        page.wait_for_selector("main[data-ready] figure[data-points]")
        figures = page.query_selector_all("figure[data-points]")
        self.points.append(max(int(figure.get_attribute("data-points") or 0) for figure in figures))
        self._picture("model")
        ready(page, f"{self._address}#/incidents")
        self._picture("incidents")
        ready(page, f"{self._address}#/overview")
        self.looks += 1

    def _picture(self, name: str) -> None:
        self._page.screenshot(path=str(self._pictures / f"{name}.png"))


@contextmanager
def viewing(address: str, token: str, pictures: Path) -> Iterator[Viewer]:
    """A viewer who knows the password; at the end nothing may have been wrong with the pages."""
    pictures.mkdir(exist_ok=True)
    with browser() as chromium, opened(chromium, password=token) as page:
        yield Viewer(page, address, pictures)
        page.goto("about:blank")  # a page whose program ends complains

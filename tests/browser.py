"""A headless Chromium, and what it was seen to complain about."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Seconds for Playwright to fetch a Chromium of its own, where the machine has none.
_FETCH_SECONDS = 300

#: Milliseconds in which a page shows what it is asked for: the machine may be busy.
PATIENCE = 90_000

#: A browser for pages of this machine: no window, no calls home; root has no sandbox.
_ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip

#: Says which browser the run had, for the last lines of the tests.
seen: list[str] = []


@cache
def _executable() -> str | None:
    """Where Chromium is: `CHROMIUM`, the machine's, or (None) the one that Playwright has or fetches."""
    named = os.environ.get("CHROMIUM")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return named or next((found for name in names if (found := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium; the test is skipped, with the reason, where none can be had."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        try:
            launched = _launch(driver)
        except Exception as error:
            reason = f"no Chromium: set CHROMIUM, or install one ({str(error).splitlines()[0]})"
            seen.append(reason)
            pytest.skip(reason)
        name = f"Chromium {launched.version}"
        if name not in seen:
            seen.append(name)
        with launched:
            yield launched


def _launch(driver: Any) -> Any:
    executable = _executable()
    if executable is None:
        try:
            return driver.chromium.launch(args=_ARGUMENTS)
        except Exception:
            command = [sys.executable, "-m", "playwright", "install", "chromium"]
            subprocess.run(command, check=True, capture_output=True, timeout=_FETCH_SECONDS)
    return driver.chromium.launch(executable_path=executable, args=_ARGUMENTS)


@contextmanager
def opened(
    browser: Browser, dark: bool = False, width: int = 1280, password: str | None = None
) -> Iterator[Page]:
    """A page; at the end nothing may have been wrong with it: errors, and what its policy refused."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light",
        http_credentials=None if password is None else {"username": "me", "password": password},
        ignore_https_errors=True,  # certificates of tests are their own
        locale="en-US",
    )  # fmt: skip
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on(
        "console",
        lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.add_init_script(
        "window.violations = [];"
        "document.addEventListener('securitypolicyviolation',"
        " (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));"
    )
    yield page
    wrong += page.evaluate("window.violations")
    context.close()
    assert not wrong, wrong


def ready(page: Page, address: str) -> None:
    """Go there, and wait until the data are shown."""
    page.goto(address)
    page.wait_for_selector("main[data-ready]")

"""The documentation as a site: it is built without a warning, so all links within it lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {path.stem for path in site.glob("*.html")} - {"404"}
    wanted = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages == wanted | {"index", "changelog"}


def test_nothing_is_loaded_from_other_hosts(site: Path) -> None:
    for path in site.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"(?:https?:)?//[^\"]*", text) == [], path
        assert re.findall(r"<link[^>]*rel=\"stylesheet\"[^>]*href=\"(?:https?:)?//", text) == [], path


def test_pictures_are_there(site: Path) -> None:
    for path in site.glob("*.html"):
        for source in re.findall(r"<img[^>]*\ssrc=\"([^\"]*)\"", path.read_text(encoding="utf-8")):
            assert (site / source).exists(), (path.name, source)

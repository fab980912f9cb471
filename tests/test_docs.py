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
    pages = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")} - {Path("404")}
    docs = ROOT / "docs"
    wanted = {path.relative_to(docs).with_suffix("") for path in docs.rglob("*.md")}
    assert pages == wanted | {Path("index"), Path("changelog")}


def test_nothing_is_loaded_from_other_hosts(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"(?:https?:)?//[^\"]*", text) == [], path
        assert re.findall(r"<link[^>]*rel=\"stylesheet\"[^>]*href=\"(?:https?:)?//", text) == [], path


def test_pictures_are_there(site: Path) -> None:
    for path in site.rglob("*.html"):
        for source in re.findall(r"<img[^>]*\ssrc=\"([^\"]*)\"", path.read_text(encoding="utf-8")):
            found = (path.parent / source, site / source.lstrip("/"))
            assert any(place.exists() for place in found), (path.name, source)

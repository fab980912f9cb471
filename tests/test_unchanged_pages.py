"""Which runs leave out the tests of pages in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import pages


def test_pages_are_tried_until_their_sources_have_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, script = tmp_path / "sources", tmp_path / "sources" / "page.js"
    sources.mkdir()
    script.write_text("let a = 1;", "utf-8")
    monkeypatch.setattr(pages, "_ROOT", tmp_path)
    monkeypatch.setattr(pages, "_SOURCES", ("sources",))
    monkeypatch.setenv("PAGES_PASSED", str(tmp_path / "passed"))
    assert not pages.have_passed()
    pages.note_passed(pages.digest())
    assert pages.have_passed()
    script.write_text("let a = 2;", "utf-8")
    assert not pages.have_passed()
    script.write_text("let a = 1;", "utf-8")
    script.rename(sources / "other.js")
    assert not pages.have_passed()


def test_elsewhere_all_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAGES_PASSED", raising=False)
    pages.note_passed(pages.digest())
    assert not pages.have_passed()

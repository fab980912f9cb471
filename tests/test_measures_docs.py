"""`docs/measures.md` says of every measure what it declares, and of every reason what it means."""

from __future__ import annotations

import re

from prequential.core.measures.declaration import REASONS
from prequential.core.measures.registry import MEASURES, NAMES
from prequential.settings.model import DEFAULT_MEASURES, HttpConfig
from prequential.wording.measures import COLUMNS, COMPARED

from tests import measure_tables

TEXT = measure_tables.PAGE.read_text(encoding="utf-8")


def test_tables_are_as_declared() -> None:
    assert measure_tables.written(TEXT) == TEXT, "python tests/measure_tables.py writes them anew"
    listed = [name for section in measure_tables.SECTIONS for name in _names(section)]
    assert sorted(listed) == sorted(NAMES)


def _names(section: str) -> list[str]:
    return re.findall(r"^\| `(\w+)`", measure_tables.table(section), re.MULTILINE)


def test_reasons_are_explained() -> None:
    section = measure_tables.section_of(TEXT, "No value")
    assert set(REASONS) - {""} == set(re.findall(r"`(\w+)`(?=[^|]*\|[^|]*\|$)", section, re.MULTILINE))


def test_what_settings_and_pages_name_is_declared() -> None:
    assert len(DEFAULT_MEASURES) == len(set(DEFAULT_MEASURES)) == 28
    assert {*DEFAULT_MEASURES, *HttpConfig().measures, *COMPARED} <= set(MEASURES)
    for task, names in COLUMNS.items():
        assert {MEASURES[name].task for name in names} == {task}

"""The docs say of every detector what it declares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prequential.core.detectors import DETECTORS

TEXT = (Path(__file__).parents[1] / "docs/detectors.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, name
    return found[1]


def test_every_detector_has_a_section_and_a_row() -> None:
    assert set(re.findall(r"^## ([a-z-]+)$", TEXT, re.MULTILINE)) == set(DETECTORS)
    for name, detector in DETECTORS.items():
        signal = "`error` of classes" if detector.binary else "any signal"
        assert f"| [`{name}`](#{name}) | {signal} |" in TEXT


@pytest.mark.parametrize("name", DETECTORS)
def test_parameters_are_those_that_are_declared(name: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$", section(name), re.MULTILINE)
    parameters = DETECTORS[name].parameters
    assert [row[0] for row in rows] == [one.name for one in parameters]
    for one, (_, default, values, says) in zip(parameters, rows):
        shown = str(one.default).lower() if isinstance(one.default, bool) else f"{one.default}"
        assert default == shown.removesuffix(".0"), one.name
        expected = one.expected.removesuffix(f" to {1 << 40}")
        assert values.startswith(expected), (one.name, one.expected)
        assert says.startswith(one.says), one.name

"""Which version of a model outcomes are of; worlds of versions are in the oracle tests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from helpers import metrics_of
from oracle_cases import lab, pred
from prequential.engine.catalog import streams
from test_between_lives import Lives


def versions(outputs: list[Any]) -> list[tuple[str, int] | None]:
    found = (m for m in metrics_of(outputs) if m.stage == "final")
    return [None if m.model_version is msgspec.UNSET else (m.model_version, m.version_since) for m in found]  # type: ignore[misc]


def made(number: int, ts: int, version: Any) -> Any:
    return pred(number, ts, "a", model_version=version)


def test_a_roll_out_is_noted_at_the_first_outcome_of_the_new_version() -> None:
    lives = Lives()
    lives.go(made(1, 10, "1"), made(2, 20, "1"), made(3, 30, 2), made(4, 40, 2))
    found = versions(lives.go(lab(1, 100, "a"), lab(3, 110, "a"), lab(2, 120, "a"), lab(4, 130, "a")))
    assert found == [("1", 1), ("2", 2), ("2", 2), ("2", 2)], "a late label of version 1 is no way back"


def test_a_way_back_is_noted_too() -> None:
    lives = Lives()
    found = [lives.go(made(i, i, v), lab(i, i, "a")) for i, v in enumerate(["1", "2", "1"], 1)]
    assert [versions(outputs) for outputs in found] == [[("1", 1)], [("2", 2)], [("1", 3)]]


def test_models_that_tell_no_version_have_none() -> None:
    lives = Lives()
    assert versions(lives.go(made(1, 1, None), lab(1, 2, "a"))) == [None]


def test_the_version_outlives_the_process() -> None:
    lives = Lives()
    lives.go(made(1, 1, "1"), lab(1, 2, "a"), made(2, 3, "2"))
    lives.next()
    assert versions(lives.go(lab(2, 4, "a"))) == [("2", 2)]
    lives.next()
    assert versions(lives.go(made(3, 5, "2"), lab(3, 6, "a"))) == [("2", 2)]


def test_versions_beyond_the_bound_share_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_VERSIONS", 2)
    lives = Lives()
    found = [lives.go(made(i, i, f"v{i}"), lab(i, i, "a")) for i in range(1, 5)]
    assert [versions(outputs) for outputs in found] == [
        [("v1", 1)], [("v2", 2)], [("other", 3)], [("other", 3)],
    ]  # fmt: skip

"""Records of tables as columns: everything is as with an object for each record."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
import pytest
from prequential.engine.input.translated_columns import NameNumbers, plain_of
from prequential.evaluation import Result, evaluate
from prequential.mapping.columns import Translated
from prequential.offline.tables import source

ROWS = 120


def columns(chosen: random.Random) -> dict[str, list[Any]]:
    """A column for each field of predictions."""
    positive = [chosen.random() for _ in range(ROWS)]
    wrong = [chosen.random() < 0.3 for _ in range(ROWS)]
    return {
        "instance_id": [f"{chosen.choice('aä')}{row}" for row in range(ROWS)],
        "ts": [1_700_000_000_000 + 60_000 * (row + chosen.randrange(3)) for row in range(ROWS)],
        "model": [chosen.choice(["nb", "tree"]) for _ in range(ROWS)],
        "model_version": [chosen.choice(["1", "2", None]) for _ in range(ROWS)],
        "y_proba.yes": positive, "y_proba.no": [1 - p for p in positive],
        "y_pred": ["yes" if p > 0.5 else "no" for p in positive],
        "y_true": ["yes" if (p > 0.5) != w else "no" for p, w in zip(positive, wrong)],
        "segments.plan": [chosen.choice(["basic", "pro", None]) for _ in range(ROWS)],
        "segments.other": [chosen.choice(["x", "y"]) for _ in range(ROWS)],
        "value": [chosen.choice([1.5, 20.0, None]) for _ in range(ROWS)],
    }  # fmt: skip


SETTINGS: dict[str, Any] = {
    "estimators": ["all", "window:50"], "segments": ["plan"], "details": ["confusion"],
    "emit": {"outcomes": 40},
    "costs": {"yes": {"no": 3.0}}, "cost_per_value": True, "positive_class": "yes",
}  # fmt: skip
NUMBERS: dict[str, Any] = {"estimators": ["all"], "task": "regression", "emit": {"outcomes": 40}}

#: What is another in each case: columns (None: without it), settings, and how many batches are columns.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "all fields": ({}, SETTINGS, 2),
    "without times and ids": ({"ts": None, "instance_id": None}, SETTINGS, 2),
    "numbers as ids": ({"instance_id": list(range(ROWS))}, SETTINGS, 2),
    "without probabilities": ({"y_proba.yes": None, "y_proba.no": None}, SETTINGS, 2),
    "whole numbers": ({"y_pred": [1, 0], "y_true": [0, 1], "y_proba.yes": None, "y_proba.no": None}, {}, 2),
    "and their probabilities": ({"y_pred": [1, 0], "y_true": [0, 1]}, {"rename": ("1.0", "0.0")}, 2),
    "booleans": ({"y_pred": [True, False], "y_true": [True, False]}, {"rename": ("True", "False")}, 2),
    "many integers": ({"y_pred": list(range(20)), "y_true": list(range(20))}, {}, 2),
    "regression": ({"y_pred": [1.5, 2, -3.25], "y_true": [1.0, 2.5, -3.0]}, NUMBERS, 2),
    "regression of integers": ({"y_pred": [1, 2, 3], "y_true": [3, 2, 1]}, NUMBERS, 2),
    "pending": ({"y_true": ["yes", "no", None]}, SETTINGS, 2),
    "a missing probability": ({"y_proba.yes": [0.4] * (ROWS - 1) + [None]}, SETTINGS, 1),
    "a bad row": ({"y_proba.yes": [0.4] * (ROWS - 1) + [1.7]}, SETTINGS, 1),
}  # fmt: skip


def evaluated(
    monkeypatch: pytest.MonkeyPatch, least: float, table: Any, settings: dict[str, Any]
) -> tuple[Result, int]:
    """The result with columns for files with `least` rows, and how many batches were read as columns."""
    made = 0

    def noted(translated: Translated, numbers: NameNumbers) -> Any:
        nonlocal made
        plain = plain_of(translated, numbers)
        made += plain is not None
        return plain

    monkeypatch.setattr(source, "FEWEST_PLAIN", least)
    monkeypatch.setattr(source, "plain_of", noted)
    result = evaluate(table, progress=False, **settings)
    return result, made


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_columns_are_as_objects(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, settings, as_columns = CASES[name]
    chosen = random.Random(name)
    given = columns(chosen)
    for column, values in changed.items():
        if values is None:
            del given[column]
        else:
            given[column] = values if len(values) == ROWS else [chosen.choice(values) for _ in range(ROWS)]
    settings = dict(settings)
    for old, new in zip(("y_proba.yes", "y_proba.no"), settings.pop("rename", ())):
        given[f"y_proba.{new}"] = given.pop(old)
    table = pd.DataFrame({column: pd.Series(values, dtype=object) for column, values in given.items()})
    expected, none = evaluated(monkeypatch, 10**9, table, settings)
    result, made = evaluated(monkeypatch, 0, table, settings)
    assert [*map(str, result.messages)] == [*map(str, expected.messages)]
    assert str(result) == str(expected)
    assert len(result.messages) > 2
    assert (none, made) == (0, as_columns)


def test_names_of_strangers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = NameNumbers()
    first = numbers.numbers_of(["a", None, "b", "a"])
    assert (first.tolist(), numbers.known) == ([0, -1, 1, 0], ["a", "b"])
    known = numbers.known
    numbers.begin()
    assert numbers.known is known
    monkeypatch.setattr("prequential.engine.input.translated_columns.MOST_NAMES", 1)
    numbers.begin()
    assert (numbers.numbers_of(["b"]).tolist(), numbers.known, known) == ([0], ["b"], ["a", "b"])

"""Details of messages, written from columns, are those of each line by itself, to the byte."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import oracle_details
import pytest
from helpers import World, catch_up
from oracle_cases import lab, pred
from prequential.configuration.settings.streams import DETAILS
from prequential.engine.compiled.kernel import Ints
from prequential.engine.output import detail_texts
from prequential.engine.output.detail_texts import DetailedLine, DetailTexts, in_hundredths
from prequential.engine.output.fields import TextPool
from prequential.topics.encoding import fields_of
from test_shard_against_oracle import world_from
from worlds import extreme_world, random_world

from tests.nightly import scaled

OF_NUMBERS = ("residuals", "hits")


def with_details(world: World, rng: random.Random) -> World:
    """The world with all details of its task, and often a reference."""
    settings = world.settings["defaults"]
    if settings.get("task", "classification") == "regression":
        settings |= {"details": list(OF_NUMBERS), "hit_tolerance": 0.5}
    else:
        settings["details"] = [name for name in DETAILS if name not in OF_NUMBERS]
        if rng.random() < 0.6:
            settings["objective"] = {"reference": rng.choice(["20ms", "100ms", "300ms"])}
    return world


def texts_of(pool: TextPool, indices: Ints) -> list[bytes]:
    """The text of each line; an empty one where it has none."""
    text, ends = pool.text.tobytes(), [*pool.ends.tolist(), 0]
    return [text[ends[index - 1] : ends[index]] if index >= 0 else b"" for index in indices.tolist()]


class Checked:
    """Compares the texts of each batch with the oracle's, and with the texts of some of its lines alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fields: Counter[str] = Counter()
        self.batches = 0
        self._write = DetailTexts.texts
        monkeypatch.setattr(DetailTexts, "texts", lambda texts, lines: self(texts, lines))

    def __call__(self, texts: DetailTexts, lines: Sequence[DetailedLine]) -> tuple[TextPool, Ints]:
        """The texts of a batch."""
        pool, indices = self._write(texts, lines)
        written = texts_of(pool, indices)
        for line, text in zip(lines, written):
            details = oracle_details.details_of(texts, line)
            self.fields.update(details.keys())
            expected = fields_of({name: details[name] for name in detail_texts._DETAILS if name in details})
            assert text == expected, line.subject
        if len(lines) > 1:
            self.batches += 1
            assert texts_of(*self._write(texts, lines[:1])) == written[:1]
        return pool, indices


@pytest.mark.parametrize("seed", range(scaled(4, 60)))
def test_random_worlds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    checked, rng = Checked(monkeypatch), random.Random(seed)
    catch_up(with_details(random_world(rng, 250, 2 + seed % 3), rng))
    catch_up(extreme_world(rng, 100))
    assert checked.batches


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_tasks(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of so many classes that estimators list their cells, of sets of labels, and of numbers."""
    checked, rng = Checked(monkeypatch), random.Random(1)

    def draw() -> Any:
        number = int(rng.expovariate(0.05)) % 90
        if task == "multilabel":
            return [name for name in "abcde" if rng.random() < 0.3]
        return str(number) if task == "classification" else number / 4

    records: list[Any] = []
    for i in range(260):
        y = draw()
        records += [pred(i, 40 * i, y if rng.random() < 0.6 else draw()), lab(i, 40 * i + 1, y)]
    settings: dict[str, Any] = {
        "task": task, "estimators": ["all", "window:50", "fading:0.9", "decay:1s"],
        "emit": {"outcomes": 20, "every": None}, "label_horizon": "1h", "positive_class": "3",
        "cluster": "1s", "objective": {"reference": 100},
        "details": [name for name in DETAILS if name not in OF_NUMBERS],
    }  # fmt: skip
    if task == "regression":
        for key in ("positive_class", "objective", "cluster"):
            del settings[key]
        settings |= {"details": list(OF_NUMBERS), "hit_tolerance": 0.5, "measures": ["hit_rate_at_tolerance"]}
    elif task == "multilabel":
        del settings["positive_class"]
    catch_up(world_from(records, **settings))
    expected = {*OF_NUMBERS} if task == "regression" else {
        "confusion", "per_class", "intervals", "dependence", "worse_than_baseline", "reference", "cluster",
    }  # fmt: skip
    assert checked.fields.keys() >= expected


def test_hundredths_are_those_of_python() -> None:
    numbers = np.random.default_rng(1).integers(0, 100_000, 2_000)
    for x in [*(numbers / 1_000).tolist(), *(numbers / 800).tolist(), *(numbers + 1 / 3).tolist()]:
        assert in_hundredths(x) == round(x, 2)

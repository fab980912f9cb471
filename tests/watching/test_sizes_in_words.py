"""How bad an incident is, in words that people use."""

from __future__ import annotations

import msgspec
import pytest
from prequential.topics.outputs import Incident
from prequential.views.wording.status import size_in_words

from tests.dashboard.boards import incident


def message(before: float, after: float, **changed: object) -> Incident:
    levels = {"before": {"level": before, "n": 1_000}, "after": {"level": after, "n": 100}}
    return msgspec.json.decode(incident(**levels, **changed).value or b"", type=Incident)


@pytest.mark.parametrize(("before", "after", "words"), [
    (0.07, 0.24, "24 wrong in 100, before 7: 3.4 times as many"),
    (0.2, 0.23, "23 wrong in 100, before 20: 1.1 times as many"),
    (0.221, 0.2294, "22.9 wrong in 100, before 22.1: 0.8 more"),
    (0.22, 0.2204, "22.04 wrong in 100, before 22.00: 0.04 more"),
    (0.011, 0.0148, "1.5 wrong in 100, before 1.1: 1.3 times as many"),
    (0.0004, 0.002, "0.20 wrong in 100, before 0.04: 5.0 times as many"),
    (0.0, 0.05, "5.0 wrong in 100, before 0.0"),
])
def test_a_size_never_reads_as_nothing(before: float, after: float, words: str) -> None:
    assert size_in_words(message(before, after)) == words


def test_so_do_other_losses() -> None:
    def said(before: float, after: float) -> str:
        return size_in_words(message(before, after, loss="absolute", baselines={}))

    assert said(0.1, 0.25).endswith("0.25, before 0.1: 2.5 times as much")
    assert said(1.0, 1.03).endswith("1.03, before 1: 0.03 more")
    assert said(-2.0, -1.5).endswith("-1.5, before -2: 0.5 more")

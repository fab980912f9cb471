"""What is expected before labels are there, in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from prequential.views.wording.expected import ExpectedPeriod, expected_period, in_words, period_in_words

ONE = ExpectedPeriod(
    start=0, end=3_600_000, measure="accuracy", final=None, expected=0.84, interval=(0.81, 0.87),
    coverage=0.92, finals=50, labelled_so_far=0.87, labelled_share=0.22,
)  # fmt: skip

START = "1 Jan 1970 00:00 to 01:00, "
EXPECTED = "expected 0.840 [0.810, 0.870] (held in 92% of 50 earlier periods)"


@pytest.mark.parametrize(("changed", "said"), [
    ({}, f"accuracy: {EXPECTED}, labelled so far 0.870 (22% of predictions)"),
    ({"labelled_so_far": None}, f"accuracy: {EXPECTED}, labelled so far - (22% of predictions)"),
    ({"labelled_so_far": 0.871},
     f"accuracy: labelled so far 0.871 (22% of predictions), {EXPECTED}: labels of right "
     "predictions come sooner"),
    ({"labelled_so_far": 0.8},
     f"accuracy: labelled so far 0.800 (22% of predictions), {EXPECTED}: labels of wrong "
     "predictions come sooner"),
    ({"measure": "error", "labelled_so_far": 0.9},
     f"error: labelled so far 0.900 (22% of predictions), {EXPECTED}: labels of wrong "
     "predictions come sooner"),
    ({"measure": "mae", "labelled_so_far": 12.345},
     f"mae: labelled so far 12.35 (22% of predictions), {EXPECTED}: the predictions "
     "labelled so far differ from the others"),
    ({"interval": None, "coverage": None, "finals": None},
     "accuracy: expected 0.840 (no interval until 20 periods are graded), labelled so far 0.870 "
     "(22% of predictions)"),
    ({"expected": None}, "accuracy: labelled so far 0.870 (22% of predictions)"),
    ({"final": 0.85, "expected": None}, "accuracy: final 0.850 (22% of predictions labelled)"),
])
def test_a_period(changed: dict[str, Any], said: str) -> None:
    assert period_in_words(msgspec.structs.replace(ONE, **changed)) == START + said


@pytest.mark.parametrize(("lost_to", "said"), [
    ("labelled_so_far", "in earlier periods the labels so far were closer"),
    ("last_final", "in earlier periods the value of the latest final period was closer"),
])
def test_an_answer_that_was_closer_is_named(lost_to: str, said: str) -> None:
    assert period_in_words(msgspec.structs.replace(ONE, lost_to=lost_to)).endswith(f"; {said}")
    assert said not in period_in_words(msgspec.structs.replace(ONE, lost_to=lost_to, final=0.8))


def test_a_period_of_new_york_has_the_date_there() -> None:
    one = msgspec.structs.replace(ONE, start=1_388_466_000_000, end=1_388_552_400_000)
    assert period_in_words(one, "America/New_York").startswith("31 Dec 2013, accuracy: ")
    assert period_in_words(one).startswith("31 Dec 2013 05:00 to 1 Jan 2014 05:00, accuracy: ")
@pytest.mark.parametrize(("record", "best"), [
    ({"mean_error": 0.01, "labelled_so_far": 0.05, "last_final": 0.02, "lost_to": None}, "expected"),
    ({"mean_error": 0.03, "labelled_so_far": 0.05, "last_final": 0.02, "lost_to": "last_final"},
     "the value of the latest final period"),
    ({"mean_error": 0.03, "labelled_so_far": 0.02, "last_final": None, "lost_to": "labelled_so_far"},
     "the labels so far"),
])
def test_the_best_answer_so_far_is_named(record: dict[str, Any], best: str) -> None:
    estimate = {"value": 0.8, "interval": [0.7, 0.9], "record": record | {"finals": 31, "coverage": 0.9}}
    period = expected_period(0, 3_600_000, 0.2, {"accuracy": 0.9}, {"accuracy": estimate})
    assert period is not None
    [about_period, answers] = in_words(period, None)
    assert answers.startswith(f"accuracy, best answer so far: {best} (mean errors over 31 final periods: ")
    assert "the value of the latest final period 0.020)" in answers or record["last_final"] is None
    assert ("closer" in about_period) == (record["lost_to"] is not None)


def test_without_a_record_no_answer_is_best() -> None:
    estimate = {"value": 0.8, "record": None}
    period = expected_period(0, 3_600_000, 0.2, {"accuracy": 0.9}, {"accuracy": estimate})
    [about_period] = in_words(period, None)
    assert "no interval until 20 periods are graded" in about_period


def test_rows_without_times_are_counted() -> None:
    one = msgspec.structs.replace(ONE, start=1000, end=2000)
    assert period_in_words(one, untimed=True).startswith("rows 1,000 to 1,999, accuracy: ")


def test_without_anything_to_say_there_is_nothing() -> None:
    assert list(in_words(None, None)) == []
    [waits] = in_words(None, {"predictions": 7, "labels": 5.2, "right": 4.4})
    assert waits == (
        "7 pending predictions in provisional periods: 5 are expected to get a label, 4 to be correct"
    )

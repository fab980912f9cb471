"""Drafts of messages reach the loop that writes them in one form, for which it is compiled in advance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import typeof
from prequential.engine.output.fields import TextPool
from prequential.engine.output.texts import Draft, Subjects


def draft(numbers: Any, texts: Any) -> Draft:
    """A draft of two groups with a message each."""
    subjects = [Subjects.from_fields([{"stream": name}]) for name in ("a", "b")]
    fields = np.zeros((2, 2), np.int64)[:, :1]
    return Draft(
        ["a", "b"],
        subjects,
        [b"1", b"2"],
        numbers,
        numbers,
        numbers,
        numbers,
        TextPool(texts, numbers),
        fields,
    )


def form(written: Draft) -> str:
    """The types for which the loop is compiled."""
    messages: Any = typeof(written.messages())
    groups: Any = typeof(written.groups())
    return f"{messages} {groups}"


@pytest.mark.parametrize("text", [bytes(4), bytearray(4)])
def test_every_draft_has_the_form_that_is_compiled(text: bytes) -> None:
    usual = form(draft(np.zeros(2, np.int64), np.frombuffer(bytes(4), np.uint8)))
    every_second = np.zeros((2, 2), np.int64)[:, 0]
    unusual = draft(every_second, np.frombuffer(text, np.uint8))
    # (Where texts end is always an array of its own.)
    unusual = unusual._replace(texts=TextPool(unusual.texts.text, np.zeros(2, np.int64)))
    assert form(unusual) == usual
    assert "array(int64, 1d, C)" in usual

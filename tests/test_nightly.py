"""How much the tests try."""

from __future__ import annotations

import pytest

from tests import nightly


def test_the_size_is_small_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, large in (("", False), ("small", False), ("large", True)):
        monkeypatch.setenv(nightly.VARIABLE, given)
        assert nightly.is_large() is large
    monkeypatch.delenv(nightly.VARIABLE)
    assert not nightly.is_large()
    monkeypatch.setenv(nightly.VARIABLE, "huge")
    with pytest.raises(ValueError, match="PREQUENTIAL_TESTS is 'huge': expected small or large"):
        nightly.is_large()


def test_few_cases_are_for_everyday_and_none_is_lost() -> None:
    one, *rest = nightly.few([("a", 1), ("b", 2), "c"])
    assert one == ("a", 1)
    assert [case.values for case in rest] == [("b", 2), ("c",)]
    assert {mark.name for case in rest for mark in case.marks} == {"nightly"}
    assert nightly.few("abc", 3) == ["a", "b", "c"]

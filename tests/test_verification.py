"""Published messages against recomputed ones: what counts as a difference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from prequential.offline.replay.verification import Verification


@pytest.fixture
def verification() -> Iterator[Verification]:
    one = Verification()
    yield one
    one.close()


def message(number: int, **fields: Any) -> bytes:
    """A metrics message with this many outcomes."""
    about = {"id": f"id{number}", "stream": "s", "partition": 0, "model": "m", "outcomes": number}
    return json.dumps({**about, "config": "c", **fields}).encode()


def compared(verification: Verification, *texts: bytes) -> list[str]:
    """Differences of these recomputed messages, and of those that weren't recomputed."""
    found = [one for text in texts for one in verification.compare("metrics", text)]
    return [f"{one.id} {one.field} {bool(one.published)}" for one in [*found, *verification.only_published()]]


def published(verification: Verification, *texts: bytes) -> None:
    for text in texts:
        assert list(verification.add("metrics", text)) == []


def test_what_is_recomputed_before_a_published_message_must_be_there(verification: Verification) -> None:
    verification.whole.add("metrics")
    published(verification, message(2), message(4))
    assert compared(verification, *map(message, range(1, 6))) == ["id1  False", "id3  False"]


def test_what_the_last_set_of_a_replay_repeats_shows_nothing_about_later_messages(
    verification: Verification,
) -> None:
    """A worker was killed before it published its last message; the last set has an earlier one again."""
    published(verification, message(2), message(4))
    assert compared(verification, message(2), message(4), message(6), message(4)) == []


def test_what_retention_may_have_removed_is_no_difference(verification: Verification) -> None:
    published(verification, message(2), message(4))
    assert compared(verification, *map(message, range(1, 6))) == ["id3  False"]


def test_each_field_and_each_message_that_nobody_recomputes(verification: Verification) -> None:
    published(verification, message(1, n=1, counts={"late": 1}), message(2), message(3, config="other"))
    recomputed = message(1, n=1.0, counts={"late": 2})
    assert compared(verification, recomputed) == [
        "id1 n True", "id1 counts.late True", "id2  True", "id3  True",
    ]  # fmt: skip


def test_other_settings_are_not_compared(verification: Verification) -> None:
    published(verification, message(1, config="former", n=7), message(2, config="former"))
    assert list(verification.compare("metrics", message(1, n=8))) == []
    assert list(verification.only_published({"c"})) == []
    assert (verification.compared, verification.other_settings) == (0, 2)


def test_an_id_that_was_published_with_two_contents(verification: Verification) -> None:
    published(verification, message(1, n=1))
    [difference] = verification.add("metrics", message(1, n=2))
    assert (difference.field, difference.published, difference.recomputed) == ("n", "1", "2")


def test_revisions_of_an_incident_share_its_id(verification: Verification) -> None:
    published(verification, message(1, revision=1), message(1, revision=2))
    assert compared(verification, message(1, revision=1), message(1, revision=2)) == []

"""Which other models changed at the same time, and which are silent."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from prequential.topics.outputs import Incident
from prequential.views.state.newest import ModelSilence, Pace, StreamPace, silence
from prequential.views.wording.status import changed_with, in_words, unchanged
from watched import incident


def one(model: str, began: int, opened: int, **changed: Any) -> Incident:
    fields = json.loads(incident(
        id=f"{model}-{began}", model=model, opened={"outcome": opened, "ts": opened},
        change_point={"outcome": began, "ts": began, "prediction_ts": began}, **changed,
    ))  # fmt: skip
    return msgspec.convert(fields, Incident)


class TestChangedWith:
    def test_changes_that_met(self) -> None:
        mine = one("nb", 1_000, 1_200)
        others = [
            mine, one("nb", 1_010, 1_100), one("tree", 1_350, 1_390), one("lr", 900, 950),
            one("old", 100, 200),
            one("later", 1_500, 1_510), one("other", 1_000, 1_200, stream="other"),
            one("elsewhere", 1_000, 1_200, partition=1),
        ]  # fmt: skip
        found = changed_with(mine, others)
        assert [other.model for other in found] == ["lr", "tree"]
        for other in found:
            assert mine in changed_with(other, others)
        models = ["nb", "tree", "lr", "old", "@majority", "nb@random"]
        assert unchanged(mine, found, models) == ["old"]
        assert list(in_words(mine, others, models)) == [
            "lr changed at the same time: mean loss 0.111 → 0.352 (lr-900)",
            "tree changed at the same time: mean loss 0.111 → 0.352 (tree-135)",
            "no change of old",
        ]

    def test_that_none_did_is_said(self) -> None:
        mine = one("nb", 1_000, 1_200)
        assert list(in_words(mine, [mine], ["nb", "tree"])) == ["none of the others changed: tree"]
        assert list(in_words(mine, [mine], ["nb", "@majority"])) == ["no other model of the stream is known"]


def pace(*times: int) -> Pace:
    found = Pace()
    for time in times:
        found.add(time)
    return found


def silent(own: Pace, now: int | None, *stream: Pace) -> ModelSilence | None:
    return silence(own, StreamPace.from_paces(stream, now))


MINUTE = 60_000


class TestSilence:
    def test_by_its_own_former_pace(self) -> None:
        own = pace(*range(0, 600_000, 10_000))
        assert silent(own, own.newest + MINUTE, own) is None
        assert silent(own, own.newest + MINUTE + 1, own) == ModelSilence(own.newest, alone=False)

    def test_a_night_that_it_knows_is_none(self) -> None:
        night = 8 * 60 * MINUTE
        own = pace(0, 1_000, 2_000, 2_000 + night, 3_000 + night)
        assert silent(own, own.newest + 2 * night, own) is None
        assert silent(own, own.newest + 2 * night + 1, own) is not None

    def test_predictions_stopped_where_the_stream_goes_on(self) -> None:
        own, other = pace(0, 1_000, 2_000, 3_000), pace(*range(0, 600_000, 1_000))
        found = silent(own, None, own, other)
        assert found is not None
        assert found.alone
        assert found.why.startswith("its predictions stopped")
        assert silent(other, None, own, other) is None

    def test_without_a_pace_that_of_the_stream_counts(self) -> None:
        new, other = pace(0), pace(*range(0, 600_000, 1_000))
        assert silent(new, 600_000, new, other) is not None
        assert silent(new, 10**9, new) is None

"""Moments that go with the offsets of merging: there and back, and room for them all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.merging.merger import NEVER, ReportedMoments
from prequential.runtime.worker.merging import MOST, moments_of, require_room, text_of
from prequential.topics.errors import WorkError

MOMENTS = st.integers(NEVER, 10**13)


@given(st.dictionaries(st.text(min_size=1), st.builds(ReportedMoments, MOMENTS, MOMENTS)))
def test_they_come_back(said: dict[str, ReportedMoments]) -> None:
    assert moments_of(text_of(said, said.keys())) == said
    assert moments_of("") == {}


def config(*names: str) -> Config:
    return Config(streams=dict.fromkeys(names, StreamConfig(key="instance")))


def test_as_many_streams_as_there_is_room_for() -> None:
    names = [f"stream-{number:03}" for number in range(200)]
    sizes = [len(text_of(dict.fromkeys(names[:count], ReportedMoments()), names)) for count in range(200)]
    most = sum(size <= MOST for size in sizes) - 1  # the first is that of none
    assert 100 < most < 200
    require_room(config(*names[:most]), 1)
    with pytest.raises(WorkError) as refused:
        require_room(config(*names[: most + 1]), 1)
    assert str(refused.value) == (
        f"{most + 1} streams have key: instance, and {most + 1} of them are merged in partition 0 of the 1 "
        f"of prequential-parts, which takes {sizes[most + 1]:,} bytes of its offset's metadata; Kafka keeps "
        "4,096: expected fewer such streams, or shorter names"
    )
    require_room(config(*names), 4)


def test_those_of_another_configuration_make_room() -> None:
    names = [f"stream-{number:03}" for number in range(200)]
    said = {name: ReportedMoments(number, number) for number, name in enumerate(names)}
    assert moments_of(text_of(said, names[:20])) == {name: said[name] for name in names[:20]}
    few = {name: said[name] for name in names[:30]}
    assert moments_of(text_of(few, names[:20])) == few

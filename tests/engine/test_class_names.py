"""Names of classes for many streams at once are those of each stream, however classes come."""

from __future__ import annotations

import random

import numpy as np
import pytest
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.streams import Stream
from prequential.engine.output.coverage_texts import ClassNames


@pytest.mark.parametrize("seed", range(5))
def test_many_streams_at_once(seed: int) -> None:
    rng = random.Random(seed)
    streams: list[Stream] = []
    names = ClassNames()
    for _ in range(60):
        if len(streams) < 6 and rng.random() < 0.3:
            streams.append(Stream(len(streams), f"s-{len(streams)}", StreamConfig()))
        for stream in streams:
            if rng.random() < 0.3:
                stream.class_names.append(f"class {rng.randrange(9)} {len(stream.class_names)}")
        chosen = [rng.randrange(len(streams)) for _ in range(rng.randint(0, 8))] if streams else []
        codes = np.array(chosen, dtype=np.int64)
        counts = np.array([len(streams[code].class_names) for code in chosen], dtype=np.int64)
        found, ends = names.of_streams(streams, codes, counts)
        pool = names.pool
        text, stops = pool.text.tobytes(), pool.ends.tolist()
        texts = [text[begin:end] for begin, end in zip([0, *stops], stops)]
        wanted = [name for code in chosen for name in streams[code].class_names]
        assert [texts[index] for index in found.tolist()] == [b'"%b":' % name.encode() for name in wanted]
        assert ends.tolist() == np.cumsum(counts).tolist()
        for stream in streams[:2]:
            assert len(names.of_stream(stream)) == len(stream.class_names)

"""Messages that were made together: one by one, and in order, they say what single messages say."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prequential.engine.compiled.spans import Spans
from prequential.engine.observe import Observer
from prequential.engine.output.encoded_messages import EncodedMessages, single_outputs
from prequential.engine.output.unwritten import Unwritten, UnwrittenMessages, encoded
from prequential.topics.outputs import Encoded, Output


def together(messages: Sequence[Encoded], rng: random.Random) -> EncodedMessages:
    """These messages in one array, in groups of random sizes."""
    streams, ends = list[str](), list[int]()
    for name, of_stream in groupby(messages, key=lambda message: message.stream):
        left = len(list(of_stream))
        while left:
            size = rng.randint(1, left)
            streams.append(name)
            ends.append((ends[-1] if ends else 0) + size)
            left -= size
    texts = Spans.from_texts([message.json for message in messages])
    return EncodedMessages("metrics", streams, np.array(ends, dtype=np.int64), texts)


@pytest.mark.parametrize("seed", range(5))
def test_each_message_is_there(seed: int) -> None:
    rng = random.Random(seed)
    names = sorted(rng.choice("abcdé") for _ in range(rng.randint(1, 30)))
    single = [Encoded("metrics", name, b"%d" % number) for number, name in enumerate(names)]
    messages = together(single, rng)
    assert list(messages) == single == [messages[place] for place in range(len(single))]
    assert messages[-1] == single[-1]
    assert messages[2:9] == single[2:9]
    assert list(messages.keys()) == [name.encode() for name in names]
    groups = len(messages.streams)
    parts = [messages.part(0, groups // 2), messages.part(groups // 2, groups)]
    assert list(single_outputs([*parts, single[0]])) == [*single, single[0]]
    with pytest.raises(IndexError):
        messages[len(single)]


@pytest.mark.parametrize("seed", range(20))
def test_sets_are_in_the_order_of_streams(seed: int) -> None:
    """However many of a set come together, and whether these are in order."""
    rng = random.Random(seed)
    names = [f"s-{code}" for code in range(9)]
    state: Any = SimpleNamespace(
        catalog=SimpleNamespace(by_name={name: SimpleNamespace(code=code) for code, name in enumerate(names)})
    )
    nothing: Any = None
    observer = Observer(state, nothing, nothing, nothing, nothing)
    additions: list[Sequence[Output] | Unwritten] = []
    single: list[Encoded] = []
    read: list[Encoded] = []
    unwritten: UnwrittenMessages[EncodedMessages] = UnwrittenMessages()
    for number in range(rng.randint(1, 4)):
        chosen = [rng.randrange(9) for _ in range(rng.randint(1, 12))]
        if rng.random() < 0.7:
            chosen.sort()
        messages = [Encoded("metrics", names[code], b"%d %d" % (number, code)) for code in chosen]
        single += messages
        if rng.random() < 0.3:
            additions.append(messages)
            continue
        reading = together(messages, rng)
        read += messages
        additions.append(unwritten.add(reading, reading.streams, reading.sizes.tolist()))
    parts = sorted(observer._by_stream(additions), key=lambda part: part[0])
    streams = [stream for reading in unwritten.readings for stream in reading.streams]
    sizes = [size for reading in unwritten.readings for size in reading.sizes.tolist()]
    texts = Spans.from_texts([message.json for message in read])
    unwritten.take(EncodedMessages("metrics", streams, np.cumsum(sizes, dtype=np.int64), texts))
    outputs: list[Output | Unwritten] = []
    for _, part in parts:
        outputs += [part] if isinstance(part, Unwritten) else part
    ordered = list(single_outputs(list(encoded(outputs))))
    assert ordered == sorted(single, key=lambda message: message.stream)
    if len(additions) == 1 and chosen == sorted(chosen) and isinstance(additions[0], Unwritten):
        assert len(parts) == 1

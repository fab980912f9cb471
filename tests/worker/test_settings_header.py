"""Which message of a shard says what the digest of its settings stands for, and how often."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.configuration.settings.texts import ListedSettings, texts
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.spans import Spans
from prequential.engine.output.encoded_messages import EncodedMessages
from prequential.runtime.kafka.transactions import Outgoing, OutgoingBatch
from prequential.runtime.worker.publisher import SettingsHeader
from prequential.topics.outputs import DeadLetter, Encoded, Output
from prequential.topics.specs import COMPARISONS, METRICS

SHARED, OWN = StreamConfig(), StreamConfig(settle=1)


def stream(name: str, config: StreamConfig) -> Stream:
    return Stream(0, name, config)


class Shard:
    """What a shard gives, and where the header came."""

    def __init__(self, *streams: Stream) -> None:
        self.streams = list(streams)
        self.header = SettingsHeader()

    def give(self, now: float, *outputs: Output) -> dict[int, ListedSettings]:
        """The headers, by the message's place."""
        messages = [Outgoing("t", b"k", b"v") for _ in outputs]
        self.header.add(self.streams, outputs, messages, now)
        return {
            place: msgspec.json.decode(value, type=ListedSettings)
            for place, message in enumerate(messages)
            for name, value in message.headers or ()
            if name == "settings"
        }


def about(*streams: str, topic: str = METRICS) -> Sequence[Output]:
    return [Encoded(topic, name, b"{}") for name in streams]


def test_the_first_metrics_message_of_each_settings_says_what_they_are() -> None:
    shard = Shard(stream("a", SHARED), stream("b", OWN), stream("c", SHARED))
    given = shard.give(
        0.0, DeadLetter(2, 1, "why"), *about("a", topic=COMPARISONS), *about("c", "a", "b", "b", "a", "c")
    )
    assert given == {
        2: ListedSettings(SHARED.digest, texts(SHARED)), 4: ListedSettings(OWN.digest, texts(OWN)),
    }  # fmt: skip
    assert shard.give(0.5, *about("a", "b", "c")) == {}


def test_a_batch_is_divided_where_a_message_has_it() -> None:
    streams = [stream("a", SHARED), stream("b", OWN), stream("c", SHARED)]
    texts_of_messages = Spans.from_texts([b"%d" % number for number in range(6)])
    # Of the first group there is no message.
    encoded = EncodedMessages(METRICS, ["a", "c", "a", "b"], np.array([0, 2, 3, 6]), texts_of_messages)
    outputs = [DeadLetter(2, 1, "why"), encoded]
    batch = OutgoingBatch("metrics", encoded.keys(), encoded.texts)
    messages: list[Outgoing | OutgoingBatch] = [Outgoing("letters", b"k", b"v"), batch]
    header = SettingsHeader()
    header.add(streams, outputs, messages, 0.0)
    single: list[Outgoing] = []
    for part in messages:
        single += part if isinstance(part, OutgoingBatch) else [part]
    assert [message.value for message in single] == [b"v", b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [message.key for message in single] == [b"k", b"c", b"c", b"a", b"b", b"b", b"b"]
    with_header = [message.value for message in messages if isinstance(message, Outgoing) and message.headers]
    assert with_header == [b"0", b"3"]
    messages = [messages[0], batch]
    header.add(streams, outputs, messages, 1.0)
    assert messages[1] is batch


def test_it_comes_again_after_ten_minutes() -> None:
    shard = Shard(stream("a", SHARED))
    places = [seconds for seconds in range(1800) if shard.give(float(seconds), *about("a"))]
    assert places == [0, 600, 1200]


def test_a_stream_that_is_silent_or_new_is_waited_for() -> None:
    shard = Shard(stream("a", SHARED), stream("silent", OWN))
    assert set(shard.give(0.0, *about("a"))) == {0}
    shard.streams.append(stream("new", StreamConfig(settle=2)))
    said = [
        (seconds, [one.settings["settle"] for one in given.values()])
        for seconds in range(1, 400)
        if (given := shard.give(float(seconds), *about("a", *["silent"] * (seconds == 300), "new")))
    ]
    assert said == [(1, ["2ms"]), (300, ["1ms"])]


def test_streams_may_come_after_the_first_commit() -> None:
    shard = Shard()
    assert shard.give(0.0) == {}
    shard.streams.append(stream("a", SHARED))
    assert set(shard.give(1.0, *about("a"))) == {0}


def test_what_is_said_is_what_the_digest_is_of() -> None:
    """Settings of which messages are due, and for whom it was calibrated, are no part of it."""
    assert texts(SHARED) == texts(StreamConfig(emit_outcomes=7))
    assert SHARED.digest == StreamConfig(emit_outcomes=7).digest
    assert texts(SHARED) != texts(OWN)

"""A stream in several partitions, one of which lacks records that retention has removed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from helpers import ENDED, Topics, batch_of
from partitioned import merged, split, world
from prequential.configuration.settings.model import Config
from prequential.engine.shard import Shard
from prequential.topics import parts
from prequential.topics.outputs import Encoded
from prequential.topics.specs import PARTS

_PARTITIONS = 2

#: Labels at the beginning of the first partition that are gone.
_GONE = 3


def parts_without(
    config: Config, topics: Topics, partition: int, missing: Sequence[int] | None
) -> list[parts.Part]:
    """The parts of a partition; its first labels may be lost, which are counted as `missing` (see `skip`)."""
    shard = Shard(config, partition, _PARTITIONS)
    first = [0, 0, 0]
    if missing is not None:
        first[2] = _GONE
        shard.skip(first, missing)
    for kind, rows in enumerate(topics):
        shard.add(batch_of(kind, rows, first[kind], len(rows)))
    while shard.advance([ENDED] * 3, 1_000):
        pass
    shard.last_set()
    return [
        parts.decode(output.json)
        for output in shard.flush()[0]
        if isinstance(output, Encoded) and output.topic == PARTS
    ]


@pytest.mark.parametrize(
    "missing", [(0, 0, _GONE, 0, 0), (0, 0, 0, _GONE, 0), (0, 0, 0, 0, _GONE), (0, 0, 1, 0, _GONE - 1)]
)
def test_no_message_after_a_loss_has_the_id_of_one_before_it(missing: tuple[int, ...]) -> None:
    """Whatever of it a former state had processed: counts begin anew below what was published."""
    given = world(7)
    topics = split(given.topics, _PARTITIONS)
    second = parts_without(given.config, topics[1], 1, None)
    before, after = (
        merged(given.config, iter([*parts_without(given.config, topics[0], 0, lost), *second]))
        for lost in (None, missing)
    )
    assert after
    assert not {message.id for message in before} & {message.id for message in after}
    counts = [message.counts for message in after if hasattr(message, "counts")]
    assert all(("lost_records" in shown) == any(missing[:4]) for shown in counts)
    assert not any("forgotten_records" in shown for shown in counts)

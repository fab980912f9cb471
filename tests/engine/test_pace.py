"""Large and small rounds, gaps in time, and ids that come again."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, nullcontext

import pytest
from helpers import (
    Feed,
    Life,
    World,
    assert_cuts_change_no_bit,
    by_sequence,
    catch_up,
    live,
    metrics_of,
    small_logs,
    times_of,
)
from prequential.engine.shard import Shard
from test_shard_against_oracle import assert_same
from worlds import paced_world

from tests.nightly import NIGHTLY, scaled

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

SEEDS = scaled(6, 25)


#: Rows of the logs: with small logs, rounds are interrupted in other places.
ROWS = (None, 4, 16)

#: Each seed with one of them, in `make nightly` with all.
CASES = [(seed, rows) for seed in range(SEEDS) for rows in (ROWS if NIGHTLY else ROWS[seed % 3 :][:1])]


def logs_of(rows: int | None) -> AbstractContextManager[None]:
    """Logs with so many rows."""
    return nullcontext() if rows is None else small_logs(rows)


def as_they_come(world: World) -> Life:
    """The records of each moment in a round of their own, as a worker gets them that keeps up."""
    life = Life(Shard(world.config))
    feed = Feed(life.shard, world.topics)
    for moment in sorted({time for rows in world.topics for time in times_of(rows)}):
        for kind in range(3):
            feed.give(kind, feed.times[kind].count(moment))
        while life.shard.advance([feed.watermark(kind) for kind in range(3)], 1 << 30):
            pass
        life.flush()
    return life.end()


@pytest.mark.parametrize(("seed", "rows"), CASES)
def test_the_oracle_agrees_at_any_pace(seed: int, rows: int | None) -> None:
    world = paced_world(random.Random(seed), 300)
    with logs_of(rows):
        assert_same(world, catch_up(world).outputs)
        assert_same(world, as_they_come(world).outputs)


@pytest.mark.parametrize(("seed", "rows"), CASES)
def test_cuts_change_nothing_at_any_pace(seed: int, rows: int | None) -> None:
    rng = random.Random(1000 + seed)
    world = paced_world(rng, 400)
    with logs_of(rows):
        whole = assert_cuts_change_no_bit(world, seed)
        assert by_sequence(live(world, rng, most=(70, 300, 1000)).outputs) == whole
        assert by_sequence(as_they_come(world).outputs) == whole


def test_the_paced_worlds_have_what_can_go_wrong() -> None:
    """Guards the generator."""
    found: set[str] = set()
    outcomes = again = 0
    for seed in range(SEEDS):
        world = paced_world(random.Random(seed), 300)
        life = catch_up(world)
        messages = metrics_of(life.outputs)
        outcomes += max((message.outcomes for message in messages), default=0)
        found |= {name for message in messages for name, count in message.counts.items() if count}
        labelled = [row["instance_id"] for _, row in world.topics[2] if isinstance(row, dict)]
        again += len(labelled) - len(set(labelled))
    assert outcomes > 40 * SEEDS
    assert again > 12 * SEEDS
    found -= {"at_horizon", "withdrawn"}  # some worlds have them, of many seeds
    of_labels = {"late_label", "unmatched_label", "after_settle", "revisions"}
    assert found == {"late", "expired", "duplicate", "waiting", *of_labels}

"""Workers are killed and frozen in the middle of a stream: nothing lost, repeated or different."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chaos import Flock, strike
from processes import outputs, repeated

from topics.clients import KafkaConfig

#: Seconds between two strikes: from the middle of a recovery to some time after it.
_PAUSE = (1.0, 9.0)


@pytest.mark.kafka
@pytest.mark.slow
def test_kill_and_freeze_at_random_moments(cluster: KafkaConfig, tmp_path: Path) -> None:
    """2,000 records a second; the replay of the topics tells what should have been published."""
    rng = random.Random(7)

    def strikes() -> Iterator[tuple[float, Callable[[Flock], None]]]:
        for hit in (Flock.kill, Flock.kill, Flock.freeze, Flock.kill, Flock.leave, Flock.kill):
            yield rng.uniform(*_PAUSE), hit
        yield 3.0, Flock.start

    strike(cluster, tmp_path, rng, strikes())

    # The comparison has said so already, in terms of sequences; ids are what readers go by.
    metrics, alarms = outputs(cluster, "metrics"), outputs(cluster, "drift-alarms")
    assert repeated(metrics) == {}
    assert repeated(alarms) == {}
    assert len(metrics) > 1_000
    assert len(alarms) > 30
    logs = "".join(path.read_text("utf-8") for path in tmp_path.glob("*.log"))
    assert ": snapshot " in logs, "no recovery began with a snapshot"
    assert "to follow" in logs.replace(" 0 cuts of the journal to follow", "")

"""Workers and the broker are struck in the middle of a stream: nothing lost, repeated or different."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from chaos import PARTITIONS, chaos
from prequential.topics.specs import DEAD_LETTERS
from processes import ends, outputs, read_topic
from schedule import ROUND, plan
from workload import UNUSABLE

from tests.brokers import launch
from tests.group_protocols import BOTH
from tests.skipping import or_skip

#: What the run follows from, and for how long it strikes; `make chaos` does it for longer.
SEED, MINUTES = 7, 2.0


def test_the_plan_has_every_kind_of_strike_twice() -> None:
    """Guards the run below: it has two rounds at least."""
    assert Counter(strike.what for strike in plan(SEED, MINUTES)) >= Counter(2 * ROUND)
    assert "broker restart" not in {s.what for s in plan(SEED, MINUTES, restarts=False)}


@pytest.mark.kafka
@pytest.mark.nightly
@pytest.mark.parametrize("protocol", BOTH)
def test_chaos(protocol: str, tmp_path: Path) -> None:
    """Its own broker: others would notice the restarts."""
    with or_skip():
        broker = launch("kafka")
    with broker:
        kafka = chaos(broker, tmp_path, SEED, MINUTES, print, protocol)

        # The comparison has said so already; these guard it: a test of nothing would pass too.
        metrics = outputs(kafka, "metrics")
        assert len(metrics) > 10_000
        for name in ("late", "expired", "duplicate", "late_label", "unmatched_label", "revisions"):
            assert max(message["counts"][name] for message in metrics) > 100, name
        assert len(outputs(kafka, "drift-alarms")) > 100
        assert {message.partition() for message in read_topic(kafka, "metrics")} == {*range(PARTITIONS)}
        sent = sum(map(sum, ends(kafka)))  # one of 1,000 can't be used, and each of the known ways is there
        assert len(read_topic(kafka, DEAD_LETTERS)) > 2 * len(UNUSABLE) + sent / 2_000
    logs = "".join(path.read_text("utf-8", "replace") for path in tmp_path.glob("*.log"))
    assert ": snapshot " in logs, "no recovery began with a snapshot"
    assert re.search(r"[1-9]\d* journal entries to follow", logs), "no recovery followed a journal"

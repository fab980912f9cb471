"""Three nodes and a bad network: nothing lost, repeated or different."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from network import ROUND, network_chaos, plan
from processes import outputs

from tests.cluster import Cluster
from tests.skipping import or_skip

#: What the run follows from, and for how long it strikes; `make chaos ARGS="--network"` does it for longer.
SEED, MINUTES = 3, 0.7


def test_the_plan_has_every_kind_of_strike() -> None:
    """Guards the run below."""
    assert {strike.what for strike in plan(SEED, MINUTES)} == set(ROUND)
    assert Counter(strike.what for strike in plan(SEED, 5.0)) >= Counter(2 * ROUND)


@pytest.mark.nightly
def test_network_chaos(tmp_path: Path) -> None:
    with or_skip():
        cluster = Cluster(3)
    with cluster:
        kafka = network_chaos(cluster, tmp_path, SEED, MINUTES, print)

        # The comparison has said so already; these guard it: a test of nothing would pass too.
        assert len(outputs(kafka, "metrics")) > 1_000
        assert len(outputs(kafka, "drift-alarms")) > 10
        assert cluster.proxy.held, "no commit was held"

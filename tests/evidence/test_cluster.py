"""The whole system on one real cluster, for two minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evidence import cluster
from tests.secured.monitoring import available


@pytest.mark.timeout(1_200)
def test_all_of_it_works_together_as_the_chart_deploys_it(tmp_path: Path) -> None:
    if available() is None:
        pytest.skip("prometheus or alertmanager is not installed")
    found = cluster.run_all(tmp_path, minutes=2.0)
    assert found
    assert [one for one in found if not one.kept] == []

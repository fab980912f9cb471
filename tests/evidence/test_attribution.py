"""What changed is named first: some seeds of what `attribution.py` shows."""

from __future__ import annotations

import numba
import pytest

from tests.evidence.attribution import SCENARIOS, is_right, said

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes an hour without the compiler"),
]

#: Seeds of each scenario, others than the first hundred; and how many may be wrong.
SEEDS = range(1_000, 1_010)
WRONG = 1


#: One scenario of each cause; the others have causes of these.
_FIRST = list({scenario.cause: name for name, scenario in reversed(SCENARIOS.items())}.values())
_OTHERS = sorted(SCENARIOS.keys() - set(_FIRST), key=lambda name: (name != "innocent_version", name))


@pytest.mark.parametrize("name", [*_FIRST, *_OTHERS])
def test_exactly_what_moves_is_named_first(name: str) -> None:
    scenario = SCENARIOS[name]
    runs = [found for seed in SEEDS if (found := said(scenario, seed))]
    assert len(runs) >= len(SEEDS) - 3 if name != "nothing" else len(runs) <= 1
    right = [found for found in runs if is_right(scenario, found[-1])]
    assert len(right) >= len(runs) - WRONG
    assert all(len(found) <= 8 for found in runs)  # two causes of one size may change places
    if name != "nothing":
        off = sorted(
            abs(found[-1].change_point["prediction_ts"] / 1000 - scenario.change) for found in right
        )
        assert off[len(off) // 2] <= 150  # of instances, not all of which have labels

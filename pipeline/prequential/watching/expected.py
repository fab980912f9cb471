"""What is known of a model before its labels are there: its newest whole period, and what waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prequential.watching.messages import PeriodReading
from prequential.watching.state import Model, coverage_of
from prequential.wording.expected import ExpectedPeriod, expected_period, in_words

#: Fields without which nothing is said of what waits.
_NEEDED = {"predictions", "labels", "right"}


def expected_lines(model: Model) -> list[str]:
    """Sentences, the most important first; none of a model without periods."""
    period = None if model.period is None else _period(model.period)
    return list(in_words(period, _waiting(model), untimed=model.untimed))


def _period(said: PeriodReading) -> ExpectedPeriod | None:
    about = said.period
    share = about.labelled / about.predictions if about.predictions else 0.0
    expected = {} if said.expected is None or said.is_final else said.expected.measures
    return expected_period(about.start, about.end, share, said.measures, expected, final=said.is_final)


def _waiting(model: Model) -> Mapping[str, Any] | None:
    """What the newest `coverage` says of it."""
    said = coverage_of(model).get("waiting_expected")
    return said if isinstance(said, dict) and said.keys() >= _NEEDED else None

"""Expected measures of a model before labels arrive: its newest whole period, and pending predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prequential.views.watching.messages import PeriodReading
from prequential.views.watching.state import ModelState, coverage_of
from prequential.views.wording.expected import ExpectedPeriod, expected_period, in_words

#: Fields that the line about pending predictions needs.
_NEEDED = {"predictions", "labels", "right"}


def expected_lines(model: ModelState) -> list[str]:
    """Return sentences, the most important first; none for a model without periods."""
    period = None if model.period is None else _period(model.period)
    return list(in_words(period, _waiting(model), untimed=model.untimed))


def _period(said: PeriodReading) -> ExpectedPeriod | None:
    about = said.period
    share = about.labelled / about.predictions if about.predictions else 0.0
    expected = {} if said.expected is None or said.is_final else said.expected.measures
    return expected_period(about.start, about.end, share, said.measures, expected, final=said.is_final)


def _waiting(model: ModelState) -> Mapping[str, Any] | None:
    """Return the pending predictions in the newest `coverage`."""
    said = coverage_of(model).get("waiting_expected")
    return said if isinstance(said, dict) and said.keys() >= _NEEDED else None

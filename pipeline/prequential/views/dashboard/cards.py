"""The headline values of a model: with intervals, and differences from reference and baselines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prequential.engine.measures.registry import LESS_IS_BETTER, MEASURES
from prequential.views.watching.messages import Reading
from prequential.views.watching.ranking import measures_shown
from prequential.views.watching.state import ModelState, coverage_of
from prequential.views.wording.expected import expected_period
from prequential.views.wording.references import referred
from prequential.views.wording.status import references

#: The number of measures with a card.
_MEASURES = 3


def cards_of(model: ModelState, reading: Reading | None) -> list[dict[str, Any]]:
    """Return the headline values of a reading, then the expected value and the label latency, as JSON."""
    found = [*_measures(reading)] if reading is not None else []
    return [*found, *_expected(model), *_latency(model)]


def _measures(reading: Reading) -> Iterator[dict[str, Any]]:
    known = frozenset(name for name in reading.measures if name in MEASURES and MEASURES[name].quality)
    shown = measures_shown(known, None) if known else []
    if {"accuracy", "error"} <= known:
        shown = [name for name in shown if name != "error"]
    for name in shown[:_MEASURES]:
        less = name in LESS_IS_BETTER
        rows: list[dict[str, Any]] = [
            {"name": "reference", "value": one.reference, "difference": one.difference}
            for one in referred(reading.reference)
            if one.measure == name
        ]
        rows += references(reading.measures, name)
        yield {
            "kind": "measure", "name": name, "value": reading.measures[name], "n": reading.n,
            "interval": reading.intervals.get(name),
            "rows": [
                {**one, "worse": one["difference"] > 0 if less else one["difference"] < 0} for one in rows
            ],
        }  # fmt: skip


def _expected(model: ModelState) -> Iterator[dict[str, Any]]:
    """Yield the expected value of the newest whole period, or its final value."""
    said = model.period
    if said is None:
        return
    share = said.period.labelled / max(1, said.period.predictions)
    expected = {} if said.expected is None else said.expected.measures
    one = expected_period(
        said.period.start, said.period.end, share, said.measures, expected, final=said.is_final
    )  # fmt: skip
    if one is None:
        return
    value = one.final if said.is_final else one.expected
    if value is not None:
        yield {
            "kind": "expected", "name": one.measure, "value": value, "interval": one.interval,
            "final": said.is_final, "start": one.start, "end": one.end, "labelled": share,
            "so_far": None if said.is_final else one.labelled_so_far,
        }  # fmt: skip


def _latency(model: ModelState) -> Iterator[dict[str, Any]]:
    coverage: dict[str, Any] = coverage_of(model)
    latency = coverage.get("recent_label_latency_ms") or coverage.get("label_latency_ms") or {}
    if "p50" in latency:
        yield {
            "kind": "latency", "value": latency["p50"], "p90": latency.get("p90"),
            "labelled": (coverage.get("labelled") or {}).get("horizon"), "waiting": coverage.get("waiting"),
        }  # fmt: skip

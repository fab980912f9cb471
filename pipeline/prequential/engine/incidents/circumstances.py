"""Circumstances as causes: label latency, the model's version, coverage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.incidents import history
from prequential.engine.incidents.cause import LEAST_SHARE, Cause, CauseNames
from prequential.engine.incidents.groups import most_moved, of_columns, share_of
from prequential.engine.incidents.labelled import Counts, coverages
from prequential.engine.incidents.levels import Phase
from prequential.engine.incidents.phases import Phases


class Others(NamedTuple):
    """Other models of the stream whose levels before and after a change are known."""

    worse: int  # those that surely got worse at the same time
    models: int


def of_circumstances(
    phases: Phases, names: CauseNames, others: Callable[[], Others] | None
) -> list[Cause]:
    """Label latency, version, coverage: the share of each in what weights leave unexplained."""
    by_circumstance = []
    for cause, n, loss, count in (
        ("label_latency", history.LATENCY, history.LATENCY_LOSS, history.LATENCIES),
        ("model_version", history.VERSION, history.VERSION_LOSS, history.VERSIONS),
    ):
        columns = np.arange(count)
        before, after = phases.of_columns(n + columns)
        groups = (of_columns(phase, n + columns, loss + columns) for phase in (before, after))
        share = share_of(*groups, new_explains=True)
        detail: dict[str, Any] = {}
        if cause == "model_version" and share >= LEAST_SHARE:
            detail = _version(before, after, names)
            about = Others(0, 0) if others is None else others()
            if about.models:
                detail["other_models"] = about._asdict()
                share = 0.0 if about.worse == about.models else share
        by_circumstance.append(Cause(cause, share, detail))
    if phases.of_predictions is not None:
        by_circumstance.append(_coverage(*phases.of_predictions, phases.binary))
    return [one._replace(share=min(1.0, one.share)) for one in by_circumstance if one.share > 0]


def versions_moved(before: Phase, after: Phase) -> bool:
    """Whether a version has surely another share of outcomes."""
    columns = slice(history.VERSION, history.VERSION + history.VERSIONS)
    some, now = before.cells[columns], after.cells[columns]
    return bool(some.any() and now.any()) and most_moved(some, now) is not None


def _version(before: Phase, after: Phase, names: CauseNames) -> dict[str, Any]:
    """The version whose share rose most."""
    columns = slice(history.VERSION, history.VERSION + history.VERSIONS)
    most = int(np.argmax(after.cells[columns] / after.n - before.cells[columns] / before.n))
    return {"version": names.versions[most]} if names.versions[most] else {}


def _coverage(before: Phase, after: Phase, predictions: tuple[Counts, Counts], binary: bool) -> Cause:
    """The largest share of the change that label coverage could account for, where it surely moved.

    Let c0 and c1 be the coverage before and after. If c1 < c0, all predictions that lack labels now may have
    been right. The level would then be L0·c0/c1. For a level that fell they may have been wrong, and the
    level would be (L0 - 1 + c1/c0)·c0/c1. If c1 > c0, the same holds for predictions that lacked labels
    before. Losses for regression have no bound, so coverage could account for all of the change.
    """
    moved, change = coverages(*predictions), after.mean - before.mean
    if moved is None or not change:
        return Cause("coverage", 0.0, {})
    c0, c1 = moved
    detail = {"before": c0, "after": c1}
    if not binary:
        return Cause("coverage", 1.0, detail)
    right = change > 0 if c1 < c0 else change < 0
    wrong = before.mean if right else 1 - before.mean
    bound = wrong * (c0 / c1 - 1) if c1 < c0 else (1 - wrong) * (1 - c0 / c1)
    return Cause("coverage", min(1.0, bound / abs(change)), detail)

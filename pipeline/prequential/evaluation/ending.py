"""Measures of models at the end of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import stage_name
from prequential.engine.measures.registry import MEASURES
from prequential.evaluation.shown import Table
from prequential.evaluation.wanted import check
from prequential.offline.replay.summary import SequenceSummary
from prequential.offline.replay.text import shown_estimators
from prequential.topics.reasons import listed


class Ending(NamedTuple):
    """A model in a stage, and the estimator that was chosen."""

    sequence: SequenceSummary
    estimator: str


def sequences_of(
    sequences: Iterable[SequenceSummary], stage: str, estimator: str | None, stream: str | None
) -> list[Ending]:
    """Return the sequences of a stage. Raises ValueError for an unknown name; the error lists the others."""
    found = list(sequences)
    rows = [one for one in found if stream in (None, one.stream)]
    if found and not rows:
        streams = dict.fromkeys(one.stream for one in found)
        raise ValueError(f"no outcomes of stream {stream!r}: expected one of {listed(streams)}")
    stage = stage_name(stage)
    chosen = []
    for one in rows:
        if one.is_of(stage):
            name = estimator or shown_estimators(one.measures)[0]
            if name not in one.measures:
                raise ValueError(f"no estimator {name!r}: expected one of {', '.join(one.measures)}")
            chosen.append(Ending(one, name))
    if not chosen:
        known = ", ".join(dict.fromkeys(name for one in rows for name in (one.stage, *one.same)))
        expected = f"expected one of {known}" if known else "there are none at all"
        raise ValueError(f"no outcomes of stage {stage!r}: {expected}")
    return chosen


def values_of(endings: Sequence[Ending], measure: str, config: Config) -> dict[str, float | None]:
    """Return a measure by model; None if it is undefined. Raises ValueError if there are several streams."""
    streams = list(dict.fromkeys(one.stream for one, _ in endings))
    if len(streams) > 1:
        raise ValueError(f"there are several streams: expected stream to be one of {listed(streams)}")
    check("measure", measure, config.stream(streams[0]).measures)
    return {one.model: one.measures[estimator].get(measure) for one, estimator in endings}


def table_of_models(endings: Sequence[Ending], config: Config) -> Table:
    """Return a table with a row for each model: its estimator, outcomes and measures."""
    names = ["model", "estimator", "n", "outcomes"]
    if len({one.stream for one, _ in endings}) > 1:
        names.insert(3, "stream")
    measures = dict.fromkeys(
        name for one, _ in endings for name in config.stream(one.stream).measures
        if MEASURES[name].fits(one.task)
    )  # fmt: skip
    rows = [
        {
            "stream": one.stream, "model": one.model, "estimator": estimator, "n": one.n[estimator],
            "outcomes": one.outcomes, **one.measures[estimator],
        }
        for one, estimator in endings
    ]  # fmt: skip
    return Table([*names, *measures], rows)

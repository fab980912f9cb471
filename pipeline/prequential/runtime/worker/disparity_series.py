"""Series of disparity between segments: the difference between groups, and whether they differ."""

from __future__ import annotations

from collections.abc import Iterable

from prequential.configuration.settings.model import HttpConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.disparity import DIFFERS, NO_DIFFERENCE, TOO_FEW, VERDICTS
from prequential.engine.output.disparities import DisparityReporter
from prequential.runtime.http.exposition import GAUGE, Family, labels

FAMILIES = (
    ("disparity_difference", GAUGE, "Largest value of a segment less the smallest one, of a key's segments"),
    ("disparity_low", GAUGE, "Lower bound of the largest difference between segments, at all times"),
    ("disparity_ratio", GAUGE, "Smallest value of a segment divided by the largest one"),
    ("disparity_verdict", GAUGE, "Whether segments differ: 1 they do, 0 no difference found, -1 too few"),
)

_VERDICTS = {DIFFERS: 1, NO_DIFFERENCE: 0, TOO_FEW: -1}


def add(
    families: dict[str, Family], catalog: Catalog, reporter: DisparityReporter, streams: Iterable[int],
    http: HttpConfig,
) -> None:  # fmt: skip
    """Add the samples of the models of these streams (codes), in the stages that are shown."""
    for one in reporter.statuses(streams):
        if not http.shows_stage(one.stage, catalog.by_name[one.stream].config, one.same or ()):
            continue
        where = labels(
            stream=one.stream, partition=one.partition, model=one.model, stage=one.stage, key=one.key,
            measure=one.measure,
        )  # fmt: skip
        families["disparity_verdict"].add(where, _VERDICTS[VERDICTS.index(one.verdict)])
        low = None if one.interval is None else one.interval[0]
        for name, value in (("difference", one.difference), ("low", low), ("ratio", one.ratio)):
            if value is not None:
                families[f"disparity_{name}"].add(where, value)

"""Series of pairs of models: the difference, and the verdict which model is better."""

from __future__ import annotations

from prequential.configuration.settings.model import HttpConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.comparisons import A_BETTER, B_BETTER, UNDECIDED, VERDICTS
from prequential.engine.comparisons.pair_statuses import PairStatus
from prequential.runtime.http.exposition import GAUGE, Family, labels

FAMILIES = (
    (
        "comparison_difference", GAUGE,
        "Mean loss of the model minus that of the model against it; above 0: the latter is better",
    ),
    ("comparison_q", GAUGE, "Q statistic: logarithm of the ratio of the sums of losses of both models"),
    ("comparison_mcnemar", GAUGE, "Signed McNemar statistic of both models, for a single look"),
    (
        "comparison_low", GAUGE,
        "Lower bound of the confidence sequence of the loss difference, over all history",
    ),
    (
        "comparison_high", GAUGE,
        "Upper bound of the confidence sequence of the loss difference, over all history",
    ),
    (
        "comparison_verdict", GAUGE,
        "Which model is better by the confidence sequence: 1 the one against, -1 the model, 0 undecided",
    ),
    ("comparison_since_outcome", GAUGE, "Joint outcome at which the verdict began"),
    (
        "comparison_recent_verdict", GAUGE,
        "Which model has been better since the latest confirmed change, as comparison_verdict",
    ),
    (
        "comparison_recent_since_outcome", GAUGE,
        "Joint outcome since about which the recent verdict holds",
    ),
    ("comparison_outcomes", GAUGE, "Joint outcomes of both models"),
    (
        "comparison_pairs_left_out", GAUGE,
        "Pairs of models that are not compared because of limits.pairs_per_stream",
    ),
    ("champion_info", GAUGE, "1 for the champion of the stream"),
)  # fmt: skip

_VERDICTS = {UNDECIDED: 0, A_BETTER: -1, B_BETTER: 1}


def add(families: dict[str, Family], catalog: Catalog, standing: PairStatus, http: HttpConfig) -> int:
    """Add the samples of a pair in one stage by one loss, for all its estimators; return their number."""
    about = standing.a
    segment = {"segment": about.segment} if about.segment else {}
    where = labels(
        stream=catalog.streams[about.stream].name, partition=catalog.partition, model=about.model,
        against=standing.b.model, **segment, stage=standing.stage,
    )  # fmt: skip
    count = 0

    def put(name: str, labels: str, value: float) -> None:
        nonlocal count
        count += 1
        families[f"comparison_{name}"].add(labels, value)

    by_loss = f'{where},loss="{standing.loss}"'
    put("outcomes", by_loss, standing.outcomes)
    put("verdict", by_loss, _VERDICTS[standing.verdict])
    if standing.since is not None:
        put("since_outcome", by_loss, standing.since)
    put("recent_verdict", by_loss, _VERDICTS[VERDICTS.index(standing.recent["verdict"])])
    if standing.recent["since"] is not None:
        put("recent_since_outcome", by_loss, standing.recent["since"])
    if standing.interval is not None:
        put("low", by_loss, standing.interval[0])
        put("high", by_loss, standing.interval[1])
    for estimator, statistics in standing.statistics.items():
        with_estimator = f'{where},estimator="{estimator}"'
        tests = "tests" in http.series
        for name in ("difference", "q") if tests else ("difference",):
            if name in statistics:
                put(name, f'{with_estimator},loss="{standing.loss}"', statistics[name])
        if tests and "mcnemar" in statistics:  # only one loss is either right or wrong
            put("mcnemar", with_estimator, statistics["mcnemar"])
    return count

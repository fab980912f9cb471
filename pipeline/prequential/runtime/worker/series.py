"""Series of disparity, of pairs of models, of estimated performance, and of streams in all partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config
from prequential.engine import comparisons, disparity
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.comparisons import A_BETTER, B_BETTER, EQUIVALENT, UNDECIDED
from prequential.engine.comparisons.reporting import PairStatus
from prequential.engine.delay.records import SIGNALS
from prequential.engine.disparity import DIFFERS, NO_DIFFERENCE, TOO_FEW
from prequential.engine.output.disparities import DisparityReporter
from prequential.engine.shard import Shard
from prequential.runtime.worker.merging import Merging
from prequential.web.http import COUNTER, GAUGE, Family, labels

DISPARITY_FAMILIES = (
    ("disparity_difference", GAUGE, "Largest value of a segment less the smallest one, of a key's segments"),
    ("disparity_low", GAUGE, "Lower bound of the largest difference between segments, at all times"),
    ("disparity_ratio", GAUGE, "Smallest value of a segment divided by the largest one"),
    ("disparity_verdict", GAUGE, "Whether segments differ: 1 they do, 0 no difference found, -1 too few"),
)

_DISPARITY_VERDICTS = {DIFFERS: 1, NO_DIFFERENCE: 0, TOO_FEW: -1}


def add_disparities(
    families: dict[str, Family], catalog: Catalog, reporter: DisparityReporter, streams: Iterable[int],
    http: HttpConfig,
) -> None:  # fmt: skip
    """Add the samples of the models of these streams (codes), in the stages that are shown."""
    for status in reporter.statuses(streams):
        if not http.shows_stage(status.stage, catalog.by_name[status.stream].config, status.same or ()):
            continue
        label_text = labels(
            stream=status.stream, partition=status.partition, model=status.model, stage=status.stage,
            key=status.key,
            measure=status.measure,
        )  # fmt: skip
        families["disparity_verdict"].add(
            label_text, _DISPARITY_VERDICTS[disparity.VERDICTS.index(status.verdict)]
        )
        low = None if status.interval is None else status.interval[0]
        for name, value in (("difference", status.difference), ("low", low), ("ratio", status.ratio)):
            if value is not None:
                families[f"disparity_{name}"].add(label_text, value)


PAIR_FAMILIES = (
    ("comparison_difference", GAUGE,
     "Mean loss of the model minus that of the model against it; above 0: the latter is better"),
    ("comparison_q", GAUGE, "Q statistic: logarithm of the ratio of the sums of losses of both models"),
    ("comparison_mcnemar", GAUGE, "Signed McNemar statistic of both models, for a single look"),
    ("comparison_low", GAUGE,
     "Lower bound of the confidence sequence of the loss difference, over all history"),
    ("comparison_high", GAUGE,
     "Upper bound of the confidence sequence of the loss difference, over all history"),
    ("comparison_verdict", GAUGE,
     "Which model is better by the confidence sequence: 1 the one against, -1 the model, 0 neither"),
    ("comparison_since_outcome", GAUGE, "Joint outcome at which the verdict began"),
    ("comparison_recent_verdict", GAUGE,
     "Which model has been better since the latest confirmed change, as comparison_verdict"),
    ("comparison_recent_since_outcome", GAUGE, "Joint outcome since about which the recent verdict holds"),
    ("comparison_disagreement", GAUGE,
     "Share of instances on which two models predict differently, labelled or not"),
    ("comparison_disagreement_at_most", GAUGE,
     "Largest difference of two models' accuracies that their predictions allow, at all times"),
    ("comparison_outcomes", GAUGE, "Joint outcomes of both models"),
    ("comparison_pairs_left_out", GAUGE,
     "Pairs of models that are not compared because of limits.pairs_per_stream"),
    ("champion_info", GAUGE, "1 for the champion of the stream"),
)  # fmt: skip

_PAIR_VERDICTS = {UNDECIDED: 0, A_BETTER: -1, B_BETTER: 1, EQUIVALENT: 0}


def add_pair(families: dict[str, Family], catalog: Catalog, standing: PairStatus, http: HttpConfig) -> int:
    """Add the samples of a pair in one stage by one loss, for all its estimators; return their number."""
    entity = standing.a
    segment = {"segment": entity.segment} if entity.segment else {}
    label_text = labels(
        stream=catalog.streams[entity.stream].name, partition=catalog.partition, model=entity.model,
        against=standing.b.model, **segment, stage=standing.stage,
    )  # fmt: skip
    count = 0

    def put(name: str, labels: str, value: float) -> None:
        nonlocal count
        count += 1
        families[f"comparison_{name}"].add(labels, value)

    by_loss = f'{label_text},loss="{standing.loss}"'
    put("outcomes", by_loss, standing.outcomes)
    put("verdict", by_loss, _PAIR_VERDICTS[standing.verdict])
    if standing.since is not None:
        put("since_outcome", by_loss, standing.since)
    put("recent_verdict", by_loss, _PAIR_VERDICTS[comparisons.VERDICTS.index(standing.recent["verdict"])])
    if standing.recent["since"] is not None:
        put("recent_since_outcome", by_loss, standing.recent["since"])
    if standing.disagreement is not None:
        put("disagreement", by_loss, standing.disagreement["share"])
        if standing.disagreement["at_most"] is not None:
            put("disagreement_at_most", by_loss, standing.disagreement["at_most"])
    if standing.interval is not None:
        put("low", by_loss, standing.interval[0])
        put("high", by_loss, standing.interval[1])
    for estimator, statistics in standing.statistics.items():
        with_estimator = f'{label_text},estimator="{estimator}"'
        tests = "tests" in http.series
        for name in ("difference", "q") if tests else ("difference",):
            if name in statistics:
                put(name, f'{with_estimator},loss="{standing.loss}"', statistics[name])
        if tests and "mcnemar" in statistics:  # only one loss is either right or wrong
            put("mcnemar", with_estimator, statistics["mcnemar"])
    return count


EXPECTED_FAMILIES = (
    ("expected", GAUGE, "Estimated final value of a measure in the newest whole period"),
    ("expected_low", GAUGE, "Lower bound of the estimated final value, at level 0.9"),
    ("expected_high", GAUGE, "Upper bound of the estimated final value, at level 0.9"),
    ("expected_coverage", GAUGE, "Share of earlier periods whose final value was within its interval"),
    ("expected_book", GAUGE, "Estimated value of a measure over the newest whole periods together"),
    ("expected_book_low", GAUGE, "Lower bound of the estimate over the newest whole periods, at level 0.9"),
    ("expected_book_high", GAUGE, "Upper bound of the estimate over the newest whole periods, at level 0.9"),
    ("waiting_expected_labels", GAUGE,
     "Pending predictions, in periods that are not final, that are expected to get a label"),
    ("waiting_expected_right", GAUGE, "Pending predictions that are expected to get a label and be correct"),
    ("waiting_expected_right_low", GAUGE, "Lower bound of the expected correct pending predictions"),
    ("waiting_expected_right_high", GAUGE, "Upper bound of the expected correct pending predictions"),
    ("expected_miss", GAUGE, "Probability that the newest whole period will miss its objective"),
    ("expected_signal", GAUGE,
     "Largest recent deviation of a completed period from earlier ones, in standard deviations"),
)  # fmt: skip


def add_expectations(families: dict[str, Family], shard: Shard, streams: Iterable[int]) -> None:
    """Add the samples of the models of these streams."""
    catalog, latest = shard.catalog, shard.state.latest_estimates
    newest, signals, waiting = latest.newest, latest.signals, latest.waiting
    for stream in map(catalog.streams.__getitem__, streams):
        for model, row in stream.models.items():
            if row not in newest and row not in waiting:
                continue
            label_text = labels(stream=stream.name, partition=catalog.partition, model=model)
            if row in waiting:
                add_waiting(families, label_text, waiting[row].as_message())
            if row not in newest:
                continue
            add_expected(families, label_text, newest[row].measures)
            add_book(families, label_text, newest[row].book)
            for name in SIGNALS:
                values = [
                    value
                    for by_signal in signals.get(row, {}).values()
                    if (value := by_signal[name]) is not None
                ]
                if values:
                    families["expected_signal"].add(f'{label_text},signal="{name}"', max(values, key=abs))


def add_waiting(families: dict[str, Family], label_text: str, expected: Mapping[str, Any]) -> None:
    """Add the samples of a model's pending predictions; `expected` is a message's `waiting_expected`."""
    for family, value in (
        ("labels", expected["labels"]), ("right", expected["right"]),
        *zip(("right_low", "right_high"), expected.get("interval", ())),
    ):  # fmt: skip
        families[f"waiting_expected_{family}"].add(label_text, value)


def add_expected(
    families: dict[str, Family], label_text: str, expected_measures: Mapping[str, Mapping[str, Any]]
) -> None:
    """Add the samples of a model's newest whole period.

    `expected_measures` has the measures of a message's `expected`.
    """
    for name, expected in expected_measures.items():
        with_measure = f'{label_text},measure="{name}"'
        families["expected"].add(with_measure, expected["value"])
        for family, value in zip(("low", "high"), expected.get("interval", ())):
            families[f"expected_{family}"].add(with_measure, value)
        if expected["record"] is not None:
            families["expected_coverage"].add(with_measure, expected["record"]["coverage"])
        if "miss" in expected:
            families["expected_miss"].add(with_measure, expected["miss"])


def add_book(families: dict[str, Family], where: str, book: Mapping[str, Any] | None) -> None:
    """Add the samples of a model's newest whole periods together; `book` is a message's `expected_book`."""
    for name, estimate in book["measures"].items() if book else ():
        with_measure = f'{where},measure="{name}"'
        families["expected_book"].add(with_measure, estimate["value"])
        for family, value in zip(("low", "high"), estimate.get("interval", ())):
            families[f"expected_book_{family}"].add(with_measure, value)


MERGED_FAMILIES = (
    ("merged_timestamp_seconds", GAUGE,
     "Record time up to which the partitions of a stream are merged, as Unix time"),
    ("unmerged_moments_total", COUNTER,
     "Moments that were not merged because partitions had different configurations"),
)  # fmt: skip


def add_merged(families: dict[str, Family], merging: Merging, config: Config) -> None:
    """Add the samples of merged streams: the shown measures and stages of each additive estimator.

    Also add the estimated performance of their models from the latest messages.
    """
    http = config.http
    for name, moment in merging.moments().items():
        families["merged_timestamp_seconds"].add(labels(stream=name), moment / 1000)
    families["unmerged_moments_total"].add("", merging.passed_over)
    for latest in merging.latest():
        for message in list(latest.metrics.values()):
            if (message.segment and not http.segments) or not http.shows_stage(
                message.stage, config.stream(message.stream), message.same or []
            ):
                continue
            segment = {"segment": message.segment} if message.segment else {}
            label_text = labels(
                stream=message.stream,
                model=message.model,
                **segment,
                stage=message.stage,
                estimator=message.estimator,
            )
            for measure, value in message.measures.items():
                if measure in http.measures:
                    families[measure].add(label_text, value)
        for (stream, model), (_, measures) in list(latest.expected.items()):
            add_expected(families, labels(stream=stream, model=model), measures)
        for (stream, model), waits in list(latest.waiting.items()):
            add_waiting(families, labels(stream=stream, model=model), waits)

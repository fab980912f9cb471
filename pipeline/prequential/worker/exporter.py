"""The worker's state as Prometheus metrics, read at scrape time: what has moved away vanishes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prequential.config import Config
from prequential.core.latency import BOUNDS
from prequential.core.stream import Stream
from prequential.topics.decoding import INSTANCES, LABELS, PREDICTIONS
from prequential.topics.specs import INPUTS
from prequential.version import VERSION
from prequential.worker.fetching import Fetcher
from prequential.worker.statistics import DURATION_BOUNDS, Durations
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

if TYPE_CHECKING:
    from prequential.worker.runner import ShardRunner

_MEASURE_HELP = {
    "error": "Share of outcomes that are wrong",
    "accuracy": "Share of outcomes that are right",
    "kappa": "Cohen's kappa",
    "p_per": "Accuracy of the persistent baseline",
    "kappa_per": "Kappa against the persistent baseline",
    "p_maj": "Accuracy of the majority baseline",
    "kappa_maj": "Kappa against the majority baseline",
    "kappa_plus": "Geometric mean of kappa and kappa_per where both are positive",
    "kappa_se": "Standard error of Cohen's kappa",
    "kappa_z": "Cohen's kappa over its standard error if it were chance",
    "balanced_accuracy": "Arithmetic mean of the recalls of the classes with labels",
    "g_mean": "Geometric mean of the recalls of the classes with labels",
    "mcc": "Matthews' correlation; for more than two classes Gorodkin's R_K",
    "precision": "Precision of the positive class",
    "recall": "Recall of the positive class",
    "specificity": "Specificity of the positive class",
    "f1": "F1 of the positive class",
    "macro_precision": "Mean precision of the classes",
    "macro_recall": "Mean recall of the classes",
    "macro_f1": "Mean F1 of the classes",
    "weighted_f1": "Mean F1 of the classes, weighted with their labels",
    "log_loss": "Mean logarithmic loss of the predicted probabilities",
    "brier": "Brier score of the predicted probabilities, summed over classes",
    "ece": "Expected calibration error of the predicted class, 15 equal bins",
    "mae": "Mean absolute error",
    "mse": "Mean squared error",
    "rmse": "Root of the mean squared error",
    "r2": "Coefficient of determination",
    "bias": "Mean of prediction minus label",
    "p_ran": "Accuracy of random predictions with the model's own distribution",
    "ipw_accuracy": "Accuracy, outcomes weighted with the inverse of their label's propensity",
    "ipw_n": "Effective number of outcomes behind the weighted accuracy",
    "auc": "Area under the ROC curve over a window's scores",
}

_DETAIL_HELP: dict[str, tuple[str, tuple[str, ...]]] = {
    "normalised": ("Share of all matrices of this class ratio that are no better", ("measure",)),
    "positives": ("Share of the positive class among the labels", ()),
    "class_ratio_gradient": ("How a measure moves with the class ratio alone", ("measure",)),
    "interval_lower": ("Lower bound of a share's 95 % interval", ("measure",)),
    "interval_upper": ("Upper bound of a share's 95 % interval", ("measure",)),
    "error_autocorrelation": ("Lag-1 autocorrelation of the errors", ()),
    "error_autocorrelation_se": ("Its standard error", ()),
    "majority_share": ("Share of the most frequent label", ()),
    "persistence": ("Share of labels that are the same as the one before", ()),
    "repeat": ("Share of a class's successors that are of the class, too", ("class",)),
    "increment": ("What one more label in a row adds to its class's probability", ("class", "order")),
}

_SEQUENCE = ("stream", "model", "segment", "stage", "estimator")


class Exporter:
    """Makes metric families of a worker's shards; a custom collector of prometheus_client."""

    def __init__(self, config: Config, fetcher: Fetcher, runners: dict[int, ShardRunner]) -> None:
        self._config = config
        self._fetcher = fetcher
        self._runners = runners

    def collect(self) -> Iterator[Metric]:
        """All families; to be called in the loop that runs the shards."""
        runners = list(self._runners.values())
        # While a shard is restored its numbers are those of the past: a counter would seem to fall.
        streams = [
            stream
            for runner in runners
            if not runner.recovering
            for stream in runner.shard.streams.values()
        ]
        yield from self._measures(streams)
        yield from self._models(streams)
        yield from self._streams(streams)
        yield from self._shards(runners)

    def _measures(self, streams: list[Stream]) -> Iterator[Metric]:
        families = {
            name: GaugeMetricFamily(f"prequential_{name}", text, labels=_SEQUENCE)
            for name, text in _MEASURE_HELP.items()
        }
        details = {
            name: GaugeMetricFamily(f"prequential_{name}", text, labels=(*_SEQUENCE, *more))
            for name, (text, more) in _DETAIL_HELP.items()
        }
        for stream in streams:
            for model in stream.every_model:
                for name, stage, estimator, measured in model.everything():
                    labels = (stream.name, name, model.segment or "", stage, estimator)
                    for measure, value in measured.values.items():
                        if measure in families:
                            families[measure].add_metric(labels, value)
                    _add_details(details, labels, measured.details)
        yield from families.values()
        yield from details.values()

    def _models(self, streams: list[Stream]) -> Iterator[Metric]:
        outcomes = CounterMetricFamily(
            "prequential_outcomes", "Outcomes evaluated", labels=("stream", "model", "stage")
        )
        newest = GaugeMetricFamily(
            "prequential_newest_outcome_timestamp_seconds",
            "Label time of the newest outcome, as Unix time",
            labels=("stream", "model"),
        )
        late = CounterMetricFamily(
            "prequential_late_predictions",
            "Predictions made after their label",
            labels=("stream", "model"),
        )
        expired = CounterMetricFamily(
            "prequential_expired_predictions",
            "Predictions whose label didn't come within the horizon",
            labels=("stream", "model"),
        )
        alarms = CounterMetricFamily(
            "prequential_drift_alarms",
            "Drift alarms raised",
            labels=("stream", "model", "stage", "detector", "signal"),
        )
        for stream in streams:
            for model in stream.every_model:
                if model.segment is not None:
                    continue  # what is counted here is the model's
                labels = (stream.name, model.name)
                if model.stage is None:
                    late.add_metric(labels, model.late)
                    expired.add_metric(labels, model.expired)
                    if model.outcomes:
                        newest.add_metric(labels, model.newest_ts / 1000)
                for stage, sequence in model.sequences():
                    outcomes.add_metric((*labels, stage), sequence.outcomes)
                    raised: Counter[tuple[str, str]] = Counter()
                    for detection in sequence.detections:
                        config = detection.config
                        raised[config.detector, config.signal] += detection.alarms
                    for about, count in raised.items():
                        alarms.add_metric((*labels, stage, *about), count)
        yield from (outcomes, newest, late, expired, alarms)

    def _streams(self, streams: list[Stream]) -> Iterator[Metric]:
        waiting = GaugeMetricFamily(
            "prequential_waiting_predictions", "Predictions awaiting a label", labels=("stream", "model")
        )
        oldest = GaugeMetricFamily(
            "prequential_oldest_waiting_seconds",
            "Age of the oldest prediction that awaits a label",
            labels=("stream", "model"),
        )
        labelled = GaugeMetricFamily(
            "prequential_labelled_ratio",
            "Share of predictions that had met their label by an age, of those at least as old",
            labels=("stream", "model", "age"),
        )
        quantiles = GaugeMetricFamily(
            "prequential_label_latency_quantile_seconds",
            "Quantiles of the time from an instance to its label, to 1 %",
            labels=("stream", "percentile"),  # "quantile" is reserved for summaries
        )
        by_class = GaugeMetricFamily(
            "prequential_labelled_by_class_ratio",
            "Share of predictions of a class that got a label, of those whose fate is known",
            labels=("stream", "model", "class"),
        )
        psi = GaugeMetricFamily(
            "prequential_selection_psi",
            "Population stability index: how the labelled differ from those without a label",
            labels=("stream", "model", "of"),
        )
        without_predictions = CounterMetricFamily(
            "prequential_instances_without_predictions",
            "Instances that nobody predicted within the horizon",
            labels=("stream",),
        )
        without_instance = CounterMetricFamily(
            "prequential_predictions_without_instance",
            "Predictions of instances of which no record came",
            labels=("stream",),
        )
        labels_waiting = GaugeMetricFamily(
            "prequential_waiting_labels", "Labels awaiting a prediction", labels=("stream",)
        )
        late = CounterMetricFamily(
            "prequential_late_labels", "Labels later than the horizon", labels=("stream",)
        )
        revisions = CounterMetricFamily(
            "prequential_revisions", "Labels that were revised", labels=("stream",)
        )
        unmatched = CounterMetricFamily(
            "prequential_unmatched_labels",
            "Labels that no prediction came for within the horizon",
            labels=("stream",),
        )
        duplicates = CounterMetricFamily(
            "prequential_duplicates", "Records delivered again", labels=("stream", "topic")
        )
        latency = HistogramMetricFamily(
            "prequential_label_latency_seconds",
            "Time from an instance to its label",
            labels=("stream",),
        )
        for stream in streams:
            name = (stream.name,)
            for model in stream.by_code:
                of_model = (stream.name, model.name)
                waiting.add_metric(of_model, model.coverage.waiting)
                oldest.add_metric(of_model, model.coverage.oldest(stream.clock) / 1000)
                if stream.config.task == "classification":
                    for label, share in model.selection.shares(stream.classes.names).items():
                        by_class.add_metric((*of_model, label), share)
                    if (index := model.selection.index()) is not None:
                        psi.add_metric((*of_model, "prediction"), index)
                keys = stream.segments.keys if stream.segments else ()
                for key, index in model.selection.index_by_key(keys).items():
                    psi.add_metric((*of_model, f"segment:{key}"), index)
                for age, share in model.coverage.curve(stream.clock).items():
                    labelled.add_metric((*of_model, age), share)
            for percentile, value in stream.latency.quantiles.items():
                quantiles.add_metric((*name, percentile), value / 1000)
            without_predictions.add_metric(name, stream.instances_without_predictions)
            without_instance.add_metric(name, stream.predictions_without_instance)
            labels_waiting.add_metric(name, stream.waiting_labels)
            late.add_metric(name, stream.late_label)
            revisions.add_metric(name, stream.revisions)
            unmatched.add_metric(name, stream.unmatched_label)
            counts = list(stream.duplicates)
            counts[PREDICTIONS] = sum(model.duplicate for model in stream.by_code)
            for kind in (INSTANCES, PREDICTIONS, LABELS):
                duplicates.add_metric((*name, INPUTS[kind]), counts[kind])
            histogram = stream.latency
            latency.add_metric(name, _buckets(BOUNDS, histogram.counts), histogram.total / 1000)
        yield from (
            waiting, oldest, labelled, labels_waiting, late, revisions, unmatched, duplicates, latency,
            quantiles, by_class, psi, without_predictions, without_instance,
        )  # fmt: skip

    def _shards(self, runners: list[ShardRunner]) -> Iterator[Metric]:
        at = ("topic", "partition")
        records = CounterMetricFamily("prequential_records", "Records fetched", labels=at)
        lag = GaugeMetricFamily(
            "prequential_lag_records", "Records that are there but not processed", labels=at
        )
        dead = CounterMetricFamily("prequential_dead_letters", "Records not usable", labels=at)
        for runner in runners:
            for kind, topic in enumerate(INPUTS):
                where = (self._config.kafka.topic(topic), str(runner.partition))
                records.add_metric(where, runner.statistics.records[kind])
                end = self._fetcher.ends.get((kind, runner.partition))
                if end is not None:
                    lag.add_metric(where, max(0, end - runner.shard.merge.cut[kind]))
                if not runner.recovering:
                    dead.add_metric(where, runner.shard.dead_letters[kind])
        yield from (records, lag, dead)
        for name, text in (
            ("processing", "Processing a batch of records"),
            ("transactions", "Publishing outputs and journal in a transaction"),
            ("snapshots", "Writing a snapshot, beside the processing"),
            ("stall", "Copying the state for a snapshot, which holds processing up"),
        ):
            yield _durations(
                _DURATION_NAMES[name], text, [getattr(r.statistics, name) for r in runners]
            )
        size = GaugeMetricFamily(
            "prequential_snapshot_bytes", "Size of the newest snapshot", labels=("partition",)
        )
        for runner in runners:
            size.add_metric((str(runner.partition),), runner.statistics.snapshot_bytes)
        yield size
        shards = GaugeMetricFamily("prequential_shards", "Shards held", labels=("state",))
        recovering = sum(runner.recovering for runner in runners)
        shards.add_metric(("running",), len(runners) - recovering)
        shards.add_metric(("recovering",), recovering)
        yield shards
        build = GaugeMetricFamily("prequential_build_info", "The version", labels=("version",))
        build.add_metric((VERSION,), 1)
        yield build


_DURATION_NAMES = {
    "processing": "prequential_batch_processing_seconds",
    "transactions": "prequential_transaction_seconds",
    "snapshots": "prequential_snapshot_seconds",
    "stall": "prequential_snapshot_stall_seconds",
}


def _durations(name: str, text: str, durations: Iterable[Durations]) -> Metric:
    family = HistogramMetricFamily(name, text)
    counts, total = [0] * (len(DURATION_BOUNDS) + 1), 0.0
    for one in durations:
        counts = [a + b for a, b in zip(counts, one.counts)]
        total += one.total
    family.add_metric((), _buckets(DURATION_BOUNDS, counts), total)
    return family


def _buckets(bounds: Iterable[float], counts: list[int]) -> list[tuple[str, float]]:
    """Cumulative counts as Prometheus wants them."""
    rows, so_far = [], 0
    for bound, count in zip((*map(str, bounds), "+Inf"), counts):
        so_far += count
        rows.append((bound, float(so_far)))
    return rows


def _add_details(
    families: dict[str, GaugeMetricFamily], labels: tuple[str, ...], details: dict[str, Any]
) -> None:
    """Samples of the details that an estimator has."""
    for name, value in details.get("normalised", {}).items():
        families["normalised"].add_metric((*labels, name), value)
    if "class_ratio" in details:
        families["positives"].add_metric(labels, details["class_ratio"]["positives"])
        for name, value in details["class_ratio"]["gradients"].items():
            families["class_ratio_gradient"].add_metric((*labels, name), value)
    for name, (lower, upper) in details.get("intervals", {}).items():
        families["interval_lower"].add_metric((*labels, name), lower)
        families["interval_upper"].add_metric((*labels, name), upper)
    for name, value in details.get("dependence", {}).items():
        if name == "repeat":
            for of, share in value.items():
                families[name].add_metric((*labels, of), share)
        elif name == "increments":
            for of, increments in value.items():
                for order, increment in enumerate(increments, 1):
                    families["increment"].add_metric((*labels, of, str(order)), increment)
        elif name in families:
            families[name].add_metric(labels, value)

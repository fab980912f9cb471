"""The worker's state as Prometheus metrics, read at scrape time: what has moved away vanishes.

The loop that runs the shards is asked for copies, a part at a time; what is said of them is computed and
written in the thread of the scrape.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from prequential.core.catalog.streams import Entity, Stream
from prequential.core.comparisons.pair_statuses import pair_statuses
from prequential.core.delay import coverage, latency, selection
from prequential.core.delay.coverage import AT_HORIZON
from prequential.core.delay.latency import BOUNDS
from prequential.core.measures.registry import INDEX, MEASURES
from prequential.core.output.estimates import Line
from prequential.core.shard import Shard
from prequential.core.snapshot import read_snapshot
from prequential.core.snapshot.read_snapshot import Part, ReadSnapshot
from prequential.core.tables.streams import AGE, BASELINE, CORRECTION, MODEL, SEGMENT
from prequential.http.exposition import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Family, labels
from prequential.kafka.fetching import Fetcher
from prequential.program.version import VERSION
from prequential.settings.model import Config, HttpConfig, StreamConfig
from prequential.settings.stages import INITIAL, INTERMEDIATE, reported
from prequential.topics.decoding import PREDICTIONS
from prequential.topics.specs import INPUTS
from prequential.worker import compared, expecting, merged
from prequential.worker.statistics import DURATION_BOUNDS

if TYPE_CHECKING:
    from prequential.worker.merging import Merging
    from prequential.worker.runner import ShardRunner

#: Has something done in the loop that runs the shards, and gives what comes of it.
InLoop = Callable[[Callable[[], Any]], Any]

_DETAIL_HELP: dict[str, str] = {
    "normalised": "Share of all matrices of this class ratio that are no better",
    "positives": "Share of the positive class among the labels",
    "class_ratio_gradient": "How a measure moves with the class ratio alone",
    "interval_lower": "Lower bound of a share's 95 % interval",
    "interval_upper": "Upper bound of a share's 95 % interval",
    "error_autocorrelation": "Lag-1 autocorrelation of the errors",
    "error_autocorrelation_se": "Its standard error",
    "majority_share": "Share of the most frequent label",
    "persistence": "Share of labels that are the same as the one before",
    "repeat": "Share of a class's successors that are of the class, too",
    "increment": "What one more label in a row adds to its class's probability",
}

#: The others, in the order in which they are shown: what it is called, what it is, and what it says.
_FAMILIES = (
    ("outcomes_total", COUNTER, "Outcomes evaluated"),
    (
        "same_stage_info", GAUGE,
        "A stage that is the same up to now, and has no series, as no instance has had two predictions",
    ),
    ("newest_outcome_timestamp_seconds", GAUGE, "Label time of the newest outcome, as Unix time"),
    ("late_predictions_total", COUNTER, "Predictions made after their label"),
    ("expired_predictions_total", COUNTER, "Predictions whose label didn't come within the horizon"),
    ("at_horizon_predictions_total", COUNTER, "Predictions that got the class of label_at_horizon"),
    ("drift_alarms_total", COUNTER, "Drift alarms raised"),
    ("drift_threshold", GAUGE, "Threshold that the budget of false alarms has set"),
    ("open_incidents", GAUGE, "Whether a model has an incident that has neither recovered nor is over"),
    ("incident_severity", GAUGE, "Severity of the open incident, by its first cause; above 0: worse"),
    ("incident_opened_timestamp_seconds", GAUGE, "Label time at which the open incident began, as Unix time"),
    ("incidents_total", COUNTER, "Incidents opened, by the first cause named then"),
    ("objective", GAUGE, "Bounds of measures that the configuration sets"),
    ("objective_margin", GAUGE, "How much better a measure is than bound and tolerance ask; below 0: missed"),
    ("model_version_info", GAUGE, "The model's version, of its newest prediction that has met its label"),
    ("model_version_since_outcome", GAUGE, "Number of the first outcome of the model's version"),
    *compared.FAMILIES,
    *expecting.FAMILIES,
    *merged.FAMILIES,
    (
        "newest_prediction_timestamp_seconds", GAUGE,
        "Record time of a model's newest prediction in this life of the process, as Unix time",
    ),
    (
        "newest_label_timestamp_seconds", GAUGE,
        "Record time of a stream's newest label in this life of the process, as Unix time",
    ),
    ("waiting_predictions", GAUGE, "Predictions awaiting a label"),
    ("oldest_waiting_seconds", GAUGE, "Age of the oldest prediction that awaits a label"),
    (
        "labelled_ratio", GAUGE,
        "Share of predictions that had met their label by an age, of those at least as old",
    ),
    ("waiting_labels", GAUGE, "Labels awaiting a prediction"),
    ("late_labels_total", COUNTER, "Labels later than the horizon"),
    ("revisions_total", COUNTER, "Labels that were revised"),
    ("unmatched_labels_total", COUNTER, "Labels that no prediction came for within the horizon"),
    ("duplicates_total", COUNTER, "Records delivered again"),
    (
        "label_latency_quantile_seconds", GAUGE,
        "Quantiles of the time from an instance to its label, to 1 %",
    ),
    (
        "label_latency_recent_quantile_seconds", GAUGE,
        "The same of the stream's latest labels, to 4 %: of five to ten minutes, at least 100",
    ),
    (
        "labelled_by_class_ratio", GAUGE,
        "Share of predictions of a class that got a label, of those whose fate is known",
    ),
    (
        "selection_psi", GAUGE,
        "Population stability index: how the labelled differ from those without a label",
    ),
    ("instances_without_predictions_total", COUNTER, "Instances that nobody predicted within the horizon"),
    ("predictions_without_instance_total", COUNTER, "Predictions of instances of which no record came"),
    ("records_total", COUNTER, "Records fetched"),
    ("lag_records", GAUGE, "Records that are there but not processed"),
    ("dead_letters_total", COUNTER, "Records not usable"),
    ("quarantined_records_total", COUNTER, "Records passed over, since workers died at them"),
    ("lost_records_total", COUNTER, "Records that retention removed before they were taken"),
    ("misplaced_records_total", COUNTER, "Records of streams that belong to another partition"),
    ("batch_processing_seconds", HISTOGRAM, "Processing a batch of records"),
    ("transaction_seconds", HISTOGRAM, "Publishing outputs and journal in a transaction"),
    ("snapshot_seconds", HISTOGRAM, "Writing a snapshot, beside the processing"),
    ("snapshot_stall_seconds", HISTOGRAM, "Copying the state for a snapshot, which holds processing up"),
    ("snapshot_bytes", GAUGE, "Size of the newest snapshot"),
    ("shards", GAUGE, "Shards held"),
    ("shard_halted", GAUGE, "A shard that can't go on, as records that it needs are gone"),
    ("build_info", GAUGE, "The version"),
    ("config_info", GAUGE, "Digest of what the configuration says of evaluation, by consumer group"),
)  # fmt: skip

#: The quantile of all labels that is held against that of the latest ones.
_MEDIAN = "p50"

_LATENCY_HELP = "Time from an instance to its label"

#: Durations in a shard's statistics, by the metric's name.
_DURATIONS = {
    "batch_processing_seconds": "processing",
    "transaction_seconds": "transactions",
    "snapshot_seconds": "snapshots",
    "snapshot_stall_seconds": "stall",
}

#: What an objective is about: models, as wholes, in segments and at ages.
_OF_MODELS = (MODEL, SEGMENT, AGE)

#: Lines written at a stretch (some 0.3 ms), and seconds of pause thereafter: the loop lets the interpreter's
#: lock go in each of its kernels, and would else wait each time for the 5 ms that Python lets a thread go on.
_STRETCH, _PAUSE_SECONDS = 200, 0.0002


class Exporter:
    """Writes the metrics of a worker's shards."""

    def __init__(
        self, config: Config, fetcher: Fetcher, runners: dict[int, ShardRunner],
        merging: Merging | None = None,
    ) -> None:  # fmt: skip
        self._config = config
        self._merging = merging
        self._fetcher = fetcher
        self._runners = runners
        self._http = config.http
        objectives = (one.objective for one in (config.defaults, *config.streams.values()) if one.objective)
        asked = frozenset(config.http.measures).union(*(one.bounds for one in objectives))
        self._scored = read_snapshot.needs_sums(asked)

    def text(self, in_loop: InLoop) -> str:
        """All metrics; to be called in a thread that may wait for the loop."""
        scrape = _Scrape(self._http)
        scraped: list[tuple[ShardRunner, list[Part]]] = in_loop(partial(self._begin, scrape))
        for runner, parts in scraped:
            for part in parts:
                taken = in_loop(partial(self._take, scrape, runner, part))
                if taken is not None:
                    scrape.add(taken)
        if self._merging is not None:
            merged.add(scrape.families, self._merging, self._config)
        return scrape.text()

    # ---- in the loop

    def _begin(self, scrape: _Scrape) -> list[tuple[ShardRunner, list[Part]]]:
        """What is said of shards as a whole, and the parts that there are of each."""
        runners = list(self._runners.values())
        self._shards(scrape.families, runners)
        settings = {"scored": self._scored, "segments": self._http.segments}
        return [
            (runner, list(read_snapshot.parts(runner.shard.state, **settings)))
            for runner in runners
            if self._is_shown(runner)
        ]

    def _newest(self, families: dict[str, Family], shard: Shard, streams: list[int]) -> None:
        """When what came last, of these streams and their models."""
        catalog = shard.catalog
        for stream in map(catalog.streams.__getitem__, streams):
            where = labels(stream=stream.name, partition=catalog.partition)
            if came := _at(shard.newest_labels, stream.code):
                families["newest_label_timestamp_seconds"].add(where, came / 1000)
            for model, row in stream.models.items():
                if came := _at(shard.newest_predictions, row):
                    of_model = f"{where},{labels(model=model)}"
                    families["newest_prediction_timestamp_seconds"].add(of_model, came / 1000)

    def _is_shown(self, runner: ShardRunner) -> bool:
        # While a shard is restored its numbers are those of the past: a counter would seem to fall.
        return not runner.recovering and self._runners.get(runner.partition) is runner

    def _take(self, scrape: _Scrape, runner: ShardRunner, part: Part) -> ReadSnapshot | None:
        """Copies of a part; None if the shard has gone meanwhile."""
        if not self._is_shown(runner):
            return None
        self._newest(scrape.families, runner.shard, part.streams.tolist())
        shard = runner.shard
        streams = shard.catalog.streams

        def shows(stage: str, code: int, same: list[str]) -> bool:
            return self._http.shows_stage(stage, streams[code].config, same)

        expecting.add(scrape.families, shard.catalog, shard.emission.reporter, part.streams.tolist())
        comparisons = shard.emission.comparisons
        return read_snapshot.take(shard.state, comparisons, part, scored=self._scored, shows=shows)

    def _shards(self, families: dict[str, Family], runners: list[ShardRunner]) -> None:
        for runner in runners:
            for kind, topic in enumerate(INPUTS):
                where = labels(topic=self._config.kafka.topic(topic), partition=runner.partition)
                families["records_total"].add(where, runner.statistics.records[kind])
                families["misplaced_records_total"].add(where, runner.shard.misplaced[kind])
                end = self._fetcher.ends.get((kind, runner.partition))
                if end is not None:
                    families["lag_records"].add(where, max(0, end - runner.shard.merge.vector[kind]))
                if not runner.recovering:
                    families["dead_letters_total"].add(where, runner.shard.state.dead_letters[kind])
                    families["quarantined_records_total"].add(where, runner.shard.state.quarantined[kind])
                    families["lost_records_total"].add(where, runner.shard.catalog.lost[kind])
            if runner.halted is not None:
                families["shard_halted"].add(labels(partition=runner.partition), 1)
            families["snapshot_bytes"].add(
                labels(partition=runner.partition), runner.statistics.snapshot_bytes
            )
        for name, attribute in _DURATIONS.items():
            durations = [getattr(runner.statistics, attribute) for runner in runners]
            none = [0] * (len(DURATION_BOUNDS) + 1)
            counts = [sum(bins) for bins in zip(none, *(one.counts for one in durations))]
            total = float(sum(one.total for one in durations))
            families[name].add_buckets("", DURATION_BOUNDS, counts, total)
        states = Counter(_state(runner) for runner in runners)
        for state in ("running", "recovering", "halted"):
            families["shards"].add(labels(state=state), states[state])
        families["build_info"].add(labels(version=VERSION), 1)
        of_config = labels(group=self._config.group, config=self._config.digest)
        families["config_info"].add(of_config, 1)


class _Scrape:
    """One scrape: families, to which what is said of one picture after the other is added."""

    def __init__(self, http: HttpConfig) -> None:
        self._http = http
        self._measures = measures = frozenset(http.measures)
        self._shown: dict[tuple[str, ...], list[tuple[Family, int]]] = {}
        self._written = 0
        groups = frozenset(http.series)
        self._buckets, self._maturity = "latency_buckets" in groups, "maturity" in groups
        self._selection, self._thresholds = "selection" in groups, "thresholds" in groups
        kinds = [
            *((one.name, GAUGE, one.help) for one in MEASURES.values() if one.name in measures),
            *((name, GAUGE, text) for name, text in _DETAIL_HELP.items()),
            *_FAMILIES,
            ("label_latency_seconds", HISTOGRAM if self._buckets else SUMMARY, _LATENCY_HELP),
        ]
        self.families = {
            name: Family(f"prequential_{name}", kind, text) for name, kind, text in kinds
        }

    def text(self) -> str:
        """All of it."""
        return "".join(family.text() for family in self.families.values())

    def add(self, taken: ReadSnapshot) -> None:
        """What there is to say of a picture."""
        entities = [taken.catalog.entities[row] for row in taken.part.entities.tolist()]
        self._estimates(taken)
        for about in entities:
            if about is not None:
                self._counts(taken, about)
        streams = taken.catalog.streams

        def shows(estimator: str, about: Entity) -> bool:
            return self._http.shows_estimator(estimator, streams[about.stream].config)

        for standing in pair_statuses(taken.pairs, shows):
            self._pause(compared.add(self.families, taken.catalog, standing, self._http))
        for code in taken.part.streams.tolist():
            self._stream(taken, taken.catalog.streams[code])

    def _pause(self, lines: int) -> None:
        """Let others have the interpreter's lock, now and then."""
        self._written += lines
        if self._written >= _STRETCH:
            self._written = 0
            time.sleep(_PAUSE_SECONDS)

    # ---- sequences

    def _columns(self, measures: tuple[str, ...]) -> list[tuple[Family, int]]:
        """The measures of a stream that are shown."""
        if measures not in self._shown:
            self._shown[measures] = [
                (self.families[name], INDEX[name]) for name in measures if name in self._measures
            ]
        return self._shown[measures]

    def _estimates(self, taken: ReadSnapshot) -> None:
        streams, rows = taken.catalog.streams, taken.part.entities.tolist()
        partition = taken.catalog.partition
        http = self._http

        def shows(line: Line, config: StreamConfig) -> bool:
            stage = http.shows_stage(line.stage, config, line.same)
            return stage and http.shows_estimator(line.estimator, config)

        for estimate in taken.reporter.estimates(rows, shows):
            about, model, stage, estimator, state, details, _ = estimate
            stream = streams[about.stream]
            segment = {"segment": about.segment} if about.segment else {}
            where = labels(
                stream=stream.name, partition=partition, model=model, **segment, stage=stage,
                estimator=estimator,
            )  # fmt: skip
            values, reasons = state.values, state.reasons
            shown = self._columns(stream.config.measures)
            for family, column in shown:
                if not reasons[column]:
                    family.add(where, values[column])
            if details:
                self._details(where, details)
            objective = stream.config.objective
            if objective and about.kind in _OF_MODELS and model == about.model:
                for name, bound in objective.bounds.items():
                    column = INDEX[name]
                    if not reasons[column]:
                        spare = MEASURES[name].margin(values[column], bound) + objective.tolerance
                        self.families["objective_margin"].add(f'{where},measure="{name}"', spare)
            self._pause(len(shown) + 1)

    def _details(self, where: str, details: dict[str, Any]) -> None:
        """Samples of the details that an estimator has."""
        families = self.families

        def with_measure(measure: str) -> str:
            return f'{where},measure="{measure}"'

        for name, value in details.get("normalised", {}).items():
            families["normalised"].add(with_measure(name), value)
        if "class_ratio" in details:
            families["positives"].add(where, details["class_ratio"]["positives"])
            for name, value in details["class_ratio"]["gradients"].items():
                families["class_ratio_gradient"].add(with_measure(name), value)
        for name, (lower, upper) in details.get("intervals", {}).items():
            families["interval_lower"].add(with_measure(name), lower)
            families["interval_upper"].add(with_measure(name), upper)
        for name, value in details.get("dependence", {}).items():
            if name == "repeat":
                for label, share in value.items():
                    families[name].add(f"{where},{labels(class_=label)}", share)
            elif name == "increments":
                for label, increments in value.items():
                    for order, increment in enumerate(increments, 1):
                        families["increment"].add(f"{where},{labels(class_=label, order=order)}", increment)
            elif name in _DETAIL_HELP:
                families[name].add(where, value)

    # ---- what is evaluated

    def _counts(self, taken: ReadSnapshot, about: Entity) -> None:
        """Of a model, or of what is evaluated beside it: outcomes and alarms; of a segment, alarms."""
        catalog, families, row = taken.catalog, self.families, about.row
        stream, entities = catalog.streams[about.stream], catalog.registry.entities
        plan, first = catalog.plans[entities.plan[row]], int(entities.first[row])
        of_model = {"stream": stream.name, "partition": catalog.partition, "model": about.model}
        where = labels(**of_model)
        if about.kind in (MODEL, BASELINE, CORRECTION):
            families["late_predictions_total"].add(where, int(entities.late[row]))
            families["expired_predictions_total"].add(where, int(entities.expired[row]))
            if stream.config.label_at_horizon is not None and about.kind == MODEL:
                families["at_horizon_predictions_total"].add(where, int(entities.at_horizon[row]))
            if entities.outcomes[row]:
                families["newest_outcome_timestamp_seconds"].add(where, int(entities.newest_ts[row]) / 1000)
        if (standing := taken.incidents.get(row)) is not None:
            families["open_incidents"].add(where, int(bool(standing.cause)))
            if standing.cause:
                of_incident = f'{where},incident="{standing.id}"'
                families["incident_severity"].add(
                    f'{of_incident},cause="{standing.cause}"', standing.severity
                )
                families["incident_opened_timestamp_seconds"].add(of_incident, standing.since / 1000)
            for cause, count in standing.opened.items():
                families["incidents_total"].add(f'{where},cause="{cause}"', count)
        if version := int(entities.version[row]):
            families["model_version_info"].add(
                f"{where},{labels(version=stream.version_name(version))}", 1
            )
            families["model_version_since_outcome"].add(where, int(entities.version_since[row]))
        if about.segment:
            where = labels(**of_model, segment=about.segment)
        single = bool(entities.single[row])
        for stage in _stages(about, stream, single):
            same = catalog.same_as(row, stage)
            if not self._http.shows_stage(stage, stream.config, same):
                continue
            of_stage = f'{where},stage="{stage}"'
            if not about.segment:  # the model's are those of all segments
                families["outcomes_total"].add(of_stage, int(entities.outcomes[row]))
                for one in same:
                    if self._http.shows_stage(one, stream.config):
                        families["same_stage_info"].add(f'{of_stage},same="{one}"', 1)
            raised: Counter[tuple[str, str]] = Counter()
            sequence = first + plan.stages.index(stage)
            for watch in plan.watches:
                config = watch.config
                raised[config.detector, config.signal] += int(watch.table.alarms[sequence])
                if self._thresholds and (threshold := watch.threshold(sequence)) is not None:
                    of_detector = labels(detector=config.detector, signal=config.signal, params=watch.changed)
                    families["drift_threshold"].add(f"{of_stage},{of_detector}", threshold)
            for (detector, signal), alarms in raised.items():
                families["drift_alarms_total"].add(
                    f"{of_stage},{labels(detector=detector, signal=signal)}", alarms
                )
        self._pause(8)

    # ---- streams

    def _stream(self, taken: ReadSnapshot, stream: Stream) -> None:
        families, accounts = self.families, taken.accounts
        streams, code = taken.catalog.registry.streams, stream.code
        where = labels(stream=stream.name, partition=taken.catalog.partition)
        if stream.config.objective:
            for measure, bound in stream.config.objective.bounds.items():
                families["objective"].add(f'{where},measure="{measure}"', bound)
        if left_out := taken.left_out[code]:
            families["comparison_pairs_left_out"].add(where, left_out)
        if stream.config.compare == "champion" and stream.config.champion in stream.models:
            families["champion_info"].add(f"{where},{labels(model=stream.config.champion)}", 1)
        for model, row in stream.models.items():
            self._account(taken, stream, model, row)
        for name, quantiles in (
            ("label_latency_quantile_seconds", latency.quantiles),
            ("label_latency_recent_quantile_seconds", latency.recent_quantiles),
        ):
            for percentile, value in quantiles(accounts.latencies, np.array([code]))[0].items():
                if quantiles is latency.quantiles and not (self._buckets or percentile == _MEDIAN):
                    continue
                families[name].add(f'{where},percentile="{percentile}"', value / 1000)
        families["waiting_labels"].add(where, int(streams.waiting_labels[code]))
        families["late_labels_total"].add(where, int(streams.late_label[code]))
        for name, column in (
            ("instances_without_predictions_total", streams.instances_without_predictions),
            ("predictions_without_instance_total", streams.predictions_without_instance),
            ("revisions_total", streams.revisions),
            ("unmatched_labels_total", streams.unmatched_label),
        ):
            if count := int(column[code]):  # most streams have none
                families[name].add(where, count)
        counts = [int(streams.duplicate_instances[code]), 0, int(streams.duplicate_labels[code])]
        models = list(stream.models.values())
        counts[PREDICTIONS] = int(taken.catalog.registry.entities.duplicate[models].sum())
        for topic, count in zip(INPUTS, counts):
            if not count:
                continue
            families["duplicates_total"].add(f'{where},topic="{topic}"', count)
        latencies = accounts.latencies.streams
        counts, total = latencies.counts[code].tolist(), int(latencies.total[code]) / 1000
        if self._buckets:
            families["label_latency_seconds"].add_buckets(where, BOUNDS, counts, total)
        else:
            families["label_latency_seconds"].add_count(where, sum(counts))
        self._pause(30)

    def _account(self, taken: ReadSnapshot, stream: Stream, model: str, row: int) -> None:
        """What became of a model's predictions."""
        families, accounts = self.families, taken.accounts
        clock, rows = int(taken.catalog.registry.streams.clock[stream.code]), np.array([row])
        where = labels(stream=stream.name, partition=taken.catalog.partition, model=model)
        families["waiting_predictions"].add(where, int(accounts.coverage.models.waiting[row]))
        (oldest,) = coverage.oldest(accounts.coverage, rows, np.array([clock]))
        families["oldest_waiting_seconds"].add(where, oldest / 1000)
        for age, share in coverage.curve(accounts.coverage, row, clock).items():
            if self._maturity or age == AT_HORIZON:
                families["labelled_ratio"].add(f'{where},age="{age}"', share)
        self._pause(12)
        if not self._selection:
            return
        if stream.config.task == "classification":
            for label, share in selection.shares(accounts.selection, row, stream.class_names).items():
                families["labelled_by_class_ratio"].add(f"{where},{labels(class_=label)}", share)
            if (index := selection.indices(accounts.selection, rows)[0]) is not None:
                families["selection_psi"].add(f'{where},of="prediction"', index)
        for key, index in taken.reporter.segment_psi(stream, row).items():
            families["selection_psi"].add(f"{where},{labels(of=f'segment:{key}')}", index)
        self._pause(8)


def _at(column: Any, row: int) -> int:
    return int(column[row]) if row < len(column) else 0


def _state(runner: ShardRunner) -> str:
    if runner.halted is not None:
        return "halted"
    return "recovering" if runner.recovering else "running"


def _stages(about: Entity, stream: Stream, single: bool) -> list[str]:
    """The stages of an entity that have outcomes of their own, as they are configured.

    Of a `single` one, `initial` is `final`.
    """
    if about.age is not None:
        return [about.age]
    without = (INTERMEDIATE, INITIAL) if single else (INTERMEDIATE,)
    return [stage for stage in reported(stream.everywhere, stream.bins) if stage not in without]

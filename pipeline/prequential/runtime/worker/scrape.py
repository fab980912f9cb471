"""One scrape: the metric families, and the samples from copies of the state."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
from prequential.configuration.settings.model import HttpConfig
from prequential.configuration.settings.stages import INITIAL, INTERMEDIATE, reported
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.comparisons.reporting import pair_statuses
from prequential.engine.delay import coverage, latency, maturity, selection
from prequential.engine.delay.coverage import AT_HORIZON
from prequential.engine.delay.latency import BOUNDS
from prequential.engine.measures.registry import INDEX, MEASURES
from prequential.engine.output.estimates import MessageSubject
from prequential.engine.snapshot.read_snapshot import ReadSnapshot
from prequential.engine.tables.streams import AGE, BASELINE, CORRECTION, MODEL, SEGMENT
from prequential.runtime.http import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Family, labels
from prequential.runtime.worker import series
from prequential.topics.decoding import PREDICTIONS
from prequential.topics.specs import INPUTS

_DETAIL_HELP: dict[str, str] = {
    "normalised": "Share of all matrices of this class ratio that are no better",
    "positives": "Share of the positive class among the labels",
    "class_ratio_gradient": "How a measure moves with the class ratio alone",
    "interval_lower": "Lower bound of the 95% interval of a share",
    "interval_upper": "Upper bound of the 95% interval of a share",
    "error_autocorrelation": "Lag-1 autocorrelation of the errors",
    "error_autocorrelation_se": "Standard error of error_autocorrelation without any dependence",
    "majority_share": "Share of the most frequent label",
    "persistence": "Share of labels that are the same as the one before",
    "repeat": "Share of labels of a class that are followed by the same class",
    "increment": "Increase of a class's probability by one more equal label in a row",
}

#: The other families in the order in which they are shown: name, type, and help text.
_FAMILIES = (
    ("outcomes_total", COUNTER, "Outcomes evaluated"),
    ("same_stage_info", GAUGE,
     "1 if the stage `same` has been identical so far and has no series of its own"),
    ("newest_outcome_timestamp_seconds", GAUGE, "Label time of the newest outcome, as Unix time"),
    ("late_predictions_total", COUNTER, "Predictions made after their label"),
    ("expired_predictions_total", COUNTER, "Predictions without a label within the horizon"),
    ("at_horizon_predictions_total", COUNTER, "Predictions that got the class of label_at_horizon"),
    ("drift_alarms_total", COUNTER, "Drift alarms raised"),
    ("drift_threshold", GAUGE, "Threshold in force, set by alarm_budget"),
    ("open_incidents", GAUGE, "1 if a model has an open incident, 0 after its end"),
    ("incident_severity", GAUGE, "Severity of the open incident, by its first cause and grade"),
    ("incident_began_timestamp_seconds", GAUGE,
     "Label time of the change that the open incident reports, as Unix time"),
    ("incident_opened_timestamp_seconds", GAUGE,
     "Label time at which the open incident was noticed, as Unix time"),
    ("incidents_total", COUNTER, "Incidents opened, by the first cause named then"),
    ("objective", GAUGE, "Bound of a measure in the objective"),
    ("objective_margin", GAUGE, "How much better a measure is than bound and tolerance ask; below 0: missed"),
    ("model_version_info", GAUGE, "1 for the version of the model's newest labelled prediction"),
    ("model_version_since_outcome", GAUGE, "Number of the first outcome of the model's version"),
    *series.PAIR_FAMILIES,
    *series.DISPARITY_FAMILIES,
    *series.EXPECTED_FAMILIES,
    *series.MERGED_FAMILIES,
    ("newest_prediction_timestamp_seconds", GAUGE,
     "Record time of a model's newest prediction since the process started, as Unix time"),
    ("newest_label_timestamp_seconds", GAUGE,
     "Record time of a stream's newest label since the process started, as Unix time"),
    ("waiting_predictions", GAUGE, "Pending predictions"),
    ("oldest_waiting_seconds", GAUGE, "Age of the oldest pending prediction"),
    ("labelled_ratio", GAUGE,
     "Share of predictions that had met their label by an age, of those at least as old"),
    ("waiting_labels", GAUGE, "Labels awaiting a prediction"),
    ("late_labels_total", COUNTER, "Labels later than the horizon"),
    ("revisions_total", COUNTER, "Labels that were revised"),
    ("withdrawn_labels_total", COUNTER, "Labels that were withdrawn"),
    ("unmatched_labels_total", COUNTER, "Labels without a prediction within the horizon"),
    ("duplicates_total", COUNTER, "Records delivered again"),
    ("label_latency_quantile_seconds", GAUGE,
     "Quantiles of the time from an instance to its label, accurate to 1%"),
    ("label_latency_recent_quantile_seconds", GAUGE,
     "Quantiles of the label latency of the latest labels (5 to 10 minutes, at least 100), accurate to 4%"),
    ("labelled_by_class_ratio", GAUGE,
     "Share of predictions of a class that got a label, of those whose fate is known"),
    ("selection_psi", GAUGE, "Population stability index between labelled and unlabelled predictions"),
    ("instances_without_predictions_total", COUNTER, "Instances without a prediction within the horizon"),
    ("predictions_without_instance_total", COUNTER, "Predictions without an instance record"),
    ("records_total", COUNTER, "Records fetched"),
    ("lag_records", GAUGE, "Records in the topic that are not processed yet"),
    ("open_transaction_seconds", GAUGE,
     "Age of a producer's open transaction that withholds records of the topic from the worker"),
    ("dead_letters_total", COUNTER, "Invalid and quarantined records"),
    ("quarantined_records_total", COUNTER, "Records skipped because workers crashed at them"),
    ("lost_records_total", COUNTER, "Records that retention deleted before they were processed"),
    ("misplaced_records_total", COUNTER, "Records of streams that belong to another partition"),
    ("batch_processing_seconds", HISTOGRAM, "Processing a batch of records"),
    ("transaction_seconds", HISTOGRAM, "Publishing outputs and journal in a transaction"),
    ("snapshot_seconds", HISTOGRAM, "Writing a snapshot while processing goes on"),
    ("snapshot_stall_seconds", HISTOGRAM, "Copying the state for a snapshot, during which processing pauses"),
    ("snapshot_bytes", GAUGE, "Size of the newest snapshot"),
    ("shards", GAUGE, "Shards held"),
    ("shard_halted", GAUGE, "1 for a shard that halted because retention deleted records that it needs"),
    ("build_info", GAUGE, "The version"),
    ("config_info", GAUGE, "Digest of the settings that decide what is evaluated, and how"),
)  # fmt: skip

#: The quantile of all labels that is comparable with that of the latest labels.
_MEDIAN = "p50"

_LATENCY_HELP = "Time from an instance to its label"

#: Entities that an objective covers: models as wholes, in segments and at ages.
_OF_MODELS = (MODEL, SEGMENT, AGE)

#: Lines written in a row (about 0.3 ms), and seconds of pause afterwards. The event loop releases the
#: interpreter's lock in each compiled kernel. Without the pauses it would then wait up to 5 ms for the lock,
#: because Python lets a thread run for so long.
_STRETCH, _PAUSE_SECONDS = 200, 0.0002


class Scrape:
    """One scrape: collects the samples of one copy of the state after the other."""

    def __init__(self, http: HttpConfig, group: str) -> None:
        """Begin a scrape; every sample has the name of the consumer group `group` as a label."""
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
        common = labels(group=group)
        self.families = {
            name: Family(f"prequential_{name}", kind, text, common) for name, kind, text in kinds
        }

    def text(self) -> str:
        """Return the text of all families."""
        return "".join(family.text() for family in self.families.values())

    def add(self, taken: ReadSnapshot) -> None:
        """Add the samples of a copy of the state."""
        entities = [taken.catalog.entities[row] for row in taken.part.entities.tolist()]
        self._estimates(taken)
        for about in entities:
            if about is not None:
                self._counts(taken, about)
        streams = taken.catalog.streams

        def shows(estimator: str, about: Entity) -> bool:
            return self._http.shows_estimator(estimator, streams[about.stream].config)

        for standing in pair_statuses(taken.pairs, shows):
            self._pause(series.add_pair(self.families, taken.catalog, standing, self._http))
        codes = taken.part.streams
        if len(codes):
            some, latencies = [streams[code] for code in codes.tolist()], taken.accounts.latencies
            quantiles = latency.quantiles(latencies, codes), latency.recent_quantiles(latencies, codes)
            for stream, lived, recent in zip(some, *quantiles):
                self._stream(taken, stream, lived, recent)
            self._accounts(taken, some)

    def _pause(self, lines: int) -> None:
        """Release the interpreter's lock after every `_STRETCH` lines."""
        self._written += lines
        if self._written >= _STRETCH:
            self._written = 0
            time.sleep(_PAUSE_SECONDS)

    # ---- sequences

    def _columns(self, measures: tuple[str, ...]) -> list[tuple[Family, int]]:
        """Return the families and columns of those measures of a stream that are shown."""
        if measures not in self._shown:
            self._shown[measures] = [
                (self.families[name], INDEX[name]) for name in measures if name in self._measures
            ]
        return self._shown[measures]

    def _estimates(self, taken: ReadSnapshot) -> None:
        streams, rows = taken.catalog.streams, taken.part.entities.tolist()
        partition = taken.catalog.partition
        http = self._http

        def shows(line: MessageSubject, config: StreamConfig) -> bool:
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
        """Add the samples of an estimator's details."""
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
        """Add outcomes and alarms of a model, a baseline or a correction, and alarms of a segment."""
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
                    f'{of_incident},cause="{standing.cause}",grade="{standing.grade}"', standing.severity
                )
                families["incident_began_timestamp_seconds"].add(of_incident, standing.began / 1000)
                families["incident_opened_timestamp_seconds"].add(of_incident, standing.since / 1000)
            for cause, count in standing.opened.items():
                families["incidents_total"].add(f'{where},cause="{cause}"', count)
        if version := int(entities.version[row]):
            families["model_version_info"].add(f"{where},{labels(version=stream.version_name(version))}", 1)
            families["model_version_since_outcome"].add(where, int(entities.version_since[row]))
        if about.segment:
            where = labels(**of_model, segment=about.segment)
        initial_is_final = bool(entities.initial_is_final[row])
        for stage in _stages(about, stream, initial_is_final):
            same = catalog.same_as(row, stage)
            if not self._http.shows_stage(stage, stream.config, same):
                continue
            of_stage = f'{where},stage="{stage}"'
            if not about.segment:  # the count of the model covers all segments
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

    def _stream(
        self, taken: ReadSnapshot, stream: Stream, lived: dict[str, int], recent: dict[str, int]
    ) -> None:
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
        for percentile, value in lived.items():
            if self._buckets or percentile == _MEDIAN:
                families["label_latency_quantile_seconds"].add(
                    f'{where},percentile="{percentile}"', value / 1000
                )
        for percentile, value in recent.items():
            families["label_latency_recent_quantile_seconds"].add(
                f'{where},percentile="{percentile}"', value / 1000
            )
        families["waiting_labels"].add(where, int(streams.waiting_labels[code]))
        families["late_labels_total"].add(where, int(streams.late_label[code]))
        for name, column in (
            ("instances_without_predictions_total", streams.instances_without_predictions),
            ("predictions_without_instance_total", streams.predictions_without_instance),
            ("revisions_total", streams.revisions),
            ("withdrawn_labels_total", streams.withdrawn),
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

    def _accounts(self, taken: ReadSnapshot, streams: list[Stream]) -> None:
        """Add pending predictions, label coverage and selection of these streams' models."""
        families, account = self.families, taken.accounts.coverage
        owners = [(stream, model, row) for stream in streams for model, row in stream.models.items()]
        models = np.array([row for _, _, row in owners], dtype=np.int64)
        codes = np.array([stream.code for stream, _, _ in owners], dtype=np.int64)
        clocks = taken.catalog.registry.streams.clock[codes].astype(np.int64)
        for (stream, model, row), waiting, oldest, curve in zip(
            owners, account.models.waiting[models].tolist(), coverage.oldest(account, models, clocks),
            maturity.curves(account, models, clocks),
        ):  # fmt: skip
            where = labels(stream=stream.name, partition=taken.catalog.partition, model=model)
            families["waiting_predictions"].add(where, waiting)
            families["oldest_waiting_seconds"].add(where, oldest / 1000)
            for age, share in curve.items():
                if self._maturity or age == AT_HORIZON:
                    families["labelled_ratio"].add(f'{where},age="{age}"', share)
            self._pause(12)
            if self._selection:
                self._selected(taken, stream, where, row)

    def _selected(self, taken: ReadSnapshot, stream: Stream, where: str, row: int) -> None:
        """Add how a model's labelled predictions differ from its unlabelled ones."""
        families, counts = self.families, taken.accounts.selection
        if stream.config.has_classes:
            for label, share in selection.shares(counts, row, stream.class_names).items():
                families["labelled_by_class_ratio"].add(f"{where},{labels(class_=label)}", share)
            if (index := selection.indices(counts, np.array([row]))[0]) is not None:
                families["selection_psi"].add(f'{where},of="prediction"', index)
        for key, index in taken.reporter.segment_psi(stream, row).items():
            families["selection_psi"].add(f"{where},{labels(of=f'segment:{key}')}", index)
        self._pause(8)


def _stages(about: Entity, stream: Stream, initial_is_final: bool) -> list[str]:
    """Return the configured stages of an entity that have their own outcomes.

    While each instance has had one prediction, `initial` is identical to `final`.
    """
    if about.age is not None:
        return [about.age]
    without = (INTERMEDIATE, INITIAL) if initial_is_final else (INTERMEDIATE,)
    return [stage for stage in reported(stream.everywhere, stream.bins) if stage not in without]

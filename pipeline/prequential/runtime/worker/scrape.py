"""One scrape: the metric families, and the samples from copies of the state."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
from prequential.configuration.settings.http_server import HttpConfig
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
from prequential.runtime.worker import series
from prequential.topics.decoding import PREDICTIONS
from prequential.topics.specs import INPUTS
from prequential.web.http import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Family, labels

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
     "Record time of a model's newest prediction, as Unix time"),
    ("newest_label_timestamp_seconds", GAUGE,
     "Record time of a stream's newest label, as Unix time"),
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
            *(
                (measure.name, GAUGE, measure.help)
                for measure in MEASURES.values()
                if measure.name in measures
            ),
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

    def add(self, snapshot: ReadSnapshot) -> None:
        """Add the samples of a copy of the state."""
        entities = [snapshot.catalog.entities[row] for row in snapshot.part.entities.tolist()]
        self._estimates(snapshot)
        for entity in entities:
            if entity is not None:
                self._counts(snapshot, entity)
        streams = snapshot.catalog.streams

        def shows(estimator: str, entity: Entity) -> bool:
            return self._http.shows_estimator(estimator, streams[entity.stream].config)

        for standing in pair_statuses(snapshot.pairs, shows):
            self._pause(series.add_pair(self.families, snapshot.catalog, standing, self._http))
        codes = snapshot.part.streams
        if len(codes):
            shown_streams, latencies = [streams[code] for code in codes.tolist()], snapshot.accounts.latencies
            quantiles = latency.quantiles(latencies, codes), latency.recent_quantiles(latencies, codes)
            for stream, lived, recent in zip(shown_streams, *quantiles):
                self._stream(snapshot, stream, lived, recent)
            self._accounts(snapshot, shown_streams)

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

    def _estimates(self, snapshot: ReadSnapshot) -> None:
        streams, rows = snapshot.catalog.streams, snapshot.part.entities.tolist()
        partition = snapshot.catalog.partition
        http = self._http

        def shows(line: MessageSubject, config: StreamConfig) -> bool:
            stage = http.shows_stage(line.stage, config, line.same)
            return stage and http.shows_estimator(line.estimator, config)

        for estimate in snapshot.reporter.estimates(rows, shows):
            entity, model, details = estimate.entity, estimate.model, estimate.details
            stream = streams[entity.stream]
            segment = {"segment": entity.segment} if entity.segment else {}
            label_text = labels(
                stream=stream.name, partition=partition, model=model, **segment, stage=estimate.stage,
                estimator=estimate.estimator,
            )  # fmt: skip
            values, reasons = estimate.state.values, estimate.state.reasons
            shown = self._columns(stream.config.measures)
            for family, column in shown:
                if not reasons[column]:
                    family.add(label_text, values[column])
            if details:
                self._details(label_text, details)
            objective = stream.config.objective
            if objective and entity.kind in _OF_MODELS and model == entity.model:
                for name, bound in objective.bounds.items():
                    column = INDEX[name]
                    if not reasons[column]:
                        spare = MEASURES[name].margin(values[column], bound) + objective.tolerance
                        self.families["objective_margin"].add(f'{label_text},measure="{name}"', spare)
            self._pause(len(shown) + 1)

    def _details(self, label_text: str, details: dict[str, Any]) -> None:
        """Add the samples of an estimator's details."""
        families = self.families

        def with_measure(measure: str) -> str:
            return f'{label_text},measure="{measure}"'

        for name, value in details.get("normalised", {}).items():
            families["normalised"].add(with_measure(name), value)
        if "class_ratio" in details:
            families["positives"].add(label_text, details["class_ratio"]["positives"])
            for name, value in details["class_ratio"]["gradients"].items():
                families["class_ratio_gradient"].add(with_measure(name), value)
        for name, (lower, upper) in details.get("intervals", {}).items():
            families["interval_lower"].add(with_measure(name), lower)
            families["interval_upper"].add(with_measure(name), upper)
        for name, value in details.get("dependence", {}).items():
            if name == "repeat":
                for label, share in value.items():
                    families[name].add(f"{label_text},{labels(class_=label)}", share)
            elif name == "increments":
                for label, increments in value.items():
                    for order, increment in enumerate(increments, 1):
                        families["increment"].add(
                            f"{label_text},{labels(class_=label, order=order)}", increment
                        )
            elif name in _DETAIL_HELP:
                families[name].add(label_text, value)

    # ---- what is evaluated

    def _counts(self, snapshot: ReadSnapshot, entity: Entity) -> None:
        """Add outcomes and alarms of a model, a baseline or a correction, and alarms of a segment."""
        catalog, families, row = snapshot.catalog, self.families, entity.row
        stream, entities = catalog.streams[entity.stream], catalog.registry.entities
        plan, first = catalog.plans[entities.plan[row]], int(entities.first[row])
        of_model = {"stream": stream.name, "partition": catalog.partition, "model": entity.model}
        label_text = labels(**of_model)
        if entity.kind in (MODEL, BASELINE, CORRECTION):
            families["late_predictions_total"].add(label_text, int(entities.late[row]))
            families["expired_predictions_total"].add(label_text, int(entities.expired[row]))
            if stream.config.label_at_horizon is not None and entity.kind == MODEL:
                families["at_horizon_predictions_total"].add(label_text, int(entities.at_horizon[row]))
            if entities.outcomes[row]:
                families["newest_outcome_timestamp_seconds"].add(
                    label_text, int(entities.newest_ts[row]) / 1000
                )
        if (standing := snapshot.incidents.get(row)) is not None:
            families["open_incidents"].add(label_text, int(bool(standing.cause)))
            if standing.cause:
                of_incident = f'{label_text},incident="{standing.id}"'
                families["incident_severity"].add(
                    f'{of_incident},cause="{standing.cause}",grade="{standing.grade}"', standing.severity
                )
                families["incident_began_timestamp_seconds"].add(of_incident, standing.began / 1000)
                families["incident_opened_timestamp_seconds"].add(of_incident, standing.since / 1000)
            for cause, count in standing.opened.items():
                families["incidents_total"].add(f'{label_text},cause="{cause}"', count)
        if version := int(entities.version[row]):
            families["model_version_info"].add(
                f"{label_text},{labels(version=stream.version_name(version))}", 1
            )
            families["model_version_since_outcome"].add(label_text, int(entities.version_since[row]))
        if entity.segment:
            label_text = labels(**of_model, segment=entity.segment)
        initial_is_final = bool(entities.initial_is_final[row])
        for stage in _stages(entity, stream, initial_is_final):
            same = catalog.same_as(row, stage)
            if not self._http.shows_stage(stage, stream.config, same):
                continue
            of_stage = f'{label_text},stage="{stage}"'
            if not entity.segment:  # the count of the model covers all segments
                families["outcomes_total"].add(of_stage, int(entities.outcomes[row]))
                for same_stage in same:
                    if self._http.shows_stage(same_stage, stream.config):
                        families["same_stage_info"].add(f'{of_stage},same="{same_stage}"', 1)
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
        self, snapshot: ReadSnapshot, stream: Stream, lived: dict[str, int], recent: dict[str, int]
    ) -> None:
        families, accounts = self.families, snapshot.accounts
        streams, code = snapshot.catalog.registry.streams, stream.code
        label_text = labels(stream=stream.name, partition=snapshot.catalog.partition)
        if stream.config.objective:
            for measure, bound in stream.config.objective.bounds.items():
                families["objective"].add(f'{label_text},measure="{measure}"', bound)
        if left_out := snapshot.left_out[code]:
            families["comparison_pairs_left_out"].add(label_text, left_out)
        if stream.config.compare == "champion" and stream.config.champion in stream.models:
            families["champion_info"].add(f"{label_text},{labels(model=stream.config.champion)}", 1)
        for percentile, value in lived.items():
            if self._buckets or percentile == _MEDIAN:
                families["label_latency_quantile_seconds"].add(
                    f'{label_text},percentile="{percentile}"', value / 1000
                )
        for percentile, value in recent.items():
            families["label_latency_recent_quantile_seconds"].add(
                f'{label_text},percentile="{percentile}"', value / 1000
            )
        families["waiting_labels"].add(label_text, int(streams.waiting_labels[code]))
        families["late_labels_total"].add(label_text, int(streams.late_label[code]))
        for name, column in (
            ("instances_without_predictions_total", streams.instances_without_predictions),
            ("predictions_without_instance_total", streams.predictions_without_instance),
            ("revisions_total", streams.revisions),
            ("withdrawn_labels_total", streams.withdrawn),
            ("unmatched_labels_total", streams.unmatched_label),
        ):
            if count := int(column[code]):  # most streams have none
                families[name].add(label_text, count)
        counts = [int(streams.duplicate_instances[code]), 0, int(streams.duplicate_labels[code])]
        models = list(stream.models.values())
        counts[PREDICTIONS] = int(snapshot.catalog.registry.entities.duplicate[models].sum())
        for topic, count in zip(INPUTS, counts):
            if not count:
                continue
            families["duplicates_total"].add(f'{label_text},topic="{topic}"', count)
        latencies = accounts.latencies.streams
        counts, total = latencies.counts[code].tolist(), int(latencies.total[code]) / 1000
        if self._buckets:
            families["label_latency_seconds"].add_buckets(label_text, BOUNDS, counts, total)
        else:
            families["label_latency_seconds"].add_count(label_text, sum(counts))
        self._pause(30)

    def _accounts(self, snapshot: ReadSnapshot, streams: list[Stream]) -> None:
        """Add pending predictions, label coverage and selection of these streams' models."""
        families, account = self.families, snapshot.accounts.coverage
        owners = [(stream, model, row) for stream in streams for model, row in stream.models.items()]
        models = np.array([row for _, _, row in owners], dtype=np.int64)
        codes = np.array([stream.code for stream, _, _ in owners], dtype=np.int64)
        clocks = snapshot.catalog.registry.streams.clock[codes].astype(np.int64)
        for (stream, model, row), waiting, oldest, curve in zip(
            owners, account.models.waiting[models].tolist(), coverage.oldest(account, models, clocks),
            maturity.curves(account, models, clocks),
        ):  # fmt: skip
            label_text = labels(stream=stream.name, partition=snapshot.catalog.partition, model=model)
            families["waiting_predictions"].add(label_text, waiting)
            families["oldest_waiting_seconds"].add(label_text, oldest / 1000)
            for age, share in curve.items():
                if self._maturity or age == AT_HORIZON:
                    families["labelled_ratio"].add(f'{label_text},age="{age}"', share)
            self._pause(12)
            if self._selection:
                self._selected(snapshot, stream, label_text, row)

    def _selected(self, snapshot: ReadSnapshot, stream: Stream, label_text: str, row: int) -> None:
        """Add how a model's labelled predictions differ from its unlabelled ones."""
        families, counts = self.families, snapshot.accounts.selection
        if stream.config.has_classes:
            for label, share in selection.shares(counts, row, stream.class_names).items():
                families["labelled_by_class_ratio"].add(f"{label_text},{labels(class_=label)}", share)
            if (index := selection.indices(counts, np.array([row]))[0]) is not None:
                families["selection_psi"].add(f'{label_text},of="prediction"', index)
        for key, index in snapshot.reporter.segment_psi(stream, row).items():
            families["selection_psi"].add(f"{label_text},{labels(of=f'segment:{key}')}", index)
        self._pause(8)


def _stages(entity: Entity, stream: Stream, initial_is_final: bool) -> list[str]:
    """Return the configured stages of an entity that have their own outcomes.

    While each instance has had one prediction, `initial` is identical to `final`.
    """
    if entity.age is not None:
        return [entity.age]
    without = (INTERMEDIATE, INITIAL) if initial_is_final else (INTERMEDIATE,)
    return [stage for stage in reported(stream.everywhere, stream.bins) if stage not in without]

"""Writes a stream's settings to columns, where compiled loops read them."""

from __future__ import annotations

from prequential.configuration.settings.model import StreamConfig
from prequential.engine.catalog.streams import Stream
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.estimators.histograms import SCORES
from prequential.engine.measures.declaration import NO_POSITIVE, UNSEEN_POSITIVE
from prequential.engine.measures.reading import parts_asked
from prequential.engine.measures.registry import OF_PROBABILITIES, OF_TOP, OF_WEIGHTS
from prequential.engine.tables.scores import SEASONS
from prequential.engine.tables.store import NO_CLASS
from prequential.engine.tables.streams import Streams, name_hash


def reads_probabilities(config: StreamConfig) -> bool:
    """Whether probabilities of predictions mean something to a stream."""
    return _scores_probabilities(config) or _expects(config)


def reads_propensities(config: StreamConfig) -> bool:
    """Whether the probabilities of labels mean something to a stream."""
    # Where each instance gets a label, labels are not a sample, so propensities have no meaning.
    sampled = config.task != "regression" and config.label_at_horizon is None
    return sampled and not _measured(config).isdisjoint(OF_WEIGHTS)


def _measured(config: StreamConfig) -> set[str]:
    signals = (d.signal.rpartition(":")[2] for d in every_detector(config))
    return {*config.measures, *signals, config.incident_loss}


def _scores_probabilities(config: StreamConfig) -> bool:
    return config.task != "regression" and (
        not _measured(config).isdisjoint(OF_PROBABILITIES)
        or SCORES in config.details
        or config.temporal_correction
        or (config.compare != "off" and not {"log_loss", "brier"}.isdisjoint(config.compare_losses))
    )


def _expects(config: StreamConfig) -> bool:
    return config.task != "regression" and config.period is not None and config.expected


def write_settings(s: Streams, stream: Stream, ages: int) -> None:
    """Write a stream's settings to its row; its stages at an age begin at row `ages` of their table."""
    config, code = stream.config, stream.code
    numbers = config.task == "regression"
    s.name[code] = name_hash(stream.name)
    s.horizon[code], s.settle[code] = config.label_horizon, config.settle
    s.regression[code] = numbers
    s.correction[code] = config.temporal_correction and not numbers
    s.estimates[code] = config.objective is not None and config.objective.estimate is not None and not numbers
    s.probabilities[code], s.expects[code] = _scores_probabilities(config), _expects(config)
    verdicts = (config.compare != "off" and bool(config.compare_losses)) or config.disparity is not None
    s.by_cohorts[code] = verdicts or any(d.detector == "harm" for d in every_detector(config))
    s.cluster[code] = config.cluster or 0
    s.weights[code] = reads_propensities(config)
    s.reads[code], s.quantiles[code] = stream.reads, "quantiles" in stream.fields
    s.valued[code], s.quantile[code] = "value" in stream.fields, config.quantile or 0.0
    s.season[code] = config.season or 0 if SEASONS in parts_asked(config) else 0
    ranks = not numbers and not {*config.asked_measures, config.incident_loss}.isdisjoint(OF_TOP)
    s.top[code] = config.top_k if ranks else 0
    s.initial[code], s.final[code], s.bins[code] = stream.initial, stream.final, stream.bins
    s.keys[code], s.slots[code] = len(config.segments), config.segments_per_key + 1
    s.emit_outcomes[code] = config.emit_outcomes or 0
    s.ages[code], s.age_count[code] = ages, len(stream.ages)
    each = len(stream.evaluated) + 1
    kinds = 1 + int(s.correction[code]) + len(config.segments)
    s.rows_per_prediction[code] = each * kinds + 2 * len(stream.ages)
    s.rows_per_label[code] = 2 * (each + len(stream.ages)) + 2
    s.persistent[code] = s.majority[code] = NO_CLASS
    s.positive[code] = 0 if config.positive_class is None else name_hash(config.positive_class)
    s.positive_code[code] = NO_POSITIVE if config.positive_class is None else UNSEEN_POSITIVE
    s.pairs[code] = -1

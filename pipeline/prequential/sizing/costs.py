"""What things cost, as it was measured: what `prequential.sizing.model` adds up.

Fitted to the sizes `FITTED` of `tests/bench/sizes.py`, on two virtual cores, with Apache Kafka 4.1 beside the
worker: records, outcomes and snapshots while these had four times as much other work to do; a worker, its
rounds, touched sequences and the bytes of messages once more, with nothing else to do, to `idle`, `commits`,
`streams-300` and `streams-2000`; a transaction by a worker that makes none without outputs and one that
does, in turns (`streams-300`). State, series and numbers of messages are the engine's, whatever
the machine (`tests/test_sizing.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Costs:
    """What was measured (`docs/scale.md` says where and how); seconds are CPU seconds of that machine."""

    #: A second of a worker, and of each of its shards, if nothing comes.
    worker_seconds: float = 0.015
    shard_seconds: float = 0.0012
    #: A round of a shard, with its fetches.
    round_seconds: float = 4.4e-3
    #: A transaction, with its entry in the journal.
    transaction_seconds: float = 2.5e-3
    #: A record: fetched, decoded, joined.
    record_seconds: float = 2.8e-6
    #: An outcome of one stage, of a model or of one of its segments.
    outcome_seconds: float = 0.3e-6
    #: A sequence that has outcomes in a round: where these are few, its tables come from memory for each.
    touched_seconds: float = 8e-6
    #: Messages, with their JSON, and sent.
    metrics_seconds: float = 14e-6
    comparison_seconds: float = 5.5e-6
    #: A megabyte of a snapshot, written.
    snapshot_seconds_per_mb: float = 0.006

    #: Bytes of a worker that has nothing to do, with the compiled loops; of each stream and of each message a
    #: second, in objects.
    worker_bytes: float = 325e6
    stream_object_bytes: float = 50e3
    message_object_bytes: float = 10e3
    #: State: a stream, a sequence (a stage of a model or a segment), and a pair of models in a stage.
    stream_bytes: float = 3.5e3
    sequence_bytes: float = 1.2e3
    pair_bytes: float = 4.3e3
    #: … and each outcome in a window: of a sequence without and with probabilities, of a pair by right and
    #: wrong, and by a loss of another kind.
    window_bytes: float = 4.0
    window_probability_bytes: float = 45.0
    pair_window_bytes: float = 4.0
    pair_loss_bytes: float = 17.0
    #: History for incidents: of a block, how many there are at first and at most, and outcomes that bring one
    #: more; of each segment it has this share.
    block_bytes: float = 260.0
    first_blocks: float = 20.0
    most_blocks: float = 65.0
    block_outcomes: float = 8.0
    segment_history_share: float = 0.16
    #: An instance that is remembered, and each prediction of it.
    instance_bytes: float = 89.0
    prediction_bytes: float = 32.0
    segment_key_bytes: float = 45.0
    #: Resident bytes of a byte of state: tables that have grown, and the copies that snapshots are made of.
    resident_share: float = 1.75

    #: Bytes on Kafka, compressed: messages, an entry of the journal with Kafka's mark of its commit, what a
    #: transaction with outputs takes beside them in each of two topics, a byte of a snapshot's state.
    metrics_bytes: float = 290.0
    comparison_bytes: float = 94.0
    journal_bytes: float = 235.0
    transaction_bytes: float = 140.0
    snapshot_share: float = 0.22

    #: Seconds of restoring a megabyte of state, and of a shard beside it.
    restore_seconds_per_mb: float = 0.02
    restore_seconds_per_shard: float = 0.1

    #: Series: of a model, of its stages, of a stream, of a pair in a stage, by estimator; of groups that are
    #: asked for, of a model, a stream and an estimator of a pair; of a shard and of a worker; and bytes of a
    #: line of `/metrics`, of a segment's, of a pair's.
    model_series: float = 8.0
    stage_series: float = 1.0
    stream_series: float = 8.0
    pair_series: float = 5.0
    pair_estimator_series: float = 1.0
    maturity_series: float = 4.0
    selection_series: float = 3.0
    latency_series: float = 16.0
    tests_series: float = 2.0
    shard_series: float = 13.0
    worker_series: float = 60.0
    line_bytes: float = 120.0
    segment_line_bytes: float = 150.0
    pair_line_bytes: float = 146.0


MEASURED: Final = Costs()

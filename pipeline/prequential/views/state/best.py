"""The models of a stream that may be the best, from all messages so far."""

from __future__ import annotations

from prequential.views.state.history import History
from prequential.views.state.newest import ModelKey, StreamPartition
from prequential.views.wording.best_models import (
    SEVERAL,
    BestModels,
    best_models,
    in_words,
    whole_streams,
)


def sets_of(history: History, stream_partition: StreamPartition, least: int = SEVERAL) -> list[BestModels]:
    """Return the sets of a stream in a partition, with at least so many models: one by stage and loss."""
    pairs = history.pairs(*stream_partition)
    if not pairs:
        return []
    models = [key.model for key in history.models if key.stream_partition == stream_partition]
    return best_models(pairs, least, {(stream_partition.stream, stream_partition.partition): models})


def deciding_set(history: History, key: ModelKey) -> BestModels | None:
    """Return the set of a model's stream in stage `final`, by its first loss; None without three models."""
    loss = history.config.stream(key.stream).compare_losses[:1]
    whole = whole_streams(sets_of(history, key.stream_partition))
    return next((best for best in whole if [best.loss] == list(loss)), None)


def best_sentences(history: History, stream_partition: StreamPartition) -> list[str]:
    """Return a sentence for each loss about a stream with at least three models, else nothing."""
    sentences = (in_words(best) for best in whole_streams(sets_of(history, stream_partition)))
    return [f"Of all models, {sentence}." for sentence in sentences]

"""The models of a run that may be the best, as a table."""

from __future__ import annotations

from collections.abc import Iterable

from prequential.evaluation.shown import Table
from prequential.offline.replay.summary import Summary
from prequential.topics.errors import listed
from prequential.topics.outputs import Comparison
from prequential.views.wording.best_models import BestModels, best_models
from prequential.views.wording.comparing import NewestPairs

#: The columns: those of the set, and of each of its models.
_COLUMNS = ("stream", "stage", "segment", "loss", "model", "in_set", "left_at", "better")


def table_of_best_models(
    comparisons: Iterable[Comparison],
    summary: Summary,
    stage: str,
    loss: str | None,
    stream: str | None,
    segment: str | None,
) -> Table:
    """Return a row for each compared model of the selected sets; raises ValueError if there is none.

    `loss` and `stream` None stand for all; `segment` None for streams as a whole. `summary` has the models of
    streams.
    """
    pairs = NewestPairs()
    for comparison in comparisons:
        pairs.update(comparison)
    models: dict[tuple[str, int], set[str]] = {}
    for sequence in summary.sequences:
        models.setdefault((sequence.stream, 0), set()).add(sequence.model)

    sets = best_models(pairs.newest(), models=models)
    selected = [
        best for best in sets
        if stage in (best.stage, *best.same) and best.segment == segment
        and loss in (None, best.loss) and stream in (None, best.stream)
    ]  # fmt: skip
    if not selected:
        compared = dict.fromkeys(
            f"{best.stream} {best.stage} {best.loss}{'' if best.segment is None else f' {best.segment}'}"
            for best in sets
        )
        among = listed(compared) if compared else "none, because no pair of models has messages"
        given = {"stage": stage, "loss": loss, "stream": stream, "segment": segment}
        selection = ", ".join(f"{name} {value!r}" for name, value in given.items() if value is not None)
        raise ValueError(f"no two models are compared ({selection}): expected one of {among}")
    return Table(_COLUMNS, (row for best in selected for row in _rows(best, stage)))


def _rows(best: BestModels, stage: str) -> Iterable[dict[str, object]]:
    set_columns = {"stream": best.stream, "stage": stage, "segment": best.segment, "loss": best.loss}
    for model in best.models:
        yield {**set_columns, "model": model, "in_set": True, "left_at": None, "better": ""}
    for left_model in best.left:
        better = ", ".join(defeat.by for defeat in left_model.defeats)
        yield {
            **set_columns, "model": left_model.model, "in_set": False, "left_at": left_model.since,
            "better": better,
        }  # fmt: skip

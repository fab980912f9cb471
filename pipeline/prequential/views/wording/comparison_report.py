"""The comparisons of models as lines for a terminal, a report or a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prequential.configuration.settings.stages import FINAL
from prequential.engine.estimators.naming import BASELINE_PREFIX
from prequential.views.wording.best_models import SEVERAL, BestModels, best_models, in_words
from prequential.views.wording.comparing import Pair, contradicted, standing

#: Pairs that are shown.
_PAIRS = 10

#: Stream, partition, stage and loss.
_Group = tuple[str, int, str, str]


def report(pairs: Sequence[Pair], ending: str = "") -> Iterator[str]:
    """Yield lines about pairs: the difference and the verdict over the whole run, and in the latest outcomes.

    Yields nothing without pairs. Each stream has one stage, `final` if it exists. A stream with three models
    or more begins with those that may be the best. It has no pairs with a model that is worse, unless the
    latest outcomes contradict the verdict. Pairs with baselines come last, then those of a model's stages.
    `ending` names the place of further pairs.
    """
    if not pairs:
        return
    stages: dict[str, str] = {}
    for pair in pairs:
        if stages.get(pair.stream) != FINAL and not pair.is_of_stages:
            stages[pair.stream] = pair.stage
    shown = [pair for pair in pairs if pair.stage == stages.get(pair.stream) or pair.is_of_stages]
    sets = {
        (best.stream, best.partition, best.stage, best.loss): best
        for best in best_models(shown, SEVERAL) if best.segment is None
    }  # fmt: skip
    several = len({pair.stream for pair in pairs}) > 1
    yield (
        "model comparison (in brackets: confidence sequence of the loss difference over the whole run, "
        "valid at any number of looks, if dependence is short):"
    )
    for best in sets.values():
        stream = f"{best.stream} " if several else ""
        yield f"  {stream}{best.stage}: {in_words(best, str)}"
    needed = [pair for pair in shown if not _is_settled(pair, sets)]
    needed.sort(key=lambda pair: (pair.is_of_stages, pair.against.startswith(BASELINE_PREFIX)))
    for pair in needed[:_PAIRS]:
        stream = f"{pair.stream} " if several else ""
        yield f"  {stream}{pair.stage}: {standing(pair)}"
    hidden = len(shown) - min(len(needed), _PAIRS)
    if hidden:
        yield f"  … and {hidden:,} more {'pair' if hidden == 1 else 'pairs'}{ending}"


def _is_settled(pair: Pair, sets: Mapping[_Group, BestModels]) -> bool:
    """Return whether a model of the pair is worse than another one, so that its line adds little."""
    best = sets.get((pair.stream, pair.partition, pair.stage, pair.loss))
    if best is None or pair.is_of_stages or contradicted(pair):
        return False
    out = {left_model.model for left_model in best.left}
    names = out.union(best.models)
    return {pair.model, pair.against} <= names and not out.isdisjoint((pair.model, pair.against))

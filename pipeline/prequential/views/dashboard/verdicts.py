"""Find the models with a verdict against them: another model is better now."""

from __future__ import annotations

from typing import Any

from prequential.configuration.settings.stages import FINAL
from prequential.views.dashboard.history import History
from prequential.views.watching.ranking import is_baseline
from prequential.views.watching.state import ModelKey
from prequential.views.wording.comparing import A_LEADS, B_LEADS, Pair, contradicted

#: The largest number of better models that are named.
_NAMED = 3


def better_now(pair: Pair) -> str | None:
    """Return the better model of a pair by the recent verdict, or by the verdict over the whole run.

    Returns None if neither is better, or if the latest outcomes contradict the verdict over the whole run.
    """
    verdict = pair.recent.verdict if pair.recent is not None else pair.verdict
    if pair.recent is None and contradicted(pair):
        return None
    return {A_LEADS: pair.model, B_LEADS: pair.against}.get(verdict)


class Verdicts:
    """Verdicts against models, by the stream's first loss, in stage `final`, without segments.

    Verdicts of baselines are not included, because measures relative to baselines show them.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        #: By stream and partition: the version of the history, and by model the pairs with a better one.
        self._known: dict[tuple[str, int], tuple[int, dict[str, list[Pair]]]] = {}

    def against(self, key: ModelKey) -> bool:
        """Whether a model has a verdict against it; in a stream with a champion, only for the champion."""
        champion = self._history.config.stream(key.stream).champion
        return champion in (None, key.model) and bool(self._of(key))

    def better_than(self, key: ModelKey) -> list[dict[str, Any]]:
        """Return the models that are better than this one now, as the page's JSON."""
        return [
            {"name": pair.against if pair.model == key.model else pair.model, "model": pair.model,
             "against": pair.against, "stage": pair.stage, "loss": pair.loss}
            for pair in self._of(key)[:_NAMED]
        ]  # fmt: skip

    def _of(self, key: ModelKey) -> list[Pair]:
        place = key.stream, key.partition
        heard = self._history.heard.get(place, 0)
        known = self._known.get(place)
        if known is None or known[0] != heard:
            known = self._known[place] = heard, self._worse(place)
        return known[1].get(key.model, [])

    def _worse(self, place: tuple[str, int]) -> dict[str, list[Pair]]:
        loss = self._history.config.stream(place[0]).compare_losses[0]
        worse: dict[str, list[Pair]] = {}
        for pair in self._history.pairs(*place):
            names = {pair.model, pair.against}
            whole = pair.segment is None and pair.loss == loss and FINAL in (pair.stage, *pair.same)
            if whole and len(names) == 2 and not any(map(is_baseline, names)):
                better = better_now(pair)
                if better is not None:
                    [other] = names - {better}
                    worse.setdefault(other, []).append(pair)
        return worse

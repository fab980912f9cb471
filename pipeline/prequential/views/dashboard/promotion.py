"""Decide whether a challenger may replace a model, with the reasons, for a deployment's gate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prequential.configuration.settings.stages import FINAL
from prequential.engine.comparisons import A_BETTER, B_BETTER, VERDICTS
from prequential.views.dashboard.history import History
from prequential.views.watching.ranking import is_baseline
from prequential.views.watching.state import ModelKey, coverage_of
from prequential.views.wording.comparing import Pair, over_the_whole_run


class Answer(NamedTuple):
    """The answer of a condition about a model: `failed` if it holds, or if the result is unknown."""

    failed: bool
    sentence: str


def lately(better: str | None, since: int | None) -> str:
    """Return a sentence about the better model by the recent verdict; None: undecided.

    >>> lately("tree", 1300), lately(None, None)
    ('tree is better since about outcome 1,300', 'recently undecided')
    """
    if better is None:
        return "recently undecided"
    return f"{better} is better since about outcome {since:,}"


class Promotion(NamedTuple):
    """The question whether `model` may replace `champion`.

    The answer is yes if these conditions hold in each stream that has the model:

    - The stream compares the two models.
    - By the stream's first loss, in stage `final` and without segments, the recent verdict names the model.
    - The champion is not better by another loss or in a segment, over all history or recently.

    Attributes
    ----------
    model
        The challenger.
    champion
        The model to replace; None: the stream's `champion`, or each other model if the stream has none.
    """

    model: str
    champion: str | None = None

    def check(self, history: History) -> list[Answer]:
        """Return the answers, of which those against the model have failed; at least one answer."""
        answers: list[Answer] = []
        for key in sorted(history.models):
            if key.model == self.model:
                answers += self.of_stream(history, key)
        return answers or [Answer(True, f"no message is about a model {self.model!r}")]

    def of_stream(self, history: History, key: ModelKey) -> Iterator[Answer]:
        """Yield the answers for one stream, in which `key` is the challenger."""
        settings = history.config.stream(key.stream)
        champion = self.champion or settings.champion
        pairs = [
            (pair, pair.against if pair.model == self.model else pair.model)
            for pair in history.pairs(key.stream, key.partition)
            if self.model in (pair.model, pair.against) and FINAL in (pair.stage, *pair.same)
        ]  # fmt: skip
        pairs = [
            (pair, other) for pair, other in pairs
            if other == champion or (champion is None and not is_baseline(other))
        ]  # fmt: skip
        deciding = [
            (pair, other) for pair, other in pairs
            if pair.segment is None and pair.loss == settings.compare_losses[0]
        ]  # fmt: skip
        if not deciding:
            other = "another model" if champion is None else repr(champion)
            yield Answer(
                True, f"{key.stream}: {self.model} and {other} aren't compared by their final "
                f"{settings.compare_losses[0]}",
            )  # fmt: skip
        for pair, other in deciding:
            yield self._decided(pair, other)
        for pair, other in pairs:
            if (pair, other) not in deciding and other in self._leaders(pair):
                yield Answer(True, f"{self._where(pair, other)}: {other} is better")
        for model in dict.fromkeys((self.model, *(other for _, other in deciding))):
            yield from _known(history, key._replace(model=model))

    def _decided(self, pair: Pair, other: str) -> Answer:
        where = self._where(pair, other)
        better = since = None
        if pair.recent is not None:
            better, since = self._leader(pair, pair.recent.verdict), pair.recent.since
        return Answer(better != self.model, f"{where}: {lately(better, since)}; {over_the_whole_run(pair)}")

    def _where(self, pair: Pair, other: str) -> str:
        segment = "" if pair.segment is None else f" {pair.segment}"
        return f"{pair.stream}{segment} / {self.model} against {other}, {pair.loss}"

    def _leaders(self, pair: Pair) -> list[str | None]:
        """Return the better models over all history, and recently."""
        verdicts = [pair.verdict, *([] if pair.recent is None else [pair.recent.verdict])]
        return [self._leader(pair, verdict) for verdict in verdicts]

    @staticmethod
    def _leader(pair: Pair, verdict: str) -> str | None:
        return {VERDICTS[A_BETTER]: pair.model, VERDICTS[B_BETTER]: pair.against}.get(verdict)


def _known(history: History, key: ModelKey) -> Iterator[Answer]:
    """Yield an answer about a model's pending predictions, which does not affect the decision."""
    model = history.models.get(key)
    coverage = {} if model is None else coverage_of(model)
    waiting, labelled = coverage.get("waiting"), coverage.get("labelled")
    share = labelled.get("horizon") if isinstance(labelled, dict) else None
    if isinstance(waiting, int | float):
        had = f"; {share:.1%} of those before had one by the horizon" if isinstance(share, float) else ""
        yield Answer(False, f"{key.stream} / {key.model}: {waiting:,.0f} predictions wait for labels{had}")

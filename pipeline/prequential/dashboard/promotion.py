"""Whether a challenger may replace a model, and why: what a deployment's gate asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prequential.core.comparisons import A_BETTER, B_BETTER, VERDICTS
from prequential.dashboard.answer import Answer, lately
from prequential.dashboard.history import History
from prequential.settings.stages import FINAL
from prequential.watching.ranking import is_baseline
from prequential.watching.state import ModelKey, coverage_of
from prequential.wording.comparing import Pair


class Promotion(NamedTuple):
    """The question whether `model` may replace `champion`.

    It may, in a stream, if by the stream's first loss it is better now, as the verdict says that forgets what
    was before the latest change (stage `final`, the stream as a whole), and if no verdict, over all history
    or now, says that the champion is better by another loss or in a segment. The stream must compare the two.
    It must be so in each stream that has the model.

    Attributes
    ----------
    model
        The challenger.
    champion
        The model that it would replace; None: the stream's `champion`, or each other model without one.
    """

    model: str
    champion: str | None = None

    def check(self, history: History) -> list[Answer]:
        """What speaks against it (these have failed), and what for it; one failure if nothing is compared."""
        answers: list[Answer] = []
        for key in sorted(history.models):
            if key.model == self.model:
                answers += self.of_stream(history, key)
        return answers or [Answer(True, f"no message is about a model {self.model!r}")]

    def of_stream(self, history: History, key: ModelKey) -> Iterator[Answer]:
        """The same of one stream, where `key` is the challenger."""
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
        return Answer(better != self.model, f"{where}: {lately(better, since)}{self._difference(pair)}")

    def _difference(self, pair: Pair) -> str:
        """The challenger's mean loss less the champion's over all history, in brackets."""
        sign = 1 if pair.model == self.model else -1
        if pair.difference is None:
            return f" ({pair.outcomes:,} joint outcomes)"
        interval = ""
        if pair.interval is not None:
            low, high = sorted(sign * end for end in pair.interval)
            interval = f" [{low:+.3f}, {high:+.3f}]"
        return f" (whole run {sign * pair.difference:+.3f}{interval}, {pair.outcomes:,} joint outcomes)"

    def _where(self, pair: Pair, other: str) -> str:
        segment = "" if pair.segment is None else f" {pair.segment}"
        return f"{pair.stream}{segment} / {self.model} against {other}, {pair.loss}"

    def _leaders(self, pair: Pair) -> list[str | None]:
        """Who is better over all history, and now."""
        verdicts = [pair.verdict, *([] if pair.recent is None else [pair.recent.verdict])]
        return [self._leader(pair, verdict) for verdict in verdicts]

    @staticmethod
    def _leader(pair: Pair, verdict: str) -> str | None:
        return {VERDICTS[A_BETTER]: pair.model, VERDICTS[B_BETTER]: pair.against}.get(verdict)


def _known(history: History, key: ModelKey) -> Iterator[Answer]:
    """What isn't known yet of a model, which decides nothing."""
    model = history.models.get(key)
    coverage = {} if model is None else coverage_of(model)
    waiting, labelled = coverage.get("waiting"), coverage.get("labelled")
    share = labelled.get("horizon") if isinstance(labelled, dict) else None
    if isinstance(waiting, int | float):
        had = f"; {share:.1%} of those before had one by the horizon" if isinstance(share, float) else ""
        yield Answer(False, f"{key.stream} / {key.model}: {waiting:,.0f} predictions wait for labels{had}")

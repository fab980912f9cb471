"""Which model is better, in words: those of the demo, of a replay and of `watch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from prequential.core.naming import BASELINE_PREFIX
from prequential.topics.outputs import Comparison

#: Lines that are shown of pairs.
_PAIRS = 10

#: The estimator over all history, which intervals and verdicts are about.
WHOLE = "all"

#: Losses in words.
_LOSSES = {
    "error": "error", "log_loss": "log loss", "brier": "Brier score", "absolute": "absolute error",
    "squared": "squared error",
}  # fmt: skip

#: Below it three decimals are all 0.
_LEAST_SHOWN = 0.0005


class Pair(msgspec.Struct):
    """How two models of a stream stand in a stage, by one loss, over all history."""

    stream: str
    partition: int
    model: str
    against: str
    segment: str | None
    stage: str
    loss: str
    outcomes: int
    ts: int  # label time of the newest of them, epoch ms
    #: Mean loss of the model less that of `against`; None where no estimator is over all history.
    difference: float | None
    interval: tuple[float, float] | None
    level: float
    verdict: str
    since: int | None


def pair_of(said: Comparison) -> Pair:
    """What a message says of it."""
    difference = said.measures.get("difference") if said.estimator == WHOLE else None
    return Pair(
        said.stream, said.partition, said.model, said.against, said.segment, said.stage, said.loss,
        said.outcomes, said.ts, difference, said.interval, said.level, said.verdict, said.since,
    )  # fmt: skip


class Pairs:
    """The newest message of each pair, stage and loss."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int, str, str, str | None, str, str], Pair] = {}

    def update(self, said: Comparison) -> bool:
        """Take in a message; whether it says something new. One is said of each estimator, after as many."""
        of = said.stream, said.partition, said.model, said.against, said.segment, said.stage, said.loss
        before = self._found.get(of)
        same = before is not None and before.outcomes == said.outcomes and before.verdict == said.verdict
        if same and said.estimator != WHOLE:
            return False
        self._found[of] = pair = pair_of(said)
        return pair != before

    def known(self) -> list[Pair]:
        """All of them, in the order in which they came."""
        return list(self._found.values())


def report(pairs: Sequence[Pair], rest: str = "") -> Iterator[str]:
    """Lines about pairs: who leads, by how much, whether it is sure, since when. Nothing without pairs.

    Of each stream it is one stage, `final` where there is one; pairs with baselines come last, then those
    of a model's stages.
    `rest` says where more pairs are to be found.
    """
    if not pairs:
        return
    stages: dict[str, str] = {}
    for one in pairs:
        if stages.get(one.stream) != "final" and not _of_stages(one):
            stages[one.stream] = one.stage
    shown = [one for one in pairs if one.stage == stages.get(one.stream) or _of_stages(one)]
    shown.sort(key=lambda one: (_of_stages(one), one.against.startswith(BASELINE_PREFIX)))
    several = len({one.stream for one in pairs}) > 1
    share = 100 * (1 - max(one.level for one in shown))
    yield (
        "which model is better (in brackets: where the difference is, "
        f"with {share:.3g} % for all pairs and at all times):"
    )
    for one in shown[:_PAIRS]:
        stream = f"{one.stream} " if several else ""
        yield f"  {stream}{one.stage}: {standing(one)}"
    if len(shown) > _PAIRS:
        yield f"  … and {len(shown) - _PAIRS:,} more pairs{rest}"


def _of_stages(pair: Pair) -> bool:
    """Whether a model's stages are compared with each other."""
    return pair.model == pair.against


def standing(pair: Pair) -> str:
    """How a pair stands.

    >>> about = "s", 0, "nb", "tree", None, "final", "error"
    >>> standing(Pair(*about, 4000, 0, 0.031, (0.012, 0.05), 0.05, "b_better", 712))
    'tree beats nb: error lower by 0.031 (0.012 to 0.050), sure since outcome 712 of 4,000'
    """
    a, b, difference = pair.model, pair.against, pair.difference
    if _of_stages(pair):
        a, b = (f"{stage} of {pair.model}" for stage in pair.stage.split("/"))
    loss = _LOSSES.get(pair.loss, pair.loss)
    sure = pair.verdict != "undecided"
    b_leads = pair.verdict == "b_better" if sure else difference is not None and difference > 0
    leads = sure or bool(difference)
    better, worse = (b, a) if b_leads else (a, b)
    if leads:
        who = f"{better} {'beats' if sure else 'leads'} {worse}: {loss} lower"
        who += "" if difference is None else f" by {_number(abs(difference))}"
    else:
        who = f"{a} and {b}: {'difference' if difference is None else 'no difference'} in {loss}"
    if pair.interval is None:
        return f"{who}, after {pair.outcomes:,} outcomes; never sure, as there is no bound to the loss"
    low, high = pair.interval
    if leads and not b_leads:
        low, high = -high, -low
    until = f"sure since outcome {pair.since:,} of" if sure else "not sure after"
    ends = f"{_number(low)} to {_number(high)}"
    return f"{who} ({ends}), {until} {pair.outcomes:,}{'' if sure else ' outcomes'}"


def _number(value: float) -> str:
    """Three decimals, or the first digit that isn't 0.

    >>> _number(-0.0004), _number(0.0), _number(1234.5)
    ('-0.0004', '0.000', '1,234.500')
    """
    return f"{value:.1g}" if 0 < abs(value) < _LEAST_SHOWN else f"{value + 0.0:,.3f}"

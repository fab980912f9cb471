"""How scores rank outcomes, for the test oracle: plain loops over groups of equal scores.

The window ranks the scores themselves, other memories the bins of a histogram (`docs/reference/measures.md`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

RANKED = ("auc", "pr_auc")

#: Outcomes of each class, or their weight, with fewer of which a histogram's ranks have no value (contract).
LEAST = 30

#: Terms of a harmonic number that are added up one by one before the rest is an integral.
TERMS = 40


class Score(NamedTuple):
    """An outcome with probabilities: of its own positive class, None where its label says none."""

    weight: float
    p: float
    positive: str | None
    is_positive: bool


class Group(NamedTuple):
    """Outcomes of equal score: the weight of the positives, and of the negatives."""

    positives: float
    negatives: float


def own_positive(configured: str | None, label: str) -> str | None:
    """The positive class as one label says it.

    >>> own_positive(None, "false"), own_positive(None, "0"), own_positive(None, "a"), own_positive("b", "a")
    ('true', '1', None, 'b')
    """
    if configured is not None:
        return configured
    return "true" if label in ("true", "false") else "1" if label in ("0", "1") else None


def edges() -> list[float]:
    """The 199 edges between bins, rising.

    >>> len(edges()), edges()[9], edges()[99], edges()[98] + edges()[100]
    (199, 0.0001, 0.5, 1.0)
    """
    low = [1e-15, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 3.16228e-6, 1e-5, 3.16228e-5, 1e-4]
    for k in range(1, 90):
        z = -math.log(9999) * (1 - k / 90)  # the edge's logit, by Newton's steps
        for _ in range(100):
            p = 1 / (1 + math.exp(-z))
            off = 50 * p + 65 * (1 + z / math.log(9999)) - k
            z -= off / (50 * p * (1 - p) + 65 / math.log(9999))
        low.append(float(f"{1 / (1 + math.exp(-z)):.6g}"))
    return [*low, 0.5, *(1.0 - edge for edge in reversed(low))]


EDGES = edges()


def bin_of(p: float) -> int:
    """How many edges aren't above it.

    >>> bin_of(0.0), bin_of(0.5), bin_of(1.0)
    (0, 100, 199)
    """
    return sum(edge <= p for edge in EDGES)


def groups_of(scores: Iterable[Score], *, binned: bool) -> list[Group]:
    """Groups of equal score, or bin, from the lowest."""
    by_score: dict[float, list[Score]] = {}
    for one in scores:
        by_score.setdefault(bin_of(one.p) if binned else one.p, []).append(one)
    return [
        Group(
            math.fsum(one.weight for one in by_score[key] if one.is_positive),
            math.fsum(one.weight for one in by_score[key] if not one.is_positive),
        )
        for key in sorted(by_score)
    ]  # fmt: skip


def auc(groups: Sequence[Group]) -> float | str:
    """Pairs that are ranked rightly, ties by half.

    >>> auc([Group(0, 1), Group(1, 1), Group(1, 0)]), auc([Group(1, 0)]), auc([Group(0, 1)])
    (0.875, 'no_negatives', 'no_positives')
    """
    positives = sum((Fraction(one.positives) for one in groups), Fraction(0))
    negatives = sum((Fraction(one.negatives) for one in groups), Fraction(0))
    if not positives:
        return "no_positives"
    if not negatives:
        return "no_negatives"
    right = Fraction(0)
    for i, one in enumerate(groups):
        below = sum((Fraction(other.negatives) for other in groups[:i]), Fraction(0))
        right += Fraction(one.positives) * (below + Fraction(one.negatives) / 2)
    return float(right / (positives * negatives))


def harmonic_between(n: float, m: float) -> float:
    """H(n + m) - H(n) of harmonic numbers, also of fractions.

    >>> harmonic_between(0, 3) == 1 + 1 / 2 + 1 / 3, harmonic_between(2, 1)
    (True, 0.3333333333333333)
    """
    if n == int(n) and m == int(m):
        return math.fsum(1 / (n + i) for i in range(1, int(m) + 1))
    terms = [1 / (n + k) - 1 / (n + m + k) for k in range(1, TERMS + 1)]
    low, high = n + TERMS + 0.5, n + m + TERMS + 0.5

    def rest(y: float) -> float:
        return 1 / (24 * y**2) - 7 / (960 * y**4)

    return math.fsum([*terms, math.log(high / low), rest(high) - rest(low)])


def average_precision(groups: Sequence[Group]) -> float | str:
    """Mean precision over the positives, ties in the mean of all their orders.

    >>> average_precision([Group(1, 0), Group(0, 1), Group(1, 0)])
    0.8333333333333333
    >>> average_precision([Group(1, 1)])  # the positive is first or second
    0.75
    """
    positives, seen = 0.0, 0.0
    parts = []
    for p, negatives in reversed(groups):
        m = p + negatives
        if m and p:
            first = min(1.0, p)  # the positive at hand
            if m <= 1:
                parts.append(p * (positives + first) / (seen + m))
            else:
                # Of those before it in the group, each is positive with this probability.
                share = (p - first) / (m - 1)
                beyond = (positives + first - share * (seen + 1)) * harmonic_between(seen, m) / m
                parts.append(p * (share + beyond))
        positives, seen = positives + p, seen + m
    return math.fsum(parts) / positives if positives else "no_positives"


def rank_measures(
    scores: Sequence[Score], positive: str | None, *, window: bool
) -> tuple[dict[str, float], dict[str, str]]:
    """AUC and PR-AUC of scores in memory; `positive` is what the labels in memory say.

    >>> one, other = Score(1, 0.9, "1", True), Score(1, 0.2, "1", False)
    >>> rank_measures([one, other], "1", window=True)
    ({'auc': 1.0, 'pr_auc': 1.0}, {})
    >>> rank_measures([], "1", window=True)[1]["auc"], rank_measures([one], None, window=True)[1]["auc"]
    ('no_probabilities', 'no_positive_class')
    """
    own = {one.positive for one in scores}
    if positive is None or None in own or (window and len(own) > 1):
        return {}, dict.fromkeys(RANKED, "no_positive_class")
    if not scores:
        return {}, dict.fromkeys(RANKED, "no_probabilities")
    groups = groups_of(scores, binned=not window)
    found = dict(zip(RANKED, (auc(groups), average_precision(groups))))
    sides = math.fsum(one.positives for one in groups), math.fsum(one.negatives for one in groups)
    if not window and min(sides) < LEAST:
        found = {name: one if isinstance(one, str) else "too_few" for name, one in found.items()}
    values = {name: one for name, one in found.items() if not isinstance(one, str)}
    return values, {name: one for name, one in found.items() if isinstance(one, str)}


def histogram(scores: Sequence[Score], *, whole: bool) -> dict[str, Any] | None:
    """The detail `scores`: bins that have outcomes, and how many of each class; None where there are none.

    >>> histogram([Score(1, 0.5, "1", True), Score(1, 0.5, "1", False)], whole=True)
    {'bins': [100], 'negatives': [1], 'positives': [1]}
    """
    if not scores or any(one.positive is None for one in scores):
        return None
    kind = int if whole else float
    found: Mapping[int, list[float]] = {bin_of(one.p): [kind(), kind()] for one in scores}
    for one in scores:
        found[bin_of(one.p)][one.is_positive] += kind(one.weight)
    bins = sorted(found)
    return {
        "bins": bins, "negatives": [found[b][0] for b in bins], "positives": [found[b][1] for b in bins],
    }  # fmt: skip

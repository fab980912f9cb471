"""Which of a stream's models may be the best: a confidence set of models, from the verdicts of all pairs.

A *model confidence set* contains every best model with a probability of at least 1 - level (Hansen, Lunde,
Nason: The model confidence set, Econometrica 79, 2011). Theirs is for one look. Here the pairs' verdicts hold
at any number of looks, and all pairs of a stream together are ever wrong with a probability of at most
`compare_level` (see `engine.comparisons.pairing`). So this set is valid at all times at once.

*Definition.* Take one stream, partition, segment, stage and loss. A model is best if no other one has a lower
mean loss over the outcomes so far that both have. While no verdict is wrong, there is none against a best
model. So a model leaves the set while a verdict over the whole run names another one as better. It returns
when that verdict ends. The verdict `recent` has no influence: it is about other outcomes.

- Undecided, provisional and equivalent pairs remove no model. Nor do pairs that aren't compared, beyond
  `limits.pairs_per_stream` or with `compare: champion`: then the set is larger, and as sure.
- Models without any compared pair are not in the set, and are listed (`uncompared`).
- Baselines, corrections, and pairs of one model's stages have no part in it.
- *Contradictions.* Each pair is compared on its own outcomes, so verdicts can be a circle. A model is out if
  a chain of verdicts leads to it from a model to which none leads back. So models of a circle stay in the
  set unless one from outside beats them, and the set is never empty. Without circles, this is the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from prequential.configuration.settings.stages import FINAL
from prequential.engine.estimators.naming import CORRECTED_SUFFIX, is_baseline
from prequential.topics.errors import printable
from prequential.topics.outputs import BY_PARTITION
from prequential.views.wording.comparing import EQUIVALENT, LOSSES_IN_WORDS, Pair

#: With fewer models the verdict of their one pair says the same.
SEVERAL = 3

#: Models that a sentence names, at most.
_NAMED = 5


class Defeat(msgspec.Struct, frozen=True):
    """A verdict over the whole run against a model."""

    #: The better model.
    by: str
    #: Outcome of the pair at which the verdict began; None: unknown.
    since: int | None
    #: Whether the verdict that forgets now names the other one of the two.
    is_reversed: bool


class LeftModel(msgspec.Struct, frozen=True):
    """A model that is not in the set, and the verdicts against it, the earliest first."""

    model: str
    defeats: list[Defeat]

    @property
    def since(self) -> int | None:
        """Outcome at which the earliest of the present verdicts against it began."""
        return self.defeats[0].since

    @property
    def is_reversed(self) -> bool:
        """Whether it has become better than each model that beats it over the whole run."""
        return all(defeat.is_reversed for defeat in self.defeats)


class BestModels(msgspec.Struct, frozen=True):
    """The models of a stream of which any may be the best, by one loss in a stage; names are sorted."""

    stream: str
    partition: int
    segment: str | None
    stage: str
    #: Stages that are the same.
    same: list[str]
    loss: str
    #: The set.
    models: list[str]
    #: The other compared models, in the order in which they left.
    left: list[LeftModel]
    #: The probability that a best model is missing is at most this: the sum of the pairs' levels.
    level: float
    #: Those of the set that verdicts contradict: each is beaten by another one, in a circle.
    contradictory: list[str]
    #: Pairs of models of the set that aren't compared.
    missing_pairs: int
    #: Models of the stream that aren't compared with any other one.
    uncompared: list[str]
    #: Whether no pair of the set has enough outcomes or days for a verdict.
    is_early: bool
    #: Whether the models of the set, at least two, are equivalent in pairs.
    is_equivalent: bool

    def left_model(self, model: str) -> LeftModel | None:
        """Return what beats a model that is not in the set; None for all others."""
        return next((left_model for left_model in self.left if left_model.model == model), None)


#: Stream, partition, segment, stage and loss.
_Group = tuple[str, int, str | None, str, str]


def best_models(
    pairs: Iterable[Pair], least: int = 2, models: Mapping[tuple[str, int], Iterable[str]] | None = None
) -> list[BestModels]:
    """Return the set of each stream, partition, segment, stage and loss, in the order of their first pairs.

    `pairs` are the newest comparisons, in any order. Sets of fewer than `least` models are left out. `models`
    has all models of a stream and partition, as far as they are known. Time grows with the models times the
    pairs of a stream.

    >>> about = {"segment": None, "stage": "final", "loss": "error", "outcomes": 9000, "ts": 0}
    >>> numbers = {"difference": None, "interval": None, "level": 0.01, "since": None}
    >>> pairs = [
    ...     Pair("s", 0, "a", "b", **about, **numbers | {"since": 3140}, verdict="a_better"),
    ...     Pair("s", 0, "a", "c", **about, **numbers, verdict="undecided"),
    ...     Pair("s", 0, "b", "c", **about, **numbers, verdict="undecided"),
    ... ]
    >>> [best] = best_models(pairs)
    >>> best.models, [left.model for left in best.left], best.level
    (['a', 'c'], ['b'], 0.03)
    >>> in_words(best)
    'the best by error is among a and c (97% confidence); b left at outcome 3,140 (a is better)'
    """
    groups: dict[_Group, list[Pair]] = {}
    for pair in pairs:
        if not _is_of_models(pair) or pair.verdict == BY_PARTITION:
            continue
        group = pair.stream, pair.partition, pair.segment, pair.stage, pair.loss
        groups.setdefault(group, []).append(pair)
    models_of = models or {}
    sets = (_set_of(own, models_of.get((own[0].stream, own[0].partition), ())) for own in groups.values())
    return [best for best in sets if len(best.models) + len(best.left) >= least]


def _is_of_models(pair: Pair) -> bool:
    """Return whether two models are compared: neither a baseline, a correction, nor one model's stages."""
    corrected = pair.against == pair.model + CORRECTED_SUFFIX
    baselines = is_baseline(pair.model) or is_baseline(pair.against)
    return pair.model != pair.against and not corrected and not baselines


def _set_of(pairs: Sequence[Pair], all_models: Iterable[str]) -> BestModels:
    first = pairs[0]
    compared = sorted({name for pair in pairs for name in (pair.model, pair.against)})
    newest = _newest_of_couples(pairs)
    defeats: dict[str, list[Defeat]] = {model: [] for model in compared}
    for pair in newest:
        better = pair.better(pair.verdict)
        if better is not None:
            worse = pair.against if better == pair.model else pair.model
            is_reversed = pair.recent is not None and pair.better(pair.recent.verdict) == worse
            defeats[worse].append(Defeat(better, pair.since, is_reversed))

    chains = _chains(defeats)
    out = {
        worse for better, reached in chains.items() for worse in reached if better not in chains[worse]
    }  # fmt: skip
    members = [model for model in compared if model not in out]
    left = [
        LeftModel(model, sorted(defeats[model], key=lambda defeat: (defeat.since or 0, defeat.by)))
        for model in out
    ]  # fmt: skip
    left.sort(key=lambda left_model: (left_model.since or 0, left_model.model))

    of_members = [pair for pair in newest if out.isdisjoint((pair.model, pair.against))]
    possible = len(members) * (len(members) - 1) // 2
    return BestModels(
        first.stream, first.partition, first.segment, first.stage, first.same, first.loss, members, left,
        level=sum(sorted(pair.level or 0.0 for pair in pairs)),
        contradictory=[model for model in members if defeats[model]],
        missing_pairs=possible - len(of_members),
        uncompared=sorted(_uncompared(compared, all_models)),
        is_early=bool(of_members)
        and all(not pair.outcomes or pair.provisional is not None for pair in of_members),
        is_equivalent=possible > 0 and possible == len(of_members)
        and all(pair.verdict == EQUIVALENT for pair in of_members),
    )  # fmt: skip


def _newest_of_couples(pairs: Sequence[Pair]) -> list[Pair]:
    """Return one pair of each two models: the newest, if a change of the champion turned it around."""
    couples: dict[frozenset[str], Pair] = {}
    for pair in sorted(pairs, key=lambda pair: (pair.ts, pair.outcomes, pair.model)):
        couples[frozenset((pair.model, pair.against))] = pair
    return list(couples.values())


def _uncompared(compared: Sequence[str], all_models: Iterable[str]) -> Iterator[str]:
    """Yield the models that are in no pair."""
    names = {model for model in all_models if not is_baseline(model)}
    for model in names.difference(compared):
        is_correction = model.endswith(CORRECTED_SUFFIX) and model.removesuffix(CORRECTED_SUFFIX) in names
        if not is_correction:
            yield model


def _chains(defeats: Mapping[str, Sequence[Defeat]]) -> dict[str, set[str]]:
    """Return by model those to which a chain of verdicts leads from it."""
    losers: dict[str, list[str]] = {model: [] for model in defeats}
    for worse, its_defeats in defeats.items():
        for defeat in its_defeats:
            losers[defeat.by].append(worse)

    chains: dict[str, set[str]] = {}
    for model, its_losers in losers.items():
        reached: set[str] = set()
        waiting = list(its_losers)
        while waiting:
            worse = waiting.pop()
            if worse not in reached:
                reached.add(worse)
                waiting += losers[worse]
        chains[model] = reached
    return chains


def whole_streams(sets: Iterable[BestModels]) -> list[BestModels]:
    """Return the sets to show first: without segments, of stage `final` where there is one."""
    whole = [best for best in sets if best.segment is None]
    final = [best for best in whole if FINAL in (best.stage, *best.same)]
    with_final = {(best.stream, best.partition) for best in final}
    return final + [best for best in whole if (best.stream, best.partition) not in with_final]


def in_words(
    best: BestModels, shown: Callable[[str], str] = printable, with_confidence: bool = True
) -> str:  # fmt: skip
    """Return the set in one sentence without a full stop; `shown` returns a name as it is shown.

    `with_confidence`: with 1 - `level` behind it, in per cent.

    >>> early = BestModels("s", 0, None, "final", [], "error", ["a", "b", "c"], [], 0.04, [], 1, ["d"], True,
    ...     False)
    >>> in_words(early)
    'too early to tell which of a, b and c is the best by error; 1 pair of them is not compared; d is not \
compared'
    """
    loss, names = LOSSES_IN_WORDS.get(best.loss, best.loss), names_in_words(best.models, shown)
    sure = f" ({100 * (1 - best.level):.3g}% confidence)" if with_confidence else ""
    if best.contradictory:
        parts = [
            f"the best by {loss} is among {names}, whose verdicts contradict each other: each pair has "
            "outcomes of its own"
        ]
    elif best.is_early and not best.left:
        parts = [f"too early to tell which of {names} is the best by {loss}"]
    elif len(best.models) == 1:
        parts = [f"{names} is the best by {loss}{sure}"]
    elif best.is_equivalent:
        parts = [f"{names} are equivalent" + (f", and the best by {loss}{sure}" if best.left else "")]
    elif best.left:
        parts = [f"the best by {loss} is among {names}{sure}"]
    else:
        any_of = "either" if len(best.models) < SEVERAL else "any"
        parts = [f"{any_of} of {names} may be the best by {loss}"]
    parts += [
        f"{shown(left_model.model)} left{_place(left_model.since)} ({_better(left_model, shown)})"
        for left_model in best.left[:_NAMED]
    ]  # fmt: skip
    if len(best.left) > _NAMED:
        parts.append(f"{len(best.left) - _NAMED:,} more models left")
    if best.missing_pairs:
        pairs = (
            "1 pair of them is" if best.missing_pairs == 1 else f"{best.missing_pairs:,} pairs of them are"
        )
        parts.append(f"{pairs} not compared")
    if best.uncompared:
        be = "is" if len(best.uncompared) == 1 else "are"
        parts.append(f"{names_in_words(best.uncompared, shown)} {be} not compared")
    return "; ".join(parts)


def _place(since: int | None) -> str:
    return "" if since is None else f" at outcome {since:,}"


def _better(left_model: LeftModel, shown: Callable[[str], str]) -> str:
    """Return which models are better than one that left, and whether it is better now."""
    better = [defeat.by for defeat in left_model.defeats]
    text = f"{names_in_words(better, shown)} {'is' if len(better) == 1 else 'are'} better"
    return f"{text} over the whole run, but not recently" if left_model.is_reversed else text


def names_in_words(names: Sequence[str], shown: Callable[[str], str] = printable) -> str:
    """Return names in words, the first ones of many.

    >>> names_in_words(["a"]), names_in_words(["a", "b", "c"]), names_in_words(list("abcdefgh"))
    ('a', 'a, b and c', 'a, b, c, d, e and 3 more')
    """
    texts = [shown(name) for name in names[:_NAMED]]
    if len(names) > _NAMED:
        texts.append(f"{len(names) - _NAMED:,} more")
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"

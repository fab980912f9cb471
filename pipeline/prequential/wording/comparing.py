"""Which model is better, in words: those of the demo, of a replay and of `watch`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from prequential.core.estimators.naming import BASELINE_PREFIX, recency
from prequential.settings.stages import FINAL, sides
from prequential.topics.outputs import BY_PARTITION, Comparison

#: Lines that are shown of pairs.
_PAIRS = 10

#: The estimator over all history, which intervals and verdicts are about.
WHOLE = "all"

#: Losses in words.
_LOSSES = {
    "error": "error", "log_loss": "log loss", "brier": "Brier score", "absolute": "absolute error",
    "squared": "squared error", "cost": "cost",
}  # fmt: skip

#: Why there is no verdict by a loss, if it isn't that there can be none.
_UNBOUNDED = {"cost": "a value has no limit (value_limit), or was beyond it"}

#: Who is better, as verdicts say it.
A_LEADS, B_LEADS = "a_better", "b_better"

#: Below it three decimals are all 0.
_LEAST_SHOWN = 0.0005


class Latest(msgspec.Struct):
    """How two models stand in the latest outcomes: those in the memory of one estimator."""

    estimator: str
    n: float
    #: Mean loss of the model less that of `against`.
    difference: float


class Recent(msgspec.Struct):
    """The verdict that forgets what was before the latest change of the difference, where it is decided."""

    verdict: str
    #: About which outcome it holds since.
    since: int


class Pair(msgspec.Struct):
    """How two models of a stream stand in a stage, by one loss: over all history, and lately."""

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
    #: None where no estimator forgets, or none has forgotten anything yet.
    latest: Latest | None = None
    #: No record had a time: `ts` is none.
    untimed: bool = False
    #: None while it is undecided.
    recent: Recent | None = None
    #: Stages that are the same, as each instance has had one prediction of either.
    same: list[str] = []
    #: Partitions whose outcomes are missing, where it is of all partitions together.
    missing_partitions: list[int] = []

    @property
    def is_decided(self) -> bool:
        """Whether there is a verdict over the whole run."""
        return self.verdict in (A_LEADS, B_LEADS)


def pair_of(said: Comparison) -> Pair:
    """How two models stand, by one message of one estimator.

    Of another estimator than `all` its difference is that of the latest outcomes, not of the whole run.
    """
    difference = said.measures.get("difference")
    latest = None
    if said.estimator != WHOLE:
        latest, difference = latest_of({said.estimator: (said.n, difference)}, said.outcomes), None
    return Pair(
        said.stream, said.partition, said.model, said.against, said.segment, said.stage, said.loss,
        said.outcomes, said.ts, difference, said.interval, said.level, said.verdict, said.since, latest,
        said.untimed is True, recent_of(said.recent), said.same or [], said.missing_partitions or [],
    )  # fmt: skip


def recent_of(said: Mapping[str, Any]) -> Recent | None:
    """Who is better lately, by the field `recent` of a message; None where nobody is, or it isn't there."""
    since = said.get("since")
    return None if since is None else Recent(said["verdict"], since)


def latest_of(differences: Mapping[str, tuple[float, float | None]], outcomes: int) -> Latest | None:
    """The latest outcomes by the estimator that tells most of them, of n and difference by estimator.

    That is the shortest window, or else the fastest fading factor, or the shortest half-life; one that still
    remembers all `outcomes` says nothing that the whole run doesn't.

    >>> latest_of({"all": (4000, 0.031), "window:1000": (1000, -0.04), "fading:0.9": (9.5, 0.2)}, 4000)
    Latest(estimator='window:1000', n=1000, difference=-0.04)
    >>> latest_of({"window:1000": (700, 0.1)}, 700)
    """
    known = [
        Latest(name, n, difference)
        for name, (n, difference) in differences.items()
        if difference is not None and n < outcomes and recency(name) is not None
    ]
    return min(known, key=lambda one: recency(one.estimator) or (0, 0.0), default=None)


class Pairs:
    """The newest messages of each pair, stage and loss."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int, str, str, str | None, str, str], Pair] = {}

    def update(self, said: Comparison) -> bool:
        """Take in a message; returns whether it says something new.

        One is said of each estimator, after as many outcomes.
        """
        key = said.stream, said.partition, said.model, said.against, said.segment, said.stage, said.loss
        pair, before = pair_of(said), self._found.get(key)
        if before is not None and (before.outcomes, before.verdict) == (pair.outcomes, pair.verdict):
            if said.estimator != WHOLE:
                pair.difference = before.difference
            if pair.latest is None or (before.latest is not None and _sooner(before.latest, pair.latest)):
                pair.latest = before.latest
        elif before is not None and pair.latest is None:
            pair.latest = before.latest  # until its own message comes, a moment later
        self._found[key] = pair
        return pair != before

    def drop(self, model: str, stage: str) -> None:
        """Forget how a model stands in a stage."""
        for key in [one for one in self._found if one[5] == stage and model in one[2:4]]:
            del self._found[key]

    def known(self) -> list[Pair]:
        """All of them, in the order in which they came."""
        return list(self._found.values())


def _sooner(one: Latest, other: Latest) -> bool:
    """Whether one tells more of now."""
    return (recency(one.estimator) or (0, 0.0)) < (recency(other.estimator) or (0, 0.0))


def report(pairs: Sequence[Pair], ending: str = "") -> Iterator[str]:
    """Lines about pairs: who leads over the whole run, by how much, since when, and who does lately.

    Nothing without pairs.

    Of each stream it is one stage, `final` where there is one; pairs with baselines come last, then those
    of a model's stages.
    `ending` says where more pairs are to be found.
    """
    if not pairs:
        return
    stages: dict[str, str] = {}
    for one in pairs:
        if stages.get(one.stream) != FINAL and not _of_stages(one):
            stages[one.stream] = one.stage
    shown = [one for one in pairs if one.stage == stages.get(one.stream) or _of_stages(one)]
    shown.sort(key=lambda one: (_of_stages(one), one.against.startswith(BASELINE_PREFIX)))
    several = len({one.stream for one in pairs}) > 1
    yield (
        "which model is better (in brackets: the interval of the difference over the whole run, at any "
        "number of looks, if dependence is short):"
    )
    for one in shown[:_PAIRS]:
        stream = f"{one.stream} " if several else ""
        yield f"  {stream}{one.stage}: {standing(one)}"
    if len(shown) > _PAIRS:
        yield f"  … and {len(shown) - _PAIRS:,} more pairs{ending}"


def _of_stages(pair: Pair) -> bool:
    """Whether a model's stages are compared with each other."""
    return pair.model == pair.against


def standing(pair: Pair) -> str:
    """How a pair stands over the whole run and now; now first, where that says more or contradicts it.

    Now is what the verdict that forgets says, and the latest outcomes.

    >>> about = "s", 0, "nb", "tree", None, "final", "error"
    >>> whole = *about, 4000, 0, 0.031, (0.012, 0.05), 0.05, "b_better", 712
    >>> standing(Pair(*whole, Latest("window:1000", 1000, 0.02)))
    'tree beats nb over the whole run: error lower by 0.031 (0.012 to 0.050), at level 5 % since outcome 712 \
of 4,000; in the latest 1,000 outcomes, too: by 0.020'
    >>> standing(Pair(*whole, Latest("window:1000", 1000, -0.04)))
    'in the latest 1,000 outcomes nb leads tree: error lower by 0.040; but tree beats nb over the whole run: \
error lower by 0.031 (0.012 to 0.050), at level 5 % since outcome 712 of 4,000'
    >>> standing(Pair(*whole, Latest("window:1000", 1000, -0.04), recent=Recent("a_better", 2900)))
    'nb has been better than tree since about outcome 2,900, in the latest 1,000 outcomes error is lower by \
0.040; but tree beats nb over the whole run: error lower by 0.031 (0.012 to 0.050), at level 5 % since \
outcome 712 of 4,000'
    """
    said, latest, recent = _over_the_whole_run(pair), pair.latest, pair.recent
    changed = recent is not None and recent.verdict != pair.verdict
    of_now = ""
    if latest is not None:
        now, by = _leader_by(latest.difference), f"by {_number(abs(latest.difference))}"
        window = latest.estimator.startswith("window:")
        where = f"in the latest {latest.n:,.0f} outcomes" if window else f"lately ({latest.estimator})"
        if not now:
            of_now = f"{where} there is no difference"
        elif recent is not None and changed and now == recent.verdict:
            of_now = f"{where} {_loss(pair)} is lower {by}"
        elif now == leader(pair) and not changed:
            of_now = f"{where}, too: {by}"
        else:
            of_now = f"{where} {_leads(pair, now, 'leads')}: {_loss(pair)} lower {by}"
    if recent is not None and changed:
        first = f"{_leads(pair, recent.verdict, 'has been better than')} since about outcome {recent.since:,}"
        return f"{first}{of_now and f', {of_now}'}; {'but ' if contradicted(pair) else ''}{said}"
    if contradicted(pair):
        return f"{of_now}; but {said}"
    return f"{said}{of_now and f'; {of_now}'}"


def leader(pair: Pair) -> str:
    """Who is better over the whole run, by the verdict or else by the difference: `A_LEADS` and so on."""
    if pair.is_decided:
        return pair.verdict
    return _leader_by(pair.difference)


def leader_name(pair: Pair) -> str | None:
    """The model that is better over the whole run by the verdict; None while that is undecided."""
    return {A_LEADS: pair.model, B_LEADS: pair.against}.get(pair.verdict)


def contradicted(pair: Pair) -> bool:
    """Whether the model that is better over the whole run isn't so now, by verdict or the latest outcomes."""
    if not pair.is_decided:
        return False
    if pair.recent is not None and pair.recent.verdict != pair.verdict:
        return True
    return pair.latest is not None and _leader_by(pair.latest.difference) not in ("", pair.verdict)


def _leader_by(difference: float | None) -> str:
    return "" if not difference else B_LEADS if difference > 0 else A_LEADS


def _names(pair: Pair) -> tuple[str, str]:
    """A and B, by name or, where a model's stages are compared, by stage."""
    if not _of_stages(pair):
        return pair.model, pair.against
    a, b = (f"{stage} of {pair.model}" for stage in sides(pair.stage))
    return a, b


def _leads(pair: Pair, who: str, leads: str) -> str:
    """The two models, the better one first."""
    a, b = _names(pair)
    return f"{b} {leads} {a}" if who == B_LEADS else f"{a} {leads} {b}"


def _loss(pair: Pair) -> str:
    return _LOSSES.get(pair.loss, pair.loss)


def _over_the_whole_run(pair: Pair) -> str:
    a, b = _names(pair)
    difference = pair.difference
    decided, leads = pair.is_decided, leader(pair)
    better, worse = (b, a) if leads == B_LEADS else (a, b)
    if leads:
        who = f"{better} {'beats' if decided else 'leads'} {worse} over the whole run: {_loss(pair)} lower"
        who += "" if difference is None else f" by {_number(abs(difference))}"
    else:
        what = f"{'difference' if difference is None else 'no difference'} in {_loss(pair)}"
        who = f"{a} and {b} over the whole run: {what}"
    if pair.verdict == BY_PARTITION:
        missing = ", ".join(map(str, pair.missing_partitions))
        without = f", without those of partitions {missing}, which reached a limit" if missing else ""
        return f"{who}, after {pair.outcomes:,} outcomes{without}; each partition has its own verdict"
    if pair.interval is None:
        why = _UNBOUNDED.get(pair.loss, "there is no bound to the loss")
        return f"{who}, after {pair.outcomes:,} outcomes; no verdict, as {why}"
    low, high = pair.interval
    if leads == A_LEADS:
        low, high = -high, -low
    level = f"{100 * pair.level:.3g} %"
    until = (
        f"at level {level} since outcome {pair.since:,} of {pair.outcomes:,}"
        if decided
        else f"undecided at level {level} after {pair.outcomes:,} outcomes"
    )
    return f"{who} ({_number(low)} to {_number(high)}), {until}"


def _number(value: float) -> str:
    """Three decimals, or the first digit that isn't 0.

    >>> _number(-0.0004), _number(0.0), _number(1234.5)
    ('-0.0004', '0.000', '1,234.500')
    """
    return f"{value:.1g}" if 0 < abs(value) < _LEAST_SHOWN else f"{value + 0.0:,.3f}"

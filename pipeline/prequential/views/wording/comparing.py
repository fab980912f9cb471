"""Comparisons in words: of models, of segments, and with a reference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from prequential.configuration.settings.stages import sides
from prequential.engine.disparity import DIFFERS, NO_DIFFERENCE, VERDICTS
from prequential.engine.estimators.naming import recency
from prequential.topics.disparities import Disparity
from prequential.topics.errors import printable
from prequential.topics.outputs import BY_PARTITION, Comparison
from prequential.views.wording.measures import main_measure

#: The estimator over all history, to which intervals and verdicts refer.
WHOLE = "all"

#: Losses in words.
LOSSES_IN_WORDS = {
    "error": "error", "log_loss": "log loss", "brier": "Brier score", "absolute": "absolute error",
    "squared": "squared error", "cost": "cost",
}  # fmt: skip

#: Better model by verdict.
A_LEADS, B_LEADS = "a_better", "b_better"

#: The verdict that the models differ by at most `compare_margin`.
EQUIVALENT = "equivalent"

#: A part of a unit that is a rounding error.
_ROUNDING = 1e-9

#: Below this all three decimals are 0.
_LEAST_SHOWN = 0.0005


class LatestDifference(msgspec.Struct):
    """The comparison of two models in the latest outcomes: those in the memory of one estimator."""

    estimator: str
    n: float
    #: Mean loss of the model minus that of `against`.
    difference: float

    @property
    def recency(self) -> tuple[int, float]:
        """A sort key: less for an estimator that covers more recent outcomes."""
        return recency(self.estimator) or (0, 0.0)

    @property
    def outcomes_in_words(self) -> str:
        """The outcomes in words, if they are a window."""
        return f"in the latest {self.n:,.0f} outcomes" if self.estimator.startswith("window:") else ""


class Recent(msgspec.Struct):
    """The verdict since the latest change of the difference, if it is decided."""

    verdict: str
    #: Outcome since about which it holds.
    since: int


class PairKey(NamedTuple):
    """The key of comparisons: two models of a stream in a partition, by a loss, in a stage and a segment."""

    stream: str
    partition: int
    model: str
    against: str
    segment: str | None
    stage: str
    loss: str


class Pair(msgspec.Struct):
    """The comparison of two models in a stage, by one loss: over all history, and in the latest outcomes."""

    stream: str
    partition: int
    model: str
    against: str
    segment: str | None
    stage: str
    loss: str
    outcomes: int
    ts: int  # label time of the newest of them, epoch ms
    #: Mean loss of the model minus that of `against`; None without an estimator of all history.
    difference: float | None
    interval: tuple[float, float] | None
    level: float | None  # None: there is no outcome yet
    verdict: str
    since: int | None
    #: None if no estimator forgets, or none has forgotten anything yet.
    latest: LatestDifference | None = None
    #: True if no record had a time; then `ts` is not a time.
    untimed: bool = False
    #: None while the verdict is undecided.
    recent: Recent | None = None
    #: Stages that are the same, because each instance has had one prediction of either model.
    same: list[str] = []
    #: Partitions whose outcomes are missing, where it is of all partitions together.
    missing_partitions: list[int] = []
    #: Who is ahead, as in messages, until there are enough whole days for a verdict; else None.
    provisional: dict[str, Any] | None = None
    #: How many more outcomes, and days, a decision takes, as in messages; None: unknown, or decided.
    needed: dict[str, int] | None = None
    #: How often the models' predictions differ, labelled or not, as in messages; None: unknown.
    disagreement: dict[str, Any] | None = None

    @property
    def key(self) -> PairKey:
        """The models that are compared, and by what."""
        return key_of(self)

    @property
    def is_decided(self) -> bool:
        """Whether there is a verdict over the whole run."""
        return self.verdict in (A_LEADS, B_LEADS)

    @property
    def is_of_stages(self) -> bool:
        """Whether two stages of one model are compared."""
        return self.model == self.against

    def better(self, verdict: str) -> str | None:
        """Return the better model by a verdict; None if neither is better."""
        return {A_LEADS: self.model, B_LEADS: self.against}.get(verdict)


def key_of(comparison: Comparison | Pair) -> PairKey:
    """Return which models are compared, and by what; the comparisons of all estimators have the same key."""
    return PairKey(
        comparison.stream,
        comparison.partition,
        comparison.model,
        comparison.against,
        comparison.segment,
        comparison.stage,
        comparison.loss,
    )


def pair_of(comparison: Comparison) -> Pair:
    """Return the comparison in a message; an estimator other than `all` has that of the latest outcomes."""
    difference = comparison.measures.get("difference")
    latest = None
    if comparison.estimator != WHOLE:
        latest, difference = (
            latest_of({comparison.estimator: (comparison.n, difference)}, comparison.outcomes),
            None,
        )
    return Pair(
        comparison.stream, comparison.partition, comparison.model, comparison.against, comparison.segment,
        comparison.stage, comparison.loss,
        comparison.outcomes, comparison.ts, difference, comparison.interval, comparison.level,
        comparison.verdict, comparison.since, latest,
        comparison.untimed is True, recent_of(comparison.recent), comparison.same or [],
        comparison.missing_partitions or [],
        comparison.provisional or None, comparison.needed or None, disagreement_of(comparison.disagreement),
    )  # fmt: skip


def recent_of(fields: Mapping[str, Any]) -> Recent | None:
    """Return the better model by the field `recent` of a message; None if undecided or missing."""
    verdict, since = fields.get("verdict"), fields.get("since")
    return None if verdict is None or since is None else Recent(verdict, since)


def disagreement_of(fields: object) -> dict[str, Any] | None:
    """Return the field `disagreement` of a message; None if it is missing or has other contents.

    >>> disagreement_of({"share": 0.2, "at_most": None, "n": 300})
    {'share': 0.2, 'at_most': None, 'n': 300}
    >>> disagreement_of({"share": 0.2}), disagreement_of({"share": 0.2, "at_most": -1, "n": 300})
    (None, None)
    """
    if not isinstance(fields, dict):
        return None
    share, bound, count = (fields.get(name) for name in ("share", "at_most", "n"))
    is_known = isinstance(share, (int, float)) and isinstance(count, (int, float))
    has_bound = isinstance(bound, (int, float)) and bound > 0
    clusters = fields.get("provisional") or {}
    are_numbers = isinstance(clusters, dict) and all(isinstance(n, (int, float)) for n in clusters.values())
    return fields if is_known and (bound is None or has_bound) and are_numbers else None


def latest_of(
    differences: Mapping[str, tuple[float, float | None]], outcomes: int
) -> LatestDifference | None:
    """Return the latest outcomes, by the estimator that covers the most recent ones.

    That is the shortest window, else the fastest fading factor, else the shortest half-life. An estimator
    that still remembers all `outcomes` adds nothing to the whole run. `differences`: n and difference by
    estimator.

    >>> latest_of({"all": (4000, 0.031), "window:1000": (1000, -0.04), "fading:0.9": (9.5, 0.2)}, 4000)
    LatestDifference(estimator='window:1000', n=1000, difference=-0.04)
    >>> latest_of({"window:1000": (700, 0.1)}, 700)
    """
    candidates = [
        LatestDifference(name, n, difference)
        for name, (n, difference) in differences.items()
        if difference is not None and n < outcomes and recency(name) is not None
    ]
    return min(candidates, key=lambda candidate: candidate.recency, default=None)


class NewestPairs:
    """The newest messages of each pair, stage and loss."""

    def __init__(self) -> None:
        self._pairs: dict[PairKey, Pair] = {}

    def update(self, comparison: Comparison) -> bool:
        """Store a message; return whether it changes the comparison.

        Each estimator has a message after as many outcomes.
        """
        key, pair = key_of(comparison), pair_of(comparison)
        before = self._pairs.get(key)
        if before is not None and (before.outcomes, before.verdict) == (pair.outcomes, pair.verdict):
            if comparison.estimator != WHOLE:
                pair.difference = before.difference
            latest = before.latest
            if pair.latest is None or (latest is not None and latest.recency < pair.latest.recency):
                pair.latest = latest
        elif before is not None and pair.latest is None:
            pair.latest = before.latest  # until its own message comes, a moment later
        self._pairs[key] = pair
        return pair != before

    def drop(self, model: str, stage: str) -> None:
        """Forget the comparisons of a model in a stage."""
        for key in [key for key in self._pairs if key.stage == stage and model in (key.model, key.against)]:
            del self._pairs[key]

    def newest(self) -> list[Pair]:
        """Return all comparisons, in the order in which they began."""
        return list(self._pairs.values())


def standing(pair: Pair) -> str:
    """Return the comparison in words: the whole run, and the latest outcomes by `recent` and `latest`.

    The latest outcomes come first if they contradict the whole run.

    >>> about = "s", 0, "nb", "tree", None, "final", "error"
    >>> whole = *about, 4000, 0, 0.031, (0.012, 0.05), 0.05, "b_better", 712
    >>> standing(Pair(*whole, LatestDifference("window:1000", 1000, 0.02)))
    'tree beats nb over the whole run: error lower by 0.031 (0.012 to 0.050), since outcome 712 of 4,000 at \
95% confidence; also in the latest 1,000 outcomes: by 0.020'
    >>> standing(Pair(*whole, LatestDifference("window:1000", 1000, -0.04)))
    'in the latest 1,000 outcomes nb vs tree: error lower by 0.040; but tree beats nb over the whole run: \
error lower by 0.031 (0.012 to 0.050), since outcome 712 of 4,000 at 95% \
confidence'
    >>> standing(Pair(*whole, LatestDifference("window:1000", 1000, -0.04), recent=Recent("a_better", 2900)))
    'recently nb is better than tree, since about outcome 2,900, in the latest 1,000 outcomes error is lower \
by 0.040; but tree beats nb over the whole run: error lower by 0.031 (0.012 to 0.050), since outcome 712 \
of 4,000 at 95% confidence'
    """
    whole_run, latest, recent = over_the_whole_run(pair), pair.latest, pair.recent
    changed = recent is not None and recent.verdict != pair.verdict
    of_now = ""
    if latest is not None:
        now, by = _leader_by(latest.difference), f"by {_number(abs(latest.difference))}"
        outcomes_shown = latest.outcomes_in_words or f"recently ({latest.estimator})"
        if not now:
            of_now = f"{outcomes_shown} there is no difference"
        elif recent is not None and changed and now == recent.verdict:
            of_now = f"{outcomes_shown} {_loss(pair)} is lower {by}"
        elif now == leader(pair) and not changed:
            of_now = f"also {outcomes_shown}: {by}"
        else:
            of_now = f"{outcomes_shown} {_leads(pair, now, 'vs')}: {_loss(pair)} lower {by}"
    if recent is not None and changed:
        leading = _leads(pair, recent.verdict, "is better than")
        first = f"recently {leading}, since about outcome {recent.since:,}"
        return f"{first}{of_now and f', {of_now}'}; {'but ' if contradicted(pair) else ''}{whole_run}"
    if contradicted(pair):
        return f"{of_now}; but {whole_run}"
    return f"{whole_run}{of_now and f'; {of_now}'}"


def leader(pair: Pair) -> str:
    """Return the better model over the whole run by verdict, else by difference: `A_LEADS` and so on."""
    return pair.verdict if pair.is_decided else _leader_by(pair.difference)


def promotion_reason(
    pair: Pair, challenger: str, now: str | None, failed: Sequence[str], margin: float | None = None
) -> str:
    """Return why a challenger may, or may not, replace the other model; `now` is the better model now.

    `failed` are the conditions against it, the first one about the verdict itself unless `now` is it.
    `margin` is the stream's `compare_margin`.
    """
    rival = pair.against if pair.model == challenger else pair.model
    if now == challenger:
        since = "" if pair.recent is None else f" since about outcome {pair.recent.since:,}"
        text = f"{challenger} makes the lower {_loss(pair)} by recent outcomes{since}"
        if failed:
            return f"{text}, but {failed[0]}."
        whole = pair.better(pair.verdict)
        basis = f"over the whole run {whole} is better" if whole else "the whole run is undecided"
        return f"{text}; {basis}. {rival} is not proven better in any segment or by any other loss."
    if now == rival:
        return f"{rival} is better by recent outcomes, by its {_loss(pair)}."
    agreement = agreement_in_words(pair.disagreement)
    if pair.verdict != EQUIVALENT and is_within_margin(pair, margin):
        return (
            f"{challenger} and {rival} are equivalent by their predictions alone: {agreement}, within the "
            "margin. Choose by cost or speed."
        )
    if not pair.outcomes:
        return f"No labels yet: {agreement}."
    if pair.provisional is not None:
        return f"No verdict yet: {waiting_in_words(pair.provisional, *_names(pair))}."
    if pair.verdict == EQUIVALENT:
        low, high = pair.interval or (0.0, 0.0)
        return (
            f"{challenger} and {rival} are equivalent: their {_loss(pair)} differs by at most "
            f"{_number(max(abs(low), abs(high)))}, within the margin. Choose by cost or speed."
        )
    more = more_in_words(pair.needed)
    takes = "" if not more else f" A decision takes {more.removeprefix(', ')}."
    text = f"Neither {challenger} nor {rival} is proved better since the latest change"
    latest = pair.latest
    sign = 1 if challenger == pair.against else -1
    if latest is not None and sign * latest.difference > 0:
        by = f"{_number(abs(latest.difference))} {latest.outcomes_in_words or f'by {latest.estimator}'}"
        return f"{text}. The {_loss(pair)} of {challenger} is lower by {by}, but one look is no proof.{takes}"
    return f"{text}.{takes}"


def whole_verdict(pair: Pair) -> str:
    """Return the verdict over the whole run in plain words, or what it still needs.

    >>> about = "s", 0, "nb", "tree", None, "final", "error", 4000, 0, 0.031, (-0.01, 0.05), 0.05
    >>> whole_verdict(Pair(*about, "b_better", 712))
    'tree is better, since outcome 712'
    >>> whole_verdict(Pair(*about, "undecided", None, needed={"outcomes": 21000, "days": 40}))
    'undecided, about 40 more days at this pace'
    >>> whole_verdict(Pair(*about, "undecided", None, provisional={"verdict": "b_better", "days": 2, \
"needed": 8}))
    'too early: 2 of 8 days, tree is ahead'
    """
    better = pair.better(pair.verdict)
    since = "" if pair.since is None else f", since outcome {pair.since:,}"
    if better is not None:
        return f"{better} is better{since}"
    if pair.verdict == EQUIVALENT:
        return f"equivalent: the difference is within the margin{since}"
    if not pair.outcomes:
        return "no labels yet"
    if pair.verdict == BY_PARTITION:
        return "each partition has its own verdict"
    if pair.provisional is not None:
        unit = "days" if "days" in pair.provisional else "clusters"
        seen, wanted = pair.provisional.get(unit, 0), pair.provisional.get("needed")
        ahead = dict(zip((A_LEADS, B_LEADS), _names(pair))).get(pair.provisional.get("verdict", ""))
        return f"too early: {seen} of {wanted} {unit}{'' if ahead is None else f', {ahead} is ahead'}"
    return f"undecided{more_in_words(pair.needed)}"


def contradicted(pair: Pair) -> bool:
    """Return whether the latest outcomes, or `recent`, contradict the better model over the whole run."""
    if not pair.is_decided:
        return False
    if pair.recent is not None and pair.recent.verdict != pair.verdict:
        return True
    return pair.latest is not None and _leader_by(pair.latest.difference) not in ("", pair.verdict)


def _leader_by(difference: float | None) -> str:
    return "" if not difference else B_LEADS if difference > 0 else A_LEADS


def _names(pair: Pair) -> tuple[str, str]:
    """Return A and B: by name, or by stage if a model's stages are compared."""
    if not pair.is_of_stages:
        return pair.model, pair.against
    a, b = (f"{stage} of {pair.model}" for stage in sides(pair.stage))
    return a, b


def _leads(pair: Pair, verdict: str, leads: str) -> str:
    """Return the two models, the better one first."""
    a, b = _names(pair)
    return f"{b} {leads} {a}" if verdict == B_LEADS else f"{a} {leads} {b}"


def _loss(pair: Pair) -> str:
    return LOSSES_IN_WORDS.get(pair.loss, pair.loss)


def over_the_whole_run(pair: Pair) -> str:
    """Return which model is better over the whole run, by how much, and how sure that is."""
    agreement = "" if pair.is_decided else agreement_in_words(pair.disagreement)
    if not pair.outcomes and agreement:
        return f"{pair.model} and {pair.against} have no labels yet; {agreement}"
    return f"{_outcomes_so_far(pair)}{agreement and f'; {agreement}'}"


def _outcomes_so_far(pair: Pair) -> str:
    """Return `over_the_whole_run` as far as it is about outcomes."""
    a, b = _names(pair)
    difference = pair.difference
    decided, leads = pair.is_decided, leader(pair)
    better, worse = (b, a) if leads == B_LEADS else (a, b)
    if leads:
        sentence = f"{better} {'beats' if decided else 'vs'} {worse} over the whole run: {_loss(pair)} lower"
        sentence += "" if difference is None else f" by {_number(abs(difference))}"
    else:
        no_leader = f"{'difference' if difference is None else 'no difference'} in {_loss(pair)}"
        sentence = f"{a} and {b} over the whole run: {no_leader}"
    if pair.verdict == BY_PARTITION:
        missing = ", ".join(map(str, pair.missing_partitions))
        without = f", without those of partitions {missing}, which reached a limit" if missing else ""
        return f"{sentence}, after {pair.outcomes:,} outcomes{without}; each partition has its own verdict"
    if pair.provisional is not None:
        waiting = waiting_in_words(pair.provisional, a, b)
        return f"{sentence} after {pair.outcomes:,} outcomes; {waiting}"
    if pair.verdict == EQUIVALENT:
        sentence = f"{a} and {b} are equivalent over the whole run: {_loss(pair)} differs"
        sentence += "" if difference is None else f" by {_number(abs(difference))}"
    if pair.interval is None:
        return f"{sentence}, undecided after {pair.outcomes:,} outcomes"
    low, high = pair.interval
    if leads == A_LEADS:
        low, high = -high, -low
    begun = "after" if pair.since is None else f"since outcome {pair.since:,} of"
    until = (
        f"{begun} {pair.outcomes:,} at {100 * (1 - (pair.level or 0.0)):.4g}% confidence"
        if decided or pair.verdict == EQUIVALENT
        else f"undecided after {pair.outcomes:,} outcomes{more_in_words(pair.needed)}"
    )
    return f"{sentence} ({_number(low)} to {_number(high)}), {until}"


def agreement_in_words(disagreement: Mapping[str, Any] | None) -> str:
    """Return how often two models disagree, and what that says of their accuracies; "": unknown.

    >>> agreement_in_words({"share": 0.005, "at_most": 0.006, "n": 100000})
    'they disagree on 0.5% of 100,000 predictions: accuracies differ by at most 0.6 points'
    >>> agreement_in_words({"share": 0.2, "at_most": None, "n": 300})
    'they disagree on 20.0% of 300 first predictions'
    >>> early = {"provisional": {"days": 2, "needed": 8}}
    >>> agreement_in_words({"share": 0.005, "at_most": 0.007, "n": 9000, **early})
    'they disagree on 0.5% of 9,000 predictions: accuracies differ by at most 0.7 points in these 2 days; \
not yet known for other days (that takes 8)'
    """
    if not disagreement:
        return ""
    share, bound, count = disagreement["share"], disagreement["at_most"], disagreement["n"]
    first = "first " if bound is None else ""
    text = f"they disagree on {_percent(share)}% of {count:,} {first}predictions"
    if bound is None or bound >= 1.0:
        return text
    text += f": accuracies differ by at most {_points(bound)} points"
    provisional = disagreement.get("provisional")
    if provisional:
        unit = "days" if "days" in provisional else "clusters"
        seen, needed = provisional.get(unit, 0), provisional.get("needed")
        so_far = f"these {seen} {unit}" if seen > 1 else f"less than {seen + 2} {unit}"
        text += f" in {so_far}; not yet known for other {unit} (that takes {needed})"
    return text


def is_within_margin(pair: Pair, margin: float | None) -> bool:
    """Return whether the models' predictions alone show that their errors differ by at most the margin."""
    disagreement = pair.disagreement
    if not margin or not disagreement or pair.loss != "error" or disagreement["at_most"] is None:
        return False
    return bool(disagreement["at_most"] <= margin) and not disagreement.get("provisional")


def _percent(share: float) -> str:
    """Return a share in percent with one decimal, or up to its first digit.

    >>> _percent(0.005), _percent(0.00003), _percent(0.0)
    ('0.5', '0.003', '0.0')
    """
    percent, digits = 100 * share, 1
    while 0.0 < percent < 10.0**-digits:
        digits += 1
    return f"{percent:,.{digits}f}"


def _points(share: float) -> str:
    """Return a share in points with two digits, rounded up.

    >>> _points(0.006), _points(0.00601), _points(0.1234)
    ('0.6', '0.61', '13')
    """
    points = 100 * share
    unit = 10.0 ** (1 - math.floor(math.log10(points)))
    return f"{math.ceil(points * unit - _ROUNDING) / unit:.3g}"


def more_in_words(needed: Mapping[str, int] | None) -> str:
    """Return what a decision takes, behind a comma.

    >>> more_in_words({"outcomes": 21000, "days": 40}), more_in_words(None)
    (', about 40 more days at this pace', '')
    """
    for unit in ("days", "clusters", "outcomes"):
        if needed and unit in needed:
            return f", about {needed[unit]:,} more {unit if needed[unit] > 1 else unit[:-1]} at this pace"
    return ""


def waiting_in_words(provisional: Mapping[str, Any], a: str, b: str) -> str:
    """Return who is ahead in the days so far, and how many days a verdict needs (`Pair.provisional`).

    >>> waiting_in_words({"verdict": "b_better", "days": 2, "needed": 8}, "nb", "tree")
    'tree is ahead in these 2 days; not yet known for other days (a verdict needs 8)'
    >>> waiting_in_words({"verdict": "undecided", "days": 0, "needed": 8}, "nb", "tree")
    'undecided in less than 2 days (a verdict needs 8)'
    """
    unit = "days" if "days" in provisional else "clusters"
    count, needed = provisional.get(unit, 0), provisional.get("needed")
    so_far = f"these {count} {unit}" if count > 1 else f"less than {count + 2} {unit}"
    leading = {A_LEADS: a, B_LEADS: b}.get(provisional.get("verdict", ""))
    if leading is None:
        return f"undecided in {so_far} (a verdict needs {needed})"
    return f"{leading} is ahead in {so_far}; not yet known for other {unit} (a verdict needs {needed})"


def _number(value: float) -> str:
    """Format a number with three decimals, or up to the first digit that is not 0.

    >>> _number(-0.0004), _number(0.0), _number(1234.5)
    ('-0.0004', '0.000', '1,234.500')
    """
    return f"{value:.1g}" if 0 < abs(value) < _LEAST_SHOWN else f"{value + 0.0:,.3f}"


def sentence(disparity: Disparity) -> str:
    """Return whether segments of a key differ in one line: which, by how much, since when.

    >>> about = "", "s", 0, "m", "final", "region", "error", 4000, 0
    >>> groups = {"east": {"n": 788, "value": 0.35}, "north": {"n": 2015, "value": 0.14}}
    >>> more = "east", "north", 0.21, 0.4, (0.098, 0.48), 0.05, 0.0
    >>> sentence(Disparity(*about, groups, *more, "differs", 1664, ""))
    's/m final: error differs between segments of region: east 0.350, north 0.140; by at least 0.098, since \
outcome 1,664 of 4,000'
    >>> sentence(Disparity(*about, {}, None, None, None, None, None, 0.05, 0.0, "too_few", None, ""))
    's/m final: error of segments of region: too few outcomes or clusters to compare, of 4,000'
    """
    subject = f"{printable(disparity.stream)}/{printable(disparity.model)} {disparity.stage}"
    measure, segments = disparity.measure.replace("_", " "), f"segments of {printable(disparity.key)}"
    if disparity.verdict == VERDICTS[DIFFERS] and disparity.interval is not None:
        largest, smallest = (
            "" if name is None else f"{printable(name)} {disparity.groups[name]['value']:.3f}"
            for name in (disparity.largest, disparity.smallest)
        )
        return (
            f"{subject}: {measure} differs between {segments}: {largest}, {smallest}; by at least "
            f"{disparity.interval[0]:.3f}, since outcome {disparity.since:,} of {disparity.outcomes:,}"
        )
    if disparity.verdict == VERDICTS[NO_DIFFERENCE]:
        return f"{subject}: {measure} of {segments}: no difference found in {disparity.outcomes:,} outcomes"
    return (
        f"{subject}: {measure} of {segments}: "
        f"too few outcomes or clusters to compare, of {disparity.outcomes:,}"
    )


class ReferenceComparison(NamedTuple):
    """A measure next to its reference."""

    measure: str
    #: Number of outcomes, and values of both.
    outcomes: int
    reference: float
    now: float
    difference: float
    #: 95% interval; None if it is unknown.
    interval: tuple[float, float] | None

    @property
    def differs(self) -> bool | None:
        """Return whether the interval excludes 0; False without one."""
        return None if self.interval is None else not self.interval[0] <= 0 <= self.interval[1]

    def __str__(self) -> str:
        """Return it in one line.

        >>> print(ReferenceComparison("accuracy", 1000, 0.863, 0.552, -0.311, (-0.345, -0.277)))
        accuracy 0.552, in the reference's 1,000 outcomes 0.863: -0.311 (-0.345 to -0.277)
        >>> print(ReferenceComparison("recall", 100, 0.5, 0.5, 0.0, None))
        recall 0.500, in the reference's 100 outcomes 0.500
        >>> print(ReferenceComparison("recall", 100, 0.5, 0.6, 0.1, (-0.1, 0.3)))
        recall 0.600, in the reference's 100 outcomes 0.500: +0.100 (-0.100 to +0.300), which may be chance
        """
        then = f"in the reference's {self.outcomes:,} outcomes {self.reference:.3f}"
        sentence = f"{self.measure} {self.now:.3f}, {then}"
        if self.interval is None:
            return sentence
        low, high = self.interval
        chance = "" if self.differs else ", which may be chance"
        return f"{sentence}: {self.difference:+.3f} ({low:+.3f} to {high:+.3f}){chance}"


def referred(reference: Mapping[str, Any]) -> Iterator[ReferenceComparison]:
    """Return the entries of the field `reference` of a message, in its order."""
    for name, measured in reference.get("measures", {}).items():
        value, difference = float(measured["value"]), float(measured["difference"])
        interval = measured["interval"]
        ends = None if interval is None else (float(interval[0]), float(interval[1]))
        yield ReferenceComparison(
            name, int(reference["outcomes"]), value, value + difference, difference, ends
        )


def main_comparison(reference: Mapping[str, Any]) -> ReferenceComparison | None:
    """Return the measure that stands for all, if one is shown; None without one."""
    by_measure = {comparison.measure: comparison for comparison in referred(reference)}
    name = main_measure(by_measure) or next(iter(by_measure), None)
    return None if name is None else by_measure[name]

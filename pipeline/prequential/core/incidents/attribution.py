"""What changed with the level: causes, each with the share of the change that it accounts for.

With L0 and L1 the mean losses before and after, and outcomes put into groups g (by label, say) with weights w
and mean losses l,

    L1 - L0 = Σ (w1 - w0)·l0  +  Σ w1·(l1 - l0).

The first sum is what other weights alone make of the former losses; the second is worse (or better) service
of the same. Of labels it is the class-ratio component (Brzezinski et al. 2019), L1 less the second sum the
same measure at the former class ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.core.incidents import history
from prequential.core.incidents.history import Blocks
from prequential.core.incidents.levels import Phase, variance
from prequential.core.kernel import Floats, Ints

#: Causes with a smaller share aren't named.
LEAST_SHARE = 0.1

#: Where no cause has this share, none is: what changed isn't clear.
CLEAR_SHARE = 0.3

#: Outcomes of a group before the change by which its level then is known: with fewer, it is new.
_KNOWN = 10

#: Standard errors by which shares of labelled predictions, and of groups' changes, must differ.
_SURELY = 4.0

#: A coverage that moved by a smaller share than this explains nothing.
_LEAST_MOVE = 0.1

#: Part of the change that a segment or class must make up, and what the rest may have changed by, of it.
_MOST_OF_IT, _LITTLE = 0.7, 0.3

#: Share of labels that must have come by the age of predictions, so that those without one may lack it.
_MATURE = 0.9


class Cause(NamedTuple):
    """A cause, its share of the change, and what else there is to say of it."""

    cause: str
    share: float
    detail: dict[str, Any]

    @property
    def message(self) -> dict[str, Any]:
        """As it stands in messages."""
        return {"cause": self.cause, "share": self.share, **self.detail}


NOT_CLEAR = Cause("not_clear", 0.0, {})


class Names(NamedTuple):
    """What columns stand for."""

    classes: Sequence[str]
    segments: Sequence[str]
    versions: Sequence[str]


class Counts(NamedTuple):
    """Predictions of a phase, those old enough to have a label, by predicted class."""

    made: Floats
    expected: float  # of them all, labels that latencies let one expect, if each got one
    met: Floats


class Groups(NamedTuple):
    """Outcomes and losses by group."""

    n: Floats
    loss: Floats


def causes(
    before: Phase, after: Phase, binary: bool, classes: int, names: Names,
    predictions: tuple[Counts, Counts] | None,
) -> list[Cause]:  # fmt: skip
    """The causes of a change of the level, the largest share first; `NOT_CLEAR` alone without one."""
    change = after.mean - before.mean
    if not before.n or not after.n or not change:
        return [NOT_CLEAR]
    found = _of_weights(before, after, change, classes, names, predictions)
    left = max(0.0, 1.0 - math.fsum(cause.share for cause in found))
    where = _where(before, after, change, binary, classes, names)
    at = where.detail | {f"{where.cause}_share": where.share} if where is not None else {}
    mix = _of_segments(before, after, change, classes, names)
    if mix is not None and predictions is not None and _coverages(*predictions) is not None:
        found.append(mix._replace(cause="selection", share=mix.share * left))
        left *= 1.0 - mix.share
        mix = None
    about = _of_circumstances(before, after, change, binary, names, predictions)
    found += [one._replace(share=one.share * left, detail=one.detail | at) for one in about]
    left *= 1.0 - max((one.share for one in about), default=0.0)
    if mix is not None:
        found.append(mix._replace(share=mix.share * left))
        left *= 1.0 - mix.share
    if where is not None:
        found.append(where._replace(share=where.share * left))
        left *= 1.0 - where.share
    found.append(Cause("concept", left, {}))
    named = [one._replace(share=_rounded(one.share)) for one in found if one.share >= LEAST_SHARE]
    named.sort(key=lambda one: -one.share)
    return named if named and named[0].share >= CLEAR_SHARE else [NOT_CLEAR]


def _rounded(share: float) -> float:
    """To three digits: no more are known, and causes don't change places for less."""
    return round(share, 3)


# ---- weights of groups


def of_labels(of: Phase, classes: int) -> Groups:
    """By label."""
    return _of_classes(of, classes, history.LABELLED, history.LABELLED_LOSS)


def _of_classes(of: Phase, classes: int, n: int, loss: int) -> Groups:
    own = of.cells[history.CLASSES : history.CLASSES + history.PER_CLASS * classes]
    table = own.reshape(classes, history.PER_CLASS)
    return Groups(table[:, n], table[:, loss])


def _of_repeats(of: Phase, classes: int) -> Groups:
    """By label, and whether it repeats the one before."""
    labelled = of_labels(of, classes)
    repeated = _of_classes(of, classes, history.REPEATED, history.REPEATED_LOSS)
    return Groups(
        np.concatenate((repeated.n, labelled.n - repeated.n)),
        np.concatenate((repeated.loss, labelled.loss - repeated.loss)),
    )


def _of_columns(of: Phase, n: int, loss: int, count: int) -> Groups:
    """By columns that lie side by side; outcomes in none of them are a group, too."""
    some, lost = of.cells[n : n + count], of.cells[loss : loss + count]
    rest, loss_of_rest = of.n - math.fsum(some), of.loss - math.fsum(lost)
    return Groups(np.append(some, rest), np.append(lost, loss_of_rest))


def shift(before: Groups, after: Groups, *, new_explains: bool = False) -> float:
    """Σ (w1 - w0)·l0: what the groups' weights alone make of the change.

    Of a group that was all but unknown before, l0 is the level of all before; or, where `new_explains`, its
    own level after, so that all that comes of it is explained.
    """
    n0, n1 = math.fsum(before.n), math.fsum(after.n)
    if not n0 or not n1:
        return 0.0
    level = math.fsum(before.loss) / n0
    parts = []
    rows = (column.tolist() for column in (*before, *after))
    for some, lost, now, lost_now in zip(*rows):
        known = some >= _KNOWN or not now
        former = lost / some if some and known else level
        if not known and new_explains:
            former = lost_now / now
        parts.append((now / n1 - some / n0) * former)
    return math.fsum(parts)


def at_former_ratio(before: Phase, after: Phase, classes: int) -> float | None:
    """The level after, were labels as frequent as before: the same measure at the former class ratio.

    None where a class that there was hasn't been seen since, or none was there.
    """
    some, now = of_labels(before, classes), of_labels(after, classes)
    seen = some.n > 0
    if not seen.any() or (now.n[seen] == 0).any():
        return None
    return math.fsum(some.n[seen] * now.loss[seen] / now.n[seen]) / math.fsum(some.n)


def _of_weights(
    before: Phase, after: Phase, change: float, classes: int, names: Names,
    predictions: tuple[Counts, Counts] | None,
) -> list[Cause]:  # fmt: skip
    """Causes that are other weights: exact shares, clipped so that together they are at most 1."""
    if not classes:
        return []
    by_label = shift(of_labels(before, classes), of_labels(after, classes)) / change
    by_repeat = shift(_of_repeats(before, classes), _of_repeats(after, classes)) / change
    selected = _selection(before, after, classes, predictions) / change if predictions is not None else 0.0
    found = [
        Cause("selection", selected, {}),
        Cause("class_ratio", by_label - max(0.0, selected), _ratios(before, after, classes, names)),
        Cause("persistence", by_repeat - by_label, {}),
    ]
    found = [one for one in found if one.share > 0]
    total = math.fsum(one.share for one in found)
    return [one._replace(share=one.share / max(1.0, total)) for one in found]


def _ratios(before: Phase, after: Phase, classes: int, names: Names) -> dict[str, Any]:
    """The class whose share of labels moved most, and both shares."""
    some, now = of_labels(before, classes).n / before.n, of_labels(after, classes).n / after.n
    most = int(np.argmax(np.abs(now - some)))
    if most >= len(names.classes):
        return {}
    return {"class": names.classes[most], "before": float(some[most]), "after": float(now[most])}


def _selection(before: Phase, after: Phase, classes: int, predictions: tuple[Counts, Counts]) -> float:
    """What of the change comes of which predictions get labels, by predicted class.

    With m the predictions of a class after the change and r the share of them that got labels before, labels
    would have come in the ratio m·r. 0 unless the labels that came instead differ from that surely.
    """
    then, now = predictions
    made0, made1, met0, met1 = (_padded(of, classes) for of in (then.made, now.made, then.met, now.met))
    total = math.fsum(met1)
    if not total or not math.fsum(met0):
        return 0.0
    rates = (met0 + 0.5) / (made0 + 1.0)
    expected = made1 * rates
    if not math.fsum(expected):
        return 0.0
    weights = expected / math.fsum(expected)
    some = weights > 0
    off = math.fsum((met1[some] - total * weights[some]) ** 2 / (total * weights[some]))
    if off < _SURELY * _SURELY + 2 * (int(some.sum()) - 1):
        return 0.0
    predicted0 = _of_classes(before, classes, history.PREDICTED, history.PREDICTED_LOSS)
    predicted1 = _of_classes(after, classes, history.PREDICTED, history.PREDICTED_LOSS)
    known = predicted0.n >= _KNOWN
    former = np.full(classes, before.mean)
    former[known] = predicted0.loss[known] / predicted0.n[known]
    return math.fsum((predicted1.n / after.n - weights) * former)


def _padded(values: Floats, classes: int) -> Floats:
    """One for each class; those beyond have none."""
    found = np.zeros(classes)
    found[: len(values)] = values[:classes]
    return found


# ---- circumstances


def _of_circumstances(
    before: Phase, after: Phase, change: float, binary: bool, names: Names,
    predictions: tuple[Counts, Counts] | None,
) -> list[Cause]:  # fmt: skip
    """Label latency, version, coverage: each what it accounts for of what weights don't."""
    latencies = (history.LATENCY, history.LATENCY_LOSS, history.LATENCIES)
    versions = (history.VERSION, history.VERSION_LOSS, history.VERSIONS)
    found = []
    for cause, columns, detail in (
        ("label_latency", latencies, {}), ("model_version", versions, _version(before, after, names)),
    ):  # fmt: skip
        groups = _of_columns(before, *columns), _of_columns(after, *columns)
        found.append(Cause(cause, shift(*groups, new_explains=True) / change, detail))
    if predictions is not None:
        found.append(_coverage(before, change, binary, *predictions))
    return [one._replace(share=min(1.0, one.share)) for one in found if one.share > 0]


def _version(before: Phase, after: Phase, names: Names) -> dict[str, Any]:
    """The version whose share rose most."""
    of = slice(history.VERSION, history.VERSION + history.VERSIONS)
    most = int(np.argmax(after.cells[of] / after.n - before.cells[of] / before.n))
    return {"version": names.versions[most]} if names.versions[most] else {}


def _coverages(then: Counts, now: Counts) -> tuple[float, float] | None:
    """Shares of predictions with a label before and after; None unless it surely moved."""
    met0, met1 = math.fsum(then.met), math.fsum(now.met)
    if not then.expected or not now.expected or not met0 or not met1:
        return None
    c0, c1 = min(1.0, met0 / then.expected), min(1.0, met1 / now.expected)
    pooled = min(1.0, (met0 + met1) / (then.expected + now.expected))
    error = math.sqrt(pooled * (1 - pooled) * (1 / then.expected + 1 / now.expected))
    return (c0, c1) if abs(c1 - c0) > max(_SURELY * error, _LEAST_MOVE * c0) else None


def _coverage(before: Phase, change: float, binary: bool, then: Counts, now: Counts) -> Cause:
    """What another share of labelled predictions could account for at most, where it surely moved.

    With c the shares: if c1 < c0, all that lack labels now may have been right (or, for a level that fell,
    wrong): the level would be L0·c0/c1 (or (L0 - 1 + c1/c0)·c0/c1). If c1 > c0, those that lacked them then.
    Losses of numbers have no bound: what they could account for is all of it.
    """
    moved = _coverages(then, now)
    if moved is None:
        return Cause("coverage", 0.0, {})
    c0, c1 = moved
    detail = {"before": c0, "after": c1}
    if not binary:
        return Cause("coverage", 1.0, detail)
    right = change > 0 if c1 < c0 else change < 0
    wrong = before.mean if right else 1 - before.mean
    bound = wrong * (c0 / c1 - 1) if c1 < c0 else (1 - wrong) * (1 - c0 / c1)
    return Cause("coverage", min(1.0, bound / abs(change)), detail)


# ---- segments


def _of_segments(
    before: Phase, after: Phase, change: float, classes: int, names: Names
) -> Cause | None:  # fmt: skip
    """What other weights of a key's segments account for, of the key with the largest share; None: of none.

    All that comes with segments that weren't there before is explained by them.
    """
    keys: dict[str, list[int]] = {}
    for i, name in enumerate(names.segments):
        keys.setdefault(name.partition("=")[0], []).append(i)
    best: Cause | None = None
    for own in keys.values():
        columns = np.array([history.column_of_segment(classes, i) for i in own])
        groups = _of_those(before, columns), _of_those(after, columns)
        moved = _moved(*(of.n for of in groups))
        if moved is None:
            continue
        share = shift(*groups, new_explains=True) / change
        if share > 0 and (best is None or share > best.share):
            most, some, now = moved
            detail = {"segment": names.segments[own[most]]} if most < len(own) else {}
            best = Cause("segment", min(1.0, share), {**detail, "before": some, "after": now})
    return best


def _of_those(of: Phase, columns: Ints) -> Groups:
    """By these columns, losses behind counts; outcomes in none of them are a group, too."""
    n, loss = of.cells[columns], of.cells[columns + 1]
    rest = max(0.0, of.n - math.fsum(n))
    return Groups(np.append(n, rest), np.append(loss, of.loss - math.fsum(loss) if rest else 0.0))


def _moved(before: Floats, after: Floats) -> tuple[int, float, float] | None:
    """The group whose weight has moved most, and its weights; None unless it surely has."""
    n0, n1 = math.fsum(before), math.fsum(after)
    some, now = before / n0, after / n1
    most = int(np.argmax(np.abs(now - some)))
    pooled = (before[most] + after[most]) / (n0 + n1)
    error = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n0 + 1.0 / n1))
    w0, w1 = float(some[most]), float(now[most])
    return (most, w0, w1) if abs(w1 - w0) > max(_SURELY * error, _LEAST_MOVE * w0) else None


# ---- where


def _where(
    before: Phase, after: Phase, change: float, binary: bool, classes: int, names: Names
) -> Cause | None:
    """The segment or class that all but alone got worse, by its part of the change; None: there is none."""
    best: Cause | None = None
    first = history.column_of_segment(classes, 0)
    places = [
        ("segment", name, first + history.PER_SEGMENT * i, first + history.PER_SEGMENT * i + 1)
        for i, name in enumerate(names.segments)
    ]
    for i, name in enumerate(names.classes[:classes]):
        own = history.CLASSES + history.PER_CLASS * i
        places.append(("class", name, own + history.LABELLED, own + history.LABELLED_LOSS))
    for what, name, n, loss in places:
        groups = [(float(of.cells[n]), float(of.cells[loss])) for of in (before, after)]
        share = _alone(groups, before, after, change, binary)
        if share is not None and (best is None or share > best.share):
            best = Cause(what, share, {what: name})
    return best


def _alone(
    groups: list[tuple[float, float]], before: Phase, after: Phase, change: float, binary: bool
) -> float | None:
    """A group's part of the change, w1·(l1 - l0)/(L1 - L0), if the rest has surely changed far less."""
    (n0, loss0), (n1, loss1) = groups
    rest0, rest1 = before.n - n0, after.n - n1
    if min(n0, n1, rest0, rest1) < _KNOWN:
        return None
    own = loss1 / n1 - loss0 / n0
    rest = (after.loss - loss1) / rest1 - (before.loss - loss0) / rest0
    part = n1 / after.n * own / change
    spread0, spread1 = variance(before, binary), variance(after, binary)
    error = math.sqrt(spread0 / n0 + spread1 / n1 + spread0 / rest0 + spread1 / rest1)
    sign = math.copysign(1.0, change)
    if part < _MOST_OF_IT or sign * rest > _LITTLE * sign * own or abs(own - rest) <= _SURELY * error:
        return None
    return min(1.0, part)


# ---- predictions


def counts(
    predictions: Blocks, first: int, last: int, newest: int, latencies: Sequence[Floats]
) -> Counts | None:
    """Predictions of these blocks that are old enough at `newest` (ms) to have got their label; None: none.

    `latencies` are outcomes by latency, of both phases: the slower ones count.
    """
    width = predictions.cells.shape[1] // history.PER_PREDICTED
    made, met, expected = np.zeros(width), np.zeros(width), []
    times = [*predictions.ts.tolist(), newest]
    for k in range(first, last):
        age = newest - (times[k] + times[k + 1]) // 2
        share = min(_share_by(age, own) for own in latencies)
        if share < _MATURE:
            continue
        table = predictions.cells[k].reshape(width, history.PER_PREDICTED)
        made += table[:, history.MADE]
        met += table[:, history.MET_LABEL]
        expected.append(float(predictions.n[k]) * share)
    return Counts(made, math.fsum(expected), met) if expected else None


def _share_by(age: int, latencies: Floats) -> float:
    """The share of labels that have come by an age (ms), evenly within each column."""
    total = math.fsum(latencies)
    if not total or age <= 0:
        return 0.0
    share, low, high = 0.0, 0, 64
    for count in latencies.tolist():
        part = 1.0 if age >= high else max(0.0, (age - low) / (high - low))
        share += count * part
        low, high = high, 4 * high
    return min(1.0, share / total)

"""Estimated performance, and alarms of periods, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from prequential.configuration.settings.stages import PERIOD
from prequential.engine.delay.records import LEAST
from prequential.engine.detectors.objectives import MISS
from prequential.engine.measures.declaration import LESS
from prequential.engine.measures.registry import LOSSES, MEASURES
from prequential.topics.errors import printable
from prequential.views.wording.measures import main_measure
from prequential.views.wording.periods import period_name
from prequential.views.wording.status import number

#: Stated next to each of these numbers.
ASSUMPTION = (
    "Assumes that a pending prediction is like those with labels of the same class and confidence. Concept "
    "drift that affects only unlabelled predictions cannot be detected until their first labels arrive."
)


class ExpectedPeriod(msgspec.Struct, frozen=True):
    """A measure of a period whose time has passed, by the newest message."""

    start: int  # epoch ms, as `end`
    end: int
    measure: str
    final: float | None  # the final value; None while it is provisional
    expected: float | None  # what `final` is expected to be, until it is known; None if nothing is estimated
    interval: tuple[float, float] | None  # of `expected`; None without a record
    coverage: float | None  # the share of earlier periods whose final value was in its interval
    finals: int | None  # the number of these periods
    labelled_so_far: float | None  # the measure over the labels so far; None without a value
    labelled_share: float  # share of the period's predictions with a label
    lost_to: str | None = None  # the naive answer that was closer in earlier periods, as in messages
    #: Mean errors over these periods of `expected`, of the labels so far, and of the last final period.
    errors: tuple[float, float | None, float | None] | None = None


def expected_period(
    start: int, end: int, labelled_share: float, labelled: Mapping[str, float],
    expected: Mapping[str, Mapping[str, Any]], *, final: bool = False,
) -> ExpectedPeriod | None:  # fmt: skip
    """Return the measure of a period by which models are compared; None without one.

    `labelled` are measures of the labelled predictions, whose share is `labelled_share`; `expected` are those
    of the message's field of this name, none if the period is `final`.
    """
    measure = main_measure(expected or labelled)
    if measure is None:
        return None
    estimate = expected.get(measure, {})
    record, interval = estimate.get("record") or {}, estimate.get("interval")
    return ExpectedPeriod(
        start, end, measure, labelled[measure] if final else None, estimate.get("value"),
        None if interval is None else (interval[0], interval[1]), record.get("coverage"),
        record.get("finals"), labelled.get(measure), labelled_share, record.get("lost_to"),
        (record["mean_error"], record.get("labelled_so_far"), record.get("last_final"))
        if record.get("mean_error") is not None else None,
    )  # fmt: skip


#: Why an estimate has no interval.
NO_INTERVAL = f"no interval until {LEAST} periods are graded"

#: Naive answers that an estimate can lose to, in words, in the order of their errors.
_NAIVE = {
    "labelled_so_far": "the labels so far", "last_final": "the value of the latest final period",
}  # fmt: skip


def lost_to_in_words(lost_to: str | None) -> str | None:
    """Return that a naive answer was closer in earlier periods; None: the estimate was.

    >>> lost_to_in_words("last_final")
    'in earlier periods the value of the latest final period was closer'
    """
    if lost_to is None:
        return None
    name = _NAIVE.get(lost_to, printable(lost_to))
    return f"in earlier periods {name} {'were' if lost_to == 'labelled_so_far' else 'was'} closer"


def answers_in_words(period: ExpectedPeriod) -> str | None:
    """Return which answer has been best so far on the model's stream; None without a record.

    >>> errors = (0.02, 0.05, 0.01)
    >>> period = ExpectedPeriod(0, 1, "accuracy", None, 0.8, None, None, 50, None, 0.0, None, errors)
    >>> answers_in_words(period).partition(" (")[0]
    'accuracy, best answer so far: the value of the latest final period'
    """
    if period.errors is None or period.final is not None:
        return None
    answers = zip(period.errors, ("expected", *_NAIVE.values()))
    with_error = [(error, name) for error, name in answers if error is not None]
    _, best = min(with_error, key=lambda answer: answer[0])
    all_answers = ", ".join(f"{name} {number(error)}" for error, name in with_error)
    return (
        f"{period.measure}, best answer so far: {best} "
        f"(mean errors over {period.finals} final periods: {all_answers})"
    )


def period_in_words(period: ExpectedPeriod, zone: str = "UTC", *, untimed: bool = False) -> str:
    """Return the period's value, final or expected, with its interval and how often such intervals held.

    It begins with the labels so far if they differ from the expected value. The period is named by its date
    in `zone`; `untimed`: the ends are rows.
    """
    period_words = period_name(period.start, period.end, zone, untimed=untimed)
    share = f"{100 * period.labelled_share:.0f}% of predictions"
    so_far = "-" if period.labelled_so_far is None else number(period.labelled_so_far)
    if period.final is not None:
        sentence = f"final {number(period.final)} ({share} labelled)"
    elif period.expected is None:
        sentence = f"labelled so far {so_far} ({share})"
    elif period.interval is None:
        sentence = f"expected {number(period.expected)} ({NO_INTERVAL}), labelled so far {so_far} ({share})"
    else:
        low, high = period.interval
        expected = f"expected {number(period.expected)} [{number(low)}, {number(high)}]"
        if period.coverage is not None:
            expected += f" (held in {100 * period.coverage:.0f}% of {period.finals} earlier periods)"
        if period.labelled_so_far is None or low <= period.labelled_so_far <= high:
            sentence = f"{expected}, labelled so far {so_far} ({share})"
        else:
            sentence = f"labelled so far {so_far} ({share}), {expected}: {_why(period)}"
    closer = None if period.final is not None else lost_to_in_words(period.lost_to)
    return f"{period_words}, {period.measure}: {sentence}{'' if closer is None else f'; {closer}'}"


def _why(period: ExpectedPeriod) -> str:
    """Return the reason why labels so far differ from the expected value."""
    more = (
        period.labelled_so_far is not None
        and period.expected is not None
        and period.labelled_so_far > period.expected
    )
    loss = LOSSES.get(period.measure)
    if loss is not None and loss.signal == "error":
        are_right = more == (MEASURES[period.measure].better != LESS)
        return f"labels of {'right' if are_right else 'wrong'} predictions come sooner"
    return "the predictions labelled so far differ from the others"


def waiting_in_words(counts: Mapping[str, Any]) -> str:
    """Return how many pending predictions are expected to be correct (`waiting_expected` of `coverage`).

    >>> waiting_in_words({"predictions": 50, "labels": 40.2, "right": 30.4, "interval": [25.0, 35.8]})
    '50 pending predictions in provisional periods: 40 are expected to get a label, 30 ± 5 to be correct'
    """
    within = ""
    if counts.get("interval"):
        low, high = counts["interval"]
        within = f" ± {max(counts['right'] - low, high - counts['right']):,.0f}"  # one end may be cut off
    return (
        f"{counts['predictions']:,} pending predictions in provisional periods: {counts['labels']:,.0f} are "
        f"expected to get a label, {counts['right']:,.0f}{within} to be correct"
    )


def in_words(
    period: ExpectedPeriod | None, waiting: Mapping[str, Any] | None, zone: str = "UTC", *,
    untimed: bool = False,
) -> Iterator[str]:  # fmt: skip
    """Return sentences about the newest whole period and pending predictions."""
    if period is not None:
        yield period_in_words(period, zone, untimed=untimed)
        if (answers := answers_in_words(period)) is not None:
            yield answers
    if waiting is not None:
        yield waiting_in_words(waiting)


def of_period(alarm: Any) -> str | None:
    """Return an alarm of a period, in any form with the message's fields, in words; None for others.

    >>> from types import SimpleNamespace
    >>> one = SimpleNamespace(stage="period", detector="objective", signal="accuracy", statistic=0.971)
    >>> of_period(one)
    'accuracy of a period will miss its objective when the labels come: 97%'
    >>> one.detector, one.signal, one.statistic = "unusual-period", "concept", -5.2
    >>> of_period(one)
    'concept of a period unusual: -5.2 standard deviations'
    """
    if alarm.stage != PERIOD:
        return None
    name = printable(alarm.signal)
    if alarm.detector == MISS:
        chance = f"{100 * alarm.statistic:.0f}%"
        return f"{name} of a period will miss its objective when the labels come: {chance}"
    return f"{name} of a period unusual: {alarm.statistic:+.1f} standard deviations"

"""What is expected before labels are there, in words, for all who show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from prequential.core.delay.records import LEAST
from prequential.core.measures.declaration import LESS
from prequential.core.measures.registry import LOSSES, MEASURES
from prequential.topics.dead_letters import clock
from prequential.wording.measures import COMPARED

#: What stands beside each of these numbers.
ASSUMPTION = (
    "Assumed: a prediction that waits is like those with labels, given its class and confidence. That a "
    "concept has changed for predictions none of which has a label yet can't be known before the first of "
    "these labels."
)


class ExpectedPeriod(msgspec.Struct, frozen=True):
    """A measure of a period whose time is over, as the newest message says it.

    Attributes
    ----------
    start, end
        The period, epoch ms.
    measure
        Its name.
    final
        The final value; None while it is provisional.
    expected
        What `final` is expected to be, while there is none; None where nothing is estimated.
    interval
        Of `expected`; None without a record.
    coverage, finals
        Of the record: of so many former periods this share turned out to be within its interval.
    labelled_so_far
        The measure of the labels there are; None without a value.
    labelled_share
        Share of the period's predictions with a label.
    """

    start: int
    end: int
    measure: str
    final: float | None
    expected: float | None
    interval: tuple[float, float] | None
    coverage: float | None
    finals: int | None
    labelled_so_far: float | None
    labelled_share: float


def expected_period(
    start: int, end: int, labelled_share: float, labelled: Mapping[str, float],
    expected: Mapping[str, Mapping[str, Any]], *, final: bool = False,
) -> ExpectedPeriod | None:  # fmt: skip
    """The measure of a period by which models are compared; None where there is nothing to say.

    Parameters
    ----------
    start, end
        The period, epoch ms.
    labelled_share
        Share of its predictions with a label.
    labelled
        Measures of these.
    expected
        `measures` of the message's `expected`; none where the period is `final`.
    """
    measure = next((name for name in COMPARED if name in (expected or labelled)), None)
    if measure is None:
        return None
    one = expected.get(measure, {})
    record, interval = one.get("record") or {}, one.get("interval")
    return ExpectedPeriod(
        start, end, measure, labelled[measure] if final else None, one.get("value"),
        None if interval is None else (interval[0], interval[1]), record.get("coverage"),
        record.get("finals"), labelled.get(measure), labelled_share,
    )  # fmt: skip


def period_in_words(one: ExpectedPeriod, *, untimed: bool = False) -> str:
    """The period's value, final or expected, with its interval and what such intervals were worth.

    It begins with the labels so far where these say something else than what is expected. `untimed`: start
    and end count rows.
    """
    when = f"rows {one.start:,} to {one.end - 1:,}" if untimed else f"from {clock(one.start)}"
    share = f"{100 * one.labelled_share:.0f} % of predictions"
    so_far = "-" if one.labelled_so_far is None else _number(one.labelled_so_far)
    if one.final is not None:
        said = f"final {_number(one.final)} ({share} labelled)"
    elif one.expected is None:
        said = f"labelled so far {so_far} ({share})"
    elif one.interval is None:
        no_interval = f"no interval until {LEAST} periods are graded"
        said = f"expected {_number(one.expected)} ({no_interval}), labelled so far {so_far} ({share})"
    else:
        low, high = one.interval
        expected = f"expected {_number(one.expected)} [{_number(low)}, {_number(high)}]"
        if one.coverage is not None:
            expected += f" (held in {100 * one.coverage:.0f} % of {one.finals} former periods)"
        if one.labelled_so_far is None or low <= one.labelled_so_far <= high:
            said = f"{expected}, labelled so far {so_far} ({share})"
        else:
            said = f"labelled so far says {so_far} ({share}), {expected}: {_why(one)}"
    return f"period {when}, {one.measure}: {said}"


def _why(one: ExpectedPeriod) -> str:
    """What it means that labels so far are off."""
    more = one.labelled_so_far is not None and one.expected is not None and one.labelled_so_far > one.expected
    loss = LOSSES.get(one.measure)
    if loss is not None and loss.signal == "error":
        right = more == (MEASURES[one.measure].better != LESS)
        return f"labels of {'right' if right else 'wrong'} predictions come sooner"
    return "the predictions labelled so far aren't like the others"


def waiting_in_words(said: Mapping[str, Any]) -> str:
    """How many of the predictions that wait are expected to be right (`waiting_expected` of `coverage`).

    >>> waiting_in_words({"predictions": 50, "labels": 40.2, "right": 30.4, "interval": [25.0, 35.8]})
    "50 predictions wait in periods that aren't final: 40 are expected to get a label, 30 ± 5 of these right"
    """
    within = ""
    if said.get("interval"):
        low, high = said["interval"]
        within = f" ± {max(said['right'] - low, high - said['right']):,.0f}"  # one end may be cut off
    return (
        f"{said['predictions']:,} predictions wait in periods that aren't final: {said['labels']:,.0f} are "
        f"expected to get a label, {said['right']:,.0f}{within} of these right"
    )


def in_words(
    period: ExpectedPeriod | None, waiting: Mapping[str, Any] | None, *, untimed: bool = False
) -> Iterator[str]:
    """What there is to say of the newest whole period, and of what waits."""
    if period is not None:
        yield period_in_words(period, untimed=untimed)
    if waiting is not None:
        yield waiting_in_words(waiting)


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"

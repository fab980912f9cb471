"""Names of estimators and of signals: what they say (`docs/semantics.md`)."""

from __future__ import annotations

import re
from typing import NamedTuple

from prequential.core.measures import INDEX

#: Kinds of estimators.
ALL, WINDOW, FADING = range(3)

#: Before a baseline's name, where it is evaluated as a model; behind a model's name, where its predictions
#: are corrected by the labels before, and of random predictions with its distribution.
BASELINE_PREFIX, CORRECTED_SUFFIX, RANDOM_SUFFIX = "@", "+temporal", "@random"

#: Before the number of an age bin: its stage.
BIN = "bin:"

#: Fading factors below it forget everything at once.
_SMALLEST = 1e-30

#: Longest window, in outcomes: each sequence has a ring of so many.
_LONGEST = 10_000_000

# One spelling, as far as can be, because names stand in messages: Python's own numbers have blanks, signs,
# underscores and all scripts' digits.
_WINDOW = re.compile("window:([1-9][0-9]*)")
_FADING = re.compile(r"fading:(?=[.0-9])((?:0|[1-9][0-9]*)?(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")


def parse_estimator(name: str) -> tuple[int, float]:
    """The kind of an estimator of this name, and its parameter; raises ValueError quoting the name.

    >>> parse_estimator("all"), parse_estimator("window:1000"), parse_estimator("fading:0.9")
    ((0, 0), (1, 1000), (2, 0.9))
    >>> parse_estimator("fading:2")
    Traceback (most recent call last):
    ...
    ValueError: estimator 'fading:2': expected all, window:W (W >= 1) or fading:A (0 < A <= 1)
    """
    if name == "all":
        return ALL, 0
    if found := _WINDOW.fullmatch(name):
        if len(found[1]) > len(str(_LONGEST)) or int(found[1]) > _LONGEST:
            raise ValueError(f"estimator {name!r}: expected a window of at most {_LONGEST} outcomes")
        return WINDOW, int(found[1])
    if (found := _FADING.fullmatch(name)) and _SMALLEST <= (factor := float(found[1])) <= 1:
        return FADING, factor
    raise ValueError(f"estimator {name!r}: expected all, window:W (W >= 1) or fading:A (0 < A <= 1)")


#: The signal of a number's loss that is free of its unit.
SCALED = "scaled_error"

#: Measures that are means of one outcome's own loss, or of 1 less it: these losses are signals, too.
OWN = ("brier", "log_loss", "recall", "precision", "specificity", "mae", "mse")


class SignalName(NamedTuple):
    """What a signal is made of: nothing but the outcome's own loss, errors of estimators, or a measure.

    A measure without an estimator is the outcome's own loss that it is the mean of.
    """

    #: Estimators whose errors it is: of two, the first over the second.
    errors: tuple[str, ...] = ()
    #: … or the estimator and its measure.
    estimator: str = ""
    measure: str = ""
    #: … or whether it is the loss against its usual size.
    scaled: bool = False


def parse_signal(name: str) -> SignalName:
    """What a signal's name says; raises ValueError quoting it.

    >>> parse_signal("fading:0.9/all").errors, parse_signal("window:9:kappa").measure
    (('fading:0.9', 'all'), 'kappa')
    >>> parse_signal("error").errors, parse_signal("scaled_error").scaled, parse_signal("brier").measure
    ((), True, 'brier')
    >>> parse_signal("kappa")
    Traceback (most recent call last):
    ...
    ValueError: signal 'kappa': expected error, scaled_error, brier, log_loss, recall, precision, \
specificity, mae, mse, an estimator, SHORT/LONG or ESTIMATOR:MEASURE
    """
    if name == "error":
        return SignalName()
    if name == SCALED:
        return SignalName(scaled=True)
    if name in OWN:
        return SignalName(measure=name)
    estimator, _, measure = name.rpartition(":")
    if name.count("/") == 1:
        parts = tuple(name.split("/"))
        for part in parts:
            parse_estimator(part)
        return SignalName(parts)
    if estimator and measure in INDEX:
        parse_estimator(estimator)
        return SignalName((), estimator, measure)
    try:
        parse_estimator(name)
    except ValueError:
        raise ValueError(
            f"signal {name!r}: expected error, scaled_error, {', '.join(OWN)}, an estimator, SHORT/LONG or "
            "ESTIMATOR:MEASURE"
        ) from None
    return SignalName((name,))

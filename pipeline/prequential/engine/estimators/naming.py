"""Names of estimators and of signals, and their parts (`docs/reference/semantics-estimators.md`)."""

from __future__ import annotations

from typing import NamedTuple

from prequential.engine.estimators import MEMORIES
from prequential.engine.estimators.declaration import Memory
from prequential.engine.measures.registry import INDEX, OWN_LOSSES

#: The prefix of a baseline that is evaluated as a model; the suffixes of a model whose predictions are
#: corrected by earlier labels, and of random predictions with a model's distribution.
BASELINE_PREFIX, CORRECTED_SUFFIX, RANDOM_SUFFIX = "@", "+temporal", "@random"

#: The forms of estimators' names.
*_EXPECTED, _LAST = (memory.expected for memory in MEMORIES.values())
EXPECTED = f"{', '.join(_EXPECTED)} or {_LAST}"


class EstimatorName(NamedTuple):
    """The parts of an estimator's name."""

    memory: Memory
    parameter: float

    @property
    def canonical(self) -> str:
        """The name in one spelling.

        >>> parse_estimator("fading:0.90").canonical, parse_estimator("decay:60m").canonical
        ('fading:0.9', 'decay:1h')
        """
        return ":".join(filter(None, (self.memory.name, self.memory.spelled(self.parameter))))


def is_baseline(model: str) -> bool:
    """Return whether a model is one of the baselines with which models are compared.

    >>> is_baseline("@majority"), is_baseline("nb@random"), is_baseline("nb@v2"), is_baseline("nb+temporal")
    (True, True, False, False)
    """
    return model.startswith(BASELINE_PREFIX) or model.endswith(RANDOM_SUFFIX)


def parse_estimator(name: str) -> EstimatorName:
    """The memory of an estimator of this name, and its parameter; raises ValueError quoting the name.

    The parameter is W of `window:W`, the fading factor of `fading:A`, the half-life of `decay:H` in ms; 0 of
    `all`.

    >>> parse_estimator("window:1000").parameter, parse_estimator("decay:1h").memory.name
    (1000.0, 'decay')
    >>> parse_estimator("fading:2")
    Traceback (most recent call last):
    ...
    ValueError: estimator 'fading:2': expected all, window:W (W >= 1), fading:A (0 < A <= 1) or decay:H \
(H a half-life such as 1h)
    """
    kind, colon, text = name.partition(":")
    memory = MEMORIES.get(kind)
    if memory is not None and (text or not colon):
        try:
            parameter = memory.parse(text)
        except ValueError as problem:
            raise ValueError(f"estimator {name!r}: {problem}") from None
        if parameter is not None:
            return EstimatorName(memory, parameter)
    raise ValueError(f"estimator {name!r}: expected {EXPECTED}")


def recency(name: str) -> tuple[int, float] | None:
    """Sort key of estimators, the most recent first; None: it never forgets, or isn't an estimator.

    >>> sorted(["fading:0.9", "decay:1h", "window:500", "window:50"], key=recency)
    ['window:50', 'window:500', 'fading:0.9', 'decay:1h']
    >>> recency("all"), recency("period:2024-01-01")
    (None, None)
    """
    try:
        memory, parameter = parse_estimator(name)
    except ValueError:
        return None
    return (list(MEMORIES).index(memory.name), parameter) if memory.forgets else None


#: The signal of a loss for regression without its unit.
SCALED = "scaled_error"


class SignalName(NamedTuple):
    """The parts of a signal's name: errors of estimators, a measure, or none for the outcome's own loss.

    A measure without an estimator stands for the outcome's own loss, of which the measure is the mean.
    """

    #: Estimators of errors; with two, the signal is the first error over the second.
    errors: tuple[str, ...] = ()
    #: … or the estimator and its measure.
    estimator: str = ""
    measure: str = ""
    #: … or whether it is the loss divided by its usual size.
    scaled: bool = False


def parse_signal(name: str) -> SignalName:
    """Parse a signal's name: estimators of errors, an estimator with a measure, or an outcome's own loss.

    Raises ValueError quoting the name.

    >>> parse_signal("fading:0.9/all").errors, parse_signal("window:9:kappa").measure
    (('fading:0.9', 'all'), 'kappa')
    >>> parse_signal("error").errors, parse_signal("scaled_error").scaled, parse_signal("brier").measure
    ((), True, 'brier')
    >>> parse_signal("kappa")
    Traceback (most recent call last):
    ...
    ValueError: signal 'kappa': expected error, scaled_error, precision, recall, specificity, \
log_loss, brier, top_k_accuracy, mae, mse, mape, pinball, interval_coverage, \
interval_width, wis, an estimator, SHORT/LONG or ESTIMATOR:MEASURE
    """
    if name == "error":
        return SignalName()
    if name == SCALED:
        return SignalName(scaled=True)
    if name in OWN_LOSSES:
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
            f"signal {name!r}: expected error, scaled_error, {', '.join(OWN_LOSSES)}, an estimator, "
            "SHORT/LONG or ESTIMATOR:MEASURE"
        ) from None
    return SignalName((name,))


def canonical(name: str) -> str:
    """The canonical spelling of an estimator's or a signal's name: equal ones have the same.

    Raises ValueError for a name that is neither, quoting it.

    >>> canonical("fading:0.90/fading:1"), canonical("decay:60m:kappa"), canonical("error")
    ('fading:0.9/fading:1.0', 'decay:1h:kappa', 'error')
    """
    says = parse_signal(name)
    if says.errors:
        return "/".join(parse_estimator(estimator).canonical for estimator in says.errors)
    return f"{parse_estimator(says.estimator).canonical}:{says.measure}" if says.estimator else name

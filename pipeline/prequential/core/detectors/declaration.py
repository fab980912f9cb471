"""What a detector declares: its parameters, its table, its loop; and where its alarms go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from prequential.core.compiled.kernel import inner
from prequential.settings.model import Value
from prequential.topics.errors import Fault

#: Largest number that a parameter may be: none makes sense near it.
_LARGEST = 1e15

#: Longest memory, in values, that a detector may have for each sequence.
LONGEST = 1_000_000

#: Values beyond it, up or down, count as it in detectors that square them: sums of squares stay finite.
LARGEST_SQUARED = 1e100

#: Outcomes to be seen before a ratio is fed to a detector that has no `min_outcomes` (contract's default).
MIN_OUTCOMES = 30


class Parameter(NamedTuple):
    """A parameter by its name in the configuration and in alarms; its type is that of the default.

    A value is one of `among`, or else a number in [least, most], without the bounds themselves where `above`
    and `below`.
    """

    name: str
    default: Value
    #: What it is, for the docs.
    says: str
    least: float = 0
    most: float = _LARGEST
    above: bool = False
    below: bool = False
    among: tuple[Value, ...] = ()
    #: Whether alarms always name it, or only where it isn't the default. Alarms' ids depend on it.
    always: bool = True
    #: Of the parameter that says how rare alarms are: 1, they are the rarer the larger it is; -1, the
    #: smaller. Where there is one, and nothing changes, alarms come at a rate that can be calibrated.
    rarer: int = 0

    def parse(self, value: Any) -> Value:
        """The value, as it stands in a configuration, as the default's type; raises ValueError quoting it.

        >>> Parameter("delta", 0.005, "").parse(1)
        1.0
        >>> Parameter("window", 30, "", least=1, most=100).parse(2.5)
        Traceback (most recent call last):
        ...
        ValueError: 2.5: expected an integer from 1 to 100
        """
        if self._accepts(value):
            return type(self.default)(value)
        raise ValueError(f"{value!r}: expected {self.expected}")

    def _accepts(self, value: Any) -> bool:
        kind = type(self.default)
        if self.among or kind is bool or isinstance(value, bool):
            return type(value) is kind and (kind is bool or value in self.among)
        if not isinstance(value, (int,) if kind is int else (int, float)):
            return False
        at_a_bound = (self.above and value == self.least) or (self.below and value == self.most)
        return self.least <= value <= self.most and not at_a_bound

    @property
    def expected(self) -> str:
        """What a value must be, as errors say it: a type, and its range.

        >>> Parameter("delta", 0.002, "", most=1, above=True, below=True).expected
        'a number above 0 and below 1'
        >>> Parameter("direction", "both", "", among=("increase", "decrease", "both")).expected
        'increase, decrease or both'
        """
        if isinstance(self.default, bool):
            return "true or false"
        if self.among:
            return f"{', '.join(map(str, self.among[:-1]))} or {self.among[-1]}"
        if isinstance(self.default, int):
            return f"an integer from {self.least:.0f} to {self.most:.0f}"
        least = f"a number {'above' if self.above else 'of at least'} {self.least:g}"
        if self.most == _LARGEST:
            return least
        return f"{least} and {'below' if self.below else 'of at most'} {self.most:g}"

    def encoded(self, value: Value) -> float | int | bool:
        """The value as loops have it: one of few is its place among these."""
        if self.among:
            return self.among.index(value)
        if isinstance(value, str):
            raise Fault(f"{value!r} is no number: this is a fault of prequential, please report it")
        return value


@inner
def bounded(x: float) -> float:
    """The value, or what it counts as where it is squared.

    >>> bounded(-0.5), bounded(1e200)
    (-0.5, 1e+100)
    """
    return min(max(x, -LARGEST_SQUARED), LARGEST_SQUARED)


class Detector(NamedTuple):
    """A detector as the registry has it."""

    parameters: tuple[Parameter, ...]
    #: The NamedTuple of the parameters' values, in that order, as loops have them.
    settings: Callable[..., tuple[Any, ...]]
    #: new_table(rows, settings): its table for so many sequences, all zeros where none has begun; the column
    #: `alarms` counts alarms.
    new_table: Callable[[int, Any], tuple[Any, ...]]
    #: run(table, settings, log, rows, values, fed, detector, alarms): feed it `values[i]` where `fed[i]`.
    run: Callable[..., None]
    #: Whether it is made for losses of 0 and 1 alone, so for the signal `error` of classification.
    binary: bool = False
    #: What is wrong with values, by name, that don't go together: a sentence, or "".
    problem: Callable[[Mapping[str, Any]], str] = lambda values: ""
    #: Where the statistic is the excursion of a random walk: the parameter by which it drifts downwards at
    #: each value, and whether in standard deviations of the values.
    drift: str = ""
    standardised: bool = False

    @property
    def threshold(self) -> Parameter | None:
        """The parameter that a budget of false alarms sets; None: none does."""
        return next((one for one in self.parameters if one.rarer), None)

    def complete(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """The values of all parameters by name, of those that differ from the defaults."""
        return {one.name: one.parse(given.get(one.name, one.default)) for one in self.parameters}

    def changed(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """The values that differ from the defaults."""
        complete = self.complete(given)
        return {one.name: complete[one.name] for one in self.parameters if complete[one.name] != one.default}

    def configured(self, given: Mapping[str, Value]) -> tuple[Any, ...]:
        """Settings from the values that differ from the defaults.

        Of the declared types: a loop is compiled anew for other ones.
        """
        complete = self.complete(given)
        return self.settings(*(one.encoded(complete[one.name]) for one in self.parameters))

    def params(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """What alarms say of the parameters."""
        complete = self.complete(given)
        return {
            one.name: complete[one.name]
            for one in self.parameters
            if one.always or complete[one.name] != one.default
        }

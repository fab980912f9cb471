"""The declaration of a detector: its parameters, its table, and its loop, made of its step by a factory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from prequential.configuration.settings.streams import Value
from prequential.engine.compiled.kernel import Bytes, Floats, Ints32, inner, kernel, named, zeros
from prequential.engine.tables.logs import Alarms, note_warning, raise_alarm
from prequential.engine.tables.outcomes import Log
from prequential.topics.errors import Fault

#: The largest value of a numeric parameter, far beyond all sensible values.
_LARGEST = 1e15

#: Longest memory, in values, that a detector may have for each sequence.
LONGEST = 1_000_000

#: Detectors that square values limit them to this, up and down, so that sums of squares stay finite.
LARGEST_SQUARED = 1e100

#: Outcomes before a ratio is fed to a detector that has no `min_outcomes`.
MIN_OUTCOMES = 30

#: Directions of a change, in the order in which they are declared.
INCREASE, DECREASE, BOTH = range(3)
DIRECTIONS = ("increase", "decrease", "both")


class Parameter(NamedTuple):
    """A parameter by its name in the configuration and in alarms; its type is that of the default.

    A value is one of `among`, or a number in [least, most]. `above` and `below` exclude the bounds
    themselves.
    """

    name: str
    default: Value
    #: Its description in the docs.
    says: str
    least: float = 0
    most: float = _LARGEST
    above: bool = False
    below: bool = False
    among: tuple[Value, ...] = ()
    #: Whether alarms always have it, or only if it isn't the default. Alarms' ids depend on it.
    always: bool = True
    #: 1: a larger value makes alarms rarer; -1: a smaller value does; 0: it does not control the rate. The
    #: rate of alarms without a change can be calibrated by such a parameter (`alarm_budget`), so it must be
    #: constant: not one that falls with time, as DDM's.
    rarer: int = 0

    def parse(self, value: Any) -> Value:
        """Convert a value of a configuration to the default's type; raises ValueError quoting it.

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
        """What a value must be, in the words of error messages: a type, and its range.

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
        """The value for loops: one of `among` becomes its place there."""
        if self.among:
            return self.among.index(value)
        if isinstance(value, str):
            raise Fault(f"{value!r} is no number: this is a fault of prequential, please report it")
        return value


@inner
def bounded(x: float) -> float:
    """The value, limited to ±`LARGEST_SQUARED`.

    >>> bounded(-0.5), bounded(1e200)
    (-0.5, 1e+100)
    """
    return min(max(x, -LARGEST_SQUARED), LARGEST_SQUARED)


class Detector(NamedTuple):
    """A detector in the registry."""

    parameters: tuple[Parameter, ...]
    #: The NamedTuple of the parameters' values for loops, in that order.
    settings: Callable[..., tuple[Any, ...]]
    #: The schema of its table, which has a row for each sequence; the column `alarms` counts alarms.
    table: type[tuple[Any, ...]]
    #: run(table, settings, log, rows, values, fed, detector, alarms): feed it `values[i]` where `fed[i]`.
    run: Callable[..., None]
    #: Whether it accepts only losses of 0 and 1, so only the signal `error` of classification.
    binary: bool = False
    #: A sentence on values, by name, that are incompatible with each other, or "".
    problem: Callable[[Mapping[str, Any]], str] = lambda values: ""
    #: If the statistic is the excursion of a random walk: the parameter for its downward drift at each value,
    #: and whether the drift is in standard deviations of the values.
    drift: str = ""
    standardised: bool = False
    #: widths(settings): the number of values in each row of columns that have several.
    widths: Callable[[Any], Mapping[str, int]] = lambda settings: {}

    def new_table(self, rows: int, settings: Any) -> tuple[Any, ...]:
        """Its table for this number of sequences without values, with these settings of loops."""
        return zeros(self.table, rows, **self.widths(settings))

    @property
    def threshold(self) -> Parameter | None:
        """The parameter that a budget of false alarms sets; None: there is none."""
        return next((parameter for parameter in self.parameters if parameter.rarer), None)

    def complete(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The values of all parameters by name, from those that differ from the defaults."""
        return {
            parameter.name: parameter.parse(values.get(parameter.name, parameter.default))
            for parameter in self.parameters
        }

    def changed(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The values that differ from the defaults."""
        complete = self.complete(values)
        return {
            parameter.name: complete[parameter.name]
            for parameter in self.parameters
            if complete[parameter.name] != parameter.default
        }

    def configured(self, values: Mapping[str, Value]) -> tuple[Any, ...]:
        """Settings from the values that differ from the defaults.

        They have the declared types: other types would compile the loop again.
        """
        complete = self.complete(values)
        return self.settings(*(parameter.encoded(complete[parameter.name]) for parameter in self.parameters))

    def params(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The parameters in alarms, by name."""
        complete = self.complete(values)
        return {
            parameter.name: complete[parameter.name]
            for parameter in self.parameters
            if parameter.always or complete[parameter.name] != parameter.default
        }


def loop_with_warnings(name: str, step: Callable[..., tuple[bool, float, float]]) -> Callable[..., None]:
    """`run` of a detector, from `step(table, settings, q, value)` for sequence q.

    The step, compiled for loops (`inner`), returns whether there is an alarm, the statistic and its bound.
    The table has a column `warning`: 1 while there is one, whose start is noted.
    """

    def run(
        table: Any, settings: Any, log: Log, rows: Ints32, values: Floats, fed: Bytes, detector: int,
        alarms: Alarms,
    ) -> None:  # fmt: skip
        for i in range(len(rows)):
            if fed[i]:
                q = log.sequence[rows[i]]
                before = table.warning[q]
                raised, statistic, bound = step(table, settings, q, values[i])
                if raised:
                    raise_alarm(alarms, i, detector, statistic, bound)
                elif table.warning[q] and not before:
                    note_warning(alarms, i, detector)

    return kernel(named(run, name))

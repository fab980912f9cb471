"""Select values of a run by measure, model, stage, estimator and stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from prequential.engine.measures.registry import MEASURES
from prequential.topics.errors import listed
from prequential.topics.outputs import Metrics


class Wanted(NamedTuple):
    """The messages to select. None stands for any value, of which there must then be only one."""

    model: str | None
    stage: str
    estimator: str | None
    stream: str | None


def check(what: str, name: str, known: Iterable[str]) -> None:
    """Raise ValueError for a name that isn't among the known ones, listing these.

    Parameters
    ----------
    what
        The kind of name: `measure`, `stage` or `estimator`.
    name
        The name to check.
    known
        The names that are configured.

    Examples
    --------
    >>> check("measure", "acc", ["accuracy", "kappa"])
    Traceback (most recent call last):
    ...
    ValueError: unknown measure 'acc': expected one of accuracy, kappa
    >>> check("measure", "mcc", ["accuracy", "kappa"])
    Traceback (most recent call last):
    ...
    ValueError: measure 'mcc' isn't configured (see the setting measures): expected one of accuracy, kappa
    """
    names = list(dict.fromkeys(known))
    if name in names:
        return
    expected = f"expected one of {listed(names)}"
    if what == "measure" and name not in MEASURES:
        raise ValueError(f"unknown measure {name!r}: {expected}")
    raise ValueError(f"{what} {name!r} isn't configured (see the setting {what}s): {expected}")


def course_of(some: list[Metrics], wanted: Wanted, what: str) -> list[Metrics]:
    """Return the selected messages, the newest one last; there must be at least one, all with `what`.

    Raises ValueError, which lists the choices.
    """
    for name, value in wanted._asdict().items():
        known = dict.fromkeys(_of(one, name) for one in some)
        if name == "stage":
            some = [one for one in some if value in (one.stage, *(one.same or ()))]
        elif value is not None:
            some = [one for one in some if _of(one, name) == value]
        elif name == "estimator":
            some = [one for one in some if one.estimator == ("all" if "all" in known else next(iter(known)))]
        elif len(known) > 1:
            raise ValueError(f"there are several {name}s: expected {name} to be one of {listed(known)}")
        if not some:
            raise ValueError(f"no {what} of {name} {value!r}: expected one of {listed(known)}")
    return [one for one in some if one.partition == some[-1].partition]


def _of(message: Metrics, name: str) -> str:
    return str(getattr(message, name))

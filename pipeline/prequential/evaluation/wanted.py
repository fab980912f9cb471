"""Which of a run's messages is asked for: of a model, a stage, an estimator, a stream."""

from __future__ import annotations

from typing import NamedTuple

from prequential.topics.outputs import Metrics


class Wanted(NamedTuple):
    """Whose message: None stands for any, and must then be one alone."""

    model: str | None
    stage: str
    estimator: str | None
    stream: str | None


def course_of(some: list[Metrics], wanted: Wanted, what: str) -> list[Metrics]:
    """Of messages that say `what`, at least one, those that are asked for, the newest one last.

    Raises ValueError saying what there is.
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
            raise ValueError(f"there are several {name}s: expected {name} to be one of {', '.join(known)}")
        if not some:
            raise ValueError(f"no {what} of {name} {value!r}: expected one of {', '.join(known)}")
    return [one for one in some if one.partition == some[-1].partition]


def _of(message: Metrics, name: str) -> str:
    return str(getattr(message, name))

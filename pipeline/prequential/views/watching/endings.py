"""Find the stages and estimators that a change of the configuration has ended: their messages stop."""

from __future__ import annotations

from typing import NamedTuple

#: A stage has ended if it has made no report since the change, although this many were due by its share of
#: outcomes. A stage that few labels reach, such as `after:1h`, therefore gets more time.
_DUE_REPORTS = 10


class EndedStage(NamedTuple):
    """Estimators of a stage; `whole` if none is left of it."""

    stage: str
    estimators: frozenset[str]
    whole: bool


class _Stage:
    """A stage's reports under one configuration: outcomes at the first and the newest, and the longest step.

    `before` is the number of outcomes at the newest report under the previous configuration, or else at the
    first report.
    """

    __slots__ = ("before", "config", "estimators", "first", "longest", "newest")

    def __init__(self, config: str, outcomes: int, before: int, estimators: dict[str, str]) -> None:
        self.config = config
        self.first = self.newest = outcomes
        self.before = before
        self.longest = 0
        #: By estimator: the configuration of its newest message.
        self.estimators = estimators


class Endings:
    """The stages of one model as a whole, tracked by its messages in order.

    All estimators of a stage report after the same outcomes. So an estimator has ended if it is missing from
    a stage's first report under a new configuration, which is known at the second report:

    >>> endings = Endings()
    >>> for config, outcomes, estimator in [("a", 1, "all"), ("a", 1, "window:9"), ("b", 2, "all")]:
    ...     assert not endings.add("final", estimator, config, outcomes)
    >>> [(one.stage, set(one.estimators), one.whole) for one in endings.add("final", "all", "b", 3)]
    [('final', {'window:9'}, False)]
    """

    __slots__ = ("_changing", "_stages")

    def __init__(self) -> None:
        self._stages: dict[str, _Stage] = {}
        self._changing = False

    def add(self, stage: str, estimator: str, config: str, outcomes: int) -> list[EndedStage]:
        """Add a message, and return the stages and estimators that have ended by it."""
        known = self._stages.get(stage)
        if known is None or known.config != config:
            before, estimators = (outcomes, {}) if known is None else (known.newest, known.estimators)
            known = self._stages[stage] = _Stage(config, outcomes, before, estimators)
            self._changing = any(one.config != config for one in self._stages.values()) or bool(estimators)
        is_next = outcomes > known.newest
        known.longest = max(known.longest, outcomes - known.newest)
        known.newest = max(known.newest, outcomes)
        ended = self._ended(stage, known) if is_next and self._changing else []
        known.estimators[estimator] = config
        return ended

    def _ended(self, stage: str, known: _Stage) -> list[EndedStage]:
        """Return the estimators of this stage, and the stages with another configuration, that have ended."""
        ended = []
        gone = frozenset(name for name, config in known.estimators.items() if config != known.config)
        if gone:
            ended.append(EndedStage(stage, gone, whole=False))
        others = [(name, one) for name, one in self._stages.items() if one.config != known.config]
        for name, one in others:
            share = min(1.0, one.newest / max(1, known.before))
            due = share * (known.newest - known.first)
            if due >= _DUE_REPORTS * known.longest:
                ended.append(EndedStage(name, frozenset(one.estimators), whole=True))
        for ending in ended:
            if ending.whole:
                del self._stages[ending.stage]
            else:
                for name in ending.estimators:
                    del known.estimators[name]
        self._changing = any(
            config != known.config for one in self._stages.values() for config in one.estimators.values()
        )
        return ended

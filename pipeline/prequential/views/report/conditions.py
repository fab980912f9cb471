"""Conditions on which a build fails, such as `accuracy < 0.9` or `challenger not better`."""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from prequential.configuration.settings.stages import FINAL
from prequential.engine.comparisons import A_BETTER, B_BETTER, UNDECIDED, VERDICTS
from prequential.engine.measures.registry import NAMES
from prequential.topics.errors import UsageError
from prequential.views.dashboard.history import History
from prequential.views.dashboard.promotion import Answer, lately
from prequential.views.watching.ranking import RankedModel, Ranking, is_baseline
from prequential.views.watching.state import SequenceName

PATTERN = re.compile(r"\s*(?P<name>[^\s\[\]]+)\s*(?:\[(?P<where>.*)\])?\s+not\s+better\s*")

#: By what it can choose.
SELECTORS = ("stream", "against", "stage", "segment", "loss")


class Challenge(NamedTuple):
    """A model (`*` stands for anything) that isn't better now than each one that it is compared with."""

    text: str
    model: str
    selectors: dict[str, str]
    measure: str = "comparisons"

    def check(self, history: History) -> list[Answer]:
        """Return an answer for each pair, and whether it fails.

        There is one failure where it is about none.
        """
        answers: list[Answer] = []
        for key, (recent, same) in history.recent.items():
            stage, loss = self.selectors.get("stage", FINAL), self.selectors.get("loss", "error")
            segment = self.selectors.get("segment")
            of_segment = key.segment is None if segment is None else fnmatchcase(key.segment or "", segment)
            of_stage = any(fnmatchcase(one, stage) for one in (key.stage, *same))
            if not recent:  # all partitions together have no such verdict
                continue
            if not (of_stage and fnmatchcase(key.loss, loss) and of_segment):
                continue
            if not fnmatchcase(key.stream, self.selectors.get("stream", "*")) or key.model == key.against:
                continue
            for model, other, leads in (
                (key.model, key.against, VERDICTS[A_BETTER]), (key.against, key.model, VERDICTS[B_BETTER]),
            ):  # fmt: skip
                if fnmatchcase(model, self.model) and not is_baseline(model) and self._meets(other):
                    verdict, since = recent.get("verdict"), recent.get("since")
                    where = f"{key.stream} / {model} against {other}, {key.stage}, {key.loss}"
                    better = None if verdict == VERDICTS[UNDECIDED] else model if verdict == leads else other
                    answers.append(Answer(verdict != leads, f"{where}: {lately(better, since)}"))
        return answers or [Answer(True, f"`{self.text}`: no pair of models that it is about is compared")]

    def _meets(self, other: str) -> bool:
        """Baselines are meant only where they are asked for."""
        return fnmatchcase(other, self.selectors.get("against", "*")) and (
            "against" in self.selectors or not is_baseline(other)
        )


#: Quantities of a model in conditions, in addition to its measures.
_COUNTS = ("outcomes", "n", "alarms", "incidents")

#: By what a condition can choose, and what stands for all.
_SELECTORS = ("stream", "model", "stage", "estimator", "segment")

#: … of those that are counted by models and not by sequences.
_OF_COUNTS = {"alarms": ("stream", "model", "stage"), "incidents": ("stream", "model")}

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, ">": operator.gt,
}  # fmt: skip

_CONDITION = re.compile(
    r"\s*(?P<name>[a-z_][a-z0-9_]*)\s*(?:\[(?P<where>.*)\])?\s*"
    r"(?P<sign><=|>=|==|!=|<|>)\s*(?P<bound>[^\s<>=]+)\s*"
)
_SELECTION = re.compile(r'\s*(?P<name>\w+)\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[^,"]*?))\s*(?:,|$)')

_EXAMPLE = (
    "expected MEASURE [SELECTORS] SIGN NUMBER, e.g. accuracy < 0.9, or kappa[model=nb] < 0.5; "
    "or MODEL not better"
)


class Condition(NamedTuple):
    """A bound of a measure, of models that are chosen by names, in which `*` stands for anything."""

    text: str
    measure: str
    selectors: dict[str, str]
    sign: str
    bound: float

    def check(self, history: History) -> list[Answer]:
        """Return an answer for each model, and whether it fails.

        There is one failure where it is about none.
        """
        ranking = Ranking(history)
        answers: list[Answer] = []
        for _, model in sorted(history.models.items()):
            if self._chooses("stream", model.key.stream) and self._names(model.key.model):
                answers += self._answers(history, ranking.row(model))
        return answers or [Answer(True, f"`{self.text}`: no model that it is about has such a sequence")]

    def _answers(self, history: History, row: RankedModel) -> Iterator[Answer]:
        key = row.model.key
        if self.measure in _OF_COUNTS:
            value = self._count(history, row)
            yield Answer(self._holds(value), f"{key.stream} / {key.model}: {self.measure} {value:g}")
            return
        for sequence in self._sequences(row):
            reading = history.reading(row.model.sequences[sequence])
            if reading is None:
                continue
            segment = f" {sequence.segment}" if sequence.segment is not None else ""
            where = f"{key.stream} / {key.model}{segment}, {sequence.stage}, {sequence.estimator}"
            values = {**reading.measures, "outcomes": reading.outcomes, "n": reading.n}
            measured = values.get(self.measure)
            if measured is None:
                reason = reading.undefined.get(self.measure, "not among the measures of its messages")
                yield Answer(True, f"{where}: {self.measure} has no value ({reason})")
            else:
                yield Answer(self._holds(measured), f"{where}: {self.measure} {measured:.6g}")

    def _holds(self, value: float) -> bool:
        return _OPERATORS[self.sign](value, self.bound)

    def _count(self, history: History, row: RankedModel) -> float:
        key = row.model.key
        if self.measure == "incidents":
            return len(history.incidents.of_model(key.stream, key.model, key.partition))
        past = history.past.get(key)
        counts = past.alarm_counts if past is not None else {}
        return sum(
            count for (_, _, stages), count in counts.items()
            if any(self._chooses("stage", stage) for stage in stages)
        )  # fmt: skip

    def _sequences(self, row: RankedModel) -> list[SequenceName]:
        """Those that are chosen; else of the whole stream, as it is shown, over all history."""
        whole = [one for one in row.model.sequences if one.segment is None]
        stage = row.sequence.stage if row.sequence is not None else None
        sequences = []
        for one in row.model.sequences:
            if "segment" in self.selectors:
                if one.segment is None or not self._chooses("segment", one.segment):
                    continue
            elif one.segment is not None:
                continue
            stages = row.model.stages_of(one)
            wanted = any(self._chooses("stage", name) for name in stages)
            if not (wanted if "stage" in self.selectors else one.stage == stage):
                continue
            if "estimator" in self.selectors:
                if not self._chooses("estimator", one.estimator):
                    continue
            else:
                has_all = any(other[1:] == (one.stage, "all") for other in whole)
                usual = "all" if has_all or row.sequence is None else row.sequence.estimator
                if one.estimator != usual:
                    continue
            sequences.append(one)
        return sorted(sequences, key=lambda one: (one.segment or "", one.stage, one.estimator))

    def _names(self, model: str) -> bool:
        """Baselines are meant only where they are asked for."""
        return self._chooses("model", model) and ("model" in self.selectors or not is_baseline(model))

    def _chooses(self, selector: str, name: str) -> bool:
        return fnmatchcase(name, self.selectors.get(selector, "*"))


def parse_condition(text: str) -> Condition | Challenge:
    """A condition as it is written; raises UsageError quoting it.

    >>> parse_condition("accuracy < 0.9")[1:]
    ('accuracy', {}, '<', 0.9)
    >>> parse_condition('kappa[model=nb, segment="country=fr"] <= 0')[1:]
    ('kappa', {'model': 'nb', 'segment': 'country=fr'}, '<=', 0.0)
    >>> parse_condition("tree[against=nb] not better")[1:3]
    ('tree', {'against': 'nb'})
    >>> parse_condition("acuracy<1")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: --fail-if 'acuracy<1': no measure 'acuracy'; did you mean accuracy?
    """
    match = PATTERN.fullmatch(text)
    if match is not None:
        selectors = _selectors(text, match["where"] or "", SELECTORS)
        return Challenge(text.strip(), match["name"], selectors)
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"--fail-if {text!r}: {_EXAMPLE}")
    name = match["name"]
    known = (*NAMES, *_COUNTS)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        raise UsageError(f"--fail-if {text!r}: no measure {name!r}; {hint}")
    try:
        bound = float(match["bound"])
    except ValueError:
        bound = float("nan")
    if bound - bound != 0:  # not a finite number
        raise UsageError(f"--fail-if {text!r}: {match['bound']!r} is no number")
    selectors = _selectors(text, match["where"] or "", _SELECTORS)
    if other := sorted(selectors.keys() - _OF_COUNTS.get(name, _SELECTORS)):
        expected = ", ".join(_OF_COUNTS[name])
        raise UsageError(f"--fail-if {text!r}: {name} can't be chosen by {other[0]}; expected {expected}")
    return Condition(text.strip(), name, selectors, match["sign"], bound)


def _selectors(text: str, where: str, known: Sequence[str]) -> dict[str, str]:
    selectors: dict[str, str] = {}
    place = 0
    while place < len(where):
        match = _SELECTION.match(where, place)
        if match is None or match["name"] not in known:
            what = match["name"] if match else where[place:].strip()
            names = ", ".join(known)
            raise UsageError(f"--fail-if {text!r}: {what!r} is no selector; expected NAME=VALUE of {names}")
        selectors[match["name"]] = match["plain"] if match["quoted"] is None else match["quoted"]
        place = match.end()
    return selectors

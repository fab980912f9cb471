"""What a replay found as Markdown for a comment in CI, and conditions on which a build fails."""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import NamedTuple

from prequential.configuration.settings.stages import FINAL
from prequential.engine.estimators.naming import is_baseline
from prequential.engine.measures.registry import NAMES
from prequential.topics.errors import UsageError, printable
from prequential.topics.outputs import BY_PARTITION
from prequential.views.dashboard.overview import Overview
from prequential.views.dashboard.pair import Answer, lately
from prequential.views.state.history import History
from prequential.views.state.newest import SequenceName, expected_lines
from prequential.views.state.ranking import Choice, RankedModel, Ranking, measures_shown
from prequential.views.state.statuses import missed
from prequential.views.wording import comparing, comparison_report, console, measures, status
from prequential.views.wording.expected import ASSUMPTION

PATTERN = re.compile(r"\s*(?P<name>[^\s\[\]]+)\s*(?:\[(?P<where>.*)\])?\s+not\s+better\s*")

#: By what it can choose.
SELECTORS = ("stream", "against", "stage", "segment", "loss")


class _Selectors(dict[str, str]):
    """Names by which a condition chooses; `*` stands for anything."""

    def choose(self, selector: str, name: str, default: str = "*") -> bool:
        return fnmatchcase(name, self.get(selector, default))

    def choose_model(self, selector: str, model: str) -> bool:
        """Baselines are meant only where they are asked for."""
        return self.choose(selector, model) and (selector in self or not is_baseline(model))


class Challenge(NamedTuple):
    """A model (`*` stands for anything) that isn't better now than each one that it is compared with."""

    text: str
    model: str
    selectors: _Selectors
    measure: str = "comparisons"

    def check(self, history: History) -> list[Answer]:
        """Return an answer for each pair, and whether it fails; one failure if it is about none."""
        answers: list[Answer] = []
        chosen = self.selectors
        for pair in history.all_pairs():
            if "segment" in chosen:
                fits = chosen.choose("segment", pair.segment or "")
            else:
                fits = pair.segment is None
            fits = fits and any(chosen.choose("stage", stage, FINAL) for stage in (pair.stage, *pair.same))
            fits = fits and chosen.choose("loss", pair.loss, "error")
            fits = fits and chosen.choose("stream", pair.stream)
            # All partitions together have no recent verdict.
            if not fits or pair.is_of_stages or pair.verdict == BY_PARTITION:
                continue
            better = since = None
            if pair.recent is not None:
                better, since = pair.better(pair.recent.verdict), pair.recent.since
            for model, rival in ((pair.model, pair.against), (pair.against, pair.model)):
                if (
                    fnmatchcase(model, self.model)
                    and not is_baseline(model)
                    and chosen.choose_model("against", rival)
                ):
                    subject = f"{pair.stream} / {model} against {rival}, {pair.stage}, {pair.loss}"
                    sentence = f"{subject}: {lately(better, since)}"
                    if pair.provisional is not None:
                        waiting = comparing.waiting_in_words(pair.provisional, pair.model, pair.against)
                        sentence += f"; {waiting}"
                    answers.append(Answer(better != model, sentence))
        return answers or [Answer(True, f"`{self.text}`: no pair of models that it is about is compared")]


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
    selectors: _Selectors
    sign: str
    bound: float

    def check(self, history: History) -> list[Answer]:
        """Return an answer for each model, and whether it fails; one failure if it is about none."""
        ranking, chosen = Ranking(history), self.selectors
        answers: list[Answer] = []
        for key, model in sorted(history.models.items()):
            if chosen.choose("stream", key.stream) and chosen.choose_model("model", key.model):
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
            subject = f"{key.stream} / {key.model}{segment}, {sequence.stage}, {sequence.estimator}"
            values = {**reading.measures, "outcomes": reading.outcomes, "n": reading.n}
            measured = values.get(self.measure)
            if measured is None:
                reason = reading.undefined.get(self.measure, "not among the measures of its messages")
                yield Answer(True, f"{subject}: {self.measure} has no value ({reason})")
            else:
                yield Answer(self._holds(measured), f"{subject}: {self.measure} {measured:.6g}")

    def _holds(self, value: float) -> bool:
        return _OPERATORS[self.sign](value, self.bound)

    def _count(self, history: History, row: RankedModel) -> float:
        key = row.model.key
        if self.measure == "incidents":
            return len(history.incidents.of_model(*key))
        past = history.past.get(key)
        counts = past.alarm_counts if past is not None else {}
        return sum(
            count for (_, _, stages), count in counts.items()
            if any(self.selectors.choose("stage", stage) for stage in stages)
        )  # fmt: skip

    def _sequences(self, row: RankedModel) -> list[SequenceName]:
        """Those that are chosen; else of the whole stream, as it is shown, over all history."""
        chosen, model_sequences = self.selectors, row.model.sequences
        sequences = []
        for sequence_name in model_sequences:
            if "segment" in chosen:
                fits = sequence_name.segment is not None and chosen.choose("segment", sequence_name.segment)
            else:
                fits = sequence_name.segment is None
            if "stage" in chosen:
                fits &= any(chosen.choose("stage", name) for name in row.model.stages_of(sequence_name))
            else:
                fits &= row.sequence is not None and sequence_name.stage == row.sequence.stage
            if "estimator" in chosen:
                fits &= chosen.choose("estimator", sequence_name.estimator)
            else:
                has_all = sequence_name._replace(segment=None, estimator="all") in model_sequences
                usual = "all" if has_all or row.sequence is None else row.sequence.estimator
                fits &= sequence_name.estimator == usual
            if fits:
                sequences.append(sequence_name)
        return sorted(
            sequences,
            key=lambda sequence_name: (
                sequence_name.segment or "",
                sequence_name.stage,
                sequence_name.estimator,
            ),
        )


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
    valid_names = (*NAMES, *_COUNTS)
    if name not in valid_names:
        near = difflib.get_close_matches(name, valid_names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(valid_names)}"
        raise UsageError(f"--fail-if {text!r}: no measure {name!r}; {hint}")
    try:
        bound = float(match["bound"])
    except ValueError:
        bound = float("nan")
    if bound - bound != 0:  # not a finite number
        raise UsageError(f"--fail-if {text!r}: {match['bound']!r} is no number")
    selectors = _selectors(text, match["where"] or "", _SELECTORS)
    if unfit := sorted(selectors.keys() - _OF_COUNTS.get(name, _SELECTORS)):
        expected = ", ".join(_OF_COUNTS[name])
        raise UsageError(f"--fail-if {text!r}: {name} can't be chosen by {unfit[0]}; expected {expected}")
    return Condition(text.strip(), name, selectors, match["sign"], bound)


def _selectors(text: str, selection: str, selector_names: Sequence[str]) -> _Selectors:
    selectors = _Selectors()
    position = 0
    while position < len(selection):
        match = _SELECTION.match(selection, position)
        if match is None or match["name"] not in selector_names:
            unread = match["name"] if match else selection[position:].strip()
            names = ", ".join(selector_names)
            raise UsageError(f"--fail-if {text!r}: {unread!r} is no selector; expected NAME=VALUE of {names}")
        selectors[match["name"]] = match["plain"] if match["quoted"] is None else match["quoted"]
        position = match.end()
    return selectors


#: Models in the table, failures and alarms in the lists: a comment is read, not searched.
_MODELS, _FAILURES, _MEASURES = 30, 20, 5

#: Runs of backticks: what is between a longer one is code.
_TICKS = re.compile("`+")


def markdown(history: History, title: str = "", conditions: Sequence[Condition | Challenge] = ()) -> str:
    """Conditions with what they say, models the worst first, which is better, alarms and incidents.

    Names are code, so nothing in them is read as Markdown, or as a mention of a user.
    """
    return "\n".join([*_lines(history, title, conditions), ""])


def _lines(history: History, title: str, conditions: Sequence[Condition | Challenge]) -> Iterator[str]:
    yield f"## {code(title) if title else 'Evaluation'}"
    yield ""
    for condition in conditions:
        answers = condition.check(history)
        failed = [answer for answer in answers if answer.failed]
        mark = "❌ fails" if failed else "✅ passes"
        yield f"- {mark} {code(condition.text)}: {len(failed):,} of {len(answers):,} fail"
        yield from (f"  - {code(answer.sentence)}" for answer in failed[:_FAILURES])
        if len(failed) > _FAILURES:
            yield f"  - … and {len(failed) - _FAILURES:,} more"
    if conditions:
        yield ""
    yield from _table(history)
    pairs = [pair for pair in history.all_pairs() if pair.segment is None]
    pairs.sort(key=lambda pair: (pair.stream, pair.partition))
    heading, *lines = list(comparison_report.report(pairs)) or [""]
    yield from _section(heading.capitalize(), (f"- {code(line.strip())}" for line in lines))
    yield from _section("Compared with their first outcomes", _referred(history))
    expected = list(_expected(history))
    yield from _section("Estimated performance", expected)
    if expected:
        yield from ("", ASSUMPTION)
    silent = list(_silent(history))
    yield from _section(f"Models without new outcomes: {len(silent):,}", silent)
    alarms = {key: sum(past.alarm_counts.values()) for key, past in history.past.items() if past.alarm_counts}
    most = sorted(alarms.items(), key=lambda item: (-item[1], item[0]))
    lines_shown = (f"- {code(f'{key.stream} / {key.model}')}: {count:,}" for key, count in most)
    incidents = history.incidents.all()
    raised, within = sum(alarms.values()), sum(incident.alarm_count for incident in incidents)
    belong = f", {min(raised, within):,} of them in incidents" if incidents and raised else ""
    yield from _section(f"Drift alarms: {raised:,}{belong}", lines_shown)
    lines_shown = (f"- {code(status.sentence(incident))}" for incident in incidents)
    yield from _section(f"Incidents: {len(incidents):,}", lines_shown)


def _section(heading: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield the first lines below a heading; nothing without lines."""
    shown = list(islice(lines, _FAILURES))
    if shown:
        yield from ("", heading, "", *shown)


def _table(history: History) -> Iterator[str]:
    overview = Overview(history)
    rows = overview.rows(Choice(estimator="all"), history.newest_ts)
    measure_names = {name for row in rows if row.reading is not None for name in row.reading.measures}
    names = measures_shown(measure_names, None)[:_MEASURES]
    yield _row(["stream", "model", "stage", "estimator", "outcomes", *names])
    yield _row([*["---"] * 4, *["---:"] * (1 + len(names))])
    for row in rows[:_MODELS]:
        if row.reading is None or row.sequence is None:
            continue
        values = row.reading.measures
        model = code(row.model.key.model) + (" (baseline)" if is_baseline(row.model.key.model) else "")
        stage = measures.stage_in_words(row.sequence.stage, row.reading.same)
        below = {missed_bound.measure for missed_bound in missed(history, row)}
        yield _row([
            code(row.model.key.stream), model, code(stage), code(row.sequence.estimator),
            f"{row.reading.outcomes:,}",
            *(
                console.number(values[name]) + " ▼" * (name in below) if name in values else "–"
                for name in names
            ),
        ])  # fmt: skip
    if len(rows) > _MODELS:
        yield ""
        yield f"The worst {_MODELS} of {len(rows):,} models."


def _expected(history: History) -> Iterator[str]:
    """Yield estimates for models with periods: of the newest whole one, and of pending predictions."""
    for key, model in sorted(history.models.items()):
        if lines := expected_lines(model, history.config.stream(key.stream).period_zone):
            yield f"- {code(f'{key.stream} / {key.model}')}: {'; '.join(lines)}"


def _referred(history: History) -> Iterator[str]:
    """Yield models compared with their first outcomes, by the estimator that is shown of them."""
    for row in Overview(history).rows(Choice(), history.newest_ts):
        comparison = None if row.reading is None else comparing.main_comparison(row.reading.reference)
        if comparison is not None and row.sequence is not None:
            key = row.model.key
            yield f"- {code(f'{key.stream} / {key.model}')}, {row.sequence.estimator}: {comparison}"


def _silent(history: History) -> Iterator[str]:
    """Models that had stopped by the end of their stream, since when."""
    for key, model in sorted(history.models.items()):
        silence = None if is_baseline(key.model) else history.silence(model, None)
        if silence is not None:
            since = console.moment(silence.since, history.newest_ts)
            yield f"- {code(f'{key.stream} / {key.model}')}: since {since}, {silence.why}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def code(text: str) -> str:
    r"""Text as code, also within a table.

    >>> code("nb"), code("a`b"), code("a|b")
    ('`nb`', '`` a`b ``', '`a\\|b`')

    A backslash before the bar would be taken for the one that escapes it, and the cell would end there.

    >>> code(r"a\|b")
    '`a�\\|b`'
    """
    text = printable(text).replace("\\|", "\ufffd|").replace("|", "\\|")
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    if not longest:
        return f"`{text}`"
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}"

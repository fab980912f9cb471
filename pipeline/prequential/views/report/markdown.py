"""What a replay found as Markdown, for a comment in CI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from prequential.topics.errors import printable
from prequential.views.dashboard.history import History
from prequential.views.dashboard.overview import Overview
from prequential.views.dashboard.status import missed
from prequential.views.report.conditions import Challenge, Condition
from prequential.views.watching.ranking import Choice, is_baseline, measures_shown
from prequential.views.watching.state import expected_lines
from prequential.views.watching.text import moment, number
from prequential.views.wording.comparing import Pair, main_one
from prequential.views.wording.comparing import report as pair_statuses
from prequential.views.wording.expected import ASSUMPTION
from prequential.views.wording.incidents import sentence
from prequential.views.wording.measures import stage_in_words

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
        failed = [one for one in answers if one.failed]
        mark = "❌ fails" if failed else "✅ passes"
        yield f"- {mark} {code(condition.text)}: {len(failed):,} of {len(answers):,} fail"
        yield from (f"  - {code(one.sentence)}" for one in failed[:_FAILURES])
        if len(failed) > _FAILURES:
            yield f"  - … and {len(failed) - _FAILURES:,} more"
    if conditions:
        yield ""
    yield from _table(history)
    pairs = [pair for _, answers in sorted(_pairs(history)) for pair in answers if pair.segment is None]
    if lines := list(pair_statuses(pairs)):
        yield ""
        yield lines[0].capitalize()
        yield ""
        yield from (f"- {code(line.strip())}" for line in lines[1:])
    if referred := list(_referred(history)):
        yield ""
        yield "Compared with their first outcomes"
        yield ""
        yield from referred[:_FAILURES]
    if expected := list(_expected(history)):
        yield ""
        yield "Estimated performance"
        yield ""
        yield from expected[:_FAILURES]
        yield ""
        yield ASSUMPTION
    if silent := list(_silent(history)):
        yield ""
        yield f"Models without new outcomes: {len(silent):,}"
        yield ""
        yield from silent[:_FAILURES]
    alarms = {key: sum(past.alarm_counts.values()) for key, past in history.past.items() if past.alarm_counts}
    if alarms:
        yield ""
        yield f"Drift alarms: {sum(alarms.values()):,}"
        yield ""
        for key, count in sorted(alarms.items(), key=lambda one: (-one[1], one[0]))[:_FAILURES]:
            yield f"- {code(f'{key.stream} / {key.model}')}: {count:,}"
    if incidents := history.incidents.all():
        yield ""
        yield f"Incidents: {len(incidents):,}"
        yield ""
        for one in incidents[:_FAILURES]:
            yield f"- {code(sentence(one))}"


def _table(history: History) -> Iterator[str]:
    overview = Overview(history)
    rows = overview.rows(Choice(estimator="all"), history.newest_ts)
    known = {name for row in rows if row.reading is not None for name in row.reading.measures}
    names = measures_shown(known, None)[:_MEASURES]
    yield from _row(["stream", "model", "stage", "estimator", "outcomes", *names])
    yield from _row([*["---"] * 4, *["---:"] * (1 + len(names))])
    for row in rows[:_MODELS]:
        if row.reading is None or row.sequence is None:
            continue
        values = row.reading.measures
        model = code(row.model.key.model) + (" (baseline)" if is_baseline(row.model.key.model) else "")
        stage = stage_in_words(row.sequence.stage, row.reading.same)
        below = {one.measure for one in missed(history, row)}
        yield from _row([
            code(row.model.key.stream), model, code(stage), code(row.sequence.estimator),
            f"{row.reading.outcomes:,}",
            *(number(values[name]) + " ▼" * (name in below) if name in values else "–" for name in names),
        ])  # fmt: skip
    if len(rows) > _MODELS:
        yield ""
        yield f"The worst {_MODELS} of {len(rows):,} models."


def _expected(history: History) -> Iterator[str]:
    """Yield estimates for models with periods: of the newest whole one, and of pending predictions."""
    for key, model in sorted(history.models.items()):
        if lines := expected_lines(model):
            yield f"- {code(f'{key.stream} / {key.model}')}: {'; '.join(lines)}"


def _referred(history: History) -> Iterator[str]:
    """Yield models compared with their first outcomes, by the estimator that is shown of them."""
    for row in Overview(history).rows(Choice(), history.newest_ts):
        said = None if row.reading is None else main_one(row.reading.reference)
        if said is not None and row.sequence is not None:
            key = row.model.key
            yield f"- {code(f'{key.stream} / {key.model}')}, {row.sequence.estimator}: {said}"


def _silent(history: History) -> Iterator[str]:
    """Models that had stopped by the end of their stream, since when."""
    for key, model in sorted(history.models.items()):
        silence = None if is_baseline(key.model) else history.silence(model, None)
        if silence is not None:
            since = moment(silence.since, history.newest_ts)
            yield f"- {code(f'{key.stream} / {key.model}')}: since {since}, {silence.why}"


def _pairs(history: History) -> Iterator[tuple[tuple[str, int], list[Pair]]]:
    streams = {(key.stream, key.partition) for key in history.models}
    return ((place, list(history.pairs(*place))) for place in streams)


def _row(cells: Iterable[str]) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"


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

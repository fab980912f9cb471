"""The gate: checks of each model that pass or fail, the failed ones first, and who may replace a champion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from prequential.engine.estimators.naming import is_baseline
from prequential.engine.measures.registry import LESS_IS_BETTER
from prequential.views.dashboard.pair import Answer, Promotion
from prequential.views.state.best import deciding_set
from prequential.views.state.history import History
from prequential.views.state.incidents import OPEN
from prequential.views.state.ranking import RankedModel, Ranking
from prequential.views.state.statuses import (
    Statuses,
    Verdicts,
    baseline_lead,
    is_below_baseline,
    missed,
    shown_value,
    worse_than,
)
from prequential.views.wording import status
from prequential.views.wording.best_models import in_words

#: Checks that are listed, the failed ones first.
_LISTED = 300

#: Results of a check. It is unknown if the model has too few outcomes, or no value.
PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"

#: The order in which they are listed.
_ORDER = (FAILED, UNKNOWN, PASSED)


class StatedCondition(Protocol):
    """A condition of `--fail-if`, which fails if it holds."""

    @property
    def text(self) -> str:
        """Return the condition as it is written, such as `accuracy < 0.9`."""

    def check(self, history: History) -> list[Answer]:
        """Return an answer for each model that the condition is about, at least one."""


class Check(NamedTuple):
    """A check of a model: what is expected, whether it is so, and the values behind it."""

    stream: str
    model: str
    partition: int
    expected: str
    result: str
    sentence: str


def gate_page(
    history: History, now: int | None = None, conditions: Sequence[StatedCondition] = ()
) -> dict[str, Any]:
    """Return the checks of all models as the page's JSON; `now` is in epoch ms, None for files.

    `conditions` are those of `--fail-if`: a check passes unless the condition holds or is undefined.
    """
    checks = [*_stated(history, conditions), *_of_models(history, now)]
    results = [check.result for check in checks]
    checks.sort(key=lambda check: _ORDER.index(check.result))
    return {
        "checks": [check._asdict() for check in checks[:_LISTED]], "total": len(checks),
        **{result: results.count(result) for result in _ORDER},
        "promotions": list(_promotions(history)),
    }  # fmt: skip


def _stated(history: History, conditions: Sequence[StatedCondition]) -> Iterator[Check]:
    for condition in conditions:
        for answer in condition.check(history):
            result = FAILED if answer.failed else PASSED
            yield Check("", "", 0, f"not: {condition.text}", result, answer.sentence)


def _of_models(history: History, now: int | None) -> Iterator[Check]:
    ranked, verdicts = Ranking(history), Verdicts(history)
    statuses = Statuses(history, verdicts, now is not None)
    for key, model in sorted(history.models.items()):
        if is_baseline(key.model):
            continue
        row = ranked.row(model)
        for expected, result, sentence in (
            *_labels(history, statuses, row, now), *_objective(history, row), *_baselines(row),
            *_incidents(history, row), *_better_models(history, verdicts, row),
        ):  # fmt: skip
            yield Check(key.stream, key.model, key.partition, expected, result, sentence)


#: What is expected, whether it is so, and a sentence.
_Finding = tuple[str, str, str]


def _labels(history: History, statuses: Statuses, row: RankedModel, now: int | None) -> Iterator[_Finding]:
    page_status = statuses.as_json(row, now if now is not None else history.newest_ts)
    missing = page_status["kind"] in ("unlabelled", "silent")
    outcomes = 0 if row.reading is None else row.reading.outcomes
    sentence = page_status["sentence"] if missing or not outcomes else f"{outcomes:,} outcomes."
    result = FAILED if missing else PASSED if outcomes else UNKNOWN
    yield "predictions and labels arrive", result, sentence


def _objective(history: History, row: RankedModel) -> Iterator[_Finding]:
    objective = history.config.stream(row.model.key.stream).objective
    if objective is None:
        return
    values = {} if row.reading is None else row.reading.measures
    failed = {missed_bound.measure for missed_bound in missed(history, row)}
    for name, bound in objective.bounds.items():
        expected = f"{name} is at {'most' if name in LESS_IS_BETTER else 'least'} {bound:g}"
        value = values.get(name)
        if value is None:
            yield expected, UNKNOWN, f"{name} has no value."
        else:
            yield expected, FAILED if name in failed else PASSED, f"{name} is {status.number(value)}."


def _baselines(row: RankedModel) -> Iterator[_Finding]:
    expected = "at least as good as the baselines"
    if row.reading is None or row.reading.outcomes < status.FEW:
        yield expected, UNKNOWN, f"fewer than {status.FEW} outcomes."
    elif is_below_baseline(row):
        lead = baseline_lead(row)
        worse = f"It is worse than {status.names(worse_than(row))}."
        yield expected, FAILED, shown_value(row) if lead is not None else worse
    else:
        chance = " The difference may be chance." if worse_than(row) else ""
        yield expected, PASSED, f"{shown_value(row)}{chance}"


def _incidents(history: History, row: RankedModel) -> Iterator[_Finding]:
    open_incidents = [
        incident for incident in history.incidents.of_model(*row.model.key)
        if incident.status == OPEN and incident.severity >= 0
    ]  # fmt: skip
    worst = max(open_incidents, key=lambda incident: incident.severity, default=None)
    if worst is None:
        yield "no incident is open", PASSED, "None."
    else:
        yield "no incident is open", FAILED, status.incident_sentence(worst)


def _better_models(history: History, verdicts: Verdicts, row: RankedModel) -> Iterator[_Finding]:
    key = row.model.key
    pairs = [
        pair for pair in history.pairs(key.stream, key.partition)
        if key.model in (pair.model, pair.against) and pair.model != pair.against
        and not is_baseline(pair.model) and not is_baseline(pair.against)
    ]  # fmt: skip
    if not pairs:
        return
    better = [better_model["name"] for better_model in verdicts.better_than(key)]
    result, sentence = (FAILED, status.better_sentence(better)) if better else (PASSED, "None is.")
    best = deciding_set(history, key)
    if best is not None:
        sentence = f"{sentence} Over the whole run, {in_words(best)}."
    yield "no other model is proven better", result, sentence


def _promotions(history: History) -> Iterator[dict[str, Any]]:
    """Yield for each challenger of a configured champion whether it may replace the champion, and why."""
    for key in sorted(history.models):
        champion = history.config.stream(key.stream).champion
        if champion is None or key.model == champion or is_baseline(key.model):
            continue
        answers = list(Promotion(key.model, champion).of_stream(history, key))
        yield {
            **key._asdict(), "champion": champion, "allowed": not any(answer.failed for answer in answers),
            "answers": [answer._asdict() for answer in answers],
        }  # fmt: skip

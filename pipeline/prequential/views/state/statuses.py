"""The status of a model: its most urgent one, with the sentence that explains it; and verdicts against it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from prequential.configuration.settings.stages import FINAL
from prequential.engine.estimators.naming import is_baseline
from prequential.engine.measures.registry import LESS_IS_BETTER, MEASURES
from prequential.topics.outputs import Incident
from prequential.views.state.incidents import OPEN, began
from prequential.views.state.newest import (
    LABELS_STOPPED,
    WORKER_DOWN,
    ModelKey,
    ModelState,
    NewestMessages,
    StreamPartition,
    coverage_of,
)
from prequential.views.state.ranking import RankedModel
from prequential.views.wording import comparing, measures
from prequential.views.wording.status import (
    FEW,
    NEXT_OF_STATUS,
    NEXT_WITHOUT_WORKER,
    URGENT,
    WORDS,
    better_sentence,
    changed_with,
    incident_sentence,
    level,
    level_name,
    names,
    next_step,
    objective_sentence,
    silence_sentence,
    unlabelled_sentence,
    value_sentence,
)

#: The largest number of better models that are named.
_NAMED = 3


def better_now(pair: comparing.Pair) -> str | None:
    """Return the better model of a pair by the recent verdict, or by the verdict over the whole run.

    Returns None if neither is better, or if the latest outcomes contradict the verdict over the whole run.
    """
    verdict = pair.recent.verdict if pair.recent is not None else pair.verdict
    if pair.recent is None and comparing.contradicted(pair):
        return None
    return pair.better(verdict)


class WorsePairs(NamedTuple):
    """By model of a stream in one partition, the pairs in which it is worse."""

    heard: int  # when messages had come last
    of_model: dict[str, list[comparing.Pair]]


class Verdicts:
    """Verdicts against models, by the stream's first loss, in stage `final`, without segments.

    Verdicts of baselines are not included, because measures relative to baselines show them.
    """

    def __init__(self, history: NewestMessages) -> None:
        self._history = history
        #: By stream and partition: the version of the history, and by model the pairs with a better one.
        self._known: dict[StreamPartition, WorsePairs] = {}

    def against(self, key: ModelKey) -> bool:
        """Whether a model has a verdict against it; in a stream with a champion, only for the champion."""
        champion = self._history.config.stream(key.stream).champion
        return champion in (None, key.model) and bool(self._pairs_against(key))

    def better_than(self, key: ModelKey) -> list[dict[str, Any]]:
        """Return the models that are better than this one now, as the page's JSON."""
        return [
            {"name": pair.against if pair.model == key.model else pair.model, "model": pair.model,
             "against": pair.against, "stage": pair.stage, "loss": pair.loss}
            for pair in self._pairs_against(key)[:_NAMED]
        ]  # fmt: skip

    def _pairs_against(self, key: ModelKey) -> list[comparing.Pair]:
        stream_partition = key.stream_partition
        heard = self._history.heard.get(stream_partition, 0)
        pairs = self._known.get(stream_partition)
        if pairs is None or pairs.heard != heard:
            pairs = self._known[stream_partition] = WorsePairs(heard, self._worse(stream_partition))
        return pairs.of_model.get(key.model, [])

    def _worse(self, stream_partition: StreamPartition) -> dict[str, list[comparing.Pair]]:
        loss = self._history.config.stream(stream_partition.stream).compare_losses[0]
        worse: dict[str, list[comparing.Pair]] = {}
        for pair in self._history.pairs(*stream_partition):
            names = {pair.model, pair.against}
            whole = pair.segment is None and pair.loss == loss and FINAL in (pair.stage, *pair.same)
            if whole and len(names) == 2 and not any(map(is_baseline, names)):
                better = better_now(pair)
                if better is not None:
                    [worse_model] = names - {better}
                    worse.setdefault(worse_model, []).append(pair)
        return worse


#: Measures relative to a baseline, which is better if the value is below 0.
_AGAINST = {
    definition.name: definition.reference.name
    for definition in MEASURES.values()
    if definition.quality and definition.reference is not None and definition.needs_label
}


class Missed(NamedTuple):
    """A bound of the objective that a model misses."""

    measure: str
    value: float
    bound: float
    less_is_better: bool


def missed(history: NewestMessages, row: RankedModel) -> list[Missed]:
    """Return the bounds of the configured objective that a model's shown values miss."""
    objective = history.config.stream(row.model.key.stream).objective
    if objective is None or row.reading is None or is_baseline(row.model.key.model):
        return []
    values = row.reading.measures
    return [
        Missed(name, values[name], bound, name in LESS_IS_BETTER)
        for name, bound in objective.bounds.items()
        if name in values and MEASURES[name].margin(values[name], bound) + objective.tolerance < 0
    ]


def worse_than(row: RankedModel) -> list[str]:
    """Return the names of the baselines that are better than a model's shown values."""
    if row.reading is None or is_baseline(row.model.key.model):
        return []
    values = row.reading.measures
    return [words for name, words in _AGAINST.items() if values.get(name, 0.0) < 0]


class BaselineLead(NamedTuple):
    """A baseline that is right more often than a model, by more than chance explains."""

    name: str
    value: float
    model_value: float


def baseline_lead(row: RankedModel) -> BaselineLead | None:
    """Return the best baseline that is ahead of a model's shown accuracy; None if there is none.

    Both accuracies are shares of the same n outcomes. Their difference has a standard error of at most
    sqrt((errors of both) / n) / sqrt(n); a baseline is ahead by at least two of these.
    """
    if row.reading is None or is_baseline(row.model.key.model) or row.reading.outcomes < FEW:
        return None
    values = row.reading.measures
    model_value, outcomes = values.get("accuracy"), row.reading.n
    if model_value is None or outcomes < FEW:
        return None
    ahead = [
        BaselineLead(baseline.line.name, baseline.value, model_value)
        for baseline in measures.baseline_values(values, "accuracy")
        if baseline.value - model_value > _ERRORS * math.sqrt((2 - baseline.value - model_value) / outcomes)
    ]
    return max(ahead, key=lambda lead: lead.value, default=None)


def is_below_baseline(row: RankedModel) -> bool:
    """Return whether a baseline is better than a model by more than chance explains."""
    if row.reading is None or is_baseline(row.model.key.model) or row.reading.outcomes < FEW:
        return False
    values = row.reading.measures
    if "accuracy" in values and measures.baseline_values(values, "accuracy"):
        return baseline_lead(row) is not None
    return any(row.reading.measures.get(name, 0.0) < _RELATIVE_LOSS for name in _AGAINST)


#: Standard errors by which a baseline must be ahead, and for numbers the value relative to a baseline.
_ERRORS, _RELATIVE_LOSS = 2, -0.05


def story(history: NewestMessages, row: RankedModel, page_status: dict[str, Any]) -> str:
    """Return a model's current value and its problems, the worst first, in short sentences.

    `page_status` is its status, as `Statuses.of` returns it.
    """
    if row.reading is None or row.sequence is None:
        return "It has no metrics yet."
    if not row.reading.outcomes:
        return "No prediction has a label yet."
    value_text = shown_value(row)
    # A baseline whose value is shown is better by that value.
    worse = [words for words in worse_than(row) if words.casefold() not in value_text.casefold()]
    missing = [page_status["sentence"]] if page_status["kind"] in ("unlabelled", "silent") else []
    wrong = [*missing, *_wrong(history, row), *([f"It is worse than {names(worse)}."] if worse else [])]
    return " ".join((value_text, *(wrong or ["No problem was found."])))


def _wrong(history: NewestMessages, row: RankedModel) -> Iterator[str]:
    key = row.model.key
    open_incidents = [
        incident
        for incident in history.incidents.of_model(*key)
        if incident.status == OPEN and incident.severity >= 0
    ]
    worst = max(open_incidents, key=lambda incident: incident.severity, default=None)
    if worst is not None:
        yield incident_sentence(worst)
    if len(open_incidents) > 1:
        yield f"{len(open_incidents)} incidents are open."
    for missed_bound in missed(history, row):
        yield objective_sentence(
            missed_bound.measure, missed_bound.value, missed_bound.bound, missed_bound.less_is_better
        )
    better = [better_model["name"] for better_model in Verdicts(history).better_than(key)]
    if better:
        yield better_sentence(better)


_ORDER = list(WORDS)

#: A model without any label needs attention after this part of the horizon, and at least this many ms.
_HORIZON_PART, _LEAST_MS = 28, 60_000


def pending(model: ModelState) -> int | None:
    """Return the number of a model's predictions that wait for labels; None if it is unknown."""
    if model.waiting is not None:
        return model.waiting
    waiting = coverage_of(model).get("waiting")
    return int(waiting) if isinstance(waiting, int | float) else None


def shown_value(row: RankedModel) -> str:
    """Return a model's main measure and the best baseline that beats it, as sentences about one window."""
    if row.reading is None or row.sequence is None:
        return ""
    reading = row.reading
    return value_sentence(reading.measures, row.sequence.estimator, reading.n, reading.outcomes)


class UrgentModel(NamedTuple):
    """A model that needs attention, and the name of its status."""

    row: RankedModel
    kind: str


class Statuses:
    """One status for each model, by urgency; with `live`, models may be silent by the current time."""

    def __init__(self, history: NewestMessages, verdicts: Verdicts, live: bool) -> None:
        self._history, self._verdicts, self._live = history, verdicts, live

    def kind(self, row: RankedModel, now: int) -> str:
        """Return the name of a model's status, a key of `WORDS`; `now` is in epoch ms."""
        if is_baseline(row.model.key.model):
            return "baseline"
        if self._incident(row) is not None:
            return "worse"
        if row.reading is None:
            return "waiting"
        lasted = self._history.unlabelled(row.model, self._now(now))
        if lasted is not None:
            horizon = self._history.config.stream(row.model.key.stream).label_horizon
            return "unlabelled" if lasted >= max(_LEAST_MS, horizon // _HORIZON_PART) else "waiting"
        if missed(self._history, row):
            return "objective"
        silence = self._history.silence(row.model, self._now(now))
        if silence is not None:
            return "unlabelled" if silence.kind == LABELS_STOPPED else "silent"
        if row.reading.outcomes < FEW:
            return "few"
        if is_below_baseline(row):
            return "below"
        return "beaten" if self._verdicts.against(row.model.key) else "steady"

    def urgent(self, rows: list[RankedModel], now: int) -> list[UrgentModel]:
        """Return the models that need attention with the name of their status, the most urgent first."""

        def urgency(urgent: UrgentModel) -> tuple[int, float]:
            incident = self._incident(urgent.row)
            return _ORDER.index(urgent.kind), 0.0 if incident is None else -incident.severity

        models = (UrgentModel(row, self.kind(row, now)) for row in rows)
        return sorted((model for model in models if model.kind in URGENT), key=urgency)

    def as_json(self, row: RankedModel, now: int) -> dict[str, Any]:
        """Return a model's status as the page's JSON.

        `since` is its beginning (epoch ms, None if unknown), `before` and `after` are levels named `level`.
        """
        kind = self.kind(row, now)
        page_status: dict[str, Any] = {
            "kind": kind, "word": WORDS[kind], "sentence": "", "since": None, "outcome": None,
            "before": None, "after": None, "level": None, "incident": None,
            "next": NEXT_OF_STATUS.get(kind),
        }  # fmt: skip
        key, untimed = row.model.key, row.model.untimed
        incident = self._incident(row)
        if kind == "worse" and incident is not None:
            together = changed_with(incident, self._history.incidents.all())
            page_status |= {
                "sentence": incident_sentence(
                    incident, list(dict.fromkeys(neighbour.model for neighbour in together))
                ),
                "since": None if untimed else began(incident),
                "outcome": incident.change_point["outcome"],
                **levels(incident),
                "incident": incident.id,
                "next": next_step(incident),
            }
        elif kind == "objective":
            missed_bound = missed(self._history, row)[0]
            page_status |= {
                "sentence": objective_sentence(missed_bound.measure, missed_bound.value, missed_bound.bound,
                    missed_bound.less_is_better),
                "before": missed_bound.bound, "after": missed_bound.value, "level": missed_bound.measure,
            }  # fmt: skip
        elif kind in ("unlabelled", "silent", "waiting"):
            page_status |= self._without_labels(row, now)
        elif kind == "below":
            lead = baseline_lead(row)
            page_status["sentence"] = (
                shown_value(row) if lead else f"It is worse than {names(worse_than(row))}."
            )
            if lead is not None:
                page_status |= {"before": lead.value, "after": lead.model_value, "level": "accuracy"}
        elif kind == "beaten":
            better = [better_model["name"] for better_model in self._verdicts.better_than(key)]
            page_status |= {"sentence": better_sentence(better), "word": f"{better[0]} is better"}
        elif kind == "few" and row.reading is not None:
            page_status["sentence"] = (
                f"{row.reading.outcomes:,} outcomes so far; {FEW} are the least for a status."
            )
        return page_status

    def _now(self, now: int) -> int | None:
        return now if self._live else None

    def _without_labels(self, row: RankedModel, now: int) -> dict[str, Any]:
        """Return the sentence about missing labels, and since when they are missing."""
        history, model = self._history, row.model
        lasted = history.unlabelled(model, self._now(now))
        if lasted is not None:
            since = None if model.untimed else max(now, history.newest_ts if not self._live else now) - lasted
            return {"sentence": unlabelled_sentence(pending(model), lasted), "since": since}
        silence = history.silence(model, self._now(now))
        if silence is None:
            return {"sentence": "No prediction has a label yet."}
        waiting = pending(model) if silence.kind == LABELS_STOPPED else None
        sentence = silence_sentence(now - silence.since, silence.why, waiting)
        silent_fields = {"sentence": sentence, "since": silence.since}
        return (
            {**silent_fields, "next": NEXT_WITHOUT_WORKER} if silence.kind == WORKER_DOWN else silent_fields
        )

    def _incident(self, row: RankedModel) -> Incident | None:
        """Return a model's most severe open incident, unless it is an improvement."""
        incident = self._history.incidents.open_of(*row.model.key)
        return None if incident is None or incident.severity < 0 else incident


def levels(incident: Incident) -> dict[str, Any]:
    """Return the levels before and since an incident, with intervals, as shares right or mean losses."""
    level_fields: dict[str, Any] = {"level": level_name(incident)}
    for name, side in (("before", incident.before), ("after", incident.after)):
        level_fields[name] = level(side.get("level"), incident)
        ends = side.get("interval")
        level_fields[f"{name}_interval"] = (
            None if not ends else sorted(level(end, incident) or 0.0 for end in ends)
        )
    return level_fields


def difference(row: RankedModel) -> float | None:
    """Return the difference of a model's main measure from its reference; None without one."""
    reading = row.reading
    if reading is None:
        return None
    name = measures.main_measure(reading.measures)
    differences = (
        comparison.difference
        for comparison in comparing.referred(reading.reference)
        if comparison.measure == name
    )
    return next(differences, None)

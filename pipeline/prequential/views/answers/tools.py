"""The questions that agents ask about models, and their answers; each reads messages and changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from prequential.configuration.settings.stages import FINAL
from prequential.engine.estimators.naming import is_baseline
from prequential.engine.measures.registry import MEASURES, NAMES
from prequential.topics.foreign_json import Unreadable
from prequential.topics.marks import IncidentMark
from prequential.topics.outputs import Incident
from prequential.views.answers.answer import (
    AgentAnswer,
    BasisMessage,
    date,
    present,
    quoted,
    quoted_incident,
    quoted_pair,
    refused,
)
from prequential.views.answers.guide import explain_term, which_number, why_undefined
from prequential.views.answers.kept import AnswerHistory, MetricsMessage, decode_metrics
from prequential.views.dashboard.overview import Overview
from prequential.views.state.best import sets_of
from prequential.views.state.incidents import OPEN
from prequential.views.state.newest import ModelKey, ModelState, SequenceName, StreamPartition
from prequential.views.state.output_records import OutputRecord
from prequential.views.state.ranking import Choice, RankedModel, Ranking, measures_shown
from prequential.views.state.statuses import Statuses, Verdicts, levels, pending, shown_value
from prequential.views.wording import comparing, status
from prequential.views.wording.best_models import BestModels, in_words
from prequential.views.wording.measures import COLUMNS

#: Models that are listed, names that are suggested, and measures of a model.
_LISTED, _SUGGESTED, _MEASURES = 6, 5, 5

#: Points of a history by default, and at most.
_POINTS, _MOST_POINTS = 6, 40

#: Characters of an argument, at most: longer than any name.
_MOST_CHARACTERS = 300

#: Fields of a cause that an answer has.
_CAUSE_FIELDS = ("cause", "share", "segment", "class", "model_version", "before", "after")

#: Fields of a verdict's requirements that an answer has.
_NEEDED = ("verdict", "days", "clusters", "needed", "outcomes")


class ToolParameter(NamedTuple):
    """An argument of a question: its JSON type, its meaning, and whether it may be left out."""

    name: str
    kind: Literal["string", "integer"]
    meaning: str
    is_required: bool = True


class Tool(NamedTuple):
    """A question that can be asked."""

    name: str
    title: str
    description: str
    parameters: tuple[ToolParameter, ...]

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        return {
            "type": "object",
            "properties": {
                parameter.name: {"type": parameter.kind, "description": parameter.meaning}
                for parameter in self.parameters
            },
            "required": [parameter.name for parameter in self.parameters if parameter.is_required],
            "additionalProperties": False,
        }


_STREAM = ToolParameter("stream", "string", "name of the stream; needed if several have such a model", False)
_MODEL = ToolParameter("model", "string", "name of the model")
_LOSS = ToolParameter("loss", "string", "error (default), log_loss, brier, absolute, squared, cost", False)
_STAGE = ToolParameter("stage", "string", "initial, final (default), bin:1, after:1h, …", False)

TOOLS = (
    Tool(
        "attention",
        "What needs attention",
        "List the models that need attention, the most urgent first, with the next step, and all models.",
        (),
    ),
    Tool(
        "model",
        "One model",
        "How good a model is now: status, main measures next to baselines, labels, open incidents.",
        (_MODEL, _STREAM),
    ),
    Tool(
        "incident",
        "One incident",
        "An incident: since when, how bad, causes, other models, the next step.",
        (ToolParameter("id", "string", "the incident's id, or the beginning of it"),),
    ),
    Tool(
        "compare",
        "Compare two models",
        "Which of two models is better: verdict over the whole run, recent verdict, and what is missing.",
        (
            _MODEL,
            ToolParameter("against", "string", "name of the other model"),
            _STREAM,
            _STAGE,
            _LOSS,
        ),
    ),
    Tool(
        "best_models",
        "Which models may be the best",
        "Of all models of a stream: which may be the best over the whole run, and since when others are not.",
        (
            ToolParameter("stream", "string", "name of the stream; needed if there are several", False),
            _STAGE,
            _LOSS,
        ),
    ),
    Tool(
        "history",
        "History of a measure",
        "Values of a measure of a model over time; the messages of `basis` are in the same order.",
        (
            _MODEL,
            ToolParameter("measure", "string", "such as accuracy, kappa_per, log_loss, mae"),
            _STREAM,
            _STAGE,
            ToolParameter(
                "estimator", "string", "such as all or window:1000 (default: the overview's)", False
            ),
            ToolParameter(
                "points", "integer", f"values, 2 to {_MOST_POINTS} (default: {_POINTS})", is_required=False
            ),
        ),
    ),
    Tool(
        "which_number",
        "Which number to use",
        "Which measure, estimator and stage answer a question, and which one to avoid.",
        (ToolParameter("question", "string", "such as: is the challenger better?"),),
    ),
    Tool(
        "explain_term",
        "Explain a term",
        "The meaning of a term, a measure, a cause of incidents, or a reason for a missing value.",
        (ToolParameter("term", "string", "such as kappa_per, verdict, concept or no_positive_class"),),
    ),
)


class _Unanswerable(Exception):
    """A question is about something that isn't known; the text is a sentence."""


class Answers:
    """Answers questions about the messages so far; one thread may add messages while others ask.

    `clock` returns the current time in epoch ms. Without a clock, as for files, the newest message's time
    counts as now.
    """

    def __init__(self, history: AnswerHistory, clock: Callable[[], int] | None = None) -> None:
        self._history, self._clock = history, clock
        self._overview = Overview(history, clock is not None)
        self._lock = threading.Lock()
        #: Set once the messages that existed at the start have been read.
        self.is_complete = threading.Event()
        #: Why messages can't be read, as a sentence; None: they are read.
        self.trouble: str | None = None
        self._questions: dict[str, Callable[..., AgentAnswer]] = {
            "attention": self._attention, "model": self._model, "incident": self._incident,
            "compare": self._compare, "best_models": self._best_models, "history": self._history_of,
            "which_number": which_number, "explain_term": explain_term,
        }  # fmt: skip

    def take(self, records: Iterable[OutputRecord], workers: int | None = None) -> None:
        """Add messages, and the number of running workers, if it is known."""
        with self._lock:
            self._history.workers = workers
            for record in records:
                self._history.update(*record)

    def take_marks(self, marks: Iterable[IncidentMark]) -> None:
        """Add people's marks of incidents."""
        with self._lock:
            for mark in marks:
                self._history.marks.add(mark)

    def ask(self, name: str, arguments: Mapping[str, Any]) -> AgentAnswer:
        """Return the answer to a question; it is refused for an unknown one or wrong arguments."""
        tool = next((tool for tool in TOOLS if tool.name == name), None)
        if tool is None:
            return refused(f"There is no tool {quoted(name)}.")
        if (wrong := _wrong_arguments(tool, arguments)) is not None:
            return refused(wrong)
        given = {key: value for key, value in arguments.items() if value is not None}
        with self._lock:
            try:
                answer = self._questions[name](**given)
            except _Unanswerable as error:
                answer = refused(str(error))
        if self.trouble is not None:
            answer.unknown.append(f"Newer messages are not known because {self.trouble}.")
        return answer

    # ---- what needs attention

    def _attention(self) -> AgentAnswer:
        history, now = self._history, self._now()
        page = self._overview.page(Choice(), now, size=1)
        rows = [row for row in self._overview.rows(Choice(), now) if not is_baseline(row.model.key.model)]
        answer = AgentAnswer([f"{page['heading']}."])
        if not rows:
            answer.unknown.append("No model is known because no message about one was read.")
            return answer
        urgent = self._statuses().urgent(rows, now)
        answer.values = {
            "needs": [self._need(answer, row, kind) for row, kind in urgent[:_LISTED]],
            "needs_total": len(urgent),
            "models": [
                {"stream": row.model.key.stream, "model": row.model.key.model} for row in rows[:_LISTED]
            ],
            "models_total": len(rows),
        }
        if history.workers == 0:
            answer.unknown.append("Newer outcomes are not known because no worker runs.")
        return answer

    def _need(self, answer: AgentAnswer, row: RankedModel, kind: str) -> dict[str, Any]:
        """Return a model that needs attention as values, and add its sentence and its message."""
        status_json = self._statuses().as_json(row, self._now())
        incident = self._incident_of(row)
        if kind == "worse" and incident is not None:
            answer.basis.append(BasisMessage.of_incident(incident))
        elif (message := self._message(row)) is not None:
            answer.basis.append(BasisMessage.of_metrics(message))
        word, step = status_json["word"], status_json["next"]
        sentence = self._sentence(row, kind, status_json)
        answer.sentences.append(f"{_subject(row.model.key)}: {word}. {sentence} Next: {step}.")
        values = {"since": None if status_json["since"] is None else date(status_json["since"])}
        fields = ("level", "before", "after", "outcome", "incident", "next")
        return {
            **_key_fields(row.model.key), "status": kind, **present(values, values),
            **present(status_json, fields),
        }  # fmt: skip

    def _sentence(self, row: RankedModel, kind: str, status_json: Mapping[str, Any]) -> str:
        """Return the overview's sentence about a model's status, with names in quotes."""
        incident = self._incident_of(row)
        if kind != "worse" or incident is None:
            return str(status_json["sentence"])
        together = status.changed_with(incident, self._history.incidents.all())
        models = [quoted(model) for model in dict.fromkeys(other.model for other in together)]
        return status.incident_sentence(quoted_incident(incident), models)

    # ---- one model

    def _model(self, model: str, stream: str | None = None) -> AgentAnswer:
        key = self._find(model, stream)
        history, now = self._history, self._now()
        row = Ranking(history).row(history.models[key])
        kind = self._statuses().kind(row, now)
        status_json = self._statuses().as_json(row, now)
        answer = AgentAnswer(
            [f"{_subject(key)}: {status_json['word']}."], _key_fields(key) | {"status": kind}
        )
        message = self._message(row)
        if message is None or row.sequence is None or not message.outcomes:
            answer.unknown.append("Its measures are not known because no prediction has a label yet.")
        else:
            answer.sentences.append(shown_value(row))
            answer.values |= self._measures_of(answer, message)
            answer.values |= {"stage": row.sequence.stage, "estimator": row.sequence.estimator}
        if message is not None:
            answer.basis.append(BasisMessage.of_metrics(message))
        if (waiting := pending(row.model)) is not None:
            answer.values["pending"] = waiting
            answer.sentences.append(f"{waiting:,} predictions wait for a label.")
        if kind in ("unlabelled", "silent") and status_json["sentence"]:
            answer.sentences.append(str(status_json["sentence"]))
        self._add_incidents(answer, row)
        if better := Verdicts(history).better_than(key):
            answer.values["better_models"] = [other["name"] for other in better]
            answer.sentences.append(status.better_sentence([quoted(other["name"]) for other in better]))
        if status_json["next"]:
            answer.values["next"] = status_json["next"]
            answer.sentences.append(f"Next: {status_json['next']}.")
        return answer

    def _measures_of(self, answer: AgentAnswer, message: MetricsMessage) -> dict[str, Any]:
        """Return the main measures of a message with the baselines' accuracies; note what is undefined."""
        quality = {name for name in message.measures if name in MEASURES and MEASURES[name].quality}
        shown = measures_shown(quality, None)[:_MEASURES] if quality else []
        baselines = [name for name in ("p_per", "p_maj") if name in message.measures]
        columns = next(
            (names for names in COLUMNS.values() if not set(names).isdisjoint(message.measures)), ()
        )
        answer.unknown += [
            why_undefined(name, message.undefined[name]) for name in columns if name in message.undefined
        ]
        return {
            "n": message.n,
            "outcomes": message.outcomes,
            **present({"newest_label": date(message.ts, message.untimed)}, ["newest_label"]),
            "measures": {name: message.measures[name] for name in (*shown, *baselines)},
        }

    def _add_incidents(self, answer: AgentAnswer, row: RankedModel) -> None:
        incidents = [
            incident
            for incident in self._history.incidents.of_model(*row.model.key)
            if incident.status == OPEN
        ]
        for incident in incidents:
            answer.basis.append(BasisMessage.of_incident(incident))
        if incidents:
            answer.values["open_incidents"] = [incident.id for incident in incidents]
            answer.sentences.append(status.incident_sentence(quoted_incident(incidents[0])))

    # ---- one incident

    def _incident(self, id: str) -> AgentAnswer:
        matches = [incident for incident in self._history.incidents.all() if incident.id.startswith(id)]
        if len(matches) != 1:
            why = f"the ids of {len(matches)} incidents begin so" if matches else "no incident has this id"
            suggested = ", ".join(
                incident.id for incident in (matches or self._history.incidents.all())[:_SUGGESTED]
            )
            ending = f" Known: {suggested}." if suggested else ""
            raise _Unanswerable(f"The incident is not known because {why}: {quoted(id)}.{ending}")
        incident = matches[0]
        shown = quoted_incident(incident)
        mark = self._history.marks.newest(incident.id)
        together = status.changed_with(incident, self._history.incidents.all())
        others = list(dict.fromkeys(other.model for other in together))
        causes = [f"{status.cause_in_words(cause)}" for cause in shown.causes]
        answer = AgentAnswer(
            [
                f"{status.finding(shown)} (stream {shown.stream}, stage {incident.stage}).",
                f"{_standing(incident)}; began {status.began_in_words(incident)}.",
                f"Causes: {', '.join(causes) or 'not clear'}.",
                *([f"Changed at the same time: {', '.join(map(quoted, others))}."] if others else []),
                f"Next: {status.next_step(incident)}.",
            ],
            self._incident_values(incident, others),
            [BasisMessage.of_incident(incident)],
        )
        if mark is not None:
            answer.values["mark"] = mark.mark
            answer.sentences.append(f"A person marked it as {mark.mark}.")
        if causes == ["not clear"] or not causes:
            answer.unknown.append("Its cause is not known because no change of the data stands out.")
        return answer

    def _incident_values(self, incident: Incident, others: list[str]) -> dict[str, Any]:
        point = incident.change_point
        fields = {
            "segment": incident.segment,
            "grade": incident.grade if isinstance(incident.grade, str) else None,
            "began": date(point["ts"], incident.untimed is True),
            "others": others or None,
            "examples": incident.examples[:_SUGGESTED] or None,
            "baselines": incident.baselines or None,
        }
        return {
            "id": incident.id,
            **_key_fields(ModelKey(incident.stream, incident.model, incident.partition)),
            "stage": incident.stage, "status": incident.status, "severity": incident.severity,
            "outcome": point["outcome"], **levels(incident),
            "causes": [present(cause, _CAUSE_FIELDS) for cause in incident.causes],
            "alarm_count": incident.alarm_count, **present(fields, fields),
            "next": status.next_step(incident),
        }  # fmt: skip

    # ---- two models

    def _compare(
        self, model: str, against: str, stream: str | None = None, stage: str = FINAL, loss: str | None = None
    ) -> AgentAnswer:
        key = self._find(model, stream)
        other = self._find(against, key.stream)
        wanted_loss = loss or self._history.config.stream(key.stream).compare_losses[0]
        pairs = [
            pair for pair in self._history.pairs(key.stream, key.partition)
            if {pair.model, pair.against} == {key.model, other.model} and pair.segment is None
            and stage in (pair.stage, *pair.same) and pair.loss == wanted_loss
        ]  # fmt: skip
        if not pairs:
            raise _Unanswerable(
                f"Which of {quoted(model)} and {quoted(against)} is better is not known because they are not "
                f"compared by {quoted(wanted_loss)} in stage {quoted(stage)}."
            )
        pair = pairs[0]
        shown = quoted_pair(pair)
        messages = self._comparison_messages(pair)
        answer = AgentAnswer(
            [f"{comparing.standing(shown)}."],
            self._pair_values(pair),
            [BasisMessage.of_comparison(message) for message in messages],
        )
        if not pair.is_decided:
            better = "Which model is better over the whole run is not known"
            answer.unknown.append(f"{better} because the verdict is {pair.verdict}.")
        return answer

    def _comparison_messages(self, pair: comparing.Pair) -> list[Any]:
        """Return the messages behind a comparison: about all history, and about the latest outcomes."""
        messages = self._history.comparison_messages.get(pair.key, {})
        latest = comparing.WHOLE if pair.latest is None else pair.latest.estimator
        chosen = [messages[name] for name in dict.fromkeys((comparing.WHOLE, latest)) if name in messages]
        return chosen or list(messages.values())  # without an estimator of all history

    def _pair_values(self, pair: comparing.Pair) -> dict[str, Any]:
        recent = pair.recent
        fields: dict[str, Any] = {
            "difference": pair.difference, "interval": pair.interval, "since": pair.since,
            "better": pair.better(pair.verdict),
            "better_recently": None if recent is None else pair.better(recent.verdict),
            "recent_since": None if recent is None else recent.since,
            "provisional": None if not pair.provisional else present(pair.provisional, _NEEDED),
            "needed": None if not pair.needed else present(pair.needed, _NEEDED),
            "disagreement": None
            if not pair.disagreement
            else present(pair.disagreement, ("share", "at_most", "n")),
            "newest_label": date(pair.ts, pair.untimed),
        }  # fmt: skip
        return {
            "stream": pair.stream, "model": pair.model, "against": pair.against, "stage": pair.stage,
            "loss": pair.loss, "outcomes": pair.outcomes, "verdict": pair.verdict, "level": pair.level,
            "positive_means": "against is better", **present(fields, fields),
        }  # fmt: skip

    # ---- all models of a stream

    def _best_models(
        self, stream: str | None = None, stage: str = FINAL, loss: str | None = None
    ) -> AgentAnswer:
        streams = list(dict.fromkeys(key.stream for key in self._history.models))
        names = ", ".join(map(quoted, streams[:_SUGGESTED]))
        if stream is None and len(streams) > 1:
            raise _Unanswerable(f"There are several streams: {names}. Name the stream.")
        if not streams or stream not in (None, *streams):
            at_stream = "" if stream is None else f" on stream {quoted(stream)}"
            ending = f" Known: {names}." if names else ""
            raise _Unanswerable(
                f"Which model is best{at_stream} is not known because no message about one was read.{ending}"
            )
        stream = stream or streams[0]
        wanted_loss = loss or self._history.config.stream(stream).compare_losses[0]
        partitions = sorted({key.partition for key in self._history.models if key.stream == stream})
        sets = [
            best for partition in partitions
            for best in sets_of(self._history, StreamPartition(stream, partition), least=2)
            if best.segment is None and stage in (best.stage, *best.same) and best.loss == wanted_loss
        ]  # fmt: skip
        if not sets:
            raise _Unanswerable(
                f"Which model of {quoted(stream)} is best is not known because no two are compared by "
                f"{quoted(wanted_loss)} in stage {quoted(stage)}."
            )
        answer = AgentAnswer(values={"stream": stream, "stage": stage, "loss": wanted_loss})
        for best in sets:
            in_partition = f"Partition {best.partition}: " if len(sets) > 1 else ""
            sentence = in_words(best, quoted, with_confidence=False)
            answer.sentences.append(f"{in_partition}Of all models, {sentence}.")
            if len(best.models) > 1:
                undecided = "Which of them is the best is not known because their verdicts are undecided."
                answer.unknown.append(f"{in_partition}{undecided}")
            self._add_basis(answer, best)
        answer.values["sets"] = [
            {
                **({"partition": best.partition} if len(sets) > 1 else {}),
                "may_be_best": best.models,
                "left": [
                    {"model": left_model.model, "since": left_model.since,
                     "better": [defeat.by for defeat in left_model.defeats]}
                    for left_model in best.left
                ],
            }
            for best in sets
        ]  # fmt: skip
        return answer

    def _add_basis(self, answer: AgentAnswer, best: BestModels) -> None:
        """Add the newest messages of the pairs of a set: first those of its models, not more than listed."""
        pairs = [
            pair for pair in self._history.pairs(best.stream, best.partition)
            if (pair.segment, pair.stage, pair.loss) == (None, best.stage, best.loss)
            and {pair.model, pair.against} <= {*best.models, *(gone.model for gone in best.left)}
        ]  # fmt: skip
        pairs.sort(key=lambda pair: not {pair.model, pair.against} <= set(best.models))
        for pair in pairs[:_LISTED]:
            answer.basis.append(BasisMessage.of_comparison(self._comparison_messages(pair)[0]))

    # ---- history of a measure

    def _history_of(
        self, model: str, measure: str, stream: str | None = None, stage: str = FINAL,
        estimator: str | None = None, points: int = _POINTS,
    ) -> AgentAnswer:  # fmt: skip
        key = self._find(model, stream)
        if measure not in MEASURES:
            near = [name for name in NAMES if measure.casefold() in name][:_SUGGESTED]
            raise _Unanswerable(
                f"The history of {quoted(measure)} is not known because there is no such measure."
                + (f" Similar: {', '.join(near)}." if near else "")
            )
        if not 2 <= points <= _MOST_POINTS:
            raise _Unanswerable(f"points is {points}: expected 2 to {_MOST_POINTS}.")
        sequence = self._sequence(self._history.models[key], stage, estimator)
        course = self._history.course_of(key, sequence)
        with_value = [message for message in course if measure in message.measures]
        if not with_value:
            newest = course[-1] if course else None
            code = "" if newest is None else newest.undefined.get(measure, "")
            raise _Unanswerable(
                why_undefined(measure, code)
                if code
                else f"The history of {measure} is not known because no message has it."
            )
        shown = [with_value[index] for index in _spread(len(with_value), points)]
        return self._course_answer(key, sequence, measure, shown)

    def _course_answer(
        self, key: ModelKey, sequence: SequenceName, measure: str, shown: list[MetricsMessage]
    ) -> AgentAnswer:
        texts = [
            f"{message.measures[measure]:.3f} after {message.outcomes:,} outcomes"
            + ("" if message.untimed else f" ({status.moment(message.ts)})")
            for message in shown
        ]
        return AgentAnswer(
            [
                f"{measure} of {_subject(key)}, stage {sequence.stage}, {sequence.estimator}: "
                f"{'; '.join(texts)}."
            ],
            {
                **_key_fields(key), "measure": measure, "stage": sequence.stage,
                "estimator": sequence.estimator,
                "values": [message.measures[measure] for message in shown],
            },
            [BasisMessage.of_metrics(message) for message in shown],
        )  # fmt: skip

    def _sequence(self, model: ModelState, stage: str, estimator: str | None) -> SequenceName:
        whole = [name for name in model.sequences if name.segment is None]
        row = Ranking(self._history).row(model)
        estimator = estimator or (row.sequence.estimator if row.sequence is not None else "")
        for name in whole:
            if stage in model.stages_of(name) and name.estimator == estimator:
                return name
        sequences = ", ".join(sorted({f"{name.stage} {name.estimator}" for name in whole})) or "none"
        raise _Unanswerable(
            f"The history is not known because there are no messages of stage {quoted(stage)} and estimator "
            f"{quoted(estimator)}. Known: {sequences}."
        )

    # ---- shared

    def _now(self) -> int:
        return self._clock() if self._clock is not None else self._history.newest_ts

    def _statuses(self) -> Statuses:
        return Statuses(self._history, Verdicts(self._history), self._clock is not None)

    def _incident_of(self, row: RankedModel) -> Incident | None:
        return self._history.incidents.open_of(*row.model.key)

    def _message(self, row: RankedModel) -> MetricsMessage | None:
        """Return the message that a model's shown values come from."""
        newest = None if row.sequence is None else row.model.sequences.get(row.sequence)
        if newest is None or newest.value is None:
            return None
        try:
            return decode_metrics(newest.value)
        except Unreadable:
            return None

    def _find(self, model: str, stream: str | None) -> ModelKey:
        """Return the model with a name; raise _Unanswerable if there is none, or several streams have one."""
        keys = [key for key in self._history.models if stream in (None, key.stream)]
        matches = sorted(
            {key for key in keys if key.model == model}, key=lambda key: (key.stream, key.partition)
        )
        if len({key.stream for key in matches}) > 1:
            streams = ", ".join(quoted(name) for name in dict.fromkeys(key.stream for key in matches))
            raise _Unanswerable(f"Several streams have a model {quoted(model)}: {streams}. Name the stream.")
        if not matches:
            at_stream = "" if stream is None else f" on stream {quoted(stream)}"
            names = dict.fromkeys(_subject(key) for key in keys or self._history.models)
            suggested = ", ".join(list(names)[:_SUGGESTED])
            raise _Unanswerable(
                f"Model {quoted(model)}{at_stream} is not known because no message about it was read."
                + (f" Known: {suggested}." if suggested else "")
            )
        return matches[0]


def _standing(incident: Incident) -> str:
    """Return status and grade of an incident, as the first words of a sentence."""
    return status.standing_in_words(incident).capitalize()


def _subject(key: ModelKey) -> str:
    return f"{quoted(key.stream)} {quoted(key.model)}"


def _key_fields(key: ModelKey) -> dict[str, Any]:
    partition = {"partition": key.partition} if key.partition else {}
    return {"stream": key.stream, "model": key.model, **partition}


def _spread(number: int, most: int) -> Iterator[int]:
    """Yield at most `most` of `number` places, evenly spread, with the first and the last.

    >>> list(_spread(10, 4)), list(_spread(3, 4))
    ([0, 3, 6, 9], [0, 1, 2])
    """
    if number <= most:
        yield from range(number)
        return
    for index in range(most):
        yield index * (number - 1) // (most - 1)


def _wrong_arguments(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the arguments of a question, as a sentence; None if nothing is."""
    parameters = {parameter.name: parameter for parameter in tool.parameters}
    expected = ", ".join(parameters) or "no arguments"
    for name in arguments:
        if name not in parameters:
            return f"{tool.name} has no argument {quoted(name)}: expected {expected}."
    for parameter in tool.parameters:
        value = arguments.get(parameter.name)
        if value is None:
            if parameter.is_required:
                return f"{tool.name} lacks the argument {parameter.name}: {parameter.meaning}."
            continue
        is_text = parameter.kind == "string"
        if not isinstance(value, str if is_text else int) or isinstance(value, bool):
            return f"{parameter.name} is {quoted(value)}: expected {'a string' if is_text else 'an integer'}."
        if isinstance(value, str) and not 0 < len(value) <= _MOST_CHARACTERS:
            return f"{parameter.name} has {len(value)} characters: expected 1 to {_MOST_CHARACTERS}."
    return None

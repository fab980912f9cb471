"""Values of a run, selected by measure, model and stage: current ones, those at its end, and by day."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import PERIOD, reported, stage_name
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.measures.registry import INDEX, MEASURES
from prequential.engine.output.estimates import MessageSubject, state_of
from prequential.engine.shard import Shard
from prequential.engine.tables.streams import AGE, BASELINE, BASELINE_AGE, CORRECTION, MODEL
from prequential.evaluation.shown import Table
from prequential.offline.replay.summary import SequenceSummary
from prequential.offline.replay.text import shown_estimators
from prequential.topics.errors import Fault, listed
from prequential.topics.outputs import Metrics
from prequential.views.wording.measures import main_measure


class Wanted(NamedTuple):
    """The messages to select. None stands for any value, of which there must then be only one."""

    model: str | None
    stage: str
    estimator: str | None
    stream: str | None


def check(kind: str, name: str, known_names: Iterable[str]) -> None:
    """Raise ValueError for a `measure`, `stage` or `estimator` that isn't among the configured ones.

    >>> check("measure", "acc", ["accuracy", "kappa"])
    Traceback (most recent call last):
    ...
    ValueError: unknown measure 'acc': expected one of accuracy, kappa
    >>> check("measure", "mcc", ["accuracy", "kappa"])
    Traceback (most recent call last):
    ...
    ValueError: measure 'mcc' isn't configured (see the setting measures): expected one of accuracy, kappa
    """
    names = list(dict.fromkeys(known_names))
    if name in names:
        return
    expected = f"expected one of {listed(names)}"
    if kind == "measure" and name not in MEASURES:
        raise ValueError(f"unknown measure {name!r}: {expected}")
    raise ValueError(f"{kind} {name!r} isn't configured (see the setting {kind}s): {expected}")


def course_of(messages: list[Metrics], wanted: Wanted, detail: str) -> list[Metrics]:
    """Return the selected messages, the newest one last; there must be at least one, all with `detail`.

    Raises ValueError, which lists the choices.
    """
    for name, value in wanted._asdict().items():
        values = dict.fromkeys(_of(message, name) for message in messages)
        if name == "stage":
            messages = [message for message in messages if value in (message.stage, *(message.same or ()))]
        elif value is not None:
            messages = [message for message in messages if _of(message, name) == value]
        elif name == "estimator":
            messages = [
                message
                for message in messages
                if message.estimator == ("all" if "all" in values else next(iter(values)))
            ]
        elif len(values) > 1:
            raise ValueError(f"there are several {name}s: expected {name} to be one of {listed(values)}")
        if not messages:
            raise ValueError(f"no {detail} of {name} {value!r}: expected one of {listed(values)}")
    return [message for message in messages if message.partition == messages[-1].partition]


def _of(message: Metrics, name: str) -> str:
    return str(getattr(message, name))


#: The kinds of entities that evaluate a stream as a whole, in any stage.
_KINDS = (MODEL, BASELINE, CORRECTION, AGE, BASELINE_AGE)

#: Model, stage and estimator, as passed to `Evaluator.get`.
Asked = tuple[Any, str, Any]

#: Returns the current value of a measure, or (None) the values of all measures that have one, by name.
Values = Callable[[Any], Any]


class Present:
    """Finds values in a shard's tables, and caches their places until the tables change."""

    def __init__(self, shard: Shard, config: StreamConfig) -> None:
        self._shard = shard
        self._config = config
        #: The measures of the task, in order, as keys: `get` searches them in each call.
        self._measures = dict.fromkeys(name for name in config.measures if MEASURES[name].fits(config.task))
        self._known: dict[Asked, Values] = {}
        self._state = 0, 0

    def get(self, asked: Asked, measure: str | None) -> Any:
        """Return the value of a measure, or None if it has none; without `measure`, all values by name.

        The caller must have passed all outcomes to the estimators (`Evaluation.read`). Raises ValueError as
        `Evaluator.get` does.
        """
        if measure is not None and measure not in self._measures:
            if measure in self._config.measures:
                raise ValueError(
                    f"measure {measure!r} isn't one of task {self._config.task}: expected one of "
                    f"{listed(list(self._measures))}"
                )
            check("measure", measure, self._measures)
        shard = self._shard
        with_outcomes = np.count_nonzero(shard.catalog.columns.entities.outcomes)
        state = shard.evaluation.version, int(with_outcomes)
        if state != self._state:
            self._known.clear()
            self._state = state
        values = self._known.get(asked)
        if values is None:
            values = self._known[asked] = self._find(*asked)
        return values(measure)

    def _find(self, model: str | None, stage: str, estimator: str | None) -> Values:
        config, stage = self._config, stage_name(stage)
        check("stage", stage, reported(config.stages, config.bins))
        if estimator is not None:
            check("estimator", estimator, config.estimators)
        catalog = self._shard.catalog
        outcomes = catalog.columns.entities.outcomes
        whole = [
            (entity, stream) for stream in catalog.streams for entity in catalog.entities_of(stream)
            if entity.kind in _KINDS and outcomes[entity.row]
        ]  # fmt: skip
        if not whole:
            return lambda measure: {} if measure is None else None
        models = list(dict.fromkeys(entity.model for entity, _ in whole))
        if len(models) > 1 and model is None:
            raise ValueError(f"there are several models: expected model to be one of {listed(models)}")
        for entity, stream in whole:
            lines = self._lines(entity, stream, stage) if model in (None, entity.model) else {}
            if lines:
                return self._values(entity, stream, lines[estimator or shown_estimators(lines)[0]])
        if model not in (None, *models):
            raise ValueError(f"no outcomes of model {model!r}: expected one of {listed(models)}")
        raise ValueError(f"no outcomes of {model or 'any model'} in stage {stage!r} yet")

    def _lines(self, entity: Entity, stream: Stream, stage: str) -> dict[str, MessageSubject]:
        """Return by estimator the line of an entity in a stage, or in an identical stage."""
        lines = self._shard.reporter.of_estimators.lines(entity.row, entity, stream).all
        return {
            line.estimator: line for line in lines
            if line.model == entity.model and stage in (line.stage, *line.same)
        }  # fmt: skip

    def _values(self, entity: Entity, stream: Stream, line: MessageSubject) -> Values:
        estimates, alpha = self._shard.reporter.of_estimators, stream.config.alpha
        indices = {name: INDEX[name] for name in stream.config.measures}
        if len(line.positions) == 1:
            reading = estimates.reading(entity.row, line)

            def current(measure: str | None) -> Any:
                measured = reading.now()
                return _chosen(measured.values[0].tolist(), measured.reasons[0].tolist(), indices, measure)

            return current

        def values(measure: str | None) -> Any:
            _, by_measure, reasons = state_of(estimates.states([entity.row]), 0, line, alpha)
            return _chosen(by_measure, list(reasons), indices, measure)

        return values


def _chosen(values: list[float], reasons: list[int], indices: dict[str, int], measure: str | None) -> Any:
    """Return the value of one measure, or by name the values of all measures that have one."""
    if measure is None:
        return {name: values[index] for name, index in indices.items() if not reasons[index]}
    index = indices.get(measure)
    return None if index is None or reasons[index] else values[index]


#: A day, and the time from which epoch milliseconds count.
_DAY, _EPOCH = 86_400_000, datetime(1970, 1, 1, tzinfo=timezone.utc)

#: The settings of a stream, by its name.
Settings = Callable[[str], StreamConfig]


class PeriodTable(Table):
    """A model's results by day of prediction: a row for each model and day.

    Columns are `model`, `measure`, `day` (its start; `period` if the setting `period` isn't one day) and
    `predictions`. `labelled_share` is the share of predictions with a label. `so_far` is the measure over
    these labels. `expected`, `low` and `high` are the estimate of the final value and its interval. For a
    final day they come from the first report after its end, so that `final` grades them. `final` is None
    until the day is final. With several streams, `stream` is a column also.

    Examples
    --------
    >>> from prequential.evaluation import evaluate
    >>> day = 86_400_000
    >>> predictions = [{"instance_id": i, "y_pred": "UP", "ts": i * day // 50} for i in range(200)]
    >>> labels = [
    ...     {"instance_id": i, "y_true": "UP" if i % 4 else "DOWN", "ts": (i + 20) * day // 50}
    ...     for i in range(150)
    ... ]
    >>> periods = evaluate(predictions, labels, period="1d", label_horizon="1d").periods
    >>> first, *_ = periods.rows()
    >>> first["day"].isoformat(), first["predictions"], first["labelled_share"], first["final"]
    ('1970-01-01T00:00:00+00:00', 50, 1.0, 0.74)
    """

    def __init__(self, messages: Sequence[Metrics], settings: Settings, measure: str | None = None) -> None:
        self._messages = messages
        self._settings = settings
        rows = list(_rows(messages, settings, measure))
        lengths = {settings(row["stream"]).period for row in rows}
        start = "day" if lengths <= {_DAY} else "period"
        names = ["model", "measure", start, "predictions", "labelled_share"]
        names += ["so_far", "expected", "low", "high", "final"]
        if len({row["stream"] for row in rows}) > 1:
            names.insert(2, "stream")
        for row in rows:
            row[start] = row.pop("start")
        super().__init__(names, rows)

    def measure(self, name: str) -> PeriodTable:
        """Return the same table of another measure, such as `kappa`; its messages must have it.

        Raises ValueError for the name of a measure that no period has; the error lists the others.
        """
        if not self._messages:
            expected = "expected the setting period, such as period='1d'"
            raise ValueError(f"no period has measure {name!r}: {expected}")
        in_messages = dict.fromkeys(
            measure for message in self._messages for measure in (*message.measures, *_expected(message))
        )
        check("measure", name, (measure for measure in MEASURES if measure in in_messages))
        return PeriodTable(self._messages, self._settings, name)


def periods_of(messages: Iterable[Metrics], settings: Settings) -> PeriodTable:
    """Return the periods of streams as a whole; without the setting `period` there are none."""
    return PeriodTable(
        [message for message in messages if message.stage == PERIOD and message.segment is None], settings
    )


def _rows(messages: Sequence[Metrics], settings: Settings, measure: str | None) -> Iterable[dict[str, Any]]:
    """Yield the row of each model and period, in order of time."""
    newest: dict[tuple[str, str, int], Metrics] = {}
    graded: dict[tuple[str, str, int], Metrics] = {}
    for message in messages:
        key = message.stream, message.model, _period(message)["start"]
        newest[key] = message
        expected = message.expected or {}
        # The first one after the period's end stays: it has a maturity.
        if expected and (key not in graded or (graded[key].expected or {}).get("maturity") is None):
            graded[key] = message
    models = list(dict.fromkeys(key[:2] for key in newest))
    for key, message in sorted(newest.items(), key=lambda item: (models.index(item[0][:2]), item[0][2])):
        period, final = _period(message), _period(message)["status"] == "final"
        earlier = graded.get(key) if final else message
        estimates = {} if earlier is None else _expected(earlier)
        name = measure or main_measure((*estimates, *message.measures))
        estimate = estimates.get(name or "", {})
        low, high = estimate.get("interval") or (None, None)
        value, predictions = message.measures.get(name or ""), period["predictions"]
        yield {
            "stream": key[0], "model": key[1], "measure": name, "predictions": predictions,
            "start": key[2] if message.untimed is True else _moment(key[2], settings(key[0]).period_zone),
            "labelled_share": period["labelled"] / predictions if predictions else None,
            "so_far": value, "expected": estimate.get("value"), "low": low, "high": high,
            "final": value if final else None,
        }  # fmt: skip


def _expected(message: Metrics) -> dict[str, dict[str, Any]]:
    """Return the expected values of a message, by measure."""
    measures: dict[str, dict[str, Any]] = (message.expected or {}).get("measures", {})
    return measures


def _period(message: Metrics) -> dict[str, Any]:
    if not isinstance(message.period, dict):
        raise Fault("a message has no period: this is a fault of prequential, please report it")
    return message.period


def _moment(ms: int, zone: str) -> datetime:
    return (_EPOCH + timedelta(milliseconds=ms)).astimezone(timezone.utc if zone == "UTC" else ZoneInfo(zone))


#: A model in a stage, and the estimator that was chosen.
Ending = tuple[SequenceSummary, str]


def sequences_of(
    sequences: Iterable[SequenceSummary], stage: str, estimator: str | None, stream: str | None
) -> list[Ending]:
    """Return the sequences of a stage. Raises ValueError for an unknown name; the error lists the others."""
    all_sequences = list(sequences)
    rows = [sequence for sequence in all_sequences if stream in (None, sequence.stream)]
    if all_sequences and not rows:
        streams = dict.fromkeys(sequence.stream for sequence in all_sequences)
        raise ValueError(f"no outcomes of stream {stream!r}: expected one of {listed(streams)}")
    stage = stage_name(stage)
    chosen = []
    for sequence in rows:
        if sequence.is_of(stage):
            name = estimator or shown_estimators(sequence.measures)[0]
            if name not in sequence.measures:
                raise ValueError(f"no estimator {name!r}: expected one of {', '.join(sequence.measures)}")
            chosen.append((sequence, name))
    if not chosen:
        stages = ", ".join(
            dict.fromkeys(name for sequence in rows for name in (sequence.stage, *sequence.same))
        )
        expected = f"expected one of {stages}" if stages else "there are none at all"
        raise ValueError(f"no outcomes of stage {stage!r}: {expected}")
    return chosen


class MeasureTable(Table):
    """Measures at the end of a run: a row for each model, with its estimator, outcomes and measures.

    It is also read like a dict by model; with several streams by stream and model, (str, str). Its values are
    those of the requested measure, None where it is undefined; or, if all were requested, a dict of each
    model's measures. With several streams, `stream` is a column also. (It isn't a `Mapping`, which polars
    would read as columns.)

    Examples
    --------
    >>> from prequential.evaluation import evaluate
    >>> table = {"y_pred": ["UP", "UP", "DOWN"], "y_true": ["UP", "DOWN", "DOWN"], "model": ["nb"] * 3}
    >>> result = evaluate(table, table, estimators=["all"], measures=["accuracy", "kappa"])
    >>> result.measures("kappa").rows()
    [{'model': 'nb', 'estimator': 'all', 'n': 3, 'outcomes': 3, 'kappa': 0.4}]
    >>> result.measures("kappa")["nb"], result.measures()["nb"]
    (0.4, {'accuracy': 0.6666666666666666, 'kappa': 0.4})
    """

    def __init__(self, endings: Sequence[Ending], measures: Sequence[str], measure: str | None) -> None:
        names = ["model", "estimator", "n", "outcomes"]
        several_streams = len({sequence.stream for sequence, _ in endings}) > 1
        if several_streams:
            names.insert(3, "stream")
        self._by_model: dict[Any, Any] = {}
        rows = []
        for sequence, estimator in endings:
            values = {name: sequence.measures[estimator].get(name) for name in measures}
            key = (sequence.stream, sequence.model) if several_streams else sequence.model
            self._by_model[key] = values if measure is None else values[measure]
            rows.append({
                "stream": sequence.stream, "model": sequence.model, "estimator": estimator,
                "n": sequence.n[estimator], "outcomes": sequence.outcomes, **values,
            })  # fmt: skip
        super().__init__([*names, *measures], rows)

    def __getitem__(self, model: Any) -> Any:
        if model not in self._by_model:
            raise KeyError(f"no model {model!r}: expected one of {listed(map(str, self._by_model))}")
        return self._by_model[model]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._by_model)

    def __contains__(self, model: object) -> bool:
        return model in self._by_model

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MeasureTable):
            return self.rows() == other.rows()
        return self._by_model == other if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def get(self, model: Any, default: Any = None) -> Any:
        """Return the value of a model, or `default` if there is no such model."""
        return self._by_model.get(model, default)

    def keys(self) -> KeysView[Any]:
        """Return the models, or pairs of stream and model."""
        return self._by_model.keys()

    def values(self) -> ValuesView[Any]:
        """Return the value of each model."""
        return self._by_model.values()

    def items(self) -> ItemsView[Any, Any]:
        """Return each model with its value."""
        return self._by_model.items()


def measures_of(endings: Sequence[Ending], measure: str | None, config: Config) -> MeasureTable:
    """Return one measure of models, or (None) all. Raises ValueError for one that no stream has."""
    configured = [
        (name, sequence.task) for sequence, _ in endings for name in config.stream(sequence.stream).measures
    ]
    if measure is not None:
        check("measure", measure, (name for name, _ in configured))
        return MeasureTable(endings, [measure], measure)
    measures = dict.fromkeys(name for name, task in configured if MEASURES[name].fits(task))
    return MeasureTable(endings, list(measures), None)

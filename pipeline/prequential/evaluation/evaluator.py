"""Evaluate one prediction and one label at a time in your own loop, with the method names of river."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from prequential.configfile.reading.reader import combined
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.fields import news_of, number_of, stream_of
from prequential.engine.input.merge import Batch
from prequential.engine.past import PastCourses
from prequential.engine.shard import Shard
from prequential.engine.stepping import Stepper
from prequential.engine.tables.records import Unusable
from prequential.evaluation.evaluating import MODEL, STREAM, ConfigSource, check_name, with_settings
from prequential.evaluation.result import Result
from prequential.evaluation.settings import Settings
from prequential.evaluation.shown import warn, with_short_errors
from prequential.evaluation.values import Present
from prequential.offline.replay.sources import most_with_period
from prequential.offline.replay.summary import Account, Place, emission_of
from prequential.runtime.compilation import compile_loops
from prequential.topics import values
from prequential.topics.decoding import KINDS, LABELS, PREDICTIONS, Decoded
from prequential.topics.messages import Label, Prediction, PredictionNumbers, Record
from prequential.topics.outputs import DeadLetter, Message, decoded
from prequential.views.wording.console import complain

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The most records in the queue, and the most that are processed one by one. Processing a batch costs about
#: as much as that many single steps.
_MOST, _FEW = 1_000, 100

#: The most instances whose predictions are counted; beyond these all counts start again.
_MOST_PREDICTED = 100_000

#: A time before all others.
_EARLIEST = -(1 << 62)


class Evaluator:
    """Evaluates predictions as their labels arrive.

    Records are processed in the order of the calls, in batches, and at the latest when you ask for a value.
    When you ask does not affect the numbers. They equal those of `evaluate` and `replay` for the same records
    in that order.

    Parameters
    ----------
    stream
        The stream of all predictions and labels.
    config
        As in `evaluate`.
    **settings
        As in `evaluate`.

    Raises
    ------
    ConfigError
        For invalid settings, in one sentence.
    ValueError
        If `stream` is not a name of at most 256 bytes.

    Examples
    --------
    >>> evaluator = Evaluator(estimators=["all", "window:100"])
    >>> for i in range(200):
    ...     evaluator.predict(i, "UP", model="nb")
    ...     evaluator.learn(i, "UP" if i % 4 else "DOWN")
    >>> evaluator.get("accuracy")
    0.75
    >>> evaluator.get()["p_maj"]
    0.74
    >>> evaluator.drift_detected
    False
    """

    @with_short_errors
    @with_settings
    def __init__(
        self, *, stream: str = STREAM, config: ConfigSource = None, **settings: Unpack[Settings]
    ) -> None:
        if "champion" in settings:
            settings.setdefault("compare", "champion")
        self._config = _without_time(combined(config, settings))
        compile_loops(complain, self._config)
        self._stream = values.text("stream", stream)
        check_name("stream", stream)
        self._shard = Shard(self._config)
        self._shard.state.courses = PastCourses()
        self._shard.catalog.untimed = True  # until a record has a time
        self._queue: list[tuple[int, Record]] = []
        self._time = -1  # of the latest record: in ms, or the number of earlier predictions
        self._first: tuple[int, int] | None = None
        self._latest = [_EARLIEST] * 3  # by kind: the largest record time
        self._asked = False  # whether a value was asked for since the latest label
        self._in_a_row = 0  # the latest labels with a question after each
        of_stream = self._config.stream(self._stream)
        self._stepper, self._present = Stepper(self._shard), Present(self._shard, of_stream)
        self._regression, self._sets = of_stream.task == "regression", of_stream.has_sets
        self._classes = of_stream.classes
        self._by_version = of_stream.versions == "separate"
        #: Models, versions and classes of accepted records, which need no further check.
        self._taken: set[tuple[Any, ...]] = set()
        self._room = self._config.limits.instances_per_shard  # a lower bound of the remaining instances
        self._predicted: dict[str, int] = {}  # by instance: predictions since its label
        self._outputs: list[Message] = []
        self._alarms_seen = 0

    def predict(
        self,
        instance_id: values.Id,
        y_pred: values.Class | values.Labels | None,
        *,
        y_proba: Mapping[Any, float] | Sequence[float] | None = None,
        model: str = MODEL,
        ts: values.Time = None,
        segments: Mapping[str, str] | None = None,
        model_version: values.Id | None = None,
        quantiles: Mapping[Any, float] | None = None,
        **numbers: Unpack[PredictionNumbers],
    ) -> None:
        """Take a model's prediction. A model may predict an instance several times before its label.

        Parameters
        ----------
        instance_id
            A string or an integer. The label names the instance by it.
        y_pred
            The predicted class; a number if `task` is `regression`, labels such as `["a", "b"]` if it is
            `multilabel`. None, which learners return before they have learned anything, is ignored.
        y_proba
            Probabilities by class, or in the order of the setting `classes`.
        model
            The model's name.
        ts
            When the prediction was made: epoch milliseconds, or a datetime with a time zone. If no call has a
            `ts`, the number of the prediction is the time.
        segments
            Groups of the instance, such as `{"region": "north"}`.
        model_version
            The version of the model.
        quantiles
            Predicted numbers by level, such as `{0.1: 3.2, 0.9: 7}`, for `wis`.
        **numbers
            Numbers that some measures need: fields of `prequential.topics.messages.Prediction`.

        Raises
        ------
        ValueError
            If the prediction can't be evaluated; the error quotes the argument. Reserved names of models are
            refused. So are models, classes, instances and predictions beyond a limit.
        """
        if y_pred is None:
            return
        check_name("model", model)
        record = Prediction(
            self._stream, values.model_name(model), values.identifier("instance_id", instance_id),
            self._target("y_pred", y_pred), None, values.probabilities(y_proba, y_pred, self._classes),
            values.segments(segments),
            None if model_version is None else values.identifier("model_version", model_version),
            quantiles=values.quantiles(quantiles), **values.numbers(numbers),
        )  # fmt: skip
        time = values.milliseconds(ts)
        self._check(record, (record.model, record.model_version, record.y_pred))
        self._add(PREDICTIONS, record, time, self._time + 1)
        self._check_limits(record, self._predicted.get(record.instance_id, 0) + 1)

    def learn(
        self, instance_id: values.Id, y_true: values.Class | values.Labels | None, *, ts: values.Time = None,
        value: float | None = None,
    ) -> None:  # fmt: skip
        """Take the label of an instance; a label that differs from the previous one is a revision.

        Parameters
        ----------
        instance_id
            As in `predict`.
        y_true
            As `y_pred` in `predict`. None withdraws the label.
        ts
            When the label became known, as in `predict`. If no call has a `ts`, it is the time of the latest
            prediction.
        value
            As in `predict`; it takes precedence over the prediction's value.

        Raises
        ------
        ValueError
            If the label is invalid; the error quotes the argument.
        """
        record = Label(
            self._stream, values.identifier("instance_id", instance_id),
            None if y_true is None else self._target("y_true", y_true), None, values.number("value", value),
        )  # fmt: skip
        time = values.milliseconds(ts)
        self._check(record, (record.y_true,))
        self._add(LABELS, record, time, max(self._time, 0))
        self._check_limits(record, 0)
        self._in_a_row = self._in_a_row + 1 if self._asked else 0
        self._asked = False
        if self._in_a_row > 1:  # a question is likely to follow this label also, so prepare the answer
            self._process()

    def get(
        self, measure: str | None = None, *, model: str | None = None, stage: str = "final",
        estimator: str | None = None,
    ) -> Any:  # fmt: skip
        """Return the current value of a measure, or of all measures that have one.

        Parameters
        ----------
        measure
            The name of the measure; None: all.
        model
            The name of the model, required if there are several.
        stage
            Which of an instance's predictions is evaluated.
        estimator
            By default `all`, or the first estimator if `all` isn't configured, as in `Result.measures`.
            `window:1000` gives the latest outcomes.

        Returns
        -------
        float, None or dict
            The measure's value, or None if it has none. Without `measure`, all values by name; the dict is
            empty while there are no outcomes.

        Raises
        ------
        ValueError
            If the measure, stage or estimator isn't configured; the error lists those that are. Also if the
            model or stage has no outcomes, or if there are several models and none is named.

        Examples
        --------
        >>> evaluator = Evaluator(estimators=["all", "window:2"])
        >>> for i, y in enumerate(["UP", "DOWN", "DOWN"]):
        ...     evaluator.predict(i, "UP")
        ...     evaluator.learn(i, y)
        >>> evaluator.get("accuracy"), evaluator.get("accuracy", estimator="window:2")
        (0.3333333333333333, 0.0)
        """
        self._process()
        self._asked = True
        return self._present.get((model, stage, estimator), measure)

    @property
    def drift_detected(self) -> bool:
        """Whether a detector has raised an alarm since the last access; `result().alarms` lists alarms."""
        self._process()
        self._asked = True
        alarms = self._shard.evaluation.alarms
        detected, self._alarms_seen = alarms > self._alarms_seen, alarms
        return detected

    def result(self) -> Result:
        """Return the results so far.

        Returns
        -------
        Result
            The messages so far, alarms, comparisons, and a summary; later calls don't change it.

        Examples
        --------
        >>> evaluator = Evaluator(estimators=["all"])
        >>> for i in range(4):
        ...     evaluator.predict(i, "UP", model="nb")
        ...     evaluator.learn(i, "UP" if i else "DOWN")
        >>> evaluator.result().measures("accuracy")["nb"]
        0.75
        """
        self._process()
        self._close()
        shard = self._shard

        def place_of_record(kind: int, partition: int, offset: int) -> Place:
            return {"file": KINDS[kind], "row": offset}

        account = Account(place_of_record)
        for output in self._outputs:
            account.put(output)
        account.add(shard)
        summary = account.summary(emission_of(self._config, self._config, untimed=shard.catalog.untimed))
        warn(summary)
        snapshot = [msgspec.msgpack.encode(part) for part in shard.snapshot()]
        latest = partial(_last_set, self._config, snapshot, untimed=shard.catalog.untimed)
        return Result(list(self._outputs), summary, self._config, latest=latest)

    def _target(self, field: str, value: values.Class | values.Labels) -> values.Class:
        if self._sets and isinstance(value, str):
            value = values.array_of_text(value) or value
        target = values.target(field, value)
        number = isinstance(target, (int, float)) and not isinstance(target, bool)
        if self._regression:
            if not number:
                expected = values.expected_number(value, "a number")
                raise ValueError(f"{field} is {values.quoted(value)}: expected {expected} (task: regression)")
            try:
                return number_of(target, field)
            except Unusable as error:
                raise ValueError(str(error)) from None
        if isinstance(target, float):
            return values.class_name(field, target)
        return target

    def _check(self, record: Any, names: tuple[Any, ...]) -> None:
        """Raise ValueError for a record that the engine would refuse because of its names.

        `names` are the names in the record that may exceed a limit or be reserved.
        """
        if self._regression:
            names = names[:-1]
        if names in self._taken:
            return
        self._process()  # so that the catalog has all names of earlier records
        catalog, checked = self._shard.catalog, record
        if self._by_version and record.KIND == PREDICTIONS and record.model_version is not None:
            checked = msgspec.structs.replace(record, model=f"{record.model}:{record.model_version}")
        try:
            news = news_of(catalog, stream_of(catalog, checked), checked)
        except Unusable as error:
            raise ValueError(str(error)) from None
        if news is not None and news.retires:
            self._taken.clear()  # the catalog drops an older version
        self._taken.add(names)

    def _check_limits(self, record: Any, predictions: int) -> None:
        """Raise ValueError if a limit is near and the engine refuses the latest record.

        `predictions` is how many predictions the instance has without a label, including this one.
        """
        limits, predicted = self._config.limits, self._predicted
        if len(predicted) >= _MOST_PREDICTED:
            predicted.clear()
        predicted[record.instance_id] = predictions
        if not predictions:
            del predicted[record.instance_id]
        self._room -= 1  # a lower bound: the instance may not be new
        if self._room >= 0 and predictions <= limits.predictions_per_instance:
            return
        before = len(self._outputs)
        self._process()
        self._close()
        self._room = limits.instances_per_shard - self._shard.state.remembered
        refused = [output for output in self._outputs[before:] if isinstance(output, DeadLetter)]
        if refused:
            raise ValueError(refused[-1].reason)

    def _add(self, kind: int, record: Record, ts: int | None, otherwise: int) -> None:
        time = otherwise if ts is None else ts
        record.ts = ts
        if ts is not None and self._shard.catalog.untimed:
            self._process()
            self._close()
            self._shard.catalog.untimed = False
        self._time = time
        time = self._latest[kind] = max(time, self._latest[kind])
        key = time, kind
        if self._first is not None and key < self._first:
            self._process()  # the order of calls isn't that of time
        self._queue.append((time, record))
        self._first = key
        if len(self._queue) >= _MOST:
            self._process()

    def _process(self) -> None:
        """Process the records in the queue, which are in order of time."""
        queue, stepper = self._queue, self._stepper
        if not queue:
            return
        if len(queue) > _FEW:
            self._process_batch(queue)
        else:
            for time, record in queue:
                if not stepper.take(record, time):
                    self._process_batch([(time, record)])
            stepper.advance()
        queue.clear()
        self._first = None
        if self._shard.outbox.messages:
            self._flush()

    def _process_batch(self, queue: list[tuple[int, Record]]) -> None:
        self._stepper.close()
        for kind in (PREDICTIONS, LABELS):
            batch = [(time, record) for time, record in queue if kind == record.KIND]
            if batch:
                start = self._shard.merge.added[kind]
                times = np.array([time for time, _ in batch], dtype=np.int64)
                records: list[Record | None] = [record for _, record in batch]
                self._shard.add(Batch(kind, range(start, start + len(batch)), times, Decoded(records, {})))
        self._shard.follow(tuple(self._shard.merge.added))
        self._flush()

    def _close(self) -> None:
        """Complete the steps of the stepper, so that the shard includes all records."""
        self._stepper.close()
        self._flush()

    def _flush(self) -> None:
        self._outputs += map(decoded, self._shard.flush()[0])


def _last_set(config: Config, snapshot: list[bytes], *, untimed: bool) -> list[Message]:
    """Return messages about the state of every sequence in a snapshot, which a separate shard makes."""
    shard = Shard(config)
    shard.restore(map(msgspec.msgpack.decode, snapshot))
    shard.catalog.untimed = untimed
    shard.last_set()
    return [decoded(output) for output in shard.flush()[0]]


def _without_time(config: Config) -> Config:
    """Return the configuration with messages due by numbers of outcomes, unless it sets a time.

    The length of the run is unknown, so no time can be chosen that gives a suitable number of points. With
    periods, their length gives a time.
    """

    def resolved(stream: StreamConfig) -> StreamConfig:
        if not stream.emit_every_given:
            stream = replace(stream, emit_every=most_with_period(stream))
        return stream if stream.emit_comparisons_given else replace(stream, emit_comparisons=None)

    return config.with_each(resolved)

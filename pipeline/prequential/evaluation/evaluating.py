"""Evaluate tables in a notebook or program, with the engine of `replay`: settings, reference, result."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
from prequential.configfile.reading.reader import combined
from prequential.configuration.settings.durations import duration
from prequential.configuration.settings.model import Config, ConfigError
from prequential.configuration.settings.streams import Objective, StreamConfig
from prequential.engine.details.references import WeightedShare, difference, short
from prequential.engine.details.shares import SHARES
from prequential.engine.past import PastCourses
from prequential.evaluation.inputs import Inputs
from prequential.evaluation.result import Result
from prequential.evaluation.settings import Settings
from prequential.evaluation.shown import warn, with_short_errors
from prequential.offline.replay.sources import Located, by_count, place_of, replay
from prequential.offline.replay.summary import (
    Account,
    emission_of,
    refuse_mostly_invalid,
    refuse_reused_ids,
    why,
)
from prequential.offline.tables.opening import DEFAULT_MODEL, DEFAULT_STREAM
from prequential.runtime.compilation import loops_for, progress_bar
from prequential.topics.decoding import INSTANCES, LABELS, PREDICTIONS
from prequential.topics.errors import InvalidRecords, UsageError, WorkError, existing, listed
from prequential.topics.outputs import Message, Metrics, Output, decoded
from prequential.topics.values import why_blank
from prequential.views.wording.console import complain

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Function = TypeVar("_Function", bound=Callable[..., Any])


def with_settings(function: _Function) -> _Function:
    """Return the function with a signature that lists the settings by name in place of `**settings`.

    Notebooks use the signature to complete arguments. Type checkers use the equivalent annotation.
    """
    signature = inspect.signature(function)
    kept = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    named = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in Settings.__annotations__.items()
    ]
    function.__signature__ = signature.replace(parameters=[*kept, *named])  # type: ignore[attr-defined]
    return function


#: The detail from which differences between evaluations are computed.
_NEEDED = "intervals"


def is_extent(reference: Any) -> bool:
    """Return whether a reference is a number of outcomes or a duration, rather than a table or path.

    >>> is_extent(1000), is_extent("30d"), is_extent("month.csv")
    (True, True, False)
    """
    if isinstance(reference, str):
        try:
            return duration(reference) >= 0
        except ValueError:
            return False
    return isinstance(reference, (int, float, timedelta, np.timedelta64))


def with_extent(config: Config, reference: Any) -> Config:
    """Return the configuration with a number of first outcomes, or a duration, as every stream's reference.

    Raises ConfigError if the reference is invalid.
    """
    objective = combined(None, {"objective": {"reference": reference}}).defaults.objective
    read = existing(objective, "the objective that was given")

    def changed(stream_config: StreamConfig) -> StreamConfig:
        if stream_config.task == "regression":
            return stream_config
        return replace(
            stream_config,
            objective=replace(stream_config.objective or Objective({}), reference=read.reference),
        )

    return _of_all(config, changed)


def with_intervals(config: Config) -> Config:
    """Return the configuration with intervals in messages, from which differences are computed."""
    return _of_all(
        config,
        lambda stream_config: replace(
            stream_config, details=tuple(dict.fromkeys((*stream_config.details, _NEEDED)))
        ),
    )


def _of_all(config: Config, changed: Callable[[StreamConfig], StreamConfig]) -> Config:
    if all(
        stream_config.task == "regression" for stream_config in (config.defaults, *config.streams.values())
    ):
        raise ConfigError(
            "reference: intervals exist for shares of classes only, but labels of task regression are numbers"
        )
    return config.with_each(changed)


def check_result(reference: Result) -> None:
    """Raise UsageError if another evaluation has no intervals."""
    if not any(message.intervals or message.cluster for message in _newest(reference.all_messages).values()):
        raise UsageError(
            "the reference was evaluated without intervals, which the intervals of differences need: "
            "expected a result with details=['intervals'], or the table"
        )


def stand_beside(result: Result, reference: Result) -> None:
    """Add to the result's summary how its sequences differ from those of another evaluation.

    The two evaluations are assumed to have no outcome in common. Each sequence is compared with the sequence
    of the same stream, model and stage: with its estimator `all`, or its first one. Raises UsageError if the
    evaluations share no sequence.
    """
    now, then = _newest(result.messages), _newest(reference.all_messages)
    shares_sequence = False
    for sequence in result.summary.sequences:
        for estimator in sequence.measures:
            key = _key(sequence)
            reference_message = next(
                (
                    then[key_of_estimator]
                    for name in ("all", *sequence.measures)
                    if (key_of_estimator := (*key, name)) in then
                ),
                None,
            )
            present = now.get((*key, estimator))
            if reference_message is None or present is None:
                continue
            references = {} if sequence.reference is msgspec.UNSET else sequence.reference
            sequence.reference = {**references, estimator: _beside(present, reference_message)}
            shares_sequence = True
    if not shares_sequence:
        names = sorted({" ".join(map(str, key[:3])) for key in then})
        raise UsageError(
            f"the reference has no sequence of the same stream, model and stage: it has {listed(names)}"
        )


def _key(subject: Any) -> tuple[str, str, str]:
    return subject.stream, subject.model, subject.stage


def _newest(messages: Any) -> Mapping[tuple[str, str, str, str], Metrics]:
    """Return the newest message of each sequence and estimator, without segments and periods."""
    of_streams = (message for message in messages if isinstance(message, Metrics) and message.segment is None)
    return {
        (*_key(message), message.estimator): message
        for message in of_streams
        if message.period is msgspec.UNSET
    }


def _beside(present: Metrics, reference_message: Metrics) -> dict[str, Any]:
    now, then = present.intervals or {}, reference_message.intervals or {}
    measures = {}
    for name in SHARES:
        if name in present.measures and name in reference_message.measures:
            shares = [
                WeightedShare(message.measures[name], 0.0, ends.get(name))
                for message, ends in ((present, now), (reference_message, then))
            ]
            interval = difference(*shares)
            measures[name] = {
                "value": short(shares[1].value), "difference": short(shares[0].value - shares[1].value),
                "interval": None if interval is None else (short(interval[0]), short(interval[1])),
            }  # fmt: skip
    return {"outcomes": reference_message.outcomes, "measures": measures}


#: Names of the stream and the model for tables without such columns.
STREAM, MODEL = DEFAULT_STREAM, DEFAULT_MODEL

#: The path of a configuration file, or its content.
ConfigSource = str | os.PathLike[str] | Mapping[str, Any] | None


@with_short_errors
@with_settings
def evaluate(
    predictions: Any,
    labels: Any = None,
    instances: Any = None,
    *,
    config: ConfigSource = None,
    columns: Mapping[str, Any] | None = None,
    stream: str = STREAM,
    model: str = MODEL,
    reused_ids: bool = False,
    progress: bool = True,
    reference: Any = None,
    **settings: Unpack[Settings],
) -> Result:
    """Evaluate predictions against their labels, as `prequential replay` does.

    A table may come from pandas, polars, Arrow or any library with the Arrow C interface. A dict of columns,
    an iterable of dicts, or the path of a file also works. Predictions and labels may also be a Series, an
    array of shape (n,) or a list of values. Columns are named as fields of records: `instance_id`, `y_pred`,
    `y_true`, `ts` (epoch ms, RFC 3339, or a column type of times), `y_proba`, `segments`, …

    Predictions and labels may stand in one table. If no table has a `ts`, rows are taken in order. In one
    table, each label then follows its prediction; with two tables, all labels follow all predictions. Without
    an `instance_id`, rows of both tables are matched by position. If there is no `ts` either, each label then
    follows its prediction, as in a single table.

    Parameters
    ----------
    predictions
        A table; values without columns are `y_pred`.
    labels
        A table; values without columns are `y_true`. None: the table of predictions has the labels as well.
    instances
        A table with the arrival times, segments and label propensities of instances; None: there is none.
    config
        A configuration file, or a dict of the same form; None: all defaults.
    columns
        The names of columns that are not named as fields, in the form of the configuration's section `files`:
        `{"instance_id": "customer", "ts": {"path": "when", "unit": "s"}}`, or by table `{"labels": {"y_true":
        "churned"}}`. An ID may consist of several columns: `{"instance_id": ["customer", "day"]}`.
    stream
        The name of the stream if tables have no such column.
    model
        The name of the model if tables have no such column.
    reused_ids
        Accept an ID that is used again while its label is pending. Instances may then get each other's
        labels.
    progress
        Whether to show a progress bar on standard error, if that is a terminal, or in a notebook with
        ipywidgets.
    reference
        A reference period for comparison, with intervals of differences (`Result.references`). A number means
        the first outcomes of each sequence. A duration such as `"30d"` or a `timedelta` means label time from
        its first outcome on. Both act as `objective.reference` of a configuration, and messages contain them.
        Alternatively, give other outcomes: a `Result` with `details=["intervals"]`, a table of predictions
        and labels, or a tuple of the two. Tables are evaluated separately with the same settings. With a
        table or a result, messages also have `intervals`.
    **settings
        Settings of a stream: `estimators`, `stages`, `label_horizon`, `detectors`, `task`, … They take
        precedence over `config`. A `champion` is compared with each other model.
        `prequential.evaluation.Settings` lists all settings.

    Returns
    -------
    Result
        Measures, comparisons, alarms and incidents: the numbers are those of `replay`, bit for bit. Python
        warnings (`warnings.warn`) report likely mistakes, and that most records of a kind were dropped.

    Raises
    ------
    ConfigError
        For invalid settings or columns, in one sentence.
    TypeError
        If an argument is not a table.
    ValueError
        If rows are matched by position, and the indexes of two pandas tables hold the same labels in another
        order. Also for a `stream` or `model` without a name.
    UsageError
        If a file can't be opened, a table needs pyarrow and it isn't installed, or tables without IDs have
        different numbers of rows.
    WorkError
        If a file has invalid content, nothing could be evaluated, or IDs are used again.

    Examples
    --------
    >>> table = {
    ...     "y_pred": ["UP", "UP", "DOWN", "UP"], "y_true": ["UP", "DOWN", "DOWN", "UP"], "model": ["nb"] * 4,
    ... }
    >>> evaluate(table, estimators=["all"]).measures("kappa")["nb"]
    0.5
    """
    check_name("stream", stream)
    check_name("model", model)
    if "champion" in settings:
        settings.setdefault("compare", "champion")
    tables = {PREDICTIONS: predictions, LABELS: predictions if labels is None else labels}
    if instances is not None:
        tables[INSTANCES] = instances
    inputs = Inputs(tables, columns or {}, stream, model)
    combined_config = combined(config, settings)
    reference_result = None
    if reference is not None and is_extent(reference):
        combined_config = with_extent(combined_config, reference)
    elif reference is not None:
        combined_config = with_intervals(combined_config)
        reference_result = _reference_result(reference, combined_config, inputs, progress)
    result = _evaluated(combined_config, inputs, progress)
    if reference_result is not None:
        stand_beside(result, reference_result)
    if not reused_ids:
        refuse_reused_ids(result.summary, "reused_ids=True")
    warn(result.summary)
    return result


def _evaluated(config: Config, inputs: Inputs, progress: bool) -> Result:
    """Return the result of these tables."""
    files = inputs.open()
    whole = inputs.configured(config, files)
    with progress_bar(wanted=progress) as bar:
        sources = inputs.sources(whole, files, bar)
    total = sum(map(len, sources))
    with loops_for(whole, total, complain), progress_bar(wanted=progress) as bar:
        task = bar.add_task("evaluating", total=total)
        return run(whole, sources, lambda records: bar.advance(task, records), inputs)


def _reference_result(reference: Any, config: Config, inputs: Inputs, progress: bool) -> Result:
    """Return the evaluation to compare with: the result that was given, or the evaluation of a table."""
    if isinstance(reference, Result):
        check_result(reference)
        return reference
    tables = reference if isinstance(reference, tuple) and len(reference) == 2 else (reference, reference)
    reference_inputs = replace(inputs, tables=dict(zip((PREDICTIONS, LABELS), tables)))
    try:
        return _evaluated(config, reference_inputs, progress)
    except (ConfigError, UsageError, WorkError, TypeError) as error:
        raise type(error)(f"reference: {error}") from error


def check_name(field: str, name: Any) -> None:
    """Raise ValueError for None and for a blank name."""
    if name is None:
        raise ValueError(f"{field} is {name!r}: expected a name")
    if isinstance(name, str) and (why := why_blank(field, name)) is not None:
        raise ValueError(why)


def run(
    config: Config, sources: list[Located], progress: Callable[[int], None] = lambda records: None,
    inputs: Inputs | None = None,
) -> Result:  # fmt: skip
    """Return the result of a replay of these sources, of which there is at most one of each kind.

    `progress` is called with the number of records just processed; `inputs` can read the records again.
    Raises WorkError if nothing could be evaluated.
    """
    by_kind = {source.kind: source for source in sources}
    account = Account(
        place_of(by_kind, config),
        lambda kind, *name_and_id: by_kind[kind].find(*name_and_id) if kind in by_kind else None,
    )
    outputs: list[Message] = []

    def put(output: Output) -> None:
        outputs.append(decoded(output))
        account.put(output)

    labels = sum(len(source) for source in sources if source.kind == LABELS)
    shard = replay(by_count(config, labels), sources, put, progress, courses=PastCourses())
    account.note_sources(sources)
    account.add(shard)
    summary = account.summary(emission_of(shard.config, config, untimed=shard.catalog.untimed))
    if not summary.evaluated:
        raise InvalidRecords(why(summary, account.facts()))
    refuse_mostly_invalid(account.facts())
    return Result(outputs, summary, config, inputs)

"""Evaluate tables in a notebook or program, with the engine of `replay`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prequential.configuration.reading.reader import combined
from prequential.configuration.settings.model import Config, ConfigError
from prequential.engine.past.course import PastCourses
from prequential.evaluation.inputs import Inputs
from prequential.evaluation.reference import (
    check_result,
    is_extent,
    stand_beside,
    with_extent,
    with_intervals,
)
from prequential.evaluation.result import Result
from prequential.evaluation.settings import Settings, with_settings
from prequential.evaluation.warning import warn, with_short_errors
from prequential.offline.replay.emission import by_count
from prequential.offline.replay.sources import Located, place_of, replay
from prequential.offline.replay.summary import Account, emission_of, refuse_reused_ids, why
from prequential.runtime.program.compilation import loops_for
from prequential.runtime.program.progress import progress_bar
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.outputs import Alarm, Incident, Message, Output, decoded
from prequential.views.wording.console import complain

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Names of the stream and the model for tables without such columns.
STREAM, MODEL = "default", "model"

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
    >>> evaluate(table, estimators=["all"]).measures("kappa")
    {'nb': 0.5}
    """
    check_name("stream", stream)
    check_name("model", model)
    if "champion" in settings:
        settings.setdefault("compare", "champion")
    tables = {PREDICTIONS: predictions, LABELS: predictions if labels is None else labels}
    if instances is not None:
        tables[INSTANCES] = instances
    inputs = Inputs(tables, columns or {}, stream, model)
    given = combined(config, settings)
    other = None
    if reference is not None and is_extent(reference):
        given = with_extent(given, reference)
    elif reference is not None:
        given = with_intervals(given)
        other = _other(reference, given, inputs, progress)
    result = _evaluated(given, inputs, progress)
    if other is not None:
        stand_beside(result, other)
    if not reused_ids:
        refuse_reused_ids(result.summary, "reused_ids=True")
    warn(result.summary, 3)
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


def _other(reference: Any, config: Config, inputs: Inputs, progress: bool) -> Result:
    """Return the evaluation to compare with: the result that was given, or the evaluation of a table."""
    if isinstance(reference, Result):
        check_result(reference)
        return reference
    tables = reference if isinstance(reference, tuple) and len(reference) == 2 else (reference, reference)
    given = replace(inputs, tables=dict(zip((PREDICTIONS, LABELS), tables)))
    try:
        return _evaluated(config, given, progress)
    except (ConfigError, UsageError, WorkError, TypeError) as error:
        raise type(error)(f"reference: {error}") from error


def check_name(field: str, name: Any) -> None:
    """Raise ValueError for None and for the empty name."""
    if name is None or name == "":
        raise ValueError(f"{field} is {name!r}: expected a name")


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
        lambda kind, *about: by_kind[kind].find(*about) if kind in by_kind else None,
    )
    account.clocks = {KINDS[source.kind]: source.clocks for source in sources}
    outputs: list[Message] = []

    def put(output: Output) -> None:
        outputs.append(decoded(output))
        if isinstance(output, Alarm):
            account.alarms.append(output)
        elif isinstance(output, Incident):
            account.incidents.add(output)

    labels = sum(len(source) for source in sources if source.kind == LABELS)
    shard = replay(by_count(config, labels), sources, put, progress, courses=PastCourses())
    account.time_columns = [one for source in sources for one in source.time_columns]
    account.uses = [uses for source in sources for uses in source.uses]
    account.add(shard)
    summary = account.summary(emission_of(shard.config, config, untimed=shard.catalog.untimed))
    if not summary.evaluated:
        raise WorkError(why(summary, account.facts()))
    return Result(outputs, summary, config, inputs)

"""Tables in, a result out: the engine of `replay` on what a notebook has."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prequential.config.reader import combined
from prequential.core.past.course import Courses
from prequential.evaluation.compiling import compile_once
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
from prequential.evaluation.warning import warn
from prequential.program.progress import progress_bar
from prequential.replay.sources import Located, place_of, replay
from prequential.replay.summary import Account, emission_of, refuse_reused_ids, why
from prequential.settings.model import Config
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS
from prequential.topics.errors import WorkError
from prequential.topics.outputs import Alarm, Incident, Message, Output, decoded

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The stream and the model of tables that don't name them.
STREAM, MODEL = "default", "model"

#: A file's path, or what would stand in one.
ConfigSource = str | os.PathLike[str] | Mapping[str, Any] | None


@with_settings
def evaluate(
    predictions: Any,
    labels: Any,
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
    """Evaluate predictions by the labels that came, as `prequential replay` does.

    Tables are of pandas, polars, Arrow and whatever else has the Arrow C interface, dicts of columns,
    iterables of dicts, or paths of files; predictions and labels may also be a Series, an array of shape (n,)
    or a list of values. Columns have the names that records have: `instance_id`, `y_pred`, `y_true`, `ts`
    (epoch ms, RFC 3339, or the table's own times), `y_proba`, `segments`, …

    Predictions and labels may be one and the same table. Where no table has a `ts`, the order of rows is that
    of time: in one table each label follows its prediction, of two tables all labels come after all
    predictions. Without an `instance_id` the rows of both belong together one by one, and where they have no
    `ts` either each label follows its prediction, as in one table.

    Parameters
    ----------
    predictions
        A table; what has no columns is `y_pred`.
    labels
        A table, perhaps the same one; what has no columns is `y_true`.
    instances
        A table of when instances came, of their segments and label propensities; None: there is none.
    config
        A configuration file, or a dict of the same form; None: all defaults.
    columns
        Where columns are that have other names: `{"instance_id": "customer", "ts": {"path": "when", "unit":
        "s"}}`, or by table `{"labels": {"y_true": "churned"}}`, in the form of the configuration's section
        `files`. An id may be several columns: `{"instance_id": ["customer", "day"]}`.
    stream
        The stream of tables without such a column.
    model
        The model of tables without such a column.
    reused_ids
        Allow ids that come again while labels are awaited: instances then meet each other's labels.
    progress
        Whether a bar shows on standard error how far it is, if that is a terminal, or in a notebook with
        ipywidgets.
    reference
        What later numbers stand beside, with intervals of differences (`Result.references`): so many first
        outcomes of each sequence, a duration such as `"30d"` of label time from its first outcome on (both as
        `objective.reference` of a configuration, and said in messages); or other outcomes, as a `Result` with
        `details=["intervals"]`, as a table of predictions and labels, or as a tuple of the two, which is
        evaluated by itself with the same settings. Beside a table or a result messages have `intervals`.
    **settings
        Those of a stream: `estimators`, `stages`, `label_horizon`, `detectors`, `task`, … They win over
        `config`. A `champion` is compared with each other model. `prequential.evaluation.Settings` lists
        them.

    Returns
    -------
    Result
        Measures, comparisons, alarms and incidents: the numbers are those of `replay`, bit for bit. Python
        warnings (`warnings.warn`) report what looks wrong, and that most records of a kind were dropped.

    Raises
    ------
    ConfigError
        In one sentence, for settings and columns that make no sense.
    TypeError
        For what is no table.
    ValueError
        If rows belong together one by one, and the indexes of two pandas tables hold the same labels in
        another order.
    UsageError
        If a file can't be opened, a table needs pyarrow and it isn't installed, or tables without ids have
        different numbers of rows.
    WorkError
        If a file has no such content as it should, nothing could be evaluated, or ids come again.

    Examples
    --------
    >>> table = {
    ...     "y_pred": ["UP", "UP", "DOWN", "UP"], "y_true": ["UP", "DOWN", "DOWN", "UP"], "model": ["nb"] * 4,
    ... }
    >>> evaluate(table, table, estimators=["all"]).measures("kappa")
    {'nb': 0.5}
    """
    if "champion" in settings:
        settings.setdefault("compare", "champion")
    tables = {PREDICTIONS: predictions, LABELS: labels}
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
    warn(result.summary, 2)
    return result


def _evaluated(config: Config, inputs: Inputs, progress: bool) -> Result:
    """The result of these tables."""
    files = inputs.open()
    whole = inputs.configured(config, files)
    compile_once(whole)
    with progress_bar(wanted=progress) as bar:
        sources = inputs.sources(whole, files, bar)
        task = bar.add_task("evaluating", total=sum(map(len, sources)))
        return run(whole, sources, lambda records: bar.advance(task, records), inputs)


def _other(reference: Any, config: Config, inputs: Inputs, progress: bool) -> Result:
    """Another evaluation, as it was given or of a table."""
    if isinstance(reference, Result):
        check_result(reference)
        return reference
    tables = reference if isinstance(reference, tuple) and len(reference) == 2 else (reference, reference)
    return _evaluated(config, replace(inputs, tables=dict(zip((PREDICTIONS, LABELS), tables))), progress)


def run(
    config: Config, sources: list[Located], progress: Callable[[int], None] = lambda records: None,
    inputs: Inputs | None = None,
) -> Result:  # fmt: skip
    """The result of a replay of these sources, one of each kind at most.

    `progress` takes the number of records just processed; `inputs` can read them once more. Raises WorkError
    if nothing could be evaluated.
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

    shard = replay(config, sources, put, progress, courses=Courses())
    account.uses = [uses for source in sources for uses in source.uses]
    account.add(shard)
    summary = account.summary(emission_of(shard.config, config, untimed=shard.catalog.untimed))
    if not summary.evaluated:
        raise WorkError(why(summary, account.facts()))
    return Result(outputs, summary, config, inputs)

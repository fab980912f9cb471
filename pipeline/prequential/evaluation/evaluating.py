"""Tables in, a result out: the engine of `replay` on what a notebook has."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sized
from dataclasses import replace
from typing import Any

from prequential.config.reader import combined
from prequential.core.past.course import Courses
from prequential.evaluation.result import Result
from prequential.evaluation.tables import rows_of
from prequential.mapping.model import OPTIONAL, REQUIRED, Field, MappingError, Origin, RecordMapping, parse
from prequential.program.compilation import compile_loops
from prequential.program.progress import progress_bar, reading
from prequential.replay.sources import Located, replay
from prequential.replay.summary import Account, Place, emission_of, refuse_reused_ids, why
from prequential.settings.model import Config, ConfigError
from prequential.tables.opening import columns_of, in_order, table_sources
from prequential.tables.rows import RowFile
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS
from prequential.topics.errors import WorkError
from prequential.topics.outputs import Alarm, Incident, Message, Output, decoded

#: The stream and the model of tables that don't name them.
STREAM, MODEL = "default", "model"

#: A file's path, or what would stand in one.
ConfigSource = str | os.PathLike[str] | Mapping[str, Any] | None


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
    **settings: Any,
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
    **settings
        Those of a stream: `estimators`, `stages`, `label_horizon`, `detectors`, `task`, … They win over
        `config`. A `champion` is compared with each other model.

    Returns
    -------
    Result
        Measures, comparisons, alarms and incidents: the numbers are those of `replay`, bit for bit.

    Raises
    ------
    ConfigError
        In one sentence, for settings and columns that make no sense.
    TypeError
        For what is no table.
    UsageError
        If a file can't be opened, or a table needs pyarrow and it isn't installed.
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
    whole = combined(config, settings)
    tables = {PREDICTIONS: predictions, LABELS: labels}
    if instances is not None:
        tables[INSTANCES] = instances
    files: dict[int, RowFile] = {}
    for kind, table in tables.items():
        same = next((other for other in files if _is_same(tables[other], table)), None)
        files[kind] = files[same] if same is not None else rows_of(KINDS[kind], table)
    whole = replace(whole, files={**whole.files, **_mappings(columns or {}, files)})
    compile_once(whole)
    defaults = {"stream": Field(const=stream), "model": Field(const=model)}
    by_row = all(_lacks_ids(file, whole.files.get(KINDS[kind], ())) for kind, file in files.items())
    if by_row:
        files = _numbered(files)
    with progress_bar(wanted=progress) as bar:
        read = table_sources(
            whole, files, lambda kind: reading(bar, KINDS[kind]), defaults, "columns[{!r}]".format
        )
        sources = in_order(read, by_row=by_row)
        task = bar.add_task("evaluating", total=sum(map(len, sources)))
        result = run(whole, sources, lambda records: bar.advance(task, records))
    if not reused_ids:
        refuse_reused_ids(result.summary, "reused_ids=True")
    return result


def _is_same(one: Any, other: Any) -> bool:
    """Whether they are one table, or paths of one file."""
    if isinstance(one, (str, os.PathLike)) and isinstance(other, (str, os.PathLike)):
        return os.fspath(one) == os.fspath(other)
    return one is other


def run(
    config: Config, sources: list[Located], progress: Callable[[int], None] = lambda records: None
) -> Result:
    """The result of a replay of these sources, one of each kind at most.

    `progress` takes the number of records just processed. Raises WorkError if nothing could be evaluated.
    """
    by_kind = {source.kind: source for source in sources}

    def place(kind: int, partition: int, offset: int) -> Place:
        return by_kind[kind].place(offset)

    account = Account(place, lambda kind, *about: by_kind[kind].find(*about) if kind in by_kind else None)
    outputs: list[Message] = []

    def put(output: Output) -> None:
        outputs.append(decoded(output))
        if isinstance(output, Alarm):
            account.alarms.append(output)
        elif isinstance(output, Incident):
            account.incidents.add(output)

    shard = replay(config, sources, put, progress, courses=Courses())
    account.add(shard)
    summary = account.summary(emission_of(shard.config, config, untimed=shard.catalog.untimed))
    if not summary.evaluated:
        raise WorkError(why(summary, account.facts()))
    return Result(outputs, summary, config)


def compile_once(config: Config) -> None:
    """Have the engine's loops compiled that a configuration needs, once in a process; says so on stderr."""
    compile_loops(lambda notice: print(f"prequential: {notice}", file=sys.stderr), config)


def _mappings(
    columns: Mapping[str, Any], files: Mapping[int, RowFile]
) -> dict[str, tuple[RecordMapping, ...]]:
    """The mappings that `columns` says, by table; what is said of all tables is so of each that has it."""
    if not columns:
        return {}
    by_table = set(columns) <= set(KINDS)
    if not by_table:
        known = {name for kind in files for name in (*REQUIRED[kind], *OPTIONAL[kind])}
        for name in columns:
            if name not in known:
                raise ConfigError(f"columns: unknown field {name!r}; known: {', '.join(sorted(known))}")
    mappings = {}
    for kind in files:
        given = columns.get(KINDS[kind]) if by_table else _columns_of_kind(columns, kind, files)
        if given is None:
            continue
        sections = given if isinstance(given, list) else [given]
        origin = Origin(f"columns[{KINDS[kind]!r}]" if by_table else "columns")
        try:
            parsed = (parse(section, kind, bare=True, origin=origin) for section in sections)
            mappings[KINDS[kind]] = tuple(parsed)
        except MappingError as error:
            raise ConfigError(f"{origin.section}: {error}") from error
    return mappings


def _columns_of_kind(columns: Mapping[str, Any], kind: int, files: Mapping[int, RowFile]) -> dict[str, Any]:
    """Of what is said of all tables that which is meant for one: it has the column, or no table has it."""
    chosen = {}
    for name, one in columns.items():
        path = one.get("path") if isinstance(one, Mapping) else one
        paths = path if isinstance(path, list) else [path]
        able = [other for other in files if name in (*REQUIRED[other], *OPTIONAL[other])]
        having = [other for other in able if set(paths) <= set(columns_of(files[other]))]
        if kind in (having or able):
            chosen[name] = one
    return chosen


def _numbered(files: Mapping[int, RowFile]) -> dict[int, RowFile]:
    """The tables with their rows' numbers as ids, if they have the same number of rows."""
    if not all(isinstance(file, Sized) and hasattr(file, "numbered") for file in files.values()):
        return dict(files)
    if len({len(file) for file in files.values()}) > 1:  # type: ignore[arg-type]
        return dict(files)
    numbered = {id(file): file.numbered("instance_id") for file in files.values()}  # type: ignore[attr-defined]
    return {kind: numbered[id(file)] for kind, file in files.items()}


def _lacks_ids(file: RowFile, mappings: tuple[RecordMapping, ...]) -> bool:
    """Whether neither a mapping nor a column says which instance a row is of."""
    if any("instance_id" not in one.implied for one in mappings):
        return False
    return "instance_id" not in columns_of(file)

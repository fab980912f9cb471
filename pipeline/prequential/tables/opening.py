"""The files of a replay: what reads each, and by which mapping."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from prequential.config import Config, ConfigError
from prequential.files import Located, Source, read_lines
from prequential.mapping import MappingError, Origin, RecordMapping, same_names
from prequential.tables.checks import check_columns
from prequential.tables.formats import Stored, format_of, open_rows
from prequential.tables.rows import Progress, RowFile
from prequential.tables.source import TableSource
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS
from prequential.topics.errors import UsageError, WorkError


def open_sources(
    config: Config, paths: Mapping[int, str], progress: Callable[[int], Progress]
) -> list[Located]:
    """The sources of the files of some kinds; `progress` gives what is told of the reading of one.

    JSON lines for which no mapping is configured are what `produce` sends; all else are rows. Where
    predictions and labels are one file, what isn't said of labels is as it is of predictions. Raises
    UsageError for what is configured wrongly, WorkError for what can't be read.
    """
    stored = {path: Stored(path) for path in dict.fromkeys(paths.values())}
    shared = paths.get(PREDICTIONS) is not None and paths.get(PREDICTIONS) == paths.get(LABELS)
    mappings: dict[int, Sequence[RecordMapping]] = {}
    files: dict[int, RowFile] = {}
    sources: dict[int, Located] = {}
    for kind, path in sorted(paths.items()):
        sections = config.files.get(KINDS[kind], ())
        if not sections and format_of(stored[path]) == "jsonl" and (kind == INSTANCES or not shared):
            told = progress(kind)
            sources[kind] = _lines(kind, stored[path])
            told(len(sources[kind]), 1.0)
            continue
        one_of = shared and kind == LABELS
        said = {one.format for one in sections or (mappings[PREDICTIONS] if one_of else ())}
        if len(said) > 1:
            raise ConfigError(f"{sections[0].origin.place()}: several formats: expected the same in each")
        files[kind] = file = open_rows(stored[path], said.pop() if said else None)
        mappings[kind] = sections or (_by_name(kind, file),)
        if one_of:
            mappings[kind] = [_completed(one, mappings[PREDICTIONS][0]) for one in mappings[kind]]
    check_columns([(file, mappings[kind]) for kind, file in files.items()])
    for kind, file in files.items():
        sources[kind] = TableSource(
            kind, file, mappings[kind], lambda stream: config.stream(stream).task == "regression",
            unlabelled=shared, progress=progress(kind),
        )  # fmt: skip
    _check_times(sources)
    sources = dict(sorted(sources.items()))
    _put_in_order(sources, paths)
    return list(sources.values())


def _lines(kind: int, stored: Stored) -> Source:
    try:
        with stored.open() as stream:
            return Source(kind, read_lines(stream), stored.name)
    except (OSError, EOFError, zlib.error) as error:
        raise WorkError(f"can't read {stored.name!r}: {error}") from error


def _by_name(kind: int, file: RowFile) -> RecordMapping:
    """The mapping of a file whose columns have the names of our fields."""
    columns = file.columns
    if columns is None:
        columns = next((rows.names() for rows in file.batches()), [])
    origin = Origin(f"files.{KINDS[kind]}")
    try:
        return same_names(kind, columns, origin)
    except MappingError as error:
        raise ConfigError(f"{file.name}: {error}") from error


def _completed(labels: RecordMapping, predictions: RecordMapping) -> RecordMapping:
    """The mapping of labels with what is said of the predictions in the same rows."""
    own = {name: one for name, one in labels.fields.items() if name not in labels.implied or name == "y_true"}
    fields = predictions.fields
    shared = {name: fields[name] for name in ("stream", "instance_id", "ts") if name in fields}
    return replace(labels, fields={**shared, **own}, implied=labels.implied - {"stream", "instance_id"})


def _check_times(sources: Mapping[int, Located]) -> None:
    """Records of which some have times and others none can't be put in order."""
    without = [one for one in sources.values() if isinstance(one, TableSource) and not one.has_times]
    timed = [
        one for one in sources.values() if len(one) and (not isinstance(one, TableSource) or one.has_times)
    ]
    if without and timed:
        lacks, has = KINDS[without[0].kind], KINDS[timed[0].kind]
        raise UsageError(
            f"the {lacks} in {without[0].file.name!r} have no ts, the {has} have: expected files.{lacks}.ts "
            "to say where it is, or none in any of the files (then the order of rows is that of time)"
        )


def _put_in_order(sources: Mapping[int, Located], paths: Mapping[int, str]) -> None:
    """Without any times one file comes after the other: all labels after all predictions.

    (Not knowing better, since nothing says that their rows correspond. In one file they do.)
    """
    by, before = 0, None
    for kind, source in sources.items():
        if isinstance(source, TableSource) and not source.has_times:
            if before is not None and paths[kind] != paths[before]:
                by += len(sources[before])
            source.delay(by)
            before = kind

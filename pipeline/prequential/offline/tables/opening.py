"""Open the files of a replay, each with its reader and its mappings."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec
from prequential.configuration.settings.model import Config, ConfigError
from prequential.mapping.clocks import TimeColumn, time_names
from prequential.mapping.evaluations import FORMATS_WITH_PARTS
from prequential.mapping.model import Field, MappingError, MappingOrigin, Path, RecordMapping
from prequential.mapping.parsing import same_names
from prequential.offline.replay.sources import Located, Source, read_lines
from prequential.offline.tables.checks import check_columns
from prequential.offline.tables.formats import Stored, format_of, open_rows
from prequential.offline.tables.rows import Progress, RowFile
from prequential.offline.tables.source import TableSource
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS
from prequential.topics.errors import UsageError, WorkError


def open_sources(
    config: Config, paths: Mapping[int, str], progress: Callable[[int], Progress]
) -> list[Located]:
    """Open the sources of files by kind; `progress` returns the callback for the progress of one kind.

    JSON lines without a configured mapping contain records as `produce` sends them. All other files contain
    rows. If predictions and labels are in one file, the mapping of labels inherits missing fields from the
    mapping of predictions. Raises UsageError for a wrong configuration or a file that cannot be opened;
    ConfigError if a file's section names several formats; WorkError for an unreadable file.
    """
    stored = {path: Stored(path) for path in dict.fromkeys(paths.values())}
    shared = paths.get(PREDICTIONS) is not None and paths.get(PREDICTIONS) == paths.get(LABELS)
    opened: dict[str, RowFile] = {}
    sources: dict[int, Located] = {}
    for kind, path in sorted(paths.items()):
        sections = config.files.get(KINDS[kind], ())
        if not sections and format_of(stored[path]) == "jsonl" and (kind == INSTANCES or not shared):
            report = progress(kind)
            sources[kind] = _lines(kind, stored[path])
            report(len(sources[kind]), 1.0)
            continue
        formats = {one.format for one in sections if one.format is not None}
        if len(formats) > 1:
            raise ConfigError(f"{sections[0].origin.place()}: several formats: expected the same in each")
        if path not in opened:
            opened[path] = open_rows(stored[path], formats.pop() if formats else None)
    files = {kind: opened[path] for kind, path in paths.items() if kind not in sources}
    return in_order({**sources, **table_sources(config, files, progress)})


def table_sources(
    config: Config,
    files: Mapping[int, RowFile],
    progress: Callable[[int], Progress] = lambda kind: lambda rows, share: None,
    defaults: Mapping[str, Field] | None = None,
    section: Callable[[str], str] = "files.{}".format,
) -> dict[int, Located]:
    """Return the sources of rows; predictions and labels with the same file object share its rows.

    `defaults` are used for required fields without a mapping and without a column. `section` returns the name
    of the configuration's section of a kind.
    """
    shared = files.get(PREDICTIONS) is not None and files.get(PREDICTIONS) is files.get(LABELS)
    mappings: dict[int, Sequence[RecordMapping]] = {}
    segments = [key for one in (config.defaults, *config.streams.values()) for key in one.segments]
    for kind, file in sorted(files.items()):
        by_name = _by_name(kind, file, MappingOrigin(section(KINDS[kind])), segments)
        mappings[kind] = [_with_names(one, by_name) for one in config.files.get(KINDS[kind], ())] or [by_name]
        if shared and kind == LABELS:
            mappings[kind] = [_completed(one, mappings[PREDICTIONS][0]) for one in mappings[kind]]
        mappings[kind] = [_with_defaults(one, file, defaults or {}) for one in mappings[kind]]
    check_columns([(files[kind], of_kind) for kind, of_kind in mappings.items()])
    return {
        kind: TableSource(
            kind, files[kind], of_kind, lambda stream: config.stream(stream).task,
            unlabelled=shared, progress=progress(kind),
        )
        for kind, of_kind in mappings.items()
    }  # fmt: skip


def in_order(sources: Mapping[int, Located], *, by_row: bool = False) -> list[Located]:
    """Return sources in order of kind, with comparable times; raises UsageError if only some have times.

    With `by_row`, rows with the same number in several files belong together.
    """
    sources = dict(sorted(sources.items()))
    _check_times(sources)
    for source in sources.values():
        if not source.has_times:
            source.time_columns = _time_columns(source)
    by, before = 0, None
    for source in sources.values():
        if isinstance(source, TableSource) and not source.has_times:
            # Rows of two files need not correspond, so one file comes after the other: all labels after all
            # predictions. In a shared file the rows do correspond.
            if before is not None and source.outer_file is not before.outer_file and not by_row:
                by += len(before)
            source.delay(by)
            before = source
    return list(sources.values())


def _lines(kind: int, stored: Stored) -> Source:
    try:
        with stored.open() as stream:
            return Source(kind, read_lines(stream), stored.name)
    except (OSError, EOFError, zlib.error) as error:
        raise WorkError(f"can't read {stored.name!r}: {error}") from error


def _by_name(kind: int, file: RowFile, origin: MappingOrigin, segments: Iterable[str]) -> RecordMapping:
    """Return the mapping of a file whose columns have the names of input fields or of `segments`."""
    columns = columns_of(file)
    try:
        return same_names(kind, columns, origin, segments)
    except MappingError as error:
        raise ConfigError(f"{file.name}: {error}") from error


def columns_of(file: RowFile) -> Sequence[str]:
    """Return the names of a file's columns, or the fields of its first rows."""
    if file.columns is not None:
        return file.columns
    return next((rows.names() for rows in file.batches()), [])


def _with_names(mapping: RecordMapping, by_name: RecordMapping) -> RecordMapping:
    """Return the mapping with missing fields taken from columns of the same names."""
    if mapping.format in FORMATS_WITH_PARTS:
        return mapping
    objects = {**by_name.objects, **mapping.objects}
    return replace(mapping, fields={**by_name.fields, **mapping.fields}, objects=objects)


def _with_defaults(mapping: RecordMapping, file: RowFile, defaults: Mapping[str, Field]) -> RecordMapping:
    lacking = mapping.implied.intersection(defaults)
    if lacking:
        lacking = lacking.difference(columns_of(file))
    fields = {name: defaults[name] if name in lacking else one for name, one in mapping.fields.items()}
    return replace(mapping, fields=fields)


def _completed(labels: RecordMapping, predictions: RecordMapping) -> RecordMapping:
    """Return the mapping of labels with missing fields taken from the predictions in the same rows."""
    own = [name for name in labels.fields if name not in labels.implied or name == "y_true"]
    of_labels = {name: labels.fields[name] for name in own}
    fields = predictions.fields
    if "ts" in fields and "ts" in of_labels and of_labels["ts"] == Field(Path("value", ("ts",), "ts")):
        del of_labels["ts"]  # without a mapping, the column is the prediction's time
    shared = {name: fields[name] for name in ("stream", "instance_id", "ts") if name in fields}
    return replace(
        labels, fields={**shared, **of_labels}, implied=labels.implied - {"stream", "instance_id"},
        rows=labels.rows or predictions.rows,
    )  # fmt: skip


def _time_columns(source: Located) -> list[TimeColumn]:
    """Return the columns of a file without times that may contain times, or such fields of its first line."""
    if isinstance(source, TableSource):
        names, section = columns_of(source.file), source.section
    elif isinstance(source, Source):
        names, section = _fields_of(source.lines[0]), f"files.{KINDS[source.kind]}"
    else:
        return []
    return [TimeColumn(source.kind, name, section) for name in time_names(names)]


def _fields_of(line: bytes) -> list[str]:
    with suppress(msgspec.DecodeError):
        return list(msgspec.json.decode(line, type=dict[str, msgspec.Raw]))
    return []


def _check_times(sources: Mapping[int, Located]) -> None:
    """Raise UsageError if some sources have times and others have none, because they have no common order."""
    without = [one for one in sources.values() if isinstance(one, TableSource) and not one.has_times]
    timed = [
        one for one in sources.values() if len(one) and (not isinstance(one, TableSource) or one.has_times)
    ]
    if without and timed:
        lacks, has = KINDS[without[0].kind], KINDS[timed[0].kind]
        known = _time_columns(without[0])
        perhaps = f" (perhaps {known[0].name!r})" if known else ""
        raise UsageError(
            f"the {lacks} in {without[0].file.name!r} have no ts, the {has} have: expected its "
            f"path in {without[0].section}.ts{perhaps}, or no ts anywhere (then the order of rows is that of "
            "time)"
        )

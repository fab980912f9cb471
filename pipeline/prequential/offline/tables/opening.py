"""Open the files of a replay: find each one's format, its reader and its mappings."""

from __future__ import annotations

import gzip
import importlib
import pathlib
import re
import sys
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from typing import IO, Any

import msgspec
from prequential.configuration.settings.model import Config, ConfigError
from prequential.engine.input.plain import Parser
from prequential.engine.input.translated_columns import NameNumbers
from prequential.engine.measures.registry import all_fields_read
from prequential.mapping.evaluations import FORMATS_WITH_PARTS
from prequential.mapping.model import (
    FORMATS,
    REQUIRED,
    Field,
    MappingError,
    MappingOrigin,
    Path,
    RecordMapping,
)
from prequential.mapping.parsing import same_names
from prequential.mapping.units import TimeColumn, time_names
from prequential.offline.replay.array_files import is_array, record_lines, single_records
from prequential.offline.replay.sources import Located, Source, cut_lines
from prequential.offline.tables.inner import check_columns
from prequential.offline.tables.numbering import ID, columns_of, lacks_ids, number_rows
from prequential.offline.tables.rows import Progress, RowFile
from prequential.offline.tables.source import TableSource
from prequential.offline.tables.textfiles import UTF8, CsvFile, JsonFile
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS
from prequential.topics.errors import Fault, UsageError, WorkError, as_text
from prequential.topics.foreign_json import Unreadable, reader
from prequential.views.diagnosis.stream_facts import ShareColumns

#: The names of the stream and of the model of tables that have none.
DEFAULT_STREAM, DEFAULT_MODEL = "default", "model"

#: The first bytes of files by format.
_GZIP, _PARQUET, _ARROW, _ARROW_STREAM = b"\x1f\x8b", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"

_DECOMPRESS = "expected it decompressed, or compressed with gzip"
_PASS_ON = "expected CSV, JSON lines, Parquet or Arrow: read it in Python, and pass the table to `evaluate`"
_EXPORT = "expected CSV, JSON lines, Parquet or Arrow: export it as CSV UTF-8"

#: The first bytes of formats that are not read, what such a file is, and what to do. No text begins so.
_OTHER_FORMATS: dict[bytes, tuple[str, str]] = {
    **{b"BZh%d1AY&SY" % level: ("compressed with bzip2", _DECOMPRESS) for level in range(1, 10)},
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", _DECOMPRESS),
    b"\xfd7zXZ\x00": ("compressed with xz", _DECOMPRESS),
    b"\x04\x22\x4d\x18": ("compressed with lz4", _DECOMPRESS),
    b"\x1f\x9d": ("compressed with compress", _DECOMPRESS),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", _DECOMPRESS),
    b"PK\x03\x04": ("a ZIP archive or an Excel workbook", _EXPORT),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("an Excel workbook", _EXPORT),
    **{b"\x80%c" % protocol: ("a pickle of Python", _PASS_ON) for protocol in range(2, 6)},
    b"\x93NUMPY": ("an array of NumPy", _PASS_ON),
    b"\x89HDF\r\n": ("HDF5", _PASS_ON),
    b"SQLite format 3\0": ("a database of SQLite", _PASS_ON),
    b"Obj\x01": ("a file of Avro", _PASS_ON),
}

#: The number of bytes that distinguish these formats from text.
_MARK = 6

#: Formats of text by the ends of file names. The first bytes identify the other formats.
_ENDINGS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}

#: The number of first bytes that are checked: a byte order mark, white space, a brace.
_HEAD = 64


class Stored:
    """The bytes of a file; standard input (`-`) and pipes are read to their ends at once.

    Raises UsageError if the file cannot be opened or has a format that is not read. Raises WorkError if it
    cannot be decompressed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "standard input" if path == "-" else as_text(path)
        self._bytes = _read_whole(sys.stdin.buffer) if path == "-" else _read_once(path)
        with self._raw() as raw:
            head = raw.read(_HEAD)
        self.compressed = head.startswith(_GZIP) or path.endswith(".gz")
        if self.compressed:
            try:
                with self.open() as stream:
                    head = stream.read(_HEAD)
            except (OSError, EOFError, zlib.error) as error:
                raise WorkError(f"can't read {self.name!r}: {error}") from error
        self.head = head
        _refuse_other_formats(self.name, head)

    def open(self) -> IO[bytes]:
        """Open the file at its beginning, decompressed; the caller must close it."""
        raw = self._raw()
        stream: Any = _Gzip(raw) if self.compressed else raw
        return stream  # type: ignore[no-any-return]

    def position(self, stream: IO[bytes]) -> float | None:
        """Return the share of the file, from 0 to 1, that `stream` has read; None for an empty file.

        `stream` must be a result of `open`.
        """
        size = len(self._bytes) if self._bytes is not None else pathlib.Path(self.path).stat().st_size
        raw = stream.raw_file if isinstance(stream, _Gzip) else stream
        return raw.tell() / size if size else None

    @property
    def source(self) -> Any:
        """What pyarrow can open: the path, or the bytes if they could be read only once."""
        return self.path if self._bytes is None else self._bytes

    def _raw(self) -> IO[bytes]:
        if self._bytes is not None:
            return BytesIO(self._bytes)
        try:
            return pathlib.Path(self.path).open("rb")
        except OSError as error:
            raise UsageError(f"can't read {self.path!r}: {error.strerror}") from error


def _refuse_other_formats(name: str, head: bytes) -> None:
    """Raise UsageError, with the fix, if the first bytes of a file are those of a format that is not read."""
    for mark, (form, fix) in _OTHER_FORMATS.items():
        if head.startswith(mark):
            raise UsageError(f"{name} is {form}: {fix}")
    if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in head[:2]:
        raise UsageError(f"{name} is UTF-16: {UTF8}")


def _read_once(path: str) -> bytes | None:
    """Return the bytes of a source that can be opened only once, such as a pipe; None for a file."""
    file_path = pathlib.Path(path)
    try:
        if not (file_path.is_fifo() or file_path.is_char_device()):
            return None
        with file_path.open("rb") as stream:
            return _read_whole(stream)
    except OSError as error:
        raise UsageError(f"can't read {path!r}: {error.strerror}") from error


def _read_whole(stream: IO[bytes]) -> bytes:
    """Return all bytes; lines of text are cut at the largest size of a record, to bound the memory."""
    head = stream.read(_MARK)
    if head.startswith((_GZIP, _PARQUET, _ARROW, _ARROW_STREAM)) or is_array(head):
        return head + stream.read()
    return head + b"".join(cut_lines(stream))


class _Gzip(gzip.GzipFile):
    """A compressed file that also closes its underlying file."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self.raw_file = raw

    def close(self) -> None:
        """Close both files."""
        super().close()
        self.raw_file.close()


def format_of(stored: Stored) -> str:
    """Return the format: JSON lines unless the first bytes or the name indicate another one."""
    head = stored.head
    if head.startswith(_PARQUET):
        return "parquet"
    if head.startswith((_ARROW, _ARROW_STREAM)):
        return "arrow"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return "jsonl"
    endings = [ending.lower() for ending in pathlib.Path(stored.path).suffixes if ending.lower() != ".gz"]
    return _ENDINGS.get(endings[-1] if endings else "", "jsonl")


def open_rows(stored: Stored, form: str | None) -> RowFile:
    """Return the reader of a file's rows; `form` is its format (None: the result of `format_of`).

    Raises UsageError if the file has another format than `form`, or if it needs pyarrow and pyarrow is not
    installed. Raises WorkError if the file is not readable in its format.
    """
    actual = format_of(stored)
    form = form or actual
    if form in FORMATS_WITH_PARTS:
        return JsonFile(stored.name, stored.open, stored.position)
    if form == "jsonl" and actual in ("csv", "jsonl"):
        return JsonFile(stored.name, stored.open, stored.position, is_array=is_array(stored.head))
    if form not in FORMATS:
        raise Fault(f"{form!r} is no format of tables: expected one of {', '.join(FORMATS)}")
    if form == "csv" and actual in ("csv", "jsonl"):
        return CsvFile(stored.name, stored.open, stored.position)
    if form != actual:
        raise UsageError(f"{stored.name!r} is {actual}: expected {form}, as configured")
    arrow = needs_pyarrow(f"{stored.name!r} is {form}")
    if stored.compressed:
        raise UsageError(f"{stored.name!r} is {form} in gzip: expected {form}, which has its own compression")
    try:
        if form == "parquet":
            return arrow.of_parquet(stored.name, stored.source)  # type: ignore[no-any-return]
        return arrow.of_arrow(  # type: ignore[no-any-return]
            stored.name, stored.source, stream=stored.head.startswith(_ARROW_STREAM)
        )
    except (ValueError, OSError) as error:  # pyarrow's own errors are one of these
        raise WorkError(f"can't read {stored.name!r}: {' '.join(str(error).split())}") from error


def needs_pyarrow(why: str) -> Any:
    """Return the module `offline.tables.arrowfile`.

    Raises UsageError, whose message begins with `why`, if pyarrow is not installed.
    """
    try:
        return importlib.import_module("prequential.offline.tables.arrowfile")
    except ImportError as error:
        raise UsageError(f"{why}, which needs pyarrow: pip install 'prequential[files]'") from error


def open_sources(
    config: Config, paths: Mapping[int, str], progress: Callable[[int], Progress],
    defaults: Mapping[str, Field] | None = None,
) -> list[Located]:  # fmt: skip
    """Open the sources of files by kind; `progress` returns the callback for the progress of one kind.

    JSON lines without a configured mapping contain records as `produce` sends them. All other files contain
    rows. `defaults` are used for required fields without a mapping and without a column, and of JSON lines
    without them in the first line.
    If predictions and labels are in one file, the mapping of labels inherits missing fields from the
    mapping of predictions. Raises UsageError for a wrong configuration or a file that cannot be opened;
    ConfigError if a file's section names several formats; WorkError for an unreadable file.
    """
    stored = {path: Stored(path) for path in dict.fromkeys(paths.values())}
    shared = paths.get(PREDICTIONS) is not None and paths.get(PREDICTIONS) == paths.get(LABELS)
    opened: dict[str, RowFile] = {}
    sources: dict[int, Located] = {}
    parser = Parser(all_fields_read(config), config.segment_keys)
    for kind, path in sorted(paths.items()):
        sections = config.files.get(KINDS[kind], ())
        is_lines = not sections and format_of(stored[path]) == "jsonl"
        if is_lines and (kind == INSTANCES or not shared) and _has(stored[path], kind, defaults or {}):
            report = progress(kind)
            sources[kind] = _lines(kind, stored[path], parser)
            report(len(sources[kind]), 1.0)
            continue
        formats = {section.format for section in sections if section.format is not None}
        if len(formats) > 1:
            raise ConfigError(f"{sections[0].origin.place()}: several formats: expected the same in each")
        if path not in opened:
            opened[path] = open_rows(stored[path], formats.pop() if formats else None)
    files = {kind: opened[path] for kind, path in paths.items() if kind not in sources}
    by_row = not sources and lack_ids(config, files)
    if by_row:
        places = " and ".join(f"files.{KINDS[kind]}" for kind in files)
        files = number_rows(files, lambda column: f"{ID}: {column} in the sections {places}")
    return in_order({**sources, **table_sources(config, files, progress, defaults)}, by_row=by_row)


def lack_ids(config: Config, files: Mapping[int, RowFile]) -> bool:
    """Return whether the rows of all these tables by kind belong together by position."""
    return all(lacks_ids(file, config.files.get(KINDS[kind], ())) for kind, file in files.items())


def _has(stored: Stored, kind: int, defaults: Mapping[str, Field]) -> bool:
    """Return whether the first line with text has an id and the fields with defaults, or is no object."""
    needed = {name for name in (*defaults, ID) if name in REQUIRED[kind]}
    try:
        with stored.open() as stream:
            line = next(filter(bytes.strip, record_lines(stream)), b"")
        line = next(iter(single_records([line])))
        return needed <= msgspec.json.decode(line, type=dict[str, msgspec.Raw]).keys()
    except (msgspec.DecodeError, OSError, EOFError, zlib.error):
        return True


def table_sources(
    config: Config, files: Mapping[int, RowFile],
    progress: Callable[[int], Progress] = lambda kind: lambda rows, share: None,
    defaults: Mapping[str, Field] | None = None, section: Callable[[str], str] = "files.{}".format,
) -> dict[int, Located]:  # fmt: skip
    """Return the sources of rows; predictions and labels with the same file object share its rows.

    `defaults` are used for required fields without a mapping and without a column. `section` returns the name
    of the configuration's section of a kind.
    """
    shared = files.get(PREDICTIONS) is not None and files.get(PREDICTIONS) is files.get(LABELS)
    mappings: dict[int, Sequence[RecordMapping]] = {}
    segments = [
        key for stream_config in (config.defaults, *config.streams.values()) for key in stream_config.segments
    ]
    for kind, file in sorted(files.items()):
        by_name = _by_name(kind, file, MappingOrigin(section(KINDS[kind])), segments)
        mappings[kind] = [_with_names(mapping, by_name) for mapping in config.files.get(KINDS[kind], ())] or [
            by_name
        ]
        if shared and kind == LABELS:
            mappings[kind] = [_completed(mapping, mappings[PREDICTIONS][0]) for mapping in mappings[kind]]
        mappings[kind] = [_with_defaults(mapping, file, defaults or {}) for mapping in mappings[kind]]
    check_columns([(files[kind], of_kind) for kind, of_kind in mappings.items()])
    numbers = NameNumbers()
    return {
        kind: TableSource(
            kind, files[kind], of_kind, lambda stream: config.stream(stream).task,
            classes_of=lambda stream: config.stream(stream).classes, unlabelled=shared,
            progress=progress(kind), numbers=numbers,
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
        if source.kind == PREDICTIONS:
            source.share_columns = _share_columns(source)
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


def _lines(kind: int, stored: Stored, parser: Parser) -> Source:
    try:
        with stored.open() as stream:
            return Source(kind, list(record_lines(stream)), stored.name, parser.parse)
    except (OSError, EOFError, zlib.error) as error:
        raise WorkError(f"can't read {stored.name!r}: {error}") from error


def _by_name(kind: int, file: RowFile, origin: MappingOrigin, segments: Iterable[str]) -> RecordMapping:
    """Return the mapping of a file whose columns have the names of input fields or of `segments`."""
    columns = columns_of(file)
    try:
        return same_names(kind, columns, origin, segments)
    except MappingError as error:
        raise ConfigError(f"{file.name}: {error}") from error


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
    fields = {
        name: defaults[name] if name in lacking else own_field for name, own_field in mapping.fields.items()
    }
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


_fields_of = reader(dict[str, msgspec.Raw])


def _time_columns(source: Located) -> list[TimeColumn]:
    """Return the columns of a file without times that may contain times, or such fields of its first line.

    There are none if `ts` is present: then the records are invalid for a reason of their own.
    """
    names, section = _names_and_section(source)
    if isinstance(source, TableSource) and source.why_no_times() is not None:
        return []
    if "ts" in names:
        return []
    columns = time_names(names)
    if not columns and isinstance(source, TableSource):
        columns = [name for name in names if _is_of_times(source.file, name)]
        columns = columns if len(columns) == 1 else []  # of several, any may be the time
    return [TimeColumn(source.kind, name, section) for name in columns]


def _is_of_times(file: RowFile, name: str) -> bool:
    """Return whether the type of a column is a time; dates alone are often those of birth."""
    return (file.type_of_time(Path("value", (name,), name)) or "").startswith("timestamp")


#: Names of columns that speak of probabilities.
_SHARE_NAME = re.compile(r".*(prob|score|confidence|likelihood).*|p[_ .(-].*", re.IGNORECASE)


def _share_columns(source: Located) -> ShareColumns | None:
    """Return the columns of predictions without `y_proba` whose names speak of probabilities."""
    names, section = _names_and_section(source)
    if source.has("y_proba") if isinstance(source, TableSource) else "y_proba" in names:
        return None
    names = tuple(filter(_SHARE_NAME.fullmatch, names))
    return ShareColumns(names, section) if len(names) > 1 else None


def _names_and_section(source: Located) -> tuple[Sequence[str], str]:
    """Return the columns of a file, or the fields of its first line, and its section of the configuration."""
    if isinstance(source, TableSource):
        return columns_of(source.file), source.section
    names: Sequence[str] = ()
    if isinstance(source, Source) and source.lines:
        with suppress(Unreadable):
            names = list(_fields_of(source.lines[0]))
    return names, f"files.{KINDS[source.kind]}"


def _check_times(sources: Mapping[int, Located]) -> None:
    """Raise UsageError if some sources have times and others have none, because they have no common order."""
    without = [
        source for source in sources.values() if isinstance(source, TableSource) and not source.has_times
    ]
    timed = [
        source
        for source in sources.values()
        if len(source) and (not isinstance(source, TableSource) or source.has_times)
    ]
    if without and timed:
        lacks, has = KINDS[without[0].kind], KINDS[timed[0].kind]
        if (why := without[0].why_no_times()) is not None:
            raise UsageError(
                f"no time of the {lacks} in {without[0].file.name!r} can be read, but the {has} have times: "
                f"{why}"
            )
        time_columns = _time_columns(without[0])
        perhaps = f" (perhaps {time_columns[0].name!r})" if time_columns else ""
        raise UsageError(
            f"the {lacks} in {without[0].file.name!r} have no ts, the {has} have: expected its "
            f"path in {without[0].section}.ts{perhaps}, or no ts anywhere (then the order of rows is that of "
            "time)"
        )

"""The tables of an evaluation as you gave them, from which records can be read repeatedly."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, replace
from typing import Any

from prequential.configuration.settings.model import Config, ConfigError
from prequential.evaluation.indexes import check_indexes
from prequential.evaluation.tables import rows_of
from prequential.mapping.evaluations import FILE_FORMATS
from prequential.mapping.model import (
    OPTIONAL,
    REQUIRED,
    Field,
    MappingError,
    MappingOrigin,
    RecordMapping,
)
from prequential.mapping.parsing import parse
from prequential.offline.replay.sources import Located
from prequential.offline.tables.opening import columns_of, in_order, table_sources
from prequential.offline.tables.rows import RowFile
from prequential.runtime.program.progress import reading
from prequential.topics.decoding import KINDS
from prequential.topics.errors import UsageError
from rich.progress import Progress


@dataclass(frozen=True)
class Inputs:
    """Tables by kind, as passed to `evaluate`, with the arguments that describe how to read them."""

    tables: Mapping[int, Any]
    columns: Mapping[str, Any]
    #: Names of the stream and the model for tables without such columns.
    stream: str
    model: str

    def open(self) -> dict[int, RowFile]:
        """Return the tables as rows, the same object for the same table. Raises as `rows_of` does."""
        files: dict[int, RowFile] = {}
        for kind, table in self.tables.items():
            same = next((other for other in files if _is_same(self.tables[other], table)), None)
            files[kind] = files[same] if same is not None else rows_of(KINDS[kind], table)
        return files

    def configured(self, config: Config, files: Mapping[int, RowFile]) -> Config:
        """Return the configuration with the mappings of `columns` for these files. Raises ConfigError."""
        return replace(config, files={**config.files, **_mappings(self.columns, files)})

    def sources(self, config: Config, files: Mapping[int, RowFile], bar: Progress) -> list[Located]:
        """Return the records of the opened tables; the configuration must have the mappings of their columns.

        Raises UsageError if rows don't correspond, and as `table_sources` and `in_order` do.
        """
        defaults = {"stream": Field(const=self.stream), "model": Field(const=self.model)}
        by_row = all(_lacks_ids(file, config.files.get(KINDS[kind], ())) for kind, file in files.items())
        if by_row:
            check_indexes({KINDS[kind]: table for kind, table in self.tables.items()})
            files = _numbered(files)
        read = table_sources(
            config, files, lambda kind: reading(bar, KINDS[kind]), defaults, "columns[{!r}]".format
        )
        return in_order(read, by_row=by_row)

    def check_again(self) -> None:
        """Raise UsageError if the tables can't be read again, because one was an iterator."""
        for kind, table in self.tables.items():
            if isinstance(table, Iterator):
                raise UsageError(
                    f"{KINDS[kind]} was {table!r:.40}, which is read once: expected a table, a list or a "
                    "path, to look back at"
                )


def _is_same(one: Any, other: Any) -> bool:
    """Return whether the two are the same table, or paths of the same file."""
    if isinstance(one, (str, os.PathLike)) and isinstance(other, (str, os.PathLike)):
        return os.fspath(one) == os.fspath(other)
    return one is other


def _mappings(
    columns: Mapping[str, Any], files: Mapping[int, RowFile]
) -> dict[str, tuple[RecordMapping, ...]]:
    """Return the mappings of `columns` by table; one without a table applies to each table that has it."""
    if not isinstance(columns, Mapping):
        raise ConfigError(f"columns is {columns!r:.40}: expected a dict such as {{'y_true': 'churned'}}")
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
        origin = MappingOrigin(f"columns[{KINDS[kind]!r}]" if by_table else "columns")
        try:
            mappings[KINDS[kind]] = tuple(
                parse(section, kind, bare=True, formats=FILE_FORMATS, origin=origin) for section in sections
            )
        except MappingError as error:
            raise ConfigError(f"{origin.section}: {error}") from error
    return mappings


def _columns_of_kind(columns: Mapping[str, Any], kind: int, files: Mapping[int, RowFile]) -> dict[str, Any]:
    """Select the mappings for one table: those whose columns are in this table, or in no table."""
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
    """Return the tables with row numbers as IDs; raises UsageError if the numbers of rows differ."""
    if not all(isinstance(file, Sized) and hasattr(file, "numbered") for file in files.values()):
        return dict(files)
    sizes = {KINDS[kind]: len(file) for kind, file in files.items()}  # type: ignore[arg-type]
    if len(set(sizes.values())) > 1:
        counted = ", ".join(f"{size:,} rows of {name}" for name, size in sizes.items())
        raise UsageError(
            f"there are {counted}: expected the same number of each, since without an instance_id rows "
            "belong together one by one"
        )
    numbered = {id(file): file.numbered("instance_id") for file in files.values()}  # type: ignore[attr-defined]
    return {kind: numbered[id(file)] for kind, file in files.items()}


def _lacks_ids(file: RowFile, mappings: tuple[RecordMapping, ...]) -> bool:
    """Return whether neither a mapping nor a column gives the instance of a row."""
    if any("instance_id" not in one.implied for one in mappings):
        return False
    return "instance_id" not in columns_of(file)

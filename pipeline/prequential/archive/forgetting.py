"""Remove one instance's ID from an archive: from alarms, examples of incidents, and dead letters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from prequential.archive.columns import UNREADABLE
from prequential.archive.storage import ArchiveStorage
from prequential.archive.writing import ArchiveWriter, parquet_of
from prequential.topics.specs import DEAD_LETTERS, DRIFT_ALARMS, INCIDENTS


def forget(storage: ArchiveStorage, prefix: str, identifier: str) -> dict[str, int]:
    """Remove an ID from all files that contain it; return the number of changed rows by folder.

    Alarms keep their row with an empty `instance_id`, incidents lose the example. Dead letters, and records
    that were no messages, are removed if they contain the ID. Each file is replaced completely. Raises
    WorkError if another process writes to the archive.
    """
    changed: dict[str, int] = {}
    with ArchiveWriter(storage, prefix):
        for folder, without in _CHANGES.items():
            count = sum(_replace(storage, path, without, identifier) for path in _tables_of(storage, folder))
            if count:
                changed[folder] = count
    return changed


def _tables_of(storage: ArchiveStorage, folder: str) -> Iterator[str]:
    """The paths of a folder's tables, of all days."""
    for day in storage.folders(folder):
        for file in storage.files(f"{folder}/{day}"):
            if file.name.endswith(".parquet"):
                yield f"{folder}/{day}/{file.name}"


def _replace(
    storage: ArchiveStorage, path: str, without: Callable[[pa.Table, str], tuple[pa.Table, int]],
    identifier: str,
) -> int:  # fmt: skip
    """Replace a file by one without the ID, if it has it; return the number of changed rows."""
    table, count = without(pq.read_table(pa.BufferReader(storage.read(path) or b"")), identifier)
    if count:
        storage.write(path, parquet_of(table))
    return count


def _without_instance(table: pa.Table, identifier: str) -> tuple[pa.Table, int]:
    """Alarms, with an empty ID in place of this one."""
    column = table.column("instance_id")
    mask = pc.fill_null(pc.equal(column, identifier), False)
    cleared = pc.if_else(mask, "", column)
    index = table.column_names.index("instance_id")
    return table.set_column(index, table.field("instance_id"), cleared), pc.sum(mask).as_py() or 0


def _without_example(table: pa.Table, identifier: str) -> tuple[pa.Table, int]:
    """Incidents, without this ID among their examples."""
    examples = table.column("examples").to_pylist()
    count = sum(identifier in (ids or ()) for ids in examples)
    kept = [None if ids is None else [name for name in ids if name != identifier] for ids in examples]
    field = table.field("examples")
    return table.set_column(table.column_names.index("examples"), field, pa.array(kept, field.type)), count


def _without_records(table: pa.Table, identifier: str) -> tuple[pa.Table, int]:
    """Records as they were sent, without those that contain the ID as a word."""
    word = re.compile(rb"(?<!\w)" + re.escape(identifier.encode()) + rb"(?!\w)")
    keep = [
        not any(
            content is not None and word.search(content) for content in (key, value, (error or "").encode())
        )
        for key, value, error in zip(*(table.column(name).to_pylist() for name in ("key", "value", "error")))
    ]
    return table.filter(pa.array(keep, pa.bool_())), keep.count(False)


_CHANGES: Mapping[str, Callable[[pa.Table, str], tuple[pa.Table, int]]] = {
    DRIFT_ALARMS: _without_instance, INCIDENTS: _without_example, DEAD_LETTERS: _without_records,
    UNREADABLE: _without_records,
}  # fmt: skip

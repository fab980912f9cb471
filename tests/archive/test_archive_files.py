"""The files of an archive: exactly once through crashes, types that stay, days, and what readers see."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from archiving import DAY, START, alarm, comparison, ids, incident, metrics, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential.archive import writing
from prequential.archive.columns import ConsumedRecord, arrow_schema, message_of, row_of
from prequential.archive.reading import open_archive
from prequential.archive.storage import LocalStorage, storage_of
from prequential.archive.writing import ArchiveWriter
from prequential.cli.main import main
from prequential.evaluation import read_archive
from prequential.topics import specs
from prequential.topics.disparities import Disparity
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.outputs import Alarm, Comparison, Incident, Metrics

from tests.nightly import scaled

TOPICS = (specs.METRICS, specs.COMPARISONS, specs.DRIFT_ALARMS, specs.INCIDENTS)


def record(
    value: bytes | None, offset: int = 0, topic: str = "metrics", time: int = START, **more: Any
) -> ConsumedRecord:
    return ConsumedRecord(topic, 0, offset, time, b"elec2", value, **more)


def store(folder: Path, *records: ConsumedRecord) -> None:
    with ArchiveWriter(storage_of(str(folder)), "") as archive:
        for one in records:
            archive.add(row_of(one))
            offsets = archive.progress(one.topic).offsets
            offsets[one.partition] = max(offsets.get(one.partition, 0), one.offset + 1)
        archive.flush()


# ---- exactly once


class Crash(BaseException):
    """The process ends here."""


class CrashingStorage(LocalStorage):
    """Ends the process before or after so many writes; the lock goes with the process."""

    def __init__(self, path: str, writes: int, before: bool) -> None:
        super().__init__(path, must_exist=False)
        self._left, self._before = writes, before

    def write(self, path: str, content: bytes) -> None:
        self._left -= 1
        if self._left < 0 and self._before:
            raise Crash
        super().write(path, content)
        if self._left < 0:
            raise Crash

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield


@settings(max_examples=scaled(20, 100))
@given(st.data())
def test_each_id_is_there_once_whatever_crashes(data: st.DataObject) -> None:
    """Against a plain loop: the first record of each id, in the folder of its day."""
    numbers = data.draw(st.lists(st.integers(0, 12), max_size=40))
    log = [record(metrics(number, day=number % 3), offset) for offset, number in enumerate(numbers)]
    expected: dict[str, str] = {}
    for one in log:
        expected.setdefault(json.loads(one.value or b"")["id"], row_of(one).day)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "FULL_BYTES", data.draw(st.sampled_from([1, 14_000, 1 << 20])))
        patch.setattr(writing, "_REMEMBERED", data.draw(st.sampled_from([0, 1_000])))
        for _ in range(200):
            writes = data.draw(st.integers(0, 6))
            storage = CrashingStorage(name, writes, data.draw(st.booleans()))
            seen = readable(Path(name))
            try:
                with ArchiveWriter(storage, "") as archive:
                    offset = archive.progress("metrics").offsets.get(0, 0)
                    while offset < len(log):
                        end = offset + data.draw(st.integers(1, 15))
                        for one in log[offset:end]:
                            archive.add(row_of(one))
                        offset = archive.progress("metrics").offsets[0] = min(end, len(log))
                        archive.flush()
                    break
            except Crash:
                assert seen <= readable(Path(name)), "what readers have seen stays"
        else:
            pytest.fail("it never gets to the end")
        found = {cells["id"]: day for day, cells in rows(Path(name), "metrics")}
        assert found == expected
        assert len(ids(Path(name), "metrics")) == len(expected)


def readable(folder: Path) -> set[str]:
    """The ids of all files as SQL engines find them, each once."""
    names = ids(folder, "metrics")
    assert len(names) == len(set(names))
    return set(names)


def test_files_grow_and_a_full_one_is_never_touched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "FULL_BYTES", 20_000)
    contents: dict[str, bytes] = {}
    for turn in range(40):
        store(tmp_path, *(record(metrics(number), number) for number in range(turn * 50, turn * 50 + 50)))
        files = {path.name: path.read_bytes() for path in tmp_path.glob("metrics/*/*")}
        full = {name: content for name, content in contents.items() if len(content) >= 20_000}
        assert full.items() <= files.items()
        contents = files
    assert 1 < len(contents) < 20
    assert len(ids(tmp_path, "metrics")) == 2_000


# ---- columns


@pytest.mark.parametrize(
    ("topic", "kind", "value"),
    [
        ("metrics", Metrics, metrics(7, coverage={"a": [1, 2.5, None]}, confusion={"a": {"b": 2.0}})),
        ("comparisons", Comparison, comparison(7)),
        ("drift-alarms", Alarm, alarm(7)),
        ("incidents", Incident, incident(7, 3)),
    ],
)  # fmt: skip
def test_a_message_comes_back_as_it_was(topic: str, kind: Any, value: bytes, tmp_path: Path) -> None:
    settings = (("settings", b'{"window": 3}'),) if topic == "metrics" else ()
    store(tmp_path, record(value, 3, topic, headers=settings))
    [message] = open_archive(str(tmp_path)).messages([topic])
    assert json.loads(message.value) == json.loads(value)
    assert msgspec.json.decode(message.value, type=kind) == msgspec.json.decode(value, type=kind)
    assert (message.topic, message.time) == (topic, START)
    assert message.settings == (settings[0][1] if settings else None)


def test_open_names_are_maps_and_what_has_no_form_is_json() -> None:
    schema = arrow_schema("metrics")
    text, number = pa.string(), pa.float64()
    assert schema.field("measures").type == pa.map_(text, number)
    assert schema.field("counts").type == pa.map_(text, pa.int64())
    assert schema.field("confusion").type == pa.map_(text, pa.map_(text, number))
    assert schema.field("intervals").type == pa.map_(text, pa.list_(number))
    assert schema.field("ts").type == pa.timestamp("ms", "UTC")
    assert {schema.field(name).type for name in ("coverage", "expected", "period")} == {text}
    for kind, topic in ((Comparison, "comparisons"), (Disparity, "disparities"), (Alarm, "drift-alarms")):
        assert set(kind.__struct_fields__) <= set(arrow_schema(topic).names)


def test_fields_and_types_of_other_versions_are_kept(tmp_path: Path) -> None:
    """A later version adds fields, or changes one; an earlier one had fewer."""
    later = {**json.loads(metrics(1)), "novel": {"x": [1, None]}, "measures": {"accuracy": 0.5, "new": 1}}
    other = {**json.loads(metrics(2)), "counts": {"late": 2.5}, "outcomes": 10**30}
    earlier = json.loads(metrics(3))
    del earlier["partition"]
    encoded = [json.dumps(message).encode() for message in (later, other, earlier)]
    store(tmp_path, *(record(value, offset) for offset, value in enumerate(encoded)))
    messages = [json.loads(message.value) for message in open_archive(str(tmp_path)).messages(["metrics"])]
    assert messages == [later, other, earlier]
    [path] = tmp_path.glob("metrics/*/*.parquet")
    assert pq.ParquetFile(path).schema_arrow == arrow_schema("metrics")


def test_a_file_of_another_version_gets_the_columns_of_both(tmp_path: Path) -> None:
    store(tmp_path, record(metrics(1), 0))
    [path] = tmp_path.glob("metrics/*/*.parquet")
    table = pq.ParquetFile(path).read()
    later = table.drop_columns(["residuals"]).append_column("novel", pa.array([7]))
    pq.write_table(later, path)
    store(tmp_path, record(metrics(2), 1))
    cells = [cells for _, cells in rows(tmp_path, "metrics")]
    assert [row["novel"] for row in cells] == [7, None]
    pq.write_table(later.drop_columns(["stage"]).append_column("stage", pa.array([1])), path)
    store(tmp_path, record(metrics(3), 2))
    assert len(list(tmp_path.glob("metrics/*/*.parquet"))) == 2, "another type gets another file"


@pytest.mark.parametrize(
    "value", [None, b"", b"[1]", b"\xff", b'{"id": 1}', b'{"ts": 5}', b'{"id": "a", "ts": 9e99}']
)
def test_a_record_that_is_no_message_is_kept_as_it_is(value: bytes | None, tmp_path: Path) -> None:
    store(tmp_path, record(value, 4), record(value, 5))
    kept = [cells for _, cells in rows(tmp_path, "unreadable")]
    assert [(cells["topic"], cells["offset"], cells["value"]) for cells in kept] == [
        ("metrics", 4, value), ("metrics", 5, value),
    ]  # fmt: skip
    assert not list(rows(tmp_path, "metrics"))


def test_a_day_is_that_of_the_message_also_at_the_ends_of_time(tmp_path: Path) -> None:
    times = {-1: "1969-12-31", START: "2023-11-14", 8_640_000_000_000_000: "9999-12-31",
             -8_640_000_000_000_000: "0001-01-01"}  # fmt: skip
    for offset, (ts, day) in enumerate(times.items()):
        value = json.dumps({**json.loads(metrics(offset)), "ts": ts}).encode()
        store(tmp_path, record(value, offset))
        assert (tmp_path / "metrics" / f"date={day}").is_dir()
    found = [json.loads(message.value)["ts"] for message in open_archive(str(tmp_path)).messages(["metrics"])]
    assert sorted(found) == sorted(times)


# ---- reading


def test_messages_come_in_the_order_of_kafka_also_if_they_are_late(tmp_path: Path) -> None:
    values = [metrics(number, day=-number % 5) for number in range(60)]
    store(tmp_path, *(record(value, offset, time=START + offset) for offset, value in enumerate(values)))
    archive = open_archive(str(tmp_path))
    assert [json.loads(message.value) for message in archive.messages(["metrics"])] == list(
        map(json.loads, values)
    )
    within = list(archive.messages(["metrics"], since=START + DAY, until=START + 2 * DAY))
    assert [json.loads(message.value)["outcomes"] for message in within] == list(range(4, 60, 5))
    assert len(list(archive.messages(["metrics"], arrived=START + 50))) == 10
    assert not list(archive.messages(["metrics"], streams=["other"]))


def test_rows_behind_the_state_are_read_from_kafka_instead(tmp_path: Path) -> None:
    """A dashboard reads the archive up to the state, and the topics from there on: nothing comes twice."""
    store(tmp_path, record(metrics(1), 0))
    storage = storage_of(str(tmp_path))
    with ArchiveWriter(storage, "") as archive:
        archive.add(row_of(record(metrics(2), 1)))
        archive.flush()
    reader = open_archive(str(tmp_path))
    assert reader.starts() == {("metrics", 0): 1}
    assert [json.loads(message.value)["outcomes"] for message in reader.messages(["metrics"])] == [1]


def test_python_reads_the_tables_of_an_evaluation(tmp_path: Path) -> None:
    store(
        tmp_path,
        *(record(metrics(number, day=number, stream=f"s{number % 2}"), number) for number in range(4)),
        record(comparison(1), topic="comparisons"), record(alarm(1), topic="drift-alarms"),
        record(incident(1, 1), topic="incidents"), record(incident(1, 2, 0, "closed"), 1, topic="incidents"),
    )  # fmt: skip
    result = read_archive(str(tmp_path))
    assert result.metrics.column("accuracy").to_pylist() == [0.0, 1e-6, 2e-6, 3e-6]
    assert result.comparisons.column("verdict").to_pylist() == ["undecided"]
    assert result.alarms.column("detector").to_pylist() == ["page-hinkley"]
    assert result.incidents.column("status").to_pylist() == ["closed"]
    assert result.gaps == []
    assert read_archive(str(tmp_path), since="2023-11-16", streams="s1").metrics.num_rows == 1
    assert read_archive(str(tmp_path), until=START + DAY).metrics.num_rows == 1
    with pytest.raises(UsageError, match="since is 'soon': expected such as"):
        read_archive(str(tmp_path), since="soon")
    with pytest.raises(UsageError, match="there is no archive at"):
        read_archive(str(tmp_path / "other"))


# ---- what doesn't fit


def test_an_archive_belongs_to_one_prefix_and_one_format(tmp_path: Path) -> None:
    store(tmp_path, record(metrics(1)))
    with pytest.raises(UsageError, match=r"with the prefix '': expected that of kafka.prefix, 'eu.'"), (
        ArchiveWriter(storage_of(str(tmp_path)), "eu.")
    ):
        pass
    state = tmp_path / "_archive" / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "format": 2}))
    with pytest.raises(UsageError, match="has format 2: expected 1"):
        open_archive(str(tmp_path))
    state.write_text("{")
    with pytest.raises(WorkError, match=r"state\.json' is damaged"):
        open_archive(str(tmp_path))


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(tmp_path, record(metrics(1)))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(WorkError, match="No space left on device"):
        store(tmp_path, record(metrics(2), 1))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_every_field_of_a_message_survives() -> None:
    """Of all kinds, whatever their values: cells and back."""
    for topic, value in zip(TOPICS, (metrics(1), comparison(1), alarm(1), incident(1, 1))):
        cells = row_of(record(value, topic=topic)).cells
        assert json.loads(message_of(topic, _as_read(topic, cells))) == json.loads(value)


def _as_read(topic: str, cells: dict[str, Any]) -> dict[str, Any]:
    schema = arrow_schema(topic)
    table = pa.table([pa.array([cells.get(field.name)], field.type) for field in schema], schema=schema)
    table = table.set_column(table.column_names.index("ts"), "ts", table.column("ts").cast(pa.int64()))
    [read] = table.to_pylist()
    return dict(read)



# ---- one person's data


def test_an_id_is_forgotten_everywhere_and_nothing_else_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "archive"
    store(
        archive,
        record(alarm(7), topic="drift-alarms"), record(alarm(8), 1, topic="drift-alarms"),
        record(incident(1, 1), topic="incidents"), record(metrics(1)),
        record(b'{"instance_id": "i7"', topic="dead-letters"),
        record(b'{"instance_id": "i77"', 1, topic="dead-letters"), record(b"i7", 1),
    )  # fmt: skip
    before = json.dumps(list(rows(archive, "metrics")), default=str)
    assert main(["archive", "--to", str(archive), "--forget", "i7"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "drift-alarms: 1 message changed", "incidents: 1 message changed", "dead-letters: 1 message changed",
        "unreadable: 1 message changed",
    ]  # fmt: skip
    assert [cells["instance_id"] for _, cells in rows(archive, "drift-alarms")] == ["", "i8"]
    assert [cells["examples"] for _, cells in rows(archive, "incidents")] == [[]]
    assert [cells["value"] for _, cells in rows(archive, "dead-letters")] == [b'{"instance_id": "i77"']
    assert not list(rows(archive, "unreadable"))
    assert json.dumps(list(rows(archive, "metrics")), default=str) == before
    assert not any(b"i7\x00" in path.read_bytes() for path in archive.rglob("*.parquet"))
    result = read_archive(str(archive))
    assert result.alarms.num_rows == 2
    assert result.incidents.num_rows == 1
    store(archive, record(alarm(7), 2, topic="drift-alarms"))
    assert [cells["instance_id"] for _, cells in rows(archive, "drift-alarms")] == ["", "i8"]
    assert main(["archive", "--to", str(archive), "--forget", "i7"]) == 0
    assert capsys.readouterr().out == "no message has this ID\n"

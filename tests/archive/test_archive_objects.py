"""An archive in an object store: S3 as `moto` serves it on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from archiving import metrics
from prequential.archive import writing
from prequential.archive.columns import ConsumedRecord, row_of
from prequential.archive.reading import open_archive
from prequential.archive.storage import storage_of
from prequential.archive.writing import ArchiveWriter
from prequential.demo.broker import pick_port
from prequential.topics.errors import UsageError, WorkError

boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=pick_port(), verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


@pytest.fixture
def place(endpoint: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a new archive."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setattr(writing, "WATCH_SECONDS", 1.0)
    bucket = f"bucket-{abs(hash(request.node.name))}"
    client = boto3.client("s3", endpoint_url=f"http://{endpoint}", region_name="us-east-1")
    client.create_bucket(Bucket=bucket)
    return f"s3://{bucket}/archive?scheme=http&endpoint_override={endpoint}&region=us-east-1"


def add(archive: ArchiveWriter, *numbers: int) -> None:
    for number in numbers:
        archive.add(row_of(ConsumedRecord("metrics", 0, number, 1_000 + number, b"s", metrics(number))))
        archive.progress("metrics").offsets[0] = number + 1


def outcomes(place: str) -> list[Any]:
    messages = open_archive(place).messages(["metrics"])
    return [json.loads(message.value)["outcomes"] for message in messages]


def test_it_is_written_and_read_as_in_a_folder(place: str) -> None:
    for turn in range(3):
        with ArchiveWriter(storage_of(place), "") as archive:
            add(archive, *range(turn * 10, turn * 10 + 12))
            archive.flush()
    assert outcomes(place) == list(range(32))
    files = storage_of(place).files("metrics/date=2023-11-14")
    assert [file.name for file in files] == ["000-00001.parquet"], "in order one process follows the other"
    with pytest.raises(UsageError, match="there is no archive at"):
        open_archive(place.replace("/archive?", "/other?"))


def test_a_second_writer_is_refused_while_the_first_one_is_there(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ArchiveWriter(storage_of(place), "") as first:
        add(first, 1)
        first.flush()
        monkeypatch.setattr(writing, "SIGN_SECONDS", 0.0)
        monkeypatch.setattr(writing.time, "sleep", lambda _: first.show_sign())
        with pytest.raises(WorkError, match="another process writes to the archive"), (
            ArchiveWriter(storage_of(place), "")
        ):
            pass
        add(first, 2)
        first.flush()
    assert outcomes(place) == [1, 2]


def test_one_that_ended_without_order_is_followed_and_can_do_no_harm(place: str) -> None:
    """As a process that slept: what it writes when it wakes up replaces nothing of its successor's."""
    said: list[str] = []
    first = ArchiveWriter(storage_of(place), "")
    first.__enter__()
    add(first, 1, 2)
    first.flush()
    with ArchiveWriter(storage_of(place), "", said.append) as second:
        assert "did not end in order: watching for it" in said[0]
        add(second, 2, 3)
        second.flush()
        add(first, 3)
        with pytest.raises(WorkError, match="another process has taken over the archive"):
            first.flush()
    names = [file.name for file in storage_of(place).files("metrics/date=2023-11-14")]
    assert names == ["000-00001.parquet", "001-00001.parquet"]
    assert outcomes(place) == [1, 2, 3]


def test_errors_name_the_place_without_secrets(endpoint: str) -> None:
    where = f"s3://key:hush-hush@no-such-bucket/x?scheme=http&endpoint_override={endpoint}&region=us-east-1"
    with pytest.raises(WorkError) as error, ArchiveWriter(storage_of(where), ""):
        pass
    assert "hush" not in str(error.value)
    assert "no-such-bucket/x" in str(error.value)

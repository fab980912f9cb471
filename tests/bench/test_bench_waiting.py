"""The benchmark with `--waiting` runs, and says what it should in a form that machines can read."""

from __future__ import annotations

import json

import pytest

from tests.bench.contest import main

FIELDS = {
    "waiting", "streams", "bytes_per_waiting", "peak_mb", "decode_us", "join_us", "messages_us",
    "expire_us", "snapshot_stall_ms", "snapshot_ms", "snapshot_mb", "filling", "steady", "expiring",
}  # fmt: skip


@pytest.mark.nightly
def test_each_case_is_a_line_of_json(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--waiting", "2000", "--json"]) == 0
    results = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(result["waiting"], result["streams"]) for result in results] == [
        (20, 1), (200, 1), (2_000, 1), (20, 10), (200, 100), (2_000, 1_000),
    ]  # fmt: skip
    for result in results:
        assert result.keys() == FIELDS
        phases = [result.pop(phase) for phase in ("filling", "steady", "expiring")]
        assert result.pop("messages_us") >= 0  # few outcomes make none due
        assert result.pop("bytes_per_waiting") >= 0  # what compiling has left free has room for few
        assert all(value > 0 for value in result.values())
        assert result["snapshot_ms"] >= result["snapshot_stall_ms"]
        assert all(phase["max_ms"] >= phase["p99_ms"] > 0 for phase in phases)


@pytest.mark.parametrize("wrong", ["199", "0", "-1"])
def test_too_few_to_be_divided(wrong: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--waiting", wrong]) == 2
    assert f"--waiting is {wrong}: expected at least 200" in capfd.readouterr().err

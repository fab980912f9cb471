"""Snapshots that earlier versions have written: read, with the numbers that were expected, or refused.

Each file of `tests/data/snapshots` holds a configuration, records, the snapshot that a version took after
some of them, and what came of the others. A format that isn't read any more keeps its file: it must be
refused with the sentence that says what to do.

As a program this writes the file of the present format.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config
from prequential.engine.input.merge import Batch, Undecoded
from prequential.engine.input.plain import Parser
from prequential.engine.shard import Shard
from prequential.engine.tables.compact import LIVE
from prequential.runtime.program import VERSION
from prequential.runtime.worker.journal import TopicsOrigin
from prequential.runtime.worker.snapshots import (
    FORMAT,
    MANIFEST_KEY,
    READABLE,
    ChunkWriter,
    Manifest,
    SnapshotReader,
    chunk_key,
)
from prequential.topics.encoding import encode
from prequential.topics.errors import WorkError
from prequential.topics.outputs import Encoded

FOLDER = Path(__file__).parents[1] / "data" / "snapshots"
STORED = sorted(FOLDER.glob("*.msgpack.gz"))
PRESENT = FOLDER / f"format-{FORMAT}.msgpack.gz"

#: What a stream whose settled instances are compact doesn't have.
NOTHING: dict[str, Any] = {
    "segments": [], "costs": None, "cost_per_value": False, "compare_losses": ["error"], "details": [],
}  # fmt: skip

#: Everything that a snapshot can hold, so that each table of it is needed.
CONFIG: dict[str, Any] = {
    "defaults": {
        "estimators": ["all", "window:50", "window:512", "fading:0.99", "decay:5s"],
        "stages": ["initial", "final", "bins", "intermediate"],
        "bins": 3,
        "label_horizon": "20s",
        "settle": "2s",
        "cluster": "500ms",
        "segments": ["region"],
        "baselines": ["persistent", "majority"],
        "measures": [
            "accuracy",
            "kappa",
            "kappa_per",
            "kappa_plus",
            "mcc",
            "log_loss",
            "auc",
            "cost",
            "top_k_accuracy",
        ],
        "top_k": 1,
        "costs": {"UP": {"DOWN": 2.0}, "DOWN": {"UP": 0.5}},
        "cost_per_value": True,
        "compare_losses": ["error", "cost"],
        "details": ["scores"],
        "objective": {"reference": 100},
        "detectors": [
            {"detector": "page-hinkley", "signal": "error", "delta": 0.005, "lambda": 8},
            {"detector": "adwin", "signal": "error"},
            {"detector": "page-hinkley", "signal": "fading:0.9/fading:0.99", "delta": 0.05, "lambda": 5},
            {"detector": "page-hinkley", "signal": "decay:1s", "delta": 0.05, "lambda": 5},
        ],
        "emit": {"outcomes": 100, "every": None},
    },
    "streams": {
        "class": {"period": "5s", "emit": {"outcomes": 100, "every": "5s"}},
        "number": {
            "task": "regression",
            "measures": ["mae", "rmse", "mape", "pinball", "interval_coverage"],
            "stages": ["final"],
            "segments": [],
            "compare_losses": ["error"],
            "quantile": 0.9,
            "details": ["residuals"],
        },
        "plain": {"measures": ["accuracy", "kappa"], "stages": ["final"], "settle": "1h", **NOTHING},
    },
}

#: Instances, and how many records the snapshot is behind: an incident is open there.
_INSTANCES, _BEFORE = 450, 4_300

#: Watermarks above all times.
_ENDED = (1 << 60,) * 3


class Stored(msgspec.Struct):
    """A file: see above. Records are kind, offset, time (ms) and value, in order of time."""

    version: str
    config: str
    records: list[tuple[int, int, int, bytes]]
    before: int
    chunks: list[bytes]
    manifest: bytes
    expected: list[bytes]


def written() -> Iterator[tuple[int, int, bytes]]:
    """Time, kind and value of records: two models that get worse, late labels, a regression beside it."""
    rng = random.Random(1)
    for number in range(_INSTANCES):
        at = 1_700_000_000_000 + 50 * number
        for stream in ("class", "number"):
            about = {"stream": stream, "instance_id": f"{stream}-{number}"}
            yield at, 0, msgspec.json.encode({**about, "ts": at, "segments": {"region": rng.choice("ab")}})
            truth = rng.random()
            for model, error in (("old", 0.1 + 0.7 * (number >= 210)), ("new", 0.2)):
                for again in range(2):
                    said = {**about, "model": model, "ts": at + 5 + 300 * again}
                    said["model_version"] = str(number // 100)
                    guess = truth if rng.random() > error else 1 - truth
                    if stream == "class":
                        said["y_pred"] = "UP" if guess > 0.5 else "DOWN"
                        said["y_proba"] = {"UP": guess, "DOWN": 1 - guess}
                        said["value"] = 10 * truth
                    else:
                        said |= {"y_pred": guess, "y_lower": guess - 0.1, "y_upper": guess + 0.1}
                    yield said["ts"], 1, msgspec.json.encode(said)
            late = at + 700 + rng.randrange(4_000)
            label: Any = truth if stream == "number" else "UP" if truth > 0.5 else "DOWN"
            more = {"value": number % 10} if stream == "class" and number % 3 == 0 else {}
            yield late, 2, msgspec.json.encode({**about, "y_true": label, "ts": late, **more})
        about = {"stream": "plain", "instance_id": f"plain-{number}"}
        said = {**about, "model": "old", "ts": at, "y_pred": rng.choice("ab")}
        yield at, 1, msgspec.json.encode(said)
        for late, label in ((1_000, "a"), (9_000, "b" if number % 3 else None))[: 2 - number % 2]:
            yield at + late, 2, msgspec.json.encode({**about, "y_true": label, "ts": at + late})


def fed(shard: Shard, records: list[tuple[int, int, int, bytes]]) -> list[bytes]:
    """What comes of records."""
    parser = Parser()
    for kind in range(3):
        own = [record for record in records if record[0] == kind]
        values = Undecoded([value for *_, value in own], partial(parser.parse, kind))
        shard.add(Batch(kind, [offset for _, offset, *_ in own], [time for *_, time, _ in own], values))
    while shard.advance(_ENDED, 64):
        pass
    outputs, _ = shard.flush()
    return [one.json if isinstance(one, Encoded) else encode(one) for one in outputs]  # type: ignore[arg-type]


def config_of(text: str, folder: Path) -> Config:
    path = folder / "prequential.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(str(path))


def restored(stored: Stored, config: Config) -> Shard:
    """A shard as the stored snapshot says; raises WorkError if that is of a format that isn't read."""
    reader = SnapshotReader()
    for place, chunk in enumerate(stored.chunks):
        reader.add(chunk_key(1, place), chunk, 1)
    reader.add(MANIFEST_KEY, stored.manifest, 1)
    found = reader.newest()
    assert found is not None
    shard = Shard(config)
    assert shard.restore(found[1]).begun == []
    return shard


def read(path: Path) -> Stored:
    return msgspec.msgpack.decode(gzip.decompress(path.read_bytes()), type=Stored)


@pytest.mark.slow
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name.split(".")[0])
def test_a_stored_snapshot_is_read_or_refused(path: Path, tmp_path: Path) -> None:
    stored = read(path)
    if path.name not in [f"format-{one}.msgpack.gz" for one in READABLE]:
        with pytest.raises(WorkError, match=r"format \d+, this version reads .* --rebuild"):
            restored(stored, Config())  # its own may have settings that are gone
        return
    config = config_of(stored.config, tmp_path)
    shard, rest = restored(stored, config), stored.records[stored.before :]
    outputs = [msgspec.json.decode(output) for output in fed(shard, rest)]
    known = {_name(output): output for output in outputs}
    assert len(stored.expected) > 100
    for line in stored.expected:
        expected = msgspec.json.decode(line)
        found = known[_name(expected)]
        expected.pop("config", None)  # a version with more settings has other digests
        if "against" in expected and path != PRESENT:
            expected.pop("id")
        assert {field: _like(found.get(field), value) for field, value in expected.items()} == expected


def _name(output: dict[str, Any]) -> tuple[Any, ...]:
    """What a message is about: its id, but of comparisons, whose ids were others up to format 18."""
    if "against" not in output:
        return output["id"], output.get("revision")
    fields = ("stream", "model", "against", "segment", "stage", "loss", "estimator", "outcomes", "ts")
    return tuple(output.get(field) for field in fields)


def _like(found: Any, expected: Any) -> Any:
    """Of an object the fields that are expected: a later version may say more."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {field: _like(found.get(field), value) for field, value in expected.items()}
    return found


def test_the_present_format_is_stored() -> None:
    """A change of the format needs a file of its own: `python tests/worker/test_stored_snapshot.py`."""
    assert PRESENT in STORED


def test_what_is_stored_is_more_than_counts() -> None:
    """Expected are all kinds of messages, of both tasks."""
    expected = [msgspec.json.decode(line) for line in read(PRESENT).expected]
    assert {message["stream"] for message in expected} == {"class", "number", "plain"}
    for field in ("estimator", "detector", "against", "severity"):
        assert any(field in message for message in expected), field
    assert {"final", "initial", "bin:1", "intermediate"} <= {message.get("stage") for message in expected}
    assert {"a", "b"} <= {(message.get("segment") or "=").split("=")[1] for message in expected}


def test_settled_instances_are_stored_compact(tmp_path: Path) -> None:
    stored = read(PRESENT)
    shard = restored(stored, config_of(stored.config, tmp_path))
    assert shard.state.store.compact.counts[LIVE] > 100


def test_what_was_shown_of_models_is_stored(tmp_path: Path) -> None:
    stored = read(PRESENT)
    shard = restored(stored, config_of(stored.config, tmp_path))
    stream = shard.catalog.by_name["class"]
    latest = shard.state.latest_estimates
    for models in (latest.newest, latest.signals, latest.waiting):
        assert models.keys() == set(stream.models.values())
    assert shard.state.newest_labels[stream.code] > 1_700_000_000_000
    assert shard.state.newest_predictions[list(stream.models.values())].min() > 1_700_000_000_000


def main(folder: Path) -> None:
    """Write the file of the present format."""
    offsets, records = [0, 0, 0], []
    for time, kind, value in sorted(written()):
        records.append((kind, offsets[kind], time, value))
        offsets[kind] += 1
    text = yaml.safe_dump(CONFIG)
    shard = Shard(config_of(text, folder))
    fed(shard, records[:_BEFORE])
    writer = ChunkWriter()
    chunks = list(writer.chunks_of(shard.snapshot()))
    manifest = Manifest(
        FORMAT, 1, writer.chunks, writer.size, writer.checksum, tuple(shard.merge.vector), 1, 1, "",
        TopicsOrigin(1),
    )  # fmt: skip
    expected = fed(shard, records[_BEFORE:])
    stored = Stored(VERSION, text, records, _BEFORE, chunks, msgspec.msgpack.encode(manifest), expected)
    PRESENT.write_bytes(gzip.compress(msgspec.msgpack.encode(stored), mtime=0))
    print(PRESENT, PRESENT.stat().st_size, "bytes", len(expected), "messages", shard.merge.vector)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as work:
        main(Path(work))

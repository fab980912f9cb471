"""`prequential size`: the model's arithmetic, what the engine itself says of it, and the command."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential.cli.main import main
from prequential.core.input.merge import Batch
from prequential.core.input.plain import Parser
from prequential.core.shard import Shard
from prequential.settings.model import ALL_SERIES, SERIES, Config, HttpConfig, StreamConfig
from prequential.sizing.model import Sizing, Workload, due, messages, remembered, shape, size, state
from prequential.topics.clients import KafkaConfig
from prequential.topics.outputs import Comparison, Metrics, decoded
from prequential.worker.exporter import Exporter
from prequential.worker.statistics import ShardStatistics

from tests.bench import messages as bench
from tests.bench.feeding import batches
from tests.bench.messages import Record

#: What more of never makes a workload need less.
GROWING = ("streams", "models", "rate", "label_latency")

workloads = st.builds(
    Workload,
    streams=st.integers(1, 100_000),
    models=st.integers(1, 20),
    rate=st.floats(10.0, 1e6),  # with less, snapshots wait for records: more shards write fewer then
    label_latency=st.floats(1e3, 1e9),
    labelled=st.floats(0.1, 1.0),
    segment_values=st.integers(1, 20),
    probabilities=st.booleans(),
)

configs = st.sampled_from(
    [
        Config(),
        Config(defaults=StreamConfig(segments=("region", "device"))),
        Config(defaults=StreamConfig(compare="off", stages=("initial", "final", "bins", "intermediate"))),
        Config(defaults=StreamConfig(emit_every=None)),
        Config(kafka=KafkaConfig(replication=3), defaults=StreamConfig(emit_outcomes=None)),
    ]
)


# ---- properties


@given(workload=workloads, config=configs, what=st.sampled_from(GROWING), factor=st.floats(1.0, 50.0))
@settings(max_examples=150, deadline=None)
def test_more_never_needs_less(workload: Workload, config: Config, what: str, factor: float) -> None:
    """At a fixed number of workers and partitions. Larger snapshots are rarer: that may save a little."""
    value = getattr(workload, what) * factor
    if what in ("streams", "models"):
        value = int(value)
    if what == "models":  # the rate is of records: so many instances as before
        more = replace(workload, models=value)
        more = replace(more, rate=workload.instances * (1 + more.models + more.labelled))
    else:
        more = replace(workload, **{what: value})
    before, after = (size(one, config, workers=4, partitions=16) for one in (workload, more))
    fields = ("cores", "state_bytes", "worker_bytes", "remembered", "input_bytes", "series", "written_bytes")
    for field in fields:
        assert getattr(after, field) >= getattr(before, field) * 0.98, field


@given(workload=workloads, config=configs, busy=st.floats(0.1, 0.9), speed=st.floats(0.5, 4.0))
@settings(max_examples=150, deadline=None)
def test_the_workers_suffice_and_one_fewer_would_not(
    workload: Workload, config: Config, busy: float, speed: float
) -> None:
    found = size(workload, config, busy=busy, speed=speed)
    assert found.cores <= busy * found.workers
    assert found.partitions >= found.workers
    if found.workers > 1:
        fewer = size(workload, config, busy=busy, speed=speed, workers=found.workers // 2)
        assert fewer.cores > busy * fewer.workers


@given(workload=workloads, config=configs)
@settings(max_examples=100, deadline=None)
def test_a_faster_core_is_less_busy_and_replicas_are_written(workload: Workload, config: Config) -> None:
    usual = size(workload, config, workers=4, partitions=16)
    fast = size(workload, config, workers=4, partitions=16, speed=2.0)
    assert fast.cores == pytest.approx(usual.cores / 2)
    one = usual.input_bytes + usual.output_bytes + usual.journal_bytes + usual.snapshot_bytes
    assert usual.written_bytes == pytest.approx(config.kafka.replication * one)


# ---- exact figures


def test_messages_of_an_example() -> None:
    """1,000 streams, an outcome of each of 2 models every 2 s: 6 metrics and 3 comparisons at a time."""
    workload = Workload(1_000, 2, 4 * 500.0)
    by_time = 1_000 * (1 - math.exp(-5)) / 10, 1_000 * (1 - math.exp(-30)) / 60
    moments = [of_kind + 1_000 * 0.5 / 1_000 for of_kind in by_time]
    assert messages(workload, Config()) == pytest.approx((6 * moments[0], 3 * moments[1]))


def test_segments_have_messages_of_their_own() -> None:
    config = Config(defaults=StreamConfig(segments=("region",), compare="off"))
    metrics, comparisons = messages(Workload(10, 1, 3 * 20.0, segment_values=4), config)
    assert comparisons == 0
    assert metrics == pytest.approx(10 * 3 * (due(2.0, 10_000, 1_000) + 4 * due(0.5, 10_000, 1_000)))


def test_instances_wait_settle_or_expire() -> None:
    workload = Workload(10, 2, 400.0, label_latency=60_000)
    assert remembered(workload, StreamConfig()) == pytest.approx(100 * (60 + 300))
    half = replace(workload, rate=350.0, labelled=0.5)  # 100 instances a second, too
    assert remembered(half, StreamConfig()) == pytest.approx(50 * 360 + 50 * 14 * 86_400)
    assert remembered(replace(half, after=10_000.0), StreamConfig()) == pytest.approx(1_000)


@pytest.mark.parametrize(
    ("settings_", "expected"),
    [
        ({}, (2, 0, 1, 3, 1_000, 1, 1)),
        ({"compare": "off"}, (2, 0, 1, 3, 1_000, 0, 1)),
        ({"stages": ("final", "bins", "intermediate"), "bins": 5}, (2, 0, 7, 3, 1_000, 1, 1)),
        ({"estimators": ("window:10", "window:500")}, (2, 0, 1, 2, 510, 1, 1)),
        ({"segments": ("a", "b"), "baselines": ("majority",)}, (3, 6, 1, 3, 1_000, 1, 1)),
        ({"compare_losses": ("error", "brier")}, (2, 0, 1, 3, 1_000, 1, 2)),
    ],
)
def test_what_is_counted(settings_: dict[str, Any], expected: tuple[int, ...]) -> None:
    found = shape(Workload(1), Config(defaults=StreamConfig(**settings_)))
    of = (found.models, found.values, found.stages, found.estimators, found.window, found.pairs, found.losses)
    assert of == expected


def test_ten_pairs_are_the_limit() -> None:
    assert [shape(Workload(1, models), Config()).pairs for models in (1, 2, 5, 20)] == [0, 1, 10, 10]


# ---- against the engine


#: Of the engine's run: streams, outcomes of each a second, and seconds.
STREAMS, A_SECOND, SECONDS = 30, 1.5, 80


def records(models: int, keys: Sequence[str]) -> list[Record]:
    """Instances that come by chance, with labels a second later or some, by chance, too; in order of time."""
    chance = np.random.default_rng(1)
    found = []
    for number in range(round(STREAMS * A_SECOND * SECONDS)):
        ts = bench.START_MS + round(chance.uniform(0, SECONDS * 1e3))
        stream, truth = f"s-{chance.integers(STREAMS)}", chance.integers(2)
        head = f'{{"stream":"{stream}","instance_id":"{number}"'
        values = ",".join(f'"{key}":"v-{chance.integers(3)}"' for key in keys)
        segments = f',"segments":{{{values}}}' if keys else ""
        label = ts + 1_000 + round(chance.exponential(1_000))
        texts = [(ts, "instances", segments), (label, "labels", f',"y_true":"{truth}"')]
        for model in range(models):
            said = truth if chance.random() < 0.8 else 1 - truth
            texts.append((ts + 5, "predictions", f',"model":"m-{model}","y_pred":"{said}"'))
        found += [
            Record(when, kind, stream.encode(), f'{head}{more},"ts":{when}}}'.encode())
            for when, kind, more in texts
        ]
    return sorted(found, key=lambda record: record.ts)


def lived(config: Config, models: int) -> tuple[Shard, int, int]:
    """A shard that they have gone through, and the numbers of its metrics and comparisons."""
    shard = Shard(config)
    parser, offsets = Parser(), list(shard.merge.added)
    for kind, span, own in batches(records(models, config.defaults.segments), offsets):
        times = [record.ts for record in own]
        shard.add(Batch(kind, span, times, parser.parse(kind, [record.value for record in own])))
    shard.advance([1 << 62] * 3, 1 << 62)
    kinds = Counter(type(decoded(one)) for one in shard.flush()[0])
    return shard, kinds[Metrics], kinds[Comparison]


@pytest.mark.parametrize(("keys", "models"), [((), 2), ((), 5), (("region", "device"), 2)])
def test_messages_state_and_series_are_those_of_the_engine(keys: tuple[str, ...], models: int) -> None:
    """What is counted doesn't depend on the machine."""
    # Often enough in so few seconds.
    config = Config(defaults=StreamConfig(segments=keys, emit_comparisons=10_000))
    shard, metrics, comparisons = lived(config, models)
    workload = Workload(
        STREAMS, models, STREAMS * A_SECOND * (2 + models), 2_000.0, after=(SECONDS + 2) * 1e3
    )
    assert (metrics / SECONDS, comparisons / SECONDS) == pytest.approx(messages(workload, config), rel=0.05)
    assert shard.snapshot_size == pytest.approx(state(workload, config), rel=0.15)
    runner: Any = SimpleNamespace(
        shard=shard, recovering=False, halted=None, partition=0, statistics=ShardStatistics()
    )
    fetcher: Any = SimpleNamespace(ends={})
    every = HttpConfig(stages=ALL_SERIES, estimators=ALL_SERIES, series=SERIES)
    series, bytes_, expected = [], [], []
    for http in (HttpConfig(), HttpConfig(segments=False), every):
        shown = replace(config, http=http)
        text = Exporter(shown, fetcher, {0: runner}).text(lambda question: question())
        series.append(sum(not line.startswith("#") for line in text.splitlines()))
        bytes_.append(len(text))
        expected.append(size(workload, shown, partitions=1, workers=1))
    assert series == pytest.approx([one.series for one in expected], rel=0.1)
    assert bytes_ == pytest.approx([one.scrape_bytes for one in expected], rel=0.15)


# ---- the command


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["size", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_json_has_all_figures(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads("\n".join(said(capsys, "--streams=10", "--rate=100", "--json")))
    assert set(found) == {*Sizing._fields, "notes"}
    assert found["workers"] == 1
    assert found["notes"] == []


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["--rate=300000", "--workers=1"], "workers would be busy for"),
        (["--streams=1", "--rate=10000000"], "each stream alone is more than a core can take"),
        (["--streams=900000", "--partitions=4"], "limits.streams_per_shard is 10,000, and 225,000 are"),
        (["--label-latency=3d", "--rate=100000", "--partitions=1"], "limits.instances_per_shard is 10,000,"),
        (["--label-latency=8d"], "labels come after label_horizon"),
        (["--rate=1000000", "--partitions=1", "--workers=1"], "are needed"),
    ],
)
def test_notes_say_what_does_not_fit(capsys: pytest.CaptureFixture[str], words: list[str], note: str) -> None:
    lines = said(capsys, "--streams=1000", "--rate=100", *words)
    assert any(line.startswith("note") and note in line for line in lines), lines


def test_the_configuration_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "prequential.yaml"
    path.write_text("kafka: {replication: 3}\ndefaults: {compare: 'off'}\nstreams: {a: {settle: 1m}}\n")
    lines = said(capsys, "--config", str(path), "--streams=1000", "--rate=4000")
    assert any("3 replicas" in line for line in lines)
    assert lines[-1] == "note        sections of 1 streams in the configuration aren't looked at"
    of = size(Workload(1_000, 2, 4_000.0), Config(defaults=StreamConfig(compare="off")))
    assert any(f"{of.messages:,.0f}"[:2] in line for line in lines if line.startswith("messages"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--rate=1"], "the following arguments are required: --streams"),
        (["--streams=0", "--rate=1"], "'0': expected a whole number from 1 on"),
        (["--streams=1", "--rate=nan"], "'nan': expected a number above 0"),
        (["--streams=1", "--rate=1", "--labelled=1.5"], "'1.5': expected a share above 0, up to 1"),
        (["--streams=1", "--rate=1", "--label-latency=5"], "'5': expected a duration"),
        (["--streams=1", "--rate=1", "--workers=3", "--partitions=2"], "--workers 3 is more than"),
    ],
)
def test_errors_say_what_was_expected(
    capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    try:
        status = main(["size", *words])
    except SystemExit as ended:
        status = int(ended.code or 0)
    assert status == 2
    assert expected in capsys.readouterr().err

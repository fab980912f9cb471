"""The configuration file: the contract's example, defaults, overrides, every kind of mistake."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings import http_server, model, streams
from prequential.configuration.settings.durations import duration
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config, ConfigError
from prequential.configuration.settings.streams import DetectorConfig, Objective, StreamConfig
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.measuring import measured
from prequential.engine.measures.declaration import REASONS
from prequential.engine.measures.per_class import Positives
from prequential.engine.measures.registry import INDEX
from prequential.engine.measures.registry import NAMES as MEASURES
from prequential.engine.tables.scores import SCORED
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError

#: The contract's section 5, word for word.
CONTRACT = """\
kafka: {bootstrap_servers: "localhost:9092", prefix: "", partitions: 4, security: {}}
defaults:
  task: classification
  positive_class: null
  estimators: [all, "window:1000", "fading:0.999"]
  stages: [initial, final]          # and: bins, intermediate
  bins: 10
  alpha: 2.0
  label_horizon: 7d
  settle: 5m
  detectors:
    - {detector: page-hinkley, signal: error, delta: 0.005, lambda: 50}
    - {detector: page-hinkley, signal: "fading:0.997/fading:0.9994", delta: 0.1, lambda: 100}
  emit: {outcomes: 1000, every: 10s}
streams:
  elec2: {label_horizon: 1d}
"""

MINUTE = 60_000
DAY = 1440 * MINUTE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "c.yaml"


def load(file: Path, text: str) -> Config:
    file.write_text(text, encoding="utf-8")
    return load_config(str(file))


def complaint(file: Path, text: str) -> str:
    """The one sentence about a wrong file."""
    with pytest.raises(ConfigError) as raised:
        load(file, text)
    sentence = str(raised.value)
    assert "\n" not in sentence
    assert str(file) in sentence
    return sentence


class TestDefaults:
    def test_the_contracts_example_is_the_defaults(self, file: Path) -> None:
        config = load(file, CONTRACT)
        one_day = replace(StreamConfig(), label_horizon=DAY)
        assert config == Config(streams={"elec2": one_day})
        assert config.stream("elec2").label_horizon == DAY
        assert config.stream("another") == config.defaults == StreamConfig()
        # What the example leaves out.
        assert (config.defaults.emit_comparisons, config.defaults.emit_idle) == (MINUTE, 30_000)
        assert config.defaults.measures == streams.DEFAULT_MEASURES

    @pytest.mark.parametrize(
        ("written", "shown"),
        [
            ("{}", HttpConfig()),
            ("{series: needed, stages: null, estimators: null}", HttpConfig()),
            ("{series: all, stages: all, estimators: all, measures: all}",
             HttpConfig(measures=MEASURES, stages="all", estimators="all", series=http_server.SERIES)),
            ("{estimators: [all]}", HttpConfig(estimators=("all",))),
        ],
    )  # fmt: skip
    def test_which_series_there_are(self, tmp_path: Path, written: str, shown: HttpConfig) -> None:
        (tmp_path / "c.yaml").write_text(f"http: {written}")
        assert load_config(str(tmp_path / "c.yaml")).http == shown

    @pytest.mark.parametrize(
        "text", ["", "{}", "null", "# nothing\n", "defaults:\nstreams:\nkafka: {}\n", "---\n"]
    )
    def test_an_empty_file_is_all_defaults(self, file: Path, text: str) -> None:
        assert load(file, text) == Config() == load_config(None)

    def test_a_byte_order_mark_is_no_trouble(self, file: Path) -> None:
        assert load(file, "\ufeffkafka: {partitions: 7}").kafka.partitions == 7

    def test_every_key_can_be_set(self, file: Path) -> None:
        """All keys of all sections, each to what isn't its default."""
        config = load(
            file,
            """
            kafka: {bootstrap_servers: "a:1,b:2", prefix: eu., partitions: 12, replication: 3,
                    group_protocol: consumer,
                    security: {security.protocol: SSL, enable.ssl.certificate.verification: false},
                    schema_registry: {url: "http://r", timeout: 5}}
            defaults: {task: regression, loss: squared, positive_class: true, estimators: ["fading:1"],
                       objective: {mae: 2, tolerance: 0.5, level: 0.05}, costs: {true: {0: 5}},
                       cost_per_value: true, top_k: 3, quantile: 0.9, season: 1d, hit_tolerance: 2,
                       measures: [kappa, mae], details: [intervals], dependence_order: 9, coverage: false,
                       period: 3h, period_zone: Asia/Tokyo, period_final_at: 0.5, expected: false,
                       book_periods: 4,
                       period_alarms: {concept: 5, delays: null, inputs: 3.5, miss: 0.9},
                       temporal_correction: true, baselines: [majority], segments: [arm],
                       segments_per_key: 3, compare: champion, champion: nb,
                       compare_losses: [squared, error], compare_level: 0.1, mcnemar_level: 0.05,
                       compare_margin: 0.02,
                       compare_stages: [final/initial], versions: separate,
                       stages: [final, initial], bins: 3, alpha: 0.5,
                       label_horizon: 90s, settle: 250ms,
                       emit: {outcomes: null, every: 2w, comparisons: 90s, idle: 2h},
                       detectors: [{signal: "all:mae", delta: 0, lambda: 1, min_outcomes: 7}],
                       alarm_budget: 2 per 1w, alarm_change: 0.1,
                       cluster: 1d, incident_budget: 2 per 90d, incident_loss: mae}
            limits: {streams_per_shard: 1, models_per_stream: 2, classes_per_stream: 3,
                     instances_per_shard: 4, predictions_per_instance: 5, pairs_per_stream: 6,
                     versions_per_model: 7}
            http: {host: 0.0.0.0, port: 0, measures: [auc, r2], token: t,
                   tls_certificate: c, tls_key: k, stages: [final], estimators: ["fading:1"],
                   segments: false, series: [selection, tests]}
            worker: {group: g, instance_id: "env:POD", session_timeout: 6s, grace: 1ms, commit_every: 2ms,
                     snapshot_every: 3ms, quarantine_after: 7, accept_loss: [3, 5], stop_within: 4s}
            """,
        )
        security = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}
        registry = {"url": "http://r", "timeout": 5}
        assert config.kafka == KafkaConfig("a:1,b:2", "eu.", 12, 3, security, registry, "consumer")
        assert config.defaults == StreamConfig(
            task="regression", loss="squared", positive_class="true", estimators=("fading:1",),
            objective=Objective({"mae": 2.0}, 0.5, 0.05),
            measures=("kappa", "mae"), details=("intervals",), dependence_order=9, coverage=False,
            period=10_800_000, period_zone="Asia/Tokyo", period_final_at=0.5, expected=False,
            book_periods=4,
            costs={"true": {"0": 5.0}},
            period_alarms=streams.PeriodAlarmConfig(5.0, None, 3.5, 0.9),
            top_k=3, quantile=0.9, season=86_400_000, cost_per_value=True, hit_tolerance=2.0,
            temporal_correction=True, baselines=("majority",), segments=("arm",), segments_per_key=3,
            compare="champion", champion="nb", compare_losses=("squared", "error"), compare_level=0.1,
            mcnemar_level=0.05, compare_margin=0.02, compare_stages=("final/initial",), versions="separate",
            stages=("final", "initial"), bins=3, alpha=0.5, label_horizon=90_000, settle=250,
            detectors=(
                DetectorConfig(signal="all:mae", params={"delta": 0.0, "lambda": 1.0, "min_outcomes": 7}),
            ),
            emit_outcomes=None, emit_every=14 * DAY, emit_comparisons=90_000, emit_idle=7_200_000,
            alarm_budget="2 per 7d", alarm_change=0.1,
            cluster=DAY, incident_budget="2 per 90d", incident_loss="mae",
        )  # fmt: skip
        assert config.limits == model.Limits(1, 2, 3, 4, 5, 6, 7)
        assert config.http == HttpConfig(
            "0.0.0.0", 0, ("auc", "r2"), ("final",), ("fading:1",), ("selection", "tests"), False, "t", "c",
            "k",
        )
        assert config.worker == model.WorkerConfig("g", "env:POD", 6_000, 1, 2, 3, 7, (3, 5), 4_000)
        for section, default in (
            (config.defaults, StreamConfig()), (config.limits, model.Limits()),
            (config.worker, model.WorkerConfig()), (config.http, HttpConfig()),
            (config.kafka, KafkaConfig()),
        ):  # fmt: skip
            for field in fields(section):
                if field.name in ("classes", "label_at_horizon", "key", "disparity"):  # other tests have them
                    continue
                changed = getattr(section, field.name) != getattr(default, field.name)
                assert changed, field.name


class TestStreams:
    def test_a_section_overrides_key_by_key(self, file: Path) -> None:
        config = load(
            file,
            """
            defaults: {bins: 3, emit: {outcomes: 5}, settle: 1m}
            streams:
              a: {bins: 4}
              b: {emit: {every: 2s}, estimators: [all]}
              c: {detectors: []}
              d:
            """,
        )
        defaults = replace(StreamConfig(), bins=3, emit_outcomes=5, settle=MINUTE)
        assert config.defaults == defaults
        assert config.stream("a") == replace(defaults, bins=4)
        assert config.stream("b") == replace(defaults, emit_every=2000, estimators=("all",))
        assert config.stream("c") == replace(defaults, detectors=())
        assert config.stream("d") == config.stream("e") == defaults

    def test_sections_may_come_in_any_order(self, file: Path) -> None:
        config = load(file, "streams: {a: {bins: 4}}\ndefaults: {settle: 1m}")
        assert config.stream("a") == replace(StreamConfig(), bins=4, settle=MINUTE)

    def test_a_class_at_the_horizon_is_not_taken_over_by_streams_of_numbers(self, file: Path) -> None:
        text = "defaults: {label_at_horizon: click}\nstreams: {a: {task: regression}, b: {bins: 4}}"
        config = load(file, text)
        assert (config.stream("a").label_at_horizon, config.stream("b").label_at_horizon) == (None, "click")

    @pytest.mark.parametrize("name", ["7", "007", "no", "true", "null", "1e3", "a b", "größer"])
    def test_a_streams_name_is_what_is_written(self, file: Path, name: str) -> None:
        """YAML's own idea of `no` or `007` mustn't rename a stream."""
        assert list(load(file, f"streams: {{{name}: {{bins: 4}}}}").streams) == [name]

    def test_the_digest_is_a_function_of_the_settings(self, file: Path) -> None:
        config = load(file, "streams: {a: {}, b: {bins: 10}, c: {bins: 11}}")
        assert config.stream("a").digest == config.stream("b").digest == StreamConfig().digest
        assert config.stream("c").digest != StreamConfig().digest
        assert re.fullmatch("[0-9a-f]{64}", StreamConfig().digest)


class TestOverrides:
    def test_they_win_over_the_file(self, file: Path) -> None:
        file.write_text("kafka: {prefix: a., partitions: 3}")
        config = load_config(str(file), {"kafka.prefix": "b.", "http.port": 0})
        assert (config.kafka.prefix, config.kafka.partitions, config.http.port) == ("b.", 3, 0)

    def test_a_bad_one_is_a_usage_error(self) -> None:
        with pytest.raises(UsageError, match=r"kafka\.prefix is 'a b'"):
            load_config(None, {"kafka.prefix": "a b"})


#: Wrong files: what stands in it, the offender's line, and words of the sentence.
WRONG = [
    # Unknown keys, everywhere
    ("defaults: {}\nstream: {}", 2, ["'stream'", "did you mean streams?", "known: kafka"]),
    ("zzz: 1", 1, ["unknown key 'zzz' in the configuration", "known: kafka, defaults"]),
    ("defaults:\n  bins: 3\n  lable_horizon: 7d", 3,
     ["'lable_horizon' in defaults", "did you mean label_horizon"]),
    ("streams:\n  a:\n    emit: {outcome: 5}", 3,
     ["'outcome' in streams.a.emit", "known: outcomes, every, comparisons, idle"]),
    ("kafka: {server: x}", 1, ["'server' in kafka", "bootstrap_servers"]),
    ("defaults: {detectors: [{detector: harm, bound: 0.1, estimate: true}]}", 1,
     ["estimate needs a model", "objective: {estimate: MODEL}"]),
    ("defaults: {incident_loss: cost}", 1, ["there are no costs", "expected costs"]),
    ("defaults: {task: regression, incident_loss: recall}", 1, ["'recall'", "expected error, mae"]),
    ("defaults: {task: regression, incident_loss: pinball}", 1, ["expected quantile"]),
    ("http:\n  prot: 5", 2, ["'prot' in http", "did you mean port?"]),
    ("limits: {x: 1}", 1, ["'x' in limits", "models_per_stream"]),
    ("worker: {x: 1}", 1, ["'x' in worker", "session_timeout"]),
    ("defaults:\n  detectors:\n  - {signal: error}\n  - {signal: error, lamda: 5}", 4,
     ["'lamda' in defaults.detectors[1]", "did you mean lambda?"]),
    ("defaults:\n  objective:\n    accuracy: 0.9\n    tolerence: 0.1", 4,
     ["'tolerence' in defaults.objective", "did you mean tolerance?"]),
    ("defaults: {objective: {p_per: 0.9}}", 1, ["'p_per' in defaults.objective", "known: error, accuracy"]),
    # Objectives
    ("defaults: {objective: 0.9}", 1, ["defaults.objective is 0.9", "keys and values"]),
    ("defaults:\n  objective: {tolerance: 0.1}", 2, ["names no measure", "expected e.g. accuracy: 0.9"]),
    ("defaults:\n  objective:\n    accuracy: high", 3, ["defaults.objective.accuracy", "'high'", "a number"]),
    ("defaults:\n  objective:\n    accuracy: .nan", 3, ["defaults.objective.accuracy", "nan", "a number"]),
    ("defaults:\n  objective:\n    accuracy: 0.9\n    tolerance: -1", 4, ["-1", "a number from 0"]),
    ("defaults:\n  objective:\n    accuracy: 0.9\n    level: 2", 4, ["2", "from 1e-09 to 0.5"]),
    ("defaults:\n  objective:\n    accuracy: 0.9\n    kappa: 0.4\n    level: 0.01", 4,
     ["defaults.objective.kappa: it is no mean of losses", "expected one of error, accuracy"]),
    ("defaults:\n  objective:\n    level: 0.01\n    accuracy: 1", 4, ["1 allows no loss at all"]),
    ("defaults:\n  objective: {reference: 50}", 2, ["50", "an integer from 100"]),
    ("streams:\n  a:\n    task: regression\n    objective:\n      reference: 1000", 5,
     ["streams.a.objective.reference: regression losses", "expected a bound such as mae: 2"]),
    ("streams:\n  a:\n    objective:\n      kappa: 0.1\n      mae: 3", 5,
     ["streams.a.objective.mae", "never has a value", "expected one of error, accuracy"]),
    ("streams:\n  a:\n    measures: [kappa]\n    objective: {f1: 0.1}", 4,
     ["streams.a.objective.f1", "expected one of kappa"]),
    ("defaults:\n  objective:\n    accuracy: 90", 3,
     ["defaults.objective.accuracy: 90", "a bound from 0 to 1, between which accuracy lies"]),
    # Classes are named as it is written, and once
    ("defaults:\n  positive_class: yes", 2,
     ["defaults.positive_class: YAML takes yes for a boolean: quote it, 'yes'"]),
    ("defaults:\n  label_at_horizon: no", 2, ["YAML takes no for a boolean: quote it, 'no'"]),
    ("defaults: {compare: champion, champion: off}", 1, ["defaults.champion: YAML takes off for a boolean"]),
    ("defaults:\n  costs:\n    yes: {no: 5}", 3, ["defaults.costs: YAML takes yes for a boolean"]),
    ("defaults:\n  positive_class: 010", 2, ["YAML takes 010 for 8: quote it, '010'"]),
    ("defaults:\n  costs:\n    a: {b: 1}\n    a: {b: 2}", 4, ["defaults.costs has the key 'a' twice"]),
    ("defaults:\n  costs: {1: {0: 1}, '1': {0: 5}}", 2, ["defaults.costs has the key '1' twice"]),
    ("defaults:\n  costs: {a: {true: 1, True: 5}}", 2, ["defaults.costs has the key 'True' twice"]),
    # Names of measures
    ("defaults:\n  measures: [[accuracy]]", 2, ["defaults.measures: unknown measure ['accuracy']"]),
    ("http:\n  measures: [{accuracy: 1}]", 2, ["http.measures: unknown measure {'accuracy': 1}"]),
    # Sessions
    ("worker:\n  session_timeout: 2h", 2, ["worker.session_timeout: '2h': expected 1s to 1h"]),
    ("worker:\n  session_timeout: 1ms", 2, ["worker.session_timeout: '1ms': expected 1s to 1h"]),
    # Segments are named key=value
    ("defaults:\n  segments: [a=b, arm, a]", 2,
     ["defaults.segments: 'a=b' looks like a value of 'a'",
      "expected keys that do not begin with another key and ="]),
    ("defaults:\n  segments: ['']", 2, ["defaults.segments: ''", "expected a string"]),
    # Twice
    ("defaults: {bins: 1}\ndefaults: {bins: 2}", 2, ["'defaults' twice"]),
    ("streams:\n  a: {}\n  a: {}", 3, ["streams has the key 'a' twice"]),
    ("defaults:\n  detectors:\n  - {signal: error}\n  - {signal: error}", 4,
     ["defaults.detectors", "error"]),
    ("kafka:\n  security:\n    a: 1\n    a: 2", 4, ["'a' twice"]),
    # Shapes
    ("[]", 1, ["the configuration is []", "keys and values"]),
    ("text", 1, ["'text'", "keys and values"]),
    ("\ndefaults: 5", 2, ["defaults is 5", "keys and values"]),
    ("streams: [a]", 1, ["streams is ['a']", "keys and values"]),
    ("streams: {a: 5}", 1, ["streams.a is 5", "keys and values"]),
    ("defaults: {emit: 5}", 1, ["defaults.emit is 5", "keys and values"]),
    ("defaults:\n  detectors: {signal: error}", 2, ["defaults.detectors", "expected a list"]),
    ("defaults: {detectors: null}", 1, ["defaults.detectors is None", "expected a list"]),
    ("defaults: {detectors: [error]}", 1, ["defaults.detectors[0] is 'error'", "keys and values"]),
    ("defaults: {estimators: all}", 1, ["defaults.estimators: 'all'", "a list with at least one"]),
    ("defaults: {estimators: []}", 1, ["defaults.estimators: []", "a list with at least one"]),
    ("defaults: {estimators: [all, all]}", 1, ["['all', 'all']", "without repeats"]),
    ("kafka: {security: [1]}", 1, ["kafka.security is [1]", "keys and values"]),
    # Values
    ("defaults: {task: ranking}", 1, ["defaults.task: 'ranking'", "expected classification"]),
    ("defaults: {positive_class: .nan}", 1, ["positive_class: nan", "a string, a finite number"]),
    ("defaults: {costs: {a: 5}}", 1, ["costs: 5", "{fraud: {ok: 100}, ok: {fraud: 5}}"]),
    ("defaults: {costs: {a: {b: x}}}", 1, ["costs: 'x'", "what 'a' predicted as 'b' costs: a number"]),
    ("defaults: {quantile: 90}", 1, ["quantile: 90", "a quantile above 0 and below 1, as 0.9"]),
    ("defaults: {quantile: true}", 1, ["quantile: True", "a quantile above 0 and below 1"]),
    ("defaults: {top_k: 0}", 1, ["top_k: 0", "an integer from 1 to 65535"]),
    ("defaults: {cost_per_value: true}", 1, ["cost_per_value is true", "expected costs, as"]),
    ("defaults: {costs: {a: {b: 1}}, cost_per_value: true}\nstreams: {s: {costs: null}}", 2,
     ["streams.s.cost_per_value: cost_per_value is true", "expected costs, as"]),
    ("defaults: {positive_class: [a]}", 1, ["positive_class: ['a']", "a string, a finite number"]),
    ("defaults: {estimators: [all, 'window:0']}", 1, ["'window:0'", "window:W (W >= 1)"]),
    ("defaults: {estimators: ['fading:0']}", 1, ["'fading:0'", "fading:A (0 < A <= 1)"]),
    ("defaults: {estimators: ['fading:1e-310']}", 1, ["'fading:1e-310'", "fading:A"]),
    ("defaults: {estimators: [5]}", 1, ["5", "expected a string"]),
    ("defaults: {estimators: ['window:9999999999999']}", 1,
     ["'window:9999999999999'", "at most 10000000"]),
    ("defaults: {estimators: ['decay:0h']}", 1, ["'decay:0h'", "decay:H (H a half-life such as 1h)"]),
    ("defaults: {estimators: ['decay:99999w']}", 1, ["'decay:99999w'", "at most 36525d"]),
    ("defaults: {estimators: ['decay:1h', 'decay:60m']}", 1,
     ["'decay:1h' and 'decay:60m' are the same", "without repeats"]),
    ("defaults:\n  detectors:\n  - {signal: 'decay:1h/all'}\n  - {signal: 'decay:60m/all'}", 4,
     ["detector on decay:60m/all twice"]),
    ("defaults:\n  estimators: [all, 'fading:0.9', 'fading:0.90']", 2,
     ["defaults.estimators: 'fading:0.9' and 'fading:0.90' are the same", "without repeats"]),
    ("defaults: {estimators: ['fading:1', 'fading:1e0']}", 1,
     ["'fading:1' and 'fading:1e0'", "without repeats"]),
    ("defaults:\n  stages:\n  - after:60s\n  - after:1m", 3,
     ["defaults.stages: 'after:60s' and 'after:1m' are the same", "without repeats"]),
    ("defaults: {stages: ['after:1D', final, 'after:1d']}", 1, ["are the same", "without repeats"]),
    ("defaults: {stages: ['after:1h', final, 'after:60m']}", 1,
     ["'after:1h' and 'after:60m'", "without repeats"]),
    ("defaults: {stages: ['after: 5m']}", 1, ["stage 'after: 5m'", "neither blanks nor leading zeros"]),
    ("defaults: {stages: ['after:05m']}", 1, ["stage 'after:05m'", "neither blanks nor leading zeros"]),
    ("defaults: {stages: ['after:\u0665m']}", 1, ["is no duration", "5m"]),
    # A stage beyond the horizon, wherever either comes from
    ("defaults:\n  stages: [final, 'after:30d']", 2,
     ["defaults.stages[1]: stage 'after:30d' never has outcomes", "up to after:7d"]),
    ("defaults:\n  label_horizon: 1h\n  stages:\n  - final\n  - after:60m\n  - after:3600001ms", 6,
     ["defaults.stages[2]: stage 'after:3600001ms' never", "up to after:1h"]),
    ("defaults: {label_horizon: 2h}\nstreams:\n  a: {}\n  b: {stages: ['after:3h']}", 4,
     ["streams.b.stages[0]: stage 'after:3h' never", "up to after:2h"]),
    ("defaults: {stages: ['after:3h']}\nstreams:\n  a: {}\n  b:\n    bins: 2\n    label_horizon: 90m", 6,
     ["streams.b.stages[0]: stage 'after:3h' never", "up to after:90m"]),
    # Signals of the other task, wherever either comes from, and signals that never have a value
    ("defaults:\n  detectors:\n  - {signal: error}\n  - {signal: 'all:mae'}", 4,
     ["defaults.detectors[1]: signal 'all:mae' never has a value with task classification", "kappa"]),
    ("defaults:\n  task: regression\n  detectors:\n  - {signal: 'all:kappa'}", 4,
     ["defaults.detectors[0]: signal 'all:kappa' never has a value with task regression", "mae, mse, rmse"]),
    ("defaults: {task: regression, detectors: [{signal: 'window:5:error'}]}", 1, ["'window:5:error'", "mae"]),
    ("defaults: {task: regression}\nstreams:\n  a:\n    label_at_horizon: none", 4,
     ["streams.a.label_at_horizon", "'none' is a class", "task regression", "expected task classification"]),
    (f"defaults: {{bins: 0x{'f' * 5000}}}", 1, ["defaults.bins", "digits"]),
    ("defaults: {label_at_horizon: .inf}", 1, ["label_at_horizon", "inf", "a finite number or a boolean"]),
    ("defaults: {task: regression}\nstreams:\n  a: {}\n  b: {detectors: [{signal: 'all:ece'}]}", 4,
     ["streams.b.detectors[0]: signal 'all:ece'", "task regression"]),
    ("defaults: {task: regression, detectors: [{signal: 'window:9:auc'}]}", 1, ["'window:9:auc'", "mae"]),
    ("defaults:\n  detectors:\n  - {signal: 'fading:0.9:ece'}\n  - {signal: 'fading:0.90:ece'}", 4,
     ["detector on fading:0.90:ece twice"]),
    ("defaults:\n  detectors:\n  - {signal: 'fading:.5/fading:1'}\n  - {signal: 'fading:0.5/fading:1.0'}", 4,
     ["detector on fading:0.5/fading:1.0 twice"]),
    ("defaults: {stages: [last]}", 1, ["unknown stage 'last'", "known: initial, final"]),
    ("defaults: {stages: []}", 1, ["defaults.stages: []", "at least one"]),
    ("defaults: {measures: [f3]}", 1, ["unknown measure 'f3'", "known: error, accuracy"]),
    ("defaults: {bins: 0}", 1, ["defaults.bins: 0", "an integer from 1"]),
    ("defaults: {bins: 2.5}", 1, ["defaults.bins: 2.5", "an integer from 1"]),
    ("defaults: {bins: true}", 1, ["defaults.bins: True", "an integer from 1"]),
    ("defaults: {bins: '3'}", 1, ["defaults.bins: '3'", "an integer from 1"]),
    ("defaults: {alpha: 0}", 1, ["defaults.alpha: 0", "a number from 1e-06 to 1e+06"]),
    ("defaults: {alpha: .nan}", 1, ["defaults.alpha: nan", "a number from 1e-06 to 1e+06"]),
    ("defaults: {alpha: x}", 1, ["defaults.alpha: 'x'", "a number from 1e-06 to 1e+06"]),
    ("defaults: {alpha: 9.99e-7}", 1, ["defaults.alpha: 9.99e-07", "a number from 1e-06 to 1e+06"]),
    ("defaults: {alpha: 1000001}", 1, ["defaults.alpha: 1000001", "a number from 1e-06 to 1e+06"]),
    ("defaults: {alpha: true}", 1, ["defaults.alpha: True", "a number from 1e-06 to 1e+06"]),
    ("defaults:\n  alpha: 1" + "0" * 400, 2, ["defaults.alpha", "a number from 1e-06 to 1e+06"]),
    ("defaults: {label_horizon: 7}", 1, ["7 is no duration", "7d"]),
    ("defaults: {label_horizon: 7 days}", 1, ["'7 days' is no duration", "500ms"]),
    ("defaults: {label_horizon: 0s}", 1, ["'0s'", "a duration above 0"]),
    ("defaults: {settle: -1s}", 1, ["'-1s' is no duration", "5m"]),
    ("defaults: {cluster: x}", 1, ["defaults.cluster: 'x' is no duration", ", or auto"]),
    ("defaults: {cluster: 0s}", 1, ["'0s': expected a duration above 0", ", or auto"]),
    ("defaults: {settle: null}", 1, ["None is no duration", "5m"]),
    ("defaults: {label_horizon: 999999999999999d}", 1, ["'999999999999999d'", "duration"]),
    ("defaults:\n  emit:\n    outcomes: 0", 3, ["defaults.emit.outcomes: 0", "an integer from 1"]),
    ("defaults: {emit: {every: 5}}", 1, ["defaults.emit.every: 5 is no duration", "1s"]),
    ("defaults:\n  detectors:\n  - {detector: adwim}", 3, ["unknown detector 'adwim'", "known: "]),
    ("defaults: {detectors: [{detector: [page-hinkley]}]}", 1, ["unknown detector ['page-hinkley']"]),
    ("defaults: {detectors: [{direction: up}]}", 1, ["direction: 'up'", "increase, decrease or both"]),
    ("defaults: {detectors: [{lambda: true}]}", 1, ["lambda: True", "a number above 0"]),
    ("defaults: {detectors: [{min_outcomes: 2.5}]}", 1, ["min_outcomes: 2.5", "an integer from 1"]),
    ("defaults: {detectors: [{signal: kappa}]}", 1, ["'kappa'", "ESTIMATOR:MEASURE"]),
    ("defaults: {detectors: [{signal: 'all/error'}]}", 1, ["'error'", "window:W"]),
    ("defaults: {detectors: [{signal: 'all:f3'}]}", 1, ["'all:f3'", "ESTIMATOR:MEASURE"]),
    ("defaults: {detectors: [{signal: scaled_error}]}", 1,
     ["detectors[0]: signal 'scaled_error' is for regression", "expected error"]),
    ("defaults: {task: regression}\nstreams:\n  a:\n    task: classification\n    detectors:\n"
     "    - {signal: scaled_error}", 6, ["streams.a.detectors[0]: signal 'scaled_error' is for regression"]),
    ("defaults: {detectors: [{signal: error, delta: -1}]}", 1, ["delta: -1", "at least 0"]),
    ("defaults: {detectors: [{signal: error, lambda: 0}]}", 1, ["lambda: 0", "a number above 0"]),
    ("defaults: {detectors: [{signal: error, min_outcomes: 0}]}", 1, ["min_outcomes: 0", "from 1"]),
    ("kafka: {bootstrap_servers: ''}", 1, ["kafka.bootstrap_servers", "expected"]),
    ("kafka:\n  bootstrap_servers: '  '", 2, ["bootstrap_servers is empty", "host:port"]),
    ("kafka: {bootstrap_servers: [a]}", 1, ["bootstrap_servers: ['a']", "a string"]),
    ("kafka:\n  prefix: a b", 2, ["kafka.prefix is 'a b'", "letters, digits"]),
    ("kafka: {partitions: 0}", 1, ["kafka.partitions: 0", "from 1"]),
    ("kafka: {replication: 0}", 1, ["kafka.replication: 0", "from 1"]),
    ("kafka: {group_protocol: new}", 1, ["kafka.group_protocol: 'new'", "expected classic or consumer"]),
    ("http: {port: -1}", 1, ["http.port: -1", "from 0 to 65535"]),
    ("http: {port: 65536}", 1, ["http.port: 65536", "from 0 to 65535"]),
    ("http: {host: 5}", 1, ["http.host: 5", "a string"]),
    ("http:\n  measures: [kappa, f3]", 2, ["http.measures", "unknown measure 'f3'; known: error"]),
    ("http: {measures: [kappa, kappa]}", 1, ["http.measures", "a list without repeats"]),
    ("http: {stages: [bins]}", 1, ["http.stages: no stream has 'bins'; configured: initial, f"]),
    ("http:\n  estimators: ['window:7']", 2, ["http.estimators: no stream has 'window:7'; configured"]),
    ("http: {segments: 7}", 1, ["http.segments"]),
    ("http: {series: some}", 1, ["http.series: 'some'", "needed, all or a list of groups"]),
    ("http: {series: [buckets]}", 1, ["http.series", "'buckets'", "latency_buckets, maturity, selection"]),
    ("http: {measures: kappa}", 1, ["http.measures: 'kappa'", "a list"]),
    ("limits: {models_per_stream: 0}", 1, ["limits.models_per_stream: 0", "from 1"]),
    ("limits: {classes_per_stream: 1}", 1, ["limits.classes_per_stream: 1", "from 2 to 4096"]),
    ("limits: {classes_per_stream: 65536}", 1, ["65536", "from 2 to 4096"]),
    ("limits: {classes_per_stream: 8192}", 1, ["8192: expected", "take 32 GiB"]),
    ("worker: {group: null}", 1, ["worker.group: None", "a string"]),
    ("worker: {grace: 5}", 1, ["5 is no duration", "500ms"]),
    # Comparisons
    ("defaults: {compare: some}", 1, ["defaults.compare", "'some'", "all, champion or off"]),
    ("defaults:\n  compare: champion", 2, ["champion requires defaults.champion"]),
    ("defaults: {compare_losses: [hinge]}", 1, ["'hinge'", "log_loss"]),
    ("defaults: {compare_losses: []}", 1, ["compare_losses"]),
    ("defaults:\n  compare_losses: [error, squared]", 2,
     ["compare_losses[1]", "'squared'", "classification", "error, log_loss, brier"]),
    ("streams: {a: {task: regression, compare_losses: [brier]}}", 1, ["'brier'", "error, absolute, squared"]),
    ("defaults: {compare_level: 0}", 1, ["compare_level", "0"]),
    ("defaults: {period_zone: New York}", 1, ["period_zone", "'New York'", "such as UTC or Europe/Berlin"]),
    ("defaults: {period: 1M}", 1, ["period", "'1M'", "1mo (months)"]),
    ("defaults: {period: 2629746s}", 1, ["period", "'2629746s'", "1mo"]),
    ("defaults: {label_horizon: 1mo}", 1, ["label_horizon", "'1mo'", "no fixed length", "30d"]),
    ("defaults: {week_starts: sunday}", 1, ["week_starts", "weeks begin on Monday"]),
    ("defaults: {period_zone: 5}", 1, ["period_zone", "5", "time zone"]),
    ("defaults: {mcnemar_level: 0.7}", 1, ["mcnemar_level", "0.7"]),
    ("defaults: {compare_stages: [initial]}", 1, ["'initial'", "initial/final"]),
    ("defaults:\n  compare_stages: [initial/bin:1]", 2, ["'bin:1' isn't evaluated", "initial, final"]),
    ("defaults: {compare_stages: [bin:2/final], bins: 2, stages: [bins, final]}\nstreams: {a: {bins: 1}}",
     2, ["'bin:2' isn't evaluated"]),
    ("defaults: {versions: some}", 1, ["versions", "mark or separate"]),
    ('defaults: {champion: "\\ud83d"}', 1, ["defaults.champion", "surrogate"]),
    # Not YAML, or more than this needs
    ("defaults: [", 1, ["not YAML"]),
    ("a: 1\n\tb: 2", 2, ["not YAML"]),
    ("---\n{}\n---\n{}", 3, ["another document"]),
    ("defaults: {bins: !number 5}", 1, ["!number"]),
    ("defaults:\n  bins: !!int x", 2, ["'x'"]),
    ("defaults:\n  bins: !!int", 2, ["defaults.bins"]),
    ("defaults:\n  alpha: !!float x", 2, ["'x'"]),
    ("defaults:\n  settle: !!timestamp x", 2, ["'x'"]),
    ("kafka:\n  security: !!set {a}", 2, ["kafka.security"]),
    ("defaults:\n  estimators: !!binary x", 2, ["defaults.estimators"]),
    ("defaults:\n  bins: 2020-99-99", 2, ["2020-99-99"]),
    ("streams:\n  2020-99-99: {bins: 0}", 2, ["2020-99-99"]),
    ("kafka:\n  security: {[1]: 2}", 2, ["kafka.security"]),
    ("defaults: &d {bins: 3}\nstreams: {a: {<<: *d}}", 2, ["<<"]),
    # Mappings of files
    ("files: {prediction: {}}", 1, ["'prediction' in files", "did you mean predictions?"]),
    ("files:\n  labels: 7", 2, ["files.labels: 7: expected fields and where each is found"]),
    ("files:\n  labels: []", 2, ["files.labels is an empty list"]),
    ("files:\n  labels:\n  - y_true: a\n  - y_true: a\n    ts: {path: b, unit: sec}", 5,
     ["files.labels[1]: ts.unit: 'sec': expected ms, s, us, ns, rfc3339, iso or a format such as"]),
    ("files:\n  labels:\n    y_true: {path: a, map: {1: x,\n      1: y}}", 4,
     ["files.labels has the key '1' twice"]),
    ("files:\n  labels:\n    y_true: {path: a, map: {1: x,\n      0: no}}", 4,
     ["YAML takes no for a boolean: quote it, 'no'"]),
    ("files:\n  labels:\n    y_true: {path: a, map:\n      {NO: x}}", 4, ["YAML takes NO for a boolean"]),
    ("files:\n  predictions:\n    format: xls", 3, ["format 'xls': expected csv, jsonl, parquet, arrow"]),
    ("files:\n  predictions: &p\n    segments: *p", 2, ["files.predictions is nested too deeply"]),
    ("a: \x07", 1, ["not YAML"]),
    ("a: 1\nb: \x00", 2, ["not YAML"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words"), WRONG, ids=[repr(w[0])[:60] for w in WRONG])
def test_a_mistake_is_told_with_line_offender_and_expectation(
    file: Path, text: str, line: int, words: list[str]
) -> None:
    sentence = complaint(file, text)
    assert f"line {line}:" in sentence or f"line {line} " in sentence, sentence
    for word in words:
        assert word in sentence, sentence


#: What Python takes for a number, and what is none of ours.
NO_PARAMETERS = {
    "window": (
        "1_000", "+5", " 5", "5 ", "05", "00", "0", "-5", "", "5.0", "1e3", "\u0665", "\uff15", "\u00b2",
        "5\n", "x", "nan", "inf", "0x10", "1" * 5000,
    ),
    "fading": (
        "1_0", "0.9_9", "nan", "inf", "-inf", " 0.5", "0.5 ", "+0.5", "-0.5", "-0", "00.5", "01", "1.", ".",
        "", "e5", "1e", "1e-", "0.\u0665", "\u0661", "0.5\n", "infinity", "0x1p-1", "1e-400", "1.0000001",
    ),
    "decay": (
        "", "0s", "01h", "1", "h", "1 h", " 1h", "1h ", "1h\n", "+1h", "-1h", "1.5h", "1e3s", "1_0s", "1M",
        "1y", "\u0661h", "1h30m", "3652501d", "1" * 5000 + "s",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [f"{kind}:{text}" for kind, texts in NO_PARAMETERS.items() for text in texts], ids=ascii
)
def test_what_is_no_parameter_of_an_estimator(file: Path, name: str) -> None:
    """Neither as an estimator, nor in any signal."""
    shown = json.dumps(name)
    signals = (name, f"{name}:error", f"{name}/all", f"all/{name}")
    for text in (
        f"estimators: [{shown}]", *(f"detectors: [{{signal: {json.dumps(signal)}}}]" for signal in signals)
    ):
        sentence = complaint(file, f"defaults:\n  {text}")
        assert "line 2:" in sentence
        assert repr(name)[1:-1] in sentence
        assert "expected" in sentence


@pytest.mark.parametrize(
    "name",
    [
        "window:1", "window:1000", "window:10000000", "fading:0.999", "fading:.5", "fading:1",
        "fading:1.0", "fading:9e-1", "fading:1E-05", "fading:1e-30", "decay:1ms", "decay:90m", "decay:36525d",
    ],
)  # fmt: skip
def test_parameters_of_estimators_and_their_signals(file: Path, name: str) -> None:
    signals = (name, f"{name}:error", f"{name}/all", f"all/{name}")
    detectors = ", ".join(f"{{signal: {json.dumps(signal)}}}" for signal in signals)
    config = load(file, f"defaults: {{estimators: [{json.dumps(name)}], detectors: [{detectors}]}}").defaults
    assert config.estimators == (name,)
    assert tuple(detector.signal for detector in config.detectors) == signals


def test_a_stream_of_the_other_task_takes_over_the_detectors_that_it_can_have(file: Path) -> None:
    detectors = "[{signal: 'window:50:log_loss'}, {signal: error}]"
    text = f"defaults: {{detectors: {detectors}}}\nstreams: {{s: {{task: regression}}}}"
    config = load(file, text)
    assert [one.signal for one in config.defaults.detectors] == ["window:50:log_loss", "error"]
    assert [one.signal for one in config.streams["s"].detectors] == ["error"]


def test_an_objective_of_the_defaults_is_that_of_streams_as_far_as_they_have_its_measures(file: Path) -> None:
    config = load(
        file,
        """
        defaults: {objective: {accuracy: 0.9, kappa: 0, tolerance: 0.1}}
        streams:
          narrow: {measures: [kappa]}
          numbers: {task: regression}
          own: {objective: {f1: 0.5}}
          none: {objective: null}
        """,
    )
    assert config.defaults.objective == Objective({"accuracy": 0.9, "kappa": 0.0}, 0.1)
    assert config.stream("narrow").objective == Objective({"kappa": 0.0}, 0.1)
    assert config.stream("own").objective == Objective({"f1": 0.5})
    assert config.stream("numbers").objective is config.stream("none").objective is None


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_measure_is_a_signal_where_its_task_can_have_it(file: Path, task: str, measure: str) -> None:
    """As the engine computes it: what is no measure of the task is never in `measures`."""
    estimator = Estimator("window:9", 1, 2, numbers=task == "regression")
    estimator.cells.table.cells[0, 0] = estimator.cells.table.n[0] = 8
    if task == "regression":  # what is scored of classes isn't: which measures there are is all that matters
        estimator.score()
        estimator.sums.table.sums[0, SCORED] = 8
    none = np.zeros(1, dtype=np.int32)
    positives = Positives(none, none, none, none, np.zeros(1, dtype=np.uint8))
    reasons = measured(estimator, np.zeros(1, dtype=np.int64), positives).reasons
    reason = REASONS[reasons[0, INDEX[measure]]]
    text = f"defaults: {{task: {task}, detectors: [{{signal: 'window:9:{measure}'}}]}}"
    if reason in ("not_regression", "not_classification", "not_multilabel"):
        assert f"'window:9:{measure}' never has a value with task {task}" in complaint(file, text)
    else:
        assert load(file, text).defaults.detectors[0].signal == f"window:9:{measure}"


@pytest.mark.parametrize(
    "text",
    [
        "defaults: {stages: ['after:7d', 'after:0s']}",
        "defaults: {label_horizon: 30d, stages: ['after:30d']}",
        "defaults: {label_horizon: 30d}\nstreams: {a: {stages: ['after:8d']}}",
        "defaults: {label_horizon: 1h, stages: ['after:1h']}\nstreams: {a: {label_horizon: 2h}, b: {}}",
        "defaults: {label_horizon: 1d}\nstreams: {a: {label_horizon: 9d, stages: ['after:9d', 'after:8d']}}",
        "defaults: {detectors: [{signal: 'all:kappa'}]}\n"
        "streams: {a: {task: regression, detectors: [{signal: 'all:mae'}, {signal: all}]}, b: {bins: 3}}",
        "defaults: {detectors: [{signal: 'fading:0.9', delta: 0.1}, {signal: 'fading:0.90', delta: 0.2}]}",
        "defaults: {detectors: [{signal: 'all:auc'}, {signal: 'decay:1h:pr_auc'}], alpha: 1.0e-6}",
        "defaults: {alpha: 1000000}\nstreams: {a: {alpha: 1}}",
    ],
)
def test_what_goes_together(file: Path, text: str) -> None:
    load(file, text)


@pytest.mark.parametrize("value", ["null", "auto"])
def test_clusters_have_a_length_from_the_data_unless_one_is_given(file: Path, value: str) -> None:
    config = load(file, f"defaults: {{cluster: 1d}}\nstreams: {{a: {{cluster: {value}}}}}")
    assert config.stream("a").cluster is None
    assert config.stream("b").cluster == 86_400_000


def test_a_detector_without_a_signal_watches_errors(file: Path) -> None:
    config = load(file, "defaults: {detectors: [{detector: page-hinkley, delta: 0.1, lambda: 5}]}")
    assert config.defaults.detectors == (DetectorConfig(params={"delta": 0.1, "lambda": 5.0}),)


def test_all_of_the_contract_can_be_computed() -> None:
    more = {
        "p_ran", "f2", "f0_5", "cost", "cost_total", "auc", "pr_auc", "bias", "mape", "pinball",
        "interval_coverage", "interval_width", "top_k_accuracy", "ipw_accuracy", "ipw_n",
        "mase", "rmsse", "wis", "weighted_mae", "micro_precision", "micro_recall", "micro_f1", "hamming_loss",
        "jaccard", "prevalence", "predicted_prevalence", "hit_rate_at_tolerance",
    }  # fmt: skip
    assert set(MEASURES) == {*streams.DEFAULT_MEASURES, *more}


class TestUnreadable:
    def test_files(self, tmp_path: Path) -> None:
        for path, words in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "directory")):
            with pytest.raises(ConfigError, match=words) as raised:
                load_config(str(path))
            assert repr(str(path)) in str(raised.value)

    def test_bytes_that_are_not_utf_8(self, file: Path) -> None:
        file.write_bytes("kafka: {prefix: é}".encode("latin-1"))
        with pytest.raises(ConfigError, match="not UTF-8"):
            load_config(str(file))


class TestDuration:
    @pytest.mark.parametrize(
        ("text", "milliseconds"),
        [
            ("1ms", 1), ("500ms", 500), ("1s", 1000), ("5m", 5 * MINUTE), ("2h", 120 * MINUTE),
            ("7d", 7 * DAY), ("2w", 14 * DAY), (" 5 m ", 5 * MINUTE), ("007s", 7000), ("0s", 0),
        ],
    )  # fmt: skip
    def test_units(self, text: str, milliseconds: int) -> None:
        assert duration(text) == milliseconds

    @pytest.mark.parametrize(
        "text", ["", "5", "s", "-5s", "+5s", "5M", "5 sec", "1h30m", "1.5h", "5y", "1e3s", 5, None]
    )
    def test_what_is_no_duration_is_quoted(self, text: object) -> None:
        with pytest.raises(ValueError, match=re.escape(f"{text!r} is no duration")):
            duration(text)  # type: ignore[arg-type]


#: YAML's own building blocks, to be thrown together.
_WORDS = st.sampled_from([
    "defaults", "streams", "kafka", "emit", "detectors", "signal", "error", "bins", "5", "0x1F",
    "null", "~", "true", "no", "all", "1s", "2001-01-01", "2001-99-99", "12:30", "!!int", "!x",
    "&a", "*a", "<<", "'", '"', "|", ">", "%", "@", "?", "- ", ": ", ", ", "{", "}", "[", "]",
    "#", "\n", "files", "labels", "y_true", "y_proba", "when",
    "\n  ", "\t", " ", "---", "...", ".inf", "1" * 5000, "\x07", "é", "\ufeff",
])  # fmt: skip


@settings(max_examples=150)
@given(words=st.lists(_WORDS, max_size=12))
def test_no_file_ends_in_a_traceback(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    """Whatever it holds: a configuration or one sentence."""
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text("".join(words), encoding="utf-8")
    try:
        load_config(str(path))
    except ConfigError as error:
        told = str(error)
        assert str(path) in told

"""`prequential config diff`: what differs, what happens to the state, and never a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from prequential.cli.main import main
from prequential.configfile.changes.diff import Section, compare, lines
from prequential.configfile.changes.trial import Effects, Pair, trial, trials
from prequential.configfile.reading import keys
from prequential.configuration.settings import values
from prequential.configuration.settings.by_key import OF_STREAMS, SETTINGS, setting_of
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config, WorkerConfig
from prequential.configuration.settings.streams import StreamConfig
from prequential.configuration.settings.texts import of_rest, of_stream
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import is_secret

SECRETS = (
    "hush-1",
    "hush-2",
    "alice",
    "bob",
    "env:ONE",
    "env:OTHER",
    "file:/run/one",
    "registry-1",
    "registry-2",
)


def in_this_process(pairs: Sequence[Pair]) -> list[Effects]:
    return [trial(*pair) for pair in pairs]


def said(before: Config, after: Config) -> list[str]:
    return list(lines(compare(before, after, in_this_process)))


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


# ---- what is said


def test_what_is_kept_begins_and_ends() -> None:
    before = Config(defaults=StreamConfig(detectors=()))
    after = Config(defaults=replace(before.defaults, estimators=("all", "fading:0.9"), stages=("final",)))
    found = said(before, after)
    assert found[:-2] == [
        "defaults:",
        "  estimators: without window:1000, fading:0.999; with fading:0.9",
        "    begins empty: comparison by error: estimator fading:0.9, estimator fading:0.9",
        "    ends: estimator fading:0.999, estimator window:1000",
        "  stages: without initial",
        "    ends: stage initial",
    ]
    assert found[-2] == "  kept: comparison by error, estimator all, stage final"
    assert found[-1] == f"config {before.digest[:12]} -> {after.digest[:12]} (prequential_config_info)"


def test_durations_have_their_units() -> None:
    day = 86_400_000
    before = Config(defaults=StreamConfig(label_horizon=7 * day), worker=WorkerConfig(session_timeout=10_000))
    after = Config(defaults=StreamConfig(label_horizon=day), worker=WorkerConfig(session_timeout=1_500))
    assert said(before, after)[:4] == [
        "worker.session_timeout: 10s -> 1500ms",
        "  kept; each worker uses it after its restart",
        "defaults:",
        "  label_horizon: 7d -> 1d",
    ]


def test_nothing_is_said_of_the_same() -> None:
    config = Config(streams={"elec2": StreamConfig(bins=3)})
    assert said(config, replace(config)) == []
    assert compare(config, replace(config)).same


def test_streams_that_change_alike_are_said_once() -> None:
    names = [f"s{i}" for i in range(9)]
    before = Config(streams={name: StreamConfig(bins=3) for name in names})
    after = Config(streams={name: StreamConfig(bins=3, settle=1) for name in names})
    tried: list[Pair] = []

    def note(pairs: Sequence[Pair]) -> list[Effects]:
        tried.extend(pairs)
        return [Effects() for _ in pairs]

    [section] = compare(before, after, note).sections
    assert section.names == [f"streams.{name}" for name in names]
    assert len(tried) == 1
    assert said(before, after)[0].endswith("streams.s4 and 4 more:")


def test_sections_of_streams_come_and_go() -> None:
    before = Config(streams={"old": StreamConfig(), "both": StreamConfig(settle=5)})
    after = Config(streams={"new": StreamConfig(settle=1), "both": StreamConfig(settle=5)})
    found = said(before, after)
    assert found[0] == "streams.old (no section of its own any more: `defaults` hold for it):"
    assert found[1] == "  nothing differs"
    assert found[2] == "streams.new (a section of its own; `defaults` held for it before):"
    assert found[3] == "  settle: 5m -> 1ms"


def test_another_prefix_is_another_state() -> None:
    before, after = (
        Config(),
        Config(kafka=KafkaConfig(prefix="eu."), defaults=StreamConfig(estimators=("all",))),
    )
    found = said(before, after)
    assert found[0] == 'kafka.prefix: "" -> eu.'
    assert found[1].startswith("  everything begins empty")
    assert found[2:4] == ["defaults:", "  estimators: without window:1000, fading:0.999"]
    assert len(found) == 5


def test_more_partitions_are_another_command_s() -> None:
    found = said(Config(), Config(kafka=KafkaConfig(partitions=8)))
    assert found[0] == "kafka.partitions: 4 -> 8"
    assert "`prequential topics grow`" in found[1]
    assert found[2].endswith("as before: outcomes are evaluated alike")


def test_another_group_protocol_keeps_everything() -> None:
    found = said(Config(), Config(kafka=KafkaConfig(group_protocol="consumer")))
    assert found[0] == "kafka.group_protocol: classic -> consumer"
    assert found[1].startswith("  kept; each process joins its group by it after its restart")
    assert found[2].endswith("as before: outcomes are evaluated alike")


def test_another_task_is_refused() -> None:
    found = said(
        Config(defaults=StreamConfig(detectors=())), Config(defaults=StreamConfig("regression", detectors=()))
    )
    assert found[2].startswith("  refused: stream '…' was of task classification")
    assert not any("kept" in line for line in found)


def test_what_keys_do_together_is_said() -> None:
    """A key that the engine can't take alone is tried all the same."""
    before = StreamConfig(stages=("initial", "final"), compare_stages=("initial/final",), detectors=())
    after = replace(before, stages=("final",), compare_stages=())
    [section] = compare(Config(defaults=before), Config(defaults=after), in_this_process).sections
    assert [change.key for change in section.changes] == ["stages", "compare_stages"]
    ended = {name for change in section.changes for name in change.ends} | set(section.ends)
    assert ended == {" ".join(filter(None, item)) for item in trial(before, after).ended}


def test_a_pair_that_lacks_the_champion_ends() -> None:
    before = StreamConfig(compare="all", detectors=())
    after = replace(before, compare="champion", champion="nb")
    assert ("comparison", "by error") in trial(before, after).ended
    other = replace(after, champion="tree")
    assert ("comparison", "by error") in trial(after, other).ended


@pytest.mark.parametrize("stage", ["after:5ms", "after:1d", "lead:0ms", "lead:1h", "after:1w", "lead:1w"])
def test_stages_that_only_later_labels_complete_have_state(stage: str) -> None:
    """Up to `label_horizon`, a week: a new loss begins at them, and pairs end with them."""
    before = StreamConfig(stages=("final", stage), detectors=())
    assert trial(before, replace(before, compare_losses=("brier", "error"))).begun >= {
        ("comparison", f"by brier at stage {name}") for name in before.stages
    }
    other = replace(before, stages=("final",))
    assert trial(other, before).begun >= {("stage", stage)}
    assert trial(before, other).ended >= {("stage", stage), ("comparison", "by error")}


# ---- secrets


def test_no_secret_is_shown() -> None:
    before = Config(
        kafka=KafkaConfig(
            security={"sasl.username": "alice", "sasl.password": "hush-1", "ssl.key.password": "env:ONE"},
            schema_registry={"url": "http://registry-1", "basic.auth.user.info": "alice:hush-1"},
        ),
        http=HttpConfig(token="file:/run/one"),
    )
    after = Config(
        kafka=KafkaConfig(
            security={"sasl.username": "bob", "sasl.password": "hush-2", "ssl.ca.location": "env:OTHER"},
            schema_registry={"url": "http://registry-2", "basic.auth.user.info": "bob:hush-2"},
        ),
        http=HttpConfig(token="hush-2"),
    )
    for one, other in ((before, after), (after, before), (Config(), after)):
        difference = compare(one, other, in_this_process)
        text = "\n".join(lines(difference)) + repr(difference)
        assert "kafka.security.sasl.password: " in text
        assert not [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("name", ["incidents.webhook", "incidents.webhook.secret", "http.token"])
def test_what_may_be_a_secret_is_taken_for_one(name: str) -> None:
    assert is_secret(name)


# ---- every key has its words


def test_each_key_of_streams_is_explained() -> None:
    assert set(OF_STREAMS) == set(of_stream(StreamConfig()))
    assert all(declared.change for declared in OF_STREAMS.values())
    given = {one.name for one in fields(StreamConfig) if one.compare}
    assert {key.partition(".")[0] for key in of_stream(StreamConfig())} == {
        name.partition("_")[0] if name.startswith("emit_") else name for name in given
    }


def test_each_other_key_is_explained() -> None:
    config = Config(kafka=KafkaConfig(security={"sasl.username": "me"}, schema_registry={"url": "u"}))
    known = of_rest(config)
    for key in known:
        assert setting_of(key).change
    for name in set(SETTINGS) - set(OF_STREAMS):
        covered = [key for key in known if key == name or (name.endswith(".") and key.startswith(name))]
        assert covered or name in ("files.", "ingest."), name


def _takes_durations() -> Iterator[str]:
    sections: dict[str, Any] = {
        "": keys.STREAM, "emit.": keys.EMIT, "worker.": keys.WORKER,
        "kafka.": keys.KAFKA, "limits.": keys.LIMITS, "http.": keys.HTTP,
        "notify.": keys.NOTIFY, "otlp.": keys.OTLP,
    }  # fmt: skip
    for section, parsers in sections.items():
        for key, parser in parsers.items():
            try:
                if parser("3m") == 180_000:
                    yield section + key
            except (ValueError, TypeError, AttributeError):
                pass


def test_every_duration_is_known_as_one() -> None:
    assert {key for key in SETTINGS if values.shown(key, 180_000) == "3m"} == set(_takes_durations())


# ---- the command


BEFORE = """\
http: {token: "0123456789abcdef"}
defaults: {label_horizon: 7d}
ingest:
  a: {as: labels, y_true: value.y}
"""


def test_its_status_is_that_of_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = written(tmp_path, "a.yaml", BEFORE.replace("ingest:", "\n\ningest:"))
    same = written(tmp_path, "b.yaml", BEFORE)
    assert main(["config", "diff", before, same]) == 0
    assert capsys.readouterr().out == ""
    other = written(
        tmp_path, "c.yaml", BEFORE.replace("7d", "1d").replace("0123", "9876").replace("value.y", "key")
    )
    assert main(["config", "diff", before, other]) == 1
    assert capsys.readouterr().out.splitlines()[:-1] == [
        "http.token: changed",
        "  kept; it is of /metrics and pages",
        "ingest.a: changed",
        "  kept; a new topic is read from its beginning, and others continue at their offsets",
        "defaults:",
        "  label_horizon: 7d -> 1d",
        "    kept; deadlines of pending predictions move with it",
    ]
    assert (
        main(["config", "diff", before, written(tmp_path, "d.yaml", "defaults: {label_horizon: 1}\n")]) == 2
    )
    assert "d.yaml line 1: defaults.label_horizon" in capsys.readouterr().err


def test_the_documentation_s_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "do" / "change-configuration.md").read_text(encoding="utf-8")
    block = re.search(
        r"```console\n *\$ prequential config diff now.yaml then.yaml\n(.*?)```", page, re.DOTALL
    )
    settings = re.search(r"new file is\s+`(defaults: .*?)`:\n", page)
    assert block
    assert settings
    after = written(tmp_path, "then.yaml", settings[1].replace("\n", " ") + "\n")
    assert main(["config", "diff", written(tmp_path, "now.yaml", "{}"), after]) == 1
    digest = re.compile(r"\b[0-9a-f]{12}\b")  # it isn't the same for long
    assert digest.sub("", capsys.readouterr().out) == digest.sub("", dedent(block[1]))


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = written(tmp_path, "a.yaml", "defaults: {estimators: [all], detectors: []}\n")
    after = written(tmp_path, "b.yaml", 'defaults: {estimators: [all, "decay:1h"], detectors: []}\n')
    assert main(["config", "diff", before, after, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    [section] = found["sections"]
    assert section["names"] == ["defaults"]
    assert section["changes"] == [
        {"key": "estimators", "values": ["with decay:1h"], "state": "", "ends": [],
         "begins_empty": ["comparison by error: estimator decay:1h", "estimator decay:1h"]}
    ]  # fmt: skip
    assert found["digests"][0] != found["digests"][1]


def test_trouble_isn_t_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))  # no Python can be started
    before = written(tmp_path, "a.yaml", "{}")
    assert main(["config", "diff", before, written(tmp_path, "b.yaml", "defaults: {settle: 1m}")]) == 2
    assert "what happens to the state can't be tried" in capsys.readouterr().err


def test_another_process_says_the_same() -> None:
    """Which compiles nothing."""
    pairs = [(StreamConfig(), StreamConfig(estimators=("all",), stages=("final",)))]
    assert trials(pairs) == in_this_process(pairs)


def test_sections_are_for_all_that_differs() -> None:
    assert [type(one) for one in compare(Config(), Config(worker=WorkerConfig(grace=1))).sections] == [
        Section
    ]

"""The feeder of docker-compose.yml: rounds that can be told apart, and its life."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from prequential.demo import feeder
from prequential.demo.feeder import FeederRound
from prequential.demo.stream import ModelServer, StreamPlan, build_models
from prequential.topics.clients import KafkaConfig
from processes import HANGS, eventually, read_topic, write_config

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

pytest.importorskip("river")


def test_a_round_has_ids_of_its_own_versions_and_regions() -> None:
    plan = StreamPlan(duration=20.0, seed=0, rate=50.0)
    one, other = (list(FeederRound(plan, build_models(plan), name).messages()) for name in ("r1", "r2"))
    plain = list(ModelServer(plan, build_models(plan)).messages())
    assert [(said.due_ms, said.topic) for said in one] == [(said.due_ms, said.topic) for said in plain]
    ids = [{said.fields["instance_id"] for said in messages} for messages in (one, other)]
    assert not ids[0] & ids[1]
    versions = {said.fields["model_version"] for said in one if said.topic == "predictions"}
    assert versions == {"r1"}
    regions = Counter(said.fields["segments"]["region"] for said in one if said.topic == "instances")
    assert regions.keys() == {"north", "south", "islands"}
    assert regions["islands"] / sum(regions.values()) == pytest.approx(0.03, abs=0.005)


def test_it_feeds_round_after_round_until_it_is_told_to_stop(cluster: KafkaConfig, tmp_path: Path) -> None:
    config = write_config(tmp_path, cluster)
    command = [sys.executable, "-m", feeder.__name__, "--config", str(config)]
    options = ["--rate", "40", "--minutes", "0.08"]
    with Popen([*command, *options], stderr=PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            versions: set[str] = set()

            def fed() -> bool:
                assert process.poll() is None, process.stderr and process.stderr.read()
                messages = read_topic(cluster, "predictions")
                versions.update(json.loads(message.value())["model_version"] for message in messages)
                return len(versions) >= 2 and bool(read_topic(cluster, "labels"))

            eventually("two rounds and labels", fed)
            process.terminate()
            assert process.wait(HANGS) == 0
        finally:
            process.kill()


def test_it_says_in_one_sentence_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert feeder.main(["--config", "nowhere.yaml"]) == 2
    assert capsys.readouterr().err.startswith("prequential: can't read the configuration 'nowhere.yaml'")

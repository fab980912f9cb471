"""The cases: what messages say, that the product evaluates it, what costs are told, and the command."""

from __future__ import annotations

import argparse
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prequential.configuration.settings.model import Config
from prequential.engine.shard import Shard
from prequential.topics.clients import KafkaConfig
from prequential.topics.outputs import Metrics, decoded

from tests.bench import contest, contestants, costs
from tests.bench.cases import CASES
from tests.bench.contestants import Contestant, Pace
from tests.bench.feeding import batches, feed
from tests.bench.messages import Record, generate
from tests.bench.prequential_worker import accuracy, outcomes
from tests.bench.published import Figures, Published
from tests.bench.test_peers import SIZE, plain_accuracy

pytestmark = pytest.mark.bench


def said(case: str) -> dict[str, list[dict[str, Any]]]:
    """Messages of a case by topic."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in generate(**SIZE, case=case):
        found.setdefault(record.kind, []).append(json.loads(record.value))
    return found


def evaluated(case: str, records: list[Record]) -> tuple[Shard, list[Metrics]]:
    """A shard that has seen the records, and its last messages."""
    shard = Shard(Config(defaults=CASES[case].config))
    for _ in feed(shard, iter(records), size=2_000):
        pass
    shard.last_set()
    messages, _ = shard.flush()
    return shard, [message for message in map(decoded, messages) if isinstance(message, Metrics)]


# ---- messages


def test_every_prediction_has_probabilities_and_predicts_the_likeliest_class() -> None:
    for prediction in said("y_proba")["predictions"]:
        shares = prediction["y_proba"]
        assert len(shares) == SIZE["classes"]
        assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
        assert shares[prediction["y_pred"]] == max(shares.values())


def test_every_instance_is_in_a_segment_of_each_key() -> None:
    segments = [instance["segments"] for instance in said("segments")["instances"]]
    assert {key: len({of[key] for of in segments}) for key in segments[0]} == CASES["segments"].segments


def test_a_model_predicts_several_times_and_its_last_prediction_is_its_best() -> None:
    messages = said("several")
    truth = {label["instance_id"]: label["y_true"] for label in messages["labels"]}
    times: dict[tuple[str, str], list[int]] = {}
    right: Counter[int] = Counter()
    for prediction in messages["predictions"]:
        own = times.setdefault((prediction["model"], prediction["instance_id"]), [])
        right[len(own)] += prediction["y_pred"] == truth[prediction["instance_id"]]
        own.append(prediction["ts"])
    assert {len(own) for own in times.values()} == {3}
    assert all(own == sorted(set(own)) for own in times.values())
    assert right[0] < right[1] < right[2]


def test_numbers_are_predicted_by_numbers() -> None:
    messages = said("regression")
    assert all(type(label["y_true"]) is float for label in messages["labels"])
    assert all(type(prediction["y_pred"]) is float for prediction in messages["predictions"])


@pytest.mark.parametrize("case", [name for name, about in CASES.items() if about.rate == CASES["plain"].rate])
def test_a_case_has_the_instances_and_labels_of_the_plain_one_at_their_times(case: str) -> None:
    def when(kind: str, of: str) -> list[tuple[str, int]]:
        return [(message["instance_id"], message["ts"]) for message in said(of)[kind]]

    assert when("instances", case) == when("instances", "plain")
    assert when("labels", case) == when("labels", "plain")


# ---- the product


@pytest.mark.parametrize("case", CASES)
def test_the_product_takes_all_of_it(case: str) -> None:
    shard, _ = evaluated(case, list(generate(**SIZE, case=case)))
    assert shard.state.dead_letters == [0, 0, 0]
    assert outcomes([shard]) == SIZE["instances"] * (CASES[case].models or SIZE["models"])


def test_the_product_says_what_a_plain_loop_says() -> None:
    records = list(generate(**SIZE))
    shard, _ = evaluated("plain", records)
    assert accuracy([shard]) == plain_accuracy(records)


def test_numbers_have_no_accuracy() -> None:
    shard, _ = evaluated("regression", list(generate(**SIZE, case="regression")))
    assert accuracy([shard]) == {}


@pytest.mark.nightly
def test_each_case_makes_the_product_evaluate_what_it_is_about() -> None:
    last = {case: evaluated(case, list(generate(30_000, case=case)))[1] for case in ("plain", *CASES)}
    plain = last["plain"]
    assert {(message.segment, message.period) for message in plain} == {(None, plain[0].period)}
    assert "log_loss" in plain[0].undefined
    assert all("log_loss" in message.measures for message in last["y_proba"])
    assert {message.segment.partition("=")[0] for message in last["segments"] if message.segment} == {
        "region", "device",
    }  # fmt: skip
    assert {"bin:1", "bin:2", "bin:3"} < {message.stage for message in last["several"]}
    assert len({message.estimator for message in last["period"] if message.stage == "period"}) > 1
    assert all("mae" in message.measures for message in last["regression"])


# ---- what it costs


@pytest.mark.parametrize("case", CASES)
def test_costs_are_those_of_all_steps(case: str) -> None:
    # Of each case a stream has more than the 1,000 outcomes after which a message is due.
    result = costs.measure(case, streams=2, records=20_000)
    steps = [result[f"{step}_us"] for step in ("decoding", "joining", "reporting", "encoding")]
    assert min(steps) > 0
    assert result["us"] == pytest.approx(sum(steps))
    assert result["messages"] > 0
    assert result["dead_letters"] == 0
    assert case in costs.line(result)


def test_what_incidents_cost_can_be_left_out() -> None:
    with_them, without = (costs.measure("plain", 3, 20_000, incidents=one) for one in (True, False))
    assert costs.line(without).startswith("plain - ")
    assert without["messages"] <= with_them["messages"]
    assert without["outcomes"] == with_them["outcomes"]


def test_an_observer_is_as_before_when_all_records_are_through() -> None:
    shard = Shard(Config())
    before = dict(vars(shard.observer))
    for _ in feed(shard, generate(**SIZE)):
        pass
    assert vars(shard.observer).keys() == before.keys()


# ---- the command


def test_with_a_case_of_its_own_the_worker_takes_part_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert contest.main(["--case", "segments", "--only", "loop"]) == 2
    assert "--case segments is for the worker alone: not with --only loop" in capsys.readouterr().err


#: What contestants publish: those that are named have other figures.
FIGURES: Figures = {("s-0", 1_000): array("d", [0.5])}


class Played(list[tuple[str, str, str]]):
    """What would have been loaded and run."""

    strange: str | None = None


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    """Every contestant but those of `period` and Kafka Streams takes a second."""
    done = Played()

    @contextmanager
    def cluster(args: argparse.Namespace) -> Iterator[KafkaConfig]:
        yield KafkaConfig("nowhere:9092")

    def load(kafka: KafkaConfig, args: argparse.Namespace, instances: int, case: str) -> Any:
        done.append(("load", case, str(instances)))
        return kafka, 4 * instances

    def run(who: Contestant, kafka: KafkaConfig, records: int, pace: Pace | None = None) -> Any:
        done.append(("run", who.case, who.name))
        slow = 4 if who.case == "period" else 1
        result = {
            "peer": who.name, "case": who.case, "records": records, "outcomes": 7, "peak_rss_mb": 100.0,
            "events_per_second": 1000 / slow, "cpu_us_per_event": 2.0 * slow, "outputs": who.name,
        }  # fmt: skip
        if who.name != "streams":
            return {who.name: result}
        cold = {**result, "events_per_second": 250.0}
        return {"streams-cold": cold, "streams": {**result, "events_per_second": 500.0}}

    def published(kafka: KafkaConfig, metrics: str, others: Iterable[str] = ()) -> Published:
        figures = {**FIGURES, ("s-0", 2_000): array("d", [0.5])} if metrics == done.strange else FIGURES
        return Published(3, 3_000_000, figures)

    monkeypatch.setattr(contest, "_cluster", cluster)
    monkeypatch.setattr(contest, "_load", load)
    monkeypatch.setattr(contest, "_forget_worker", lambda kafka: None)
    monkeypatch.setattr(contest, "published", published)
    monkeypatch.setattr(contestants, "run", run)
    return done


def test_plain_and_the_case_take_turns(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert contest.main(["--case", "period", "--rounds", "2", "--instances", "50", "--json"]) == 0
    assert played == [
        ("load", "plain", "50"), ("run", "plain", "plain"),
        ("load", "period", "50"), ("run", "period", "period"),
        ("run", "period", "period"), ("run", "plain", "plain"),
    ]  # fmt: skip
    period, plain = json.loads(capsys.readouterr().out)["results"]
    assert (plain["case"], plain["ratio"], plain["cpu_ratio"]) == ("plain", 1, 1)
    assert (period["case"], period["ratio"], period["cpu_ratios"]) == ("period", 0.25, [4, 4])


def test_the_ratio_is_printed(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert contest.main(["--case", "period"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "period" in line)
    assert "0.25x" in row
    assert "4.00x" in row


PEERS_HERE = [word for name in ("prequential", "streams", "loop") for word in ("--only", name)]


def test_peers_take_part_and_who_goes_first_changes(
    played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    assert contest.main([*PEERS_HERE, "--rounds", "3", "--instances", "50", "--json"]) == 0
    assert [name for what, _, name in played if what == "run"] == [
        "prequential", "streams", "loop",
        "streams", "loop", "prequential",
        "loop", "prequential", "streams",
    ]  # fmt: skip
    assert [what for what, *_ in played].count("load") == 1
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["results"]}
    assert list(found) == ["prequential", "streams", "streams-cold", "loop"]
    assert [one["ratio"] for one in found.values()] == [1, 2, 4, 1]
    assert {(one["messages"], one["megabytes"]) for one in found.values()} == {(3, 3.0)}


def test_who_publishes_something_else_is_no_peer(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    played.strange = "loop"
    assert contest.main([*PEERS_HERE, "--instances", "50"]) == 1
    assert (
        "prequential and loop have published different figures: 0 messages that the other hasn't, such as "
        "('s-0', 2000); 1 the other way round" in capsys.readouterr().err
    )


def test_batches_are_by_topic_and_offsets_go_on() -> None:
    offsets = [5, 0, 0]
    found = batches(list(generate(10)), offsets)
    assert [(kind, span, len(own)) for kind, span, own in found] == [
        (0, range(5, 15), 10), (1, range(20), 20), (2, range(10), 10),
    ]  # fmt: skip
    assert offsets == [15, 20, 10]

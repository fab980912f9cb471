"""What `prequential status` calls a problem, in which order, and with the words of the overview."""

from __future__ import annotations

from typing import Any

import pytest
from prequential.configfile.reading.reader import load_config
from prequential.topics.marks import IncidentMark, Mark
from prequential.views.answers.cluster import ClusterStatus
from prequential.views.dashboard.overview import Overview
from prequential.views.state.history import History
from prequential.views.state.ranking import Choice
from prequential.views.watching.group import GroupMember, InputProgress, WorkerGroup
from watched import LABELLED, incident, metrics

NOW = LABELLED + 1_000
INPUTS = ("instances", "predictions", "labels")


def input_of(topic: str, partition: int, **changed: Any) -> InputProgress:
    fields = {"committed": 100, "begin": 0, "end": 100, "published_at": NOW - 2_000, "oldest": None}
    return InputProgress(topic, partition, **{**fields, **changed})


def group(members: list[GroupMember] | None, *changed: InputProgress) -> WorkerGroup:
    """A group of two shards; `changed` inputs are in place of those that lack nothing."""
    replaced = {(one.topic, one.partition): one for one in changed}
    places = [(topic, number) for number in range(2) for topic in INPUTS]
    return WorkerGroup("g", members, [replaced.get(place) or input_of(*place) for place in places])


WHOLE = [GroupMember("10.0.0.1", None, (0,)), GroupMember("10.0.0.2", "second", (1,))]


def history_of(*values: bytes) -> History:
    history = History(load_config(None))
    for value in values:
        history.update("incidents" if b'"revision"' in value else "metrics", value, LABELLED)
    return history


def status_of(workers: WorkerGroup, *values: bytes, mark: Mark | None = None, most_lag: int = 300_000) -> Any:
    history = history_of(*values)
    if mark is not None:
        history.marks.add(IncidentMark("0a1b2c3d4e5f", mark, "anna", 1))
    return ClusterStatus(workers, history, NOW, most_lag)


def kinds(workers: WorkerGroup, *values: bytes, **options: Any) -> list[str]:
    return [problem.kind for problem in status_of(workers, *values, **options).problems]


WELL = {"measures": {"accuracy": 0.81, "kappa": 0.6}}


def test_nothing_is_wrong() -> None:
    status = status_of(group(WHOLE), metrics(**WELL))
    assert status.as_json()["ok"]
    assert [shard["worker"] for shard in status.as_json()["shards"]] == ["10.0.0.1", "second"]
    lines = list(status.lines())
    assert lines[0].endswith("group g: nothing is wrong")
    assert lines[-1] == "models     No model needs attention"


def test_no_worker_has_ever_run_or_none_runs_now() -> None:
    empty = [input_of(topic, number, committed=None, end=0) for number in range(2) for topic in INPUTS]
    assert kinds(group([], *empty)) == ["never_run"]
    assert kinds(group([], *empty), metrics(**WELL))[0] == "no_worker"  # its offsets have expired
    assert kinds(group([]))[0] == "no_worker"
    assert kinds(group(None)) == []  # the cluster doesn't tell


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"end": 110, "oldest": NOW - 10_000_000}, []),  # a few: markers of transactions count as records
        ({"end": 200, "oldest": NOW - 1_000}, []),
        ({"end": 200, "oldest": NOW - 301_000}, ["behind"]),
        ({"end": 200, "oldest": None}, []),  # unreadable
        ({"end": 200, "oldest": NOW - 301_000, "published_at": NOW - 400_000}, ["behind"]),
        ({"begin": 130, "end": 200, "oldest": NOW}, ["lost_records"]),
    ],
)
def test_lag_of_one_partition(changed: dict[str, Any], expected: list[str]) -> None:
    assert kinds(group(WHOLE, input_of("labels", 1, **changed))) == expected


def test_a_shard_that_publishes_nothing_is_stuck() -> None:
    old = [input_of(topic, 1, end=200, oldest=NOW - 301_000, published_at=NOW - 400_000) for topic in INPUTS]
    status = status_of(group(WHOLE, *old))
    assert [problem.kind for problem in status.problems] == ["stuck"]
    assert "published nothing for 6 min" in status.problems[0].sentence
    assert status.as_json()["lag"] == {"records": 300, "seconds": 301.0}


def test_a_shard_without_a_worker_is_named() -> None:
    assert kinds(group(WHOLE[:1], input_of("labels", 1, end=200, oldest=NOW - 400_000))) == ["unassigned"]


@pytest.mark.parametrize(
    ("mark", "expected"), [(None, ["worse"]), ("acknowledged", ["worse"]), ("expected", []), ("false", [])]
)
def test_a_model_needs_attention_in_the_words_of_the_overview(
    mark: Mark | None, expected: list[str]
) -> None:
    values = metrics(**WELL), incident(grade="lasting")
    status = status_of(group(WHOLE), *values, mark=mark)
    assert [problem.kind for problem in status.problems] == expected
    [needed] = Overview(history_of(*values), live=True).page(Choice(), NOW)["needs"]
    if expected:
        sentence = f"elec2/nb: {needed['status']['word']}. {needed['status']['sentence']}"
        assert status.problems[0].sentence == sentence
        assert status.problems[0].next == needed["status"]["next"]
    assert [(entry["grade"], entry["mark"]) for entry in status.as_json()["incidents"]] == [("lasting", mark)]


def test_the_most_important_problem_comes_first() -> None:
    late = input_of("labels", 0, end=200, oldest=NOW - 400_000)
    lost = input_of("labels", 1, begin=130)
    assert kinds(group(WHOLE, late, lost), metrics(**WELL), incident()) == ["lost_records", "behind", "worse"]


def test_a_stream_in_several_partitions_names_each() -> None:
    """In the words of the dashboard; a stream in one partition has no such words."""
    own = [incident(id=f"{number}a1b2c3d4e5f", partition=number, grade="lasting") for number in range(2)]
    values = [metrics(partition=number, **WELL) for number in (-1, 0, 1)]
    status = status_of(group(WHOLE), *values, *own)
    places = [f"(partition {number} alone)" for number in range(2)]
    named = [[place for place in places if place in problem.sentence] for problem in status.problems]
    assert sorted(named) == [[place] for place in places]
    assert sum(place in line for line in status.lines() for place in places) == 4
    assert {entry["partition"] for entry in status.as_json()["incidents"]} == {0, 1}
    assert not any("alone" in line for line in status_of(group(WHOLE), metrics(**WELL), own[0]).lines())


def test_names_are_data() -> None:
    name = "x\x1b[31m\nok: nothing is wrong"
    lines = list(status_of(group(WHOLE), metrics(stream=name), incident(stream=name)).lines())
    assert not any("\x1b" in line or "\n" in line for line in lines)

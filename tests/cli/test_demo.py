"""`prequential demo`: its stream, what the engine finds in it, and a real run."""

from __future__ import annotations

import io
import sys
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from statistics import median

import pytest
from boards import comparison, incident, metrics
from prequential.cli.main import main
from prequential.demo.flights import FlightSource
from prequential.demo.screen import (
    DemoBoard,
    compared,
    detected,
    drift,
    incident_lines,
    progress,
    recent_lines,
    table,
    totals,
    worth,
)
from prequential.demo.source import Feed
from prequential.demo.stream import (
    AGES,
    HISTORY,
    HORIZON,
    STREAM,
    Arrival,
    ModelServer,
    StreamPlan,
    Truth,
    build_models,
    events,
    observations,
)
from prequential.demo.worker import Readings
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prequential.views.wording.console import say
from rich.console import Console

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

pytest.importorskip("river")

ROOT = Path(__file__).parents[2]

PLAN = StreamPlan(duration=30.0, seed=0)


# ---- the stream


def test_the_same_plan_gives_the_same_events_and_another_seed_others() -> None:
    first, again, other = (list(islice(events(StreamPlan(30.0, seed)), 3000)) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_events_come_in_order_of_time_and_end_with_the_plan() -> None:
    times = [event.moment for event in events(PLAN)]
    assert times == sorted(times)
    assert times[0] >= 0
    assert PLAN.duration * 1000 - 100 < times[-1] <= PLAN.duration * 1000


def test_instances_are_numbered_and_come_at_the_planned_rate() -> None:
    numbers = [event.number for event in events(PLAN) if isinstance(event, Arrival)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) == pytest.approx(PLAN.duration * PLAN.rate, rel=0.05)


def test_labels_come_late_and_some_never_too_late_twice_or_revised() -> None:
    plan = StreamPlan(duration=90.0, seed=3)
    arrivals = {event.number: event.moment for event in events(plan) if isinstance(event, Arrival)}
    truths: dict[int, list[Truth]] = {}
    for event in events(plan):
        if isinstance(event, Truth):
            truths.setdefault(event.number, []).append(event)
    over = [number for number, at in arrivals.items() if at < (plan.duration - 30) * 1000]
    fates = Counter(_fate(arrivals[number], truths.get(number, [])) for number in over)
    for fate, share in {"never": 0.01, "late": 0.003, "again": 0.01, "revised": 0.01}.items():
        assert fates[fate] / len(over) == pytest.approx(share, rel=0.5), fate
    delays = sorted(truths[number][0].moment - arrivals[number] for number in over if number in truths)
    assert delays[0] > 0
    assert 1_300 < median(delays) < 3_000
    assert delays[-1] > HORIZON


def _fate(came: int, truths: list[Truth]) -> str:
    if not truths:
        return "never"
    assert [truth.first for truth in truths] == [True] + [False] * (len(truths) - 1)
    if len(truths) > 1:
        return "again" if truths[0].y == truths[1].y else "revised"
    return "late" if truths[0].moment - came > HORIZON else "once"


def test_labels_depend_on_those_before_them() -> None:
    labels = [y for _, y in islice(observations(PLAN), 5000)]
    assert Counter(labels).most_common(1)[0][1] / len(labels) < 0.65
    assert sum(a == b for a, b in pairwise(labels)) / len(labels) > 0.8


def test_the_concept_changes_at_the_drift_and_only_there() -> None:
    """A model trained before the drift is as good just before it as ever, and fails right after it."""
    model = build_models(PLAN)["static-bayes"]
    stream = islice(observations(PLAN), HISTORY, HISTORY + 2 * PLAN.drift)
    right = [model.predict(x) == y for x, y in stream]
    early, before, after = (
        sum(part) / 1000
        for part in (
            right[:1000],
            right[PLAN.drift - 1001 : PLAN.drift - 1],
            right[PLAN.drift - 1 : PLAN.drift + 999],
        )
    )
    assert min(early, before) > 0.85
    assert after < 0.78


def test_a_model_that_learns_gets_over_the_drift() -> None:
    models = build_models(PLAN)
    learning = models["logistic"]
    right = []
    for x, y in islice(observations(PLAN), HISTORY, HISTORY + 2 * PLAN.drift):
        right.append(learning.predict(x) == y)
        learning.learn(x, y)
    assert sum(right[-1000:]) / 1000 > 0.88


def test_without_river_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "river"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(WorkError, match=r"pip install 'prequential\[demo\]'"):
        build_models(PLAN)


# ---- the model server


class Parrot:
    """A model that always says the same, and remembers what it was taught."""

    def __init__(self, *, learns: bool = True) -> None:
        self.learned: list[str] = []
        self.learns = learns

    def predict(self, x: object) -> str:
        return "UP"

    def learn(self, x: object, y: str) -> None:
        self.learned.append(y)


def test_the_server_predicts_until_the_label_comes_and_learns_from_the_first() -> None:
    model = Parrot()
    server = ModelServer(PLAN, {"parrot": model})  # type: ignore[dict-item]
    predicted: Counter[int] = Counter()
    labelled: dict[int, int] = {}
    for at, topic, fields in server.messages():
        number = fields["instance_id"]
        if topic == "predictions":
            assert number not in labelled, f"{number} has a label since {labelled[number]} ms, now {at}"
            predicted[number] += 1
        elif topic == "labels":
            labelled.setdefault(number, at)
    assert set(predicted.values()) == set(range(1, 2 + len(AGES)))
    assert len(predicted) == server.instances
    assert len(model.learned) == len(labelled)
    assert server.labels > len(labelled)  # some came twice
    assert len(labelled) - 20 < server.outcomes < len(labelled)  # some came too late


def test_models_that_learn_are_asked_again_while_the_label_is_awaited() -> None:
    """At each age that an instance gets to without its label; a model that doesn't learn only once."""
    models = {"learning": Parrot(), "static": Parrot(learns=False)}
    server = ModelServer(PLAN, models)  # type: ignore[arg-type]
    came: dict[int, int] = {}
    ages: dict[str, dict[int, list[int]]] = {name: {} for name in models}
    labelled: dict[int, int] = {}
    for at, topic, fields in server.messages():
        number = fields["instance_id"]
        if topic == "instances":
            came[number] = at
        elif topic == "predictions":
            ages[fields["model"]].setdefault(number, []).append(at - came[number])
        else:
            labelled.setdefault(number, at - came[number])
    end = PLAN.duration * 1000 - 200  # ms: far enough from it that every age is noticed
    for number, at in came.items():
        until = min(labelled.get(number, HORIZON), end - at)
        assert ages["static"][number] == [0]
        first, *again = ages["learning"][number]
        assert first == 0
        for age, planned in zip(again, AGES, strict=False):
            assert planned <= age <= planned + 100  # an event comes every few milliseconds
        assert len(again) >= sum(age + 100 < until for age in AGES)


# ---- the summary


def _metrics(model: str, stage: str, estimator: str, outcomes: int, accuracy: float) -> bytes:
    about = {"stream": STREAM, "model": model, "stage": stage, "estimator": estimator, "n": outcomes}
    return metrics(outcomes, accuracy, **about).value or b""


def test_the_summary_says_what_the_labels_that_arrived_meanwhile_were_worth() -> None:
    server = ModelServer(PLAN, {"nb": Parrot(), "old": Parrot(learns=False)})  # type: ignore[dict-item]
    board = DemoBoard(STREAM)
    assert worth(board, server) == []
    for model, stage, accuracy in (("nb", "initial", 0.8996), ("nb", "final", 0.9104), ("old", "final", 0.7)):
        board.update("metrics", _metrics(model, stage, "all", 2500, accuracy))
    whole = "nb: accuracy 0.900 initial, 0.910 final: predicting again before the label added 0.010"
    assert worth(board, server) == [whole]
    for outcomes, initial, final in ((2400, 0.9, 0.9), (2500, 0.72, 0.78), (2600, 0.8, 0.8)):
        board.update("metrics", _metrics("nb", "initial", "window:1000", outcomes, initial))
        board.update("metrics", _metrics("nb", "final", "window:1000", outcomes, final))
    server.drift_outcome = 1450
    assert worth(board, server) == [whole, "in the 1,000 outcomes after the drift it added 0.060 to nb"]


def test_the_summary_says_which_model_is_better() -> None:
    server = ModelServer(PLAN, {"nb": Parrot()})  # type: ignore[dict-item]
    board = DemoBoard(STREAM)
    assert compared(board, server) == []
    for stream, stage in ((STREAM, "initial"), (STREAM, "final"), ("another", "final")):
        for estimator, difference in (("all", 0.031), ("window:1000", 0.5)):
            about = {"stream": stream, "stage": stage, "estimator": estimator}
            message = comparison(measures={"difference": difference}, **about)
            board.update("comparisons", message.value)
    _, line = compared(board, server)
    assert line == (
        "  final: tree beats nb over the whole run: "
        "error lower by 0.031 (0.012 to 0.050), since outcome 712 of 4,000 at 95% confidence"
    )


def test_what_is_printed_plainly_has_no_line_end_within_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    server = ModelServer(PLAN, {"nb": Parrot()})  # type: ignore[dict-item]
    board = DemoBoard(STREAM)
    board.update("incidents", incident(stream=STREAM).value)
    [shown] = board.incidents
    lines = incident_lines(shown, server)
    assert lines[0].startswith("INCIDENT open: nb, ")
    assert lines[1] == "  from outcome 4,800: segment country=fr (70%), concept (30%); 1 alarm"
    for line in [*lines, *detected(board, server), *totals(board, server), *recent_lines(board)]:
        say(line)
    assert "\ufffd" not in capsys.readouterr().out


def test_the_table_fits_a_terminal_of_80_columns() -> None:
    server = ModelServer(PLAN, {"adaptive-tree": Parrot()})  # type: ignore[dict-item]
    board = DemoBoard(STREAM)
    for stage in ("initial", "final"):
        board.update("metrics", _metrics("adaptive-tree", stage, "window:1000", 12_700, 0.9))
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(table(board, server, console))
    text = console.export_text()
    assert "…" not in text
    assert "after 12,700 outcomes; at drift: 1,000 from it on; latest: the last 1,000" in text


def test_lines_about_the_run_fit_a_terminal_of_80_columns() -> None:
    server = ModelServer(PLAN, {"adaptive-tree": Parrot()})  # type: ignore[dict-item]
    board = DemoBoard(STREAM)
    for model in ("static-bayes", "logistic", "adaptive-tree"):
        for stage in ("initial", "final") if model != "static-bayes" else ("final",):
            board.update("metrics", _metrics(model, stage, "window:1000", 12_700, 0.9))
    assert len(recent_lines(board)) == 2
    server.instances, server.labels = 118_000, 117_500
    feed = Feed(server, KafkaConfig("unused:9092"))
    feed.due_seconds = 3_600.0
    lines = [f"  {line}" for line in recent_lines(board)]
    for behind, latency in ((0.0, None), (0.0, 12.3), (120.0, 12.3)):
        feed.behind, board.readings = behind, Readings(0, 11_234, 0, latency)
        lines.append(progress(board, feed))
    assert all(len(line) <= 80 for line in lines), lines


@pytest.mark.parametrize(
    ("given", "said"),
    [("1s", "--duration is 1: expected 10 to 3600 seconds"), ("2h", "--duration is 7200: expected"),
     ("ten", "'ten': expected seconds, such as 90, 90s or 2m"), ("nan", "--duration is nan: expected")],
)  # fmt: skip
def test_a_wrong_duration_is_quoted(given: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["demo", "--duration", given])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2
    assert said in capsys.readouterr().err


# ---- flights


def test_flights_come_in_their_order_at_the_speed_that_one_chooses() -> None:
    source = FlightSource(speed=7 * 86_400_000)
    messages = list(source.messages())
    assert source.duration == pytest.approx(50, abs=1)  # 350 days
    assert [message.due_ms for message in messages] == sorted(message.due_ms for message in messages)
    assert (source.instances, len(messages)) == (14_886, 2 * 14_886 + source.labels)
    assert 14_000 < source.labels < 14_886  # cancelled flights have none
    first = messages[0].fields["ts"]
    for message in messages[:: len(messages) // 100]:
        assert message.due_ms == pytest.approx((message.fields["ts"] - first) / 604_800, abs=1)
    assert source.position == "2014-01-01"  # the last flights land after midnight in UTC


def test_flights_have_a_table_without_a_drift() -> None:
    source, board = FlightSource(speed=86_400_000), DemoBoard("flights")
    value = metrics(2_000, 0.8, stream="flights", model="daily", stage="final", estimator="window:1000", n=1)
    board.update("metrics", value.value)
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(table(board, source, console))
    text = console.export_text()
    assert "daily" in text
    assert "drift" not in text
    assert drift(source) == ""
    assert detected(board, source) == ["0 alarms, 0 incidents"]
    assert "came after 7d and were dropped" in totals(board, source)[1]


@pytest.mark.parametrize(
    ("given", "said"),
    [(("--speed", "1d"), "--speed is for --data flights"),
     (("--data", "flights", "--seed", "3"), "--seed is for --data drift"),
     (("--data", "flights", "--speed", "0s"), "--speed is")],
)  # fmt: skip
def test_an_option_of_the_other_stream_is_refused(
    given: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["demo", *given])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2
    assert said in capsys.readouterr().err

"""What messages about periods say of their final values: fields, intervals, other configurations."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import metrics_of
from oracle_cases import inst, lab, pred
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import Objective
from prequential.engine.compiled.pool import find
from prequential.engine.delay.calibrating import EXPECTED, SCALE, WAITING
from prequential.engine.delay.expected import open_rows
from prequential.engine.delay.records import BEFORE_END, maturity_of
from prequential.engine.expectations import miss
from prequential.engine.measures.registry import INDEX, MEASURES
from prequential.offline.replay.summary import Account
from prequential.offline.replay.text import expected_lines
from prequential.runtime.worker.series import EXPECTED_FAMILIES, add_expectations
from prequential.topics.decoding import KINDS
from prequential.topics.outputs import Metrics
from prequential.views.wording.expected import period_in_words
from test_between_lives import Lives

from tests.one_model import graded, look

PERIOD = {"period": 1_000, "emit_every": 500, "label_horizon": 2_800, "emit_outcomes": None}


def records(start: int, stop: int) -> list[Any]:
    """Ten predictions a second; labels come within two seconds, one in ten never."""
    rng, found = random.Random(5), []
    for i in range(stop):
        ts, guess = 1_000 + 100 * i, rng.choice("ab")
        label = guess if rng.random() < 0.8 else rng.choice("ab")
        came, missing = ts + 50 + int(rng.expovariate(1 / 600)), rng.random() < 0.1
        if i >= start:
            found.append((ts, pred(i, ts, guess, y_proba={guess: 0.75, "ab".replace(guess, ""): 0.25})))
            if not missing and came < ts + 2_500:
                found.append((came, lab(i, came, label)))
    return [record for _, record in sorted(found, key=lambda one: one[0])]


def periods_of(outputs: Any) -> list[Metrics]:
    return [one for one in metrics_of(outputs) if one.period is not msgspec.UNSET]


def test_provisional_messages_say_what_is_expected_and_final_ones_do_not() -> None:
    lives = Lives(**PERIOD, measures=("accuracy", "kappa", "p_per", "log_loss", "f1"))
    found = periods_of(lives.go(*records(0, 400)))
    finals = {one.period["start"]: one for one in found if one.period["status"] == "final"}  # type: ignore[index]
    assert len(finals) > 25
    assert all(one.expected is msgspec.UNSET for one in finals.values())
    provisional = [one for one in found if one.period["status"] == "provisional"]  # type: ignore[index]
    graded = Counter[bool]()
    for one in provisional:
        said: Any = one.expected
        assert said["predictions"] == one.period["predictions"]  # type: ignore[index]
        assert set(said["measures"]) == {"accuracy", "kappa", "log_loss"} - set(said["undefined"])
        assert said["undefined"]["p_per"] == "not_estimated"
        assert said["undefined"]["f1"] == "no_positive_class"
        assert 0 <= said["correction"] <= 1
        assert said["maturity"] in (None, 0, 1 / 28, 1 / 14, 3 / 14, 1 / 2)
        before_end = said["maturity"] is None
        for own in said["measures"].values():
            if own["record"] is None:
                assert "interval" not in own
                continue
            graded[before_end] += 1
            assert own["interval"][0] <= own["value"] <= own["interval"][1]
            assert own["level"] == 0.9
            assert 20 <= own["record"]["finals"] <= 50
    assert min(graded[True], graded[False]) > 10
    assert len({one.id for one in found}) == len(found)


@pytest.mark.parametrize(("p", "low", "high"), [(0.95, 0.9, 1.0), (0.55, 0.3, 0.7)])
def test_what_waits_is_as_right_as_what_was_as_sure(p: float, low: float, high: float) -> None:
    """The model is right where it is sure, else half of the time. In the last second it says `p`."""
    found: list[Any] = []
    for i in range(120):
        ts, sure = 1_000 + 100 * i, i % 2 == 0 if i < 110 else p == 0.95
        own = 0.95 if sure else 0.55
        found.append((ts, pred(i, ts, "a", y_proba={"a": own, "b": 1 - own})))
        found.append((ts + 1_500, lab(i, ts + 1_500, "a" if sure or i % 4 == 1 else "b")))
    until = [record for ts, record in sorted(found, key=lambda one: one[0]) if ts <= 13_000]
    newest = periods_of(Lives(**PERIOD).go(*until, inst("x", 13_600)))[-1]
    said: Any = newest.expected
    assert (newest.period["start"], said["predictions"]) == (12_000, 10)  # type: ignore[index]
    assert low < said["measures"]["accuracy"]["value"] <= high


def sampled(start: int, stop: int) -> list[Any]:
    """As `records`, but one in four instances gets no label, and all say how probable one is."""
    found = [one for one in records(start, stop) if one[0] != "labels" or int(one[1]["instance_id"]) % 4]
    instances = [inst(i, 1_000 + 100 * i, label_propensity=0.75) for i in range(start, stop)]
    return sorted(found + instances, key=lambda one: (one[2], KINDS.index(one[0])))


WEIGHTED = PERIOD | {"measures": ("accuracy", "ipw_accuracy", "log_loss")}


def test_of_a_sample_also_the_final_message_says_what_is_expected_of_all() -> None:
    found = periods_of(Lives(**WEIGHTED).go(*sampled(0, 400)))
    finals = {one.period["start"]: one for one in found if one.period["status"] == "final"}  # type: ignore[index]
    assert len(finals) > 25
    intervals = 0
    for one in finals.values():
        # Only the horizon says that no more labels come.
        assert one.period["labelled"] < 9  # type: ignore[index]
        said: Any = one.expected
        assert said["predictions"] == 10
        assert set(said["measures"]) == {"accuracy"}
        assert said["undefined"] == {"ipw_accuracy": "not_estimated", "log_loss": "not_estimated"}
        assert "ipw_accuracy" in one.measures
        intervals += "interval" in said["measures"]["accuracy"]
    assert intervals >= 3


def test_a_whole_period_has_signals_once_at_each_maturity() -> None:
    for records_of, settings in ((records, PERIOD), (sampled, WEIGHTED)):
        found = periods_of(Lives(**settings).go(*records_of(0, 500)))
        said: list[Any] = [one.expected for one in found if one.expected is not msgspec.UNSET]
        signals = [one["signals"] for one in said if "signals" in one]
        assert 80 < len(signals) < len(said)
        assert all(list(one) == ["concept", "delays", "inputs"] for one in signals)
        for name in ("delays", "inputs"):
            values = [one[name] for one in signals]
            assert values[0] is None
            assert sum(value is not None for value in values) >= 10


def test_an_objective_is_missed_with_a_probability() -> None:
    objective = Objective({"accuracy": 0.8, "kappa": 0.9}, tolerance=0.05)
    found = periods_of(Lives(**PERIOD, objective=objective).go(*records(0, 400)))
    chances = []
    for one in found:
        for name, own in one.expected["measures"].items() if one.expected is not msgspec.UNSET else ():
            assert ("miss" in own) == (name in objective.bounds and "interval" in own)
            if "miss" in own:
                low = own["interval"][0]
                assert 0 <= own["miss"] <= 1
                # Half of the interval's misses are on the bad side.
                assert (own["miss"] < 0.051) == (low >= objective.bounds[name] - 0.05) or low < 0.001
                chances.append(own["miss"])
    assert min(chances) < 0.5 < max(chances)


@pytest.mark.parametrize(("measure", "value", "wanted"), [
    ("accuracy", 0.8, 0.5), ("accuracy", 0.85, 0.05), ("error", 0.8, 0.5), ("error", 0.85, 0.95),
    ("bias", 0.85, 0.95), ("bias", -0.85, 0.95), ("bias", 0.0, 0.0),
])  # fmt: skip
def test_the_probability_is_a_normal_tail(measure: str, value: float, wanted: float) -> None:
    bound, tolerance = (0.85, 0.05) if measure == "accuracy" else (0.75, 0.05)
    assert miss(MEASURES[measure], bound, tolerance, value, 0.05) == pytest.approx(wanted, abs=1e-6)
    exact = float(value < 0.8) if measure == "accuracy" else float(abs(value) > bound + tolerance)
    assert miss(MEASURES[measure], bound, tolerance, value, 0.0) == exact or wanted == 0.5


def test_series_are_those_of_the_newest_whole_period() -> None:
    lives = Lives(**PERIOD, objective=Objective({"accuracy": 0.5}))
    lives.go(*records(0, 400)[:-8])
    families = {name: _Kept() for name, _, _ in EXPECTED_FAMILIES}
    shard = lives.shard
    add_expectations(families, shard, [0])  # type: ignore[arg-type]
    assert any('measure="accuracy"' in one for one in families["expected"].labels)
    assert len(families["expected_miss"].labels) == 1
    signals = families["expected_signal"].labels
    assert [one.rpartition("signal=")[2] for one in signals] == ['"concept"', '"delays"', '"inputs"']
    assert len(families["expected_low"].labels) == len(families["expected_coverage"].labels)


def test_what_waits_has_an_interval_once_open_periods_have_records() -> None:
    lives = Lives(**PERIOD)
    messages = metrics_of(lives.go(*records(0, 400)))
    found: list[Any] = [one.coverage for one in messages if one.coverage is not msgspec.UNSET]
    covered = [one for one in found if "waiting_expected" in one]
    said = [one["waiting_expected"] for one in covered]
    assert all(one["right"] <= one["labels"] <= one["predictions"] for one in said)
    assert all(one["waiting_expected"]["predictions"] <= one["waiting"] for one in covered)
    assert "interval" not in said[0]
    # As wide as if each period were off by its half width in the same direction.
    state, catalog = lives.shard.state, lives.shard.catalog
    tables, row = state.accounts.expected, catalog.streams[0].models["m"]
    clock = int(catalog.columns.streams.clock[0])
    rows = open_rows(tables, row)
    looked, half = look(tables, row, rows, clock), 0.0
    record = find(tables.record_pool, row, INDEX["accuracy"])
    for place, start in enumerate(tables.pool.key[rows].tolist()):
        maturity = max(0, maturity_of(clock, start + 1_000, 2_800))  # in time: as at its end
        while tables.records.finals[record, BEFORE_END + maturity] < 20:
            maturity -= 1
        one = graded(tables.records, record, BEFORE_END + maturity, float(looked.summary[place, SCALE]))
        half += looked.summary[place, EXPECTED] * one.half * (looked.summary[place, WAITING] > 0)
    [waiting] = lives.shard.reporter.of_waiting(np.array([row]), np.array([clock]))
    assert waiting is not None
    assert waiting.half is not None
    assert waiting.half == pytest.approx(half, rel=1e-12)
    message = waiting.as_message()
    low, high = waiting.right - waiting.half, waiting.right + waiting.half
    assert message["interval"] == [max(0, low), min(waiting.labels, high)]
    assert message["level"] == 0.9
    state.latest_estimates.note_waiting([row], [waiting])
    families = {name: _Kept() for name, _, _ in EXPECTED_FAMILIES}
    add_expectations(families, lives.shard, [0])  # type: ignore[arg-type]
    values = [families[f"waiting_expected_{name}"].values for name in ("right", "right_low", "right_high")]
    assert values == [[waiting.right], *([end] for end in message["interval"])]
    lives.shard.state.latest_estimates.forget([row])
    assert not lives.shard.state.latest_estimates.waiting


def test_the_book_covers_the_newest_whole_periods_together() -> None:
    lives = Lives(**PERIOD, measures=("accuracy", "log_loss"), book_periods=4, period_final_at=1.0)
    messages = periods_of(lives.go(*records(0, 700)))
    finals = {one.period["start"]: one for one in messages if one.period["status"] == "final"}  # type: ignore[index]
    books = [one for one in messages if one.expected_book is not msgspec.UNSET]
    assert books
    errors, covered = [], []
    for message in books:
        book: Any = message.expected_book
        assert message.period["status"] == "provisional"  # type: ignore[index]
        assert book["end"] == message.period["end"]  # type: ignore[index]
        assert book["periods"] <= 4
        starts = range(book["start"], book["end"], 1_000)
        if book["periods"] < 4 or not all(start in finals for start in starts):
            continue
        assert len(starts) == 4
        own = [finals[start] for start in starts]
        assert book["predictions"] == sum(one.period["predictions"] for one in own)  # type: ignore[index]
        truth = sum(one.n * one.measures["accuracy"] for one in own) / sum(one.n for one in own)
        estimate = book["measures"]["accuracy"]
        errors.append(abs(estimate["value"] - truth))
        if "interval" in estimate:
            low, high = estimate["interval"]
            covered.append(low <= truth <= high)
            assert estimate["level"] == 0.9
        assert book["measures"]["log_loss"]["value"] > 0
    assert np.mean(errors) < 0.05
    assert len(covered) > 15
    assert np.mean(covered) > 0.7
    families = {name: _Kept() for name, _, _ in EXPECTED_FAMILIES}
    add_expectations(families, lives.shard, [0])  # type: ignore[arg-type]
    for name in ("expected_book", "expected_book_low", "expected_book_high"):
        assert any('measure="accuracy"' in labels for labels in families[name].labels)


def test_the_book_is_as_long_as_the_horizon_and_exact_where_periods_are_final() -> None:
    lives = Lives(**PERIOD, measures=("accuracy", "kappa"))
    books = [one.expected_book for one in periods_of(lives.go(*records(0, 400)))]
    counts = Counter(book["periods"] for book in books if book is not msgspec.UNSET)  # type: ignore[index]
    assert set(counts) == {1, 2, 3}  # 2.8 s, rounded up
    assert max(counts, key=counts.__getitem__) == 3
    numbers = Lives(**PERIOD, task="regression", measures=("mae",))
    found = []
    for ts, record in [(100 * i, i) for i in range(300)]:
        found += [(ts, pred(record, ts, record % 7)), (ts + 900, lab(record, ts + 900, record % 7 + 1.0))]
    outputs = numbers.go(*[record for _, record in sorted(found, key=lambda pair: pair[0])])
    mae = [
        one.expected_book["measures"]["mae"]["value"]  # type: ignore[index]
        for one in periods_of(outputs) if one.expected_book is not msgspec.UNSET
        and "mae" in one.expected_book["measures"]
    ]  # fmt: skip
    assert mae
    assert mae == pytest.approx([1.0] * len(mae))


def test_a_summary_says_it_of_periods_that_are_not_final() -> None:
    lives = Lives(**PERIOD)
    lives.go(*records(0, 400))
    account = Account(lambda kind, partition, offset: {})
    account.add(lives.shard)
    [one] = (summary := account.summary(None)).expected
    newest = lives.shard.state.latest_estimates.newest[lives.shard.catalog.streams[0].models["m"]]
    assert one.period is not None
    assert (one.period.start, one.period.measure) == (newest.start, "accuracy")
    assert one.period.expected == newest.measures["accuracy"]["value"]
    assert one.period.labelled_so_far == newest.labelled_so_far["accuracy"]
    assert one.period.final is None
    [line, assumed] = expected_lines(summary, Config())
    assert line.startswith(f"before labels are there, s/m: {period_in_words(one.period)}; ")
    assert "pending predictions in provisional periods" in line
    assert "cannot be detected until" in assumed
    written = msgspec.json.decode(msgspec.json.encode(summary))
    assert written["expected"][0]["period"]["start"] == one.period.start


class _Kept:
    """In place of a family of series."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.values: list[float] = []

    def add(self, labels: str, value: float) -> None:
        assert value == value
        self.labels.append(labels)
        self.values.append(value)


def test_it_can_be_left_out() -> None:
    found = periods_of(Lives(**PERIOD, expected=False).go(*records(0, 100)))
    assert found
    assert all(one.expected is msgspec.UNSET for one in found)


@pytest.mark.parametrize("changed", [
    {"label_horizon": 5_000}, {"measures": ("accuracy",)}, {"measures": ("accuracy", "log_loss", "ipw_n")},
    {"measures": ("accuracy", "log_loss", "auc")},
])  # fmt: skip
def test_counters_that_do_not_fit_begin_with_the_next_period(changed: dict[str, Any]) -> None:
    lives = Lives(**PERIOD)
    lives.go(*records(0, 100))
    lives.next(**PERIOD | changed)
    assert "s/m: expected from the next period on" in lives.missing
    said = [one for one in periods_of(lives.go(*records(100, 200))) if one.expected is not msgspec.UNSET]
    assert min(one.period["start"] for one in said) == 12_000  # type: ignore[index]


@pytest.mark.parametrize(("records_of", "settings"), [(records, PERIOD), (sampled, WEIGHTED)])
def test_the_same_configuration_goes_on(records_of: Any, settings: dict[str, Any]) -> None:
    whole, cut = Lives(**settings), Lives(**settings)
    wanted = periods_of(whole.go(*records_of(0, 300))) + periods_of(whole.go(*records_of(300, 400)))
    found = periods_of(cut.go(*records_of(0, 300)))
    cut.next(**settings)
    assert cut.missing == []
    assert found + periods_of(cut.go(*records_of(300, 400))) == wanted

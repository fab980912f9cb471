"""What the 2020 paper finds where models learn while labels are awaited, on a stream of abrupt drifts.

Each label comes `DELAY` after its instance. A server predicts what comes, learns from each label, and
predicts again what waits (`WaitingInstances`; the paper's algorithm 1, by parts of the delay). After a
drift a prediction is as good as what the model has learned by then: the later it is made, the better.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping
from functools import cache, reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

import pytest
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.serving.waiting import WaitingInstances
from test_replay import Lines, last_of, outputs_of

INSTANCES = 2_400

#: One comes each second (ms), and its label 200 instances later.
EVERY = 1_000
DELAY = 200 * EVERY

#: Instances from one drift to the next: each value of the feature then means the other class.
CONCEPT = 800

#: Values of the feature, and share of labels that aren't what it means.
VALUES, NOISE = 6, 0.1

BINS = 10

#: Share of right predictions by which a bin may be below the one before it: noise.
TOLERANCE = 0.002


class Frequencies:
    """Fading class counts for each value of the feature; predicts the most frequent class.

    `learns` labels, then it stays as it is.
    """

    def __init__(self, fading: float, learns: int = INSTANCES) -> None:
        self.fading = fading
        self.learns = learns
        self.counts: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def learn(self, x: int, y: int) -> None:
        if self.learns:
            self.learns -= 1
            counts = self.counts[x]
            counts[:] = (self.fading * count for count in counts)
            counts[y] += 1

    def predict(self, x: int) -> int:
        before, after = self.counts[x]
        return int(after > before)


def models() -> dict[str, Frequencies]:
    """Two that learn, of which one remembers more; and one that had its labels beforehand."""
    rng = random.Random(3)
    static = Frequencies(1.0, learns=500)
    for _ in range(500):
        static.learn(*labelled(0, rng))
    return {"quick": Frequencies(0.9), "slow": Frequencies(0.98), "static": static}


LEARNING = ("quick", "slow")


def labelled(number: int, rng: random.Random) -> tuple[int, int]:
    """Feature and label of an instance."""
    x = rng.randrange(VALUES)
    means = (x + number // CONCEPT) % 2
    return x, means ^ (rng.random() < NOISE)


class Served(NamedTuple):
    """What the server sent, and each model's predictions by instance, in order of time."""

    files: Lines
    said: dict[str, list[list[int]]]
    labels: list[int]


@cache
def served() -> Served:
    """The server's life; a label is learned after the last predictions of its instance."""
    rng = random.Random(1)
    stream = [labelled(number, rng) for number in range(INSTANCES)]
    servants = models()
    waiting = WaitingInstances[int](ages=[DELAY * b // BINS for b in range(1, BINS)])
    files: Lines = {"instances": [], "predictions": [], "labels": []}
    said: dict[str, list[list[int]]] = {name: [[] for _ in stream] for name in servants}

    def send(topic: str, number: int, ts: int, **more: object) -> None:
        record = {"stream": "s", "instance_id": number, "ts": ts, **more}
        files[topic].append(json.dumps(record).encode())

    def predict(number: int, x: int, ts: int) -> None:
        for name, model in servants.items():
            y_pred = model.predict(x)
            said[name][number].append(y_pred)
            send("predictions", number, ts, model=name, y_pred=y_pred)

    for number in range(INSTANCES + DELAY // EVERY):
        now = number * EVERY
        old = number - DELAY // EVERY
        if old >= 0:
            x, y = stream[old]
            predict(old, x, now)
            send("labels", old, now, y_true=y)
            assert waiting.label(old) == x
            for model in servants.values():
                model.learn(x, y)
        if number < INSTANCES:
            x = stream[number][0]
            send("instances", number, now)
            predict(number, x, now)
            waiting.add(number, x, now)
        for again, x in waiting.due(now):
            predict(int(str(again)), x, now)
    assert len(waiting) == waiting.dropped == 0
    return Served(files, said, [y for _, y in stream])


@cache
def measured() -> Mapping[tuple[str, str], dict[str, Any]]:
    """Measures of all outcomes by model and stage, after the last one."""
    settings = StreamConfig(
        stages=("initial", "final", "bins", "intermediate"), bins=BINS, alpha=1.0,
        estimators=("all",), emit_every=None,
    )  # fmt: skip
    last = last_of(outputs_of(Config(defaults=settings), served().files))
    assert {message.outcomes for message in last.values()} == {INSTANCES}
    assert not any(any(message.counts.values()) for message in last.values())
    return {(model, stage): message.measures for (model, stage, _), message in last.items()}


def bins(model: str, measure: str = "accuracy") -> list[float]:
    """Λ(0), …, Λ(B): the initial stage, then the bins."""
    stages = ["initial", *(f"bin:{b}" for b in range(1, BINS + 1))]
    return [measured()[model, stage][measure] for stage in stages]


def psi(values: list[float], alpha: float) -> float:
    """Ψ_α: the mean of Λ(b), b = 0 … B, with weights (1/α)^(b/B) (2020 paper, eq. 1)."""
    last = len(values) - 1
    weights = [(1 / alpha) ** (b / last) for b in range(last + 1)]
    return sum(value * weight for value, weight in zip(values, weights)) / sum(weights)


@pytest.mark.slow
@pytest.mark.parametrize("model", [*LEARNING, "static"])
def test_outcomes_are_those_of_the_first_and_the_last_word(model: str) -> None:
    _, said, labels = served()
    assert {len(words) for words in said[model]} == {BINS + 1}
    for stage, place in (("initial", 0), ("final", -1)):
        right = sum(words[place] == y for words, y in zip(said[model], labels))
        assert measured()[model, stage]["accuracy"] == right / INSTANCES


@pytest.mark.parametrize("model", LEARNING)
class TestModelsThatLearn:
    @pytest.mark.slow
    def test_the_later_the_better(self, model: str) -> None:
        """Initial below final, the bins between them, each as good as the one before it."""
        values = bins(model)
        initial, final = (measured()[model, stage]["accuracy"] for stage in ("initial", "final"))
        assert all(b >= a - TOLERANCE for a, b in pairwise(values))
        assert initial == values[0] == min(values) < max(values)
        assert all(initial <= value <= final + TOLERANCE for value in values)
        assert values[-1] == final  # the last bin ends when the label comes

    def test_what_is_gained_is_what_was_said_too_early(self, model: str) -> None:
        """The first predictions of `DELAY` after a drift are made without a label of the new concept."""
        drifts = (INSTANCES - 1) // CONCEPT
        too_early = drifts * DELAY / EVERY / INSTANCES * (1 - 2 * NOISE)
        values = bins(model)
        assert values[-1] - values[0] > 0.75 * too_early

    def test_between_the_first_and_the_last_word_lies_psi(self, model: str) -> None:
        """The more the early ones weigh, the nearer it is to the initial stage."""
        found = measured()
        initial, final = (found[model, stage]["accuracy"] for stage in ("initial", "final"))
        psi_1 = found[model, "intermediate"]["accuracy"]
        assert initial < psi(bins(model), 10.0) < psi(bins(model), 2.0) < psi_1 < final


@pytest.mark.parametrize("model", [*LEARNING, "static"])
@pytest.mark.parametrize("measure", ["accuracy", "kappa", "g_mean"])
def test_psi_1_is_the_plain_mean(model: str, measure: str) -> None:
    values = bins(model, measure)
    assert len(values) == BINS + 1
    assert measured()[model, "intermediate"][measure] == reduce(add, values) / len(values)


def test_a_static_model_has_one_value_in_all_stages() -> None:
    """Whatever is computed from its predictions and the labels alone: baselines do learn."""
    found = measured()
    for measure in ("accuracy", "error", "kappa", "g_mean", "mcc", "macro_f1"):
        (value,) = {found["static", "final"][measure], *bins("static", measure)}
        assert found["static", "intermediate"][measure] == pytest.approx(value, rel=1e-14)


def test_who_forgets_sooner_is_better_in_every_stage() -> None:
    """Its time of wrong first words after a drift is shorter too."""
    found = measured()
    for stage in ("initial", "final", "intermediate"):
        assert found["quick", stage]["accuracy"] > found["slow", stage]["accuracy"], stage

"""Whether incidents name what changed: streams in which exactly one thing does.

`python -m tests.evidence.attribution` prints, over 100 seeds each, how often the cause is named first when
the incident opens and in the last message about it, and how far the change point is off; in some three
minutes. Arguments: the number of seeds, and scenarios by their names.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from prequential.topics.outputs import Incident

from tests.incident_streams import Stream, incidents, markov, steps

#: Outcomes before the change, and after it.
BEFORE, AFTER = 2_500, 1_500
SIZE = BEFORE + AFTER


class Scenario(NamedTuple):
    """A stream by its seed, what must be named first, and its configuration."""

    make: Callable[[np.random.Generator], Stream]
    cause: str
    settings: dict[str, Any]
    #: What the cause says beside its share.
    detail: dict[str, Any]


def class_ratio(rng: np.random.Generator) -> Stream:
    """b is harder than a, and comes more often."""
    label = steps(rng, (BEFORE, 0.1), (AFTER, 0.5))
    return Stream(label, (rng.random(SIZE) < np.where(label, 0.4, 0.05)).astype(np.int64))


def concept(rng: np.random.Generator) -> Stream:
    """Whatever the label, the model is wrong more often."""
    return Stream(steps(rng, (SIZE, 0.3)), steps(rng, (BEFORE, 0.1), (AFTER, 0.35)))


def persistence(rng: np.random.Generator) -> Stream:
    """Labels repeat the one before less often, and a model that lives on that is wrong where they don't."""
    label = np.concatenate((markov(rng, BEFORE, 0.9), markov(rng, AFTER, 0.6)))
    repeats = np.concatenate(([True], label[1:] == label[:-1]))
    return Stream(label, (rng.random(SIZE) < np.where(repeats, 0.05, 0.5)).astype(np.int64))


def label_latency(rng: np.random.Generator) -> Stream:
    """Labels come 30 times as late, and predictions are the worse the later."""
    usual = np.where(np.arange(SIZE) < BEFORE, 2_000, 60_000)
    latency = (usual * rng.lognormal(0, 0.5, SIZE)).astype(np.int64)
    wrong = rng.random(SIZE) < np.where(latency > 15_000, 0.35, 0.1)
    return Stream(steps(rng, (SIZE, 0.4)), wrong.astype(np.int64), latency=latency)


def coverage(rng: np.random.Generator) -> Stream:
    """Instances differ in how hard they are, which nothing shows; easy ones get no label any more."""
    hard = rng.random(SIZE) < 0.2
    wrong = rng.random(SIZE) < np.where(hard, 0.45, 0.05)
    labelled = (np.arange(SIZE) < BEFORE) | hard | (rng.random(SIZE) < 0.25)
    return Stream(steps(rng, (SIZE, 0.5)), wrong.astype(np.int64), labelled=labelled)


def selection(rng: np.random.Generator) -> Stream:
    """Predictions of a, mostly right, get labels more rarely than those of b."""
    predicted = steps(rng, (SIZE, 0.4))
    wrong = (rng.random(SIZE) < np.where(predicted, 0.35, 0.02)).astype(np.int64)
    rate = np.where((np.arange(SIZE) < BEFORE) | (predicted == 1), 0.9, 0.2)
    return Stream((predicted + wrong) % 2, wrong, labelled=rng.random(SIZE) < rate)


def segment(rng: np.random.Generator) -> Stream:
    """One of three regions breaks."""
    region = rng.choice(3, SIZE, p=[0.3, 0.5, 0.2])
    broken = (np.arange(SIZE) >= BEFORE) & (region == 0)
    wrong = (rng.random(SIZE) < np.where(broken, 0.6, 0.1)).astype(np.int64)
    return Stream(steps(rng, (SIZE, 0.4)), wrong, segment=np.array(["eu", "us", "asia"])[region].tolist())


def segment_mix(rng: np.random.Generator) -> Stream:
    """Of the region that is hard there is more; nowhere is the model worse than before."""
    hard = steps(rng, (BEFORE, 0.2), (AFTER, 0.7))
    return Stream(steps(rng, (SIZE, 0.4)), _wrong_where(rng, hard), segment=_regions(hard))


def segment_selection(rng: np.random.Generator) -> Stream:
    """Of the region that is easy most labels don't come any more."""
    hard = steps(rng, (SIZE, 0.3))
    rate = np.where((np.arange(SIZE) < BEFORE) | (hard == 1), 0.9, 0.15)
    return Stream(
        steps(rng, (SIZE, 0.4)), _wrong_where(rng, hard), labelled=rng.random(SIZE) < rate,
        segment=_regions(hard),
    )  # fmt: skip


def new_segment(rng: np.random.Generator) -> Stream:
    """A region comes that there wasn't, and the model doesn't know it."""
    new = steps(rng, (BEFORE, 0.0), (AFTER, 0.5))
    return Stream(steps(rng, (SIZE, 0.4)), _wrong_where(rng, new), segment=_regions(new))


def _wrong_where(rng: np.random.Generator, hard: Any) -> Any:
    return (rng.random(SIZE) < np.where(hard, 0.4, 0.05)).astype(np.int64)


def _regions(hard: Any) -> list[str]:
    return np.array(["eu", "us"])[hard].tolist()


def one_class(rng: np.random.Generator) -> Stream:
    """One of three classes isn't recognised any more."""
    label = rng.choice(3, SIZE, p=[0.5, 0.3, 0.2])
    broken = (np.arange(SIZE) >= BEFORE) & (label == 2)
    wrong = (rng.random(SIZE) < np.where(broken, 0.7, 0.1)).astype(np.int64)
    return Stream(label, wrong * rng.integers(1, 3, SIZE), classes="abc")


def model_version(rng: np.random.Generator) -> Stream:
    """Another version is rolled out, and it is worse."""
    made = concept(rng)
    made.version = ["v1"] * BEFORE + ["v2"] * AFTER
    return made


def nothing(rng: np.random.Generator) -> Stream:
    """Nothing changes; errors come in runs, and detectors alarm."""
    wrong = np.zeros(SIZE, dtype=np.int64)
    repeats, fresh = rng.random(SIZE) < 0.8, rng.random(SIZE) < 0.3
    for i in range(1, SIZE):
        wrong[i] = wrong[i - 1] if repeats[i] else fresh[i]
    return Stream(steps(rng, (SIZE, 0.4)), wrong)


SCENARIOS = {
    "class_ratio": Scenario(class_ratio, "class_ratio", {}, {}),
    "concept": Scenario(concept, "concept", {}, {}),
    "persistence": Scenario(persistence, "persistence", {}, {}),
    "label_latency": Scenario(label_latency, "label_latency", {}, {}),
    "coverage": Scenario(coverage, "coverage", {}, {}),
    "selection": Scenario(selection, "selection", {}, {}),
    "segment": Scenario(segment, "segment", {"segments": ("region",)}, {"segment": "region=eu"}),
    "segment_mix": Scenario(segment_mix, "segment", {"segments": ("region",)}, {}),
    "segment_selection": Scenario(segment_selection, "selection", {"segments": ("region",)}, {}),
    "new_segment": Scenario(new_segment, "segment", {"segments": ("region",)}, {}),
    "class": Scenario(one_class, "class", {}, {"class": "c"}),
    "model_version": Scenario(model_version, "model_version", {}, {"version": "v2"}),
    "nothing": Scenario(nothing, "not_clear", {}, {}),
}


def said(scenario: Scenario, seed: int) -> list[Incident]:
    """The messages of one stream about the incident of the change (the newest one there is)."""
    stream = scenario.make(np.random.default_rng(seed))
    found = incidents(stream.records(), **scenario.settings)
    return [one for one in found if one.id == found[-1].id] if found else []


def is_right(scenario: Scenario, message: Incident) -> bool:
    """Whether the first cause is what it must be, with all that it must say."""
    first = message.causes[0]
    return first["cause"] == scenario.cause and scenario.detail.items() <= first.items()


def main(arguments: list[str]) -> None:
    """Print the table."""
    seeds = int(arguments[0]) if arguments else 100
    print(f"{'changed':<18}{'incidents':>10}{'opened':>8}{'last':>6}{'off by':>8}  other causes first")
    for name, scenario in SCENARIOS.items():
        if arguments[1:] and name not in arguments[1:]:
            continue
        runs = [found for seed in range(seeds) if (found := said(scenario, seed))]
        opened = sum(is_right(scenario, found[0]) for found in runs)
        last = sum(is_right(scenario, found[-1]) for found in runs)
        off = np.median([abs(found[-1].change_point["prediction_ts"] / 1000 - BEFORE) for found in runs])
        other = Counter(
            found[-1].causes[0]["cause"] for found in runs if not is_right(scenario, found[-1])
        )
        print(f"{name:<18}{len(runs):>10}{opened:>8}{last:>6}{off:>8.0f}  {dict(other) or ''}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

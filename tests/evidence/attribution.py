"""Whether incidents name what changed: streams in which exactly one thing does, or an innocent one later.

`python -m tests.evidence.attribution` prints, over 100 seeds each, how often the cause is named first when
the incident opens and in the last message about it, and how far the change point is off; in some five
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

#: Length of clusters, ms: what a stream of this length has by itself.
CLUSTER = 42_188


class Scenario(NamedTuple):
    """A stream by its seed, what must be named first, and its configuration."""

    make: Callable[[np.random.Generator], Stream]
    cause: str
    settings: dict[str, Any]
    #: What the cause says beside its share.
    detail: dict[str, Any]
    #: Where the change lies that the last incident is about.
    change: int = BEFORE


def class_ratio(rng: np.random.Generator) -> Stream:
    """b is harder than a, and comes more often."""
    label = steps(rng, (BEFORE, 0.1), (AFTER, 0.5))
    return Stream(label, (rng.random(SIZE) < np.where(label, 0.4, 0.05)).astype(np.int64))


def concept(rng: np.random.Generator) -> Stream:
    """Whatever the label, the model is wrong more often."""
    return Stream(steps(rng, (SIZE, 0.3)), steps(rng, (BEFORE, 0.1), (AFTER, 0.35)))


def concept_in_spells(rng: np.random.Generator) -> Stream:
    """The same, where labels come in spells of some 60, in which 95 of 100 are of one class."""
    begins = np.cumsum(rng.random(SIZE) < 1 / 60)
    spell = (begins + rng.integers(2)) % 2
    label = np.where(rng.random(SIZE) < 0.95, spell, 1 - spell)
    return Stream(label, steps(rng, (BEFORE, 0.1), (AFTER, 0.35)))


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


#: Outcomes from the change to what is innocent, or comes on top.
LATER = 500

#: Outcomes by which the time of a cause may be off.
_NEAR = 100


def innocent_version(rng: np.random.Generator) -> Stream:
    """The concept changes under v1; v2, rolled out later, is as bad."""
    made = concept(rng)
    made.version = ["v1"] * (BEFORE + LATER) + ["v2"] * (AFTER - LATER)
    return made


def innocent_version_long_ago(rng: np.random.Generator) -> Stream:
    """The same, and both are long past: blocks have grown longer than what lay between."""
    return _innocent(rng, LATER, 9_000, 0.35)


def innocent_version_soon(rng: np.random.Generator) -> Stream:
    """The same, with half as many outcomes between."""
    return _innocent(rng, LATER // 2, 3_000, 0.35)


def innocent_version_slight(rng: np.random.Generator) -> Stream:
    """The same of a change less than half as large, so that what lay between tells less."""
    return _innocent(rng, LATER, 3_000, 0.2)


def _innocent(rng: np.random.Generator, later: int, n: int, level: float) -> Stream:
    return Stream(
        steps(rng, (BEFORE + n, 0.3)), steps(rng, (BEFORE, 0.1), (n, level)),
        version=["v1"] * (BEFORE + later) + ["v2"] * (n - later),
    )


def innocent_version_before(rng: np.random.Generator) -> Stream:
    """v2 is as good as v1; later the concept changes."""
    made = concept(rng)
    made.version = ["v1"] * (BEFORE - LATER) + ["v2"] * (AFTER + LATER)
    return made


def innocent_latency(rng: np.random.Generator) -> Stream:
    """The concept changes; later labels come 30 times as late."""
    made = concept(rng)
    usual = np.where(np.arange(SIZE) < BEFORE + LATER, 2_000, 60_000)
    made.latency = (usual * rng.lognormal(0, 0.5, SIZE)).astype(np.int64)
    return made


def innocent_coverage(rng: np.random.Generator) -> Stream:
    """The concept changes; later half of the labels don't come any more, whichever."""
    made = concept(rng)
    made.labelled = (np.arange(SIZE) < BEFORE + LATER) | (rng.random(SIZE) < 0.5)
    return made


def innocent_ratio(rng: np.random.Generator) -> Stream:
    """The concept changes, for both classes alike; later they come in another ratio."""
    made = concept(rng)
    made.label = steps(rng, (BEFORE + LATER, 0.3), (AFTER - LATER, 0.6))
    return made


def worse_version(rng: np.random.Generator) -> Stream:
    """The concept changes under v1; v2, rolled out later, is worse still."""
    return Stream(
        steps(rng, (SIZE, 0.3)), steps(rng, (BEFORE, 0.1), (LATER, 0.35), (AFTER - LATER, 0.55)),
        version=["v1"] * (BEFORE + LATER) + ["v2"] * (AFTER - LATER),
    )


def version_of_one(rng: np.random.Generator) -> Stream:
    """v2 is worse than v1; another model of the stream goes on as before."""
    return _beside(model_version(rng), rng, steps(rng, (SIZE, 0.15)))


def worse_at_once(rng: np.random.Generator) -> Stream:
    """The concept changes in the hour of v2, and two more models get worse with it."""
    made = model_version(rng)
    for name in "no":
        _beside(made, rng, steps(rng, (BEFORE, 0.15), (AFTER, 0.4)), name)
    return made


def _beside(of: Stream, rng: np.random.Generator, wrong: Any, name: str = "n") -> Stream:
    """The stream with another model on its instances."""
    other = Stream(of.label, wrong, model=name)
    of.extra += [record for record in other.records() if record.KIND == 1]
    return of


def sure_concept(rng: np.random.Generator) -> Stream:
    """The concept changes, and predictions are as sure as before."""
    made = concept(rng)
    made.confidence = np.where(rng.random(SIZE) < 0.2, 0.6, 0.95)
    return made


def harder_inputs(rng: np.random.Generator) -> Stream:
    """Inputs come nearer to the boundary, where the model is less sure, and as often right as it says."""
    x = np.concatenate((rng.normal(0, 3, BEFORE), rng.normal(0, 0.8, AFTER)))
    p = 1 / (1 + np.exp(-1.5 * x))
    label, predicted = (rng.random(SIZE) < p).astype(np.int64), (p > 0.5).astype(np.int64)
    return Stream(label, (label != predicted).astype(np.int64), confidence=np.maximum(p, 1 - p))


def other_inputs(rng: np.random.Generator) -> Stream:
    """Of inputs that are hard, half of which are of class b, there are more; without probabilities."""
    hard = steps(rng, (BEFORE, 0.2), (AFTER, 0.7))
    label = (rng.random(SIZE) < np.where(hard, 0.5, 0.2)).astype(np.int64)
    return Stream(label, _wrong_where(rng, hard))


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
    "concept_in_spells": Scenario(concept_in_spells, "concept", {}, {}),
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
    "innocent_version": Scenario(innocent_version, "concept", {}, {}),
    "innocent_version_long_ago": Scenario(innocent_version_long_ago, "concept", {}, {}),
    "innocent_version_soon": Scenario(innocent_version_soon, "concept", {}, {}),
    "innocent_version_slight": Scenario(innocent_version_slight, "concept", {}, {}),
    "innocent_version_before": Scenario(innocent_version_before, "concept", {}, {}),
    "innocent_latency": Scenario(innocent_latency, "concept", {}, {}),
    "innocent_coverage": Scenario(innocent_coverage, "concept", {}, {}),
    "innocent_ratio": Scenario(innocent_ratio, "concept", {}, {}),
    "worse_version": Scenario(
        worse_version, "model_version", {}, {"version": "v2"}, BEFORE + LATER
    ),
    "version_of_one": Scenario(version_of_one, "model_version", {}, {"version": "v2"}),
    "worse_at_once": Scenario(worse_at_once, "concept", {}, {}),
    "sure_concept": Scenario(sure_concept, "concept", {}, {}),
    "harder_inputs": Scenario(harder_inputs, "inputs", {}, {}),
    "other_inputs": Scenario(other_inputs, "inputs", {}, {}),
    "nothing": Scenario(nothing, "not_clear", {}, {}),
}


def said(scenario: Scenario, seed: int) -> list[Incident]:
    """The messages of one stream about the incident of the change (the newest one there is)."""
    stream = scenario.make(np.random.default_rng(seed))
    # A first day's changes may be hours: clusters of a given length say that hours don't differ.
    settings = {"cluster": CLUSTER, **scenario.settings}
    found = [one for one in incidents(stream.records(), **settings) if one.model == stream.model]
    return [one for one in found if one.id == found[-1].id] if found else []


def is_right(scenario: Scenario, message: Incident) -> bool:
    """Whether the first cause is what it must be, with all that it must say."""
    first = message.causes[0]
    return first["cause"] == scenario.cause and scenario.detail.items() <= first.items()


def main(arguments: list[str]) -> None:
    """Print the table."""
    seeds = int(arguments[0]) if arguments else 100
    print(f"{'changed':<27}{'incidents':>10}{'opened':>8}{'last':>6}{'off by':>8}  other causes first")
    for name, scenario in SCENARIOS.items():
        if arguments[1:] and name not in arguments[1:]:
            continue
        runs = [found for seed in range(seeds) if (found := said(scenario, seed))]
        opened = sum(is_right(scenario, found[0]) for found in runs)
        last = sum(is_right(scenario, found[-1]) for found in runs)
        off = [abs(found[-1].change_point["prediction_ts"] / 1000 - scenario.change) for found in runs]
        middle = f"{np.median(off):.0f}" if off else "-"
        other = Counter(
            found[-1].causes[0]["cause"] for found in runs if not is_right(scenario, found[-1])
        )
        print(f"{name:<27}{len(runs):>10}{opened:>8}{last:>6}{middle:>8}  {dict(other) or ''}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

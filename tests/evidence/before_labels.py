"""How good expected values of periods are in the worlds of `label_worlds`, whose labels come late.

    python -m tests.evidence.before_labels [--seeds SEED …] [--without-probabilities] [WORLD …]

What messages say of a period for the first time at each maturity is compared with the period's final value:
of all periods with an interval, coverage of the last 60.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.delay.records import MATURITIES, share_of
from prequential.engine.input.merge import Batch
from prequential.engine.shard import Shard
from prequential.topics.decoding import Decoded
from prequential.topics.messages import Instance, Label, Prediction
from prequential.topics.outputs import Metrics, decoded

from tests.evidence.label_worlds import EACH, SIMULATED, STREAMS, TIMED, NotInstalled, World, world

HOUR, DAY = 3_600_000, 86_400_000

#: Of a stream's models.
MODELS = ("m", "n")

#: Seeds of what is reported; none was looked at while intervals were made.
SEEDS = (11, 12)

#: Measures that are looked at in a world beside accuracy.
MEASURES = {
    "rare": ("kappa", "recall"), "three": ("kappa", "balanced_accuracy"), "cycle": ("kappa",),
    "elec2": ("kappa", "recall"), "flights": ("kappa", "recall"),
}  # fmt: skip

#: Coverage is that of so many periods, the last ones that are final.
LAST = 60


class Said(NamedTuple):
    """What was said of a period at a maturity for the first time, and what it turned out to be."""

    model: str
    period: int
    maturity: int
    share: float  # labelled, of the predictions
    value: float
    half: float  # NaN: no interval
    covered: bool
    labelled_so_far: float  # NaN: no label, or the measure is undefined
    last_final: float  # NaN: no period was final
    final: float


class Graded(NamedTuple):
    """Means of what was said: errors absolute, as all else but shares in the measure's own unit."""

    labelled: float
    error: float
    labelled_so_far: float
    last_final: float
    coverage: float  # of the last periods
    half: float


def run(
    kind: str, seed: int, days: int = 120, each: int = EACH, *, given: bool = True, measure: str = "accuracy"
) -> list[Said]:
    """What is said of each period in a world; `given`: whether predictions come with probabilities."""
    return graded(messages_of(world(kind, days, each, seed), measures=(measure,), given=given), measure)


def messages_of(
    of: World, *, measures: tuple[str, ...] = ("accuracy",), given: bool = True, propensity: Any = None
) -> list[tuple[int, Metrics]]:
    """All messages about a world's models, with the clock of which they know; `propensity`: of labels."""
    messages: list[tuple[int, Metrics]] = []
    for end, shard in hours(of, measures=measures, given=given, propensity=propensity):
        # They are due at the first record of a step, and know of those before.
        outputs, _ = shard.flush()
        begin = end - round(of.step * DAY)
        messages += [(begin - 1, one) for one in map(decoded, outputs) if isinstance(one, Metrics)]
    return messages


def hours(
    of: World, *, measures: tuple[str, ...] = ("accuracy",), given: bool = True, propensity: Any = None
) -> Iterator[tuple[int, Shard]]:
    """A shard behind each step of a world, with its end; it isn't flushed."""
    step = round(of.step * DAY)
    stream = StreamConfig(
        estimators=("all",), measures=measures, stages=("final",), detectors=(), compare="off",
        period=round(of.period * DAY), label_horizon=round(of.horizon * DAY), label_at_horizon=of.at_horizon,
        emit_outcomes=None, emit_every=step, emit_comparisons=None,
        positive_class="1" if of.proba.shape[-1] == 2 else None,
    )  # fmt: skip
    shard = Shard(Config(defaults=stream))
    made, came = (of.ts * DAY).astype(np.int64), (of.ts + of.delay) * DAY
    came[np.isinf(came)] = np.iinfo(np.int64).max // 2
    came = came.astype(np.int64)
    order = np.argsort(came, kind="stable")
    first = label_at = 0
    for end in range(step, of.days * DAY + 1, step):
        until = int(np.searchsorted(made, end))
        labels = []
        while label_at < len(order) and came[order[label_at]] < end:
            labels.append(order[label_at])
            label_at += 1
        own = range(first, until)
        if propensity is not None:
            _add(shard, 0, [(int(made[i]), _instance(i, int(made[i]), propensity[i])) for i in own])
        predictions = [
            (int(made[i]), _prediction(of, model, i, int(made[i]), given))
            for i in own for model in range(len(of.predicted))
        ]  # fmt: skip
        _add(shard, 1, predictions)
        _add(shard, 2, [(int(came[i]), Label("s", str(i), int(of.label[i]), int(came[i]))) for i in labels])
        first = until
        shard.advance([end] * 3, 10**9)
        yield end, shard


def _instance(i: int, ts: int, propensity: float) -> Instance:
    return Instance("s", str(i), ts, label_propensity=float(propensity))


def _prediction(of: World, model: int, i: int, ts: int, given: bool) -> Prediction:
    proba = {str(k): float(p) for k, p in enumerate(of.proba[model, i])} if given else None
    return Prediction("s", MODELS[model], str(i), int(of.predicted[model, i]), ts, proba, None, None)


def _add(shard: Shard, kind: int, rows: list[tuple[int, Any]]) -> None:
    if rows:
        begin = shard.merge.added[kind]
        span = range(begin, begin + len(rows))
        shard.add(Batch(kind, span, [ts for ts, _ in rows], Decoded([record for _, record in rows], {})))


def maturity_of(expected: dict[str, Any]) -> int:
    """Which maturity a message's `expected` is about; -1: the period isn't over."""
    shares = [share_of(maturity) for maturity in range(len(MATURITIES))]
    return -1 if expected["maturity"] is None else shares.index(expected["maturity"])


def graded(messages: list[tuple[int, Metrics]], measure: str = "accuracy") -> list[Said]:
    """What was said at each maturity for the first time, of periods that are final."""
    final: dict[tuple[str, int], float] = {}
    newest: dict[str, float] = {}
    said: dict[tuple[str, int, int], tuple[float, dict[str, Any], float, float]] = {}
    for _, one in messages:
        if one.period is msgspec.UNSET:
            continue
        period = one.period["start"] // (one.period["end"] - one.period["start"])
        value = one.measures.get(measure, np.nan)
        if one.period["status"] == "final":
            final.setdefault((one.model, period), value)
            newest[one.model] = value
        elif one.expected is not msgspec.UNSET and measure in one.expected["measures"]:
            place = one.model, period, maturity_of(one.expected)
            about = one.expected["labelled_share"], one.expected["measures"][measure]
            said.setdefault(place, (*about, value, newest.get(one.model, np.nan)))
    found = []
    for (model, period, maturity), (share, own, naive, last) in sorted(said.items()):
        truth = final.get((model, period), np.nan)
        if truth == truth:
            low, high = own.get("interval", (np.nan, np.nan))
            found.append(Said(
                model, period, maturity, share, own["value"], (high - low) / 2, low <= truth <= high,
                naive, last, truth,
            ))  # fmt: skip
    return found


def with_intervals(said: Iterable[Said]) -> list[Said]:
    """Those with an interval."""
    return [one for one in said if one.half == one.half and one.maturity >= 0]


def last_of(said: list[Said]) -> list[Said]:
    """Of a run those about the last periods."""
    periods = sorted({one.period for one in said})[-LAST:]
    return [one for one in said if one.period >= periods[0]] if periods else []


def grade(runs: list[list[Said]]) -> Graded:
    """Means over what was said in some runs, each with an interval."""
    every = [one for own in runs for one in own]
    last = [one for own in runs for one in last_of(own)]
    naive = [abs(one.labelled_so_far - one.final) for one in every]
    naive = [error for error in naive if error == error]
    return Graded(
        float(np.mean([one.share for one in every])),
        float(np.mean([abs(one.value - one.final) for one in every])),
        float(np.mean(naive)) if naive else np.nan,
        float(np.nanmean([abs(one.last_final - one.final) for one in every])),
        float(np.mean([one.covered for one in last])),
        float(np.mean([one.half for one in every])),
    )


def main(kinds: Iterable[str], seeds: Iterable[int], given: bool) -> None:
    """Print a line for each world, measure and maturity; then one of all maturities, for the bars."""
    _heading(
        "world", "measure", "after", "labelled", "error", "labelled so far", "last final", "coverage",
        "half width",
    )  # fmt: skip
    bars = []
    for kind in kinds:
        measures = ("accuracy", *MEASURES.get(kind, ()))
        try:
            drawn = list(seeds)[:1] if kind in TIMED else seeds
            worlds = [world(kind, 120, EACH, seed) for seed in drawn]
        except NotInstalled as reason:
            print(f"| {kind} | {reason} |" + " |" * 7, flush=True)
            continue
        found = [messages_of(own, measures=measures, given=given) for own in worlds]
        models = MODELS[: len(worlds[0].predicted)]
        for model in models:
            name = kind if len(models) == 1 else f"{kind}: {model}"
            of_model = [[one for one in messages if one[1].model == model] for messages in found]
            for measure in measures:
                runs = [with_intervals(graded(own, measure)) for own in of_model]
                bars.append(_print(name, measure, runs, worlds[0].horizon))
    print()
    _heading(
        "world", "measure", "error", "labelled so far", "times less", "with less than half labelled",
        "coverage", "half width / error",
    )  # fmt: skip
    print("\n".join(bars), flush=True)


def _heading(*columns: str) -> None:
    print("|", " | ".join(columns), "|\n|", " | ".join(["---"] * len(columns)), "|", flush=True)


def _print(name: str, measure: str, runs: list[list[Said]], horizon: float) -> str:
    """Print lines by maturity; returns that of all."""
    times = []
    for maturity, share in enumerate(MATURITIES):
        own = [[one for one in said if one.maturity == maturity] for said in runs]
        if any(own):
            after = f"{share / 28 * horizon:g} d" if horizon >= 1 else f"{share / 28 * horizon * 24:.1f} h"
            one = grade(own)
            if one.labelled < 0.5 and one.labelled_so_far == one.labelled_so_far:
                times.append(one.labelled_so_far / one.error)
            errors = (f"{100 * value:.2f}" for value in one[1:4])
            print(
                f"| {name} | {measure} | {after} | {100 * one.labelled:.0f}% | {' | '.join(errors)} "
                f"| {100 * one.coverage:.0f}% | {100 * one.half:.1f} |", flush=True,
            )  # fmt: skip
    one = grade(runs)
    return (
        f"| {name} | {measure} | {100 * one.error:.2f} | {100 * one.labelled_so_far:.2f} "
        f"| {one.labelled_so_far / one.error:.1f} "
        f"| {f'{min(times):.1f} to {max(times):.1f}' if times else '–'} "
        f"| {100 * one.coverage:.0f}% | {one.half / one.error:.1f} |"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help=f"of {', '.join((*SIMULATED, *STREAMS))}")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, metavar="SEED")
    parser.add_argument("--without-probabilities", action="store_true", help="predictions have none")
    args = parser.parse_args()
    main(args.worlds or (*SIMULATED, *STREAMS), args.seeds, not args.without_probabilities)

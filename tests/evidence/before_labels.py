"""How good expected values of periods are, in simulated worlds whose labels come late in nine ways.

    python -m tests.evidence.before_labels [WORLD ...]

Days of a few hundred predictions of a model with two classes; horizon 14 days. What messages say of a day for
the first time at each maturity is compared with the day's final value.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
from prequential.core.delay.records import maturity_of
from prequential.core.input.merge import Batch
from prequential.core.shard import Shard
from prequential.settings.model import Config, StreamConfig
from prequential.topics.decoding import Decoded
from prequential.topics.messages import Instance, Label, Prediction
from prequential.topics.outputs import Metrics, decoded

HOUR, DAY = 3_600_000, 86_400_000
HORIZON = 14

#: Predictions of a day.
EACH = 500

#: Half days after the period's end at which maturities begin, and what they are called.
AGES = {0: 0.0, 1: 0.5, 2: 1.0, 3: 3.0, 4: 7.0}

WORLDS = (
    "stationary", "covariate", "concept", "wave", "slower", "never", "right", "right_concept", "iid_concept"
)  # fmt: skip


class World(NamedTuple):
    """Predictions in order of time (days), what they say, and their labels."""

    ts: Any
    score: Any  # p(1)
    label: Any
    delay: Any  # days; inf: never


class Said(NamedTuple):
    """What was said of a day at a maturity for the first time, and what it turned out to be."""

    day: int
    maturity: int
    share: float  # labelled, of the predictions
    value: float
    half: float  # NaN: no interval
    covered: bool
    labelled_so_far: float
    final: float


def world(kind: str, days: int, each: int, seed: int) -> World:
    """A world of `each` predictions a day; what changes does it half way."""
    r = np.random.default_rng(seed)
    n = days * each
    t = np.sort(r.random(n)) * days
    late = t > days / 2
    a = np.where(late & (kind == "covariate"), 2.2, 1.0)
    b = np.where(late & (kind == "covariate"), 4.0, 6.0)
    s = r.beta(a, b)
    y = r.random(n) < np.clip(s**1.3 * 1.05, 0, 1)
    if kind in ("concept", "right_concept", "iid_concept"):
        y = np.where(late & (r.random(n) < 0.08), ~y, y)
    if kind == "wave":
        y = np.where(r.random(n) < 0.06 * (1 + np.sin(2 * np.pi * t / 20)), ~y, y)
    p = s > 0.5
    if kind.startswith("right"):
        d = np.where(p != y, r.exponential(1.5, n), r.exponential(6, n))
    elif kind.startswith("iid"):
        d = r.exponential(4, n)
    else:
        d = np.where(y, r.exponential(1.5, n), r.exponential(6, n))
    d = d * np.where(late & (kind == "slower"), 2.0, 1.0)
    if kind == "never":
        d = np.where((r.random(n) < 0.7) & ~p, np.inf, d)
    d[d > HORIZON] = np.inf
    return World(t, s, y, d)


def run(kind: str, seed: int, days: int = 120, each: int = EACH, *, given: bool = True) -> list[Said]:
    """What is said of each day in a world; `given`: whether predictions come with probabilities."""
    return graded(messages_of(world(kind, days, each, seed), days, given=given))


def messages_of(
    of: World, days: int, *, measures: tuple[str, ...] = ("accuracy",), given: bool = True, period: int = DAY,
    propensity: Any = None, at_horizon: str | None = None,
) -> list[tuple[int, Metrics]]:  # fmt: skip
    """All messages about a world's model, with the clock of which they know; `propensity`: of labels."""
    messages: list[tuple[int, Metrics]] = []
    each_hour = hours(
        of, days, measures=measures, given=given, period=period, propensity=propensity, at_horizon=at_horizon
    )
    for end, shard in each_hour:
        # They are due at the first record of the hour, and know of those before.
        outputs, _ = shard.flush()
        messages += [(end - HOUR - 1, one) for one in map(decoded, outputs) if isinstance(one, Metrics)]
    return messages


def hours(
    of: World, days: int, *, measures: tuple[str, ...] = ("accuracy",), given: bool = True, period: int = DAY,
    propensity: Any = None, at_horizon: str | None = None,
) -> Iterator[tuple[int, Shard]]:  # fmt: skip
    """A shard behind each hour of a world, with the hour's end; it isn't flushed."""
    ts, score, label, delay = of
    stream = StreamConfig(
        estimators=("all",), measures=measures, stages=("final",), detectors=(), compare="off",
        period=period, label_horizon=HORIZON * DAY, label_at_horizon=at_horizon, emit_outcomes=None,
        emit_every=HOUR,
    )  # fmt: skip
    shard = Shard(Config(defaults=stream))
    made, came = (ts * DAY).astype(np.int64), ((ts + delay) * DAY)
    came[np.isinf(came)] = np.iinfo(np.int64).max // 2
    came = came.astype(np.int64)
    order = np.argsort(came, kind="stable")
    first = label_at = 0
    for end in range(HOUR, days * DAY + 1, HOUR):
        until = int(np.searchsorted(made, end))
        labels = []
        while label_at < len(order) and came[order[label_at]] < end:
            labels.append(order[label_at])
            label_at += 1
        own = range(first, until)
        if propensity is not None:
            _add(shard, 0, [(int(made[i]), _instance(i, int(made[i]), propensity[i])) for i in own])
        _add(shard, 1, [(int(made[i]), _prediction(i, score[i], int(made[i]), given)) for i in own])
        _add(shard, 2, [(int(came[i]), Label("s", str(i), int(label[i]), int(came[i]))) for i in labels])
        first = until
        shard.advance([end] * 3, 10**9)
        yield end, shard


def _instance(i: int, ts: int, propensity: float) -> Instance:
    return Instance("s", str(i), ts, label_propensity=float(propensity))


def _prediction(i: int, p: float, ts: int, given: bool) -> Prediction:
    proba = {"0": 1 - p, "1": p} if given else None
    return Prediction("s", "m", str(i), int(p > 0.5), ts, proba, None, None)


def _add(shard: Shard, kind: int, rows: list[tuple[int, Any]]) -> None:
    if rows:
        begin = shard.merge.added[kind]
        span = range(begin, begin + len(rows))
        shard.add(Batch(kind, span, [ts for ts, _ in rows], Decoded([record for _, record in rows], {})))


def graded(messages: list[tuple[int, Metrics]]) -> list[Said]:
    """What was said at each maturity for the first time, of days that are final."""
    final: dict[int, float] = {}
    said: dict[tuple[int, int], tuple[float, dict[str, Any], float | None]] = {}
    for clock, one in messages:
        if one.period is msgspec.UNSET:
            continue
        day = one.period["start"] // DAY
        if one.period["status"] == "final":
            final.setdefault(day, one.measures.get("accuracy", np.nan))
        elif one.expected is not msgspec.UNSET:
            own = one.expected["measures"].get("accuracy")
            if own is None:
                continue
            place = maturity_of(clock, one.period["end"], HORIZON * DAY)
            said.setdefault((day, place), (one.expected["labelled_share"], own, one.measures.get("accuracy")))
    found = []
    for (day, maturity), (share, own, naive) in sorted(said.items()):
        if day in final:
            low, high = own.get("interval", (np.nan, np.nan))
            found.append(Said(
                day, maturity, share, own["value"], (high - low) / 2, low <= final[day] <= high,
                np.nan if naive is None else naive, final[day],
            ))  # fmt: skip
    return found


def main(kinds: tuple[str, ...], seeds: int = 1, said_of: Callable[..., list[Said]] = run) -> None:
    """Print a line for each world and maturity."""
    columns = "world", "y_proba", "days", "labelled", "error", "labelled so far", "coverage", "half width"
    print("|", " | ".join(columns), "|\n|", " | ".join(["---"] * len(columns)), "|")
    for kind in kinds:
        for given in (True, False):
            rows: dict[int, list[Said]] = defaultdict(list)
            for seed in range(seeds):
                for one in said_of(kind, seed, given=given):
                    if one.half == one.half and one.maturity >= 0:
                        rows[one.maturity].append(one)
            for maturity, own in sorted(rows.items()):
                error = np.mean([abs(one.value - one.final) for one in own])
                naive = np.nanmean([abs(one.labelled_so_far - one.final) for one in own])
                print(
                    f"| {kind} | {'yes' if given else 'no'} | {AGES[maturity]:g} "
                    f"| {100 * np.mean([one.share for one in own]):.0f} % "
                    f"| {100 * error:.2f} | {100 * naive:.2f} "
                    f"| {100 * np.mean([one.covered for one in own]):.0f} % "
                    f"| {100 * np.mean([one.half for one in own]):.1f} |",
                    flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or WORLDS)

"""How often groups that are equal are found to differ, and how many outcomes a true difference takes.

`python -m tests.evidence.disparity [STREAMS]` prints two tables in some three minutes: the engine's own loop
(`engine.disparity`) on simulated outcomes. `--flights FILE carrier` compares real flights.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DisparityConfig, StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_of_plan
from prequential.engine.delay.cohorts import CLOSED
from prequential.engine.disparity import ComparedGroups
from prequential.engine.tables.outcomes import OUTCOME, new_log

LEVEL, OUTCOMES, ERROR = 0.05, 20_000, 0.2

#: Shares of the traffic of 20 groups, the largest 20 times the smallest; and with one group of 5%.
SHARES = 1.0 / np.arange(1, 21)
SHARES /= SHARES.sum()

#: x of each outcome (n,), and the number of its cluster; None: each outcome counts at once.
World = Callable[[np.random.Generator, Any], tuple[Any, Any]]


def independent(rng: np.random.Generator, group: Any) -> tuple[Any, Any]:
    """Nothing depends on anything."""
    return rng.random(len(group)) < ERROR, None


def _chain(rng: np.random.Generator, n: int, keep: float) -> Any:
    """0 and 1 with a mean of `ERROR`, and an autocorrelation of `keep`."""
    new = rng.random(n) > keep
    new[0] = True
    drawn = rng.random(n) < ERROR
    return drawn[np.maximum.accumulate(np.where(new, np.arange(n), 0))]


def chain(rng: np.random.Generator, group: Any) -> tuple[Any, Any]:
    """All errors are one Markov chain, whose runs groups share."""
    return _chain(rng, len(group), 0.9), None


def chains(rng: np.random.Generator, group: Any) -> tuple[Any, Any]:
    """The errors of each group are a Markov chain of its own."""
    x = np.zeros(len(group), dtype=bool)
    for one in np.unique(group):
        x[group == one] = _chain(rng, int((group == one).sum()), 0.8)
    return x, None


def _batched(rng: np.random.Generator, group: Any, size: int) -> tuple[Any, Any]:
    batch = np.arange(len(group)) // size
    shares = np.clip(ERROR + 0.1 * rng.standard_normal(batch[-1] + 1), 0.0, 1.0)
    return rng.random(len(group)) < shares[batch], batch


def batches(rng: np.random.Generator, group: Any) -> tuple[Any, Any]:
    """Each 200 outcomes have another error, and nothing says which they are."""
    return _batched(rng, group, 200)[0], None


def days(rng: np.random.Generator, group: Any) -> tuple[Any, Any]:
    """Each 200 outcomes have another error, and are a cluster (`cluster: 1d`)."""
    return _batched(rng, group, 200)


def own_days(rng: np.random.Generator, group: Any) -> tuple[Any, Any]:
    """Each group has another error in each cluster of 200 outcomes."""
    batch = np.arange(len(group)) // 200
    shares = np.clip(ERROR + 0.1 * rng.standard_normal((batch[-1] + 1, len(SHARES))), 0.0, 1.0)
    return rng.random(len(group)) < shares[batch, group], batch


def drifting(rng: np.random.Generator, group: Any) -> tuple[Any, Any]:
    """The error of all groups moves from 0.1 to 0.3."""
    return rng.random(len(group)) < np.linspace(0.1, 0.3, len(group)), None


WORLDS: tuple[World, ...] = independent, chain, chains, batches, days, own_days, drifting


class Bench(NamedTuple):
    """A catalog with one model and its groups, and the log rows of one outcome: the model's, the group's."""

    catalog: Catalog
    config: StreamConfig
    groups: int

    def first_verdict(self, group: Any, label: Any, prediction: Any, cluster: Any = None) -> int:
        """The outcome, from 1, at which `differs` began first; 0: it never did."""
        n, [model, *segments] = len(group), [one.row for one in self.catalog.entities if one is not None]
        entities, plan = self.catalog.columns.entities, self.catalog.plans[0]
        of_config = self.config.disparity
        assert of_config is not None
        log, groups = new_log(2 * n), ComparedGroups(self.config, of_config, plan.rows)
        both = np.stack([np.full(n, model), np.array(segments)[group]], axis=1).ravel()
        log.kind[:], log.entity[:] = OUTCOME, both
        log.sequence[:], log.number[:] = entities.first[both], np.repeat(np.arange(1, n + 1), 2)
        log.label[:], log.prediction[:] = np.repeat(label, 2), np.repeat(prediction, 2)
        log.cohort[:] = CLOSED + 1
        if cluster is not None:
            log.cohort[:] = np.repeat(cluster, 2) + 1
            log.frontier[:] = np.repeat(cluster, 2)
        rows = np.arange(2 * n, dtype=np.int32)
        done, due = groups.consume(log, rows, self.catalog.registry, positives_of_plan(self.catalog, plan))
        return int(log.number[done - 1]) if due >= 0 else 0


def bench(groups: int, measures: tuple[str, ...] = ("error",)) -> Bench:
    """A model in one stage whose `groups` have all begun."""
    wanted = DisparityConfig(("group",), measures, LEVEL)
    config = replace(StreamConfig(), disparity=wanted, stages=("final",), detectors=(), estimators=("all",))
    catalog = Catalog(Config(defaults=config))
    stream = catalog.add_stream("s")
    for name in ("0", "1"):
        catalog.add_class(stream, name)
    model = catalog.add_model(stream, "m", 0)
    for value in range(groups):
        stream.add_value(0, f"g{value:02}", 0)
        catalog.add_segment(int(catalog.registry.entities.segments[model]) + value)
    return Bench(catalog, stream.config, groups)


def false_verdicts(world: World, streams: int, measures: tuple[str, ...] = ("error",)) -> float:
    """The share of streams of 20 equal groups that are ever found to differ."""
    made, found = bench(len(SHARES), measures), 0
    for seed in range(streams):
        rng = np.random.default_rng(seed)
        group = rng.choice(len(SHARES), OUTCOMES, p=SHARES)
        wrong, cluster = world(rng, group)
        label = (rng.random(OUTCOMES) < 0.5).astype(np.int32)
        found += made.first_verdict(group, label, np.where(wrong, 1 - label, label), cluster) > 0
    return found / streams


def outcomes_needed(gap: float, streams: int, share: float = 0.05, most: int = 200_000) -> list[int]:
    """Outcomes until 1 of 20 groups is found that is worse by `gap`; `most` where it isn't found."""
    others = SHARES[:19] / SHARES[:19].sum() * (1.0 - share)
    made, found = bench(20), []
    for seed in range(streams):
        rng = np.random.default_rng(seed)
        group = rng.choice(20, most, p=[*others, share])
        label = (rng.random(most) < 0.5).astype(np.int32)
        wrong = rng.random(most) < np.where(group == 19, ERROR + gap, ERROR)
        found.append(made.first_verdict(group, label, np.where(wrong, 1 - label, label)) or most)
    return sorted(found)


def flights(path: str, key: str) -> None:
    """Print how departures from New York differ by `carrier` or `origin` in a model's errors and recall."""
    import pandas as pd
    from prequential.evaluation import evaluate

    table = pd.read_csv(path)
    late = (table.delay > 15).map({True: "1", False: "0"})
    predictions = {
        "ts": table.scheduled * 1000, "y_pred": table.gb.astype(str), "instance_id": table.index,
        "segments": [{key: one} for one in table[key]],
    }  # fmt: skip
    known = table.arrival.notna()
    labels = {
        "ts": (table.arrival[known] * 1000).astype(int), "y_true": late[known],
        "instance_id": table.index[known],
    }  # fmt: skip
    plain: Any = {name: list(column) for name, column in predictions.items()}
    result = evaluate(
        plain, {name: list(column) for name, column in labels.items()}, disparity={"segments": [key]},
        stages=["final"], estimators=["all"], detectors=[], positive_class="1", compare="off",
    )  # fmt: skip
    rows = result.disparities.to_pandas()
    for measure, some in rows.groupby("measure"):
        last = some[some.id == some.id.iloc[-1]].sort_values("group_value")
        one = last.iloc[0]
        print(
            f"{measure}: {one.verdict}, {one.smallest} to {one.largest}: difference {one.difference:.3f} "
            f"({one.difference_low:.3f} to {one.difference_high:.3f}), ratio {one.ratio:.2f}"
        )
        for group in last.itertuples():
            print(
                f"  {group.group:6} {group.n:7,} {group.group_value:.3f}, to others "
                f"{group.group_difference:+.3f} ({group.interval_low:+.3f} to {group.interval_high:+.3f})"
            )


def main(streams: int) -> None:
    """Print both tables."""
    print(f"20 equal groups, {OUTCOMES:,} outcomes: streams of {streams} with a false verdict, ever")
    for world in WORLDS:
        text = str(world.__doc__).partition("\n")[0]
        print(f"  {false_verdicts(world, streams):6.1%}  {text}", flush=True)
    share = false_verdicts(independent, streams, ("error", "recall", "selection_rate"))
    print(f"  {share:6.1%}  Nothing depends on anything; three measures.", flush=True)
    print("1 of 20 groups, 5% of the outcomes, is worse: outcomes until it is found (median, 90%)")
    for gap in (0.2, 0.1, 0.05):
        found = outcomes_needed(gap, max(streams // 20, 10))
        print(f"  {gap:.0%}: {found[len(found) // 2]:,}, {found[len(found) * 9 // 10]:,}", flush=True)


if __name__ == "__main__":
    if "--flights" in sys.argv:
        flights(*sys.argv[-2:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)

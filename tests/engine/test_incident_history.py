"""Clusters, levels and shares, each against a plain loop over all outcomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from incident_streams import ENDED, LATENCY, QUIET, Stream, batches, steps
from prequential.configuration.settings.model import Config
from prequential.engine.incidents import clusters, history, levels
from prequential.engine.incidents.history import OrderedClusters
from prequential.engine.incidents.levels import Groups, shift
from prequential.engine.shard import Shard

from tests.nightly import few


class Entry(NamedTuple):
    """An outcome."""

    number: int
    label: int
    prediction: int
    repeats: bool
    before: float  # loss of the outcome before
    latency: int
    version: str
    segment: str
    t1: int
    ts: int

    @property
    def loss(self) -> float:
        return float(self.label != self.prediction)


def outcomes_of(stream: Stream) -> list[Entry]:
    """In order of label time."""
    rows = range(len(stream.label))
    latency = [LATENCY if stream.latency is None else int(stream.latency[i]) for i in rows]
    labelled = [i for i in rows if stream.labelled is None or stream.labelled[i]]
    labelled.sort(key=lambda i: i * stream.step + latency[i])
    found: list[Entry] = []
    for number, i in enumerate(labelled, 1):
        label, ts = int(stream.label[i]), i * stream.step
        prediction = (label + int(stream.wrong[i])) % len(stream.classes)
        last = found[-1] if found else None
        found.append(
            Entry(
                number, label, prediction, last is not None and last.label == label,
                0.0 if last is None else last.loss, latency[i],
                "" if stream.version is None else stream.version[i],
                "" if stream.segment is None else stream.segment[i], ts + latency[i], ts,
            )
        )  # fmt: skip
    return found


def in_clusters(entries: Sequence[Any], times: Sequence[int], length: float) -> list[list[Any]]:
    """Entries by the cluster of their time, the oldest first."""
    found: dict[int, list[Any]] = {}
    for entry, ts in zip(entries, times):
        found.setdefault(math.floor(ts / length), []).append(entry)
    return [found[key] for key in sorted(found)]


def a_stream(seed: int, n: int) -> Stream:
    """Everything varies."""
    rng = np.random.default_rng(seed)
    latency = (5_000 * rng.lognormal(0, 2, n)).astype(np.int64)
    return Stream(
        rng.choice(3, n, p=[0.6, 0.3, 0.1]), steps(rng, (n // 2, 0.1), (n - n // 2, 0.4)),
        latency=latency, labelled=rng.random(n) < 0.8, classes="abc",
        segment=rng.choice(["eu", "us", "asia"], n).tolist(),
        version=["v1"] * (n // 3) + ["v2"] * (n - n // 3),
    )  # fmt: skip


def lived(stream: Stream, cluster: int | None = None) -> Shard:
    shard = Shard(Config(defaults=replace(QUIET, segments=("region",), detectors=(), cluster=cluster)))
    for batch in batches(stream.records()):
        shard.add(batch)
    while shard.advance([ENDED] * 3, 777):
        shard.flush()
    return shard


@pytest.mark.parametrize(
    ("seed", "n", "cluster"), [(1, 50, None), (2, 700, None), (3, 5_000, None), (4, 700, 60_000)]
)
def test_clusters_are_those_of_a_plain_loop(seed: int, n: int, cluster: int | None) -> None:
    stream = a_stream(seed, n)
    shard = lived(stream, cluster)
    owner = shard.catalog.by_name["s"].models["m"]
    view = shard.state.incidents.view(owner)
    entries = outcomes_of(stream)
    expected = in_clusters(entries, [one.ts for one in entries], view.length)
    found = view.clusters
    assert view.length == cluster if cluster else (clusters.DAY / view.length).is_integer()
    assert len(expected) <= clusters.MOST_CLUSTERS
    assert found.number.tolist() == [cluster[0].number for cluster in expected]
    assert found.n.tolist() == [len(cluster) for cluster in expected]
    assert found.t1.tolist() == [cluster[0].t1 for cluster in expected]
    for ts, entries_of in zip(found.ts.tolist(), expected):
        assert all(ts <= one.ts < ts + view.length for one in entries_of)

    def check(column: Any, of: Callable[[Entry], float]) -> None:
        assert column.tolist() == [sum(map(of, cluster)) for cluster in expected]

    check(found.loss, lambda one: one.loss)
    check(found.products, lambda one: one.loss * one.before)
    check(found.lag, lambda one: one.t1 - one.ts)
    for code, name in enumerate(shard.catalog.by_name["s"].class_names):
        label = "abc".index(name)
        own = history.CLASSES + history.PER_CLASS * code
        check(found.cells[:, own + history.LABELLED], lambda one, k=label: one.label == k)
        check(found.cells[:, own + history.LABELLED_LOSS], lambda one, k=label: (one.label == k) * one.loss)
        check(found.cells[:, own + history.REPEATED], lambda one, k=label: one.label == k and one.repeats)
        check(
            found.cells[:, own + history.REPEATED_LOSS],
            lambda one, k=label: (one.label == k and one.repeats) * one.loss,
        )
        check(found.cells[:, own + history.PREDICTED], lambda one, k=label: one.prediction == k)
        check(
            found.cells[:, own + history.PREDICTED_LOSS],
            lambda one, k=label: (one.prediction == k) * one.loss,
        )
    for slot, name in enumerate(view.names.segments):
        column = history.column_of_segment(view.classes, slot)
        check(found.cells[:, column], lambda one, s=name: f"region={one.segment}" == s)
        check(found.cells[:, column + 1], lambda one, s=name: (f"region={one.segment}" == s) * one.loss)
    for column, name in enumerate(view.names.versions):
        check(found.cells[:, history.VERSION + column], lambda one, v=name: one.version == v != "")
    bounds = [0, *(64 * 4**k for k in range(history.LATENCIES - 1)), math.inf]
    for column, (low, high) in enumerate(pairwise(bounds)):
        check(
            found.cells[:, history.LATENCY + column],
            lambda one, low=low, high=high: low <= one.latency < high,
        )


def test_predictions_know_which_of_them_have_a_label() -> None:
    stream = a_stream(4, 2_000)
    view = (shard := lived(stream)).state.incidents.view(shard.catalog.by_name["s"].models["m"])
    assert stream.labelled is not None
    found = view.read_predictions()
    pool = shard.state.incidents.history.predictions
    length = clusters.length_of(0, int(pool.lines.doubled[shard.catalog.by_name["s"].models["m"]]))
    made = in_clusters(range(2_000), [i * stream.step for i in range(2_000)], length)
    assert found.n.tolist() == [len(cluster) for cluster in made]
    names = shard.catalog.by_name["s"].class_names
    for code, name in enumerate(names):
        own = [int((stream.label[i] + stream.wrong[i]) % 3) == "abc".index(name) for i in range(2_000)]
        column = history.PER_PREDICTED * code
        assert found.cells[:, column].tolist() == [sum(own[i] for i in cluster) for cluster in made]
        met = [sum(own[i] and bool(stream.labelled[i]) for i in cluster) for cluster in made]
        assert found.cells[:, column + history.MET_LABEL].tolist() == met


@pytest.mark.slow
@pytest.mark.parametrize("step", few([86_400_000, 700_000, 1_000, 25], 2))
def test_memory_is_bounded_and_a_history_has_clusters_enough(step: int) -> None:
    """Clusters grow with the history, up to days: then the oldest ones are forgotten."""
    pool = clusters.with_owners(clusters.new_pool(summed=True), 1)
    for number in range(1, 40_001 if step < 86_400_000 else 4_000):
        place = clusters.NO_PLACE
        while place == clusters.NO_PLACE:
            place = clusters.place_for(pool, 0, (number // 10) * step, number, 0, False)
            if place == clusters.NO_PLACE:
                places = max(clusters.FEW_CLUSTERS, 2 * int(pool.lines.places[0]))
                rows, cells = (pool.used + places).tolist()
                pool = clusters.with_places(pool, rows, cells)
                assert clusters.lay_out(pool, 0, places, 1, clusters.kept_cells(1, 0, 0, 0))
        pool.blocks.n[place] += 1
        pool.lines.entries[0] += 1
        used = int(pool.lines.used[0])
        assert used <= clusters.MOST_CLUSTERS
        assert number < 2_000 or used >= clusters.FEW_CLUSTERS // 2
    found = history.read(pool, 0, 0)
    assert (np.diff(found.key) > 0).all()
    assert found.n.sum() == pool.lines.entries[0]


def test_memory_grows_with_the_clusters_that_there_are() -> None:
    """An owner with few clusters has few places, and rows that owners have left are used again."""
    owners, days = 50, 40
    pool = clusters.with_owners(clusters.new_pool(summed=True), owners)
    for number in range(1, days + 1):
        for owner in range(owners):
            moment = number * clusters.DAY
            while (row := clusters.place_for(pool, owner, moment, number, clusters.DAY, False)) < 0:
                places = clusters.more_places(int(pool.lines.places[owner]), clusters.MOST_CLUSTERS)
                while not clusters.lay_out(pool, owner, places, 2, clusters.kept_cells(2, 0, 0, 0)):
                    pool = clusters.with_more(pool, places, 2 * places)
            pool.blocks.n[row] = clusters.LEAST_ENTRIES
            pool.lines.entries[owner] += clusters.LEAST_ENTRIES
            pool.sums.loss[row] = 1000 * owner + number
            pool.cells[clusters.cells_of(pool, owner, row) : clusters.cells_of(pool, owner, row + 1)] = number
        most = owners * max(clusters.FIRST_PLACES, 2 * number)
        assert int(pool.lines.places.sum()) <= most
        assert len(pool.blocks.key) <= max(16, 6 * most)
    for owner in range(owners):
        found = history.read(pool, owner, clusters.DAY)
        numbers = np.arange(1, days + 1)
        assert found.number.tolist() == numbers.tolist()
        assert found.loss.tolist() == (1000.0 * owner + numbers).tolist()
        assert found.cells.tolist() == np.stack((numbers, numbers), axis=1).tolist()


def pool_of(owners: int, places: int, width: int, seed: int) -> clusters.ClusterPool:
    """A pool in which each owner has some clusters with random contents, of keys in order."""
    rng = np.random.default_rng(seed)
    pool = clusters.with_places(clusters.with_owners(clusters.new_pool(summed=True), owners), 2_000, 8_000)
    for owner in range(owners):
        pool.lines.doubled[owner] = 4
        assert clusters.lay_out(pool, owner, places, width, clusters.kept_cells(0, 0, 0, 0))
        steps = np.sort(rng.choice(3 * places, int(rng.integers(1, places + 1)), replace=False))
        for number, step in enumerate(rng.permutation(steps).tolist(), 1):
            row = clusters.place_for(pool, owner, step * 86_400_000 >> 18, number, 0, False)
            pool.blocks.n[row], pool.blocks.mark[row] = rng.integers(1, 9, 2)
            pool.sums.loss[row], pool.sums.t1[row] = rng.integers(100), rng.integers(100)
            first = clusters.cells_of(pool, owner, row)
            pool.cells[first : first + width] = rng.integers(1, 100, width)
    return pool


def test_doubling_the_length_puts_neighbours_together() -> None:
    """All clusters of one pair of numbers become one: sums add up, the first entry is the smaller one's."""
    pool = pool_of(owners=20, places=16, width=3, seed=4)
    before = [history.read(pool, owner, 0) for owner in range(20)]
    for owner, former in enumerate(before):
        clusters.double_length(pool, owner)
        found = history.read(pool, owner, 0)
        groups = [np.flatnonzero(former.key >> 1 == key) for key in np.unique(former.key >> 1)]
        assert found.key.tolist() == np.unique(former.key >> 1).tolist()
        assert found.number.tolist() == [former.number[rows].min() for rows in groups]
        assert found.n.tolist() == [former.n[rows].sum() for rows in groups]
        assert found.mark.tolist() == [former.mark[rows].max() for rows in groups]
        assert found.loss.tolist() == [former.loss[rows].sum() for rows in groups]
        assert found.t1.tolist() == [former.t1[rows[former.number[rows].argmin()]] for rows in groups]
        assert found.cells.tolist() == [former.cells[rows].sum(axis=0).tolist() for rows in groups]
        first = int(pool.lines.first[owner])
        assert sorted(pool.blocks.order[first : first + 16].tolist()) == list(range(16))


def test_clusters_are_found_however_old_they_are() -> None:
    pool = pool_of(owners=10, places=64, width=1, seed=5)
    for owner in range(10):
        keys = history.read(pool, owner, 0).key.tolist()
        for key in range(keys[0] - 2, keys[-1] + 3):
            row = clusters.find_cluster(pool, owner, key)
            own = [own for own in keys if own <= key]
            assert (pool.blocks.key[row] == own[-1]) if own else row == -1


@pytest.mark.parametrize(("rows", "room"), [(0, 1_024), (500, 2_048), (3_000, 4_096)])
def test_clusters_that_move_together_leave_nothing_behind(rows: int, room: int) -> None:
    """In less memory, the same or more, all clusters stay as they are, and free rows are empty."""
    pool = pool_of(owners=40, places=16, width=5, seed=6)
    for owner in range(0, 40, 3):
        assert clusters.lay_out(pool, owner, 32, 7, clusters.kept_cells(2, 2, 4, 3))
    for column in (pool.lines.places, pool.lines.used, pool.lines.width):
        column[1:40:3] = 0  # these owners are gone
    present = [owner for owner in range(40) if owner % 3 != 1]
    before = [history.read(pool, owner, 0) for owner in present]
    assert (len(pool.blocks), len(pool.cells)) == (2_048, 8_192)
    pool = clusters.with_more(pool, rows, 0)
    assert (len(pool.blocks), len(pool.cells)) == (room, 8_192)
    for owner, former in zip(present, before):
        for column, kept in zip(history.read(pool, owner, 0), former):
            assert column.tolist() == kept.tolist()
    used, used_cells = pool.used.tolist()
    assert used == 14 * 32 + 13 * 16
    assert not pool.blocks[used:].view(np.ndarray).view(np.int32).any()
    assert not pool.sums[used:].view(np.ndarray).view(np.int32).any()
    assert not pool.cells[used_cells:].any()


def made_of(losses: Sequence[float], size: int = 16) -> OrderedClusters:
    """Clusters of these losses, an outcome a second."""
    x = np.asarray(losses, dtype=float)
    starts = range(0, len(x), size)
    parts = [x[start : start + size] for start in starts]
    before = np.concatenate(([0.0], x[:-1]))
    count = len(parts)
    zeros = np.zeros(count, dtype=np.int64)
    times = np.array([1_000 * start for start in starts])
    return OrderedClusters(
        np.array([start + 1 for start in starts]), np.array([len(part) for part in parts]),
        np.arange(count), zeros, zeros, zeros, times, np.array([500.0 * len(part) for part in parts]),
        np.array([part.sum() for part in parts]),
        np.array([(part * part).sum() for part in parts]),
        np.array([(x * before)[start : start + size].sum() for start in starts]), times - 500,
        np.zeros((count, history.columns(2, 0))),
    )  # fmt: skip


def test_severity_is_cohens_d() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(0, 1, 1_600), rng.normal(1.5, 2, 1_600)
    before, after = (levels.phase(made_of(one), 0, 100) for one in (x, y))
    d = (y.mean() - x.mean()) / math.sqrt((x.var() + y.var()) / 2)
    assert levels.severity(before, after, False) == pytest.approx(d)
    right, wrong = (levels.phase(made_of(np.full(160, one)), 0, 10) for one in (0.0, 1.0))
    assert levels.severity(right, wrong, False) == levels.MOST_SEVERE
    assert levels.severity(wrong, right, False) == -levels.MOST_SEVERE
    assert levels.severity(right, right, True) == 0.0


def test_the_class_ratio_component_is_what_other_weights_alone_would_make() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        sides = []
        for _ in range(2):
            label = rng.choice(3, 500, p=rng.dirichlet([2, 2, 2]))
            sides.append((label, (rng.random(500) < rng.random(3)[label]).astype(float)))
        of_weights = of_service = 0.0
        for k in range(3):
            (l0, x0), (l1, x1) = sides
            w0, w1 = (l0 == k).mean(), (l1 == k).mean()
            m0, m1 = x0[l0 == k].mean(), x1[l1 == k].mean()
            of_weights += (w1 - w0) * m0
            of_service += w1 * (m1 - m0)
        groups = [
            Groups(
                np.array([(label == k).sum() for k in range(3)], dtype=float),
                np.array([loss[label == k].sum() for k in range(3)]),
            )
            for label, loss in sides
        ]
        assert shift(*groups) == pytest.approx(of_weights)
        assert of_weights + of_service == pytest.approx(sides[1][1].mean() - sides[0][1].mean())

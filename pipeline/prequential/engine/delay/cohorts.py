"""Cohorts: the time of predictions, cut; outcomes wait until their cohort has its labels.

*Cohorts.* Outcomes depend on each other in the order in which predictions were made, while the order of
labels depends on the labellers. The labels that come first needn't be a fair sample. So a stream's
predictions, of all models, are grouped by their `ts` into *cohorts*. A cohort is *complete* once

- each of its predictions has met its label or has expired, or
- its labelled share is at least `SHARE` times that of earlier cohorts without pending labels, or
- it is older than the label horizon (by the stream's clock).

Cohorts are closed in their order. Later events of predictions in closed cohorts have no effect here.

A cohort is one prediction, or all predictions with the same `ts`, while at most `OPEN` cohorts are open. For
longer label latencies, cohorts double in size, repeatedly: the neighbours with numbers 2k and 2k + 1 become
number k of the next *epoch*. So the number of pending predictions determines a stream's resolution.

With clusters a cohort is a *cluster*: the predictions within one interval of a length L, by floor(ts/L). L is
configured (`cluster`). Without a configured length, it is a day, once the predictions span `DAYS` days with a
mean of at least `LEAST_OUTCOMES` labelled instances per day. The newest cluster is closed after a prediction
of a later one, or once it is older than the horizon. If more than `OPEN` clusters wait for labels, neighbours
are also merged.

*Pending outcomes.* Outcomes depend on each other in the order in which predictions were made. The outcomes
whose labels come first needn't be a fair sample (see above). So a sequence's values wait until their cohort
is closed. Then they count, one cohort at a time, in the order of their predictions' time. A value that comes
after its cohort was closed counts at once, as a cohort of its own. If a model is run over past data, all of
its predictions come after their labels; then each value counts in the order of arrival.

With clusters, values that come after their cluster was closed wait together as a *late cluster*. The late
cluster counts once a value of a later cluster comes. So if a model is run over past data, its values also
count by cluster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, inner, kernel, zeros
from prequential.engine.tables.logs import EXPIRED, LATE, MET, WAITS, Events
from prequential.engine.tables.outcomes import OUTCOME, Log
from prequential.engine.tables.streams import Registry

#: The largest number of open cohorts, which is even. Loops search all of them, and each sequence has sums for
#: this number.
OPEN = 32

#: The sufficient share of the predictions that ever get a label, as for periods (`period_final_at`).
SHARE = 0.95

#: The number of a closed cohort. With clusters, it is `CLOSED` - 1 - the begin (ms) of the cluster.
CLOSED = -1

#: The days that predictions must span, and the mean of labelled instances per day, before a cluster is a day.
DAYS, LEAST_OUTCOMES = 20, 8

#: ms
DAY = 86_400_000

#: Before all times.
_NEVER = -(1 << 62)


class Timeline(NamedTuple):
    """By stream. Columns of `OPEN` are by place, the oldest open cohort first."""

    first: Ints  # number of the oldest open cohort, in its epoch
    open: Ints  # number of open cohorts
    epoch: Ints  # cohorts take 2^epoch predictions, those of one `ts` together
    newest: Ints  # largest `ts` of all predictions, ms
    begun: Ints  # whether there were predictions
    oldest: Ints  # smallest `ts` of all predictions, ms
    outcomes: Ints  # labelled instances
    cluster: Ints  # length of a cluster, ms; 0: cohorts go by the number of predictions
    span: Ints  # … and of an open cohort, a multiple of it
    closed: Ints  # up to here, ms, cohorts are closed; 1 more than the true one, 0: none is
    begin: Ints  # (streams, OPEN) ms
    made: Ints  # (streams, OPEN) predictions
    met: Ints  # (streams, OPEN) predictions of these that have met their label
    expired: Ints  # (streams, OPEN) predictions of these that expired
    old_made: Ints  # predictions in closed cohorts that had no pending labels any more
    old_met: Ints  # … predictions of these that have met their label


def new_timeline(streams: int) -> Timeline:
    """Rows for streams without predictions; columns of `OPEN` cohorts are (streams, OPEN)."""
    return zeros(Timeline, streams, begin=OPEN, made=OPEN, met=OPEN, expired=OPEN)


@kernel
def locate(
    timeline: Timeline, registry: Registry, events: Events, event_stop: int, log: Log, stop: int, done: Ints
) -> None:
    """Follow the first `event_stop` events, and set the positions of the first `stop` outcomes in timelines.

    `done`, (2,): how many of the events, and of the outcomes, earlier calls have done; it is brought up to
    date. The function writes the columns `cohort`, `epoch` and `frontier` of the outcome log. All rows of an
    instance have the same `record`. The timeline follows the events up to each instance; then cohorts that
    its outcomes complete are closed. Outcomes of streams that don't need cohorts are skipped.
    """
    entities, streams = registry.entities, registry.streams
    followed, i = done
    while i < stop:
        end, any_new = i, False
        while end < stop and log.record[end] == log.record[i]:
            any_new |= log.kind[end] == OUTCOME
            end += 1
        stream = np.int64(entities.stream[log.entity[i]])
        if streams.by_cohorts[stream] and any_new:
            start = followed
            while followed < event_stop and events.before[followed] <= i:
                followed += 1
            follow(timeline, registry, events, start, followed)
            timeline.outcomes[stream] += 1
            _set_cluster(timeline, stream, streams.cluster[stream])
            for row in range(i, end):
                log.cohort[row] = 1 + cohort_of(timeline, stream, log.ts[row])
                log.epoch[row] = timeline.epoch[stream]
            frontier = close(timeline, stream, log.clock[i], streams.horizon[stream])
            for row in range(i, end):
                log.frontier[row] = frontier
        i = end
    follow(timeline, registry, events, followed, event_stop)
    done[0], done[1] = event_stop, stop


@kernel
def follow(timeline: Timeline, registry: Registry, events: Events, start: int, stop: int) -> None:
    """Follow the events of predictions in these rows of the log."""
    for i in range(start, stop):
        kind = events.kind[i]
        if kind > EXPIRED:
            continue
        stream = np.int64(registry.entities.stream[events.model[i]])
        ts = events.ts[i]
        if kind == WAITS:
            streams = registry.streams
            add(timeline, stream, ts, events.t1[i], streams.horizon[stream], streams.cluster[stream])
            continue
        index = place_of(timeline, stream, ts)
        if index == CLOSED:
            continue
        if kind == MET:
            timeline.met[stream, index] += 1
        elif kind == LATE:
            timeline.made[stream, index] -= 1
        else:
            timeline.expired[stream, index] += 1


@inner
def place_of(timeline: Timeline, stream: int, ts: int) -> int:
    """The place of the open cohort that a prediction of this time is in, or `CLOSED`."""
    index = timeline.open[stream] - 1
    while index >= 0 and timeline.begin[stream, index] > ts:
        index -= 1
    return index if index >= 0 else CLOSED


@inner
def cohort_of(timeline: Timeline, stream: int, ts: int) -> int:
    """The number of a prediction's open cohort, by its time; `CLOSED` or below if its cohort is closed."""
    index, cluster = place_of(timeline, stream, ts), timeline.cluster[stream]
    if index != CLOSED:
        return timeline.first[stream] + index
    return CLOSED - 1 - max(ts - ts % cluster, 0) if cluster else CLOSED


@inner
def add(timeline: Timeline, stream: int, ts: int, clock: int, horizon: int, cluster: int) -> None:
    """Add a prediction.

    `cluster` is the configured length of clusters (ms); 0: it follows from the data, -1: there are none.
    """
    last = timeline.open[stream] - 1
    if not timeline.begun[stream]:
        timeline.begun[stream], timeline.newest[stream], timeline.closed[stream] = 1, ts, _NEVER
        timeline.oldest[stream] = ts
        _set_cluster(timeline, stream, cluster)
    timeline.oldest[stream] = min(timeline.oldest[stream], ts)
    if ts <= timeline.closed[stream]:
        return
    if last < 0:
        _open(timeline, stream, ts)
    elif _is_later(timeline, stream, ts) and _is_full(timeline, stream, last, ts):
        if timeline.open[stream] == OPEN:
            close(timeline, stream, clock, horizon)  # usually each outcome does this, but there may be none
        if timeline.open[stream] == OPEN:
            _coarsen(timeline, stream)
        last = timeline.open[stream] - 1
        if last < 0 or _is_full(timeline, stream, last, ts):
            _open(timeline, stream, ts)
        else:
            timeline.made[stream, last] += 1
    else:
        index = max(place_of(timeline, stream, ts), 0)
        timeline.made[stream, index] += 1
        timeline.begin[stream, index] = min(timeline.begin[stream, index], ts)
    timeline.newest[stream] = max(timeline.newest[stream], ts)


@inner
def _set_cluster(timeline: Timeline, stream: int, configured: int) -> None:
    """Set the length of clusters: the configured one or, without one, a day once there are enough days."""
    cluster = max(configured, 0)
    if configured == 0:
        span = timeline.newest[stream] - timeline.oldest[stream]
        if timeline.cluster[stream] == DAY or (
            span >= DAYS * DAY and timeline.outcomes[stream] * DAY >= LEAST_OUTCOMES * span
        ):
            cluster = DAY
    if timeline.cluster[stream] != cluster:
        timeline.cluster[stream] = timeline.span[stream] = cluster


@inner
def _is_later(timeline: Timeline, stream: int, ts: int) -> bool:
    """Whether a prediction is later than all others; with clusters, whether it is in a later cluster."""
    newest, cluster = timeline.newest[stream], timeline.cluster[stream]
    return ts // cluster > newest // cluster if cluster else ts > newest


@inner
def _is_full(timeline: Timeline, stream: int, index: int, ts: int) -> bool:
    """Whether an open cohort takes no later prediction of this time."""
    if timeline.cluster[stream]:
        return ts - timeline.begin[stream, index] >= timeline.span[stream]
    return timeline.made[stream, index] >= 1 << timeline.epoch[stream]


@inner
def _open(timeline: Timeline, stream: int, ts: int) -> None:
    """Begin a cohort with a prediction."""
    index, cluster = timeline.open[stream], timeline.cluster[stream]
    timeline.open[stream] = index + 1
    begin = ts - ts % cluster if cluster else ts
    timeline.begin[stream, index] = max(begin, timeline.closed[stream] + 1)
    timeline.made[stream, index] = 1
    timeline.met[stream, index] = timeline.expired[stream, index] = 0


@inner
def _coarsen(timeline: Timeline, stream: int) -> None:
    """Double the size of cohorts: numbers 2k and 2k + 1 become k of the next epoch."""
    first, count = timeline.first[stream], timeline.open[stream]
    into = -1
    for index in range(count):
        if index == 0 or (first + index) % 2 == 0:
            into += 1
            timeline.begin[stream, into] = timeline.begin[stream, index]
            timeline.made[stream, into] = timeline.made[stream, index]
            timeline.met[stream, into] = timeline.met[stream, index]
            timeline.expired[stream, into] = timeline.expired[stream, index]
        else:
            timeline.made[stream, into] += timeline.made[stream, index]
            timeline.met[stream, into] += timeline.met[stream, index]
            timeline.expired[stream, into] += timeline.expired[stream, index]
    timeline.span[stream] *= 2
    timeline.first[stream] = first >> 1
    timeline.open[stream] = into + 1
    timeline.epoch[stream] += 1


@inner
def close(timeline: Timeline, stream: int, clock: int, horizon: int) -> int:
    """Close the cohorts that are complete, in their order; returns the number of the oldest open one."""
    done, count = 0, timeline.open[stream]
    while done < count:
        last = done + 1 == count
        predictions, met = timeline.made[stream, done], timeline.met[stream, done]
        end = timeline.newest[stream] if last else timeline.begin[stream, done + 1] - 1
        gone = met + timeline.expired[stream, done] >= predictions or clock - horizon > end
        share = 1.0
        if timeline.old_made[stream] > 0:
            share = timeline.old_met[stream] / timeline.old_made[stream]
        if not gone and met < SHARE * share * predictions:
            break
        more_come = timeline.cluster[stream] > 0 or predictions < 1 << timeline.epoch[stream]
        if last and clock - horizon <= end and more_come:
            break
        if gone:
            timeline.old_made[stream] += predictions
            timeline.old_met[stream] += met
        timeline.closed[stream] = end
        done += 1
    if done:
        for index in range(done, count):
            timeline.begin[stream, index - done] = timeline.begin[stream, index]
            timeline.made[stream, index - done] = timeline.made[stream, index]
            timeline.met[stream, index - done] = timeline.met[stream, index]
            timeline.expired[stream, index - done] = timeline.expired[stream, index]
        timeline.first[stream] += done
        timeline.open[stream] = count - done
    return timeline.first[stream]


#: Places of a row: of open cohorts, and of the late cluster.
PLACES = OPEN + 1


class PendingCohorts(NamedTuple):
    """By sequence: values that wait, by cohort from the oldest one on."""

    oldest: Ints  # number of the oldest cohort that doesn't count yet …
    epoch: Ints  # … in this epoch of the stream's timeline
    late: Ints  # begin (ms) of the newest cluster that got a value when it was closed
    # By place; the last one is that of the late cluster:
    n: Ints  # (sequences, PLACES) values
    total: Floats  # (sequences, PLACES) Σ x
    squares: Floats  # (sequences, PLACES) Σ x²
    cluster: Ints  # (sequences, PLACES) the newest of their clusters (see `Position`)


class Closed(NamedTuple):
    """Cohorts with values that one call of `add` closes, in order: at most all open ones and one more."""

    n: Ints  # (OPEN + 1,) values
    total: Floats  # (OPEN + 1,) Σ x
    squares: Floats  # (OPEN + 1,) Σ x²
    cluster: Ints  # (OPEN + 1,) the newest of their clusters


class Position(NamedTuple):
    """The position of a prediction in its stream's timeline when its label comes."""

    cohort: int  # its number; `CLOSED`, or below with clusters: its cohort is closed
    epoch: int  # of the timeline
    frontier: int  # cohorts before this one are closed now
    cluster: int  # number of the cluster that the prediction belongs to, from 1; 0: outcomes have none


def new_pending(rows: int) -> PendingCohorts:
    """Return rows (sequences) without pending values; columns of (rows, PLACES)."""
    return zeros(PendingCohorts, rows, n=PLACES, total=PLACES, squares=PLACES, cluster=PLACES)


def new_closed() -> Closed:
    """Room for the cohorts that `add` closes at a time: columns of (OPEN + 1,)."""
    return zeros(Closed, OPEN + 1)


@inner
def begin(pending: PendingCohorts, row: int, position: Position) -> None:
    """Prepare a row for its first value, whose prediction lies at `position` (see `add`)."""
    pending.oldest[row] = (
        position.frontier if position.cohort <= CLOSED else min(position.cohort, position.frontier)
    )
    pending.epoch[row] = position.epoch


@inner
def add_outcome(pending: PendingCohorts, row: int, position: Position, x: float, closed: Closed) -> int:
    """Take the row's next value x; returns the number of cohorts that count from now on, in `closed`.

    `position` is that of the prediction. The first 0 … OPEN + 1 rows of `closed` are written, one for each
    cohort, in order of time.
    """
    cohort, frontier = position.cohort, position.frontier
    while pending.epoch[row] < position.epoch:
        _coarsen_pending(pending, row)
    until = frontier if cohort <= CLOSED else min(cohort, frontier)
    count = _close_until(pending, row, until, closed, 0)
    if cohort <= CLOSED:
        return _add_late(pending, row, position, x, closed, count)
    index = cohort - pending.oldest[row]
    pending.cluster[row, index] = max(pending.cluster[row, index], position.cluster)
    pending.n[row, index] += 1
    pending.total[row, index] += x
    pending.squares[row, index] += x * x
    return _close_until(pending, row, frontier, closed, count)


@inner
def close_cohorts(pending: PendingCohorts, row: int, position: Position, closed: Closed) -> int:
    """Close the row's cohorts before the frontier of `position`, without a value; otherwise as `add`."""
    while pending.epoch[row] < position.epoch:
        _coarsen_pending(pending, row)
    return _close_until(pending, row, position.frontier, closed, 0)


@inner
def _add_late(
    pending: PendingCohorts, row: int, position: Position, x: float, closed: Closed, count: int
) -> int:
    """Take a value whose cohort is closed. Its cluster waits; without one, the value counts at once."""
    begin = CLOSED - 1 - position.cohort  # ms; -1: there is no cluster
    if begin > pending.late[row]:
        count = _close_late(pending, row, closed, count)
        pending.late[row] = begin
    pending.n[row, OPEN] += 1
    pending.total[row, OPEN] += x
    pending.squares[row, OPEN] += x * x
    pending.cluster[row, OPEN] = max(pending.cluster[row, OPEN], position.cluster)
    return _close_late(pending, row, closed, count) if begin < 0 else count


@inner
def _close_late(pending: PendingCohorts, row: int, closed: Closed, count: int) -> int:
    """Close the late cluster; it follows the first `count` cohorts in `closed`."""
    if not pending.n[row, OPEN]:
        return count
    closed.n[count], closed.total[count] = pending.n[row, OPEN], pending.total[row, OPEN]
    closed.squares[count], closed.cluster[count] = pending.squares[row, OPEN], pending.cluster[row, OPEN]
    pending.n[row, OPEN] = pending.cluster[row, OPEN] = 0
    pending.total[row, OPEN] = pending.squares[row, OPEN] = 0.0
    return count + 1


@inner
def _coarsen_pending(pending: PendingCohorts, row: int) -> None:
    """Double the size of the row's cohorts: they are those of the next epoch."""
    base = pending.oldest[row]
    for index in range(OPEN):
        n, total, squares = pending.n[row, index], pending.total[row, index], pending.squares[row, index]
        cluster = pending.cluster[row, index]
        pending.n[row, index] = pending.cluster[row, index] = 0
        pending.total[row, index] = pending.squares[row, index] = 0.0
        into = ((base + index) >> 1) - (base >> 1)
        pending.n[row, into] += n
        pending.total[row, into] += total
        pending.squares[row, into] += squares
        pending.cluster[row, into] = max(pending.cluster[row, into], cluster)
    pending.oldest[row] = base >> 1
    pending.epoch[row] += 1


@inner
def _close_until(pending: PendingCohorts, row: int, frontier: int, closed: Closed, count: int) -> int:
    """Close the cohorts before `frontier`; they follow the first `count` ones in `closed`."""
    passed = frontier - pending.oldest[row]
    if passed <= 0:
        return count
    for index in range(min(passed, OPEN)):
        if pending.n[row, index]:
            closed.n[count], closed.total[count] = pending.n[row, index], pending.total[row, index]
            closed.squares[count] = pending.squares[row, index]
            closed.cluster[count] = pending.cluster[row, index]
            count += 1
    for index in range(OPEN):
        n, total, squares, cluster = 0, 0.0, 0.0, 0
        if index + passed < OPEN:
            n, total = pending.n[row, index + passed], pending.total[row, index + passed]
            squares, cluster = pending.squares[row, index + passed], pending.cluster[row, index + passed]
        pending.n[row, index], pending.total[row, index], pending.squares[row, index] = n, total, squares
        pending.cluster[row, index] = cluster
    pending.oldest[row] = frontier
    return count

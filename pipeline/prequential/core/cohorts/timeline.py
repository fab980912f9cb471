"""The time of predictions, cut into cohorts: those with their labels are what verdicts and `harm` count.

Outcomes depend on each other in the order in which predictions were made; the order in which their labels
come is the labellers'. And the labels that come first needn't be a fair sample. So a stream's predictions are
put together by their `ts` in *cohorts*, whatever their model, and a cohort is *complete* once

- each of its predictions has met its label or has expired, or
- as large a part of `SHARE` has met its label as of cohorts that are older than the label horizon, or
- it is older than the horizon (by the stream's clock).

Cohorts are closed in their order. What becomes of predictions older than those changes nothing here.

A cohort holds one prediction, or as many as have one `ts`, as long as no more than `OPEN` cohorts are open.
For longer label latencies they become twice as large, again and again: two neighbours, numbers 2k and 2k + 1,
become number k of the next *epoch*. So a stream's resolution follows from how many of its predictions wait.

With clusters a cohort is a *cluster*: the predictions that were made within one period of a length L, by
floor(ts/L). L is configured (`cluster`), or a day, once the predictions span `DAYS` days with
`LEAST_OUTCOMES` labelled instances each in the mean. The newest cluster is closed after a prediction of a
later one, or once it is older than the horizon. Where more than `OPEN` clusters wait for labels, neighbours
are put together, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Ints, inner, kernel, zeros
from prequential.core.tables.events import EXPIRED, LATE, MET, WAITS, Events
from prequential.core.tables.outcomes import OUTCOME, Log
from prequential.core.tables.streams import Registry

#: Most cohorts that are open at a time, an even number: they are looked through, and each sequence has sums
#: for so many.
OPEN = 32

#: The part of the predictions that ever get a label that is enough, as with periods (`period_final_at`).
SHARE = 0.95

#: A cohort that there isn't (any more). With clusters, `CLOSED` - 1 - the begin (ms) of the cluster.
CLOSED = -1

#: Days that predictions span, and labelled instances in each of them, from which on a cluster is a day.
DAYS, LEAST_OUTCOMES = 20, 8

#: ms
DAY = 86_400_000

#: Before all times.
_NEVER = -(1 << 62)


class Timeline(NamedTuple):
    """By stream. Columns of `OPEN` are by place, the oldest open cohort first."""

    first: Ints  # number of the oldest open cohort, in its epoch
    open: Ints  # how many are
    epoch: Ints  # cohorts take 2^epoch predictions, those of one `ts` together
    newest: Ints  # largest `ts` of all predictions, ms
    begun: Ints  # whether there were any
    oldest: Ints  # smallest `ts` of all predictions, ms
    outcomes: Ints  # labelled instances
    cluster: Ints  # length of a cluster, ms; 0: cohorts go by the number of predictions
    span: Ints  # … and of an open cohort, a multiple of it
    closed: Ints  # up to here, ms, cohorts are closed; 1 more than the true one, 0: none is
    begin: Ints  # (streams, OPEN) ms
    made: Ints  # (streams, OPEN) predictions
    met: Ints  # (streams, OPEN) of these, such as have met their label
    expired: Ints  # (streams, OPEN) … such as never will
    old_made: Ints  # predictions in cohorts that were closed since all had become of them that ever will
    old_met: Ints  # … of these, such as have met their label


def new_timeline(streams: int) -> Timeline:
    """Rows for so many streams without predictions; columns of `OPEN` cohorts are (streams, OPEN)."""
    return zeros(Timeline, streams, begin=OPEN, made=OPEN, met=OPEN, expired=OPEN)


@kernel
def locate(
    timeline: Timeline, registry: Registry, events: Events, event_stop: int, log: Log, stop: int
) -> None:
    """Follow the first `event_stop` events, and say where the first `stop` outcomes lie in their timelines.

    Written are the columns `cohort`, `epoch` and `frontier` of the outcome log. An instance's rows have one
    `record`. The timeline follows the events up to each instance, and what is complete with its outcomes is
    closed. Outcomes of streams that don't need it are left out.
    """
    entities, streams = registry.entities, registry.streams
    i = followed = 0
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


@kernel
def follow(timeline: Timeline, registry: Registry, events: Events, start: int, stop: int) -> None:
    """Follow what became of predictions in these rows of the log of events."""
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
        place = place_of(timeline, stream, ts)
        if place == CLOSED:
            continue
        if kind == MET:
            timeline.met[stream, place] += 1
        elif kind == LATE:
            timeline.made[stream, place] -= 1
        else:
            timeline.expired[stream, place] += 1


@inner
def place_of(timeline: Timeline, stream: int, ts: int) -> int:
    """The place of the open cohort that a prediction of this time is in, or `CLOSED`."""
    place = timeline.open[stream] - 1
    while place >= 0 and timeline.begin[stream, place] > ts:
        place -= 1
    return place if place >= 0 else CLOSED


@inner
def cohort_of(timeline: Timeline, stream: int, ts: int) -> int:
    """The number of a prediction's open cohort, by its time; `CLOSED` or below if its cohort is closed."""
    place, cluster = place_of(timeline, stream, ts), timeline.cluster[stream]
    if place != CLOSED:
        return timeline.first[stream] + place
    return CLOSED - 1 - max(ts - ts % cluster, 0) if cluster else CLOSED


@inner
def add(timeline: Timeline, stream: int, ts: int, clock: int, horizon: int, cluster: int) -> None:
    """Add a prediction; `cluster` is the configured length of clusters (ms), 0: it follows from the data."""
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
            close(timeline, stream, clock, horizon)  # else so does each outcome; there may be none
        if timeline.open[stream] == OPEN:
            _coarsen(timeline, stream)
        last = timeline.open[stream] - 1
        if last < 0 or _is_full(timeline, stream, last, ts):
            _open(timeline, stream, ts)
        else:
            timeline.made[stream, last] += 1
    else:
        place = max(place_of(timeline, stream, ts), 0)
        timeline.made[stream, place] += 1
        timeline.begin[stream, place] = min(timeline.begin[stream, place], ts)
    timeline.newest[stream] = max(timeline.newest[stream], ts)


@inner
def _set_cluster(timeline: Timeline, stream: int, configured: int) -> None:
    """Let clusters have the configured length; without one, a day as soon as there are days enough."""
    cluster = configured
    if not configured:
        span = timeline.newest[stream] - timeline.oldest[stream]
        if timeline.cluster[stream] == DAY or (
            span >= DAYS * DAY and timeline.outcomes[stream] * DAY >= LEAST_OUTCOMES * span
        ):
            cluster = DAY
    if timeline.cluster[stream] != cluster:
        timeline.cluster[stream] = timeline.span[stream] = cluster


@inner
def _is_later(timeline: Timeline, stream: int, ts: int) -> bool:
    """Whether a prediction's time is behind all others', with clusters: in a later one."""
    newest, cluster = timeline.newest[stream], timeline.cluster[stream]
    return ts // cluster > newest // cluster if cluster else ts > newest


@inner
def _is_full(timeline: Timeline, stream: int, place: int, ts: int) -> bool:
    """Whether an open cohort takes no later prediction of this time."""
    if timeline.cluster[stream]:
        return ts - timeline.begin[stream, place] >= timeline.span[stream]
    return timeline.made[stream, place] >= 1 << timeline.epoch[stream]


@inner
def _open(timeline: Timeline, stream: int, ts: int) -> None:
    """A cohort begins with a prediction."""
    place, cluster = timeline.open[stream], timeline.cluster[stream]
    timeline.open[stream] = place + 1
    begin = ts - ts % cluster if cluster else ts
    timeline.begin[stream, place] = max(begin, timeline.closed[stream] + 1)
    timeline.made[stream, place] = 1
    timeline.met[stream, place] = timeline.expired[stream, place] = 0


@inner
def _coarsen(timeline: Timeline, stream: int) -> None:
    """Cohorts become twice as large: numbers 2k and 2k + 1 are k of the next epoch."""
    first, count = timeline.first[stream], timeline.open[stream]
    into = -1
    for place in range(count):
        if place == 0 or (first + place) % 2 == 0:
            into += 1
            timeline.begin[stream, into] = timeline.begin[stream, place]
            timeline.made[stream, into] = timeline.made[stream, place]
            timeline.met[stream, into] = timeline.met[stream, place]
            timeline.expired[stream, into] = timeline.expired[stream, place]
        else:
            timeline.made[stream, into] += timeline.made[stream, place]
            timeline.met[stream, into] += timeline.met[stream, place]
            timeline.expired[stream, into] += timeline.expired[stream, place]
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
        made, met = timeline.made[stream, done], timeline.met[stream, done]
        end = timeline.newest[stream] if last else timeline.begin[stream, done + 1] - 1
        gone = met + timeline.expired[stream, done] >= made or clock - horizon > end
        share = 1.0
        if timeline.old_made[stream] > 0:
            share = timeline.old_met[stream] / timeline.old_made[stream]
        if not gone and met < SHARE * share * made:
            break
        more_come = timeline.cluster[stream] > 0 or made < 1 << timeline.epoch[stream]
        if last and clock - horizon <= end and more_come:
            break
        if gone:
            timeline.old_made[stream] += made
            timeline.old_met[stream] += met
        timeline.closed[stream] = end
        done += 1
    if done:
        for place in range(done, count):
            timeline.begin[stream, place - done] = timeline.begin[stream, place]
            timeline.made[stream, place - done] = timeline.made[stream, place]
            timeline.met[stream, place - done] = timeline.met[stream, place]
            timeline.expired[stream, place - done] = timeline.expired[stream, place]
        timeline.first[stream] += done
        timeline.open[stream] = count - done
    return timeline.first[stream]

"""The state store: instances, their predictions and labels, until their deadlines; and which of these pass.

Each stream has a timing wheel of several levels, like the timers of operating systems. Bucket b of level l
holds deadlines that agree with the clock in all digits above the l-th, to base 64, and have b as the l-th.
So scheduling, unscheduling and running out cost the same, however many instances are pending. Instances that
run out together have no order.

| state | content | deadline |
| --- | --- | --- |
| WAITING | an instance record or predictions, no label | t0 + horizon |
| LABELLED | a label, no prediction that counts | t1 + horizon |
| SETTLED | at least one outcome | clock at the outcome + settle |
| EXPIRED | only the id and t0: the label horizon has passed | clock when it expired + horizon |

An instance is a row of `Instances` (its slot, see `engine.compiled.ids`). Its predictions are a
list in a pool, in order of delivery; its label is a row of another pool. Row 0 of every table stands for
none. `docs/reference/semantics-time.md` describes the effect of each record in each state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.ids import Ids
from prequential.engine.compiled.kernel import (
    Bytes,
    Codes,
    Floats,
    Ints,
    Ints32,
    Shorts,
    Words,
    inlined,
    inner,
)
from prequential.engine.compiled.pool import Pool
from prequential.engine.tables.compact import Compact, Settled

#: Base of the digits of times, 2^6, and how many digits there are.
BITS, LEVELS = 6, 9
BUCKETS = 1 << BITS
_MASK = BUCKETS - 1

#: Added to times, so that digits are those of a number that isn't negative. Of all times that messages may
#: have (to ±8.64e15 ms) and deadlines 10,000 years after them, none is at either end.
OFFSET = 1 << (BITS * LEVELS - 1)

#: The clock before anything was seen; and a deadline that is never reached.
BEGINNING = -OFFSET
NEVER = 1 << 62

_END = OFFSET - 1
_ONE = np.uint64(1)


class Wheels(NamedTuple):
    """By stream: the first instance in each bucket (0: none), and a time above which one may be due."""

    first: Ints32  # (streams, LEVELS * BUCKETS)
    used: Words  # (streams, LEVELS): buckets that aren't empty, as bits
    next_due: Ints  # (streams,)


class Links(NamedTuple):
    """By instance: its deadline (ms), its neighbours in its bucket (0: none), its bucket + 1 (0: in none)."""

    deadline: Ints
    next: Ints32
    previous: Ints32
    bucket: Shorts


@inner
def _number(time: int) -> int:
    """A time as a number of `LEVELS` digits; a time out of range becomes the nearest one in range."""
    return min(max(time, BEGINNING), _END) + OFFSET


@inner
def _level(difference: int) -> int:
    """The highest digit in which two numbers differ, from their exclusive or."""
    level = 0
    difference >>= BITS
    while difference:
        difference >>= BITS
        level += 1
    return level


@inner
def _lowest(bits: np.uint64) -> int:
    """The lowest bit that is set, of some."""
    digit = 0
    for width in (32, 16, 8, 4, 2, 1):
        if bits & ((_ONE << np.uint64(width)) - _ONE) == 0:
            bits >>= np.uint64(width)
            digit += width
    return digit


@inlined
def schedule(wheels: Wheels, links: Links, stream: int, instance: int, deadline: int, clock: int) -> None:
    """Let an instance, which is in no bucket, run out once its stream's clock is above `deadline`: maybe now.

    Both are in ms. `clock` is that of the last `advance`, or a later one that isn't above `next_due`.
    """
    links.deadline[instance] = deadline
    now = _number(clock)
    due_number = max(_number(min(deadline, NEVER) + 1), now)  # the first clock at which it is due
    level = _level(due_number ^ now)
    digit = (due_number >> (BITS * level)) & _MASK
    bucket = level * BUCKETS + digit
    first = wheels.first[stream, bucket]
    links.next[instance] = first
    links.previous[instance] = 0
    links.bucket[instance] = bucket + 1
    if first:
        links.previous[first] = instance
    else:
        wheels.used[stream, level] |= _ONE << np.uint64(digit)
    wheels.first[stream, bucket] = instance
    # A clock that comes to a bucket must empty it, even if nothing in it is due yet: the clock's digits
    # change.
    due = (due_number >> (BITS * level) << (BITS * level)) - OFFSET - 1
    if due < wheels.next_due[stream]:
        wheels.next_due[stream] = due


@inlined
def unschedule(wheels: Wheels, links: Links, stream: int, instance: int) -> None:
    """Take an instance out of its bucket; nothing happens if it is in none, as what `advance` has found."""
    bucket = np.int64(links.bucket[instance]) - 1
    if bucket < 0:
        return
    after, before = links.next[instance], links.previous[instance]
    if after:
        links.previous[after] = before
    if before:
        links.next[before] = after
    else:
        wheels.first[stream, bucket] = after
        if not after:
            digit = np.uint64(bucket & _MASK)
            wheels.used[stream, bucket >> BITS] &= ~(_ONE << digit)
    links.bucket[instance] = 0


@inner
def _take(wheels: Wheels, links: Links, stream: int, bucket: int, first: int) -> int:
    """Empty a bucket; its instances go before `first`, linked by `next`. Returns the first."""
    instance = wheels.first[stream, bucket]
    wheels.first[stream, bucket] = 0
    digit = np.uint64(bucket & _MASK)
    wheels.used[stream, bucket >> BITS] &= ~(_ONE << digit)
    while instance:
        after = links.next[instance]
        links.bucket[instance] = 0
        links.next[instance] = first
        first = instance
        instance = after
    return first


@inner
def advance(wheels: Wheels, links: Links, stream: int, before: int, clock: int) -> int:
    """Take out the instances that may be due now that the clock (ms) has gone from `before` to `clock`.

    Returns the first of them (0: none); the others follow by `links.next`. Of these, the caller schedules
    again those that aren't due yet, at the new clock, and then sets `next_due` to the `earliest`. The caller
    may skip times at which the clock wasn't above `next_due`.
    """
    old, new = _number(before), _number(clock)
    top = _level(old ^ new)
    first = 0
    for level in range(top + 1):
        # Below the highest digit that has changed all buckets lie behind; at it, those up to the clock's.
        bits = wheels.used[stream, level]
        stop = (new >> (BITS * level)) & _MASK if level == top else _MASK
        while bits:
            digit = _lowest(bits)
            if digit > stop:
                break
            first = _take(wheels, links, stream, level * BUCKETS + digit, first)
            bits &= bits - _ONE
    return first


@inner
def earliest(wheels: Wheels, links: Links, stream: int, clock: int) -> int:
    """What `next_due` is to be: a time (ms) with nothing due, or to be moved, until the clock is above it.

    `clock` is that of the last `advance`. If the clock goes just above the time returned, something is found.
    NEVER, if nothing is scheduled.
    """
    now = _number(clock)
    for level in range(LEVELS):
        bits = wheels.used[stream, level]
        if bits:
            above = now >> (BITS * (level + 1)) << (BITS * (level + 1))
            return (above | (_lowest(bits) << (BITS * level))) - OFFSET - 1
    return NEVER


UNKNOWN, WAITING, LABELLED, SETTLED, EXPIRED = range(5)

#: In place of a version where no instance record has come.
NO_VERSION = -(1 << 63)

#: The code of no class: what a baseline predicts before the first label, and a label that is withdrawn.
NO_CLASS = 0xFFFF

#: Most classes that fit: codes 0 … 65,534.
MAX_CLASSES = NO_CLASS


#: Columns of seasonal baselines: how many labels their stream had when the prediction was processed, the
#: baseline, and 1 where there is one.
SEEN, BASELINE, FOUND = range(3)


#: The unit of levels of quantiles, which have 64 bits as the names of classes have.
LEVEL = 2.0**-63


class Instances(NamedTuple):
    """By slot. Deadlines are in `engine.tables.store.Links`."""

    version: Ints  # largest one of its instance records; of an expired instance its arrival t0, ms
    first: Ints32  # first of its predictions
    label: Ints32  # its label
    state: Bytes


class Marks(NamedTuple):
    """By slot, where streams need them (else without columns): segments by key, the label's propensity."""

    segments: Codes  # (slots, keys): 0 none, else 1 + position of the value among the key's
    propensity: Floats  # (slots, 0 or 1): 0: none


class Predictions(NamedTuple):
    """A pool: predictions that wait, or that met a label which may still be revised."""

    ts: Ints
    next: Ints32  # of the same instance, in order of delivery; of free rows, the next free one
    model: Ints32  # row of the model's entity
    probabilities: Ints32  # first row of its probabilities
    outcome: Ints32  # of a model's first prediction, once settled: its outcome's number, low 32 bits
    label: Codes  # the class that is predicted
    persistent: Codes  # the baselines' classes when it was processed
    majority: Codes
    judged: Codes  # 0, or 1 + the label's class when it met the label alone, after others had
    corrected: Codes  # 0, or 1 + the class by temporal correction
    version: Codes  # of the model, a code; 0: not given
    bin: Bytes  # of its confidence, where periods are estimated; 0: none was given
    score: Bytes  # 1 + the bin of its score, where ranks of periods are estimated; 0: none was given


class Values(NamedTuple):
    """By prediction, where streams need them (else without columns): the number, and segments by key."""

    number: Floats  # (predictions, 0 or 1)
    numbers: Floats  # (predictions, those up to the last that is read): `topics.messages.NUMBERS`; NaN: none
    estimate: Floats  # (predictions, 0 or 1): see `join.scoring`
    season: Floats  # (predictions, 0 or 3): SEEN, BASELINE, FOUND
    segments: Codes  # (predictions, keys)
    segment_numbers: Ints  # (predictions, keys): numbers of the outcomes in the segments
    after_numbers: Ints  # (predictions, stages at an age): numbers of the outcomes


class Labels(NamedTuple):
    """A pool: labels that wait for predictions, or that have met them."""

    next: Ints32  # of free rows, the next free one
    t1: Ints
    t0: Ints  # arrival when it met the first prediction
    label: Ints32  # class as it is now; NO_CLASS: the label is withdrawn
    first: Ints32  # class as it was when it met the first prediction
    persistent: Codes  # the baselines' classes just before it
    majority: Codes
    number: Floats  # for regression: the label
    completed: Ints  # its number among the labels that met predictions, from 1
    at_horizon: Bytes  # whether it is that of instances without one by the horizon, and none came since


class LabelValues(NamedTuple):
    """By label; where no stream needs them the columns are (labels, 0)."""

    after_numbers: Ints  # (labels, stages at an age): numbers of the baselines' outcomes
    value: Floats  # (labels, 0 or 2): what is at stake, and 1 where that is given


class Probabilities(NamedTuple):
    """A pool: probabilities of predictions, in the order in which they were given."""

    next: Ints32
    name: Words  # the class, as a hash of its name (`engine.tables.records`); or a quantile's level / LEVEL
    p: Floats  # of a quantile, the number


class Seasons(NamedTuple):
    """Labels by stream and time, in the rows of a pool, where seasonal baselines are needed."""

    first: Ints32  # by stream: its first row
    swept: Ints  # by stream: its clock when old labels were last removed
    order: Ints  # by row: the label's number among those of its stream
    value: Floats  # NaN: different labels have this time


#: Positions in `Pools`.
PREDICTIONS, LABELS, PROBABILITIES = range(3)


class Pools(NamedTuple):
    """By pool: its first free row (0: none), the end of the rows used so far, and rows in use."""

    free: Ints
    end: Ints
    used: Ints


@inlined
def take_row(pools: Pools, pool: int, next_row: Ints32) -> int:
    """A free row of a pool, the one that was freed last; its `next` is 0 then.

    Capacity is ensured by the caller (`engine.catalog.state.ensure`): compiled, nothing checks.
    """
    row = pools.free[pool]
    if row:
        pools.free[pool] = next_row[row]
    else:
        row = pools.end[pool]
        pools.end[pool] = row + 1
    pools.used[pool] += 1
    next_row[row] = 0
    return row


@inner
def give_row(pools: Pools, pool: int, next_row: Ints32, row: int) -> None:
    """Put a row that was in use into the free ones of a pool (`PREDICTIONS`, `LABELS`, `PROBABILITIES`).

    `next_row` is the `next` column of the pool's table, by which free rows are linked.
    """
    next_row[row] = pools.free[pool]
    pools.free[pool] = row
    pools.used[pool] -= 1


@inlined
def count_of(predictions: Predictions, first: int) -> int:
    """How many predictions are in the list that begins in row `first` (0: an empty one)."""
    count = 0
    while first:
        count += 1
        first = predictions.next[first]
    return count


@inner
def drop_probabilities(pools: Pools, probabilities: Probabilities, first: int) -> None:
    """Free all probabilities of the list that begins in row `first` (0: an empty one)."""
    while first:
        following = probabilities.next[first]
        give_row(pools, PROBABILITIES, probabilities.next, first)
        first = following


@inner
def drop_predictions(
    pools: Pools, predictions: Predictions, probabilities: Probabilities, first: int
) -> None:
    """Free all predictions of the list that begins in row `first` (0: an empty one)."""
    while first:
        following = predictions.next[first]
        drop_probabilities(pools, probabilities, predictions.probabilities[first])
        give_row(pools, PREDICTIONS, predictions.next, first)
        first = following


class Store(NamedTuple):
    """The join's state: instances, and the predictions and labels that wait or may still be revised."""

    ids: Ids
    instances: Instances
    marks: Marks
    links: Links
    wheels: Wheels
    predictions: Predictions
    values: Values
    labels: Labels
    label_values: LabelValues
    probabilities: Probabilities
    pools: Pools
    settled: Settled
    compact: Compact  # settled instances that are in none of the other tables
    seasons: Seasons
    season_pool: Pool  # owners are streams, keys the labels' times

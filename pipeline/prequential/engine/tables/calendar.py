"""Deadlines: which instances run out when the clock of their stream moves.

Each stream has a timing wheel of several levels, like the timers of operating systems. Bucket b of level l
holds deadlines that agree with the clock in all digits above the l-th, to base 64, and have b as the l-th.
So scheduling, unscheduling and running out cost the same, however many instances are pending. Instances that
run out together have no order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import Ints, Ints32, Shorts, inlined, inner

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
    used: npt.NDArray[np.uint64]  # (streams, LEVELS): buckets that aren't empty, as bits
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
    at = max(_number(min(deadline, NEVER) + 1), now)  # the first clock at which it is due
    level = _level(at ^ now)
    digit = (at >> (BITS * level)) & _MASK
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
    due = (at >> (BITS * level) << (BITS * level)) - OFFSET - 1
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

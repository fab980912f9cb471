"""How good expected values are where what has no label by the horizon has the class 0, as with clicks.

    python -m tests.evidence.clicks [clicks | clicks_concept ...]

Days of some hundred predictions of whether there will be a click; horizon 14 days. One in six has one: a
third of the clicks come within an hour, half within a day, the others as late as the horizon lets them. With
`label_at_horizon` what has none by then has the class 0.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.evidence import before_labels
from tests.evidence.before_labels import EACH, HORIZON, Said, World, graded, messages_of

WORLDS = ("clicks", "clicks_concept")

#: Of the clicks, those within an hour, and within a day; hours and days in days.
_SOON, _WITHIN_A_DAY, _HOUR = 1 / 3, 1 / 2, 1 / 24


def world(kind: str, days: int, each: int, seed: int) -> World:
    """A world of `each` predictions a day; with `clicks_concept` people click less half way."""
    r = np.random.default_rng(seed)
    n = days * each
    t = np.sort(r.random(n)) * days
    score = r.beta(0.6, 1.8, n)
    p = np.clip(0.65 * score, 0, 1)
    if kind == "clicks_concept":
        p = np.where(t > days / 2, 0.4 * p, p)
    y = r.random(n) < p
    when = r.random(n)
    delay = np.where(
        when < _SOON, r.random(n) * _HOUR,
        np.where(when < _WITHIN_A_DAY, _HOUR + r.random(n) * (1 - _HOUR), 1 + r.random(n) * (HORIZON - 1)),
    )  # fmt: skip
    return World(t, score, y, np.where(y, delay, np.inf))


def run(kind: str, seed: int, days: int = 120, each: int = EACH, *, given: bool = True) -> list[Said]:
    """What is said of each day in a world; `given`: whether predictions come with probabilities."""
    return graded(messages_of(world(kind, days, each, seed), days, given=given, at_horizon="0"))


def main(kinds: tuple[str, ...], seeds: int = 1) -> None:
    """Print a line for each world and maturity."""
    before_labels.main(kinds, seeds, run)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or WORLDS)

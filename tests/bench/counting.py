"""Counts of one model as a JSON object, for peers whose state is a store of JSON values.

The figures are those of `peer_loop`: outcomes of all time, of a window and faded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.bench import figures
from tests.bench.figures import Kind
from tests.bench.settings import EMIT_OUTCOMES, FADING, LARGE_WEIGHT, WINDOW

Counts = dict[str, Any]

#: Classes get one character each, in the order in which they are seen, from this one on. So a kind of outcome
#: is three characters, label, prediction and what the baselines had right, and the window one string.
_FIRST_CLASS = ord("A")
_KIND = 3

#: What the baselines had right: persistent, majority.
_RIGHT = ((False, False), (False, True), (True, False), (True, True))


def new_counts() -> Counts:
    """The counts before the first outcome."""
    return {
        "outcomes": 0, "ts": 0, "known": False, "published": True, "classes": [], "recent": "",
        "all": {}, "window": {}, "faded": {}, "growth": 1.0,
    }  # fmt: skip


def add(
    counts: Counts, y_true: str, y_pred: str, persistent: str | None, majority: str | None, ts: int
) -> bool:
    """Count an outcome; the baselines' answers are of the time of the prediction. True if messages are due.

    >>> counts = new_counts()
    >>> add(counts, "up", "down", None, None, 1)
    False
    >>> add(counts, "down", "down", "up", "down", 2)
    False
    >>> counts["recent"], counts["all"]
    ('AB0BB1', {'AB0': 1, 'BB1': 1})
    """
    right = 2 * (persistent == y_true) + (majority == y_true)
    kind = f"{_code(counts, y_true)}{_code(counts, y_pred)}{right}"
    counts["all"][kind] = counts["all"].get(kind, 0) + 1
    window = counts["window"]
    window[kind] = window.get(kind, 0) + 1
    counts["recent"] += kind
    if len(counts["recent"]) > _KIND * WINDOW:
        window[counts["recent"][:_KIND]] -= 1
        counts["recent"] = counts["recent"][_KIND:]
    counts["growth"] /= FADING
    counts["faded"][kind] = counts["faded"].get(kind, 0.0) + counts["growth"]
    if counts["growth"] > LARGE_WEIGHT:
        counts["faded"] = {one: weight / counts["growth"] for one, weight in counts["faded"].items()}
        counts["growth"] = 1.0
    counts["outcomes"] += 1
    counts["ts"] = ts
    counts["known"] = counts["known"] or persistent is not None
    counts["published"] = counts["outcomes"] % EMIT_OUTCOMES == 0
    return bool(counts["published"])


def messages(stream: str, partition: int, model: str, counts: Counts) -> Iterator[dict[str, Any]]:
    """Metrics messages with the counts as they stand."""
    return figures.messages(
        stream, partition, model, counts["outcomes"], counts["ts"], counts["known"],
        (
            ("all", _kinds(counts, "all"), 1), (f"window:{WINDOW}", _kinds(counts, "window"), 1),
            (f"fading:{FADING}", _kinds(counts, "faded"), counts["growth"]),
        ),
    )  # fmt: skip


def accuracy(counts: Counts) -> float:
    """Of all outcomes."""
    right: int = sum(n for kind, n in counts["all"].items() if kind[0] == kind[1])
    return right / int(counts["outcomes"])


def _code(counts: Counts, name: str) -> str:
    classes: list[str] = counts["classes"]
    if name not in classes:
        classes.append(name)
    return chr(_FIRST_CLASS + classes.index(name))


def _kinds(counts: Counts, memory: str) -> dict[Kind, float]:
    classes = counts["classes"]
    return {
        (classes[ord(kind[0]) - _FIRST_CLASS], classes[ord(kind[1]) - _FIRST_CLASS], *_RIGHT[int(kind[2])]): n
        for kind, n in counts[memory].items()
    }

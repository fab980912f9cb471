"""The allocator of rows, against a dictionary of what each row in use has."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, records, zeros
from prequential.engine.tables.rows import Key, RowAllocator, TableAttribute

from tests.nightly import scaled


class Wide(NamedTuple):
    values: Floats  # (rows, width)
    count: Ints


class Narrow(NamedTuple):
    number: Ints32


class Tables(RowAllocator):
    """A table of each form: columns, of this `width`; records; and one that isn't state."""

    def __init__(self, width: int, *names: str) -> None:
        super().__init__(1)
        self.wide, self.narrow = zeros(Wide, 16, values=width), records(Narrow, 16)
        self.settings = zeros(Narrow, 16)
        self.names = names

    def attributes(self) -> Iterator[tuple[str, TableAttribute]]:
        """The tables with these names alone are state."""
        for attribute in ("wide", "narrow"):
            yield attribute if attribute in self.names else "", TableAttribute(self, attribute)
        yield "", TableAttribute(self, "settings")

    def row(self, row: int) -> dict[str, Any]:
        """What a row has, by table."""
        wide = (*self.wide.values[row].tolist(), int(self.wide.count[row]))
        return {
            "wide": wide, "narrow": int(self.narrow.number[row]), "settings": int(self.settings.number[row])
        }  # fmt: skip

    def write(self, row: int, number: int) -> None:
        self.wide.values[row], self.wide.count[row] = number, number
        self.narrow.number[row] = self.settings.number[row] = number


class Model:
    """The same with dictionaries alone."""

    def __init__(self, width: int, *names: str) -> None:
        self.width, self.names, self.rows = width, names, 1
        self.has: dict[int, dict[str, Any]] = {}  # rows in use
        self.runs: dict[int, int] = {}  # lengths of runs in use, by their first rows
        self.freed: dict[int, int] = {}

    def allocate(self, count: int) -> int:
        fitting = [first for first, length in self.freed.items() if length == count]
        first = min(fitting, default=self.rows)
        self.freed.pop(first, None)
        self.rows = max(self.rows, first + count)
        self.runs[first] = count
        for row in range(first, first + count):
            self.has[row] = {"wide": (0.0,) * self.width + (0,), "narrow": 0, "settings": 0}
        return first

    def free(self, first: int) -> int:
        count = self.freed[first] = self.runs.pop(first)
        for row in range(first, first + count):
            del self.has[row]
        return count

    def write(self, row: int, number: int) -> None:
        self.has[row] = {
            "wide": (float(number),) * self.width + (number,),
            "narrow": number,
            "settings": number,
        }

    def take(self, former: dict[str, Any], width: int, row: int, names: tuple[str, ...]) -> None:
        """A row becomes as one of tables of this width, as far as these names go."""
        if "wide" in names:
            both = min(width, self.width)
            values = former["wide"][:both] + (0.0,) * (self.width - both)
            self.has[row] = self.has[row] | {"wide": (*values, former["wide"][-1])}
        if "narrow" in names:
            self.has[row] = self.has[row] | {"narrow": former["narrow"]}


STEPS = ("allocate", "allocate", "free", "write", "write", "grow", "copy", "adopt")


@pytest.mark.slow
@settings(max_examples=scaled(50, 500), deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from(STEPS), min_size=40, max_size=120))
def test_rows_are_as_in_a_dictionary(seed: int, steps: list[str]) -> None:
    rng = random.Random(seed)
    both: list[tuple[Tables, Model]] = []
    for _ in range(2):
        of: Any = rng.randint(0, 3), *rng.choice([("wide", "narrow"), ("wide",), ("narrow",)])
        both.append((Tables(*of), Model(*of)))
    for number, step in enumerate(steps, 1):
        (tables, model), (others, other) = rng.sample(both, 2)
        used, of_other = list(model.has), list(other.has)
        if step == "allocate":
            count = rng.choice([1, 2, 2, 3, 30])
            assert tables.allocate(count) == model.allocate(count)
        elif step == "grow":
            tables.grow(rng.choice([1, 40, 70]))
        elif step == "free" and model.runs:
            first = rng.choice(list(model.runs))
            tables.free(first, model.free(first))
        elif step == "write" and used:
            for row in rng.sample(used, (1 + len(used)) // 2):
                tables.write(row, number)
                model.write(row, number)
        elif step == "copy" and used:
            source, target = rng.choice(used), rng.choice(used)
            tables.copy(source, target)
            model.take(model.has[source], model.width, target, model.names)
        elif step == "adopt" and used and of_other:
            new = rng.sample(used, rng.randint(1, min(3, len(used))))
            old = [rng.choice(of_other) for _ in new]
            missing = tables.adopt(others, np.array(old), np.array(new))
            assert missing == [name for name in model.names if name not in other.names]
            common = tuple(name for name in model.names if name in other.names)
            for source, target in zip(old, new):
                model.take(other.has[source], other.width, target, common)
        for some, expected in both:
            assert some.rows == expected.rows
            assert {row: some.row(row) for row in expected.has} == expected.has
            state = list(some.state_tables("some ", Key.SEQUENCE, (7,)))
            assert [(one.name, one.rows, one.space) for one in state] == [
                (f"some {name}|", expected.rows, (7,)) for name in expected.names
            ]


def test_what_becomes_free_in_another_order_is_given_out_alike() -> None:
    found = []
    for order in ([1, 4, 9, 6], [9, 6, 4, 1], [6, 9, 1, 4]):
        rows = RowAllocator(1)
        runs = {rows.allocate(count): count for count in (3, 2, 3, 3)}
        assert list(runs) == [1, 4, 6, 9]
        for first in order:
            rows.free(first, runs[first])
        found.append([rows.allocate(count) for count in (3, 2, 3, 2, 3, 1)])
    assert found == [[1, 4, 6, 12, 9, 14]] * 3

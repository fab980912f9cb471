"""The tables of `docs/measures.md`, written from what measures declare.

`python tests/measure_tables.py` writes them; `tests/test_measures_docs.py` holds that they are as declared.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from prequential.core.measures.declaration import (
    CLASSES,
    COSTS,
    INTERVALS,
    MATRIX,
    NUMBERS,
    POSITIVE,
    PROBABILITIES,
    PROPENSITIES,
    QUANTILES,
    RANKS,
    RELATIVES,
    SPREAD,
    TOP,
    Input,
    Measure,
)
from prequential.core.measures.registry import MEASURES
from prequential.settings.model import DEFAULT_MEASURES

PAGE = Path(__file__).parents[1] / "docs" / "measures.md"

#: Measures by section, by what they are made of.
SECTIONS: dict[str, tuple[Input, ...]] = {
    "Agreement": (MATRIX,),
    "Classes": (POSITIVE, CLASSES),
    "Costs": (COSTS,),
    "Probabilities": (PROBABILITIES, TOP, RANKS),
    "Labels that aren't a fair sample": (PROPENSITIES,),
    "Numbers": (NUMBERS, SPREAD, RELATIVES, QUANTILES, INTERVALS),
}

_HEAD = "| measure | formula | range | better | no value | source |\n| --- | --- | --- | --- | --- | --- |\n"

_TABLE = re.compile(r"\| measure \|.*\n(?:\|.*\n)+")


def table(section: str) -> str:
    """The table of a section: a line for each of its measures, in the order of declaration."""
    inputs = SECTIONS[section]
    return _HEAD + "".join(_line(one) for one in MEASURES.values() if one.inputs in inputs)


def _line(one: Measure) -> str:
    star = "" if one.name in DEFAULT_MEASURES else r"\*"
    reasons = ", ".join(f"`{reason}`" for reason in one.reasons)
    cells = (f"`{one.name}`{star}", one.formula, _range(one), one.better * one.quality, reasons, one.source)
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|\n"


def _range(one: Measure) -> str:
    ends = ("" if math.isinf(end) else f"{end:g}" for end in (one.low, one.high))
    return " … ".join(ends).strip() if not math.isinf(one.low) or not math.isinf(one.high) else "any"


def section_of(page: str, name: str) -> str:
    """The text of a section, from its title to the next one's."""
    found = re.search(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, name
    return found[0]


def written(page: str) -> str:
    """The page with its tables as they are declared."""
    for name in SECTIONS:
        before = section_of(page, name)
        assert _TABLE.search(before), name
        page = page.replace(before, _TABLE.sub(lambda _, name=name: table(name), before, count=1))
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

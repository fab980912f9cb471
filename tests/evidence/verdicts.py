"""How often a verdict is wrong, and how long a right one takes."""

from __future__ import annotations

import numba
from prequential.core.comparisons import confidence_sequence as sequence
from prequential.core.kernel import Bytes, Floats


@numba.njit(error_model="numpy")
def run(table: sequence.Sequences, row: int, differences: Floats, verdicts: Bytes) -> None:
    """Take the row's next differences, and put the verdict after each into `verdicts`."""
    for i in range(len(differences)):
        sequence.step(table, row, differences[i])
        verdicts[i] = table.verdict[row]

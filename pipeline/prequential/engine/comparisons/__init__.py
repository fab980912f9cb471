"""Two models on the outcomes that both have: statistics of their losses, and a verdict.

A is the model that is compared, B the one that it is compared against. Everything is about loss of A less
loss of B, so positive means that B is better. Like a measure, a statistic returns a value and 0, or 0.0 and
the code of the reason why it has none.
"""

from __future__ import annotations

#: Reasons by code; code 0: there is a value.
REASONS: tuple[str, ...] = ("", "zero_loss", "no_discordant", "empty")

DEFINED, ZERO_LOSS, NO_DISCORDANT, EMPTY = range(len(REASONS))

#: Verdicts by code.
VERDICTS: tuple[str, ...] = ("undecided", "a_better", "b_better", "equivalent")

UNDECIDED, A_BETTER, B_BETTER, EQUIVALENT = range(len(VERDICTS))

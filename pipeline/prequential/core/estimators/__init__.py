"""Estimators: memories by the name that estimators begin with. A new one is a module here and a line below.

In the order in which they tell how a model is now, behind `all`, which doesn't.
"""

from __future__ import annotations

from prequential.core.estimators import all_history, decay, fading, window
from prequential.core.estimators.declaration import Memory

MEMORIES: dict[str, Memory] = {
    one.name: one for one in (all_history.MEMORY, window.MEMORY, fading.MEMORY, decay.MEMORY)
}

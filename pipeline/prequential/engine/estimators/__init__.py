"""Estimators: memories by the name that estimators begin with. A new one is a module here and a line below.

`all` is first. The others follow by how recent the outcomes are that they show, the most recent first.
"""

from __future__ import annotations

from prequential.engine.estimators import all_history, decay, fading, window
from prequential.engine.estimators.declaration import Memory

MEMORIES: dict[str, Memory] = {
    memory.name: memory for memory in (all_history.MEMORY, window.MEMORY, fading.MEMORY, decay.MEMORY)
}

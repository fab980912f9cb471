"""What the shards of one process do one after the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from prequential.runtime.worker.snapshots import SnapshotTurn


@dataclass(frozen=True)
class SharedTurns:
    """The locks and turns that all shards of a process share."""

    #: Held while a shard tries records at which workers have died. So a worker that dies is in the middle of
    #: at most one attempt.
    attempts: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Held while a shard makes the messages of a tick. Each shard starts to send its own before the next
    #: begins.
    ticks: asyncio.Lock = field(default_factory=asyncio.Lock)
    snapshots: SnapshotTurn = field(default_factory=SnapshotTurn)

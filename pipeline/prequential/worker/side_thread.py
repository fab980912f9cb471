"""Calls that block, made beside the loop: one after the other, in a thread of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from prequential.worker.publisher import ShardLost


class SideThread:
    """The thread in which a shard reads and publishes.

    Once it is closed, calls that wait are cancelled, others raise ShardLost; one that is being made goes on.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._closed = False

    async def __call__(self, call: Callable[..., Any], *args: Any) -> Any:
        """What the call returns."""
        if self._closed:
            raise ShardLost("the worker lets it go")
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    def close(self) -> None:
        """Begin no more calls."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

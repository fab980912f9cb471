"""Blocking calls outside the event loop: one after the other, in a separate thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from prequential.runtime.worker.publisher import ShardLost


class SideThread:
    """The thread in which a shard reads and publishes.

    `close` cancels waiting calls; later calls raise ShardLost. A call that is running goes on.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._closed = False

    async def __call__(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run the call in the thread and return its result."""
        if self._closed:
            raise ShardLost("the worker lets it go")
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    def close(self) -> None:
        """Cancel waiting calls and refuse new ones."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

"""HTTP answers of a process whose event loop may be busy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from concurrent.futures import TimeoutError as _Unanswered
from typing import Any

from prequential.configuration.settings.model import Config
from prequential.runtime.kafka.process import die, has_crashed, leave, watched
from prequential.runtime.kafka.rejected import rejected, say
from prequential.runtime.telemetry.pushing import Telemetry
from prequential.web.http import CONTENT_TYPE, TEXT, Answer, Endpoint

log = logging.getLogger(__name__)


#: Seconds within which the loop must answer. Otherwise the process counts as not alive, without metrics.
_ANSWER_SECONDS = 5.0

NO_ANSWER: Answer = (503, TEXT, b"the worker doesn't answer\n")


class Late(Exception):
    """The process's loop has not answered in time."""


class Served:
    """A process around a Faust app, which answers HTTP threads on its loop and ends at once on an error."""

    config: Config
    app: Any
    endpoint: Endpoint | None
    #: Pushes metrics and events by OTLP; None if that isn't configured.
    telemetry: Telemetry | None = None
    _loop: asyncio.AbstractEventLoop  # set by `run`

    def _serve(self, endpoint: Endpoint) -> None:
        """Serve `/live`, `/ready` and `/metrics` from now on."""
        self.endpoint = endpoint
        endpoint.serve({"/metrics": self._metrics, "/live": self.live, "/ready": self.ready})
        log.info("metrics: %s/metrics", endpoint.address)
        if self.telemetry is not None:
            self.telemetry.start(endpoint.port)

    async def _work(
        self, stop: asyncio.Event, works: Mapping[str, Coroutine[Any, Any, None]]
    ) -> list[asyncio.Task[None]]:
        """Run the Faust app, and `works` (by their names in errors), until `stop` is set; return their tasks.

        The process then has `worker.stop_within` to end.
        """
        await self.app.start()
        tasks = [watched(task_name, work) for task_name, work in works.items()]
        stopping = asyncio.ensure_future(stop.wait())
        crashed = asyncio.ensure_future(has_crashed(self.app))
        await asyncio.wait({stopping, crashed}, return_when=asyncio.FIRST_COMPLETED)
        if crashed.done():
            die("the Faust app", self.app.crash_reason)
        self._loop.call_later(self.config.worker.stop_within / 1000, lambda: leave(1))
        return tasks

    async def _end(self) -> None:
        """Leave the group, and serve no longer."""
        say(rejected.remaining())
        if self.telemetry is not None:
            await asyncio.to_thread(self.telemetry.stop)
        await self.app.stop()
        if self.endpoint is not None:
            self.endpoint.stop()

    def ask(self, question: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop from another thread; returns its result.

        Raises Late when the loop doesn't answer in time.
        """
        try:
            return asyncio.run_coroutine_threadsafe(question, self._loop).result(_ANSWER_SECONDS)
        except (TimeoutError, _Unanswered) as error:
            raise Late from error

    def live(self) -> Answer:
        """The answer of `/live`: status 200 if the loop answers in time, else that of `NO_ANSWER`."""
        try:
            self.ask(asyncio.sleep(0))
        except Late:
            return NO_ANSWER
        return 200, TEXT, b"alive\n"

    def ready(self) -> Answer:
        """The answer of `/ready`: what the process reports, with status 200 if it is ready."""
        try:
            ready, text = self.ask(self._readiness())
        except Late:
            return NO_ANSWER
        return (200 if ready else 503), TEXT, text.encode()

    def _metrics(self) -> Answer:
        try:
            return 200, CONTENT_TYPE, self._all_metrics().encode()
        except Late:
            return NO_ANSWER

    def _all_metrics(self) -> str:
        """Return the metrics of the process, and of pushing them, as text."""
        return self._exposition() + ("" if self.telemetry is None else self.telemetry.exposition())

    async def _readiness(self) -> tuple[bool, str]:
        """Return whether the process is ready, and a text about that."""
        raise NotImplementedError

    def _exposition(self) -> str:
        """Return the metrics as text; called in an HTTP thread."""
        raise NotImplementedError

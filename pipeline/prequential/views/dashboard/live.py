"""Serve the page for a cluster's output topics, from some time in the past on."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from prequential.configuration.settings.model import Config
from prequential.topics.errors import WorkError
from prequential.topics.specs import INCIDENTS
from prequential.views.dashboard.history import History
from prequential.views.dashboard.server import Server
from prequential.views.dashboard.views import Board
from prequential.views.watching.state import TOPICS
from prequential.views.watching.tail import Tail

#: The largest number of existing records that are read from each partition: about 10 s of reading.
MOST_RECORDS = 1_000_000

#: Seconds within which the reading thread stops: longer than one call of `take`.
_STOP_SECONDS = 5.0


def board_of(config: Config, window: int) -> tuple[Board, Tail]:
    """Return a board for the last `window` (ms) of the output topics, and the reader of its messages.

    The topic of incidents is read if it exists; clusters of earlier versions do not have it. Raises
    WorkError as `Tail`.
    """
    kafka = config.kafka
    since = max(0, now() - window)
    tail = Tail(kafka, TOPICS, since=since, most=MOST_RECORDS, optional=[INCIDENTS])
    board = Board(History(config, window=window), kafka.bootstrap_servers, now)
    board.to_read = tail.size
    return board, tail


def take(tail: Tail, board: Board) -> None:
    """Add new messages to the board; waits a moment for them. Raises WorkError as `Tail.take`."""
    records = tail.take()
    board.trouble, board.since = tail.trouble, max(tail.since.values(), default=None)
    board.catching_up = tail.catching_up
    if records:
        board.take(records)


class Page:
    """The page as a context manager, which reads and serves in separate threads.

    The server uses `port` if it is free, else any free port; `address` is the page's URL. If an error ends
    the reading, the page shows the error.
    """

    def __init__(self, config: Config, window: int, host: str, port: int) -> None:
        self._board, self._tail = board_of(config, window)
        try:
            self._server = Server(self._board, host, port)
        except WorkError:
            self._server = Server(self._board, host, 0)
        self.address = self._server.address
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Page:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.stop()
        self._thread.join(_STOP_SECONDS)

    def _read(self) -> None:
        try:
            while not self._over.is_set():
                take(self._tail, self._board)
        except WorkError as error:
            self._board.trouble = str(error)
        finally:
            self._tail.close()


def now() -> int:
    """Return the current time in epoch ms."""
    return int(time.time() * 1000)

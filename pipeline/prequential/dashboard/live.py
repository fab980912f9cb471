"""The page over a cluster's output topics, from some time in the past on."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from prequential.dashboard.history import History
from prequential.dashboard.server import Server
from prequential.dashboard.views import Board
from prequential.settings.model import Config
from prequential.topics.errors import WorkError
from prequential.topics.specs import INCIDENTS
from prequential.watching.state import TOPICS
from prequential.watching.tail import Tail

#: Records of each partition that are read of what is there, at most: some 10 s of reading.
MOST_RECORDS = 1_000_000

#: Seconds in which the thread that reads notices that it is over: more than one look takes.
_STOP_SECONDS = 5.0


def board_of(config: Config, window: int) -> tuple[Board, Tail]:
    """A board over the last `window` (ms) of the output topics, and where its messages come from.

    The topic of incidents, which clusters of earlier versions don't have, is read if it is there. Raises
    WorkError as `Tail`.
    """
    kafka = config.kafka
    since = max(0, now() - window)
    tail = Tail(kafka, TOPICS, since=since, most=MOST_RECORDS, optional=[INCIDENTS])
    board = Board(History(config, window=window), kafka.bootstrap_servers, now)
    board.to_read = tail.size
    return board, tail


def take(tail: Tail, board: Board) -> None:
    """Take in what came; waits a moment for it. Raises WorkError as `Tail.take`."""
    records = tail.take()
    board.trouble, board.since = tail.trouble, max(tail.since.values(), default=None)
    board.catching_up = tail.catching_up
    if records:
        board.take(records)


class Page:
    """The page beside something else, as a context manager: it reads and serves in threads of its own.

    At `port` if that is free, else at a free one; `address` says where. If reading ends by itself, the page
    says so.
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
    """Epoch ms."""
    return int(time.time() * 1000)

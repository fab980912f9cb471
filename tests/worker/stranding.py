"""A worker whose clients are stranded: SIGUSR1 strikes those that fetch, SIGUSR2 those that publish.

librdkafka's own way into that state is a race of a broker's last answer with the end of its connection,
which nobody can bring about at will. What is struck here is as useless as that: readers pause,
and publishers wait for ever.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakSet

from prequential.cli.main import main
from prequential.runtime.kafka.fetching import Fetcher
from prequential.runtime.worker import app
from prequential.runtime.worker.publisher import Publisher

_fetchers: WeakSet[Fetcher] = WeakSet()
_publishers: WeakSet[Publisher] = WeakSet()
_struck: WeakSet[Any] = WeakSet()


def _remember(kind: type, instances: WeakSet[Any]) -> None:
    """Have the instances of a class remembered, and say whether they are stranded as they were struck."""
    make = kind.__init__

    def init(self: Any, *args: Any) -> None:
        instances.add(self)
        make(self, *args)

    kind.__init__ = init
    kind.stranded = lambda self: self in _struck


def _renewed(renew: Callable[[Fetcher], None]) -> Callable[[Fetcher], None]:
    def renewed(self: Fetcher) -> None:
        _struck.discard(self)
        renew(self)

    return renewed


def _strike_fetchers(*_: Any) -> None:
    for fetcher in _fetchers:
        _struck.add(fetcher)
        for reader in (one.consumer for one in fetcher._readers):
            reader.pause(reader.assignment())


def _strike_publishers(*_: Any) -> None:
    for publisher in list(_publishers):
        _struck.add(publisher)
        publisher._attempt = partial(_wait, publisher)


def _wait(publisher: Publisher, messages: list[Any], **_: Any) -> None:
    while True:
        publisher._sleep(0.1)


if __name__ == "__main__":
    _remember(Fetcher, _fetchers)
    _remember(Publisher, _publishers)
    Fetcher.renew = _renewed(Fetcher.renew)
    app._WATCH_SECONDS = 1.0
    signal.signal(signal.SIGUSR1, _strike_fetchers)
    signal.signal(signal.SIGUSR2, _strike_publishers)
    sys.exit(main())

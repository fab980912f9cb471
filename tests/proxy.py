"""A TCP proxy between clients and brokers that knows where Kafka's requests begin and end, and hurts them.

One port for each broker, which the broker advertises; so all of a client's connections go through it. What
happens to them is said by the test: requests of a kind are held, everything is delayed, connections are cut
off or closed on one side only, and clients (known by the `client.id` of their requests) don't get through to
some of the brokers. Bytes of a connection are never reordered.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

#: Kinds of requests, as Kafka's protocol numbers them (`api_key`).
PRODUCE, FETCH, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN = 0, 1, 22, 24, 26

#: Bytes read at once.
_CHUNK = 1 << 16

#: Seconds within which the proxy's thread does what it is asked to.
_HANGS = 90.0


class Held:
    """A request that doesn't go on until it is let go."""

    def __init__(self, kind: int, client: str) -> None:
        self.kind, self.client = kind, client
        self.passed = threading.Event()  # it has gone on, and was answered (or its connection ended)
        self._go = asyncio.Event()


class Proxy:
    """Listens on the ports of `brokers`, which says where each leads to; to be used in a `with` statement.

    All methods may be called from any thread, at any time.
    """

    def __init__(self, brokers: Mapping[int, tuple[str, int]]) -> None:
        self.brokers = dict(brokers)
        #: Seconds by which all bytes are late, both ways.
        self.delay = 0.0
        self.held: list[Held] = []
        self._holding: dict[int, int] = {}  # how many more requests of a kind are to be held
        self._answers: set[int] = set()  # kinds of requests that get no answer, until their connection ends
        self._away: set[tuple[str, int]] = set()  # client and port that don't get through to each other
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._servers = [self._ask(self._serve(port)) for port in self.brokers]

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close everything."""
        self._ask(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_HANGS)
        self._loop.close()

    # ---- what may happen

    def hold(self, kind: int, count: int = 1) -> None:
        """Hold the next requests of a kind, with what its connection brings behind them; see `held`."""
        self._holding[kind] = self._holding.get(kind, 0) + count

    def let_go(self, held: Held) -> None:
        """Let a request go on, wherever its client is by now; returns when the broker has answered it."""
        self._loop.call_soon_threadsafe(held._go.set)
        assert held.passed.wait(_HANGS), "the broker doesn't answer what was held"

    def let_all_go(self) -> int:
        """Hold nothing any more, without waiting; how many requests were still held."""
        self._holding.clear()
        late = [held for held in self.held if not held._go.is_set()]
        for held in late:
            self._loop.call_soon_threadsafe(held._go.set)
        return len(late)

    def lose_answers(self, kind: int, lose: bool = True) -> None:
        """From now on requests of a kind get through, and their connection brings no answer any more."""
        (self._answers.add if lose else self._answers.discard)(kind)

    def vector(self, *, keep_held: bool = False) -> int:
        """Close all connections; with `keep_held` what is held still gets to the broker. Returns how many."""
        return self._call(lambda: sum(link.vector(keep_held) for link in list(self._links)))

    def half_close(self, *, to_client: bool) -> int:
        """Close all connections in one direction only, as a firewall that forgets one; returns how many."""
        return self._call(lambda: sum(link.half_close(to_client) for link in list(self._links)))

    def separate(self, client: str, ports: Iterable[int]) -> None:
        """Let a client not get through to some brokers, as if packets were lost: nothing is closed."""
        self._away |= {(client, port) for port in ports}

    def reunite(self) -> None:
        """Let all clients through to all brokers. What is on its way arrives late."""
        self._call(self.reunite_all)

    # ---- how

    def _ask(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_HANGS)

    def _call(self, call: Callable[[], T]) -> T:
        async def called() -> T:
            return call()

        found: T = self._ask(called())
        return found

    async def _serve(self, port: int) -> asyncio.Server:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link = _Link(self, port, reader, writer)
            self._links.add(link)
            try:
                await link.run()
            finally:
                self._links.discard(link)

        return await asyncio.start_server(connected, "127.0.0.1", port, limit=_CHUNK)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        self.reunite_all()
        for held in self.held:
            held._go.set()
        while self._links:
            for link in list(self._links):
                link.vector(False)
            await asyncio.sleep(0.01)

    def reunite_all(self) -> None:
        """As `reunite`, in the proxy's own thread."""
        self._away.clear()
        for link in self._links:
            link.wake()

    def is_away(self, client: str | None, port: int) -> bool:
        """Whether that client doesn't get through to the broker of that port."""
        return client is not None and (client, port) in self._away

    def to_hold(self, kind: int, client: str) -> Held | None:
        """Whether a request is one of those to be held."""
        if not self._holding.get(kind):
            return None
        self._holding[kind] -= 1
        held = Held(kind, client)
        self.held.append(held)
        return held

    def loses_answer(self, kind: int) -> bool:
        """Whether no answer to such a request gets back."""
        return kind in self._answers


class _Link:
    """One client's connection, and the one to the broker that belongs to it."""

    def __init__(
        self, proxy: Proxy, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy, self._port = proxy, port
        self._reader, self._writer = reader, writer
        self._broker: asyncio.StreamWriter | None = None
        self._client: str | None = None  # its client.id, once it has sent a request
        self._deaf = False  # answers don't get back
        self._dumb = False  # requests don't get there any more
        self._held: Held | None = None
        self._through = asyncio.Event()

    def wake(self) -> None:
        """What keeps bytes may have changed."""
        self._through.set()

    async def run(self) -> None:
        try:
            reader, self._broker = await asyncio.open_connection(*self._proxy.brokers[self._port])
        except OSError:
            self._writer.close()
            return
        back = asyncio.ensure_future(self._back(reader))
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._there()
            if not self._dumb and self._broker.can_write_eof():
                self._dumb = True
                with suppress(OSError):
                    self._broker.write_eof()
            await back
        finally:
            back.cancel()
            self._writer.close()
            self._broker.close()
            if self._held is not None:
                self._held.passed.set()

    async def _there(self) -> None:
        """Requests, one after the other."""
        assert self._broker is not None
        while True:
            size = await self._reader.readexactly(4)
            request = await self._reader.readexactly(struct.unpack(">i", size)[0])
            kind, _, _, length = struct.unpack(">hhih", request[:10])
            self._client = request[10 : 10 + length].decode() if length >= 0 else ""
            await self._late()
            held = self._proxy.to_hold(kind, self._client)
            if held is not None:
                self._held = held
                await held._go.wait()
            if self._proxy.loses_answer(kind):
                self._deaf = True
            if not self._dumb:
                self._broker.write(size + request)
                await self._broker.drain()

    async def _back(self, reader: asyncio.StreamReader) -> None:
        """Answers, as bytes."""
        with suppress(OSError):
            while content := await reader.read(_CHUNK):
                await self._late()
                if self._held is not None and self._held._go.is_set():
                    self._held.passed.set()
                if not self._deaf and not self._writer.is_closing():
                    self._writer.write(content)
                    await self._writer.drain()
        if not self._writer.is_closing():
            self._writer.close()

    async def _late(self) -> None:
        if self._proxy.delay:
            await asyncio.sleep(self._proxy.delay)
        while self._proxy.is_away(self._client, self._port):
            self._through.clear()
            await self._through.wait()

    def vector(self, keep_held: bool) -> bool:
        """Close both sides, or the client's only, if a request is held here that is to be kept."""
        self._writer.transport.abort()
        kept = keep_held and self._held is not None and not self._held._go.is_set()
        if self._broker is not None and not kept:
            self._broker.transport.abort()
        return True

    def half_close(self, to_client: bool) -> bool:
        """Close one direction."""
        writer = self._writer if to_client else self._broker
        if writer is None or writer.is_closing() or not writer.can_write_eof():
            return False
        if to_client:
            self._deaf = True
        else:
            self._dumb = True
        with suppress(OSError):
            writer.write_eof()
        return True

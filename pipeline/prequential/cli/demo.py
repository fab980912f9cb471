"""`prequential demo`: a short run of all parts, on a stream with a drift; and `broker`, its broker alone."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from prequential.cli.common import address, as_duration, sigterm_as_ctrl_c
from prequential.cli.dashboard import HOST, PORT
from prequential.configuration.settings.durations import duration, exact_duration
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config, WorkerConfig
from prequential.demo import screen
from prequential.demo.broker import CLIENT_SETTINGS, EmbeddedBroker, pick_port
from prequential.demo.flights import SPEED, FlightSource
from prequential.demo.source import EMIT_OUTCOMES, DemoStream, Feed
from prequential.demo.stream import ModelServer, StreamPlan, build_models
from prequential.demo.worker import DemoWorker, scrape
from prequential.runtime.program import stop_signals
from prequential.topics import admin, clients, specs
from prequential.topics.errors import UsageError, WorkError
from prequential.views.dashboard.server import Page
from prequential.views.state.newest import TOPICS
from prequential.views.watching.tail import Tail
from prequential.views.wording.console import Console, is_read, say
from rich.live import Live

#: Kafka's own port, which is also the default of the other commands.
DEFAULT_PORT = 9092

#: Seconds between two checks that the broker is still running.
_LOOK_SECONDS = 0.5


def add_broker_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "broker",
        help="run an embedded broker",
        description="Run a Kafka-compatible broker in the foreground, for trying out and tests: "
        "it listens on the loopback interface only and keeps everything in memory. "
        "Ctrl-C or SIGTERM ends it.",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=DEFAULT_PORT,
        metavar="N",
        help=f"port to listen on, 0 for any that is free (default: {DEFAULT_PORT})",
    )
    parser.set_defaults(run=_run_broker)


def _run_broker(args: argparse.Namespace) -> int:
    """Print the address and serve until a signal comes; 0 then.

    Raises WorkError if the broker doesn't start or stops unexpectedly.
    """
    with stop_signals() as stop, EmbeddedBroker(args.port) as broker:
        say(f"{broker.name}: {broker.bootstrap_servers}")
        while not stop.wait(_LOOK_SECONDS):
            if not broker.running:
                raise WorkError(f"the {broker.name} at {broker.bootstrap_servers} stopped unexpectedly")
    return 0


#: The streams that can be shown: one that is made, with a drift; and real flights.
_DRIFT, _FLIGHTS = "drift", "flights"

#: Seconds of stream: half a minute on either side of the drift, and done within two minutes.
_DURATION = 65.0

#: Seconds of stream, least and most: alarms need some time on either side of the drift, and the
#: embedded broker keeps all in memory (0.1 MB a second).
_DURATIONS = (10.0, 3600.0)

_SEED = 0

#: One stream is one shard; a second one shows that there may be more.
_PARTITIONS = 2

#: How far the page looks back (ms): over all of the longest run.
_WINDOW = 86_400_000

#: Seconds between two readings of the metrics endpoint.
_READ_SECONDS = 1.0

#: Seconds between two lines where the output is no terminal.
_LINE_SECONDS = 5.0

#: Seconds to wait at the end for the last outcomes, and after Ctrl-C.
_LAST_SECONDS = 10.0
_INTERRUPTED_SECONDS = 2.0


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "demo",
        help="show a demo: embedded broker, worker, models on a stream with a drift or on real flights",
        description="Start an embedded broker, a page and a worker. Three models of river predict a stream "
        "that drifts halfway and whose labels come seconds later, and predict again while labels are "
        "pending. With --data flights, it replays what two models predicted about the flights of a year. "
        "Prints the metrics and, at the end, the findings. Ctrl-C ends the demo earlier.",
    )
    parser.add_argument(
        "--data",
        choices=[_DRIFT, _FLIGHTS],
        default=_DRIFT,
        help=f"the stream: made, with a drift, or the flights of prequential.datasets (default: {_DRIFT})",
    )
    parser.add_argument(
        "--speed",
        type=as_duration,
        metavar="TIME",
        help=f"how much of the flights' time a second shows, e.g. 1d (default: {exact_duration(SPEED)})",
    )
    parser.add_argument(
        "--duration",
        type=_seconds,
        metavar="SECONDS",
        help="length of the stream in seconds, without start and end "
        f"(default: {_DURATION:g}, or all of the flights)",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help=f"seed of the stream with a drift (default: {_SEED})"
    )
    parser.add_argument(
        "--http",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="address of the worker's /metrics (default: a free port on 127.0.0.1)",
    )
    parser.add_argument(
        "--bootstrap-servers",
        metavar="ADDR",
        help="Kafka to use in place of an embedded broker; the demo gets topics of its own",
    )
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    """Return the seconds of a number, or of a duration such as `90s` or `2m`."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return duration(text) / 1000
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected seconds, such as 90, 90s or 2m") from None


def run(args: argparse.Namespace) -> int:
    """Run the demo; return 0 when it ends normally, or by Ctrl-C or SIGTERM.

    Raises WorkError if river or the broker's package is missing, or if the worker or the broker
    stops unexpectedly.
    """
    least, most = _DURATIONS
    if args.duration is not None and not least <= args.duration <= most:
        raise UsageError(f"--duration is {args.duration:g}: expected {least:g} to {most:g} seconds")
    for option, value, data in (("--speed", args.speed, _FLIGHTS), ("--seed", args.seed, _DRIFT)):
        if value is not None and args.data != data:
            raise UsageError(f"{option} is for --data {data}: leave it out, or give --data {data}")
    if args.speed is not None and args.speed <= 0:
        raise UsageError(f"--speed is {args.speed} ms: expected a duration above 0, such as 1d")
    http = address(args.http)
    with sigterm_as_ctrl_c(), ExitStack() as stack:
        try:
            session = _start(args, http if http.port else replace(http, port=pick_port()), stack)
        except KeyboardInterrupt:
            say("ended before the stream began")
            return 0
        session.show()
        session.tell()
    return 0


def _start(args: argparse.Namespace, http: HttpConfig, stack: ExitStack) -> _Session:
    """Start everything but the stream; `stack` stops it.

    The page comes first: it shows what the worker does until the stream begins.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prequential-demo-")))
    broker = None
    if args.bootstrap_servers:  # a cluster of the user's, with an unused prefix
        prefix = f"demo-{uuid4().hex[:8]}."
        kafka = clients.KafkaConfig(args.bootstrap_servers, prefix=prefix, partitions=_PARTITIONS)
    else:
        broker = stack.enter_context(EmbeddedBroker())
        settings = dict(CLIENT_SETTINGS)
        kafka = clients.KafkaConfig(broker.bootstrap_servers, partitions=_PARTITIONS, security=settings)
    admin.create(kafka, specs.topic_specs(kafka))
    page = stack.enter_context(Page(Config(kafka), _WINDOW, HOST, PORT))
    say(f"the page: {page.address} (open it in a browser; it updates live)")
    say(f"{broker.name if broker else 'Kafka'}: {kafka.bootstrap_servers}")
    group = kafka.prefix.rstrip(".") or WorkerConfig.group
    evaluated = (ModelServer if args.data == _DRIFT else FlightSource).settings
    worker = stack.enter_context(DemoWorker(kafka, group, evaluated, http, folder))
    page.notice = "The worker starts, and the first time on a machine it compiles the engine."
    page.hold(True)  # the compiler needs all cores
    source = _source(args)
    worker.wait_until_ready(say, lambda progress: _show_progress(page, progress))
    page.notice = None
    page.hold(False)
    say(f"the worker's metrics: {worker.base}/metrics")
    say(f"to watch from another terminal: {_watch(kafka)}")
    tail = stack.enter_context(closing(Tail(kafka, TOPICS, from_beginning=True)))
    feed = Feed(source, kafka)
    stack.callback(feed.stop)
    return _Session(feed, tail, worker, broker)


def _source(args: argparse.Namespace) -> DemoStream:
    """Return the stream of a command line."""
    if args.data == _FLIGHTS:
        return FlightSource(args.speed or SPEED, args.duration)
    plan = StreamPlan(duration=args.duration or _DURATION, seed=args.seed or _SEED)
    say("training the models on the stream's history")
    return ModelServer(plan, build_models(plan))


def _show_progress(page: Page, progress: str) -> None:
    """Show on the page what the worker is doing before the stream begins."""
    page.notice = f"The stream begins when the worker is ready. The worker: {progress}."


class _Session:
    """The run, from the start of the stream."""

    def __init__(self, feed: Feed, tail: Tail, worker: DemoWorker, broker: EmbeddedBroker | None) -> None:
        self._feed, self._tail, self._worker = feed, tail, worker
        self._broker = broker
        self._source = feed.source
        self._board = screen.DemoBoard(feed.source.stream)
        self._console = Console()

    def show(self) -> None:
        """Run the stream and show it, until its end or Ctrl-C."""
        live = self._console.is_terminal and not self._console.is_dumb_terminal
        screen.print_lines(screen.legend(self._source), self._console)
        self._feed.start()
        try:
            (self._show_live if live else self._show_plainly)()
        except KeyboardInterrupt:
            self._feed.stop()
            for _ in self._moments(_INTERRUPTED_SECONDS):
                pass

    def tell(self) -> None:
        """Print the findings."""
        kafka = self._feed.kafka
        say("")
        screen.print_table(self._board, self._source, self._console)
        for lines in (screen.totals, screen.detected, screen.worth, screen.compared):
            screen.print_lines(lines(self._board, self._source), self._console)
        last_lines = [f"the worker's metrics were at {self._worker.base}/metrics"]
        if self._broker is None:
            last_lines.append(f"the topics {kafka.prefix}* are still there: {_watch(kafka)}")
        screen.print_lines([*last_lines, *screen.NEXT], self._console)

    def _show_live(self) -> None:
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            for _ in self._moments(_LAST_SECONDS):
                live.update(screen.read_snapshot(self._board, self._feed, self._console), refresh=True)

    def _show_plainly(self) -> None:
        next_line = 0.0
        shown_drift = ""
        shown: dict[str, tuple[str, Any]] = {}
        for _ in self._moments(_LAST_SECONDS):
            if (now_drift := screen.drift(self._source)) != shown_drift:
                shown_drift = now_drift
                say(shown_drift)
            for incident in self._board.incidents:
                state = incident.status, incident.change_point["outcome"]
                if shown.get(incident.id) != state:  # its size and causes change all the time
                    shown[incident.id] = state
                    for line in screen.incident_lines(incident, self._source):
                        say(line)
            if self._feed.due_seconds >= next_line:
                next_line += _LINE_SECONDS
                say(screen.progress(self._board, self._feed))
                for line in screen.recent_lines(self._board):
                    say(f"  {line}")
            if not is_read():
                return

    def _moments(self, last: float) -> Iterator[None]:
        """Yield whenever the board may have changed.

        Ends when the stream has ended and its last outcomes have arrived, or after `last` more seconds.
        Raises WorkError if another part has stopped unexpectedly.
        """
        next_reading = 0.0
        deadline = None
        while True:
            for record in self._tail.take():
                self._board.update(*record)
            now = time.monotonic()
            if not self._feed.running:
                deadline = deadline or now + last
            announced = self._source.outcomes // EMIT_OUTCOMES * EMIT_OUTCOMES
            over = deadline is not None and (self._board.outcomes >= announced or now > deadline)
            if over or now >= next_reading:
                self._board.read(scrape(self._worker.base), now)
                next_reading = now + _READ_SECONDS
            if self._broker is not None and not self._broker.running:
                raise WorkError(f"the {self._broker.name} stopped unexpectedly")
            self._worker.check()
            if self._feed.error is not None:
                raise self._feed.error
            yield
            if over:
                return


def _watch(kafka: clients.KafkaConfig) -> str:
    """Return the command that shows the metrics."""
    prefix = f" --prefix {kafka.prefix}" if kafka.prefix else ""
    return f"prequential watch --bootstrap-servers {kafka.bootstrap_servers}{prefix}"

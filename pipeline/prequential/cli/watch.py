"""`prequential watch`: the newest metrics and alarms, live in a terminal."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from time import monotonic, sleep
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.cli.common import add_kafka_options, kafka_from
from prequential.topics.admin import partition_counts
from prequential.topics.clients import REACH_SECONDS, KafkaConfig, plain_errors
from prequential.topics.errors import WorkError
from prequential.topics.outputs import Alarm, Metrics
from prequential.topics.specs import DRIFT_ALARMS, METRICS
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

#: Measures that are shown, in order.
_MEASURES = ("accuracy", "kappa", "kappa_per", "kappa_plus")

#: Records before each partition's end that are read first: the newest message of thousands of
#: sequences, and no more than some 5 MB.
_TAIL_RECORDS = 10_000

#: Alarms shown above the table: what leaves room for it on a screen.
_ALARMS = 8

#: Records taken at once, and seconds to wait for them: the table moves four times a second.
_BATCH_RECORDS = 1_000
_BATCH_SECONDS = 0.25

#: Seconds without any answer after which reading to the end is given up.
_SILENCE_SECONDS = 30.0

#: Seconds before a partition that has no leader for a moment (as when it is new) is asked again.
_AGAIN_SECONDS = 0.2
_NO_LEADER = KafkaError.NOT_LEADER_FOR_PARTITION

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


_decode_metrics = msgspec.json.Decoder(Metrics).decode
_decode_alarm = msgspec.json.Decoder(Alarm).decode


class View:
    """What is known by now: the newest message of every sequence, and the latest alarms."""

    def __init__(self, stream: str | None = None, model: str | None = None) -> None:
        self._stream = stream
        self._model = model
        self._newest: dict[tuple[str, ...], Metrics] = {}
        self.alarms: deque[Alarm] = deque(maxlen=_ALARMS)
        self.unreadable = 0

    def update(self, value: bytes | None, *, alarm: bool) -> Metrics | Alarm | None:
        """Take in a message; returns it, or None if it is unreadable or filtered out."""
        try:
            message = _decode_alarm(value or b"") if alarm else _decode_metrics(value or b"")
        except (msgspec.MsgspecError, ValueError):
            self.unreadable += 1
            return None
        if self._stream not in (None, message.stream) or self._model not in (None, message.model):
            return None
        if isinstance(message, Alarm):
            self.alarms.append(message)
        elif message.period is msgspec.UNSET:  # periods are many, and don't move
            names = (message.stream, message.model, message.segment or "")
            key = (*names, message.stage, message.estimator)
            self._newest[key] = message
        return message

    def rows(self) -> list[Metrics]:
        """The newest message of every sequence and estimator, in order of their names."""
        return [self._newest[key] for key in sorted(self._newest)]


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "watch",
        help="live table of the metrics",
        description="Show the newest metrics of every model, and the latest drift alarms. "
        "Reads committed messages only, joins no consumer group and changes nothing. "
        "Where standard output is no terminal, prints a plain line for each message.",
    )
    parser.add_argument("--once", action="store_true", help="show what is there and end")
    parser.add_argument(
        "--from-beginning",
        action="store_true",
        help=f"read the topics whole (default: the last {_TAIL_RECORDS} records per partition)",
    )
    parser.add_argument("--stream", metavar="NAME", help="only this stream")
    parser.add_argument("--model", metavar="NAME", help="only this model")
    add_kafka_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Show until Ctrl-C, which is the way to end it (status 0)."""
    kafka = kafka_from(args)
    view = View(args.stream, args.model)
    terminal = sys.stdout.isatty()
    try:
        with closing(Tail(kafka, from_beginning=args.from_beginning)) as tail:
            if args.once or not terminal:
                for value, alarm in tail.to_end():
                    view.update(value, alarm=alarm)
                _show(view, terminal)
            if not args.once:
                (_follow_live if terminal else _follow_plainly)(tail, view)
    except KeyboardInterrupt:
        pass
    return 0


class Tail:
    """The metrics and alarms topics from near their ends, read_committed, without a group."""

    def __init__(self, kafka: KafkaConfig, *, from_beginning: bool) -> None:
        self._alarms = kafka.topic(DRIFT_ALARMS)
        counts = partition_counts(kafka, [kafka.topic(METRICS), self._alarms])
        self.trouble: str | None = None
        with plain_errors(kafka):
            self._consumer = Consumer(
                kafka.client(
                    **{
                        # librdkafka wants a name, although assigned partitions need no group.
                        "group.id": "prequential-watch",
                        "enable.auto.commit": False,
                        "enable.auto.offset.store": False,
                        "enable.partition.eof": True,
                        "isolation.level": "read_committed",
                        # Retention may overtake the place where reading was to start.
                        "auto.offset.reset": "earliest",
                        "error_cb": self._note,
                        "log_level": 0,
                    }
                )
            )
            places = []
            for topic, count in counts.items():
                for partition in range(count):
                    place = TopicPartition(topic, partition)
                    low, high = self._ends(place)
                    place.offset = low if from_beginning else max(low, high - _TAIL_RECORDS)
                    places.append(place)
            self._consumer.assign(places)
        self._behind = {(place.topic, place.partition) for place in places}
        self._kafka = kafka

    def _ends(self, place: TopicPartition) -> tuple[int, int]:
        """First and next offset of a partition; one without a leader for a moment is asked again."""
        until = monotonic() + REACH_SECONDS
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(place, timeout=REACH_SECONDS)
                return low, high
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() != _NO_LEADER:
                    raise
                if monotonic() > until:
                    raise
                sleep(_AGAIN_SECONDS)

    def close(self) -> None:
        """Leave; nothing is committed."""
        self._consumer.close()

    def take(self) -> list[tuple[bytes | None, bool]]:
        """What came within a moment: values, and whether each is an alarm.

        Raises WorkError for what reading on can't mend.
        """
        taken = []
        with plain_errors(self._kafka):
            for message in self._consumer.consume(_BATCH_RECORDS, _BATCH_SECONDS):
                if self._usable(message):
                    taken.append((message.value(), message.topic() == self._alarms))
        if taken:
            self.trouble = None
        return taken

    def to_end(self) -> Iterator[tuple[bytes | None, bool]]:
        """What is there now. Raises WorkError if the cluster falls silent before the end."""
        heard = monotonic()
        while self._behind:
            left = len(self._behind)
            taken = self.take()
            yield from taken
            if taken or len(self._behind) < left:
                heard = monotonic()
            elif monotonic() - heard > _SILENCE_SECONDS:
                reason = self.trouble or "no answer"
                raise WorkError(f"reading from {self._kafka.bootstrap_servers} stopped: {reason}")

    def _usable(self, message: Message) -> bool:
        """Whether it is a record; notes ends of partitions."""
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            self._behind.discard((message.topic(), message.partition()))
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            pass  # librdkafka looks for the group's coordinator, which nobody here needs
        elif error.retriable():
            self._note(error)
        else:
            raise WorkError(f"can't read {message.topic()!r}: {error.str()}")
        return False

    def _note(self, error: KafkaError) -> None:
        self.trouble = error.str()


def _show(view: View, terminal: bool) -> None:
    if terminal:
        Console().print(table(view))
    else:
        messages: list[Metrics | Alarm] = [*view.rows(), *view.alarms]
        for message in messages:
            print(line(message), flush=True)


def _follow_plainly(tail: Tail, view: View) -> None:
    while True:
        for value, alarm in tail.take():
            if message := view.update(value, alarm=alarm):
                print(line(message), flush=True)


def _follow_live(tail: Tail, view: View) -> None:
    with Live(table(view), auto_refresh=False) as live:
        while True:
            for value, alarm in tail.take():
                view.update(value, alarm=alarm)
            live.update(table(view, tail.trouble), refresh=True)


def table(view: View, trouble: str | None = None) -> Group:
    """All that is known, for a terminal; a measure below zero (worse than its baseline) is red."""
    rows = view.rows()
    segments = any(row.segment is not None for row in rows)
    grid = Table()
    for name in ("stream", "model", *(["segment"] if segments else []), "stage", "estimator"):
        grid.add_column(name, overflow="fold")
    for name in ("n", "outcomes", *_MEASURES, "time (UTC)"):
        grid.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        grid.add_row(
            *map(_text, (row.stream, row.model)),
            *([_text(row.segment or "")] if segments else []),
            *map(_text, (row.stage, row.estimator, f"{row.n:,.0f}", f"{row.outcomes:,}")),
            *(_measure_text(row.measures.get(name)) for name in _MEASURES),
            Text(_clock(row.ts)),
        )
    # A long table is cut at the screen's end: what must be seen stands above it.
    parts: list[Table | Text] = []
    if trouble:
        parts.append(Text(_printable(trouble), style="red"))
    if view.unreadable:
        parts.append(Text(f"{view.unreadable} unreadable messages", style="red"))
    parts += [Text(line(alarm), style="yellow") for alarm in reversed(view.alarms)]
    parts.append(grid if rows else Text("no metrics yet"))
    return Group(*parts)


def line(message: Metrics | Alarm) -> str:
    """One message as plain text; `-` stands for a measure without a value.

    >>> line(Metrics("id", "s", "nb", None, "final", "all", 2, 2, 0, {"kappa": 0.5}, {}, {}, ""))
    '1970-01-01T00:00:00Z s nb final all n=2 outcomes=2 accuracy=- kappa=0.5000 kappa_per=- \
kappa_plus=-'
    """
    names = [message.stream, message.model]
    if message.segment is not None:
        names.append(message.segment)
    names.append(message.stage)
    if isinstance(message, Alarm):
        details: Iterable[str] = (
            f"ALARM {message.detector} {message.signal}",
            f"outcome={message.outcome}",
            f"statistic={message.statistic:.6g}",
            f"threshold={message.threshold:g}",
        )
    else:
        values = ((name, message.measures.get(name)) for name in _MEASURES)
        details = (
            f"{message.estimator} n={message.n:.0f} outcomes={message.outcomes}",
            *(f"{name}={'-' if value is None else f'{value:.4f}'}" for name, value in values),
        )
    return _printable(" ".join((_clock(message.ts), *names, *details)))


def _measure_text(value: float | None) -> Text:
    if value is None:
        return Text("-", style="dim")
    return Text(f"{value:.4f}", style="red" if value < 0 else "")


def _text(value: str) -> Text:
    return Text(_printable(value))


def _printable(text: str) -> str:
    """Names come from outside: no control characters may reach the terminal.

    >>> _printable("a\\x1b[31mb")
    'a\\ufffd[31mb'
    """
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _clock(ts: int) -> str:
    """Epoch milliseconds as UTC to the second; as a number outside of the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ts)
    except OverflowError:
        return str(ts)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

"""`prequential dead-letters`: show invalid records and their reasons, and send repaired ones again."""

from __future__ import annotations

import argparse
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from prequential.cli import common
from prequential.offline.replay.sources import read_lines
from prequential.runtime.compilation import progress_bar
from prequential.topics import admin, clients, dead_letters, decoding, permissions, reading, specs
from prequential.topics.errors import UsageError, WorkError, as_text, existing, kind_of, printable
from prequential.topics.producer import RecordProducer
from prequential.topics.wall_clock import now_ms
from prequential.views.wording.console import complain, say

#: Dead letters that are shown: what fits a screen, three lines each, with room for the counts.
_SHOWN = 20

#: Characters of a key and of a value that are shown: what names the producer, and two lines' worth.
_KEY, _VALUE = 64, 160

#: Lines that are named when a file is refused: enough to see what they have in common.
_NAMED = 10


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "dead-letters",
        help="show invalid records with their reasons, and put repaired ones back",
        description="Show the newest dead letters, and how many there are for each reason. Reads "
        "committed records only, joins no consumer group. --out writes them to a file, in which you can "
        "repair them; --put-back sends them to their topics again.",
    )
    parser.add_argument(
        "--last", type=_count, metavar="N", help=f"only the newest N (shown: {_SHOWN}; written: all)"
    )
    parser.add_argument(
        "--since",
        type=common.as_duration,
        metavar="D",
        help="only those of the last 30m, 2h or 1d, for example",
    )
    parser.add_argument(
        "--reason", type=as_text, metavar="TEXT", help="only those whose reason contains TEXT"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--json", dest="out", action="store_const", const="-", help="write JSON lines to standard output"
    )
    action.add_argument("--out", metavar="FILE", help="write JSON lines; - is standard output, or .gz")
    action.add_argument(
        "--put-back",
        metavar="FILE",
        help="send the records of JSON lines to their original topics, as --out wrote them and you repaired "
        "them; if one is invalid, nothing is sent",
    )
    common.add_kafka_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Show, write, or put back."""
    kafka = common.load(args).kafka
    if args.put_back is not None:
        if options := [
            f"--{name}" for name in ("last", "since", "reason") if getattr(args, name) is not None
        ]:
            raise UsageError(f"{options[0]} and --put-back exclude each other")
        _put_back(kafka, args.put_back)
        return 0
    common.refuse_one_file_twice([args.out], [args.config])
    letters = _letters(kafka, args.since, args.reason)
    if args.out is None:
        _show(letters, _SHOWN if args.last is None else args.last)
    else:
        _write(letters if args.last is None else _newest(letters, args.last), args.out)
    return 0


def _write(letters: Iterable[dead_letters.Letter], path: str) -> None:
    written = 0
    with common.open_output(path) as output:
        stream = existing(output, "the output")
        for letter in letters:
            stream.write(dead_letters.to_line(letter) + b"\n")
            written += 1
    if path != "-":
        say(f"{written} dead letters written to {path}")


# ---- reading


def _letters(
    kafka: clients.KafkaConfig, since: int | None, reason: str | None
) -> Iterator[dead_letters.Letter]:
    """Yield the dead letters so far, each partition in order; show a bar if standard error is a terminal."""
    start = None if since is None else max(0, now_ms() - since)
    reader = reading.TopicReader(kafka, kafka.topic(specs.DEAD_LETTERS), "prequential-dead-letters", start)
    with closing(reader), progress_bar(unit=None) as progress:
        task = progress.add_task(specs.DEAD_LETTERS, total=reader.size)
        for message in reader.messages(lambda offsets: progress.advance(task, offsets)):
            letter = dead_letters.from_message(message)
            if reason is None or reason in letter.reason:
                yield letter


def _newest(letters: Iterable[dead_letters.Letter], number: int) -> list[dead_letters.Letter]:
    """Return the newest dead letters, in order of time; those of each partition must come in this order."""
    ends: dict[int, deque[dead_letters.Letter]] = {}
    for letter in letters:
        ends.setdefault(letter.partition, deque(maxlen=number)).append(letter)
    newest = sorted(chain(*ends.values()), key=attrgetter("written"))
    return newest[max(0, len(newest) - number) :]


# ---- showing


#: For dead letters without a reason: another program wrote them.
_NO_REASON = "(no reason is given)"


def _show(letters: Iterable[dead_letters.Letter], last: int) -> None:
    """Print the newest ones in order of time, and the number for each topic and kind of reason."""
    counts: Counter[tuple[str, str]] = Counter()

    def counted() -> Iterator[dead_letters.Letter]:
        for letter in letters:
            counts[letter.topic, kind_of(letter.reason)] += 1
            yield letter

    for letter in _newest(counted(), last):
        row = "" if letter.row is None else f" row {letter.row}"
        position = f"{letter.topic or '?'}/{letter.partition} offset {letter.offset}{row}"
        say(f"{dead_letters.clock(letter.written)} {position}: {letter.reason or _NO_REASON}")
        say(f"  key   {_shortened(letter.key, _KEY)}")
        say(f"  value {_shortened(letter.value, _VALUE)}")
    total = sum(counts.values())
    say(f"{total:,} dead letters" + (", by reason:" if total else ""))
    width = len(f"{max(counts.values(), default=0):,}")
    for (topic, kind), count in counts.most_common():
        say(f"  {count:>{width},}  {topic or '?'}: {kind or _NO_REASON}")


def _shortened(content: bytes | None, characters: int) -> str:
    """Return the beginning of a value, safe for a terminal; bytes that are not UTF-8 become U+FFFD.

    >>> _shortened(b'{"stream":"elec2"}', 9), _shortened(None, 9)
    ('{"stream"… (18 bytes)', '(none)')
    """
    if content is None:
        return "(none)"
    # Four bytes a character at most; one that is cut is cut off again.
    text = content[: 4 * (characters + 1)].decode(errors="replace")
    more = f"… ({len(content):,} bytes)" if len(text) > characters else ""
    return printable(text[:characters]) + more


# ---- putting back


class _Repaired(NamedTuple):
    """A valid record: its topic without prefix, its key and its value."""

    topic: str
    key: bytes
    value: bytes
    timed: bool  # whether it has a ts


def _put_back(kafka: clients.KafkaConfig, path: str) -> None:
    """Send a file's records to their original topics, or refuse all of them."""
    repaired, refused = [], []
    with common.open_readable(path) as stream:
        lines = read_lines(stream, specs.DEAD_LETTER_MESSAGE_BYTES)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            repaired.append(_repaired(kafka, line))
        except ValueError as error:
            refused.append(f"line {number}: {error}")
    if refused:
        rest = f"; and {len(refused) - _NAMED} other lines" if len(refused) > _NAMED else ""
        raise WorkError(
            f"{path!r}: nothing was sent, because some records are invalid: "
            f"{printable('; '.join(refused[:_NAMED]))}{rest}"
        )
    counts = Counter(record.topic for record in repaired)
    names = [kafka.topic(name) for name in counts]
    permissions.require(kafka, dict.fromkeys(names, permissions.WRITE))
    admin.partition_counts(kafka, names)  # else a broker might create a topic
    with RecordProducer(kafka, log_level=0) as producer:  # the error reports a failure once
        for record in repaired:
            producer.send(record.topic, record.key, record.value)
    for topic in specs.INPUTS:
        if counts[topic]:
            say(f"{counts[topic]} records put back to {kafka.topic(topic)}")
    if not repaired:
        say("0 records put back")
    if untimed := sum(not record.timed for record in repaired):
        complain(f"records without ts, which get the current time: {untimed}")


def _repaired(kafka: clients.KafkaConfig, line: bytes) -> _Repaired:
    """Return a line's record; raise ValueError if it is invalid."""
    name, value = dead_letters.from_line(line)
    names = [kafka.topic(topic) for topic in specs.INPUTS]
    if name not in names:
        raise ValueError(f"topic {name[:64]!r}: expected {', '.join(names)}")
    kind = names.index(name)
    (record,), reasons = decoding.decode(kind, [value])
    if record is None:
        raise ValueError(reasons[0])
    return _Repaired(specs.INPUTS[kind], record.stream.encode(), value, record.ts is not None)


# ---- options


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of dead letters")
    return int(text)

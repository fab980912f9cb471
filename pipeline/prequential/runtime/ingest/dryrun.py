"""`prequential ingest --dry-run N`: show in a table how the newest records of each source are mapped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec
from confluent_kafka import Message
from prequential.configuration.settings.model import Config
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.input.fields import news_of, stream_of
from prequential.engine.tables.records import Unusable
from prequential.runtime.ingest.records import SKIPPED, UNLABELLED, Made, SourceTranslator, clocks_of
from prequential.runtime.ingest.sources import check_sources, translators
from prequential.topics.dead_letters import clock
from prequential.topics.decoding import KINDS, decode
from prequential.topics.errors import kind_of, printable
from prequential.topics.reading import TopicReader
from prequential.views.diagnosis.times import zone_findings
from prequential.views.wording.console import Console
from rich.table import Table

#: The width of a table if the output is not a terminal.
_WIDE = 160

#: The most characters shown of an invalid record's value.
_EXCERPT = 300

#: The most reasons shown for a source; the most frequent come first.
_MOST_REASONS = 10

#: Milliseconds between an event and its record that can't be a delay: twenty years.
_FAR_MS = 20 * 365 * 24 * 3_600_000

#: Fields with a separate column.
_ABOUT = ("stream", "model", "instance_id", "ts")


def dry_run(config: Config, count: int) -> int:
    """Print the messages made from the newest `count` records of each source; returns the exit status.

    The status is 0 if all records fit, and 1 if some would go to dead-letters. The function joins no group,
    commits nothing and writes nothing.
    """
    check_sources(config)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDE, no_color=True)
    dead = 0
    translators_of_topics = translators(config)
    for topic, translator in translators_of_topics.items():
        dead += _show(console, Catalog(config), topic, translator, newest(config, topic, count))
    for finding in zone_findings(clocks_of(translators_of_topics)):
        console.print(f"looks wrong: {printable(str(finding))}")
    return 1 if dead else 0


def newest(config: Config, topic: str, count: int) -> list[Message]:
    """Return the newest records of a topic by time, at most `count`."""
    with closing(TopicReader(config.kafka, topic, f"{config.ingest_group}-dry-run", last=count)) as reader:
        return sorted(reader.messages(), key=lambda message: message.timestamp()[1])[-count:]


def refusals(catalog: Catalog, made: Made) -> dict[int, str]:
    """Return the reasons for which workers will refuse messages, by place, as the engine checks them."""
    places = [place for place, value in enumerate(made.values) if value is not None]
    decoded = decode(made.kind, [made.values[place] for place in places])
    reasons = {places[index]: reason for index, reason in decoded.reasons.items()}
    for place, record in zip(places, decoded.records):
        if record is not None:
            try:
                news_of(catalog, stream_of(catalog, record), record)
            except Unusable as error:
                reasons[place] = str(error)
    return reasons


def _show(
    console: Console, catalog: Catalog, topic: str, translator: SourceTranslator, messages: Sequence[Message]
) -> int:
    """Print one source's table; returns the number of invalid records."""
    made, reasons, passed, unlabelled = translator.apply(messages)
    for one in made:
        for index, reason in refusals(catalog, one).items():
            reasons.setdefault(one.places[index], []).append(reason)
            one.records[index] = None
    becoming: dict[int, list[tuple[str, ...]]] = {}
    for kind, records, _, places in made:
        for place, record in zip(places, records):
            if record is not None:
                becoming.setdefault(place, []).append((KINDS[kind], *_cells(record)))
    table = Table(title=printable(topic), title_justify="left", show_edge=False, pad_edge=False)
    for name in ("record", "becomes", *_ABOUT, "more"):
        table.add_column(name, overflow="fold")
    for place, message in enumerate(messages):
        where = f"{message.partition()}:{message.offset()}"
        for cells in becoming.get(place, ()):
            table.add_row(where, *cells)
            where = ""
        for reason in reasons.get(place, ()):
            table.add_row(where, "dead letter", "", "", "", "", printable(reason), style="red")
            where = ""
        if place in passed:
            table.add_row(where, "nothing", "", "", "", "", SKIPPED[passed[place]], style="dim")
    letters = [(place, reason) for place, several in reasons.items() for reason in several]
    if messages:
        console.print(table)
    console.print(
        f"{printable(topic)}: {len(messages)} records, {len(passed)} skipped, {len(letters)} invalid"
    )
    by_reason = Counter(passed.values())
    by_reason[UNLABELLED] = len(unlabelled)  # also rows that give other messages
    for reason, number in by_reason.most_common():
        if number:
            console.print(f"  {number} × {SKIPPED[reason]}")
    if not messages:
        console.print("  there is nothing in it yet")
    _print_far_times(console, made, messages)
    for path, (places, example) in translator.choices(messages).items():
        first_at = f"{messages[places[0]].partition()}:{messages[places[0]].offset()}"
        what = f"{path} takes one of several values, first at {first_at}: {example}"
        console.print(f"  {len(places)} × {printable(what)}")
    first: dict[str, tuple[int, str]] = {}
    for place, reason in letters:
        first.setdefault(kind_of(reason), (place, reason))
    for what, number in Counter(kind_of(reason) for _, reason in letters).most_common(_MOST_REASONS):
        place, reason = first[what]
        message = messages[place]
        console.print(f"  {number} × {printable(reason)}")
        value = message.value()
        text = "no value" if value is None else value[:_EXCERPT].decode("utf-8", "replace")
        console.print(f"    first at {message.partition()}:{message.offset()}: {printable(text)}")
        if (there := translator.names_there(message, reason)) is not None:
            console.print(f"    {printable(there)}")
    console.print()
    return len(letters)


def _print_far_times(console: Console, made: Any, messages: Sequence[Message]) -> None:
    """Print event times that are decades from the times of their records, usually because of a wrong unit."""
    far = [
        (message, record.ts)
        for _, records, _, places in made
        for message, record in zip([messages[place] for place in places], records)
        if record is not None and record.ts is not None and message.timestamp()[1] > 0
        and abs(record.ts - message.timestamp()[1]) > _FAR_MS
    ]  # fmt: skip
    if far:
        message, ts = far[0]
        console.print(
            f"  {len(far)} × ts is decades from the record's own time, first at {message.partition()}:"
            f"{message.offset()}: {clock(ts)}, the record's {clock(message.timestamp()[1])}; is `unit` right "
            "(s, ms, us, ns)?"
        )


def _cells(record: Any) -> list[str]:
    """Return a message's fields as text: those with separate columns, and the rest."""
    fields = msgspec.to_builtins(record)
    first_cells = [fields.pop(name, "") for name in _ABOUT]
    if isinstance(first_cells[-1], int):
        first_cells[-1] = clock(first_cells[-1])
    others = ", ".join(f"{name}: {_text(value)}" for name, value in fields.items())
    return [printable(str(one)) for one in (*first_cells, others)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

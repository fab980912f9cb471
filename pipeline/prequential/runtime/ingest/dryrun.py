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


def refusals(catalog: Catalog, mapped: Made) -> dict[int, str]:
    """Return the reasons for which workers will refuse messages, by place, as the engine checks them."""
    positions = [position for position, value in enumerate(mapped.values) if value is not None]
    decoded = decode(mapped.kind, [mapped.values[position] for position in positions])
    reasons = {positions[index]: reason for index, reason in decoded.reasons.items()}
    for position, record in zip(positions, decoded.records):
        if record is not None:
            try:
                news_of(catalog, stream_of(catalog, record), record)
            except Unusable as error:
                reasons[position] = str(error)
    return reasons


def _show(
    console: Console, catalog: Catalog, topic: str, translator: SourceTranslator, messages: Sequence[Message]
) -> int:
    """Print one source's table; returns the number of invalid records."""
    parts, reasons, passed, unlabelled = translator.apply(messages)
    for part in parts:
        for index, reason in refusals(catalog, part).items():
            reasons.setdefault(part.places[index], []).append(reason)
            part.records[index] = None
    becoming: dict[int, list[tuple[str, ...]]] = {}
    for kind, records, _, message_indices in parts:
        for message_index, record in zip(message_indices, records):
            if record is not None:
                becoming.setdefault(message_index, []).append((KINDS[kind], *_cells(record)))
    table = Table(title=printable(topic), title_justify="left", show_edge=False, pad_edge=False)
    for name in ("record", "becomes", *_ABOUT, "more"):
        table.add_column(name, overflow="fold")
    for message_index, message in enumerate(messages):
        position = f"{message.partition()}:{message.offset()}"
        for cells in becoming.get(message_index, ()):
            table.add_row(position, *cells)
            position = ""
        for reason in reasons.get(message_index, ()):
            table.add_row(position, "dead letter", "", "", "", "", printable(reason), style="red")
            position = ""
        if message_index in passed:
            table.add_row(position, "nothing", "", "", "", "", SKIPPED[passed[message_index]], style="dim")
    letters = [(message_index, reason) for message_index, several in reasons.items() for reason in several]
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
    _print_far_times(console, parts, messages)
    for path, (message_indices, example) in translator.choices(messages).items():
        first_at = f"{messages[message_indices[0]].partition()}:{messages[message_indices[0]].offset()}"
        reason_kind = f"{path} takes one of several values, first at {first_at}: {example}"
        console.print(f"  {len(message_indices)} × {printable(reason_kind)}")
    first: dict[str, tuple[int, str]] = {}
    for message_index, reason in letters:
        first.setdefault(kind_of(reason), (message_index, reason))
    for reason_kind, number in Counter(kind_of(reason) for _, reason in letters).most_common(_MOST_REASONS):
        message_index, reason = first[reason_kind]
        message = messages[message_index]
        console.print(f"  {number} × {printable(reason)}")
        value = message.value()
        text = "no value" if value is None else value[:_EXCERPT].decode("utf-8", "replace")
        console.print(f"    first at {message.partition()}:{message.offset()}: {printable(text)}")
        if (there := translator.names_there(message, reason)) is not None:
            console.print(f"    {printable(there)}")
    console.print()
    return len(letters)


def _print_far_times(console: Console, parts: Any, messages: Sequence[Message]) -> None:
    """Print event times that are decades from the times of their records, usually because of a wrong unit."""
    far = [
        (message, record.ts)
        for _, records, _, indices in parts
        for message, record in zip([messages[index] for index in indices], records)
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
    other_fields = ", ".join(f"{name}: {_text(value)}" for name, value in fields.items())
    return [printable(str(cell)) for cell in (*first_cells, other_fields)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

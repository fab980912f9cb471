"""What contestants have shown: medians over rounds, ratios within rounds, a table or JSON."""

from __future__ import annotations

import json
from statistics import median
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

#: What the contestants of each round have shown, by their names.
Rounds = list[dict[str, dict[str, Any]]]

#: Figures of which the least of all rounds is shown.
_LEAST: Final = ("snapshots",)

#: Figures of which the median over the rounds is shown.
_MEDIANS: Final = ("events_per_second", "cpu_us_per_event", "peak_rss_mb", "cpu_seconds_per_hour")


class Ratio(NamedTuple):
    """A column: how many times another contestant's figure one's is, beside the column of the figure."""

    heading: str
    field: str
    name: str  # in JSON
    form: str
    of: str | None = None  # the one that is divided; None: each row's own
    by: str | None = None  # … and by whose it is; None: each row's own


#: Columns of the table: heading, field, format.
_COLUMNS: Final = (
    ("events/s", "events_per_second", ",.0f"),
    ("CPU µs/event", "cpu_us_per_event", ".1f"),
    ("CPU s/hour", "cpu_seconds_per_hour", ",.0f"),
    ("peak MB", "peak_rss_mb", ",.0f"),
    ("messages", "messages", ",.0f"),
    ("MB published", "megabytes", ",.1f"),
    ("snapshots of a shard", "snapshots", ",.0f"),
)


def summary(rounds: Rounds, ratios: tuple[Ratio, ...]) -> dict[str, dict[str, Any]]:
    """What contestants have shown, by name: medians, and ratios of each round with their medians."""
    found = {name: dict(shown) for results in rounds for name, shown in results.items()}
    for name, about in found.items():
        for field in _MEDIANS:
            if values := [results[name][field] for results in rounds if field in results.get(name, {})]:
                about[field] = median(values)
        for field in _LEAST:
            if values := [results[name][field] for results in rounds if field in results.get(name, {})]:
                about[field] = min(values)
        for ratio in ratios:
            one, other = ratio.of or name, ratio.by or name
            both = [
                results[one][ratio.field] / results[other][ratio.field]
                for results in rounds
                if ratio.field in results.get(one, {}) and ratio.field in results.get(other, {})
            ]
            if both:
                about |= {ratio.name: median(both), f"{ratio.name}s": both}
    return found


def show(rounds: Rounds, ratios: tuple[Ratio, ...], *, as_json: bool) -> None:
    """Print all, for machines or as a table; columns have those of their ratios beside them."""
    found = summary(rounds, ratios)
    if as_json:
        print(json.dumps({"results": [{"name": name, **about} for name, about in found.items()]}))
        return
    columns: list[tuple[str, str, str, str]] = []
    for heading, field, form in _COLUMNS:
        if any(field in about for about in found.values()):
            columns.append((heading, field, form, ""))
            columns += [(one.heading, one.name, one.form, "x") for one in ratios if one.field == field]
    table = Table(title=f"medians of {len(rounds)} rounds" if len(rounds) > 1 else None)
    table.add_column("", no_wrap=True)
    for heading, *_ in columns:
        table.add_column(heading, justify="right")
    for name, about in found.items():
        cells = (f"{about[field]:{form}}{unit}" if field in about else "" for _, field, form, unit in columns)
        table.add_row(name, *cells)
    Console().print(table)

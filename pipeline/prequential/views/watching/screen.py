"""The live screen: all models, the worst first, or the page of one of them; and keys with their effects."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from prequential.engine.measures.registry import NAMES
from prequential.topics.errors import printable
from prequential.views.state import incidents, ranking
from prequential.views.state.newest import (
    ModelKey,
    ModelState,
    NewestMessages,
    SequenceName,
    coverage_of,
    expected_lines,
)
from prequential.views.state.readings import Reading
from prequential.views.watching.table import (
    ModelChange,
    change_line,
    change_lines,
    label,
    newest_changes,
    shown_changes,
    table,
    warnings,
)
from prequential.views.wording import expected, measures
from prequential.views.wording.best_models import SEVERAL, best_models, in_words
from prequential.views.wording.comparing import Pair, standing
from prequential.views.wording.console import (
    age,
    clock,
    count,
    counted,
    duration,
    elide,
    measure_text,
    moment,
    number,
    rows,
)
from rich.columns import Columns
from rich.console import (  # `Console`: the type that rich calls with
    Console,  # noqa: TID251
    ConsoleOptions,
    Group,
    RenderableType,
    RenderResult,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

#: Columns for the names of stages, estimators and counts, and columns for each measure.
_NAMES_WIDTH, _MEASURE = 44, 11

#: The heading of incidents and alarms, with the next step.
_CHANGES_TITLE = "incidents and alarms (causes of an incident: prequential explain ID)"

#: Columns of a measure with its name in the list of all measures.
_LISTED = 40


def detail(row: ranking.RankedModel, state: NewestMessages, by: str | None, now: int, width: int) -> Group:
    """Return a model's messages, segments, coverage and alarms, to be printed; `now` in epoch ms."""
    model, reading, shown = row.model, row.reading, row.sequence
    readings = {sequence: state.reading(newest) for sequence, newest in model.sequences.items()}
    measure_names = {
        name
        for newest_reading in readings.values()
        if newest_reading is not None
        for name in newest_reading.measures
    }
    names = ranking.measures_shown(measure_names, by)[: max(1, (width - _NAMES_WIDTH) // _MEASURE)]
    whole = {
        sequence: newest_reading for sequence, newest_reading in readings.items() if sequence.segment is None
    }
    segments = {
        sequence: readings[sequence]
        for sequence in sorted(model.sequences, key=lambda name: name.segment or "")
        if shown is not None and sequence.segment is not None and sequence.of_whole == shown.of_whole
    }
    of_sequence = ""
    if shown is not None:
        stage, *same = model.stages_of(shown)
        of_sequence = f": {measures.stage_in_words(stage, same)}, {shown.estimator}"
    expected_ones = [Text(line) for line in expected_lines(model)]
    if expected_ones:
        expected_ones.append(Text(expected.ASSUMPTION, style="dim"))
    sections: list[tuple[str, list[Any]]] = [
        (_CHANGES_TITLE, [change_line(change, now, width) for change in shown_changes(model, state)]),
        ("stages and estimators", [_estimates(whole, names)] if whole else []),
        ("comparisons", list(_comparisons(state.pairs(model.key.stream, model.key.partition), model))),
        ("expected until labels come", expected_ones),
        (f"measures{of_sequence}", [_measures(reading, width)] if reading is not None else []),
        (f"segments{of_sequence}", [_estimates(segments, names)] if segments else []),
        ("counts", [_numbers(reading.counts)] if reading is not None and reading.counts else []),
        ("coverage", list(_coverage(coverage_of(model), rows if model.untimed else duration))),
        ("alarms, each", list(_alarms(model.changes.newest_first()))),
    ]
    parts: list[RenderableType] = [_fields(row, now)]
    for title, lines in sections:
        if lines:
            parts += [Text(), Text(title, style="bold"), *lines]
    return Group(*parts)


def _fields(row: ranking.RankedModel, now: int) -> Table:
    model, reading = row.model, row.reading
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_row("stream", Text(printable(model.key.stream)))
    grid.add_row("model", Text(printable(model.key.model)))
    grid.add_row("partition", str(model.key.partition))
    if not model.untimed:
        grid.add_row("newest message", f"{age(now - model.time)} ago")
    if reading is not None:
        label = "" if model.untimed else f"label of {clock(reading.ts)}, "
        grid.add_row("newest outcome", f"{label}outcome {reading.outcomes:,}")
        if reading.model_version is not None:
            first = "" if reading.version_since is None else f" since outcome {reading.version_since:,}"
            grid.add_row("version", Text(f"{printable(reading.model_version)}{first}"))
    return grid


def _estimates(readings: Mapping[SequenceName, Reading | None], names: list[str]) -> Table:
    """Return a table of sequences, either of the model as a whole or of its segments."""
    grid = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    of_segments = any(sequence.segment is not None for sequence in readings)
    for name in ("segment",) if of_segments else ("stage", "estimator"):
        grid.add_column(name)
    for name in ("n", "outcomes", *names):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_column()
    for sequence, reading in readings.items():
        stage = sequence.stage if reading is None else measures.stage_in_words(sequence.stage, reading.same)
        names_of = (sequence.segment,) if of_segments else (stage, sequence.estimator)
        start = [Text(printable(name or "")) for name in names_of]
        if reading is None:
            grid.add_row(*start, "-")
            continue
        values = [measure_text(reading.measures.get(name)) for name in names]
        mark = Text("(has not seen all)" if reading.started_empty else "", style="dim")
        grid.add_row(*start, count(reading.n), count(reading.outcomes), *values, mark)
    return grid


def _comparisons(pairs: Sequence[Pair], model: ModelState) -> Iterator[Text]:
    """Yield which models may be the best, then the model's comparisons, those of the whole stream first."""
    for best in best_models(pairs, SEVERAL):
        if best.segment is None:
            yield Text(printable(f"{measures.stage_in_words(best.stage, best.same)}: {in_words(best, str)}"))
    its_pairs = [pair for pair in pairs if model.key.model in (pair.model, pair.against)]
    for pair in sorted(its_pairs, key=lambda pair: pair.segment or ""):
        segment = f" {pair.segment}" if pair.segment is not None else ""
        yield Text(printable(f"{measures.stage_in_words(pair.stage, pair.same)}{segment}: {standing(pair)}"))


def _measures(reading: Reading, width: int) -> Columns:
    """Return the measures in as many columns as fit; a measure without a value has the reason."""
    declared = [name for name in NAMES if name in reading.measures or name in reading.undefined]
    cells = []
    for name in dict.fromkeys([*declared, *reading.measures]):
        value = measure_text(reading.measures.get(name))
        why = Text(f" {reading.undefined.get(name, '')}", "dim")
        cells.append(Text.assemble(f"{name:<18} ", value, why, no_wrap=True))
    return Columns(cells, width=min(_LISTED, width), column_first=True, padding=0)


def _coverage(coverage: Mapping[str, Any], time: Callable[[float], str]) -> Iterator[Text]:
    latency, labelled = coverage.get("label_latency_ms"), coverage.get("labelled")
    if isinstance(latency, dict) and latency:
        times = ", ".join(f"{name} {time(ms)}" for name, ms in latency.items())
        yield Text(f"label latency  {times}")
    if isinstance(labelled, dict) and labelled:
        shares = ", ".join(f"{name} {share:.1%}" for name, share in labelled.items())
        yield Text(f"labelled by age  {shares}")
    numbers = {name: value for name, value in coverage.items() if isinstance(value, int | float)}
    if "oldest_waiting_ms" in numbers:
        yield Text(f"oldest waiting  {time(numbers.pop('oldest_waiting_ms'))}")
    if numbers:
        yield _numbers(numbers)
    for name in ("labelled_by_class", "segment_psi"):
        values_by_name = coverage.get(name)
        if isinstance(values_by_name, dict) and values_by_name:
            values = ", ".join(f"{printable(key)} {number(value)}" for key, value in values_by_name.items())
            yield Text(f"{name}  {values}")


def _numbers(values: Mapping[str, float]) -> Text:
    shown = ((name, count if isinstance(value, int) else number, value) for name, value in values.items())
    return Text("  ".join(f"{name} {text(value)}" for name, text, value in shown))


def _alarms(changes: Iterable[incidents.AlarmGroup]) -> Iterator[Text]:
    for change in changes:
        for alarm in reversed(change.alarms):
            segment = f" {printable(alarm.segment)}" if alarm.segment is not None else ""
            description = f"{alarm.stage}{segment} {printable(alarm.detector)} {printable(alarm.signal)}"
            time_text = "" if alarm.untimed else f"{clock(alarm.ts)} "
            beyond = f"{number(alarm.statistic)} > {alarm.threshold:g}"
            yield Text(
                time_text
                + (expected.of_period(alarm) or f"{description} at outcome {alarm.outcome:,}: {beyond}")
            )
        if more := change.count - len(change.alarms):
            yield Text(f"and {more:,} before these", style="dim")


try:
    import termios
    import tty
except ImportError:  # Windows has neither module, so there are no keys
    termios = None  # type: ignore[assignment]

#: Names of special keys by the characters that they send; other keys are the characters that they type.
_NAMED = {
    "[A": "up", "OA": "up", "[B": "down", "OB": "down", "[5~": "pageup", "[6~": "pagedown",
    "[H": "home", "OH": "home", "[1~": "home", "[F": "end", "OF": "end", "[4~": "end",
    "": "escape",
}  # fmt: skip
_CONTROL = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}

#: A key: an escape sequence (ECMA-48: up to its final byte), or a character; and an end in the middle of one.
_KEY = re.compile(r"\x1b(\[[0-?]*[@-~]|O.|)|.", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(\[[0-?]*|O|)$")

#: A pseudo key that reports the end of standard input, after which no key can come.
CLOSED = "closed"

#: Bytes that are read at once, which is more than you can type between two reads.
_BYTES = 1024

#: Seconds to wait for the rest of a key's sequence, whose characters may be separated on a slow connection.
_REST_SECONDS = 0.05


class Keyboard:
    """Keys from standard input, if it is a terminal; a `with` statement restores the terminal.

    If standard input isn't a terminal, there are no keys, and `wait` only waits.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="ignore").decode

    def __enter__(self) -> Keyboard:
        if termios is not None and sys.stdin is not None and sys.stdin.isatty():
            descriptor = sys.stdin.fileno()
            self._before = termios.tcgetattr(descriptor)
            self._descriptor = descriptor
            tty.setcbreak(descriptor)
            settings = termios.tcgetattr(descriptor)
            # Ctrl-Z would return to the shell with the wrong screen.
            settings[6][termios.VSUSP] = b"\x00"
            termios.tcsetattr(descriptor, termios.TCSANOW, settings)
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)
            self._descriptor = None

    @property
    def there(self) -> bool:
        """Whether standard input is a terminal, so that keys can be pressed."""
        return self._descriptor is not None

    def wait(self, seconds: float) -> list[str]:
        """Return the pressed keys as soon as there is one, or none after `seconds`.

        The last key is `CLOSED` if the terminal is gone.
        """
        if self._descriptor is None:
            time.sleep(seconds)
            return []
        typed, patience = "", seconds
        while select.select([self._descriptor], [], [], patience)[0]:
            try:
                data = os.read(self._descriptor, _BYTES)
            except OSError:  # the terminal is gone
                data = b""
            if not data:
                return [*keys(typed), CLOSED]
            typed += self._decode(data)
            if not _UNFINISHED.search(typed):
                break
            patience = _REST_SECONDS
        return keys(typed)


def keys(typed: str) -> list[str]:
    r"""Split typed characters into keys; unknown keys and control characters are left out.

    >>> keys("j\x1b[6~\x1b\r\x1b[15~q")
    ['j', 'pagedown', 'escape', 'enter', 'q']
    """
    pressed = []
    for match in _KEY.finditer(typed):
        sequence = match[1]
        key = _CONTROL.get(match[0], match[0]) if sequence is None else _NAMED.get(sequence, "\x1b")
        if key.isprintable():
            pressed.append(key)
    return pressed


#: A function that renders objects at the screen's width.
Lines = Callable[..., list[list[Segment]]]

#: The most lines for warnings, so that the rest of the screen stays visible.
_WARNINGS = 4

#: The largest share of the screen for recent changes below the table (1 in this number), and their least
#: lines.
_CHANGES_SHARE = 5
_CHANGES = 2

_KEYS = "up down PgUp PgDn  Enter open  / filter  q quit"
_KEYS_OPENED = "up down PgUp PgDn  Esc back  q quit"
_KEYS_TYPING = "letters of a stream or model, Enter to end, Esc for all"
_NO_KEYS = "standard input is no terminal: no keys; Ctrl-C ends"


class Screen:
    """The content of the screen, for rich; `press` takes keys, and `refresh` reads the state again."""

    def __init__(self, state: NewestMessages, cluster: str, choice: ranking.Choice | None = None) -> None:
        self._state, self._cluster = state, cluster
        self._ranking = ranking.Ranking(state)
        self._ranking.choice = choice or ranking.Choice()
        self._rows: list[ranking.RankedModel] = []
        self._recent: list[ModelChange] = []
        #: The model at the cursor (None: the first one), and the opened model.
        self._chosen: ModelKey | None = None
        self._opened: ModelState | None = None
        #: The current line of the list, its first visible line, and the first visible line of the opened
        #: model; then the number of lines, and of lines that fit.
        self._at = self._top = self._scrolled = 0
        self._length = self._height = 1
        self._typing = False
        self._now = 0
        #: The problem that keeps the reader from going on, and whether existing messages are still being
        #: read.
        self.trouble: str | None = None
        self.reading = False
        #: Whether there is a keyboard, and whether the last key ended the screen.
        self.has_keys = True
        self.over = False

    def refresh(self, now: int) -> None:
        """Read the state again; `now` in epoch ms."""
        self._now = now
        self._rows = self._ranking.rows(now)
        if self.reading:  # messages still to be read may end or merge changes that are known so far
            self._rows = [row._replace(change=None) for row in self._rows]
        models = (
            row.model
            for row in self._rows
            if not self.reading
            and (row.change is not None or self._state.incidents.unended_of(*row.model.key))
        )
        self._recent = [
            entry for entry in newest_changes(models, self._state) if ranking.is_shown(entry.change, now)
        ]
        keys = (index for index, row in enumerate(self._rows) if row.model.key == self._chosen)
        self._at = next(keys, 0)

    # ---- keys

    def press(self, key: str) -> None:
        """Handle a key; afterwards, `over` is true if it was the last one."""
        if key == CLOSED or (key == "q" and not self._typing):
            self.over = True
        elif self._typing:
            self._type(key)
        elif key == "escape":
            if self._opened is None:
                self._search("")
            self._opened = None
        elif self._opened is not None:
            self._scrolled = self._moved(key, self._scrolled)
        elif key == "/":
            self._typing = True
            self._search("")
        elif key == "enter" and self._rows:
            self._opened, self._scrolled = self._rows[self._at].model, 0
        elif self._rows:
            self._at = self._moved(key, self._at)
            self._chosen = self._rows[self._at].model.key if self._at else None

    def _moved(self, key: str, index: int) -> int:
        step = max(1, self._height - 1)
        to = {
            "up": index - 1, "k": index - 1, "down": index + 1, "j": index + 1, "home": 0,
            "end": self._length - 1,
            "pageup": index - step, "pagedown": index + step, " ": index + step,
        }.get(key, index)  # fmt: skip
        return max(0, min(to, self._length - 1))

    def _type(self, key: str) -> None:
        text = self._ranking.choice.search
        self._typing = key not in ("enter", "escape")
        if key == "escape":
            self._search("")
        elif key == "backspace":
            self._search(text[:-1])
        elif len(key) == 1:
            self._search(text + key)

    def _search(self, text: str) -> None:
        self._ranking.choice = replace(self._ranking.choice, search=text)
        self.refresh(self._now)

    # ---- lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or options.size.height
        plain = options.update(height=None)

        def lines(*renderables: RenderableType) -> list[list[Segment]]:
            return console.render_lines(Group(*renderables), plain)

        top = lines(self._title(width), Text(self._what(), "bold", no_wrap=True, overflow="ellipsis"))
        top += lines(*warnings(self._state, self.trouble, self._now, reading=self.reading))[:_WARNINGS]
        if self.reading:
            top += lines(Text(f"loading history: {self._state.messages:,} messages", "dim"))
        room = max(1, height - len(top) - 1)
        if self._opened is None:
            body = self._list(lines, width, room)
        elif self.reading:
            body = lines(Text("details are shown as soon as all is read"))
        else:
            row = self._ranking.row(self._opened)
            body = lines(detail(row, self._state, self._ranking.choice.by, self._now, width))
            self._length, self._height = max(1, len(body) - room + 1), room
            self._scrolled = min(self._scrolled, self._length - 1)
            body = body[self._scrolled :]
        body = Segment.set_shape(body[:room], width, room)
        usable = _KEYS_TYPING if self._typing else _KEYS if self._opened is None else _KEYS_OPENED
        keys = usable if self.has_keys else _NO_KEYS
        bottom = lines(Text(keys, "dim", no_wrap=True, overflow="ellipsis"))
        for line in [*top, *body, *bottom][:height]:
            yield from line
            yield Segment.line()

    def _list(self, lines: Lines, width: int, height: int) -> list[list[Segment]]:
        """Return the lines of the visible models, and below them the newest changes."""
        if not self._rows:
            searched = self._ranking.choice.search
            return lines(Text("no model has these letters" if searched else "no metrics yet"))
        room = max(_CHANGES, height // _CHANGES_SHARE)
        below = change_lines(self._recent[:room], self._state, self._now, width)
        if (more := len(self._recent) - room) > 0:
            below[-1] = Text(f"      and {more + 1} more", style="yellow")
        self._length, self._height = len(self._rows), max(1, height - 1 - len(below))
        self._top = max(min(self._top, self._at, self._length - self._height), self._at - self._height + 1, 0)
        seen = self._rows[self._top : self._top + self._height]
        by, chosen = self._ranking.choice.by, self._at - self._top
        models = lines(table(seen, self._state, by, width, self._now, chosen))
        models = Segment.set_shape(models, width, max(1, height - len(below)))
        return [*models, *lines(*below)]

    def _title(self, width: int) -> Text:
        streams = {key.stream for key in self._state.models}
        title = f"prequential watch  {elide(printable(self._cluster), 30)}  {clock(self._now)[11:19]} UTC"
        models = f"{counted(len(self._state.models), 'model')} of {counted(len(streams), 'stream')}"
        gap = width - len(title) - len(models)
        line = Text(f"{title}{' ' * gap}{models}" if gap > 0 else title, "reverse", no_wrap=True)
        line.truncate(width, pad=True)
        return line

    def _what(self) -> str:
        """Return the second line: the shown stage and estimator, the order, and the position."""
        if self._opened is not None:
            key = self._opened.key
            return f"{printable(key.model)} of {label(key, self._state)}"
        choice = self._ranking.choice
        seen = {
            f"{row.sequence.stage}, {row.sequence.estimator}"
            for row in self._rows
            if row.sequence is not None
        }
        unchosen = f"{len(seen)} stages and estimators" if len(seen) != 1 else "".join(seen)
        chosen = ", ".join(name for name in (choice.stage, choice.estimator) if name is not None)
        parts = [chosen or unchosen, "worst first" if choice.by is None else f"by {choice.by}"]
        if choice.search or self._typing:
            parts.append(f"/{printable(choice.search)}{'_' if self._typing else ''}")
        parts.append(f"{self._at + 1} of {len(self._rows):,}" if self._rows else "none")
        if self._state.since is not None:
            parts.append(f"messages since {moment(self._state.since, self._now)}")
        return "   ".join(parts)

"""`prequential watch`: the newest metrics and alarms, live in a terminal."""

from __future__ import annotations

import argparse
from contextlib import closing
from time import monotonic
from typing import Any

from prequential.cli.common import add_kafka_options, load, sigterm_as_ctrl_c
from prequential.engine.measures.registry import NAMES
from prequential.topics import clients, specs
from prequential.topics.errors import UsageError, as_text
from prequential.topics.foreign_json import Unreadable
from prequential.topics.wall_clock import now_ms
from prequential.views.state.newest import TOPICS, NewestMessages
from prequential.views.state.ranking import OTHER_WAYS, Choice, Ranking
from prequential.views.watching import table
from prequential.views.watching.screen import Keyboard, Screen
from prequential.views.watching.tail import TAIL_RECORDS, Tail
from prequential.views.wording.console import Console, complain, is_read, say
from rich.console import Group
from rich.live import Live

_HELP = """\
One line per model. Models with an open incident, or an alarm in the last hour, come first.
The others are sorted by accuracy (for regression by mae), or by the measure of --sort,
the worst first. Baselines come last.

  up down j k   next line              PgUp PgDn Home End   next page
  Enter         open a model: its stages, estimators, comparisons with others,
                measures, segments, counts, coverage, label latency, and alarms
                with their times
  Esc           back
  /             only streams and models whose names contain what you type
  q             quit

newest    time since its newest message; models with no messages since the
          time on line 2 are not listed
status    why a model needs attention, as on the dashboard; or the time since
          its newest alarm, of the model or of a segment
MODEL*    has no data for the selected stage or estimator; the closest one is shown
STREAM[2] the stream's records are in several partitions, which are evaluated
          separately: this is partition 2"""

#: Seconds between two screens, unless a key is pressed, at least and at most. With thousands of models one
#: screen takes tens of ms, and the pause is so many times as long, so screens take 2% of the time.
_PICTURE_SECONDS, _LONGEST_SECONDS = 1.0, 5.0
_PAUSE = 50

#: Seconds between two checks for messages, and while existing ones are being read; a key is answered at
#: once.
_LOOK_SECONDS, _SHORT_SECONDS = 0.2, 0.02

#: Seconds of reading messages without a check of the keys, while there are very many.
_TAKE_SECONDS = 0.3


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "watch",
        help="live table of the metrics",
        description="Show the newest metrics and comparisons of models, open incidents, and drift alarms.\n"
        "Reads committed messages only, joins no consumer group and changes nothing. If standard\n"
        "output is not a terminal, prints a plain line for each message.",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--once", action="store_true", help="print the current state and exit")
    parser.add_argument(
        "--from-beginning",
        action="store_true",
        help=f"read the topics from their start (default: the last {TAIL_RECORDS:,} records per partition)",
    )
    parser.add_argument("--stream", type=as_text, metavar="NAME", help="only this stream")
    parser.add_argument("--model", type=as_text, metavar="NAME", help="only this model")
    parser.add_argument(
        "--sort", metavar="BY",
        help=f"a measure, the worst first (default: accuracy), or {', '.join(OTHER_WAYS)}",
    )  # fmt: skip
    parser.add_argument("--stage", metavar="NAME", help="stage of the models (default: final)")
    parser.add_argument(
        "--estimator", metavar="NAME", help="estimator of the models (default: each one's shortest window)"
    )
    add_kafka_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Show until q, Ctrl-C or SIGTERM; return status 0."""
    if args.sort not in (None, *NAMES, *OTHER_WAYS):
        ways = ", ".join(OTHER_WAYS)
        raise UsageError(f"--sort is {args.sort!r}: expected a measure, such as kappa, or {ways}")
    config, optional = load(args), (specs.INCIDENTS,)
    kafka = config.kafka
    state = NewestMessages(args.stream, args.model, config)
    choice = Choice(args.stage, args.estimator, args.sort)
    console = Console()
    live = console.is_terminal and not console.is_dumb_terminal
    try:
        with (
            sigterm_as_ctrl_c(),
            closing(Tail(kafka, TOPICS, from_beginning=args.from_beginning, optional=optional)) as tail,
        ):
            if args.once or not live:
                for topic, value, timestamp, _ in tail.to_end():
                    state.update(topic, value, timestamp)
                state.since = tail.since.get(specs.METRICS)
                _show(state, choice, console, live)
                if (nothing := _nothing(state, args, kafka)) is not None:
                    complain(nothing)
            if not args.once:
                if live:
                    _follow_live(tail, Screen(state, kafka.bootstrap_servers, choice), state, console)
                else:
                    _follow_plainly(tail, state)
    except KeyboardInterrupt:
        pass
    return 0


def _nothing(state: NewestMessages, args: argparse.Namespace, kafka: clients.KafkaConfig) -> str | None:
    """Return why nothing is shown, in a sentence; None if something is shown."""
    if not state.messages:
        topics = ", ".join(map(kafka.topic, TOPICS))
        return (
            f"there are no messages yet in {topics}: a worker publishes after emit.outcomes outcomes, when "
            "record time passes a multiple of emit.every, and after emit.idle without a record"
        )
    if not state.models and not state.unreadable:
        asked = [f"{name} {value!r}" for name in ("stream", "model") if (value := getattr(args, name))]
        return f"there are no messages about {' and '.join(asked)} among {state.messages:,}"
    return None


def _show(state: NewestMessages, choice: Choice, console: Console, live: bool) -> None:
    if live:
        ranking = Ranking(state)
        ranking.choice = choice
        console.print(Group(*table.whole_table(state, now_ms(), console.width, ranking)))
        return
    for shown in table.newest_lines(state):
        say(shown)
    for warning in table.warnings(state, None, now_ms()):
        complain(warning.plain)


def _follow_plainly(tail: Tail, state: NewestMessages) -> None:
    warned = len(state.misplaced)
    while True:
        for topic, value, timestamp, _ in tail.take():
            if not state.update(topic, value, timestamp) or value is None:
                continue
            try:
                say(table.line(topic, value, state.split))
                if not is_read():
                    return
            except Unreadable:
                state.unreadable += 1
        if len(misplaced := state.misplaced) > warned:
            warned = len(misplaced)
            complain(table.split_warning(misplaced))


def _follow_live(tail: Tail, screen: Screen, state: NewestMessages, console: Console) -> None:
    with (
        Keyboard() as keyboard,
        Live(screen, console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        screen.has_keys = keyboard.there
        next_picture = 0.0
        while not screen.over:
            _take(tail, state)
            if screen.reading and not tail.catching_up:
                next_picture = 0.0  # show alarms from now on
            screen.trouble, screen.reading = tail.trouble, tail.catching_up
            keys = keyboard.wait(_SHORT_SECONDS if tail.catching_up else _LOOK_SECONDS)
            for key in keys:
                screen.press(key)
            now = monotonic()
            due = now >= next_picture
            if due:
                screen.refresh(now_ms())
            if due or keys:
                live.refresh()
            if due:
                pause = max(_PICTURE_SECONDS, _PAUSE * (monotonic() - now))
                next_picture = now + min(pause, _LONGEST_SECONDS)


def _take(tail: Tail, state: NewestMessages) -> None:
    until = monotonic() + _TAKE_SECONDS
    state.since = tail.since.get(specs.METRICS)
    while records := tail.take(0):
        for topic, value, timestamp, _ in records:
            state.update(topic, value, timestamp)
        if monotonic() > until:
            return

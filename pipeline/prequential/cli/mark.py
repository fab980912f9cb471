"""`prequential mark`: a person's judgement of an incident, for all who read the topic `incident-marks`."""

from __future__ import annotations

import argparse
import getpass
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from prequential.cli import common
from prequential.topics import clients, specs
from prequential.topics.errors import UsageError, as_text, printable
from prequential.topics.foreign_json import Unreadable, reader
from prequential.topics.marking import StreamMark, write_marks
from prequential.topics.marks import MARKS, MOST_NOTE, IncidentMark, Mark
from prequential.topics.outputs import Incident
from prequential.topics.wall_clock import now_ms
from prequential.views.answers.explanation import ExplainingMessages
from prequential.views.wording import status
from prequential.views.wording.console import complain, say

_DESCRIPTION = """\
Writes a mark to the topic incident-marks: acknowledged (somebody works on it), expected (the change is real,
and was expected) or false (the model did not become worse). Marks change no number. `explain` shows them. For
an incident that is expected or false, `notify` sends nothing more; for an acknowledged one only its end. With
--silences, an active silence of Alertmanager acknowledges open incidents of the stream and model that it
names."""


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "mark", help="mark an incident as acknowledged, expected or false", description=_DESCRIPTION
    )
    parser.add_argument("incident", nargs="?", metavar="INCIDENT", help="its id, or the beginning of it")
    parser.add_argument("mark", nargs="?", metavar="MARK", help=" or ".join(MARKS))
    parser.add_argument("--note", type=as_text, default="", metavar="TEXT", help="the reason, for others")
    parser.add_argument("--by", type=as_text, metavar="NAME", help="who marks it (default: the user's name)")
    parser.add_argument(
        "--silences",
        metavar="FILE",
        help="silences of Alertmanager as JSON, as `amtool silence query -o json` prints them (- is "
        "standard input)",
    )
    common.add_kafka_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the marks; 0 then. Raises UsageError for wrong arguments, WorkError without such an incident."""
    if (args.silences is None) == (args.incident is None):
        raise UsageError("expected the id of an incident and a mark, or --silences FILE")
    if args.silences is None and args.mark not in MARKS:
        raise UsageError(f"mark {args.mark or ''!r}: expected {', '.join(MARKS)}")
    if len(args.note) > MOST_NOTE:
        raise UsageError(f"--note has {len(args.note):,} characters: expected at most {MOST_NOTE:,}")
    silences = None if args.silences is None else _silences(args.silences)
    kafka = common.load(args).kafka
    messages = _incidents(kafka)
    now = now_ms()
    if silences is None:
        incident = messages.by_id(args.incident)
        marks = [(incident, IncidentMark(incident.id, args.mark, args.by or _user(), now, args.note))]
    else:
        marks = list(_acknowledged(silences, messages.newest(), now))
    write_marks(kafka, [StreamMark(incident.stream, mark) for incident, mark in marks])
    for incident, mark in marks:
        say(f"{incident.id[: status.ID]} {printable(status.subject_of(incident))}: {mark.mark} by {mark.by}")
    if not marks:
        complain("no active silence names the stream and the model of an open incident")
    return 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in containers
        return "unknown"


def _incidents(kafka: clients.KafkaConfig) -> ExplainingMessages:
    """Return the newest message about each incident of the topic."""
    from prequential.views.watching.tail import Tail  # only this needs a broker's clients

    messages = ExplainingMessages()
    with closing(Tail(kafka, (specs.INCIDENTS,), from_beginning=True)) as tail:
        for record in tail.to_end():
            messages.update(*record)
    return messages


class _Matcher(msgspec.Struct, rename="camel"):
    name: str
    value: str
    is_regex: bool = False
    is_equal: bool = True


class _State(msgspec.Struct):
    state: str


class _Silence(msgspec.Struct, rename="camel"):
    """A silence as Alertmanager's API (v2) has it."""

    matchers: list[_Matcher]
    created_by: str
    comment: str
    status: _State


_read_silences = reader(list[_Silence])


class _Silenced(NamedTuple):
    """What a silence names: `stream` and `model`, exactly."""

    stream: str
    model: str
    by: str
    note: str


def _silences(path: str) -> list[_Silenced]:
    """Return the active silences of a file that name a stream and a model."""
    with common.open_readable(path) as stream:
        content = stream.read()
    try:
        silences = _read_silences(content)
    except Unreadable as error:
        name = "standard input" if path == "-" else Path(path).name
        raise UsageError(
            f"--silences {name}: {error}: expected a JSON array of Alertmanager's silences"
        ) from None
    silenced = []
    for silence in silences:
        exact = {
            matcher.name: matcher.value
            for matcher in silence.matchers
            if matcher.is_equal and not matcher.is_regex
        }
        if silence.status.state == "active" and {"stream", "model"} <= exact.keys():
            silenced.append(_Silenced(exact["stream"], exact["model"], silence.created_by, silence.comment))
    return silenced


def _acknowledged(
    silences: list[_Silenced], incidents: list[Incident], now: int
) -> Iterator[tuple[Incident, IncidentMark]]:
    """Yield a mark for each open incident that a silence names."""
    mark: Mark = "acknowledged"
    for incident in incidents:
        for silence in silences:
            is_named = (silence.stream, silence.model) == (incident.stream, incident.model)
            if is_named and incident.status == "open":
                note = silence.note[:MOST_NOTE]
                yield incident, IncidentMark(incident.id, mark, silence.by or "Alertmanager", now, note)
                break

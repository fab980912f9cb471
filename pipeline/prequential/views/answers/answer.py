"""An answer: sentences, the same as values, the messages that they rest on, and what is not known.

Names of streams, models, segments and classes are data. In values they are JSON strings; in sentences they
are quoted, with control characters escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from prequential.topics.errors import printable
from prequential.topics.outputs import Comparison, Incident
from prequential.views.answers.kept import MetricsMessage
from prequential.views.wording import status
from prequential.views.wording.comparing import Pair
from prequential.views.wording.console import clock

#: Names in sentences that have more characters are cut.
_NAME = 80

#: Messages that a text names by their whole ids; more are named by the beginnings of their ids.
_WHOLE_IDS = 2


class BasisMessage(NamedTuple):
    """A message that an answer rests on; `date` is its label time, None without times.

    Messages about an incident have the incident's id, and a `revision`.
    """

    topic: str
    id: str
    n: float | None
    outcomes: int
    date: str | None
    revision: int | None = None

    @classmethod
    def of_metrics(cls, message: MetricsMessage) -> BasisMessage:
        """Return a metrics message as a basis."""
        return cls("metrics", message.id, message.n, message.outcomes, date(message.ts, message.untimed))

    @classmethod
    def of_comparison(cls, message: Comparison) -> BasisMessage:
        """Return a comparison message as a basis."""
        shown_date = date(message.ts, message.untimed is True)
        return cls("comparisons", message.id, message.n, message.outcomes, shown_date)

    @classmethod
    def of_incident(cls, message: Incident) -> BasisMessage:
        """Return the newest message about an incident as a basis."""
        shown_date = date(message.ts, message.untimed is True)
        return cls("incidents", message.id, None, message.outcome, shown_date, message.revision)

    def as_json(self) -> dict[str, Any]:
        """Return the fields that have a value."""
        return {name: value for name, value in self._asdict().items() if value is not None}


@dataclass
class AgentAnswer:
    """The answer to one question."""

    sentences: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    basis: list[BasisMessage] = field(default_factory=list)
    #: Sentences of the form "not known because …".
    unknown: list[str] = field(default_factory=list)
    #: Whether the question can't be answered as it was asked.
    is_refused: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the answer's values for programs."""
        return {
            **self.values,
            **({"not_known": self.unknown} if self.unknown else {}),
            "basis": [message.as_json() for message in self.basis],
        }

    def text(self) -> str:
        """Return the answer's sentences for people, with the ids of the messages behind them."""
        lines = [*self.sentences, *self.unknown]
        if self.basis:
            whole = len(self.basis) <= _WHOLE_IDS
            ids = ", ".join(
                f"{message.topic} {message.id if whole else message.id[: status.ID]}"
                for message in self.basis
            )
            lines.append(f"Messages: {ids}")
        return "\n".join(lines)


def refused(sentence: str) -> AgentAnswer:
    """Return the answer to a question that can't be answered as it was asked."""
    return AgentAnswer(unknown=[sentence], is_refused=True)


def date(ts: int, untimed: bool = False) -> str | None:
    """Return a label time (epoch ms) as UTC; None for records without times.

    >>> date(1_700_000_000_000), date(7, untimed=True)
    ('2023-11-14T22:13:20Z', None)
    """
    return None if untimed else clock(ts)


def quoted(name: object) -> str:
    r"""Return a name in quotes, without line ends and control characters.

    >>> print(quoted('a "b"\nc'), quoted("x" * 200)[:12], len(quoted("x" * 200)))
    "a \"b\"\nc" "xxxxxxxxxxx 83
    """
    text = str(name)
    text = text if len(text) <= _NAME else f"{text[:_NAME]}…"
    return printable(json.dumps(text, ensure_ascii=False))


def quoted_pair(pair: Pair) -> Pair:
    """Return a comparison whose names are quoted, for sentences about it."""
    segment = None if pair.segment is None else quoted(pair.segment)
    names = {"stream": quoted(pair.stream), "model": quoted(pair.model), "against": quoted(pair.against)}
    return msgspec.structs.replace(pair, segment=segment, **names)


#: Fields of causes that are names.
_NAMES_OF_CAUSES = ("segment", "class", "model_version", "label", "prediction", "key", "value")


def quoted_incident(incident: Incident) -> Incident:
    """Return an incident whose names are quoted, for sentences about it."""
    causes = [
        {name: quoted(value) if name in _NAMES_OF_CAUSES else value for name, value in cause.items()}
        for cause in incident.causes
    ]
    segment = None if incident.segment is None else quoted(incident.segment)
    names = {"stream": quoted(incident.stream), "model": quoted(incident.model)}
    return msgspec.structs.replace(incident, segment=segment, causes=causes, **names)


def present(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return those of the fields that are there and have a value."""
    return {name: fields[name] for name in names if fields.get(name) is not None}

"""JSON Schema of what stands in the output topics, made of the structs that it is written by."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from prequential.topics.dead_letters import Base64, DeadLetterLine
from prequential.topics.errors import UsageError
from prequential.topics.outputs import Alarm, Comparison, Incident, Metrics
from prequential.topics.specs import COMPARISONS, DEAD_LETTERS, DRIFT_ALARMS, INCIDENTS, METRICS

#: What a message of each topic is, without the prefix. Of dead letters, which are the originals byte for
#: byte, the form in which they are shown.
STRUCTS: Mapping[str, type[msgspec.Struct]] = MappingProxyType({
    METRICS: Metrics, COMPARISONS: Comparison, DRIFT_ALARMS: Alarm, INCIDENTS: Incident,
    DEAD_LETTERS: DeadLetterLine,
})  # fmt: skip

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(topic: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a topic's messages.

    Fields may be added by later versions, so unknown ones are allowed. Titles and descriptions are those of
    the structs' docstrings.

    Parameters
    ----------
    topic
        One of `STRUCTS`, without the prefix.

    Returns
    -------
    dict
        JSON data: `$schema`, `title`, `description`, `type`, `properties`, `required`, perhaps `$defs`.

    Raises
    ------
    UsageError
        If there is no such topic.

    Examples
    --------
    >>> found = schema("drift-alarms")
    >>> found["title"], found["properties"]["outcome"]["type"], "same" in found["required"]
    ('drift-alarms', 'integer', False)
    >>> found["properties"]["instance_id"]["description"]
    'The instance of this outcome.'
    >>> schema("alarms")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: no schema of topic 'alarms': expected metrics, comparisons, ...
    """
    struct = STRUCTS.get(topic)
    if struct is None:
        raise UsageError(f"no schema of topic {topic!r}: expected {', '.join(STRUCTS)}")
    made = msgspec.json.schema(struct)
    definitions = made["$defs"]
    for one in (struct, Base64):
        if one.__name__ in definitions:
            _describe(definitions[one.__name__], one)
    own = definitions.pop(struct.__name__)
    found = {"$schema": _DIALECT, **own, "title": topic}
    return {**found, "$defs": definitions} if definitions else found


def _describe(definition: dict[str, Any], struct: type) -> None:
    """Put the docstring's sentences where they belong: to the whole, and to each field."""
    text, _, attributes = (inspect.getdoc(struct) or "").partition("\n\nAttributes\n----------\n")
    definition["description"] = _in_a_line(text)
    attributes = attributes.partition("\n\nExamples\n--------\n")[0]
    for name, said in re.findall(r"^(\w+)\n((?: +.*\n?)+)", attributes, re.MULTILINE):
        definition["properties"][name]["description"] = _in_a_line(said)


def _in_a_line(text: str) -> str:
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))

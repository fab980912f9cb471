"""The section `ingest` of the configuration: topics, and what their records become."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from prequential.config import SourceConfig
from prequential.mapping import OPTIONAL, REQUIRED, MappingError, RecordMapping, parse
from prequential.topics.decoding import KINDS

#: Forms that records of a source may have; all but the first two through Schema Registry.
FORMATS = ("json", "cloudevents", "avro", "protobuf", "json_schema")

#: Keys of a section beside the fields of what it becomes.
_ABOUT = ("as", "format", "when")

Plain = Callable[[yaml.Node, str], Any]
Fail = Callable[[yaml.Node, str], Any]


def read_sources(node: yaml.Node | None, path: str, plain: Plain, fail: Fail) -> tuple[SourceConfig, ...]:
    """The sources of a file's section; `plain` gives a node's value, `fail` raises with its line.

    A key is a topic or a list of them, its value a mapping or a list of mappings.
    """
    if node is None or (isinstance(node, yaml.ScalarNode) and plain(node, "ingest") is None):
        return ()
    if not isinstance(node, yaml.MappingNode):
        fail(node, f"ingest is {plain(node, 'ingest')!r}: expected topics and what their records become")
    sources: list[SourceConfig] = []
    for key, section in node.value:
        topics = _topics(key, plain, fail)
        for topic in topics:
            if any(topic in source.topics for source in sources) or topics.count(topic) > 1:
                fail(key, f"ingest has the topic {topic!r} twice: expected a list of mappings below one of them")
        where = f"ingest.{','.join(topics)}"
        sections = section.value if isinstance(section, yaml.SequenceNode) else [section]
        if not sections:
            fail(section, f"{where} is empty: expected e.g. as: predictions")
        mappings = [
            mapping
            for place, one in enumerate(sections)
            for mapping in _mappings(one, where if len(sections) == 1 else f"{where}[{place}]", path, plain, fail)
        ]
        formats = {mapping.format or FORMATS[0] for mapping in mappings}
        if len(formats) > 1:
            fail(section, f"{where} has the formats {', '.join(sorted(formats))}: expected the same in all mappings")
        sources.append(SourceConfig(topics, formats.pop(), tuple(mappings)))
    return tuple(sources)


def _topics(key: yaml.Node, plain: Plain, fail: Fail) -> tuple[str, ...]:
    names = key.value if isinstance(key, yaml.SequenceNode) else [key]
    for one in names:
        if not isinstance(one, yaml.ScalarNode) or not one.value:
            fail(one, "ingest has a key that is no topic: expected a topic's name, or a list such as [a, b]")
    if not names:
        fail(key, "ingest has an empty list of topics: expected their names")
    return tuple(one.value for one in names)


def _mappings(section: yaml.Node, where: str, path: str, plain: Plain, fail: Fail) -> list[RecordMapping]:
    """The mappings of one section: as many as `as` names inputs."""
    if not isinstance(section, yaml.MappingNode):
        fail(section, f"{where} is {plain(section, where)!r}: expected e.g. as: predictions")
    nodes = _nodes(section)
    places = {keys: f"{path} line {one.start_mark.line + 1}: {_dotted(where, keys)}" for keys, one in nodes.items()}
    given = plain(section, where)
    inputs = given.get("as")
    kinds = inputs if isinstance(inputs, list) and inputs else [inputs]
    if len(set(map(str, kinds))) < len(kinds):
        fail(nodes["as",], f"{where}.as names an input twice")
    try:
        for kind in kinds:
            if kind not in KINDS:
                expected = f"expected {', '.join(KINDS)}, or a list of them"
                fail(nodes.get(("as",), section), f"{where}.as is {kind!r}: {expected}")
        known = {name for kind in kinds for name in _known(KINDS.index(kind))}
        for name in given:
            if name not in known and name not in _ABOUT:
                near = difflib.get_close_matches(str(name), (*known, *_ABOUT), n=1)
                hint = f"; did you mean {near[0]}?" if near else ";"
                fail(
                    _key(section, name),
                    f"unknown field {name!r} in {where}{hint} known: {', '.join((*_ABOUT, *sorted(known)))}",
                )
        return [
            parse(
                {
                    name: one
                    for name, one in given.items()
                    if name in _ABOUT[1:] or name in _known(KINDS.index(kind))
                },
                KINDS.index(kind), formats=FORMATS, places=places,
            )
            for kind in kinds
        ]  # fmt: skip
    except MappingError as error:
        keys = error.keys
        while keys and keys not in nodes:
            keys = keys[:-1]
        return fail(nodes[keys], f"{where}: {error}")  # type: ignore[no-any-return]


def _known(kind: int) -> tuple[str, ...]:
    return (*REQUIRED[kind], *OPTIONAL[kind])


def _nodes(node: yaml.Node, keys: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], yaml.Node]:
    """Every node below one, by the keys that lead to it."""
    found = {keys: node}
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            found.update(_nodes(child, (*keys, key.value)))
    return found


def _key(section: yaml.MappingNode, name: Any) -> yaml.Node:
    """The node of a key; names such as 1 and yes are written otherwise than they are read."""
    return next((key for key, _ in section.value if key.value == str(name)), section)


def _dotted(where: str, keys: Mapping[int, Any] | tuple[Any, ...]) -> str:
    return ".".join((where, *map(str, keys)))

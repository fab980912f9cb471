"""The section `ingest` of the configuration: topics, and what their records become."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import yaml
from prequential.configuration.settings.model import ConfigError, SourceConfig
from prequential.mapping.evaluations import RATING_FORMATS
from prequential.mapping.model import OPTIONAL, REQUIRED, MappingError, MappingOrigin, RecordMapping
from prequential.mapping.parsing import ABOUT, parse
from prequential.topics.decoding import KINDS, LABELS

#: Forms that records of a source may have.
FORMATS = ("json", "cloudevents", "avro", "protobuf", "json_schema", *RATING_FORMATS)

Lines = dict[tuple[Any, ...], str]
#: The value of a node and of all below it, given its name and keys; fills in the line of each part.
Tree = Callable[[yaml.Node, str, tuple[Any, ...], Lines], Any]
#: The value of a node, given its name.
Plain = Callable[[yaml.Node, str], Any]
#: Raises with the line of a node.
Fail = Callable[[yaml.Node, str], Any]
#: Notes the fault that its block raises, so that reading goes on behind it.
Collect = Callable[[], AbstractContextManager[None]]


def read_sources(
    node: yaml.Node | None, tree: Tree, plain: Plain, fail: Fail, collect: Collect
) -> tuple[SourceConfig, ...]:
    """The sources of a file's section, read by the configuration's reader.

    A key is a topic or a list of them, its value a mapping or a list of mappings.
    """
    if node is None or (isinstance(node, yaml.ScalarNode) and plain(node, "ingest") is None):
        return ()
    if not isinstance(node, yaml.MappingNode):
        fail(node, f"ingest is {plain(node, 'ingest')!r}: expected topics and what their records become")
    sources: list[SourceConfig] = []
    for key, section in node.value:
        with collect():
            topics = _topics(key, fail)
            for topic in topics:
                if any(topic in source.topics for source in sources) or topics.count(topic) > 1:
                    fail(
                        key, f"ingest has the topic {topic!r} twice: expected a list of mappings below one"
                    )
            sources.append(_source(topics, section, tree, fail))
    return tuple(sources)


def _source(topics: tuple[str, ...], section: yaml.Node, tree: Tree, fail: Fail) -> SourceConfig:
    """The source of these topics, with the mappings of its section."""
    where = f"ingest.{','.join(topics)}"
    sections = section.value if isinstance(section, yaml.SequenceNode) else [section]
    if not sections:
        fail(section, f"{where} is empty: expected e.g. as: predictions")
    mappings: list[RecordMapping] = []
    for place, one in enumerate(sections):
        section_key = where if len(sections) == 1 else f"{where}[{place}]"
        lines: Lines = {}
        mappings += _mappings(tree(one, section_key, (), lines), MappingOrigin(section_key, lines))
    formats = {mapping.format or FORMATS[0] for mapping in mappings}
    if len(formats) > 1:
        several = ", ".join(sorted(formats))
        fail(section, f"{where} has the formats {several}: expected the same in all mappings")
    return SourceConfig(topics, formats.pop(), tuple(mappings))


def _topics(key: yaml.Node, fail: Fail) -> tuple[str, ...]:
    names = key.value if isinstance(key, yaml.SequenceNode) else [key]
    for one in names:
        if not isinstance(one, yaml.ScalarNode) or not one.value:
            fail(one, "ingest has a key that is no topic: expected a topic's name, or a list such as [a, b]")
    if not names:
        fail(key, "ingest has an empty list of topics: expected their names")
    return tuple(one.value for one in names)


def _mappings(section: Any, origin: MappingOrigin) -> list[RecordMapping]:
    """The mappings of one section: as many as `as` names inputs, each of its own fields."""
    where = origin.section

    def wrong(keys: tuple[Any, ...], what: str) -> ConfigError:
        return ConfigError(f"{origin.line(keys)}{what}")

    if not isinstance(section, dict):
        raise wrong((), f"{where} is {section!r}: expected e.g. as: predictions")
    inputs = section.get("as")
    names = inputs if isinstance(inputs, list) and inputs else [inputs]
    for name in names:
        if name not in KINDS:
            expected = f"expected {', '.join(KINDS)}, or a list of them"
            raise wrong(("as",), f"{where}.as is {name!r}: {expected}")
    if len(set(names)) < len(names):
        raise wrong(("as",), f"{where}.as names an input twice")
    kinds = [KINDS.index(name) for name in names]
    known = {name for kind in kinds for name in _known(kind)}
    for name in section:
        if name not in known and name not in ABOUT:
            near = difflib.get_close_matches(str(name), (*known, *ABOUT), n=1)
            hint = f"; did you mean {near[0]}?" if near else ";"
            every = ", ".join((*ABOUT, *sorted(known)))
            raise wrong((name,), f"unknown field {name!r} in {where}{hint} known: {every}")
    mappings = []
    for kind in kinds:
        about = set(ABOUT[1:])
        if len(kinds) > 1 and kind != LABELS:
            about.discard("withdrawn")
        fields = {name: one for name, one in section.items() if name in about or name in _known(kind)}
        try:
            mappings.append(parse(fields, kind, formats=FORMATS, origin=origin))
        except MappingError as error:
            raise wrong(error.keys, f"{where}: {error}") from error
    return mappings


def _known(kind: int) -> tuple[str, ...]:
    return (*REQUIRED[kind], *OPTIONAL[kind])

"""The nodes of a configuration: reads YAML and plain data, and names the line of each fault."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from prequential.configuration.settings.durations import of_timedelta
from prequential.configuration.settings.model import ConfigError
from prequential.configuration.settings.parsing import AcceptedValues, Parser
from prequential.mapping.model import hint
from prequential.topics import values
from prequential.topics.clients import is_reference

#: Keys within keys of a mapping of fields, at most; a node may be a part of itself.
_DEEPEST = 5

#: YAML 1.1's yes, no, on and off have it, too.
_BOOLEAN = "tag:yaml.org,2002:bool"

#: So have 010, 0x10 and 12:30 this one.
_INTEGER = "tag:yaml.org,2002:int"


#: Keys that other programs have, and why there is no such key.
_NO_SETTINGS = {
    "week_starts": "weeks begin on Monday, with period 1w or any other number of weeks; remove the key",
}


class _Constructor(yaml.constructor.SafeConstructor):  # type: ignore[misc]
    """Makes Python values of nodes."""

    def construct_scalar(self, node: Any) -> Any:
        """Join escaped pairs of surrogates, by which JSON writes characters beyond 16 bits."""
        value = super().construct_scalar(node)
        if isinstance(value, str) and not value.isascii():
            try:
                return value.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError as error:
                raise ValueError("unpaired surrogate in a \\u escape") from error
        return value


def _plain(data: Any) -> Any:
    """Return data with numpy's scalars as Python's values, and timedeltas as text."""
    if isinstance(data, np.timedelta64) and not np.isnat(data):  # `.item()` makes numbers of nanoseconds
        data = data.astype("timedelta64[us]").item()
    if isinstance(data, timedelta):
        try:
            return of_timedelta(data)
        except ValueError as error:
            raise ConfigError(f"settings: {error}") from None
    if isinstance(data, dict):
        return {_plain(key): _plain(child) for key, child in data.items()}
    if getattr(data, "ndim", None) == 1 and hasattr(data, "tolist"):  # such as scikit-learn's `classes_`
        data = data.tolist()
    if isinstance(data, (list, tuple)):
        return type(data)(map(_plain, data)) if type(data) in (list, tuple) else data
    return values.plain(data)


def node_of(data: Any) -> Any:
    """The node of plain data."""
    try:
        return yaml.representer.SafeRepresenter().represent_data(_plain(data))
    except yaml.representer.RepresenterError as error:
        sentence = f"settings: {error.args[-1]!r} is no setting: expected text, numbers, lists and dicts"
        raise ConfigError(sentence) from error


def document_of(path: str | None) -> yaml.Node | None:
    """The node of a file."""
    node = None
    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigError(f"can't read the configuration {path!r}: {reason}") from error
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            # An undefined alias or the like may be a password that isn't quoted.
            problem = re.sub("'[^'<][^']+'", "'…'", error.problem or error.context or "")
            raise ConfigError(f"{path} line {line}: not YAML: {problem}") from error
        except yaml.reader.ReaderError as error:
            line = text[: error.position].count("\n") + 1
            raise ConfigError(f"{path} line {line}: not YAML: {error.reason}") from error
        except RecursionError as error:
            raise ConfigError(f"{path} line 1: not YAML: nested too deeply") from error
    return node


class NodeReader:
    """Walks the nodes of one file, so that every error can name its line."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: Faults found so far; reading goes on after each of them.
        self._faults: list[str] = []

    @contextmanager
    def _collect(self) -> Iterator[None]:
        """Notes a fault, and lets reading go on behind the block."""
        try:
            yield
        except ConfigError as error:
            self._faults.append(str(error))

    def _section(
        self, node: yaml.Node | None, section_name: str, base: Any, parsers: Mapping[str, AcceptedValues]
    ) -> Any:
        with self._collect():
            children = self._mapping(node, section_name, tuple(parsers))
            return replace(base, **self._values(children, section_name, parsers))
        return base

    def _values(
        self, children: Mapping[str, yaml.Node], section_name: str, parsers: Mapping[str, AcceptedValues]
    ) -> dict[str, Any]:
        """The values of those keys that have a parser and no fault."""
        values = {}
        for key, child in children.items():
            if (parser := parsers.get(key)) is not None:
                with self._collect():
                    values[key] = self._value(child, f"{section_name}.{key}", parser, named=parser.are_names)
        return values

    def _mapping(
        self, node: yaml.Node | None, section_name: str, known_keys: tuple[str, ...] | None
    ) -> dict[str, yaml.Node]:
        if node is None or (isinstance(node, yaml.ScalarNode) and self._plain(node, section_name) is None):
            return {}
        if not isinstance(node, yaml.MappingNode):
            self._fail(
                node, f"{section_name} is {self._plain(node, section_name)!r}: expected keys and values"
            )
        entries: dict[str, yaml.Node] = {}
        for key_node, child in node.value:
            with self._collect():
                if not isinstance(key_node, yaml.ScalarNode):
                    self._fail(key_node, f"{section_name} has a key that is no name")
                key = key_node.value  # as it is written: 007 and no are names, too
                if known_keys is not None and key not in known_keys:
                    self._fail(
                        key_node, f"unknown key {key!r} in {section_name}{self._hint(key, known_keys)}"
                    )
                if key in entries:
                    self._fail(key_node, f"{section_name} has the key {key!r} twice")
                entries[key] = child
        return entries

    def _faultless(
        self, node: yaml.Node, section_name: str, known_keys: tuple[str, ...] | None
    ) -> dict[str, yaml.Node]:
        """As `_mapping`, but raises the first fault of its keys: without them the rest can't be judged."""
        before = len(self._faults)
        entries = self._mapping(node, section_name, known_keys)
        if len(self._faults) > before:
            first, self._faults[before:] = self._faults[before], []
            raise ConfigError(first)
        return entries

    def _value(self, node: yaml.Node, dotted_name: str, parser: Parser, *, named: bool = False) -> Any:
        """What a parser makes of a node; `named`: it has names in it (see `_as_meant`)."""
        try:
            return parser(self._tree(node, dotted_name, (), {}) if named else self._plain(node, dotted_name))
        except (ValueError, TypeError, OverflowError) as error:
            self._fail(node, f"{dotted_name}: {error}")

    def _plain(self, node: yaml.Node, dotted_name: str) -> Any:
        """The Python value of a node."""
        try:
            value = _Constructor().construct_document(node)
            repr(value)  # fails for hexadecimal numbers of thousands of digits, which no error could show
            return value
        except Exception as error:  # PyYAML raises whatever its conversions do
            shown = node.value if isinstance(node, yaml.ScalarNode) else "a collection"
            kind, why = node.tag.replace("tag:yaml.org,2002:", ""), " ".join(str(error).split())
            self._fail(node, f"{dotted_name} is {kind} {shown!r}: {why}")

    def _tree(
        self, node: yaml.Node, dotted_name: str, keys: tuple[Any, ...], lines: dict[tuple[Any, ...], str]
    ) -> Any:
        """The Python value of a node; fills in the line of each part of it, by the keys to it."""
        lines.setdefault(keys, self._at(node))
        if not isinstance(node, yaml.MappingNode):
            return self._as_meant(node, dotted_name)
        if len(keys) > _DEEPEST:
            self._fail(node, f"{dotted_name} is nested too deeply")
        entries: dict[Any, Any] = {}
        for name, (key_node, child) in zip(self._faultless(node, dotted_name, None), node.value):
            plain = self._as_meant(key_node, dotted_name)
            key = name if plain is None else plain
            if key in entries:
                self._fail(key_node, f"{dotted_name} has the key {name!r} twice")
            below = (*keys, key)
            lines[below] = self._at(key_node)
            entries[key] = self._tree(child, dotted_name, below, lines)
        return entries

    def _as_meant(self, node: yaml.Node, dotted_name: str) -> Any:
        """The value of a node of a mapping, where `yes` and `no` may be classes, and `NO` a country."""
        if node.tag == _BOOLEAN and node.value.lower() not in ("true", "false"):
            self._fail(
                node, f"{dotted_name}: YAML takes {node.value} for a boolean: quote it, '{node.value}'"
            )
        if isinstance(node, yaml.SequenceNode):
            for entry in node.value:
                if isinstance(entry, yaml.ScalarNode):
                    self._as_meant(entry, dotted_name)
        value = self._plain(node, dotted_name)
        if node.tag == _INTEGER and node.value.replace("_", "").lstrip("+") != str(value):
            self._fail(node, f"{dotted_name}: YAML takes {node.value} for {value}: quote it, '{node.value}'")
        return value

    def _at(self, node: yaml.Node | None) -> str:
        """File and line of a node, as far as it has them."""
        line = _line(node)
        return self._path if line is None else f"{self._path} line {line}"

    def _fail(self, node: yaml.Node, problem: str) -> Any:
        raise ConfigError(f"{self._at(node)}: {problem}")

    def _hint(self, key: str, known_keys: tuple[str, ...]) -> str:
        """What to write instead of an unknown key."""
        return f": {_NO_SETTINGS[key]}" if key in _NO_SETTINGS else hint(key, known_keys)


def _line(node: yaml.Node | None) -> int | None:
    """None: the node is of no file."""
    if node is None:
        return 1
    return None if node.start_mark is None else node.start_mark.line + 1


def scalars_of(node: yaml.Node | None, above: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Dotted keys of a document and their texts; of a key such as `token=…`, all behind its first word."""
    if isinstance(node, yaml.ScalarNode):
        if not is_reference(node.value):
            yield above, node.value
        if node.tag.startswith("!"):
            yield above, node.tag[1:]
    elif isinstance(node, yaml.SequenceNode) and depth <= _DEEPEST:
        for child in node.value:
            yield from scalars_of(child, above, depth + 1)
    elif isinstance(node, yaml.MappingNode) and depth <= _DEEPEST:
        for key, child in node.value:
            name = str(key.value)
            yield from ((name, behind) for behind in re.split(r"[\s=:]+", name, maxsplit=1)[1:])
            yield from scalars_of(child, f"{above}.{name}" if above else name, depth + 1)

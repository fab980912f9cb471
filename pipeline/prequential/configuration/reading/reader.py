"""Reads the configuration from YAML; errors list every fault with file, line and what was expected."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from prequential.configuration.reading import keys as configkeys
from prequential.configuration.reading.ingest import read_sources
from prequential.configuration.reading.keys import Parser
from prequential.configuration.reading.names import detectors_of_task, objective_of, parse_signal
from prequential.configuration.reading.together import flaws
from prequential.configuration.settings.durations import of_timedelta
from prequential.configuration.settings.model import (
    BY_INSTANCE,
    COMPARE_LOSSES,
    DEFAULT_DETECTORS,
    INCIDENT_LOSSES,
    OF_TASK,
    Config,
    ConfigError,
    DetectorConfig,
    DisparityConfig,
    HttpConfig,
    Limits,
    Objective,
    SourceConfig,
    StreamConfig,
    WorkerConfig,
)
from prequential.configuration.settings.notifying import NotifyConfig
from prequential.engine.detectors import DETECTORS
from prequential.engine.estimators.naming import canonical
from prequential.mapping.evaluations import FILE_FORMATS
from prequential.mapping.model import KNOWN_FIELDS, MappingError, MappingOrigin, RecordMapping
from prequential.mapping.parsing import parse
from prequential.topics import values
from prequential.topics.clients import KafkaConfig, is_reference
from prequential.topics.decoding import KINDS
from prequential.topics.errors import UsageError
from prequential.topics.secrets import remember_value

#: Sections of a configuration.
SECTIONS = ("kafka", "defaults", "streams", "limits", "http", "worker", "files", "ingest", "notify")

#: The keys below `defaults` and of a stream: those with a parser, and those with keys of their own.
_OF_STREAMS = (*configkeys.STREAM, "detectors", "disparity", "emit", "objective", "period_alarms")

#: Keys within keys of a mapping of fields, at most; a node may be a part of itself.
_DEEPEST = 5


#: YAML 1.1's yes, no, on and off have it, too.
_BOOLEAN = "tag:yaml.org,2002:bool"

#: So have 010, 0x10 and 12:30 this one.
_INTEGER = "tag:yaml.org,2002:int"


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


def load_config(path: str | None, overrides: Mapping[str, object] | None = None) -> Config:
    """Read a YAML file (None: all defaults); `overrides` maps dotted keys such as `http.port` to values.

    Raises ConfigError for unknown keys, bad values (one line for each fault) or an unreadable file.
    """
    config = _Reader(path or "defaults").config(_document(path))
    for key, value in (overrides or {}).items():
        section, _, name = key.partition(".")
        config = replace(config, **{section: replace(getattr(config, section), **{name: value})})
    return config


def combined(given: str | os.PathLike[str] | Mapping[str, Any] | None, settings: Mapping[str, Any]) -> Config:
    """The configuration of a file, or of a dict of the same form, with these settings in its `defaults`.

    Raises ConfigError, in which places of a dict have no lines.

    >>> combined({"defaults": {"bins": 3}}, {"stages": ["bins"]}).defaults.bins
    3
    >>> combined(None, {"estimators": ["al"]})
    Traceback (most recent call last):
    ...
    prequential.configuration.settings.model.ConfigError: settings: defaults.estimators: estimator 'al': ...
    """
    name = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    node = _document(name) if name is not None else _represented(given or {})
    if settings:
        node = node or _represented({})
        given_settings = _represented(dict(settings)).value
        if isinstance(node, yaml.MappingNode):
            sections = {key.value: place for place, (key, _) in enumerate(node.value)}
            if "defaults" not in sections:
                node.value.append((_represented("defaults"), _represented({})))
                sections["defaults"] = len(node.value) - 1
            key, defaults = node.value[sections["defaults"]]
            before = defaults.value if isinstance(defaults, yaml.MappingNode) else []
            names = {one.value for one, _ in given_settings}
            kept = [(one, child) for one, child in before if one.value not in names]
            merged = yaml.MappingNode(defaults.tag, [*kept, *given_settings], defaults.start_mark)
            node.value[sections["defaults"]] = key, merged
    return _Reader(name or "settings").config(node)


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
        return {_plain(key): _plain(one) for key, one in data.items()}
    if isinstance(data, (list, tuple)):
        return type(data)(map(_plain, data)) if type(data) in (list, tuple) else data
    return values.plain(data)


def _represented(data: Any) -> Any:
    """The node of plain data."""
    try:
        return yaml.representer.SafeRepresenter().represent_data(_plain(data))
    except yaml.representer.RepresenterError as error:
        said = f"settings: {error.args[-1]!r} is no setting: expected text, numbers, lists and dicts"
        raise ConfigError(said) from error


def _document(path: str | None) -> yaml.Node | None:
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


class _Reader:
    """Walks the nodes of one file, so that every error can name its line."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: Faults found so far; reading goes on after each of them.
        self._faults: list[str] = []

    def config(self, node: yaml.Node | None) -> Config:
        """The configuration; raises ConfigError with one line for each fault of the file."""
        for key, text in _scalars(node):
            remember_value(key, text)
        config = Config()
        with self._collect():
            config = self._config(node)
        if self._faults:
            raise ConfigError("\n".join(dict.fromkeys(self._faults)))
        return config

    def _config(self, node: yaml.Node | None) -> Config:
        sections = self._mapping(node, "the configuration", SECTIONS)
        kafka = KafkaConfig()
        with self._collect():
            kafka = self._kafka(sections.get("kafka"))
        defaults, streams = StreamConfig(), {}
        before = len(self._faults)
        with self._collect():
            defaults = self._stream(sections.get("defaults"), "defaults", defaults)
        usable = len(self._faults) == before
        for name, child in self._mapping(sections.get("streams"), "streams", None).items():
            with self._collect():
                streams[name] = self._stream(child, f"streams.{name}", defaults, judge=usable)
        limits = self._section(sections.get("limits"), "limits", Limits(), configkeys.LIMITS)
        judged = (defaults, *streams.values()) if len(self._faults) == before else None
        http = self._http(sections.get("http"), judged)
        files: dict[str, tuple[RecordMapping, ...]] = {}
        sources: tuple[SourceConfig, ...] = ()
        for name, child in self._mapping(sections.get("files"), "files", KINDS).items():
            with self._collect():
                kind = KINDS.index(name)
                files[name] = self.mappings(child, f"files.{name}", kind, bare=True, formats=FILE_FORMATS)
        with self._collect():
            sources = read_sources(
                sections.get("ingest"), self._tree, self._plain, self._fail, self._collect
            )
        return Config(
            kafka=kafka,
            defaults=defaults,
            streams=streams,
            limits=limits,
            http=http,
            worker=self._section(sections.get("worker"), "worker", WorkerConfig(), configkeys.WORKER),
            files=files,
            ingest=sources,
            notify=self._section(sections.get("notify"), "notify", NotifyConfig(), configkeys.NOTIFY),
        )

    @contextmanager
    def _collect(self) -> Iterator[None]:
        """Notes a fault, and lets reading go on behind the block."""
        try:
            yield
        except ConfigError as error:
            self._faults.append(str(error))

    def _http(self, node: yaml.Node | None, streams: Sequence[StreamConfig] | None) -> HttpConfig:
        """The section `http`; without `streams`, whether they have its stages and estimators isn't judged."""
        config: HttpConfig = self._section(node, "http", HttpConfig(), configkeys.HTTP)
        for key in ("stages", "estimators") if streams is not None else ():
            known = list(dict.fromkeys(name for stream in streams or () for name in getattr(stream, key)))
            asked = getattr(config, key)
            for name in asked if isinstance(asked, tuple) else ():
                if name not in known:
                    child = self._mapping(node, "http", None)[key]
                    with self._collect():
                        said = f"http.{key}: no stream has {name!r}; configured: {', '.join(known)}"
                        self._fail(child, said)
        return config

    def mappings(
        self, node: yaml.Node, where: str, kind: int | None = None, *, bare: bool, formats: Sequence[str]
    ) -> tuple[RecordMapping, ...]:
        """The mapping of a source, or several of a list (see `prequential.mapping.parsing`)."""
        several = isinstance(node, yaml.SequenceNode)
        if several and not node.value:
            self._fail(node, f"{where} is an empty list: expected a mapping")
        mappings = []
        for place, one in enumerate(node.value if several else [node]):
            key = f"{where}[{place}]" if several else where
            lines: dict[tuple[Any, ...], str] = {}
            with self._collect():
                section = self._tree(one, key, (), lines)
                origin = MappingOrigin(key, lines)
                try:
                    mappings.append(parse(section, kind, bare=bare, formats=formats, origin=origin))
                except MappingError as error:
                    raise ConfigError(f"{origin.line(error.keys)}{key}: {error}") from error
        return tuple(mappings)

    def _tree(
        self, node: yaml.Node, where: str, keys: tuple[Any, ...], lines: dict[tuple[Any, ...], str]
    ) -> Any:
        """The Python value of a node; fills in the line of each part of it, by the keys to it."""
        lines.setdefault(keys, self._at(node))
        if not isinstance(node, yaml.MappingNode):
            return self._as_meant(node, where)
        if len(keys) > _DEEPEST:
            self._fail(node, f"{where} is nested too deeply")
        entries: dict[Any, Any] = {}
        for name, (key_node, child) in zip(self._faultless(node, where, None), node.value):
            plain = self._as_meant(key_node, where)
            key = name if plain is None else plain
            if key in entries:
                self._fail(key_node, f"{where} has the key {name!r} twice")
            below = (*keys, key)
            lines[below] = self._at(key_node)
            entries[key] = self._tree(child, where, below, lines)
        return entries

    def _as_meant(self, node: yaml.Node, where: str) -> Any:
        """The value of a node of a mapping, where `yes` and `no` may be classes, and `NO` a country."""
        if node.tag == _BOOLEAN and node.value.lower() not in ("true", "false"):
            self._fail(node, f"{where}: YAML takes {node.value} for a boolean: quote it, '{node.value}'")
        value = self._plain(node, where)
        if node.tag == _INTEGER and node.value.replace("_", "").lstrip("+") != str(value):
            self._fail(node, f"{where}: YAML takes {node.value} for {value}: quote it, '{node.value}'")
        return value

    def _kafka(self, node: yaml.Node | None) -> KafkaConfig:
        children = self._mapping(node, "kafka", (*configkeys.KAFKA, "security", "schema_registry"))
        values = self._values(children, "kafka", configkeys.KAFKA)
        for name, parser in (
            ("security", configkeys.setting), ("schema_registry", configkeys.registry_setting),
        ):  # fmt: skip
            if name in children:
                settings = self._mapping(children[name], f"kafka.{name}", None)
                values[name] = self._values(settings, f"kafka.{name}", dict.fromkeys(settings, parser))
        try:
            return KafkaConfig(**values)
        except UsageError as error:
            raise ConfigError(f"{self._at(node)}: {error}") from error

    def _stream(
        self, node: yaml.Node | None, where: str, base: StreamConfig, *, judge: bool = True
    ) -> StreamConfig:
        """A stream's settings over those of `base`.

        Whether they fit each other is left open after a fault among them, or without `judge`.
        """
        before = len(self._faults)
        children = self._mapping(node, where, _OF_STREAMS)
        changes = self._values(children, where, configkeys.STREAM, named=configkeys.OF_NAMES)
        given = base.detectors is not DEFAULT_DETECTORS[base.task]
        if "detectors" in children:
            changes["detectors"] = self._detectors(children["detectors"], f"{where}.detectors")
        elif not given:
            changes["detectors"] = OF_TASK
        if "emit" in children:
            emit = self._mapping(children["emit"], f"{where}.emit", tuple(configkeys.EMIT))
            values = self._values(emit, f"{where}.emit", configkeys.EMIT)
            changes |= {f"emit_{key}": value for key, value in values.items()}
            changes |= {f"emit_{key}_given": True for key in ("every", "comparisons") if key in emit}
        if "period_alarms" in children:
            changes["period_alarms"] = self._section(
                children["period_alarms"], f"{where}.period_alarms", base.period_alarms,
                configkeys.PERIOD_ALARMS,
            )  # fmt: skip
        if "objective" in children:
            changes["objective"] = self._objective(children["objective"], f"{where}.objective")
        if "disparity" in children:
            changes["disparity"] = self._disparity(children["disparity"], f"{where}.disparity")
        if len(self._faults) > before or not judge:
            return base
        if changes.get("task", base.task) == "regression" and "label_at_horizon" not in children:
            changes["label_at_horizon"] = None  # a class isn't taken over where labels are numbers
        try:
            config = replace(base, **changes)
        except UsageError as error:
            key = str(error).partition(" ")[0]  # the setting that it is about
            self._fail(children.get(key) or children["costs"], f"{where}.{key}: {error}")
        if "objective" not in children:
            config = replace(config, objective=objective_of(config))
        if "disparity" not in children and (not config.has_classes or config.key == BY_INSTANCE):
            config = replace(config, disparity=None)
        if given and "detectors" not in children:  # of another task's, a stream takes over what it can have
            config = replace(config, detectors=detectors_of_task(config))
        of_task = COMPARE_LOSSES[config.task]
        if "compare_losses" not in children:
            kept = tuple(loss for loss in config.compare_losses if loss in of_task)
            config = replace(config, compare_losses=kept or of_task[:1])
        if "incident_loss" not in children and config.incident_loss not in INCIDENT_LOSSES[config.task]:
            config = replace(config, incident_loss="error")
        for place, flaw in flaws(node, children, config, where):
            with self._collect():
                self._fail(place, flaw)
        return config

    def _detectors(self, node: yaml.Node, where: str) -> tuple[DetectorConfig, ...]:
        if not isinstance(node, yaml.SequenceNode):
            self._fail(node, f"{where} is {self._plain(node, where)!r}: expected a list of detectors")
        detectors: list[DetectorConfig] = []
        for place, child in enumerate(node.value):
            with self._collect():
                detector = self._detector(child, f"{where}[{place}]")
                same = replace(detector, signal=canonical(detector.signal))
                if any(same == replace(other, signal=canonical(other.signal)) for other in detectors):
                    self._fail(child, f"{where} has the detector on {detector.signal} twice")
                detectors.append(detector)
        return tuple(detectors)

    def _objective(self, node: yaml.Node, where: str) -> Objective | None:
        children = self._mapping(node, where, (*configkeys.OBJECTIVE_MEASURES, *configkeys.OBJECTIVE))
        if not children:
            return None
        bounds = {key: configkeys.bound_of(key) for key in children if key not in configkeys.OBJECTIVE}
        values = self._values(children, where, configkeys.OBJECTIVE | bounds, named=("estimate",))
        settings = {key: values.pop(key) for key in configkeys.OBJECTIVE if key in values}
        if not bounds and "reference" not in children:
            self._fail(node, f"{where} names no measure: expected e.g. accuracy: 0.9")
        return Objective(values, **settings)

    def _disparity(self, node: yaml.Node, where: str) -> DisparityConfig | None:
        children = self._mapping(node, where, tuple(configkeys.DISPARITY))
        if not children:
            return None
        if "segments" not in children:
            self._fail(node, f"{where} names no key of segments: expected e.g. segments: [region]")
        return DisparityConfig(**self._values(children, where, configkeys.DISPARITY))

    def _detector(self, node: yaml.Node, where: str) -> DetectorConfig:
        """A detector with the parameters that it declares itself."""
        children = self._faultless(node, where, None)
        names = {
            key: self._value(children[key], f"{where}.{key}", parser)
            for key, parser in (("detector", configkeys.detector), ("signal", parse_signal))
            if key in children
        }
        config = DetectorConfig(**names)
        declared = DETECTORS[config.detector]
        parameters = {one.name: one for one in declared.parameters}
        self._faultless(node, where, ("detector", "signal", *parameters))
        given = {
            key: self._value(child, f"{where}.{key}", parameters[key].parse)
            for key, child in children.items()
            if key in parameters
        }
        if problem := declared.problem(declared.complete(given)):
            self._fail(node, f"{where}: {problem}")
        fixed = declared.threshold is not None and declared.threshold.name in given
        return replace(config, params=declared.changed(given), fixed=fixed)

    def _section(
        self, node: yaml.Node | None, where: str, base: Any, parsers: Mapping[str, Parser]
    ) -> Any:
        with self._collect():
            children = self._mapping(node, where, tuple(parsers))
            return replace(base, **self._values(children, where, parsers))
        return base

    def _values(
        self, children: Mapping[str, yaml.Node], where: str, parsers: Mapping[str, Parser | None],
        *, named: Sequence[str] = (),
    ) -> dict[str, Any]:  # fmt: skip
        """The values of those keys that have a parser and no fault; keys of `named` hold names."""
        values = {}
        for key, child in children.items():
            if (parser := parsers.get(key)) is not None:
                with self._collect():
                    values[key] = self._value(child, f"{where}.{key}", parser, named=key in named)
        return values

    def _mapping(
        self, node: yaml.Node | None, where: str, known: tuple[str, ...] | None
    ) -> dict[str, yaml.Node]:
        if node is None or (isinstance(node, yaml.ScalarNode) and self._plain(node, where) is None):
            return {}
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, f"{where} is {self._plain(node, where)!r}: expected keys and values")
        entries: dict[str, yaml.Node] = {}
        for key_node, child in node.value:
            with self._collect():
                if not isinstance(key_node, yaml.ScalarNode):
                    self._fail(key_node, f"{where} has a key that is no name")
                key = key_node.value  # as it is written: 007 and no are names, too
                if known is not None and key not in known:
                    self._fail(key_node, f"unknown key {key!r} in {where}{_hint(key, known)}")
                if key in entries:
                    self._fail(key_node, f"{where} has the key {key!r} twice")
                entries[key] = child
        return entries

    def _faultless(
        self, node: yaml.Node, where: str, known: tuple[str, ...] | None
    ) -> dict[str, yaml.Node]:
        """As `_mapping`, but raises the first fault of its keys: without them the rest can't be judged."""
        before = len(self._faults)
        entries = self._mapping(node, where, known)
        if len(self._faults) > before:
            first, self._faults[before:] = self._faults[before], []
            raise ConfigError(first)
        return entries

    def _value(self, node: yaml.Node, where: str, parser: Parser, *, named: bool = False) -> Any:
        """What a parser makes of a node; `named`: it has names in it (see `_as_meant`)."""
        try:
            return parser(self._tree(node, where, (), {}) if named else self._plain(node, where))
        except (ValueError, TypeError, OverflowError) as error:
            self._fail(node, f"{where}: {error}")

    def _plain(self, node: yaml.Node, where: str) -> Any:
        """The Python value of a node."""
        try:
            return _Constructor().construct_document(node)
        except Exception as error:  # PyYAML raises whatever its conversions do
            shown = node.value if isinstance(node, yaml.ScalarNode) else "a collection"
            kind, why = node.tag.replace("tag:yaml.org,2002:", ""), " ".join(str(error).split())
            self._fail(node, f"{where} is {kind} {shown!r}: {why}")

    def _at(self, node: yaml.Node | None) -> str:
        """File and line of a node, as far as it has them."""
        line = _line(node)
        return self._path if line is None else f"{self._path} line {line}"

    def _fail(self, node: yaml.Node, what: str) -> Any:
        raise ConfigError(f"{self._at(node)}: {what}")


def _hint(key: str, known: tuple[str, ...]) -> str:
    """What to write instead of an unknown key: the section that it belongs to, a similar key, or any key."""
    if known is SECTIONS and key in _OF_STREAMS:
        return f": it is a setting of streams; write it below defaults, or in Python as {key}=…"
    if known is _OF_STREAMS and key in KNOWN_FIELDS:
        return f": it is a field of records; name its column below files, in Python by columns={{{key!r}: …}}"
    near = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {near[0]}? known: {', '.join(known)}" if near else f"; known: {', '.join(known)}"


def _scalars(node: yaml.Node | None, above: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Dotted keys of a document and their texts; of a key such as `token=…`, all behind its first word."""
    if isinstance(node, yaml.ScalarNode):
        if not is_reference(node.value):
            yield above, node.value
        if node.tag.startswith("!"):
            yield above, node.tag[1:]
    elif isinstance(node, yaml.SequenceNode) and depth <= _DEEPEST:
        for child in node.value:
            yield from _scalars(child, above, depth + 1)
    elif isinstance(node, yaml.MappingNode) and depth <= _DEEPEST:
        for key, child in node.value:
            name = str(key.value)
            yield from ((name, behind) for behind in re.split(r"[\s=:]+", name, maxsplit=1)[1:])
            yield from _scalars(child, f"{above}.{name}" if above else name, depth + 1)


def _line(node: yaml.Node | None) -> int | None:
    """None: the node is of no file."""
    if node is None:
        return 1
    return None if node.start_mark is None else node.start_mark.line + 1

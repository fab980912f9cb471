"""Reads the configuration from YAML: what is wrong is said with file, line and what was expected."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import yaml
from prequential import mapping
from prequential.budget import parse_budget
from prequential.config import (
    BASELINES,
    COMPARE,
    COMPARE_LOSSES,
    DEFAULT_DETECTORS,
    DETAILS,
    KNOWN_MEASURES,
    LOSSES,
    MAX_CLASSES,
    MORE_MEASURES,
    OF_TASK,
    TASKS,
    VERSIONS,
    Config,
    ConfigError,
    DetectorConfig,
    HttpConfig,
    Limits,
    Objective,
    StreamConfig,
    WorkerConfig,
    duration,
)
from prequential.configingest import read_sources
from prequential.confignames import (
    canonical,
    detectors_of_task,
    objective_of,
    objective_untested,
    objective_without_value,
    parse_estimator,
    parse_signal,
    parse_stage,
    signal_of_other_task,
    stage_key,
    stage_without_outcomes,
)
from prequential.core.detectors import DETECTORS
from prequential.core.measures import NAMES as MEASURES
from prequential.core.measures import NOT_QUALITY
from prequential.mapping import FORMATS, RecordMapping
from prequential.topics.clients import KafkaConfig
from prequential.topics.decoding import KINDS
from prequential.topics.errors import UsageError

#: Levels of tests: beyond them nothing would be sure, or ever be found.
_LEAST_LEVEL, _MOST_LEVEL = 1e-9, 0.5

_OF_A_PAIR = 2

#: Fewest outcomes that can say what an error rate may be.
_LEAST_REFERENCE = 100

#: Longest duration in ms, 1000 years: times plus durations stay far within 64 bits.
_LONGEST = 1000 * 366 * 86_400_000

#: Smallest and largest `alpha`: far more than a weighting needs, and sums of weights (1/α)^(b/B) are exact
#: enough.
_ALPHAS = 1e-6, 1e6

#: Largest number in a configuration: no bound of a measure makes sense near it.
_LARGEST = 1e15

#: Keys within keys of a mapping of fields, at most; a node may be a part of itself.
_DEEPEST = 5

Parser = Callable[[Any], Any]


class _Constructor(yaml.constructor.SafeConstructor):  # type: ignore[misc]
    """Makes Python values of nodes."""

    def construct_scalar(self, node: Any) -> Any:
        """Characters beyond 16 bits may be written as JSON does it, as an escaped pair of surrogates."""
        value = super().construct_scalar(node)
        if isinstance(value, str) and not value.isascii():
            try:
                return value.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError as error:
                raise ValueError("half of a pair of surrogates stands alone") from error
        return value


def read(path: str | None, overrides: Mapping[str, object]) -> Config:
    """The configuration of a file (None: defaults), with dotted `overrides` such as `http.port`."""
    config = _Reader(path or "defaults").config(_document(path))
    for key, value in overrides.items():
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
    prequential.config.ConfigError: settings: defaults.estimators: estimator 'al': expected all, ...
    """
    name = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    node = _document(name) if name is not None else _represented(given or {})
    if settings:
        node = node or _represented({})
        own = _represented(dict(settings)).value
        if isinstance(node, yaml.MappingNode):
            sections = {key.value: place for place, (key, _) in enumerate(node.value)}
            if "defaults" not in sections:
                node.value.append((_represented("defaults"), _represented({})))
                sections["defaults"] = len(node.value) - 1
            key, defaults = node.value[sections["defaults"]]
            before = defaults.value if isinstance(defaults, yaml.MappingNode) else []
            names = {one.value for one, _ in own}
            kept = [(one, child) for one, child in before if one.value not in names]
            merged = yaml.MappingNode(defaults.tag, [*kept, *own], defaults.start_mark)
            node.value[sections["defaults"]] = key, merged
    return _Reader(name or "settings").config(node)


def _represented(data: Any) -> Any:
    """The node of plain data."""
    try:
        return yaml.representer.SafeRepresenter().represent_data(data)
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
            problem = error.problem or error.context
            raise ConfigError(f"{path} line {line}: not YAML: {problem}") from error
        except yaml.reader.ReaderError as error:
            line = text[: error.position].count("\n") + 1
            raise ConfigError(f"{path} line {line}: not YAML: {error.reason}") from error
        except RecursionError as error:
            raise ConfigError(f"{path} line 1: not YAML: nested too deeply") from error
    return node


class _Reader:
    """Walks the nodes of one file, so that every complaint can name its line."""

    def __init__(self, path: str) -> None:
        self._path = path

    def config(self, node: yaml.Node | None) -> Config:
        sections = self._mapping(
            node, "the configuration",
            ("kafka", "defaults", "streams", "limits", "http", "worker", "files", "ingest"),
        )  # fmt: skip
        kafka = self._kafka(sections.get("kafka"))
        defaults = self._stream(sections.get("defaults"), "defaults", StreamConfig())
        streams = {
            name: self._stream(child, f"streams.{name}", defaults)
            for name, child in self._mapping(sections.get("streams"), "streams", None).items()
        }
        return Config(
            kafka=kafka,
            defaults=defaults,
            streams=streams,
            limits=self._section(sections.get("limits"), "limits", Limits(), _positive_fields(Limits)),
            http=self._http(sections.get("http"), (defaults, *streams.values())),
            worker=self._section(sections.get("worker"), "worker", WorkerConfig(), _WORKER),
            files={
                name: self.mappings(child, f"files.{name}", KINDS.index(name), bare=True, formats=FORMATS)
                for name, child in self._mapping(sections.get("files"), "files", KINDS).items()
            },
            ingest=read_sources(sections.get("ingest"), self._tree, self._plain, self._fail),
        )

    def _http(self, node: yaml.Node | None, streams: Sequence[StreamConfig]) -> HttpConfig:
        found: HttpConfig = self._section(node, "http", HttpConfig(), _HTTP)
        for key in ("stages", "estimators"):
            known = list(dict.fromkeys(name for stream in streams for name in getattr(stream, key)))
            for name in getattr(found, key) or ():
                if name not in known:
                    child = self._mapping(node, "http", None)[key]
                    self._fail(child, f"http.{key}: no stream has {name!r}; configured: {', '.join(known)}")
        return found

    def mappings(
        self, node: yaml.Node, where: str, kind: int | None = None, *, bare: bool, formats: Sequence[str]
    ) -> tuple[RecordMapping, ...]:
        """The mapping of a source, or several of a list (see `prequential.mapping.parse`)."""
        several = isinstance(node, yaml.SequenceNode)
        found = []
        for place, one in enumerate(node.value if several else [node]):
            own = f"{where}[{place}]" if several else where
            lines: dict[tuple[Any, ...], str] = {}
            section = self._tree(one, own, (), lines)
            origin = mapping.Origin(own, lines)
            try:
                found.append(mapping.parse(section, kind, bare=bare, formats=formats, origin=origin))
            except mapping.MappingError as error:
                raise ConfigError(f"{origin.line(error.keys)}{own}: {error}") from error
        if not found:
            self._fail(node, f"{where} is an empty list: expected a mapping")
        return tuple(found)

    def _tree(
        self, node: yaml.Node, where: str, keys: tuple[Any, ...], lines: dict[tuple[Any, ...], str]
    ) -> Any:
        """The Python value of a node; fills in the line of each part of it, by the keys to it."""
        lines.setdefault(keys, self._at(node))
        if not isinstance(node, yaml.MappingNode):
            return self._plain(node, where)
        if len(keys) > _DEEPEST:
            self._fail(node, f"{where} is nested too deeply")
        found: dict[Any, Any] = {}
        for name, (key_node, child) in zip(self._mapping(node, where, None), node.value):
            plain = self._plain(key_node, where)
            key = name if plain is None else plain
            below = (*keys, key)
            lines[below] = self._at(key_node)
            found[key] = self._tree(child, where, below, lines)
        return found

    def _kafka(self, node: yaml.Node | None) -> KafkaConfig:
        children = self._mapping(node, "kafka", (*_KAFKA, "security", "schema_registry"))
        values = {
            key: self._value(child, f"kafka.{key}", _KAFKA[key])
            for key, child in children.items()
            if key in _KAFKA
        }
        if "security" in children:
            settings = self._mapping(children["security"], "kafka.security", None)
            values["security"] = {
                key: self._value(child, f"kafka.security.{key}", _setting) for key, child in settings.items()
            }
        if "schema_registry" in children:
            settings = self._mapping(children["schema_registry"], "kafka.schema_registry", None)
            values["schema_registry"] = {
                key: self._value(child, f"kafka.schema_registry.{key}", _plain_setting)
                for key, child in settings.items()
            }
        try:
            return KafkaConfig(**values)
        except UsageError as error:
            raise ConfigError(f"{self._at(node)}: {error}") from error

    def _stream(self, node: yaml.Node | None, where: str, base: StreamConfig) -> StreamConfig:
        keys = {**_STREAM, "detectors": None, "emit": None, "objective": None, "incidents": None}
        children = self._mapping(node, where, tuple(keys))
        changes = {
            key: self._value(child, f"{where}.{key}", parser)
            for key, child in children.items()
            if (parser := keys[key]) is not None
        }
        given = base.detectors is not DEFAULT_DETECTORS[base.task]
        if "detectors" in children:
            changes["detectors"] = self._detectors(children["detectors"], f"{where}.detectors")
        elif not given:
            changes["detectors"] = OF_TASK
        if "emit" in children:
            emit = self._mapping(children["emit"], f"{where}.emit", ("outcomes", "every"))
            for key, child in emit.items():
                changes[f"emit_{key}"] = self._value(child, f"{where}.emit.{key}", _EMIT[key])
            if "every" in emit:
                changes["emit_every_given"] = True
        if "incidents" in children:
            changes["incidents"] = self._section(
                children["incidents"], f"{where}.incidents", base.incidents, _INCIDENTS
            )
        if "objective" in children:
            changes["objective"] = self._objective(children["objective"], f"{where}.objective")
        config = replace(base, **changes)
        if "objective" not in children:
            config = replace(config, objective=objective_of(config))
        if given and "detectors" not in children:  # of another task's, a stream takes over what it can have
            config = replace(config, detectors=detectors_of_task(config))
        of_task = COMPARE_LOSSES[config.task]
        if "compare_losses" not in children:
            kept = tuple(loss for loss in config.compare_losses if loss in of_task)
            config = replace(config, compare_losses=kept or of_task[:1])
        if config.period is not None and node is not None:
            self._check_period(children.get("period", node), config, where)
        self._check_names(children, config, where)
        return config

    def _check_names(self, children: Mapping[str, yaml.Node], config: StreamConfig, where: str) -> None:
        """What can be seen only of all settings together, whichever section each comes from."""
        champion = config.champion is None and config.compare == "champion"
        of_task = COMPARE_LOSSES[config.task]
        for entry, pair in enumerate(config.compare_stages):
            place = children.get("compare_stages", children.get("stages", children.get("bins")))
            absent = [stage for stage in pair.split("/") if stage not in config.evaluated_stages]
            if place is not None and absent:
                self._fail(
                    place.value[entry] if "compare_stages" in children else place,
                    f"{where}.compare_stages[{entry}]: stage {absent[0]!r} isn't evaluated: expected two of "
                    f"{', '.join(config.evaluated_stages)}",
                )
        for entry, loss in enumerate(config.compare_losses):
            if loss not in of_task:
                self._fail(
                    children["compare_losses"].value[entry],
                    f"{where}.compare_losses[{entry}]: {loss!r} isn't a loss of {config.task}: "
                    f"expected {', '.join(of_task)}",
                )
        if champion and "compare" in children:
            self._fail(children["compare"], f"{where}.compare: champion needs {where}.champion beside it")
        for key, other, wrong in (
            ("stages", "label_horizon", stage_without_outcomes(config)),
            ("detectors", "task", signal_of_other_task(config)),
        ):
            place = children.get(key, children.get(other))
            if place is None or wrong is None:
                continue  # all of it was checked where it stands
            entry, problem = wrong
            node = children[key].value[entry] if key in children else place
            self._fail(node, f"{where}.{key}[{entry}]: {problem}")
        missing = objective_without_value(config)
        if "objective" in children and not missing:
            # Without a level an objective may have bounds that aren't tested.
            given = self._mapping(children["objective"], f"{where}.objective", None)
            missing = objective_untested(config, "level" in given)
        if "objective" in children and missing:
            name, problem = missing
            [node] = (key for key, _ in children["objective"].value if key.value == name)
            self._fail(node, f"{where}.objective.{name}: {problem}")

    def _check_period(self, node: yaml.Node, config: StreamConfig, where: str) -> None:
        assert config.period is not None
        if config.emit_every is None:
            self._fail(node, f"{where}.period needs {where}.emit.every: time makes its messages due")
        if config.label_horizon > _MOST_PERIODS * config.period:
            self._fail(
                node,
                f"{where}.period {config.period} ms: expected at least 1/{_MOST_PERIODS} of the label "
                f"horizon of {config.label_horizon} ms",
            )

    def _detectors(self, node: yaml.Node, where: str) -> tuple[DetectorConfig, ...]:
        if not isinstance(node, yaml.SequenceNode):
            self._fail(node, f"{where} is {self._plain(node, where)!r}: expected a list of detectors")
        detectors: list[DetectorConfig] = []
        for place, child in enumerate(node.value):
            detector = self._detector(child, f"{where}[{place}]")
            same = replace(detector, signal=canonical(detector.signal))
            if any(same == replace(other, signal=canonical(other.signal)) for other in detectors):
                self._fail(child, f"{where} has the detector on {detector.signal} twice")
            detectors.append(detector)
        return tuple(detectors)

    def _objective(self, node: yaml.Node, where: str) -> Objective | None:
        children = self._mapping(node, where, (*_OBJECTIVE_MEASURES, *_OBJECTIVE))
        if not children:
            return None
        values = {
            key: self._value(child, f"{where}.{key}", _OBJECTIVE.get(key, _number(-_LARGEST)))
            for key, child in children.items()
        }
        settings = {key: values.pop(key) for key in _OBJECTIVE if key in values}
        if not values and "reference" not in settings:
            self._fail(node, f"{where} names no measure: expected e.g. accuracy: 0.9")
        return Objective(values, **settings)

    def _detector(self, node: yaml.Node, where: str) -> DetectorConfig:
        """A detector with the parameters that it declares itself."""
        children = self._mapping(node, where, None)
        names = {
            key: self._value(children[key], f"{where}.{key}", parser)
            for key, parser in (("detector", _detector), ("signal", parse_signal))
            if key in children
        }
        config = DetectorConfig(**names)
        declared = DETECTORS[config.detector]
        parameters = {one.name: one for one in declared.parameters}
        self._mapping(node, where, ("detector", "signal", *parameters))
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
        children = self._mapping(node, where, tuple(parsers))
        values = {
            key: self._value(child, f"{where}.{key}", parsers[key])
            for key, child in children.items()
        }
        return replace(base, **values)

    def _mapping(
        self, node: yaml.Node | None, where: str, known: tuple[str, ...] | None
    ) -> dict[str, yaml.Node]:
        if node is None or (isinstance(node, yaml.ScalarNode) and self._plain(node, where) is None):
            return {}
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, f"{where} is {self._plain(node, where)!r}: expected keys and values")
        found: dict[str, yaml.Node] = {}
        for key_node, child in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._fail(key_node, f"{where} has a key that is no name")
            key = key_node.value  # as it is written: 007 and no are names, too
            if known is not None and key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else ";"
                self._fail(key_node, f"unknown key {key!r} in {where}{hint} known: {', '.join(known)}")
            if key in found:
                self._fail(key_node, f"{where} has the key {key!r} twice")
            found[key] = child
        return found

    def _value(self, node: yaml.Node, where: str, parser: Parser) -> Any:
        try:
            return parser(self._plain(node, where))
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


def _line(node: yaml.Node | None) -> int | None:
    """None: the node is of no file."""
    if node is None:
        return 1
    return None if node.start_mark is None else node.start_mark.line + 1


def _expected(value: object, what: str) -> ValueError:
    return ValueError(f"{value!r}: expected {what}")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _expected(value, "a string")
    return value


def _prefix(value: Any) -> str:
    return "" if value in (None, "") else _text(value)


def _integer(least: int, most: int = 1 << 40) -> Parser:
    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _expected(value, f"an integer from {least} to {most}")
        return value

    return parse


def _number(least: float) -> Parser:
    def parse(value: Any) -> float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not least <= value <= _LARGEST:
            raise _expected(value, f"a number from {least:g} to {_LARGEST:g}")
        return float(value)

    return parse


def _alpha(value: Any) -> float:
    least, most = _ALPHAS
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise _expected(value, f"a number from {least:g} to {most:g}")
    return float(value)


def _positive_share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise _expected(value, "a share above 0 and up to 1")
    return float(value)


def _budget(value: Any) -> str:
    try:
        return str(parse_budget(value))
    except (TypeError, UsageError):
        raise _expected(value, "false alarms per duration, e.g. 1 per 30d") from None


def _change(value: Any) -> float:
    change = _number(0)(value)
    if not change:
        raise _expected(value, "a rise above 0")
    return change


def _duration(value: Any) -> int:
    milliseconds = duration(value)
    if not 1 <= milliseconds <= _LONGEST:
        raise _expected(value, "a duration above 0 and up to 1000 years")
    return milliseconds


def _optional(parser: Parser) -> Parser:
    return lambda value: None if value is None else parser(value)


def _list_of(parser: Parser, empty: bool = False, key: Parser = str) -> Parser:
    """A list of what `parser` makes, without two that `key` says are the same."""

    def parse(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not (value or empty):
            raise _expected(value, "a list with at least one entry")
        if len(set(map(str, value))) < len(value):
            raise _expected(value, "a list without repeats")
        found: dict[Any, Any] = {}
        for entry in map(parser, value):
            other = found.setdefault(key(entry), entry)
            if other is not entry:
                raise ValueError(f"{other!r} and {entry!r} are the same: expected a list without repeats")
        return tuple(found.values())

    return parse


def _segment_keys(value: Any) -> tuple[str, ...]:
    keys: tuple[str, ...] = _list_of(_text, empty=True)(value)
    for key in keys:
        for other in keys:
            if key.startswith(f"{other}="):  # a segment's name is `key=value`
                why = "expected keys that can be told apart"
                raise ValueError(f"{key!r} looks like a value of {other!r}: {why}")
    return keys


def _task(value: Any) -> str:
    if value not in TASKS:
        raise _expected(value, " or ".join(TASKS))
    return str(value)


def _one_of(known: tuple[str, ...]) -> Parser:
    def parse(value: Any) -> str:
        # YAML 1.1 reads a plain `off` as false.
        text = "off" if value is False and "off" in known else value
        if text not in known:
            raise _expected(value, f"{', '.join(known[:-1])} or {known[-1]}")
        return str(text)

    return parse


def _stages(value: Any) -> str:
    parts = value.split("/") if isinstance(value, str) else []
    if len(set(parts)) != _OF_A_PAIR or len(parts) != _OF_A_PAIR:
        raise _expected(value, "two stages such as initial/final")
    return str(value)


def _level(value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not _LEAST_LEVEL <= value <= _MOST_LEVEL:
        raise _expected(value, f"a share of false verdicts from {_LEAST_LEVEL:g} to {_MOST_LEVEL:g}")
    return float(value)


def _loss(value: Any) -> str:
    if value not in LOSSES:
        raise _expected(value, " or ".join(LOSSES))
    return str(value)


def _class(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    raise _expected(value, "a class: a string, an integer or a boolean")


def _measure(value: Any) -> str:
    if value not in MEASURES:
        known = ", ".join((*KNOWN_MEASURES, *MORE_MEASURES))
        raise ValueError(f"unknown measure {value!r}; known: {known}")
    return str(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _expected(value, "true or false")
    return value


def _baseline(value: Any) -> str:
    if value not in BASELINES:
        raise ValueError(f"unknown baseline {value!r}; known: {', '.join(BASELINES)}")
    return str(value)


def _detail(value: Any) -> str:
    if value not in DETAILS:
        raise ValueError(f"unknown detail {value!r}; known: {', '.join(DETAILS)}")
    return str(value)


def _detector(value: Any) -> str:
    if not isinstance(value, str) or value not in DETECTORS:
        raise ValueError(f"unknown detector {value!r}; known: {', '.join(DETECTORS)}")
    return value


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise _expected(value, "a librdkafka setting: a string, a number or a boolean")


def _plain_setting(value: Any) -> Any:
    if isinstance(value, (str, int, float)):
        return value
    raise _expected(value, "a setting of Schema Registry's client: a string, a number or a boolean")


def _port(value: Any) -> int:
    return int(_integer(0, 65_535)(value))


def _positive_fields(section: type) -> dict[str, Parser]:
    parsers = {field.name: _integer(1) for field in fields(section)}
    parsers["classes_per_stream"] = _integer(2, MAX_CLASSES)
    return parsers


_KAFKA: dict[str, Parser] = {
    "bootstrap_servers": _text, "prefix": _prefix, "partitions": _integer(1, 100_000),
    "replication": _integer(1, 1000),
}  # fmt: skip

_WORKER: dict[str, Parser] = {
    "group": _text, "instance_id": _optional(_text), "session_timeout": _duration, "grace": _duration,
    "commit_every": _duration,
    "snapshot_every": _duration, "quarantine_after": _optional(_integer(1)), "stop_within": _duration,
}  # fmt: skip

_HTTP: dict[str, Parser] = {
    "host": _text, "port": _optional(_port), "measures": _list_of(_measure, empty=True), "segments": _flag,
    "token": _optional(_text), "tls_certificate": _optional(_text), "tls_key": _optional(_text),
    "stages": _optional(_list_of(parse_stage, key=stage_key, empty=True)),
    "estimators": _optional(_list_of(parse_estimator, key=canonical, empty=True)),
}  # fmt: skip

#: Periods within one horizon, at most: each has sums of its own.
_MOST_PERIODS = 10_000

_STREAM: dict[str, Parser] = {
    "task": _task, "loss": _loss, "positive_class": _optional(_class),
    "estimators": _list_of(parse_estimator, key=canonical), "measures": _list_of(_measure),
    "stages": _list_of(parse_stage, key=stage_key),
    "coverage": _flag, "temporal_correction": _flag, "period": _optional(_duration),
    "period_final_at": _positive_share,
    "alarm_budget": _optional(_budget), "alarm_change": _change,
    "segments": _segment_keys, "segments_per_key": _integer(1, 10_000),
    "baselines": _list_of(_baseline, empty=True), "details": _list_of(_detail, empty=True),
    "dependence_order": _integer(1, 1_000),
    "bins": _integer(1, 10_000), "alpha": _alpha,
    "label_horizon": _duration, "settle": _duration,
    "versions": _one_of(VERSIONS), "compare_stages": _list_of(_stages, empty=True),
    "compare": _one_of(COMPARE), "champion": _optional(_class),
    "compare_losses": _list_of(_one_of(tuple(dict.fromkeys(sum(COMPARE_LOSSES.values(), ()))))),
    "compare_level": _level, "mcnemar_level": _level,
}  # fmt: skip

_EMIT: dict[str, Parser] = {"outcomes": _optional(_integer(1)), "every": _optional(_duration)}

_OBJECTIVE: dict[str, Parser] = {
    "tolerance": _number(0), "level": _level, "reference": _optional(_integer(_LEAST_REFERENCE)),
}  # fmt: skip

_INCIDENTS: dict[str, Parser] = {
    "quiet": _duration, "quiet_outcomes": _integer(1), "accept": _duration, "warnings": _flag,
}  # fmt: skip

#: What can be asked of a model.
_OBJECTIVE_MEASURES = tuple(name for name in MEASURES if name not in NOT_QUALITY)

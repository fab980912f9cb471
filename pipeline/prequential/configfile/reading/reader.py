"""Reads the configuration from YAML; errors list every fault with file, line and what was expected."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml
from prequential.configfile.reading import keys as configkeys
from prequential.configfile.reading.nodes import NodeReader, document_of, node_of, scalars_of
from prequential.configfile.reading.together import detectors_of_task, flaws, objective_of, parse_signal
from prequential.configuration.settings import http_server, notifications
from prequential.configuration.settings import model as settings
from prequential.configuration.settings import streams as stream_settings
from prequential.configuration.settings.kafka import CLIENTS
from prequential.configuration.settings.model import Config, ConfigError, SourceConfig
from prequential.configuration.settings.otlp import OtlpConfig
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.detectors import DETECTORS
from prequential.engine.estimators.naming import canonical
from prequential.mapping import model
from prequential.mapping.evaluations import FILE_FORMATS, RATING_FORMATS
from prequential.mapping.parsing import ABOUT, parse
from prequential.topics.clients import KafkaConfig
from prequential.topics.decoding import KINDS, LABELS
from prequential.topics.errors import UsageError, existing, remember_value

#: Forms that records of a source may have.
FORMATS = ("json", "cloudevents", "avro", "protobuf", "json_schema", *RATING_FORMATS)

Lines = dict[tuple[Any, ...], str]


#: Sections of a configuration.
SECTIONS = ("kafka", "defaults", "streams", "limits", "http", "worker", "files", "ingest", "notify", "otlp")

#: The keys below `defaults` and of a stream.
_OF_STREAMS = configkeys.KEYS_OF_STREAM


def load_config(path: str | None, overrides: Mapping[str, object] | None = None) -> Config:
    """Read a YAML file (None: all defaults); `overrides` maps dotted keys such as `http.port` to values.

    Raises ConfigError for unknown keys, bad values (one line for each fault) or an unreadable file.
    """
    config = _Reader(path or "defaults").config(document_of(path))
    for key, value in (overrides or {}).items():
        section, _, name = key.partition(".")
        config = replace(config, **{section: replace(getattr(config, section), **{name: value})})
    return config


def combined(
    source: str | os.PathLike[str] | Mapping[str, Any] | None, settings: Mapping[str, Any]
) -> Config:
    """The configuration of a file, or of a dict of the same form, with these settings in its `defaults`.

    Raises ConfigError, in which places of a dict have no lines.

    >>> combined({"defaults": {"bins": 3}}, {"stages": ["bins"]}).defaults.bins
    3
    >>> combined(None, {"estimators": ["al"]})
    Traceback (most recent call last):
    ...
    prequential.configuration.settings.model.ConfigError: settings: defaults.estimators: estimator 'al': ...
    """
    name = os.fspath(source) if isinstance(source, (str, os.PathLike)) else None
    node = document_of(name) if name is not None else node_of(source or {})
    if settings:
        node = node or node_of({})
        given_settings = node_of(dict(settings)).value
        if isinstance(node, yaml.MappingNode):
            sections = {key.value: index for index, (key, _) in enumerate(node.value)}
            if "defaults" not in sections:
                node.value.append((node_of("defaults"), node_of({})))
                sections["defaults"] = len(node.value) - 1
            key, defaults = node.value[sections["defaults"]]
            before = defaults.value if isinstance(defaults, yaml.MappingNode) else []
            names = {key_node.value for key_node, _ in given_settings}
            kept = [(key_node, child) for key_node, child in before if key_node.value not in names]
            merged = yaml.MappingNode(defaults.tag, [*kept, *given_settings], defaults.start_mark)
            node.value[sections["defaults"]] = key, merged
    return _Reader(name or "settings").config(node)


class _Reader(NodeReader):
    """The sections of a configuration."""

    def config(self, node: yaml.Node | None) -> Config:
        """The configuration; raises ConfigError with one line for each fault of the file."""
        for key, text in scalars_of(node):
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
        limits = self._section(sections.get("limits"), "limits", settings.Limits(), configkeys.LIMITS)
        judged = (defaults, *streams.values()) if len(self._faults) == before else None
        http = self._http(sections.get("http"), judged)
        files: dict[str, tuple[model.RecordMapping, ...]] = {}
        sources: tuple[SourceConfig, ...] = ()
        for name, child in self._mapping(sections.get("files"), "files", KINDS).items():
            with self._collect():
                kind = KINDS.index(name)
                files[name] = self._of_file(child, f"files.{name}", kind)
        with self._collect():
            sources = self._sources(sections.get("ingest"))
        worker = self._section(sections.get("worker"), "worker", settings.WorkerConfig(), configkeys.WORKER)
        notify = self._section(
            sections.get("notify"), "notify", notifications.NotifyConfig(), configkeys.NOTIFY
        )
        otlp = self._otlp(sections.get("otlp"))
        return Config(kafka, defaults, streams, limits, http, worker, files, sources, notify, otlp)

    def _otlp(self, node: yaml.Node | None) -> OtlpConfig:
        """The section `otlp`, which has an endpoint if it has any key."""
        before = len(self._faults)
        config: OtlpConfig = self._section(node, "otlp", OtlpConfig(), configkeys.OTLP)
        with self._collect():
            lacks_endpoint = config != OtlpConfig() and config.endpoint is None
            if node is not None and lacks_endpoint and len(self._faults) == before:
                self._fail(node, "otlp has no endpoint: expected such as endpoint: http://localhost:4318")
        return config

    def _http(self, node: yaml.Node | None, streams: Sequence[StreamConfig] | None) -> http_server.HttpConfig:
        """The section `http`; without `streams`, whether they have its stages and estimators isn't judged."""
        config: http_server.HttpConfig = self._section(
            node, "http", http_server.HttpConfig(), configkeys.HTTP
        )
        for key in ("stages", "estimators") if streams is not None else ():
            configured = list(
                dict.fromkeys(name for stream in streams or () for name in getattr(stream, key))
            )
            asked = getattr(config, key)
            for name in asked if isinstance(asked, tuple) else ():
                if name not in configured:
                    child = self._mapping(node, "http", None)[key]
                    with self._collect():
                        problem = f"http.{key}: no stream has {name!r}; configured: {', '.join(configured)}"
                        self._fail(child, problem)
        return config

    def _of_file(self, node: yaml.Node, section_name: str, kind: int) -> tuple[model.RecordMapping, ...]:
        """The mapping of a file, or several of a list (see `prequential.mapping.parsing`)."""
        several = isinstance(node, yaml.SequenceNode)
        if several and not node.value:
            self._fail(node, f"{section_name} is an empty list: expected a mapping")
        mappings = []
        for index, mapping_node in enumerate(node.value if several else [node]):
            key = f"{section_name}[{index}]" if several else section_name
            lines: Lines = {}
            with self._collect():
                section = self._tree(mapping_node, key, (), lines)
                origin = model.MappingOrigin(key, lines)
                try:
                    mappings.append(parse(section, kind, bare=True, formats=FILE_FORMATS, origin=origin))
                except model.MappingError as error:
                    raise ConfigError(f"{origin.line(error.keys)}{key}: {error}") from error
        return tuple(mappings)

    def _sources(self, node: yaml.Node | None) -> tuple[SourceConfig, ...]:
        """The sources of `ingest`: a key is a topic or a list of them, its value one or several mappings."""
        if node is None or (isinstance(node, yaml.ScalarNode) and self._plain(node, "ingest") is None):
            return ()
        if not isinstance(node, yaml.MappingNode):
            plain = self._plain(node, "ingest")
            self._fail(node, f"ingest is {plain!r}: expected topics and what their records become")
        sources: list[SourceConfig] = []
        for key, section in node.value:
            with self._collect():
                topics = self._topics(key)
                for topic in topics:
                    if any(topic in source.topics for source in sources) or topics.count(topic) > 1:
                        expected = "expected a list of mappings below one"
                        self._fail(key, f"ingest has the topic {topic!r} twice: {expected}")
                sources.append(self._source(topics, section))
        return tuple(sources)

    def _topics(self, key: yaml.Node) -> tuple[str, ...]:
        names = key.value if isinstance(key, yaml.SequenceNode) else [key]
        for name_node in names:
            if not isinstance(name_node, yaml.ScalarNode) or not name_node.value:
                expected = "expected a topic's name, or a list such as [a, b]"
                self._fail(name_node, f"ingest has a key that is no topic: {expected}")
        if not names:
            self._fail(key, "ingest has an empty list of topics: expected their names")
        return tuple(name_node.value for name_node in names)

    def _source(self, topics: tuple[str, ...], section: yaml.Node) -> SourceConfig:
        """The source of these topics, with the mappings of its section."""
        section_name = f"ingest.{','.join(topics)}"
        sections = section.value if isinstance(section, yaml.SequenceNode) else [section]
        if not sections:
            self._fail(section, f"{section_name} is empty: expected e.g. as: predictions")
        mappings: list[model.RecordMapping] = []
        for index, mapping_node in enumerate(sections):
            section_key = section_name if len(sections) == 1 else f"{section_name}[{index}]"
            lines: Lines = {}
            tree = self._tree(mapping_node, section_key, (), lines)
            mappings += _mappings_of(tree, model.MappingOrigin(section_key, lines))
        formats = {mapping.format or FORMATS[0] for mapping in mappings}
        if len(formats) > 1:
            several = ", ".join(sorted(formats))
            self._fail(
                section, f"{section_name} has the formats {several}: expected the same in all mappings"
            )
        return SourceConfig(topics, formats.pop(), tuple(mappings))

    def _kafka(self, node: yaml.Node | None) -> KafkaConfig:
        children = self._mapping(node, "kafka", (*configkeys.KAFKA, *CLIENTS))
        values = self._values(children, "kafka", configkeys.KAFKA)
        for name, declared in CLIENTS.items():
            if name in children:
                settings = self._mapping(children[name], f"kafka.{name}", None)
                parsers = dict.fromkeys(
                    settings, existing(declared.values, "the values of a client's settings")
                )
                values[name] = self._values(settings, f"kafka.{name}", parsers)
        try:
            return KafkaConfig(**values)
        except UsageError as error:
            raise ConfigError(f"{self._at(node)}: {error}") from error

    def _stream(
        self, node: yaml.Node | None, section_name: str, base: StreamConfig, *, judge: bool = True
    ) -> StreamConfig:
        """A stream's settings over those of `base`.

        Whether they fit each other is left open after a fault among them, or without `judge`.
        """
        before = len(self._faults)
        children = self._mapping(node, section_name, _OF_STREAMS)
        changes = self._values(children, section_name, configkeys.STREAM)
        are_configured = base.detectors is not stream_settings.DEFAULT_DETECTORS[base.task]
        if "detectors" in children:
            changes["detectors"] = self._detectors(children["detectors"], f"{section_name}.detectors")
        elif not are_configured:
            changes["detectors"] = stream_settings.OF_TASK
        if "emit" in children:
            emit = self._mapping(children["emit"], f"{section_name}.emit", tuple(configkeys.EMIT))
            values = self._values(emit, f"{section_name}.emit", configkeys.EMIT)
            changes |= {f"emit_{key}": value for key, value in values.items()}
            given_keys = ("outcomes", "every", "comparisons")
            changes |= {f"emit_{key}_given": True for key in given_keys if key in emit}
        if "period_alarms" in children:
            changes["period_alarms"] = self._section(
                children["period_alarms"], f"{section_name}.period_alarms", base.period_alarms,
                configkeys.PERIOD_ALARMS,
            )  # fmt: skip
        if "objective" in children:
            changes["objective"] = self._objective(children["objective"], f"{section_name}.objective")
        if "disparity" in children:
            changes["disparity"] = self._disparity(children["disparity"], f"{section_name}.disparity")
        if len(self._faults) > before or not judge:
            return base
        if changes.get("task", base.task) == "regression" and "label_at_horizon" not in children:
            changes["label_at_horizon"] = None  # a class isn't taken over where labels are numbers
        if changes.get("task", base.task) != base.task and "classes" not in children:
            changes["classes"] = None  # nor are names taken over where they are of something else
        try:
            config = replace(base, **changes)
        except UsageError as error:
            key = str(error).partition(" ")[0]  # the setting that it is about
            self._fail(children.get(key) or children["costs"], f"{section_name}.{key}: {error}")
        if "objective" not in children:
            config = replace(config, objective=objective_of(config))
        whole = config.has_classes and config.key != stream_settings.BY_INSTANCE
        if "disparity" not in children and not (whole and config.evaluated_stages):
            config = replace(config, disparity=None)
        if (
            are_configured and "detectors" not in children
        ):  # of another task's, a stream takes over what it can have
            config = replace(config, detectors=detectors_of_task(config))
        of_task = stream_settings.COMPARE_LOSSES[config.task]
        if "compare_losses" not in children:
            kept = tuple(loss for loss in config.compare_losses if loss in of_task)
            config = replace(config, compare_losses=kept or of_task[:1])
        watched = stream_settings.INCIDENT_LOSSES[config.task]
        if "incident_loss" not in children and config.incident_loss not in watched:
            config = replace(config, incident_loss="error")
        for flaw_node, flaw in flaws(node, children, config, section_name):
            with self._collect():
                self._fail(flaw_node, flaw)
        return config

    def _detectors(self, node: yaml.Node, section_name: str) -> tuple[DetectorConfig, ...]:
        if not isinstance(node, yaml.SequenceNode):
            self._fail(
                node, f"{section_name} is {self._plain(node, section_name)!r}: expected a list of detectors"
            )
        detectors: list[DetectorConfig] = []
        for index, child in enumerate(node.value):
            with self._collect():
                detector = self._detector(child, f"{section_name}[{index}]")
                same = replace(detector, signal=canonical(detector.signal))
                if any(same == replace(earlier, signal=canonical(earlier.signal)) for earlier in detectors):
                    self._fail(child, f"{section_name} has the detector on {detector.signal} twice")
                detectors.append(detector)
        return tuple(detectors)

    def _objective(self, node: yaml.Node, section_name: str) -> stream_settings.Objective | None:
        children = self._mapping(node, section_name, (*configkeys.OBJECTIVE_MEASURES, *configkeys.OBJECTIVE))
        if not children:
            return None
        bounds = {key: configkeys.bound_of(key) for key in children if key not in configkeys.OBJECTIVE}
        values = self._values(children, section_name, configkeys.OBJECTIVE | bounds)
        settings = {key: values.pop(key) for key in configkeys.OBJECTIVE if key in values}
        if not bounds and "reference" not in children:
            self._fail(node, f"{section_name} names no measure: expected e.g. accuracy: 0.9")
        return stream_settings.Objective(values, **settings)

    def _disparity(self, node: yaml.Node, section_name: str) -> stream_settings.DisparityConfig | None:
        children = self._mapping(node, section_name, tuple(configkeys.DISPARITY))
        if not children:
            return None
        if "segments" not in children:
            self._fail(node, f"{section_name} names no key of segments: expected e.g. segments: [region]")
        return stream_settings.DisparityConfig(**self._values(children, section_name, configkeys.DISPARITY))

    def _detector(self, node: yaml.Node, section_name: str) -> DetectorConfig:
        """A detector with the parameters that it declares itself."""
        children = self._faultless(node, section_name, None)
        names = {
            key: self._value(children[key], f"{section_name}.{key}", parser)
            for key, parser in (("detector", configkeys.detector), ("signal", parse_signal))
            if key in children
        }
        config = DetectorConfig(**names)
        declared = DETECTORS[config.detector]
        parameters = {parameter.name: parameter for parameter in declared.parameters}
        self._faultless(node, section_name, ("detector", "signal", *parameters))
        values = {
            key: self._value(child, f"{section_name}.{key}", parameters[key].parse)
            for key, child in children.items()
            if key in parameters
        }
        if problem := declared.problem(declared.complete(values)):
            self._fail(node, f"{section_name}: {problem}")
        fixed = declared.threshold is not None and declared.threshold.name in values
        return replace(config, params=declared.changed(values), fixed=fixed)

    def _hint(self, key: str, known_keys: tuple[str, ...]) -> str:
        """As of all nodes; or where the key of a stream or of records belongs."""
        if known_keys is SECTIONS and key in _OF_STREAMS:
            return f": it is a setting of streams; write it below defaults, or in Python as {key}=…"
        if known_keys is _OF_STREAMS and key in model.KNOWN_FIELDS:
            column = f"name its column below files, in Python by columns={{{key!r}: …}}"
            return f": it is a field of records; {column}"
        return super()._hint(key, known_keys)


def _mappings_of(section: Any, origin: model.MappingOrigin) -> list[model.RecordMapping]:
    """The mappings of one section: as many as `as` names inputs, each of its own fields."""
    section_name = origin.section

    def wrong(keys: tuple[Any, ...], problem: str) -> ConfigError:
        return ConfigError(f"{origin.line(keys)}{problem}")

    if not isinstance(section, dict):
        raise wrong((), f"{section_name} is {section!r}: expected e.g. as: predictions")
    inputs = section.get("as")
    names = inputs if isinstance(inputs, list) and inputs else [inputs]
    for name in names:
        if name not in KINDS:
            expected = f"expected {', '.join(KINDS)}, or a list of them"
            raise wrong(("as",), f"{section_name}.as is {name!r}: {expected}")
    if len(set(names)) < len(names):
        raise wrong(("as",), f"{section_name}.as names an input twice")
    kinds = [KINDS.index(name) for name in names]
    known_of = {kind: (*model.REQUIRED[kind], *model.OPTIONAL[kind]) for kind in kinds}
    known_fields = {name for fields in known_of.values() for name in fields}
    for name in section:
        if name not in known_fields and name not in ABOUT:
            hint = model.hint(str(name), (*ABOUT, *sorted(known_fields)))
            raise wrong((name,), f"unknown field {name!r} in {section_name}{hint}")
    mappings = []
    for kind in kinds:
        own_keys = set(ABOUT[1:])
        if len(kinds) > 1 and kind != LABELS:
            own_keys.discard("withdrawn")
        fields = {
            name: value for name, value in section.items() if name in own_keys or name in known_of[kind]
        }
        try:
            mappings.append(parse(fields, kind, formats=FORMATS, origin=origin))
        except model.MappingError as error:
            raise wrong(error.keys, f"{section_name}: {error}") from error
    return mappings

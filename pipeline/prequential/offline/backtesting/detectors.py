"""Detectors, as you write them on a command line or in Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from prequential.configuration.reading.names import detectors_of_task, parse_signal, signal_of_other_task
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig, Value
from prequential.engine.detectors import DETECTORS
from prequential.topics.errors import UsageError

#: Stands for all detectors with their defaults.
EVERY = "all"


def parse_detector(text: str, where: str = "--detector") -> list[DetectorConfig]:
    """Parse `NAME [SIGNAL] [PARAMETER=VALUE ...]`; the name `all` gives every detector that fits the signal.

    Raises UsageError, which names the problem and `where`.

    >>> [one] = parse_detector("adwin delta=0.01 signal=window:100:f1")
    >>> name_of(one)
    'adwin window:100:f1 delta=0.01'
    >>> parse_detector("adwin delta=2")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: --detector 'adwin delta=2': delta: 2: expected a number ...
    """
    try:
        return _detectors(text.split())
    except ValueError as error:
        raise UsageError(f"{where} {text!r}: {error}") from error


def _detectors(words: Sequence[str]) -> list[DetectorConfig]:
    name, *following = words or [""]
    if name != EVERY and name not in DETECTORS:
        raise ValueError(f"unknown detector {name!r}; known: {', '.join(DETECTORS)}, and {EVERY}")
    signal = "error"
    if following and "=" not in following[0]:
        signal = parse_signal(following.pop(0))
    given: dict[str, Value] = {}
    for word in following:
        key, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r}: expected PARAMETER=VALUE")
        if key == "signal":
            signal = parse_signal(text)
        elif key in given:
            raise ValueError(f"{key} is there twice")
        else:
            given[key] = _value(text)
    if name == EVERY:
        if given:
            raise ValueError(f"{next(iter(given))!r}: expected no parameters with {EVERY}")
        fitting = (one for one in DETECTORS if signal == "error" or not DETECTORS[one].binary)
        return [DetectorConfig(one, signal) for one in fitting]
    declared = DETECTORS[name]
    parameters = {one.name: one for one in declared.parameters}
    for key, value in given.items():
        if key not in parameters:
            raise ValueError(f"unknown parameter {key!r}; known: signal, {', '.join(parameters)}")
        try:
            given[key] = parameters[key].parse(value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error
    if problem := declared.problem(declared.complete(given)):
        raise ValueError(problem)
    fixed = declared.threshold is not None and declared.threshold.name in given
    return [DetectorConfig(name, signal, declared.changed(given), fixed)]


def _value(text: str) -> Value:
    """Return the text as a number, a boolean or a name, by the rules of YAML.

    >>> _value("1"), _value("1e-3"), _value("true"), _value("both"), _value("nan")
    (1, 0.001, True, 'both', 'nan')
    """
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch("[-+]?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?", text):
        return float(text)
    return text


def name_of(detector: DetectorConfig) -> str:
    """Return a detector in the spelling of `parse_detector`, with the parameters that aren't the defaults."""
    changed = DETECTORS[detector.detector].changed(detector.params)
    shown = [f"{name}={str(value).lower().removesuffix('.0')}" for name, value in changed.items()]
    return " ".join([detector.detector, detector.signal, *shown])


def with_detectors(
    config: Config, detectors: Sequence[DetectorConfig], where: str = "--detector"
) -> Config:
    """Return the configuration with these detectors for all streams whose task they fit.

    They replace all configured detectors, including the tests of objectives.
    Raises UsageError, which names `where`, for a detector that fits no stream or is given twice.
    """
    names = [name_of(one) for one in detectors]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{where} {name!r} is there twice")
    settings = [config.defaults, *config.streams.values()]
    for one in detectors:
        problems = [signal_of_other_task(replace(some, detectors=(one,))) for some in settings]
        if None not in problems:
            _, problem = problems[0] or (0, "")
            raise UsageError(f"{where} {name_of(one)!r}: {problem}")

    def changed(some: StreamConfig) -> StreamConfig:
        some = replace(some, detectors=tuple(detectors), objective=None)
        return replace(some, detectors=detectors_of_task(some))

    streams = {name: changed(some) for name, some in config.streams.items()}
    return replace(config, defaults=changed(config.defaults), streams=streams)

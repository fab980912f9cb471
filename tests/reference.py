"""Write the generated parts of `docs/reference/` from what the code declares.

`python tests/reference.py` writes them; `tests/test_reference.py` checks that they are current. A page has a
generated part between `<!-- generated: NAME ARGUMENT -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import inspect
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
from prequential.archive.following import ArchiverStatus
from prequential.archive.writing import Written
from prequential.cli.common import add_kafka_options, add_process_options, add_source_options
from prequential.cli.main import _COMMANDS, add_command
from prequential.configfile.reading import keys
from prequential.configuration.settings import texts, values
from prequential.configuration.settings.by_key import key_of
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config, Limits, WorkerConfig
from prequential.configuration.settings.notifications import NotifyConfig
from prequential.configuration.settings.otlp import OtlpConfig
from prequential.configuration.settings.parsing import AcceptedValues
from prequential.configuration.settings.setting import Setting
from prequential.configuration.settings.streams import (
    DEFAULT_MEASURES,
    MULTILABEL_MEASURES,
    DisparityConfig,
    Objective,
    StreamConfig,
)
from prequential.engine.detectors import DETECTORS
from prequential.engine.measures.declaration import (
    CLASSES,
    COSTS,
    LABEL_SETS,
    MATRIX,
    POSITIVE,
    PROBABILITIES,
    PROPENSITIES,
    RANKS,
    REGRESSION,
    TOP,
    Input,
    Measure,
)
from prequential.engine.measures.registry import MEASURES
from prequential.runtime.archiving.app import exposition as archived
from prequential.runtime.ingest.reading import SourceCounts
from prequential.runtime.ingest.reading import exposition as ingested
from prequential.runtime.notifying.app import exposition as notified
from prequential.runtime.telemetry.pushing import own_exposition
from prequential.runtime.worker.scrape import Scrape
from prequential.topics.clients import KafkaConfig
from prequential.topics.disparities import Disparity
from prequential.topics.errors import UsageError
from prequential.topics.messages import Instance, Label, Prediction
from prequential.topics.outputs import COMMON_FIELDS, Alarm, Comparison, Incident, Metrics

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # also where this file is run as a program
from tests import site_texts  # noqa: E402

PAGES = ROOT / "docs" / "reference"

_PART = re.compile(r"(<!-- generated: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown; `head` has the names of its columns, separated by commas."""
    names = head.split(",")
    return "".join(f"|{'|'.join(cells)}|\n" for cells in ([*names], ["-"] * len(names), *rows))


# ---- measures and detectors

#: Measures by section, by what they are computed from.
SECTIONS: dict[str, tuple[Input, ...]] = {
    "agreement": (MATRIX,),
    "classes": (POSITIVE, CLASSES),
    "sets of labels": (LABEL_SETS,),
    "costs": (COSTS,),
    "probabilities": (PROBABILITIES, TOP, RANKS),
    "sampled labels": (PROPENSITIES,),
    "numbers": tuple(one.inputs for one in MEASURES.values() if one.task == REGRESSION),
}


def measures(section: str) -> str:
    """Return the table of a section's measures, in the order of declaration."""
    rows = (_measure(one) for one in MEASURES.values() if one.inputs in SECTIONS[section])
    return table("measure,formula,range,better,no value,source", rows)


def _measure(one: Measure) -> tuple[str, ...]:
    star = "" if one.name in (*DEFAULT_MEASURES, *MULTILABEL_MEASURES) else r"\*"
    ends = ("" if math.isinf(end) else f"{end:g}" for end in (one.low, one.high))
    between = " … ".join(ends).strip() if not math.isinf(one.low) or not math.isinf(one.high) else "any"
    reasons = ", ".join(f"`{reason}`" for reason in one.reasons)
    return f"`{one.name}`{star}", one.formula, between, one.better * one.quality, reasons, one.source


def detector(name: str) -> str:
    """Return the table of a detector's parameters."""
    rows = (
        (f"`{one.name}`", _plain(one.default), shorter(one.expected), one.says)
        for one in DETECTORS[name].parameters
    )
    return table("parameter,default,values,meaning", rows)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}".removesuffix(".0")


# ---- configuration


class _Anything:
    """A value that no key takes, so that its parser names what it expects."""

    def __repr__(self) -> str:
        return ""


#: What parsers expect, in fewer words. The default shows whether a number is an integer.
_SHORTER = {
    r"^a list with at least one entry$": "a list",
    r"^(false alarms per duration|needed|the name of a time zone)\b.*": "",
    r", as 0\.9$": "",
    r"^e\.g\. 500ms.*": "a duration",
    r" to 1(e\+15|099511627776)\b": "",
    r"^a share of false verdicts": "a share",
    r"^a class: a string.*": "a class",
    r"^costs by label.*": "costs",
    r"^a quantile above": "above",
    r"^the largest value at stake in an outcome, ": "",
    r", and what the brokers.*": "",
    rf" to {1 << 40}$": "",
    r" and of at most": ", up to",
    r" and (?=below|up to)": ", ",
    r"^(an integer|a number|a share) (of )?": "",
    r"^(true or false|a list|a string|a duration)$": "",
}  # fmt: skip


def accepted(parser: Callable[[Any], Any]) -> str:
    """Return what a key's parser says that it expects."""
    try:
        parser(_Anything())
    except (ValueError, TypeError, UsageError) as error:
        return shorter(str(error).strip(": ").partition("expected ")[2])
    return ""


def shorter(expected: str) -> str:
    """Return what a parser expects, in fewer words."""
    for shape, short in _SHORTER.items():
        expected = re.sub(shape, short, expected)
    return expected


def meanings(owner: type) -> dict[str, str]:
    """Return the comments above the fields of a class, or the lines on them in its docstring."""
    found, comment = dict[str, str](), list[str]()
    for line in inspect.getsource(owner).splitlines():
        if match := re.fullmatch(r"\s+#: (.*)", line):
            comment.append(match[1])
        elif match := re.fullmatch(r"    (\w+): .*", line):
            found[match[1]] = _clause(" ".join(comment))
            comment = []
        else:
            comment = []
    return {name: text for name, text in found.items() if text} | described(owner)


def described(owner: type) -> dict[str, str]:
    """Return what a docstring in numpy's form says of each attribute or parameter."""
    text = inspect.cleandoc(owner.__doc__ or "")
    part = re.search(r"^(?:Attributes|Parameters)\n-+\n(.*?)(?=^\w+\n-+$|\Z)", text, re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?|\n)+)", part[1] if part else "", re.MULTILINE)
    own = {name: _clause(" ".join(says.split())) for names, says in entries for name in names.split(", ")}
    common = COMMON_FIELDS if issubclass(owner, Metrics | Comparison | Disparity | Alarm | Incident) else {}
    return {name: _clause(says) for name, says in common.items() if name in owner.__annotations__} | own


def _clause(text: str) -> str:
    """A comment as a table has it: the first letter as it is, no full stop at the end."""
    return text.removesuffix(".").replace("|", r"\|")


def configuration(section: str) -> str:
    """Return the table of a section's keys, with default, accepted values and meaning."""
    shown, rows = _defaults(), list[tuple[str, ...]]()
    for key, parser, meaning in _keys(section):
        values = "" if parser is None else accepted(parser)
        if set(re.split(", | or ", values)) <= set(re.findall("`(.*?)`", meaning)):
            values = ""
        default = f"`{shown[key]}`" if shown.get(key) else ""
        if key == "measures":
            default = f"[{len(DEFAULT_MEASURES)} measures](measures.md)"
        if key == "detectors":
            default = "[two `page-hinkley`](detectors.md#signals)"
        rows.append((f"`{key}`", default, values, meaning))
    return table("key,default,values,meaning", rows)


def _defaults() -> dict[str, str]:
    config = Config()
    streams = texts.of_stream(config.defaults).items()
    by_key = {**texts.of_rest(config), **dict(streams)}
    shown = {key: values.shown(key, value) for key, value in by_key.items()}
    return {key: "null" if text == values.HIDDEN else text for key, text in shown.items()}


#: Sections whose keys all have a parser, with the class that declares them.
FLAT: dict[str, tuple[dict[str, AcceptedValues], type]] = {
    "kafka": (keys.KAFKA, KafkaConfig),
    "limits": (keys.LIMITS, Limits),
    "http": (keys.HTTP, HttpConfig),
    "worker": (keys.WORKER, WorkerConfig),
    "notify": (keys.NOTIFY, NotifyConfig),
    "otlp": (keys.OTLP, OtlpConfig),
}


def _keys(section: str) -> Iterator[tuple[str, AcceptedValues | None, str]]:
    """Yield the keys of a section, each with its parser and what it means."""
    if section in FLAT:
        parsers, owner = FLAT[section]
        text = meanings(owner)
        for name in dict.fromkeys([*parsers, *(one.name for one in fields(owner))]):
            yield f"{section}.{name}", parsers.get(name), text[name]
        return
    config = type(Config().defaults)
    text = meanings(config)
    for field in fields(config):
        name = key_of(field.name)
        value = getattr(Config().defaults, field.name)
        parser = keys.STREAM.get(name) or keys.EMIT.get(name.removeprefix("emit."))
        if Setting not in field.metadata:
            continue
        if parser is None and name in NESTED:
            inner = meanings(type(value))
            for one in fields(type(value)):
                yield f"{name}.{one.name}", NESTED[name][one.name], inner[one.name]
        else:
            yield name, parser, text[field.name]
        if name in OPTIONAL:
            inner_parsers, owner = OPTIONAL[name]
            inner = meanings(owner)
            for key, its in inner_parsers.items():
                yield f"{name}.{key}", its, inner[key]


#: Sections within a stream's section.
NESTED = {"period_alarms": keys.PERIOD_ALARMS}

#: The same for those that are null by default, with the class that declares them.
OPTIONAL = {"objective": (keys.OBJECTIVE, Objective), "disparity": (keys.DISPARITY, DisparityConfig)}


# ---- command line


def commands(_: str) -> str:
    """Return a section for each command: its usage, what it does, and its arguments."""
    found = list[str]()
    for name in _COMMANDS:
        subparsers = argparse.ArgumentParser().add_subparsers()
        add_command(name, subparsers)
        found += [f"## prequential {name}\n", *_described(subparsers, name, "prequential")]
    return "\n".join(found)


def _described(subparsers: Any, command: str, program: str) -> Iterator[str]:
    parser, name = subparsers.choices[command], f"{program} {command}"
    help = next(one.help for one in subparsers._choices_actions if one.dest == command)
    nested: list[Any]
    nested, rows, positional = [], list[tuple[str, str]](), list[str]()
    words = {(_option(one), one.help): word for word, found in SHARED.items() for one in _added(found)}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            nested.append(action)
        elif not isinstance(action, argparse._HelpAction) and (_option(action), action.help) not in words:
            positional += [_option(action)] * (not action.option_strings)
            if action.option_strings or action.help:
                rows.append((f"`{_option(action)}`", _help(action)))
    if not nested:
        used = (words.get((_option(action), action.help)) for action in parser._actions)
        more = "".join(f" [{word}]" for word in dict.fromkeys(used) if word)
        usage = f"`{' '.join([name, *positional])}{more}`: " if positional or more or nested else ""
        yield f"{usage}{help[0].upper()}{help[1:]}.\n"
    if rows:
        together: dict[str, list[str]] = {}
        for argument, meaning in rows:
            together.setdefault(meaning, []).append(argument)
        yield "".join(f"- {', '.join(same)}: {meaning}\n" for meaning, same in together.items())
    for action in nested:
        for inner in action.choices:
            yield from _described(action, inner, name)


#: Arguments that several commands have, by the word that stands for them.
SHARED: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "CLUSTER": add_kafka_options,
    "FILES": add_source_options,
    "PROCESS": add_process_options,
}


def _added(add: Callable[[argparse.ArgumentParser], None]) -> list[argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    add(parser)
    return list(parser._actions)


def shared(word: str) -> str:
    """Return the table of arguments that several commands have."""
    actions = _added(SHARED[word])
    return table("argument,meaning", ((f"`{_option(action)}`", _help(action)) for action in actions))


def _option(action: argparse.Action) -> str:
    shown = (
        action.metavar or (action.choices and "{" + ",".join(map(str, action.choices)) + "}") or action.dest
    )
    value = "" if action.nargs == 0 else f" {shown if isinstance(shown, str) else shown[0]}"
    shown = action.option_strings[-1] + value if action.option_strings else value.strip()
    return shown.replace("|", r"\|")


def _help(action: argparse.Action) -> str:
    said = " ".join((action.help or "").split()).replace("%%", "%")
    return said.replace("%(default)s", str(action.default)).replace("|", r"\|")


# ---- messages and series

MESSAGES: dict[str, type] = {
    "metrics": Metrics, "comparisons": Comparison, "disparities": Disparity, "drift-alarms": Alarm,
    "incidents": Incident, "instances": Instance, "predictions": Prediction, "labels": Label,
}  # fmt: skip


def message(topic: str) -> str:
    """Return the table of a message's fields."""
    if topic == "common":
        return table("field,meaning", ((f"`{name}`", text) for name, text in _common().items()))
    owner: Any = MESSAGES[topic]
    text, info = described(owner), msgspec.inspect.type_info(owner)
    assert isinstance(info, msgspec.inspect.StructType)
    if issubclass(owner, (Instance, Prediction, Label)):
        inputs: dict[tuple[str, str], list[str]] = {}
        for one in info.fields:
            inputs.setdefault(("yes" if one.required else "no", text[one.name]), []).append(f"`{one.name}`")
        return table("field,required,meaning", ((", ".join(names), *rest) for rest, names in inputs.items()))
    common = _common()
    names = (one.name for one in info.fields)
    own = (name for name in names if text[name] != common.get(name) and not text[name].startswith("Detail:"))
    rows = [(f"`{name}`", text[name]) for name in own]
    return table("field,meaning", rows)


def _common() -> dict[str, str]:
    """The fields that metrics and another message have, with the same meaning."""
    first = described(Metrics)
    others = [described(one) for one in (Comparison, Alarm, Incident)]
    return {name: text for name, text in first.items() if any(one.get(name) == text for one in others)}


def series(program: str) -> str:
    """Return the table of a program's series; those of measures are left out."""
    if program == "worker":
        text = Scrape(HttpConfig(measures=()), "").text()
    elif program == "ingest":
        text = ingested("", ["topic"], SourceCounts(), {}, {})
    elif program == "otlp":
        text = own_exposition("", [], 0)
    elif program == "archive":
        text = archived("", ["topic"], ArchiverStatus(Written({}, {}), {}, None, ()), 60.0, 0)
    else:
        text = notified("", {}, None, 0, 0.0)
    found = dict(re.findall(r"# HELP prequential_(\S+) (.*)", text))
    rows = []
    for name, meaning in found.items():
        upper = name.replace("_lower", "_upper").replace("_low", "_high")
        if found.get(upper) == meaning.replace("Lower", "Upper") != meaning:
            shown, meaning = f"`{name}`, `{upper}`", meaning.replace("Lower", "Lower and upper")
        elif meaning.startswith("Upper bound"):
            continue
        else:
            shown = f"`{name}`"
        rows.append((shown, LABELS.get(name, ""), meaning))
    return table("series,labels,meaning", rows)


#: Letters that stand for the labels of a stream, a model, a sequence, a pair and a partition of a topic.
_PLACE = "T"
_STREAM, _MODEL, _SEQUENCE, _PAIR = "S", "M", "E", "P"

#: Labels by series, without the prefix.
LABELS = {
    **dict.fromkeys(
        ("normalised", "class_ratio_gradient", "interval_lower", "interval_upper"), f"{_SEQUENCE}, measure"
    ),
    **dict.fromkeys(
        ("positives", "error_autocorrelation", "error_autocorrelation_se", "majority_share", "persistence"),
        _SEQUENCE,
    ),
    "repeat": f"{_SEQUENCE}, class", "increment": f"{_SEQUENCE}, class, order",
    "outcomes_total": f"{_MODEL}, stage", "same_stage_info": f"{_MODEL}, stage, same",
    **dict.fromkeys(
        ("newest_outcome_timestamp_seconds", "late_predictions_total", "expired_predictions_total",
         "at_horizon_predictions_total", "open_incidents", "model_version_since_outcome",
         "newest_prediction_timestamp_seconds", "waiting_predictions", "oldest_waiting_seconds",
         "waiting_expected_labels", "waiting_expected_right", "waiting_expected_right_low",
         "waiting_expected_right_high", "champion_info"), _MODEL,
    ),
    "drift_alarms_total": f"{_MODEL}, segment, stage, detector, signal",
    "drift_threshold": f"{_MODEL}, segment, stage, detector, signal, params",
    "incident_severity": f"{_MODEL}, incident, cause, grade",
    "incident_opened_timestamp_seconds": f"{_MODEL}, incident",
    "incident_began_timestamp_seconds": f"{_MODEL}, incident",
    "incidents_total": f"{_MODEL}, cause",
    "objective": f"{_STREAM}, measure", "objective_margin": f"{_SEQUENCE}, measure",
    "model_version_info": f"{_MODEL}, version",
    **dict.fromkeys(("comparison_difference", "comparison_q"), f"{_PAIR}, estimator"),
    "comparison_mcnemar": f"{_PAIR} without loss, estimator",
    **{f"comparison_{name}": _PAIR for name in
       ("low", "high", "verdict", "since_outcome", "recent_verdict", "recent_since_outcome", "outcomes",
        "disagreement", "disagreement_at_most")},
    **{f"disparity_{name}": f"{_MODEL}, stage, key, measure" for name in
       ("difference", "low", "ratio", "verdict")},
    **{f"expected{name}": f"{_MODEL}, measure" for name in ("", "_low", "_high", "_coverage", "_miss")},
    **{f"expected_book{name}": f"{_MODEL}, measure" for name in ("", "_low", "_high")},
    "expected_signal": f"{_MODEL}, signal",
    "merged_timestamp_seconds": "stream",
    **dict.fromkeys(
        ("comparison_pairs_left_out", "newest_label_timestamp_seconds", "waiting_labels", "late_labels_total",
         "revisions_total", "withdrawn_labels_total", "unmatched_labels_total",
         "instances_without_predictions_total", "predictions_without_instance_total",
         "label_latency_seconds"), _STREAM,
    ),
    "labelled_ratio": f"{_MODEL}, age", "labelled_by_class_ratio": f"{_MODEL}, class",
    "selection_psi": f"{_MODEL}, of",
    "duplicates_total": f"{_STREAM}, topic",
    **dict.fromkeys(
        ("label_latency_quantile_seconds", "label_latency_recent_quantile_seconds"),
        f"{_STREAM}, percentile",
    ),
    **dict.fromkeys(
        ("records_total", "lag_records", "dead_letters_total", "quarantined_records_total",
         "lost_records_total", "misplaced_records_total", "ingest_lag", "archive_lag"), _PLACE,
    ),
    "open_transaction_seconds": _PLACE,
    "snapshot_bytes": "partition", "shards": "state", "shard_halted": "partition",
    "build_info": "version", "config_info": "group, config",
    **{f"ingest_{name}_total": "topic" for name in
       ("records", "dead_letters", "unlabelled", "lost")},
    "ingest_passed_over_total": "topic, reason",
    "ingest_messages_total": "topic, input",
    **{f"{program}_build_info": "version" for program in ("ingest", "notify", "archive")},
    **{f"archive_{name}": "topic" for name in
       ("messages_total", "doubles_total", "lost_total", "newest_loss_timestamp_seconds")},
    "otlp_failures_total": "signal",
}  # fmt: skip


# ---- arguments of `evaluate`

#: The module with the arguments of `evaluate` that are settings, written as a whole.
ARGUMENTS = Path(__file__).parents[1] / "pipeline" / "prequential" / "evaluation" / "settings.py"

_HEAD = '''"""The settings that `evaluate` and `Evaluator` take as arguments, for type checkers and editors.

`python tests/reference.py` writes this file from `configuration.settings.streams`, which declares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict, Union

#: A duration, such as `30d`, `1D` or a pandas `Timedelta`.
Duration = Union[str, timedelta]


class Settings(TypedDict, total=False):
    """The settings of `defaults` in a configuration file, under the same names; all are optional."""

'''

#: Types of arguments by those of settings; all others are sections with keys of their own.
_ARGUMENTS = {
    **{kind: kind for kind in ("str", "int", "float", "bool")},
    "tuple[str, ...]": "Sequence[str]",
    "tuple[DetectorConfig, ...]": "Sequence[Mapping[str, Any]]",
}


def arguments() -> str:
    """Return the module with the settings that are arguments."""
    comments = meanings(StreamConfig)
    entries = dict[str, tuple[str, str]]()
    for entry in fields(StreamConfig):
        declared = entry.metadata.get(Setting)
        if declared is None or not declared.of_tables:
            continue
        kind = str(entry.type).removesuffix(" | None")
        optional = " | None" if str(entry.type).endswith(" | None") else ""
        taken = declared.values.argument if declared.values else ""
        argument = (taken or _ARGUMENTS.get(kind, "Mapping[str, Any]")) + optional
        section, dot, _ = key_of(entry.name).partition(".")
        if dot:
            entries[section] = (
                "When there are messages: `outcomes`, `every`, `comparisons`.",
                "Mapping[str, Any]",
            )
        else:
            comment = comments[entry.name]
            entries[entry.name] = comment + "." * (not comment.endswith("…")), argument
    lines = (
        "\n".join(
            (
                *textwrap.wrap(comment, 104, initial_indent="    #: ", subsequent_indent="    #: "),
                f"    {name}: {argument}",
            )
        )
        for name, (comment, argument) in entries.items()
    )
    return _HEAD + "\n".join(lines) + "\n"


# ---- pages

PARTS: dict[str, Callable[[str], str]] = {
    "measures": measures, "detector": detector, "configuration": configuration, "commands": commands,
    "shared": shared, "message": message, "series": series,
}  # fmt: skip


def written(page: str) -> str:
    """Return a page with its generated parts as they are declared now."""

    def part(match: re.Match[str]) -> str:
        name = next(one for one in PARTS if match[2].startswith(one))
        return match[1] + "\n" + PARTS[name](match[2][len(name) :].strip()).strip("\n") + "\n\n" + match[3]

    return _PART.sub(part, page)


if __name__ == "__main__":
    if arguments() != ARGUMENTS.read_text(encoding="utf-8"):
        ARGUMENTS.write_text(arguments(), encoding="utf-8")
        print(f"written: {ARGUMENTS.name}", file=sys.stderr)
    for path in sorted(PAGES.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if written(text) != text:
            path.write_text(written(text), encoding="utf-8")
            print(f"written: {path.name}", file=sys.stderr)
    for path, content in site_texts.texts().items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            print(f"written: {path.name}", file=sys.stderr)

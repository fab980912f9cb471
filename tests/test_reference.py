"""The reference pages are as the code declares, and each name has one place there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from prequential.cli.main import _COMMANDS
from prequential.configfile.reading import keys
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DEFAULT_MEASURES
from prequential.engine.detectors import DETECTORS
from prequential.engine.measures.declaration import REASONS
from prequential.engine.measures.registry import MEASURES, NAMES
from prequential.views.wording.measures import COLUMNS, COMPARED

from tests import prose, reference, site_texts

ROOT = Path(__file__).parents[1]
PAGES = {path.stem: path.read_text("utf-8") for path in sorted(reference.PAGES.glob("*.md"))}
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"


@pytest.mark.parametrize("name", PAGES)
def test_generated_parts_are_current(name: str) -> None:
    assert reference.written(PAGES[name]) == PAGES[name], "run `python tests/reference.py`"


def test_the_arguments_of_evaluate_are_current() -> None:
    assert reference.arguments() == reference.ARGUMENTS.read_text("utf-8"), "run `python tests/reference.py`"


@pytest.mark.parametrize("path", [site_texts.LLMS, site_texts.TERMS], ids=lambda path: path.name)
def test_texts_made_of_pages_are_current(path: Path) -> None:
    assert path.read_text("utf-8") == site_texts.texts()[path], "run `python tests/reference.py`"


def test_llms_txt_leads_to_every_page_with_its_first_sentence() -> None:
    text = site_texts.LLMS.read_text("utf-8")
    linked = re.findall(r"^- \[[^\]]+\]\(([\w/-]+)\.html\)(.*)$", text, re.MULTILINE)
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.md")}
    assert sorted(page for page, _ in linked) == sorted(pages | {"index", "contributing", "changelog"})
    assert text.startswith("# prequential\n\n> ")


def rows(page: str, title: str = "") -> list[list[str]]:
    """The rows of the tables of a page, or of its section of that title."""
    text = PAGES[page]
    if title:
        found = re.search(rf"^#+ `?{re.escape(title)}`?\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
        assert found is not None, title
        text = found[1]
    return [prose.cells_of(line) for line in text.splitlines() if line.startswith("|")]


def names(page: str, title: str = "") -> Iterator[str]:
    """The names in the first cells of these rows."""
    for row in rows(page, title):
        yield from re.findall(r"`([^`]+)`", row[0])


def test_every_measure_has_one_row() -> None:
    listed = [
        name
        for section in reference.SECTIONS
        for name in re.findall(r"^\|`(\w+)`", reference.measures(section), re.M)
    ]
    assert sorted(listed) == sorted(NAMES)
    for name in NAMES:
        assert len(re.findall(rf"^\|`{name}`(?:\\\*)?\|", PAGES["measures"], re.MULTILINE)) == 1, name


def test_every_reason_is_explained() -> None:
    assert set(REASONS) - {""} <= set(names("measures", "Undefined measures"))


def test_what_settings_and_pages_name_is_declared() -> None:
    assert len(DEFAULT_MEASURES) == len(set(DEFAULT_MEASURES)) == 28
    assert {*DEFAULT_MEASURES, *HttpConfig().measures, *COMPARED} <= set(MEASURES)
    for task, columns in COLUMNS.items():
        assert all(MEASURES[name].fits(task) for name in columns)


def test_every_detector_has_a_section_and_a_row() -> None:
    sections = re.findall(r"^## `([a-z-]+)`$", PAGES["detectors"], re.MULTILINE)
    assert sorted(sections) == sorted(DETECTORS)
    for name, detector in DETECTORS.items():
        signal = "`error` of classes" if detector.binary else "any signal"
        assert f"|[`{name}`](#{name})|{signal}|" in PAGES["detectors"]
        assert f"<!-- generated: detector {name} -->" in PAGES["detectors"]


def test_every_key_has_one_row() -> None:
    listed = list(names("configuration"))
    flat = {f"{section}.{name}" for section, (parsers, _) in reference.FLAT.items() for name in parsers}
    wanted = flat | {*keys.STREAM, *(f"emit.{one}" for one in keys.EMIT)}
    assert {name: listed.count(name) for name in wanted} == dict.fromkeys(wanted, 1)


def test_every_command_has_one_section() -> None:
    sections = re.findall(r"^## prequential (.*)$", PAGES["cli"], re.MULTILINE)
    assert sections == list(_COMMANDS)


def test_every_alert_has_one_section() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]
    alerts = {rule["alert"]: rule for rule in rules if "alert" in rule}
    sections = dict(re.findall(r"^### (\w+)\n\n\*([\w ]+)\.\*", PAGES["alerts"], re.MULTILINE))
    assert sections == {name: " or ".join(severities(rule)) for name, rule in alerts.items()}


def severities(rule: dict[str, Any]) -> list[str]:
    """The severities that a rule may have; the program of an address may decide."""
    return sorted(set(re.findall(r"\bpage\b|\bticket\b", rule["labels"]["severity"])))


def test_every_alert_links_to_its_section() -> None:
    """With the external label to the page and its heading, else to the alert in Prometheus."""
    rules = [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]
    for rule in rules:
        if "alert" in rule:
            name = rule["alert"]
            assert rule["annotations"]["runbook_url"] == (
                "{{ with $externalLabels.prequential_docs }}{{ . }}"
                f"docs/reference/alerts.md#{name.lower()} "
                f"{{{{- else }}}}{{{{ $externalURL }}}}/alerts?search={name}{{{{ end }}}}"
            )
            assert f"### {name}\n" in PAGES["alerts"]


def test_every_term_of_the_glossary_is_defined_once() -> None:
    terms = re.findall(r'<a id="([\w-]+)"></a>', PAGES["glossary"])
    assert len(terms) == len(set(terms))
    law = (
        "pending", "invalid-record", "quarantined-record", "estimator", "verdict", "repeated-looks",
        "confidence-sequence", "effective-sample-size", "persistent-baseline", "class-distribution",
        "label-coverage", "estimated-performance",
    )  # fmt: skip
    assert set(law) <= set(terms)


def test_configurations_of_the_pages_are_valid(tmp_path: Path) -> None:
    sections, checked = {field.name for field in fields(Config)}, 0
    for page in sorted((ROOT / "docs").glob("*/*.md")):
        for _, text in re.findall(
            r"^( *)```yaml\n(.*?)^\1```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
        ):
            if set(yaml.safe_load(dedent(text))) <= sections:
                (tmp_path / "c.yaml").write_text(dedent(text))
                load_config(str(tmp_path / "c.yaml"))
                checked += 1
    assert checked > 10


def test_every_finding_is_explained() -> None:
    explained = re.findall(r"`(\w+)`", (ROOT / "docs" / "do" / "troubleshooting.md").read_text("utf-8"))
    for path in sorted((ROOT / "pipeline" / "prequential" / "views" / "diagnosis").glob("*.py")):
        codes = re.findall(r"Finding\(\s*\"(\w+)\"", path.read_text("utf-8"))
        assert set(codes) <= set(explained), path.name

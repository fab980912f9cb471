"""What is posted of a message, which ones are, how it is signed, and what is said of a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config, ConfigError
from prequential.configuration.settings.notifications import NotifyConfig
from prequential.runtime.notifying.app import chosen
from prequential.runtime.notifying.posting import WebhookAnswer, body, checked_url, identifier, key_of, read
from prequential.topics.encoding import encode
from prequential.topics.errors import UsageError
from prequential.topics.outputs import Alarm, Incident

INCIDENT = Incident(
    id="9ad1", stream="fraud<eu>", partition=0, model="nb", revision=2, status="open", segment=None,
    stage="final", opened={"outcome": 900, "ts": 1_700_000_000_000},
    change_point={"outcome": 850, "ts": 1_699_999_000_000}, alarms=["f0"], alarm_count=1, signals=[],
    severity=0.8, before={"level": 0.1}, after={"level": 0.25}, causes=[{"cause": "concept", "share": 0.7}],
    baselines={}, examples=[], former_alarms={}, outcome=1000, ts=1_700_000_500_000, config="5e0c",
)  # fmt: skip
ALARM = Alarm(
    "f0", "fraud", 0, "nb", None, "final", "page-hinkley", "error", 900, "17", 1_700_000_000_123,
    51.25, 50.0, {},
)  # fmt: skip


def posted(form: str, message: Any) -> Any:
    topic = "eu.incidents" if isinstance(message, Incident) else "eu.drift-alarms"
    return body(form, message, encode(message), topic)


def test_the_message_itself() -> None:
    kind, content = posted("message", INCIDENT)
    assert (kind, content) == ("application/json", encode(INCIDENT))
    assert read("incidents", content) == INCIDENT
    assert read("drift-alarms", encode(ALARM)) == ALARM


def test_slack() -> None:
    kind, content = posted("slack", INCIDENT)
    assert kind == "application/json"
    assert json.loads(content) == {
        "text": "fraud&lt;eu&gt;/nb final: open, began at outcome 850, mean loss 0.25, before 0.1: "
        "2.5 times as much; concept (70%); "
        "1 alarm; incident 9ad1"
    }
    assert json.loads(posted("slack", ALARM).content) == {
        "text": "fraud/nb final: page-hinkley on error, outcome 900; statistic 51.2, threshold 50"
    }


@pytest.mark.parametrize("field", ["before", "after", "worst", "now", "change_point", "causes"])
@pytest.mark.parametrize("odd", [{}, {"level": None}, {"level": "x"}, {"level": {}}, [{}], [{"cause": 1}]])
def test_slack_has_incidents_with_odd_fields(field: str, odd: Any) -> None:
    given = {"now": {"level": 0.2}, "worst": {"level": 0.3}, field: odd}
    text = json.loads(posted("slack", msgspec.structs.replace(INCIDENT, **given)).content)["text"]
    assert text.startswith("fraud&lt;eu&gt;/nb final: open")
    assert "incident 9ad1" in text


def test_cloudevents() -> None:
    kind, content = posted("cloudevents", INCIDENT)
    assert kind == "application/cloudevents+json"
    event = json.loads(content)
    assert event.pop("data") == json.loads(encode(INCIDENT))
    assert event == {
        "specversion": "1.0", "id": "9ad1-2", "source": "/prequential/eu.incidents",
        "type": "prequential.incident.open", "subject": "fraud<eu>/nb", "datacontenttype": "application/json",
        "time": "2023-11-14T22:21:40Z",
    }  # fmt: skip
    event = json.loads(posted("cloudevents", msgspec.structs.replace(ALARM, untimed=True)).content)
    assert (event["type"], event["id"]) == ("prequential.drift-alarm", "f0")
    assert "time" not in event


def test_each_revision_has_an_id_of_its_own() -> None:
    later = msgspec.structs.replace(INCIDENT, revision=3)
    assert (identifier(INCIDENT), identifier(later), identifier(ALARM)) == ("9ad1-2", "9ad1-3", "f0")


@pytest.mark.parametrize(
    ("config", "message", "expected"),
    [
        (NotifyConfig(), {}, True),
        (NotifyConfig(streams=("fraud*", "ads")), {}, True),
        (NotifyConfig(streams=("Fraud*", "ads")), {}, False),
        (NotifyConfig(statuses=("recovered", "closed")), {}, False),
        (NotifyConfig(statuses=("recovered", "closed")), {"status": "closed"}, True),
        (NotifyConfig(severity=0.8), {}, True),
        (NotifyConfig(severity=0.8), {"severity": 0.79}, False),
        (NotifyConfig(updates=False), {}, False),
        (NotifyConfig(updates=False), {"revision": 1}, True),
        (NotifyConfig(updates=False), {"status": "recovered"}, True),
    ],
)
def test_which_are_chosen(config: NotifyConfig, message: dict[str, Any], expected: bool) -> None:
    assert chosen(msgspec.structs.replace(INCIDENT, **message), config) is expected


def test_alarms_are_chosen_by_stream() -> None:
    strict = NotifyConfig(statuses=("closed",), severity=5.0)
    assert chosen(ALARM, strict)
    assert not chosen(ALARM, NotifyConfig(streams=("ads",)))


def test_what_an_answer_means() -> None:
    statuses = (0, 200, 204, 302, 400, 408, 410, 425, 429, 500, 503)
    assert [one for one in statuses if WebhookAnswer(one).again] == [0, 408, 425, 429, 500, 503]
    assert [one for one in statuses if WebhookAnswer(one).taken] == [200, 204]


# ---- the configuration


def loaded(folder: Path, text: str) -> Config:
    path = folder / "notify.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(str(path))


def test_a_section(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "kafka: {prefix: eu.}\nnotify: {url: 'env:HOOK', form: slack, secret: 'file:/run/s', timeout: 5s,\n"
        "  topics: [incidents, drift-alarms], streams: ['fraud*'], statuses: [open], severity: 0.5,\n"
        "  updates: false}",
    )
    assert config.notify == NotifyConfig(
        "env:HOOK", "slack", "file:/run/s", ("incidents", "drift-alarms"), ("fraud*",), ("open",), 0.5, False,
        5000,
    )  # fmt: skip
    assert config.notify_group == "eu.prequential-notify"
    assert loaded(tmp_path, "notify: {group: pager}").notify_group == "pager"
    assert "HOOK" not in repr(config.notify)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("{form: teams}", "line 1: notify.form: 'teams': expected message, slack or cloudevents"),
        ("{topics: [metrics]}", "line 1: notify.topics: 'metrics': expected incidents or drift-alarms"),
        ("{statuses: [shut]}", "line 1: notify.statuses: 'shut': expected open, recovered or closed"),
        ("{urls: x}", "line 1: unknown key 'urls' in notify; did you mean url?"),
        ("{secret: whsec_HUSH}", "line 1: notify.secret: do not put a secret in this file;"),
        ("{url: hooks/HUSH}", "line 1: notify.url: not a webhook URL: expected https://"),
    ],
)
def test_what_is_wrong_is_said_without_secrets(tmp_path: Path, section: str, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, f"notify: {section}")
    assert expected in str(error.value)
    assert "HUSH" not in str(error.value)


@pytest.mark.parametrize("secret", ["HUSH", "whsec_HUSH", "whsec_HUSH" + 30 * "A=", "whsec_" + 100 * "HUSH"])
def test_a_secret_that_is_none_is_not_shown(secret: str) -> None:
    with pytest.raises(UsageError, match="24 to 64") as error:
        key_of(secret)
    assert "HUSH" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    ["https://", "https://HUSH:x/", "ftp://h/HUSH", "https://me:HUSH@h/", "https://h/HU SH", "https://[HUSH"],
)
def test_a_url_that_is_none_is_not_shown(url: str) -> None:
    with pytest.raises(UsageError) as error:
        checked_url(url)
    assert "HUSH" not in str(error.value)

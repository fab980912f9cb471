"""The page over real topics: what is there, what comes while it is open, and what isn't committed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from boards import START, a_drift, alarm, incident, metrics
from confluent_kafka import Producer
from prequential.configuration.settings.model import Config
from prequential.topics.clients import KafkaConfig
from prequential.topics.marking import StreamMark, write_marks
from prequential.topics.marks import IncidentMark
from prequential.topics.specs import METRICS
from prequential.views.dashboard import server
from prequential.views.state.output_records import OutputRecord
from prequential.views.watching.tail import Tail

from tests.browser import ready

if TYPE_CHECKING:
    from playwright.sync_api import Page


def publish(kafka: KafkaConfig, records: list[OutputRecord], aborted: bool = False) -> None:
    """Write messages in a transaction, as workers do."""
    producer = Producer(kafka.client(**{"transactional.id": f"{kafka.prefix}test", "log_level": 0}))
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic, value, *_ in records:
        producer.produce(kafka.topic(topic), value, "elec2")
    if aborted:
        producer.flush(30)
        producer.abort_transaction(30)
    else:
        producer.commit_transaction(30)


@contextmanager
def dashboard(kafka: KafkaConfig, *options: str) -> Iterator[str]:
    """The program; yields the page's address, and ends it by SIGTERM with status 0."""
    command = [
        sys.executable, "-m", "prequential.cli.main", "dashboard", "--port", "0", "--bootstrap-servers",
        kafka.bootstrap_servers, "--prefix", kafka.prefix, *options,
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = re.match(r"the page is at (http://127\.0\.0\.1:\d+/) ", line)
            assert match, line
            yield match[1]
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


def is_read(address: str) -> bool:
    """Whether there is something at this address by now."""
    try:
        with urlopen(address, timeout=30) as answer:
            return bool(answer.status == 200)
    except HTTPError:
        return False


def test_what_comes_is_on_the_open_page_within_moments(cluster: KafkaConfig, page: Page) -> None:
    publish(cluster, list(a_drift()))
    publish(cluster, [metrics(6050, 0.1, model="aborted")], aborted=True)
    with dashboard(cluster) as address:
        ready(page, address)
        page.wait_for_selector("text=1 to 1 of 1 stream, 1 model")
        assert "aborted" not in page.inner_text("main")
        page.wait_for_selector(".status:has-text('live')")
        page.click(".key a:text-is('nb')")
        page.wait_for_selector('figure[data-title="accuracy"][data-points="180"]')
        publish(cluster, [metrics(6100, 0.555), alarm(6090)])
        legend = 'figure[data-title="accuracy"] .legend:has-text("final 0.555")'
        page.wait_for_selector(legend, state="attached")
        page.wait_for_selector('figure[data-title="accuracy"][data-points="183"][data-marks="1"]')
        page.wait_for_selector("summary:has-text('Alarms without an incident')")
        page.click("nav a:has-text('Models')")
        page.wait_for_selector("summary:has-text('Alarms of the last hour: 1')")
        page.goto("about:blank")  # a page whose program ends complains


def test_marks_of_the_command_line_are_on_the_open_page(cluster: KafkaConfig, page: Page) -> None:
    publish(cluster, [*a_drift(), incident()])
    with dashboard(cluster) as address:
        while not is_read(f"{address}api/incident?id=incident-4800"):
            time.sleep(0.1)
        ready(page, f"{address}#/incident?id=incident-4800")
        assert not page.locator("form.marking").is_visible()  # there is no password
        mark = IncidentMark("incident-4800", "expected", "anna", START, "a holiday")
        write_marks(cluster, [StreamMark("elec2", mark)])
        page.wait_for_selector("text=Expected, says anna")
        page.wait_for_selector("text=1 of 1 marked real")
        page.goto("about:blank")


def test_it_looks_back_as_far_as_it_is_told(cluster: KafkaConfig, page: Page) -> None:
    """By Kafka's time: what was written long ago isn't read, though its labels are as old as all others."""
    producer = Producer(cluster.client(log_level=0))
    hour_ago = int(time.time() * 1000) - 3_600_000
    for model, when in (("old", hour_ago), ("new", hour_ago + 3_590_000)):
        producer.produce(cluster.topic("metrics"), metrics(model=model).value, "elec2", timestamp=when)
    producer.flush(30)
    assert hour_ago > START
    with dashboard(cluster, "--since", "30m") as address:
        ready(page, address)
        page.wait_for_selector("text=1 to 1 of 1 stream")
        assert page.locator(".key a").all_inner_texts()[:1] == ["new"]
        page.goto("about:blank")  # a page whose program ends complains


def test_beside_something_else_it_takes_a_free_port_and_ends_with_it(cluster: KafkaConfig) -> None:
    """As the demo has it."""
    publish(cluster, list(a_drift()))
    day = 86_400_000  # ms
    with server.Page(Config(cluster), day, "127.0.0.1", 0) as first:
        port = int(first.address.rpartition(":")[2].strip("/"))
        with server.Page(Config(cluster), day, "127.0.0.1", port) as second:
            assert second.address != first.address
            for address in (first.address, second.address):
                with urlopen(f"{address}api/events?view=overview", timeout=60) as events:
                    lines = (line for line in events if line.startswith(b"data: "))
                    assert any(json.loads(line[6:])["total"] == 1 for line in lines)
    with pytest.raises(OSError, match="refused"):
        urlopen(first.address, timeout=10)


def test_messages_that_come_while_a_reader_is_held_are_read_later(cluster: KafkaConfig) -> None:
    with closing(Tail(cluster, [METRICS], from_beginning=True)) as tail:
        tail.hold(True)
        publish(cluster, list(a_drift()))
        assert [record for _ in range(4) for record in tail.take()] == []
        tail.hold(False)
        end = time.monotonic() + 30
        while not (records := tail.take()) and time.monotonic() < end:
            pass
        assert records

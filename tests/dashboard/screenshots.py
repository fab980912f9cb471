"""Make the pictures of the documentation: `python tests/dashboard/screenshots.py` (in a checkout).

`overview.png` shows the dashboard next to a running worker. The others show a report of the same streams.
Before a picture is taken, the page must be free of warnings, and a live page must be fresh. The status that
the page showed is written into the picture, and `tests/test_docs.py` checks it.
"""

from __future__ import annotations

import json
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from prequential.demo.broker import EmbeddedBroker, pick_port  # noqa: E402
from prequential.evaluation import evaluate  # noqa: E402
from prequential.topics.clients import KafkaConfig  # noqa: E402
from prequential.topics.producer import StreamProducer  # noqa: E402

from tests.browser import browser  # noqa: E402

IMAGES = ROOT / "docs" / "images"

#: The keyword of the picture's text, as the PNG specification has it: what the page showed.
KEYWORD = b"prequential"

#: A live page's newest message may be this old, in seconds.
FRESH_SECONDS = 10

#: Instances of each stream, milliseconds between them (30 days: verdicts then count days), and
#: how many are left to be sent live.
_INSTANCES, _APART, _LEFT = 12_000, 216_000, 100

#: Seconds of live records before the picture, milliseconds to draw a chart, seconds for the page to fill.
_LIVE, _DRAWN, _PATIENCE = 15, 1500, 300

_SETTINGS: dict[str, Any] = {
    "positive_class": "fraud", "label_horizon": "2d", "period": "1d",
    "emit": {"outcomes": 100, "every": "2s"},
}  # fmt: skip


def records(start: int) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield (time, topic, record) in order: in `card` a champion gets worse, in `lending` none does."""
    r = random.Random(7)
    found: list[tuple[int, str, dict[str, Any]]] = []
    for stream, models in (
        ("card", {"forest": (1.9, 0.9), "boosted": (1.8, 1.7), "linear": (1.2, 1.2)}),
        ("lending", {"forest": (1.5, 1.5), "network": (1.6, 1.6)}),
    ):
        for i in range(_INSTANCES):
            bad, ts = r.random() < 0.3, start + _APART * i
            about = {"stream": stream, "instance_id": f"{stream}-{i}"}
            label = ts + int(r.lognormvariate(7, 0.6) * 1000)
            found.append((label, "labels", {**about, "y_true": "fraud" if bad else "ok", "ts": label}))
            for model, apart in models.items():
                z = r.gauss(apart[i > 0.7 * _INSTANCES] * (1 if bad else -1) / 2, 1)
                p = round(1 / (1 + 2.718281828 ** -(1.8 * z - 0.4)), 4)
                guess: dict[str, Any] = {"y_pred": "fraud" if p >= 0.5 else "ok"}
                guess["y_proba"] = {"fraud": p, "ok": 1 - p}
                found.append((ts, "predictions", {**about, **guess, "model": model, "ts": ts}))
    return iter(sorted(found, key=lambda one: one[0]))


def send(producer: StreamProducer, topic: str, record: dict[str, Any]) -> None:
    """Send one record."""
    rest = dict(record)
    if topic == "labels":
        producer.label(rest.pop("stream"), rest.pop("instance_id"), rest.pop("y_true"), **rest)
    else:
        names = [rest.pop(name) for name in ("stream", "model", "instance_id", "y_pred")]
        producer.prediction(*names, **rest)


def of_the_running_product() -> None:
    """Take `overview.png`: broker, worker, dashboard, and a model server that goes on sending."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kafka = {"bootstrap_servers": broker.bootstrap_servers, "partitions": 2}
        port = pick_port()
        (folder / "c.yaml").write_text(json.dumps({"kafka": kafka, "defaults": _SETTINGS}))
        program = [sys.executable, "-m", "prequential.cli.main"]
        config = ["--config", str(folder / "c.yaml")]
        subprocess.run([*program, "topics", "create", *config], check=True)
        page = ["dashboard", "--port", str(port), "--since", "31d"]
        for command in (["worker", "--http", "127.0.0.1:0"], page):
            process = subprocess.Popen([*program, *command, *config])
            stack.callback(process.wait)
            stack.callback(process.terminate)
        now = int(time.time() * 1000)
        coming = list(records(now - (_INSTANCES - _LEFT) * _APART))
        past = [one for one in coming if one[0] < now]
        with StreamProducer(KafkaConfig(broker.bootstrap_servers)) as producer:
            for _, topic, record in past:
                send(producer, topic, record)

            def more(end: float) -> None:
                for _, topic, record in coming[len(past) :]:
                    if time.time() > end:
                        break
                    send(producer, topic, {**record, "ts": int(time.time() * 1000)})
                    time.sleep(0.05)

            answers(port)
            more(time.time() + _LIVE)
            take(f"http://127.0.0.1:{port}/", {"overview": ("#/", 640)}, lambda: more(time.time() + 3))


def answers(port: int) -> None:
    """Wait until a program listens at the port: on a busy machine its start takes a while."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def of_a_report() -> None:
    """Take the pictures of a report."""
    tables: dict[str, list[dict[str, Any]]] = {"predictions": [], "labels": []}
    for _, topic, record in records(1_767_225_600_000):
        tables[topic].append(record)
    result = evaluate(
        tables["predictions"], tables["labels"], champion="forest",
        details=["confusion", "scores", "intervals"],
        **{**_SETTINGS, "emit": {"outcomes": 100, "every": "2h"}},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        result.report(path, "card and lending")
        incident = next(one for one in result.summary.incidents if one.model == "forest")
        pair = "stream=card&model=forest&against=boosted&stage=final&loss=error"
        take(path.as_uri(), {
            "pair": (f"#/pair?{pair}", 900),
            "incident": (f"#/incident?id={incident.id}", 800),
        })  # fmt: skip


def take(address: str, views: dict[str, tuple[str, int]], before: Any = lambda: None) -> None:
    """Take a picture of each view, at its height, and write what the page showed into it."""
    with browser() as launched:
        for name, (view, height) in views.items():
            page = launched.new_page(viewport={"width": 1280, "height": height}, color_scheme="light")
            page.goto(address + view)
            page.wait_for_selector("main[data-ready]", timeout=1000 * _PATIENCE)
            if address.startswith("http"):
                for model in ("forest", "boosted", "linear", "network"):
                    page.locator(".key a", has_text=model).first.wait_for(timeout=1000 * _PATIENCE)
            before()
            page.wait_for_timeout(_DRAWN)
            alerts = page.locator("[role=alert]").all()
            shown = {
                "status": page.locator("header").inner_text(),
                "alerts": [one.inner_text() for one in alerts if one.is_visible()],
                "live": address.startswith("http"),
            }
            problems = wrong(shown)
            assert not problems, problems
            path = IMAGES / f"{name}.png"
            page.screenshot(path=path)
            path.write_bytes(with_text(path.read_bytes(), json.dumps(shown)))
            page.close()


def wrong(shown: dict[str, Any]) -> list[str]:
    """Return why a page that showed this is no picture for the documentation."""
    problems = [f"the page shows a warning: {one}" for one in shown["alerts"]]
    if re.search(r"lost|not live|stale|no messages|\breading\b|loading", shown["status"]):
        problems.append(f"the page is not up to date: {shown['status']}")
    if shown["live"]:
        age = re.search(r"\blive\b.*?newest message (\d+) (ms|s) ago", shown["status"], re.DOTALL)
        if age is None or (age[2] == "s" and int(age[1]) > FRESH_SECONDS):
            problems.append(f"the page is not live, or its newest message is old: {shown['status']}")
    return problems


def with_text(png: bytes, text: str) -> bytes:
    """Return the picture with a tEXt chunk behind its header."""
    header = 8 + 4 + 4 + 13 + 4  # signature, then the chunk IHDR: length, type, data, checksum
    data = b"tEXt" + KEYWORD + b"\0" + text.encode("ascii")
    chunk = struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    return png[:header] + chunk + png[header:]


def text_of(png: bytes) -> dict[str, Any] | None:
    """Return what the page showed when the picture was taken; None if the picture has no such text."""
    place = 8
    while place < len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        keyword, _, text = png[place + 8 : place + 8 + length].partition(b"\0")
        if kind == b"tEXt" and keyword == KEYWORD:
            found: dict[str, Any] = json.loads(text)
            return found
        place += length + 12
    return None


if __name__ == "__main__":
    of_a_report()
    of_the_running_product()

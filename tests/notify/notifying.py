"""Receivers of webhooks that fail as they are told, and processes of `prequential notify`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from prequential.topics.clients import KafkaConfig

from tests.worker.processes import WorkerProcess


class Request(NamedTuple):
    """What has been posted."""

    path: str
    headers: dict[str, str]
    content: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return json.loads(self.content)


#: What a receiver answers to its n-th request, from 0: a status, and headers.
Answers = Callable[[int, Request], "tuple[int, dict[str, str]]"]


class Receiver:
    """An HTTP server that keeps what is posted, and answers as it is told; a test may change `answers`."""

    def __init__(self, answers: Answers = lambda n, request: (204, {})) -> None:
        self.answers = answers
        self.requests: list[Request] = []
        #: Those that hang, hang until it is set.
        self.released = threading.Event()

    @property
    def ids(self) -> list[str]:
        return [request.id for request in self.requests]

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Its address, with a path that is a secret."""
        receiver, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.path, headers, content)
                with lock:
                    number = len(receiver.requests)
                    receiver.requests.append(request)
                status, more = receiver.answers(number, request)
                if status == 0:  # no answer
                    receiver.released.wait(60)
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in {"Content-Length": "0", **more}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/services/T0-HUSH"
            finally:
                self.released.set()
                server.shutdown()
                thread.join()


class NotifyProcess(WorkerProcess):
    """A process of `notify`; it is killed when the `with` block ends, if it still runs then."""

    command = "notify"


def write_config(folder: Path, kafka: KafkaConfig, url: str, **settings: Any) -> Path:
    """A configuration whose URL stands in a file, as it is a secret."""
    (folder / "url").write_text(url + "\n")
    cluster = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "prefix": kafka.prefix,
        "security": dict(kafka.security),
        "group_protocol": kafka.group_protocol,
    }
    section = {"url": f"file:{folder / 'url'}", "timeout": "1s", **settings}
    path = folder / "notify.yaml"
    # Tests run next to each other: each process takes a free port.
    content = {"kafka": cluster, "http": {"port": 0}, "notify": section}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path

"""A small HTTP server that speaks as much of Schema Registry's API as its clients need to write and read.

Schemas are registered by confluent-kafka's own serialisers. A registry as others have it is
`tests.registries.apicurio`, which takes seconds to start.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any


def guid_of(schema: dict[str, Any]) -> str:
    """Return the GUID of a schema, which depends on its content alone."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(schema, sort_keys=True)))


class RegistryServer:
    """Serves while a `with` block lasts; `asked` counts its paths. With `user` it wants `user:password`."""

    def __init__(self, user: str | None = None) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: Counter[str] = Counter()
        wanted = user and "Basic " + base64.b64encode(user.encode()).decode()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                outer.asked[path] += 1
                if wanted and self.headers.get("Authorization") != wanted:
                    self._answer(401, {"error_code": 401, "message": "Unauthorized"})
                elif path == "/subjects":
                    self._answer(200, list(outer.subjects))
                elif (found := re.fullmatch(r"/schemas/ids/(\d+)", path)) and (
                    int(found[1]) <= len(outer.schemas)
                ):
                    self._answer(200, outer.schemas[int(found[1]) - 1])
                elif (found := re.fullmatch(r"/schemas/guids/([-0-9a-f]+)", path)) and (
                    known := [one for one in outer.schemas if guid_of(one) == found[1]]
                ):
                    self._answer(200, {**known[0], "guid": found[1]})
                elif found := re.fullmatch(r"/subjects/([^/]+)/versions/(\d+)", path):
                    subject, version = found[1], int(found[2])
                    number = outer.subjects[subject][version - 1]
                    about = {"subject": subject, "version": version, "id": number}
                    self._answer(200, {**about, **outer.schemas[number - 1]})
                else:
                    self._answer(404, {"error_code": 40403, "message": "Schema not found"})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = self.path.partition("?")[0]
                found = re.fullmatch(r"/subjects/([^/]+)(/versions)?", path)
                if found is None or (found[2] is None and body not in outer.schemas):
                    self._answer(404, {"error_code": 40403, "message": "Schema not found"})
                    return
                number = outer.register(found[1], body)
                version = outer.subjects[found[1]].index(number) + 1
                about = {"subject": found[1], "id": number, "guid": guid_of(body), "version": version}
                self._answer(200, {**about, **body})

            def _answer(self, status: int, body: Any) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Register a schema as the next version of a subject; returns its id."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + 1
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return number

    def __enter__(self) -> RegistryServer:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

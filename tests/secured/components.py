"""The program's components as processes with what their pods have: configuration, secrets, variables."""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from prequential.demo.broker import pick_port

from tests.secured import chart
from tests.secured.nodes import Secured
from tests.worker.processes import HANGS, WorkerProcess, started


class Secrets:
    """What HTTP and webhooks are secured with."""

    def __init__(self, webhook: str) -> None:
        self.token = f"tk-{secrets.token_hex(16)}"
        self.signing = "whsec_" + b64encode(secrets.token_bytes(32)).decode()
        self.webhook = webhook


class Component(WorkerProcess):
    """A pod's process. Its folder has `prequential.yaml`, `log` and the mounted `secrets`.

    `copied`: it may be a copy of a process that is ready.
    """

    def __init__(
        self, part: chart.Part, pod: str, folder: Path, kafka: Secured, own: Secrets,
        *, copied: bool = False,
    ) -> None:  # fmt: skip
        self.part, self.pod, self.folder = part, pod, folder
        self.port = pick_port()
        self._token = own.token
        mounted = folder / "secrets"
        for name, content in {
            "kafka/password": kafka.passwords[part.user],
            "kafka/ca.crt": kafka.pki.ca.read_text(),
            "http/token": own.token,
            "webhook/url": own.webhook,
            "webhook/secret": own.signing,
        }.items():
            file = mounted / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        config = folder / "prequential.yaml"
        servers = kafka.cluster.bootstrap_servers
        config.write_text(chart.configuration(servers, mounted, part.values), encoding="utf-8")
        self._log = folder / "log"
        variables = {"POD_NAME": pod, "KAFKA_USERNAME": part.user}
        self._process = started(self._arguments(config), folder, self._log, variables, copied=copied)

    def _arguments(self, config: Path) -> list[str]:
        """The pod's, at an address of this machine's own."""
        words = list(self.part.args)
        words[words.index("--config") + 1] = str(config)
        if "--host" in words:
            words[words.index("--host") + 1] = "127.0.0.1"
            return [*words, "--port", str(self.port)]
        if "--to" in words:  # the volume, or an object store
            words[words.index("--to") + 1] = str(self.folder / "archive")
            words[words.index("--http") + 1] = self.address
            words[words.index("--every") + 1] = "1s"  # nobody is to wait for minutes
            return words
        return [*words, "--http", self.address]

    @property
    def address(self) -> str:
        """`host:port` of its HTTP."""
        return f"127.0.0.1:{self.port}"

    def get(self, path: str, *, token: bool = True) -> tuple[int, str]:
        """As `WorkerProcess.get`, with the token."""
        headers = {"Authorization": f"Bearer {self._token}"} if token else {}
        try:
            with urlopen(Request(f"http://{self.address}{path}", headers=headers), timeout=HANGS) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with suppress(OSError, HTTPException):
                return error.code, error.read().decode()
            return 0, ""
        except (OSError, HTTPException):
            return 0, ""

    def ready(self) -> bool:
        """Whether it says that it is ready, as its probe asks; the dashboard has a page then."""
        assert self.status is None, f"{self.pod} ended with {self.status}:\n{self.log}"
        if self.part.name == "dashboard":
            return self.get("/", token=True)[0] == 200
        return self.get("/ready", token=False)[0] == 200


@contextmanager
def deployed(folder: Path, kafka: Secured, own: Secrets, workers: int = 2) -> Iterator[dict[str, Component]]:
    """All that the chart deploys, by pod; what still runs at the end is killed."""
    found: dict[str, Component] = {}
    with ExitStack() as stack:
        for name, part in chart.parts().items():
            for number in range(workers if name == "worker" else 1):
                pod = f"{part.user}-{number}"
                own_folder = folder / pod
                own_folder.mkdir()
                found[pod] = stack.enter_context(_started(part, pod, own_folder, kafka, own))
        yield found


@contextmanager
def _started(*arguments: Any) -> Iterator[Component]:
    with Component(*arguments) as one:
        yield one

"""A certificate authority of a test's own, and a server's certificate of its."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest


class Pki(NamedTuple):
    """Files in PEM: the authority, and what a server at 127.0.0.1 shows."""

    ca: Path
    key: Path
    certificate: Path

    def broker_properties(self, listener: str) -> dict[str, str]:
        """Apache Kafka's settings for a listener (`listener.name.client`) that speaks TLS."""
        return {
            f"{listener}.ssl.keystore.type": "PEM",
            f"{listener}.ssl.keystore.key": self.key.read_text(),
            f"{listener}.ssl.keystore.certificate.chain": self.certificate.read_text(),
        }


def make_pki(folder: Path) -> Pki:
    """Make them in a folder; the test is skipped where there is no openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl isn't installed")
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\n")
    for words in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=kafka -keyout server.key -out server.csr",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
        "-extfile san -out server.pem",
    ):
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)
    return Pki(folder / "ca.pem", folder / "server.key", folder / "server.pem")

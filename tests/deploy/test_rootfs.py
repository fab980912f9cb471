"""What the image is made of, made here: it runs where there is nothing else, and there is no shell in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"

#: The Python that this one, of an environment, was made from.
PYTHON = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")

#: Its packages are other ones than the image's, and many: without them.
_PROGRAM = """
import sys, pathlib
sys.path.insert(0, sys.argv[1])
import rootfs
rootfs._LEFT_OUT += ("site-packages",)
rootfs.main(pathlib.Path(sys.argv[2]))
"""

#: What needs the libraries, the certificates and the users.
_USES = "import ctypes, lzma, os, pwd, ssl, zlib; print(os.listdir('/'), pwd.getpwuid(10001).pw_name)"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("ldd") is None, reason="the image is one of Linux"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("image") / "rootfs"
    subprocess.run([PYTHON, "-B", "-c", _PROGRAM, DEPLOY, root], check=True)
    return root


@pytest.mark.slow
def test_python_is_all_that_can_be_run(root: Path) -> None:
    """And nothing has the rights of others."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path.name for path in files if path.parent.name in ("bin", "sbin")] == [PYTHON.name]
    assert not [path for path in files if path.stat().st_mode & 0o6000]
    assert not list(root.rglob("pip")) + list(root.rglob("ensurepip"))
    for folder in ("tmp", "var/lib/prequential/archive"):
        assert (root / folder).stat().st_mode & 0o7777 == 0o1777


@pytest.mark.slow
def test_it_runs_where_there_is_nothing_else(root: Path) -> None:
    chroot = shutil.which("chroot")
    if os.geteuid() != 0 or chroot is None:
        pytest.skip("only root may use chroot")
    command = [chroot, "--userspec=10001:10001", root, PYTHON, "-c", _USES]
    # Its parts may be closed to others, as root's home is: in the image Python lies elsewhere.
    for path in (root, *root.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o055)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("prequential\n")
    assert "'bin'" not in done.stdout
    shell = subprocess.run([chroot, root, "sh", "-c", "true"], capture_output=True, check=False)
    assert shell.returncode == 127, "chroot's status for a program that isn't there"

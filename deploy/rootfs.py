"""The files that the image is made of: Python, its packages, and the libraries that these are linked with.

    python deploy/rootfs.py FOLDER

Everything else of the image that this runs in stays out: shell, package managers, programs that run with
other rights. Whoever gets into a container finds Python, and nothing beside it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

#: Of Python's own: what builds, installs, tests and draws.
_LEFT_OUT = (
    "_tkinter*", "config-*", "ensurepip", "idlelib", "lib2to3", "pip", "pip-*", "pydoc_data", "setuptools",
    "setuptools-*", "test", "tkinter", "turtledemo", "wheel", "wheel-*",
)  # fmt: skip

#: Programs that stay; `python` and `python3` are links to the first.
_PROGRAMS = ("python3.*[0-9]", "python3", "python", "prequential")

#: Taken as they are, where they are there: what the loader found where, host names, certificates, and the
#: engine's compiled loops.
_TAKEN = (
    "/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/ssl/certs/ca-certificates.crt", "/opt/prequential",
)  # fmt: skip

#: The program's user, by number the same as in the Dockerfile.
_PASSWD = "root:x:0:0:root:/:\nprequential:x:10001:10001::/tmp:\n"
_GROUP = "root:x:0:\nprequential:x:10001:\n"

#: Folders that every user may write to: scratch space, and where a volume of the archive goes. Docker gives a new
#: volume the rights of the folder that it takes the place of.
_WRITABLE = ("tmp", "var/lib/prequential/archive")

_ELF = b"\x7fELF"


def main(root: Path) -> None:
    library = Path(sysconfig.get_path("stdlib"))
    own = {str(library), str(library / "lib-dynload"), str(library / "site-packages")}
    left_out = shutil.ignore_patterns(*_LEFT_OUT)
    _copy(library, root, lambda folder, names: left_out(folder, names) if folder in own else set())
    for pattern in _PROGRAMS:
        for program in sorted(Path(sys.prefix, "bin").glob(pattern)):
            _copy(program, root)
    for path in map(Path, _TAKEN):
        if path.exists():
            _copy(path, root)
    for path in _linked(root):
        _copy(path, root)
    (root / "etc" / "passwd").write_text(_PASSWD, encoding="utf-8")
    (root / "etc" / "group").write_text(_GROUP, encoding="utf-8")
    (root / "etc" / "prequential").mkdir()
    for path in _WRITABLE:
        (root / path).mkdir(parents=True)
        (root / path).chmod(0o1777)


def _copy(path: Path, root: Path, ignore: Callable[[str, list[str]], set[str]] | None = None) -> None:
    """To the same place below `root`; a link to a neighbour stays one, and brings it along."""
    target = root / path.relative_to("/")
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() and path.readlink() == Path(path.readlink().name):
        target.symlink_to(path.readlink())
        _copy(path.parent / path.readlink(), root)
    elif path.is_dir():
        shutil.copytree(path, target, symlinks=True, ignore=ignore)
    else:
        shutil.copy2(path, target)


def _linked(root: Path) -> Iterator[Path]:
    """The libraries of all programs and modules below `root`, and their loader, where they lie here."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    programs = [path for path in files if path.open("rb").read(4) == _ELF]
    found = set()
    for program in programs:
        here = Path("/", program.relative_to(root))
        said = subprocess.run(["ldd", here], capture_output=True, text=True, check=False).stdout
        for missing in re.findall(r"^\s*(\S+) => not found", said, re.MULTILINE):
            # As before: modules that packages can do without, such as numba's for TBB.
            print(f"{here} needs {missing}, which isn't here", file=sys.stderr)
        found.update(re.findall(r"(/\S+) \(0x", said))
    return map(Path, sorted(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""`prequential compile`: the engine's loops, compiled before they are needed."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from time import monotonic
from typing import Any

from prequential.topics.errors import UsageError
from prequential.views.wording.console import counted, say

#: The variable that names the folder for compiled loops, here and for the processes that use them.
_FOLDER = "NUMBA_CACHE_DIR"


def add_parser(subparsers: Any) -> None:
    """Add the command to the program's subparsers."""
    parser = subparsers.add_parser(
        "compile",
        help="compile the engine before a worker needs it: for images and init containers",
        description="Compiles the engine into a cache and prints the progress. Processes that use the cache "
        f"start without compiling. Several versions and environments can share a folder: set {_FOLDER} to it "
        "where they run. NUMBA_CPU_NAME and NUMBA_CPU_FEATURES select the processor, here and where they run "
        "(default: this machine's). A second process with the same folder waits for the first.",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="configuration (YAML) whose streams need the compiled engine (default: all settings)",
    )
    parser.add_argument(
        "--cache", metavar="FOLDER",
        help=f"folder for compiled code (default: {_FOLDER}, else next to the program or your cache folder)",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    """Compile what is missing; 0 then. Raises WorkError if compiled code can't be kept."""
    if args.cache is not None:
        os.environ[_FOLDER] = _writable(args.cache)  # before anything imports numba
    from prequential.configfile.reading.reader import load_config
    from prequential.runtime.compilation import compile_ahead

    config = None if args.config is None else load_config(args.config)
    began = monotonic()
    number = compile_ahead(say, config)
    seconds = monotonic() - began
    folder_text = f" in {os.environ[_FOLDER]}" if os.environ.get(_FOLDER) else ""
    purpose = "all settings" if config is None else f"the configuration {args.config}"
    loops = f"{counted(number, 'loop')} compiled in {seconds:.0f} s"
    say(f"{loops}; the cache{folder_text} has all loops for {purpose}")
    return 0


def _writable(folder: str) -> str:
    """Return the absolute path of a folder, which is made if it is missing, once a file can be made in it."""
    path = Path(folder).absolute()
    probe = path / f".prequential-{os.getpid()}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(
            f"--cache {folder}: {error.strerror}; expected a folder that can be written"
        ) from error
    return str(path)

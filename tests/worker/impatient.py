"""A worker that looks for findings every second, and not every 30: tests wait for what it sees.

`python impatient.py worker --config FILE …`
"""

from __future__ import annotations

import sys

from prequential.cli.main import main
from prequential.runtime.worker import app

if __name__ == "__main__":
    app.LOOK_SECONDS = 1.0  # type: ignore[misc]
    sys.exit(main())

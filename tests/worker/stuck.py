"""A worker one of whose shards can't publish until a file is there, as when its partition has no leader.

It takes fewer records in advance than other workers, so a smaller backlog is more than that.

`python stuck.py PARTITION FILE worker --config FILE …`
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from prequential.cli.main import main
from prequential.runtime.worker import round_pace
from prequential.runtime.worker.publisher import Publisher

_publish = Publisher.publish


def _publishing(self: Publisher, *messages: Any) -> Any:
    while self._partition == _number and not _released.exists():
        time.sleep(0.05)
    return _publish(self, *messages)


if __name__ == "__main__":
    _number, _released = int(sys.argv.pop(1)), Path(sys.argv.pop(1))
    round_pace._MOST_AHEAD = 1
    Publisher.publish = _publishing  # type: ignore[method-assign]
    sys.exit(main())

"""What a workload needs as values of the Helm chart: partitions, workers, and what each of them asks for."""

from __future__ import annotations

import math
from typing import Any

from prequential.settings.model import Config
from prequential.sizing.model import Sizing, Workload, size

#: What was measured lay within this of what the model says (docs/scale.md).
_OFF = 0.25

#: Memory is asked for in steps of so many MiB.
_STEP = 256

_MIB = 1 << 20


def chart_values(
    workload: Workload, config: Config, sizing: Sizing, *, workers: int | None = None, speed: float = 1.0
) -> dict[str, Any]:
    """The chart's values for what was sized; `workers` are those that there are, else at least two.

    Each worker has the memory for its shards and those of one that is away, and what the model may be off
    by. It asks for a core, although it is busy for a part of it: it needs one to catch up.

    >>> workload = Workload(300, models=2, rate=2_000.0)
    >>> found = chart_values(workload, Config(), size(workload, Config()))
    >>> found["kafka"], found["worker"]["replicas"], found["worker"]["resources"]["limits"]
    ({'partitions': 4, 'replication': 1}, 2, {'memory': '768Mi'})
    """
    replicas = workers or min(max(2, sizing.workers), sizing.partitions)
    left = size(workload, config, partitions=sizing.partitions, workers=max(1, replicas - 1), speed=speed)
    memory = f"{math.ceil(left.worker_bytes * (1 + _OFF) / _MIB / _STEP) * _STEP}Mi"
    return {
        "kafka": {"partitions": sizing.partitions, "replication": config.kafka.replication},
        "worker": {
            "replicas": replicas,
            "resources": {"requests": {"cpu": "1", "memory": memory}, "limits": {"memory": memory}},
        },
    }

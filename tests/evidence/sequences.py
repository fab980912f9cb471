"""Labels and predictions of experiments as outcomes of the past, through the worker's own engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.offline.backtesting.sequences import PastSequence as Outcomes
from prequential.offline.backtesting.sequences import sequences
from prequential.offline.replay.sources import Source
from prequential.topics.decoding import LABELS, PREDICTIONS
from prequential.topics.outputs import Alarm, Output

#: What models said, by their names, and what was so.
Said = tuple[Mapping[str, Sequence[object]], Sequence[object]]

#: Milliseconds from one instance to the next.
_STEP = 1_000


def evaluated(
    streams: Mapping[str, Said], config: StreamConfig
) -> tuple[dict[tuple[str, str], Outcomes], list[Alarm]]:
    """By stream and model its outcomes, test-then-train, and all alarms of the configured detectors."""
    predictions, labels = lines_of(streams)
    alarms: list[Alarm] = []

    def put(output: Output) -> None:
        if isinstance(output, Alarm):
            alarms.append(output)

    sources = [Source(PREDICTIONS, predictions), Source(LABELS, labels)]
    found = sequences(Config(defaults=config), sources, put)
    return {(one.stream, one.model): one for one in found}, alarms


def lines_of(streams: Mapping[str, Said]) -> tuple[list[bytes], list[bytes]]:
    """Predictions and labels as JSON lines."""
    predictions, labels = [], []
    for stream, (models, truth) in streams.items():
        for i, label in enumerate(truth):
            about = {"stream": stream, "instance_id": i}
            for model, said in models.items():
                line = {**about, "model": model, "ts": i * _STEP, "y_pred": said[i]}
                predictions.append(json.dumps(line).encode())
            labels.append(json.dumps({**about, "ts": i * _STEP + 1, "y_true": label}).encode())
    return predictions, labels

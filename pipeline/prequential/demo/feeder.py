"""A stream without end for a Kafka that is there: late labels, a drift, and then new versions of the models.

    python -m prequential.demo.feeder --config deploy/prequential.yaml

The demo's model server in rounds: in the middle of each the data drift, and the next one begins with models
that know nothing of it. So dashboards and alerts have something to show; nothing else is it good for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from itertools import count

from prequential.configfile.reading.reader import load_config
from prequential.demo.source import Feed, PreparedMessage
from prequential.demo.stream import DemoModel, ModelServer, StreamPlan, build_models
from prequential.runtime.program import Stop, stop_signals
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.views.wording.console import complain

#: Instances a second by default: a window of 1,000 outcomes is a minute, and the processor hardly notices.
_RATE = 20.0

#: Minutes of a round by default, a drift in its middle: long enough for windows to fill and alerts to come,
#: short enough to watch.
_MINUTES = 20.0

#: Seconds between two looks whether the round still runs.
_LOOK_SECONDS = 0.5

#: Regions of the instances, by number: one has a few in a hundred.
_REGIONS = (*("north",) * 20, *("south",) * 12, "islands")


class FeederRound(ModelServer):
    """One round. Its ids are its own, and predictions say the version of their model: the round's name."""

    def __init__(self, plan: StreamPlan, models: Mapping[str, DemoModel], name: str) -> None:
        super().__init__(plan, models)
        self._name = name

    def messages(self) -> Iterator[PreparedMessage]:
        """Yield all its records, in order of time."""
        for message in super().messages():
            number = message.fields["instance_id"]
            fields = {**message.fields, "instance_id": f"{self._name}/{number}"}
            if message.topic == "instances":
                fields["segments"] = {"region": _REGIONS[number % len(_REGIONS)]}
            elif message.topic == "predictions":
                fields["model_version"] = self._name
            yield message._replace(fields=fields)


def feed(kafka: KafkaConfig, rate: float, seconds: float, stop: Stop) -> None:
    """Feed round after round until `stop` is set. Raises what ended a round before its time."""
    for seed in count():
        plan = StreamPlan(seconds, seed, rate)
        name = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
        running = Feed(FeederRound(plan, build_models(plan), name), kafka)
        running.start()
        while running.running and not stop.wait(_LOOK_SECONDS):
            pass
        running.stop()
        if running.error is not None:
            raise running.error
        if stop.is_set():
            return


def main(argv: list[str] | None = None) -> int:
    """Run it until SIGTERM or Ctrl-C: 0. Kafka can't be reached, or river is missing: 1. Wrong usage: 2."""
    parser = argparse.ArgumentParser(prog="python -m prequential.demo.feeder", description=__doc__)
    parser.add_argument("--config", metavar="FILE", help="configuration (YAML), for its section kafka")
    parser.add_argument("--rate", type=float, default=_RATE, help=f"instances a second (default: {_RATE:g})")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help=f"of a round (default: {_MINUTES:g})")
    args = parser.parse_args(argv)
    try:
        kafka = load_config(args.config).kafka
        with stop_signals() as stop:
            feed(kafka, args.rate, 60 * args.minutes, stop)
    except (UsageError, WorkError) as error:
        complain(error)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

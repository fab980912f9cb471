"""Chaos: a stream goes on while its workers, and now and then the broker, are struck.

`python tests/worker/chaos.py --minutes 10 --seed 3` strikes for ten minutes, and then demands that
every message was published exactly once and is, digit for digit, what a replay of the topics says.
What strikes, whom and when, and what is in the stream follow from the seed and the minutes; what is
hit in the middle of what does not. `test_crash.py` is a short form of it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

if __name__ == "__main__":  # pytest does this through conftest.py
    _TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(_TESTS.parent), str(_TESTS)]

from comparison import (
    assert_as_replayed,
    assert_counters,
    assert_plain_repeats_are_copies,
    assert_published_once,
    counters,
)
from flock import SESSION_SECONDS, Flock
from prequential.topics.admin import create
from prequential.topics.clients import CLASSIC, GROUP_PROTOCOLS, KafkaConfig
from prequential.topics.specs import topic_specs
from processes import HANGS, await_published, write_config
from schedule import BROKER, plan
from workload import HORIZON, SETTLE, Feeder, records, spoiled

from tests.brokers import Broker, launch

#: Records a second of the stream.
RATE = 4_000

#: Partitions of each topic, and streams that share them.
PARTITIONS, STREAMS = 3, 8

#: Records a second that the workers process, and a replay, at the very least on a busy machine: what
#: a bound on waiting is made of.
_SLOWEST = 2 * RATE

#: What workers under chaos are configured with: messages, alarms, transactions and snapshots so
#: often that every strike is in the middle of something.
DEFAULTS = {
    "estimators": ["all", "window:100", "fading:0.99"],
    "label_horizon": HORIZON,
    "settle": SETTLE,
    "emit": {"outcomes": 20, "every": "1s"},
    "detectors": [
        {"detector": "page-hinkley", "signal": "error", "lambda": 10},
        {"detector": "page-hinkley", "signal": "fading:0.9/fading:0.99", "delta": 0.1, "lambda": 20},
    ],
}
WORKER = {"session_timeout": f"{SESSION_SECONDS:.0f}s", "commit_every": "100ms", "snapshot_every": "1s"}

#: Told a line at a time how it goes.
Tell = Callable[[str], None]


def chaos(
    broker: Broker, folder: Path, seed: int, minutes: float, tell: Tell, protocol: str = CLASSIC
) -> KafkaConfig:
    """Let a stream go on while its workers are struck, then compare; the topics it was about.

    1. New topics, two workers, and a stream of `RATE` records a second.
    2. The strikes.
    3. The stream ends; the workers that are left process all of it, and are asked for their counters.
    4. Compare with the replay: metrics, alarms, dead letters, counters; and every id is there once.
    """
    began = time.monotonic()

    def say(line: str) -> None:
        tell(f"{time.monotonic() - began:6.1f} s  {line}")

    strikes = plan(seed, minutes, broker.restartable)
    often = ", ".join(f"{n} {what}" for what, n in sorted(Counter(s.what for s in strikes).items()))
    say(f"seed {seed}, {minutes:g} minutes on {broker.name}, protocol {protocol}: {often}")
    prefix = f"chaos-{seed}-{time.time_ns():x}."
    kafka = broker.config(prefix=prefix, partitions=PARTITIONS, group_protocol=protocol)  # step 1
    create(kafka, topic_specs(kafka))
    config = write_config(folder, kafka, defaults=DEFAULTS, worker=WORKER)
    stream = spoiled(seed, records(seed, 10**9, STREAMS), STREAMS)
    with Flock(config) as flock:
        with Feeder(kafka, stream, RATE) as feeder:
            for strike in strikes:  # step 2
                watch(flock, feeder, strike.pause)
                what = _restart(broker, flock) if strike.what == BROKER else flock.strike(strike)
                say(f"{feeder.sent:9,} records; {what}")
            feeder.stop()
        conclude(kafka, config, flock, feeder.sent, say)  # steps 3 and 4
    return kafka


def conclude(kafka: KafkaConfig, config: Path, flock: Flock, sent: int, say: Tell) -> None:
    """Let the workers process all that was sent, and compare what they say with the replay (see `chaos`)."""
    say(f"{sent:9,} records are all")
    patience = HANGS + sent / _SLOWEST
    flock.settle()
    await_published(kafka, *flock.running, seconds=patience)
    flock.look()
    say("all are processed; replaying them")
    found = counters(kafka, *flock.running)
    flock.stop()  # on a busy machine they would publish more after `emit.idle`, while it is being read
    replay = assert_as_replayed(kafka, config, patience)
    assert_counters(found, replay, kafka)
    say(f"{assert_published_once(kafka)} messages, each once and as the replay says")
    say(f"{assert_plain_repeats_are_copies(kafka)} of them were sent to plain readers more than once")


def watch(flock: Flock, feeder: Feeder, seconds: float) -> None:
    """Nothing strikes for some seconds, in which all should be well."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        flock.look()
        if not feeder.running:
            feeder.join()  # says what it failed of
            raise AssertionError("the stream has ended by itself")
        time.sleep(0.05)


def _restart(broker: Broker, flock: Flock) -> str:
    began = time.monotonic()
    broker.restart()
    away = time.monotonic() - began
    flock.excuse(away)
    return f"{BROKER}, {away:.1f} s"


def main() -> int:
    """Strike for some minutes; exit status 0 if nothing was lost, repeated or different."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, metavar="N", help="default: 10")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="default: 1")
    parser.add_argument(
        "--group-protocol", choices=GROUP_PROTOCOLS, default=CLASSIC, help="default: classic"
    )
    parser.add_argument("--plan", action="store_true", help="only tell what would strike when")
    parser.add_argument(
        "--network", action="store_true",
        help="the second form: three nodes of Kafka, and a network that delays, holds, cuts and separates",
    )  # fmt: skip
    args = parser.parse_args()
    if args.network:
        from network import run  # which builds on this module

        return run(args.seed, args.minutes, plan_only=args.plan)
    if args.plan:
        print(*plan(args.seed, args.minutes), sep="\n")
        return 0
    with launch("kafka") as broker, tempfile.TemporaryDirectory() as folder:
        tell, protocol = partial(print, flush=True), args.group_protocol
        chaos(broker, Path(folder), args.seed, args.minutes, tell, protocol)
    return 0


if __name__ == "__main__":
    sys.exit(main())

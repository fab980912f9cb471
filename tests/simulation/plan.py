"""What a seed says of a world: its configuration, the records that are sent, and the faults."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config, SourceConfig, WorkerConfig
from prequential.configuration.settings.notifications import NOTIFIED, NotifyConfig
from prequential.configuration.settings.streams import BY_INSTANCE, DetectorConfig, StreamConfig
from prequential.topics.clients import CLASSIC, CONSUMER, KafkaConfig
from prequential.topics.partitioning import key_of, partition_of
from prequential.topics.specs import DEAD_LETTERS, JOURNAL, METRICS, PARTS, SNAPSHOTS

from tests.simulation.broker import EPOCH_MS
from tests.simulation.loop import BEGINS
from tests.simulation.machine import CRASH, CRASH_OF_PARSER, POISON, UNLUCKY, UNREADABLE
from tests.simulation.mistakes import CLOCKS, IDS, INVALID, KINDS, LATE, Mistake, wrong_time
from tests.simulation.network import END, OFFSETS


class Send(NamedTuple):
    """A record of an input, and when it is sent (seconds from the beginning)."""

    time: float
    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None = None
    #: For a record in a transaction of its producer: after how many seconds it ends, and whether it commits.
    in_transaction: tuple[float, bool] | None = None


@dataclass(frozen=True)
class Fault:
    """What happens at some time, for how long, how much, and to which worker."""

    time: float
    kind: str
    worker: int = 0
    seconds: float = 0.0
    strength: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        parts = [self.kind]
        if self.kind in ("kill", "terminate", "pause", "cut", "stray", "overtake", "strand"):
            parts.append(f"worker {self.worker}")
        if self.seconds:
            parts.append(f"for {self.seconds:.2f} s")
        if self.strength:
            parts.append(f"({self.strength:.3g})")
        if self.settings:
            parts.append(str(dict(self.settings)))
        return "fault: " + " ".join(parts)


@dataclass(frozen=True)
class Plan:
    """A world as its seed says."""

    config: Config
    workers: int
    #: Processes of `ingest`, which then writes the labels.
    ingests: int
    #: Processes of `notify`.
    notifiers: int
    sends: Sequence[Send]
    faults: Sequence[Fault]
    shuffles: bool = True
    is_static: bool = False
    #: Share of requests that the webhook of `notify` refuses, or whose answer is lost.
    webhook_loss: float = 0.0
    #: The instance of a record at which workers die; None: there is no such record.
    poison: str | None = None
    #: How many workers die of an error at the record of another instance, at which later ones do not.
    misfortunes: int = 0
    #: Whether shards have room for a few records only.
    is_narrow: bool = False
    #: Whether several records may share a message, one of which is invalid.
    is_packed: bool = False
    #: Longest time by which the answer to a fetch comes later than those of others, in seconds.
    jitter: float = 0.0
    #: What the producer of a stream does wrong for some time.
    mistake: Mistake | None = None
    #: By stream and model, how many outcomes there must be: instances with a prediction and a label.
    outcomes: Mapping[tuple[str, str], int] = field(default_factory=dict, hash=False)
    #: How many outcomes there may be in addition: of predictions whose times are wrong.
    doubtful: Mapping[tuple[str, str], int] = field(default_factory=dict, hash=False)

    @property
    def has_poison(self) -> bool:
        """Whether a record is among them at which workers die."""
        return self.poison is not None


class Aim(NamedTuple):
    """What worlds of one kind have more of than others, so that some faults meet what they need."""

    #: Share of these worlds among all.
    share: float
    #: Kinds of faults, and how often each comes in relation to others.
    kinds: Mapping[str, int]
    #: How many faults there are.
    faults: Sequence[int] = (1, 2, 3, 4)
    #: How many processes of `ingest` write the labels, 0: they come from elsewhere; and of workers.
    ingests: Sequence[int] = (0, 0, 0, 0, 1, 1, 2)
    workers: Sequence[int] = (1, 2, 2)
    #: Share of worlds whose labels follow predictions at once, with records in transactions of producers, and
    #: with a record at which workers die.
    quick: float = 0.2
    in_transactions: float = 0.3
    poison: float = 0.15
    #: Longest times (seconds) for which such transactions are open.
    longest: Sequence[float] = (0.5, 4.0)
    jitter: float = 0.0
    #: Kinds of requests within which processes are struck, and how long (seconds) they are then away; None:
    #: any request, and many durations.
    within: Sequence[str | None] = (None,)
    away: tuple[float, float] | None = None
    #: Settings of workers that are not drawn.
    settings: Mapping[str, Any] = {}
    #: Whether the producer of a stream makes a mistake for some time.
    has_mistake: bool = False
    partitions: Sequence[int] = (1, 1, 2, 2, 3)
    #: Whether each shard has one stream, whose outcomes all have messages.
    is_spread: bool = False
    #: How many instances there are; None: 10 to 60.
    instances: int | None = None
    #: Whether all these worlds have shards with room for a few records only; else, some have.
    is_narrow: bool = False


_KINDS = {
    "kill": 9, "terminate": 3, "pause": 4, "slow": 3, "lose": 6, "cut": 4, "markers": 2, "clock": 1,
    "compact": 2, "reconfigure": 1, "stray": 2, "rebuild": 1, "damage": 1, "grow": 1, "late": 2, "full": 2,
    "strand": 1, "leaderless": 1,
}  # fmt: skip

AIMS = {
    "anything": Aim(0.34, _KINDS, (0, 1, 2, 3, 4, 6)),
    # Members of the group of `ingest` lose partitions while a transaction is under way.
    "group": Aim(
        0.1, {"pause": 8, "markers": 4, "kill": 3, "terminate": 3, "lose": 2, "cut": 3}, (2, 3, 4), (2,),
        workers=(1,),
        within=(None, OFFSETS, END), away=(4.5, 9.0),
    ),
    # Commits whose result is unknown, and requests that arrive late.
    "doubt": Aim(
        0.12, {"cut": 8, "overtake": 10, "late": 2, "lose": 2, "kill": 2}, (3, 4, 6), (0,), poison=0.0,
        within=(None, END),
        away=(11.0, 25.0), settings={"commit_every": 50},
    ),
    # Workers restore snapshots, which they wrote while much else was under way.
    "snapshots": Aim(
        0.11, {"kill": 6, "slow": 4, "damage": 5, "compact": 2, "markers": 2, "format": 1}, (2, 3, 4), (0,),
        settings={"snapshot_every": 100}, poison=0.0,
    ),
    # No fault at all, and records that other topics have to wait for.
    "order": Aim(
        0.07, {"compact": 1}, (0,), (0,), quick=0.7, in_transactions=0.5, poison=0.0, longest=(4.0, 10.0),
        jitter=0.06, settings={"grace": 300},
    ),
    # Records go that workers have done with, or also some that they need.
    "retention": Aim(
        0.07, {"retention": 6, "kill": 4, "slow": 4, "compact": 1, "terminate": 1}, (3, 4, 5), (0,),
        poison=0.0, settings={"snapshot_every": 100},
    ),
    # What is evaluated changes.
    "revise": Aim(0.05, {"revise": 5, "kill": 4, "slow": 1, "compact": 1}, (2, 3), (0,), poison=0.0),
    # Records that crash workers.
    "crash": Aim(0.05, {"kill": 1, "terminate": 1}, (0, 0, 1), (0,), poison=1.0),
    # Clients that have lost their brokers for good.
    "strand": Aim(0.02, {"strand": 6, "kill": 1}, (1, 2), poison=0.0),
    # One shard of a worker can't publish.
    "leaderless": Aim(
        0.01, {"leaderless": 1}, (1,), (0,), workers=(1,), in_transactions=0.0, poison=0.0, is_narrow=True,
        partitions=(2,), is_spread=True, instances=100, away=(12.0, 25.0),
    ),
    # What workers find about the mistakes of a producer, also after they have restored a shard.
    "mistake": Aim(
        0.06, {"kill": 6, "terminate": 3, "compact": 1}, (0, 2, 3, 4), (0,), quick=0.0, in_transactions=0.0,
        poison=0.0, settings={"snapshot_every": 100}, has_mistake=True,
    ),
}  # fmt: skip


def aim_of(seed: int) -> Aim:
    """What the world of a seed aims at."""
    aims = list(AIMS.values())
    return random.Random(f"aim {seed}").choices(aims, [aim.share for aim in aims])[0]


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    rng, aim = random.Random(f"plan {seed}"), aim_of(seed)
    partitions, workers = rng.choice(aim.partitions), rng.choice(aim.workers)
    stream = _stream(rng)
    own = random.Random(f"notify {seed}")
    notifiers = own.choice([1, 2]) if own.random() < 0.1 and not aim.has_mistake else 0
    if notifiers:
        stream = replace(stream, detectors=_DETECTORS)
    if aim.is_spread:
        stream = replace(stream, emit_outcomes=1)
    wide = {_WIDE: replace(stream, key=BY_INSTANCE, emit_outcomes=None)} if rng.random() < 0.2 else {}
    ingests = rng.choice(aim.ingests)
    protocol = random.Random(f"protocol {seed}").choices([CLASSIC, CONSUMER], [5, 1])[0]
    config = Config(
        kafka=KafkaConfig(partitions=partitions, group_protocol=protocol), defaults=stream, streams=wide,
        worker=replace(_worker(rng), **aim.settings), ingest=(_source(),) if ingests else (),
        notify=NotifyConfig(url="https://webhook.example/", topics=NOTIFIED),
    )  # fmt: skip
    seconds = rng.choice([6.0, 12.0, 20.0])
    streams = [*wide, *(f"s-{number}" for number in range(rng.choice([1, 2, 3])))]
    if aim.is_spread:
        seconds, streams, wide = 40.0, _one_in_each(config.kafka.partitions), {}
    mistake = None
    if aim.has_mistake:
        seconds, streams, wide = 20.0, streams[-1:], {}
        mistake = Mistake(rng.choice([LATE, LATE, *KINDS]), streams[-1], rng.choice([6.0, 10.0]))
        if mistake.kind in CLOCKS and rng.random() < 0.4:
            mistake = mistake._replace(since=3.0, most=2)
    sends, outcomes, doubtful = _sends(rng, streams, seconds, aim, mistake, degrades=notifiers > 0)
    if ingests:
        sends = [send._replace(topic=SOURCE) if send.topic == "labels" else send for send in sends]
    programs = [*range(workers), *(INGESTS + number for number in range(ingests))]
    programs += [NOTIFIERS + number for number in range(notifiers)]
    if aim.ingests == (2,):
        programs = programs[workers:]
    packed = random.Random(f"packed {seed}")
    is_packed = packed.random() < 0.2 and not (ingests or aim.has_mistake)
    if is_packed:
        sends = _packed(packed, sends)
    poison = rng.choice(_POISONS) if rng.random() < aim.poison else None
    if poison is not None:
        sends = sorted(
            [*sends, poison_at(rng.random() * seconds, streams[-1], poison)], key=lambda send: send.time
        )
    narrow = random.Random(f"narrow {seed}").random()
    is_narrow = aim.is_narrow or narrow < (0.5 if is_packed else 0.1)
    return Plan(
        config, workers, ingests, notifiers, sends, _faults(rng, programs, seconds, aim),
        shuffles=rng.random() < 0.7, is_static=rng.random() < 0.2 and protocol == CLASSIC,
        poison=poison, misfortunes=config.worker.quarantine_after - 1 if poison == UNLUCKY else 0,
        is_packed=is_packed, is_narrow=is_narrow, jitter=aim.jitter,
        mistake=mistake,
        webhook_loss=own.choice([0.0, 0.3]), outcomes=outcomes, doubtful=doubtful,
    )  # fmt: skip


#: Longest time between records that share a message, in seconds, and most records of one.
_TOGETHER_SECONDS, _MOST_TOGETHER = 0.15, 5


def _packed(rng: random.Random, sends: Sequence[Send]) -> list[Send]:
    """The same records, of which some share a message (a JSON array); one of these is invalid."""
    groups: list[list[Send]] = []
    newest: dict[tuple[str, bytes | None], list[Send]] = {}
    for send in sends:
        group = newest.get((send.topic, send.key))
        if (
            group is not None
            and send.in_transaction is None
            and send.time - group[0].time < _TOGETHER_SECONDS
            and len(group) < _MOST_TOGETHER
        ):
            group.append(send)
            continue
        groups.append([send])
        if send.in_transaction is None:
            newest[send.topic, send.key] = groups[-1]
    messages = [_message(group) for group in groups]
    single = [index for index, group in enumerate(groups) if len(group) == 1]
    if single:
        index = rng.choice(single)
        value = b"[%b,{}]" % (messages[index].value or b"")
        messages[index] = messages[index]._replace(value=value)
    return sorted(messages, key=lambda send: send.time)


def _message(group: Sequence[Send]) -> Send:
    if len(group) == 1:
        return group[0]
    text = b",".join(send.value or b"" for send in group)
    # No label comes before a prediction that it followed.
    sent = group[-1] if group[0].topic == "labels" else group[0]
    return sent._replace(value=b"[%b]" % text)


#: The instances of records at which workers die, in one way or another (`machine.py`).
_POISONS = (POISON, CRASH, UNREADABLE, CRASH_OF_PARSER, UNLUCKY)


def _one_in_each(partitions: int) -> list[str]:
    """The name of a stream in each partition."""
    names = {partition_of(f"s-{number}", partitions): f"s-{number}" for number in range(50)}
    return [names[partition] for partition in range(partitions)]


def poison_at(time: float, stream: str, instance: str = POISON) -> Send:
    """A record at which workers die."""
    value = {"stream": stream, "instance_id": instance, "model": "m", "y_pred": "a"}
    return Send(time, "predictions", stream.encode(), json.dumps(value).encode())


#: The stream whose records lie in all partitions.
_WIDE = "wide"

#: The topic from which `ingest` takes labels, its partitions, and the number of the first process of it.
SOURCE, SOURCE_PARTITIONS, INGESTS = "truths", 2, 10

#: The number of the first process of `notify`.
NOTIFIERS = 20


@cache
def _source() -> SourceConfig:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ingest.yaml"
        path.write_text(_INGEST, encoding="utf-8")
        return load_config(str(path)).ingest[0]


_INGEST = f"""
ingest:
  {SOURCE}:
    as: labels
    stream: value.stream
    instance_id: value.instance_id
    y_true: value.y_true
"""

#: So sensitive that short streams have alarms and incidents.
_DETECTORS = (DetectorConfig("page-hinkley", "error", {"delta": 0.01, "lambda": 1.0}, fixed=True),)


def _stream(rng: random.Random) -> StreamConfig:
    return StreamConfig(
        emit_outcomes=rng.choice([1, 3, 5, None]) if rng.random() < 0.8 else None,
        emit_every=rng.choice([1_000, 2_000, 5_000]),
        emit_idle=rng.choice([None, 1_000, 3_000]),
        estimators=("all", "window:10") if rng.random() < 0.5 else ("all",),
        label_horizon=600_000,
        settle=rng.choice([5_000, 60_000]),
        compare="all" if rng.random() < 0.15 else "off",
        detectors=_DETECTORS if rng.random() < 0.3 else (),
        measures=("error", "accuracy"),
    )


def _worker(rng: random.Random) -> WorkerConfig:
    return WorkerConfig(
        session_timeout=rng.choice([2_000, 4_000]),
        grace=rng.choice([100, 200]),
        commit_every=rng.choice([50, 200, 500]),
        snapshot_every=rng.choice([100, 500, 3_000]),
        quarantine_after=rng.choice([2, 3]),
        stop_within=30_000,
    )


def _sends(
    rng: random.Random,
    streams: Sequence[str],
    seconds: float,
    aim: Aim,
    mistake: Mistake | None,
    *,
    degrades: bool,
) -> tuple[list[Send], dict[tuple[str, str], int], dict[tuple[str, str], int]]:
    """Instances, predictions of two models, and labels; some come twice, some in transactions.

    If it `degrades`, nearly all predictions are wrong from some time on, so that there are alarms.
    """
    sends: list[Send] = []
    outcomes: dict[tuple[str, str], int] = {}
    doubtful: dict[tuple[str, str], int] = {}
    is_quick, in_transactions = rng.random() < aim.quick, rng.random() < aim.in_transactions
    longest = rng.choice(aim.longest)
    count = rng.choice([10, 20, 40]) if mistake is None and not degrades else 60
    count = aim.instances or count
    wrong = 0  # instances with the mistake
    bursts = [rng.random() * seconds * 0.7 for _ in range(3)] if rng.random() < 0.4 else []
    for number in range(count):
        stream = rng.choice(streams)
        begins = rng.random() * seconds * 0.8
        if bursts:  # and silences in between
            begins = rng.choice(bursts) + rng.random() * 0.4
        truth = rng.choice("ab")
        label_at = begins + 1.0 + rng.random() * (0.4 if bursts else seconds * 0.2)
        if is_quick:
            label_at = begins + 0.11 + 0.02 * (label_at - begins)

        kind = None
        if (
            mistake is not None
            and stream == mistake.stream
            and mistake.since <= begins < mistake.until
            and wrong < mistake.most
        ):
            kind = mistake.kind
            wrong += 1
        instance = f"{kind}{number:03}" if kind in (LATE, *CLOCKS) else f"i{number:03}"
        key = key_of(stream, instance, {_WIDE})

        def send(topic: str, time: float, **fields: Any) -> None:
            value = {"stream": stream, "instance_id": instance, **fields}  # noqa: B023
            if kind == IDS and topic == "labels":  # noqa: B023
                value["instance_id"] = f"ids{number:03}"  # noqa: B023
            transaction = None
            if in_transactions and rng.random() < 0.2:
                transaction = (rng.random() * longest, True)
                if rng.random() < 0.3:  # an attempt that is aborted, with something else in it
                    wrong = {**value, "instance_id": f"aborted{number}"}  # noqa: B023
                    aborted = json.dumps(wrong).encode()
                    sends.append(Send(time, topic, key, aborted, None, (rng.random(), False)))  # noqa: B023
            for again in range(rng.choice([1] * 9 + [2])):
                later = time + again * rng.random() * 0.2
                sends.append(Send(later, topic, key, json.dumps(value).encode(), None, transaction))  # noqa: B023

        if rng.random() < 0.7:
            send("instances", begins)
        has_label = rng.random() < 0.9
        models = [model for model in ("m", "n") if rng.random() < 0.9] or ["m"]
        for model in models:
            is_worse = degrades and begins > seconds * 0.4
            said = truth if rng.random() < (0.05 if is_worse else 0.7) else "ab".replace(truth, "")
            predicted_at = begins + rng.random() * 0.1
            if kind == LATE:
                predicted_at += label_at + 0.2 - begins
            if kind == INVALID:
                send("predictions", predicted_at, model=model)
            else:
                time = None if kind is None else wrong_time(kind, _epoch_ms(predicted_at))
                times = {} if time is None else {"ts": time}
                send("predictions", predicted_at, model=model, y_pred=said, **times)
            if has_label and kind is None:
                outcomes[stream, model] = outcomes.get((stream, model), 0) + 1
            if has_label and kind in CLOCKS:
                doubtful[stream, model] = doubtful.get((stream, model), 0) + 1
        if has_label:
            send("labels", label_at, y_true=truth)
    sends.sort(key=lambda send: send.time)
    return sends, outcomes, doubtful


def _epoch_ms(time: float) -> int:
    """The brokers' time (epoch ms) so many seconds after the beginning."""
    return EPOCH_MS + round(1000 * (BEGINS + time))


def _faults(rng: random.Random, programs: Sequence[int], seconds: float, aim: Aim) -> list[Fault]:
    kinds = rng.choices(list(aim.kinds), list(aim.kinds.values()), k=rng.choice(aim.faults))
    faults = [
        Fault(
            rng.random() * seconds * (0.3 if aim.is_spread else 1.0),
            kind,
            worker=rng.choice(programs),
            seconds=_seconds(rng, kind, aim),
            strength=_strength(rng, kind),
            settings=_SETTINGS[kind](rng) if kind in _SETTINGS else _within(rng, kind, aim),
        )
        for kind in kinds
    ]
    return sorted(faults, key=lambda fault: fault.time)


def _within(rng: random.Random, kind: str, aim: Aim) -> dict[str, Any]:
    request = rng.choice(aim.within) if kind in ("kill", "pause", "cut") else None
    return {} if request is None else {"within": request}


def _seconds(rng: random.Random, kind: str, aim: Aim) -> float:
    if kind == "rebuild":
        return 2.0
    if kind == "overtake":
        return rng.uniform(0.05, 0.18)
    if kind == "strand":
        return rng.uniform(0.5, 3.0)
    if kind in ("pause", "cut", "leaderless") and aim.away is not None:
        return rng.uniform(*aim.away)
    if kind in ("full", "leaderless"):
        return rng.choice([1.0, 5.0, 25.0]) * rng.uniform(0.5, 1.0)
    if kind in ("pause", "cut"):
        return rng.choice([0.1, 1.0, 3.0, 8.0, 15.0, 30.0]) * rng.uniform(0.5, 1.0)
    return rng.choice([1.0, 5.0]) * rng.random() if kind in ("slow", "lose", "late", "markers") else 0.0


def _strength(rng: random.Random, kind: str) -> float:
    if kind in ("kill", "grow", "pause", "cut"):  # at once, or within so many requests
        return float(rng.choice([0, 1, 1, 2, 3, 5]))
    if kind == "slow":
        return rng.choice([10.0, 100.0, 1_000.0])
    if kind == "lose":
        return rng.choice([0.05, 0.3, 0.8])
    if kind == "retention":  # whether workers need what goes
        return rng.choice([0.0, 0.0, 1.0])
    if kind == "late":
        return rng.choice([0.1, 0.3])
    if kind == "markers":
        return rng.choice([0.3, 3.0])
    return rng.choice([-5.0, -0.2, 0.3, 60.0]) if kind == "clock" else 0.0


def _worker_settings(rng: random.Random) -> dict[str, Any]:
    return {
        "commit_every": rng.choice([50, 300, 1_000]),
        "snapshot_every": rng.choice([100, 3_000]),
        "grace": rng.choice([100, 300]),
    }


def _stream_settings(rng: random.Random) -> dict[str, Any]:
    settings = {
        "estimators": rng.choice([("all",), ("all", "window:10"), ("all", "fading:0.9")]),
        "emit_outcomes": rng.choice([1, 3, 5]),
        "measures": rng.choice([("error",), ("error", "accuracy", "kappa")]),
        "detectors": rng.choice([(), _DETECTORS]),
        "settle": rng.choice([5_000, 60_000]),
    }
    return {name: settings[name] for name in rng.sample(list(settings), rng.choice([1, 2]))}


def _full_topics(rng: random.Random) -> dict[str, Any]:
    own = [JOURNAL, SNAPSHOTS, METRICS, DEAD_LETTERS, PARTS, "labels"]
    return {"topics": rng.choice([own, *([name] for name in own)])}


#: By kind of fault: what it changes.
_SETTINGS: Mapping[str, Callable[[random.Random], dict[str, Any]]] = {
    "reconfigure": _worker_settings, "revise": _stream_settings, "full": _full_topics,
}  # fmt: skip

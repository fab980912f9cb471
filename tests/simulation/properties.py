"""What must hold when a world has ended."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from prequential.configuration.settings.model import Config
from prequential.offline.replay.from_topics import replay_topics
from prequential.runtime.worker.journal import Lost, decode_entry
from prequential.topics.encoding import encode
from prequential.topics.outputs import ALL_PARTITIONS, Alarm, Encoded, Incident
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import (
    COMPARISONS,
    DEAD_LETTERS,
    DISPARITIES,
    DRIFT_ALARMS,
    INCIDENTS,
    INPUTS,
    JOURNAL,
    METRICS,
)
from rich.progress import Progress

from tests.simulation import quarantine
from tests.simulation.machine import UNLUCKY
from tests.simulation.ordering import first_disorder
from tests.simulation.plan import SOURCE
from tests.simulation.webhook import first_missing

if TYPE_CHECKING:
    from tests.simulation.world import World

OUTPUTS = (METRICS, COMPARISONS, DISPARITIES, DRIFT_ALARMS, INCIDENTS)


#: What workers may end with: the cluster, or what an operator has to do.
_EXPECTED = ("no Kafka broker answered", "--rebuild", "thrown this worker out")

#: A finding about labels of settled instances.
_AFTER_SETTLE = re.compile(
    r"looks wrong: (?P<stream>\S+): (?P<count>\d+) of \d+ labels .* settled and forgotten "
    r"\(first: labels/(?P<partition>\d+) offset (?P<offset>\d+)\)"
)

#: Faults that change neither times nor what is there at one time: no prediction may come late for them.
_GENTLE = {"kill", "terminate", "compact", "reconfigure", "stray", "rebuild", "damage", "grow"}


def check(world: World) -> None:
    """Raise Broken for the first property that does not hold."""
    _nothing_failed(world)
    published = _published(world)
    _each_once(published)
    _plain_repeats_are_copies(world)
    _journal_counts(world)
    if (why := quarantine.why_wrong(world)) is not None:
        raise _broken(why)
    _ingested_once(world)
    if world.plan.notifiers and (missing := first_missing(world)) is not None:
        raise _broken(missing)
    _in_order_of_time(world)
    if (losses := list(_accepted_losses(world))) or world.removed:
        _losses_are_said(world, losses)
    if world.revisions:
        _as_replayed_before(world, published)
    elif not losses:
        _as_replayed(world, published)


def _broken(why: str) -> Exception:
    from tests.simulation.world import Broken

    return Broken(why)


def _nothing_failed(world: World) -> None:
    """No worker has met an error that it does not expect; the loop has none to report."""
    for line in world.story.lines:
        if line.text.startswith("critical: ") and not (
            world.plan.has_poison and "the record is poison" in line.text
        ):
            raise _broken(f"{line.who}: {line.text}")
        has_invalid = world.plan.has_poison or world.plan.is_packed
        is_right = has_invalid and "are invalid; most often" in line.text
        is_right |= "no such stream occurs" in line.text  # not yet
        is_right |= any(fault.kind == "clock" for fault in world.plan.faults)
        is_right |= (line.who, line.text) in world.true_findings or _came_after_settle(world, line.text)
        # Where predictions and their labels come twice by chance, which so few records don't tell apart.
        is_right |= "ids come again while their labels are pending" in line.text
        if line.text.startswith("warning: looks wrong") and not is_right:
            raise _broken(f"{line.who} finds a mistake where there is none: {line.text}")
    kinds = {fault.kind for fault in world.plan.faults}
    is_damaged = bool(kinds & {"damage", "format"})
    is_refused = any("the snapshot has format" in refusal for refusal in world.refusals)
    if is_refused != bool(world.former_formats) and not (world.former_formats and kinds & {"damage"}):
        raise _broken(
            f"{world.former_formats} snapshots had an earlier format, and workers say {world.refusals}"
        )
    for refusal in world.refusals:
        if "--rebuild" in refusal and not is_damaged:
            raise _broken(f"a worker refuses a snapshot that nobody has damaged: {refusal}")
        # A client that is stranded before its process is ready: the process ends, and the next one goes on.
        if "strand" in kinds and "Local: Timed out" in refusal:
            continue
        if not any(expected in refusal for expected in _EXPECTED):
            raise _broken(f"a worker has ended: {refusal}")
    for error in world.loop.errors:
        raise _broken(f"the event loop reports {error.get('message')}: {error.get('exception')!r}")


def _came_after_settle(world: World, text: str) -> bool:
    """Whether a finding is one about labels of settled instances, and is true.

    Such labels come from `ingest` processes that were away. The label at the place that the finding names
    must have come after the time to settle since another label of its instance, and so many must have.
    """
    said = _AFTER_SETTLE.search(text)
    if said is None:
        return False
    first: dict[str, int] = {}
    late: set[tuple[int, int]] = set()
    settle = world.config.stream(said["stream"]).settle
    for partition, entry in _committed(world, INPUTS[2]):
        value = json.loads(entry.record.value)
        if value["stream"] != said["stream"]:
            continue
        if entry.time - first.setdefault(value["instance_id"], entry.time) > settle:
            late.add((partition, entry.offset))
    return int(said["count"]) <= len(late) and (int(said["partition"]), int(said["offset"])) in late


def _committed(world: World, topic: str) -> list[tuple[int, Any]]:
    """The committed entries of a topic, with their partitions."""
    logs = world.cluster.topics.get(world.config.kafka.topic(topic), [])
    return [(log.number, entry) for log in logs for entry in log.read(0, log.stable_end, committed=True)]


def _published(world: World) -> Counter[tuple[str, int, bytes]]:
    """The messages that read_committed readers have got: topic, partition and content."""
    found: Counter[tuple[str, int, bytes]] = Counter()
    for topic in OUTPUTS:
        for partition, entry in _committed(world, topic):
            found[topic, partition, entry.record.value] += 1
    return found


def _each_once(published: Counter[tuple[str, int, bytes]]) -> None:
    ids: dict[tuple[str, str], bytes] = {}
    for (topic, partition, value), times in published.items():
        if times > 1:
            raise _broken(f"{topic}/{partition}: published {times} times: {value[:200]!r}")
        message = json.loads(value)
        key = topic, f"{message['id']} {message.get('revision', '')}"
        if key in ids:
            raise _broken(f"{topic}: two contents of one id: {ids[key][:300]!r} and {value[:300]!r}")
        ids[key] = value


def _plain_repeats_are_copies(world: World) -> None:
    """Who also reads what is not committed may see a message again, with the same content.

    What is not committed when settings change is made again by the new ones, which the message names.
    """
    contents: dict[tuple[str, str, str | None], bytes] = {}
    for topic in OUTPUTS:
        for log in world.cluster.topics.get(world.config.kafka.topic(topic), []):
            for entry in log.read(0, log.end, committed=False):
                value = entry.record.value
                message = json.loads(value)
                key = topic, f"{message['id']} {message.get('revision', '')}", message.get("config")
                if contents.setdefault(key, value) != value:
                    raise _broken(f"{topic}: plain readers see two contents of one id: {value[:300]!r}")


def _ingested_once(world: World) -> None:
    """Each record of the source is one label."""
    if not world.plan.ingests:
        return
    sources = Counter(
        json.loads(entry.record.value)["instance_id"]
        for log in world.cluster.topics[SOURCE]
        for entry in log.read(0, log.end, committed=True)
    )
    labels = Counter(
        json.loads(entry.record.value)["instance_id"] for _, entry in _committed(world, "labels")
    )
    if sources != labels:
        raise _broken(
            f"ingest has lost {dict(sources - labels)}, and written too often {dict(labels - sources)}"
        )


def _accepted_losses(world: World) -> Iterator[tuple[int, Lost]]:
    """The losses in the journals, with their shards."""
    for partition in range(world.config.kafka.partitions):
        for entry in world.journal(partition):
            if isinstance(entry.note, Lost):
                yield partition, entry.note


def _losses_are_said(world: World, losses: list[tuple[int, Lost]]) -> None:
    """Shards halt only where records that they need are gone; then they say it, and so do messages."""
    halted = {
        int(line.text.partition("shard ")[2].split()[0])
        for line in world.story.lines
        if line.text.startswith("error: shard") and " halted: retention deleted records" in line.text
    }
    lost = {partition for partition, _ in losses}
    if not halted == lost <= world.removed:
        raise _broken(f"shards {halted} have halted, {lost} have losses, {world.removed} lack records")
    for partition, loss in losses:
        said = sum(loss.missing[:3]) + loss.missing[4]
        gone = sum(end - start for start, end in zip(loss.start, loss.begins))
        if said != gone:
            raise _broken(f"shard {partition} says {loss.missing}, and lacks {gone} records: {loss}")
    messages = [json.loads(entry.record.value) for _, entry in _committed(world, METRICS)]
    newest = {message["partition"]: message for message in messages}
    for partition, loss in losses:
        if partition not in newest or newest[partition]["ts"] <= _time_of(world, partition, loss):
            continue  # nothing has come since
        counts = newest[partition]["counts"]
        # Of what is gone, outputs may be published: messages count the rest.
        if any(loss.missing[:4]) and not (counts.get("lost_records") or counts.get("lost_journal_entries")):
            raise _broken(f"messages of shard {partition} don't say what is lost: {counts}")


def _time_of(world: World, partition: int, loss: Lost) -> int:
    """The brokers' time (ms) at which a loss was written into the journal."""
    log = world.cluster.topics[world.config.kafka.topic(JOURNAL)][partition]
    return next(
        entry.time
        for entry in log.read(0, log.end, committed=True)
        if entry.record is not None and decode_entry(entry.record.value or b"").note == loss
    )


def _in_order_of_time(world: World) -> None:
    """Without faults, each shard takes its records in the order of time."""
    if {fault.kind for fault in world.plan.faults} - {"compact"} or world.plan.has_poison:
        return
    for partition in range(world.config.kafka.partitions):
        logs = [world.cluster.topics[world.config.kafka.topic(name)][partition] for name in INPUTS]
        vectors = [vector for entry in world.journal(partition) for vector in entry.vectors]
        if (disorder := first_disorder(logs, vectors, _restored(world, partition))) is not None:
            raise _broken(disorder)


def _restored(world: World, partition: int) -> int:
    """The brokers' time (ms) at which a worker took a shard over for the last time."""
    times = [line.time for line in world.story.lines if line.text == f"info: shard {partition}: running"]
    return world.cluster.now_ms() - round(1000 * (world.loop.time() - world.story._began - times[-1]))


def _journal_counts(world: World) -> None:
    """The entries of each journal are numbered without gaps or repetitions."""
    numbers: dict[int, list[int]] = {}
    for partition, entry in _committed(world, JOURNAL):
        numbers.setdefault(partition, []).append(decode_entry(entry.record.value).number)
    for partition, own in numbers.items():
        if own != list(range(1, len(own) + 1)):
            raise _broken(f"journal {partition}: its entries have the numbers {own}")


class Replayed(NamedTuple):
    """What a replay makes of the topics: messages by topic, partition and content; and dead letters."""

    messages: Counter[tuple[str, int, bytes]]
    letters: Counter[tuple[int, int, int, int | None]]


def _replay(world: World, config: Config) -> Replayed:
    replayed = Replayed(Counter(), Counter())
    partitions = world.config.kafka.partitions

    def put(output: Any) -> None:
        if isinstance(output, Encoded):
            topic, value = output.topic, output.json
        elif isinstance(output, (Alarm, Incident)):
            topic, value = DRIFT_ALARMS if isinstance(output, Alarm) else INCIDENTS, encode(output)
        else:
            return
        message = json.loads(value)
        partition = message["partition"]
        if partition == ALL_PARTITIONS:
            partition = partition_of(message["stream"], partitions)
        replayed.messages[topic, partition, value] += 1

    def dead(letter: Any, partition: int, *_: Any) -> None:
        replayed.letters[partition, letter.kind, letter.offset, letter.row] += 1

    with Progress(disable=True) as progress:
        world.run_thread(lambda: replay_topics(config, put, dead, progress))
    return replayed


def _as_replayed_before(world: World, published: Counter[tuple[str, int, bytes]]) -> None:
    """What was published by the first settings is as replayed by them, and labels count once later."""
    first = world.plan.config
    replayed = _replay(world, first)
    outcomes: dict[tuple[str, str], int] = {}
    for key in published:
        topic, partition, value = key
        message = json.loads(value)
        stream = message["stream"]
        digests = [config.stream(stream).digest for config in (first, *world.revisions)]
        if message.get("config") == digests[0] not in digests[1:] and not replayed.messages[key]:
            raise _broken(
                f"{topic}/{partition}: published by the first settings, and not by a replay: {value[:400]!r}"
            )
        if topic == METRICS and message["segment"] is None and message["stage"] == "final":
            model = stream, message["model"]
            outcomes[model] = max(outcomes.get(model, 0), message["outcomes"])
    for model, count in outcomes.items():
        if count > world.plan.outcomes.get(model, 0):
            raise _broken(f"{model} has {count} outcomes: expected {world.plan.outcomes.get(model, 0)}")
    _letters_are(world, replayed)


def _as_replayed(world: World, published: Counter[tuple[str, int, bytes]]) -> None:
    """What was published is what a replay makes of the topics, and each label counts once."""
    result = _replay(world, world.config)
    replayed = result.messages
    missing = published - replayed
    if missing:
        topic, partition, value = next(iter(missing))
        raise _broken(
            f"{topic}/{partition}: {len(missing)} messages were published that a replay does not make; "
            f"the first: {value[:400]!r}"
        )
    _nothing_is_missing(replayed - published, published)
    _letters_are(world, result)
    expected = (world.plan.poison not in (None, UNLUCKY)) + world.plan.is_packed
    _labels_count_once(world, replayed, max(0, len(result.letters) - expected))


def _letters_are(world: World, replayed: Replayed) -> None:
    """Each invalid record is published once as a dead letter."""
    letters: Counter[Any] = Counter()
    for _, entry in _committed(world, DEAD_LETTERS):
        letters[tuple(dict(entry.record.headers).values())] += 1
    if any(times > 1 for times in letters.values()):
        raise _broken(f"a dead letter was published twice: {letters.most_common(1)}")
    if len(letters) != len(replayed.letters):
        raise _broken(f"{len(letters)} dead letters were published, a replay makes {len(replayed.letters)}")


def _nothing_is_missing(
    extra: Counter[tuple[str, int, bytes]], published: Counter[tuple[str, int, bytes]]
) -> None:
    """What only the replay has is its last set: at most one message of each sequence.

    Streams in all partitions are merged up to a time that all of them have reached: what comes after the
    last message is not published yet.
    """
    sequences: Counter[tuple[Any, ...]] = Counter()
    merged: dict[tuple[str, str], int] = {}
    for topic, _, value in published:
        message = json.loads(value)
        if message["partition"] == ALL_PARTITIONS:
            key = topic, message["stream"]
            merged[key] = max(merged.get(key, 0), message["ts"])
    for topic, partition, value in extra:
        if topic not in (METRICS, COMPARISONS, DISPARITIES):
            raise _broken(f"{topic}/{partition}: never published: {value[:400]!r}")
        message = json.loads(value)
        if message["partition"] == ALL_PARTITIONS and message["ts"] >= merged.get(
            (topic, message["stream"]), 0
        ):
            continue
        names = ("stream", "model", "against", "segment", "stage", "estimator", "loss", "key")
        sequences[
            (topic, message["partition"], message.get("measure"), *(message.get(name) for name in names))
        ] += 1
        if "period" in message:
            raise _broken(f"{topic}/{partition}: a period was never published: {value[:400]!r}")
    for sequence, times in sequences.items():
        if times > 1:
            raise _broken(f"{times - 1} messages of {sequence} were never published")


def _labels_count_once(world: World, replayed: Counter[tuple[str, int, bytes]], rejected: int) -> None:
    """Each instance with a prediction and a label is an outcome, unless the prediction came too late.

    A record at which workers were killed may be `rejected` though it is not to blame.
    """
    outcomes: dict[tuple[str, str, str], int] = {}
    missing: dict[tuple[str, str], int] = {}
    for topic, _, value in replayed:
        if topic == METRICS:
            message = json.loads(value)
            if "period" in message or message["segment"] is not None:
                continue
            if message["stream"] in world.config.wide and message["partition"] != ALL_PARTITIONS:
                continue
            model = message["stream"], message["model"]
            sequence = *model, message["stage"]
            outcomes[sequence] = max(outcomes.get(sequence, 0), message["outcomes"])
            missing[model] = message["counts"]["late"] + message["counts"]["waiting"]
    for (stream, model, stage), count in outcomes.items():
        expected = world.plan.outcomes.get((stream, model), 0)
        is_gentle = {fault.kind for fault in world.plan.faults} <= _GENTLE
        # A prediction that comes after all of its instance was forgotten waits for another label.
        fewer = rejected + (0 if is_gentle else missing[stream, model])
        if world.removed:  # before any worker had seen them
            fewer = expected
        if not expected - fewer <= count <= expected + world.plan.doubtful.get((stream, model), 0):
            raise _broken(
                f"{stream}/{model} has {count} outcomes ({stage}), and {missing[stream, model]} predictions "
                f"that came late or wait: expected {expected}"
            )
    silent = (
        set()
        if world.removed
        else {key for key, count in world.plan.outcomes.items() if count} - {key[:2] for key in outcomes}
    )
    if silent:
        raise _broken(f"no messages about {sorted(silent)}")

"""Send instances, predictions and labels from a model server.

Example::

    with StreamProducer(KafkaConfig("kafka:9092")) as producer:
        producer.instance("elec2", 17)
        producer.prediction("elec2", "nb", 17, "UP", y_proba={"UP": 0.8, "DOWN": 0.2})
        producer.label("elec2", 17, "DOWN")
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Union

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from prequential.topics import values
from prequential.topics.clients import KafkaConfig, plain_errors
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.messages import INPUT_MESSAGE_BYTES, MAX_VALUE_BYTES, PredictionNumbers
from prequential.topics.partitioning import key_of
from prequential.topics.permissions import Permission, refusal
from prequential.topics.values import Class, Id, Time
from prequential.topics.wall_clock import now_ms

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Milliseconds for which a record waits for company: the batches of a busy server are full much
#: earlier, and next to a label's delay it is nothing.
_LINGER_MS = 5

#: Seconds between two looks whether a full local queue has room again.
_ROOM_SECONDS = 0.1

#: Seconds for which `flush` waits: a cluster's change of leaders is over by then.
_FLUSH_SECONDS = 30.0

#: librdkafka's names for where a key belongs (see `prequential.topics.partitioning`); its own default,
#: CRC-32, and all others put a stream elsewhere than other producers do. They differ for records without key.
_PARTITIONERS = ("murmur2_random", "murmur2")

_encode = msgspec.json.Encoder(enc_hook=values.written).encode

_P = TypeVar("_P", bound="RecordProducer")

#: Takes a record that isn't delivered: its topic without prefix, its key, its value and the reason.
Spill = Callable[[str, Union[bytes, None], bytes, str], None]


class DeliveryError(WorkError):
    """Records that a producer had accepted weren't delivered.

    Attributes
    ----------
    topic
        Full name of the topic of the first of them.
    key
        Its key.
    reason
        Why it wasn't delivered.
    others
        How many more there were.

    Examples
    --------
    >>> print(DeliveryError("labels", b"elec2", "Local: Message timed out", others=2))
    a record with key 'elec2' was not delivered to topic 'labels' (nor 2 others): Local: Message timed out
    """

    def __init__(self, topic: str, key: bytes | None, reason: str, others: int = 0) -> None:
        self.topic, self.key, self.reason, self.others = topic, key, reason, others
        name = None if key is None else key.decode(errors="replace")
        more = f" (nor {others} others)" if others else ""
        super().__init__(f"a record with key {name!r} was not delivered to topic {topic!r}{more}: {reason}")


class RecordProducer:
    """Records into topics, idempotently, placed by their keys as the Java client and Faust do.

    Delivery goes on in the background. What fails is raised as DeliveryError by the next call, or by `flush`;
    at the end of a `with` block `flush` is called. Several threads may share one producer. Where records time
    out although the cluster is well, make a new producer: librdkafka's client may have lost its brokers for
    good (see `prequential.topics.clients.is_stranded`).

    While the brokers don't answer, records wait in memory, each for librdkafka's `delivery.timeout.ms` (5
    minutes). When they answer again, the records that wait are sent, each once. Without `buffer`, a call
    waits while librdkafka's queue is full (100,000 records or 1 GiB). With `buffer` no call waits. A record
    that isn't delivered (no room, timed out, or still waiting at the end of a `with` block) goes to `spill`;
    without one it is a DeliveryError.

    Parameters
    ----------
    kafka
        The cluster, and the prefix of its topics.
    wide
        Streams with `key: instance`, whose records are keyed by the ids of their instances.
    buffer
        The most records that wait for their delivery; None: librdkafka's limits, and calls wait for room.
    spill
        Called as `spill(topic, key, value, reason)` with each record that isn't delivered, in whichever
        thread uses the producer; the topic has no prefix. Write the value to a file, and send it later with
        `send` or `prequential produce`. It must not use the producer. What it raises, the call raises.
    **settings
        librdkafka's, which win over the defaults, but for the partitioner (`**{"linger.ms": 50}`).

    Raises
    ------
    UsageError
        For another partitioner than Java's, settings that librdkafka refuses, a `buffer` that isn't at least
        1, and secrets that can't be read.
    """

    def __init__(
        self, kafka: KafkaConfig, *, wide: Collection[str] = (), buffer: int | None = None,
        spill: Spill | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        self.kafka = kafka
        self._wide = frozenset(wide)
        self._buffer, self._spill = buffer, spill
        if buffer is not None:
            if isinstance(buffer, bool) or not isinstance(buffer, int) or buffer < 1:
                raise UsageError(f"buffer is {buffer!r}: expected a number of records from 1 on, or None")
            settings["queue.buffering.max.messages"] = buffer
        _check_partitioner(settings, "the producer's settings")
        _check_partitioner(kafka.security, "kafka.security")
        self._failures: list[tuple[str, bytes | None, str]] = []
        self._lock = Lock()  # guards _failures: librdkafka reports in whichever thread polls
        defaults = {
            "partitioner": _PARTITIONERS[0],
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": _LINGER_MS,
            "compression.type": "lz4",
            "message.max.bytes": INPUT_MESSAGE_BYTES,
        }
        with plain_errors(kafka):
            self._producer = Producer(
                kafka.client(**{**defaults, **settings, "on_delivery": self._on_delivery})
            )

    def send(self, topic: str, key: bytes | None, value: bytes) -> None:
        """Queue one record; without `buffer`, wait while the queue is full.

        Parameters
        ----------
        topic
            Its name without prefix.
        key
            What its partition follows from; None: any partition.
        value
            Its value.

        Raises
        ------
        DeliveryError
            For records that failed since the last call, or for this one: it may be larger than
            `message.max.bytes`, there may be no room in the `buffer`, or the producer may be unable to go on.
            With `spill`, only for a record that is too large, and if the producer is unable to go on.
        """
        self._raise_failures()
        name = self.kafka.topic(topic)
        polled = False
        while True:
            try:
                self._producer.produce(name, value, key)
                break
            except BufferError:
                if polled and self._buffer is not None:
                    self._fail(name, key, value, f"{self._buffer:,} records are waiting for the brokers")
                    break
                self._producer.poll(_ROOM_SECONDS if self._buffer is None else 0)
                polled = True
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise DeliveryError(name, key, f"its value has {len(value)} bytes") from error
                raise DeliveryError(name, key, error.args[0].str()) from error
        self._producer.poll(0)
        if self._buffer is not None:
            self._raise_failures()

    def flush(self, timeout: float = _FLUSH_SECONDS) -> None:
        """Wait until every record is delivered.

        Parameters
        ----------
        timeout
            Seconds to wait at most.

        Raises
        ------
        DeliveryError
            If one failed.
        WorkError
            If some are still on their way after `timeout` seconds.
        """
        waiting = self._producer.flush(timeout)
        self._raise_failures()
        if waiting:
            raise WorkError(
                f"Kafka at {self.kafka.bootstrap_servers} did not take {waiting} records within {timeout:g} s"
            )

    def __enter__(self: _P) -> _P:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush; an error that is already on its way is not replaced by a failed delivery.

        With `spill`, records that the brokers still haven't taken go to it.
        """
        try:
            self.flush()
        except WorkError:
            if self._spill is not None:
                self._spill_the_rest()
            elif error is None:
                raise

    def _spill_the_rest(self) -> None:
        """Give up the records that wait for the brokers; each then counts as not delivered."""
        self._producer.purge(in_queue=True, in_flight=True)
        while len(self._producer):
            self._producer.poll(_ROOM_SECONDS)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            topic = message.topic() or ""
            why = refusal(self.kafka, error, Permission("Write", "topic", topic))
            self._fail(topic, message.key(), message.value() or b"", why or error.str())

    def _fail(self, name: str, key: bytes | None, value: bytes, why: str) -> None:
        """Spill a record that isn't delivered, or note it for the next DeliveryError."""
        if self._spill is not None:
            self._spill(name[len(self.kafka.prefix) :], key, value, why)
            return
        with self._lock:
            self._failures.append((name, key, why))

    def _raise_failures(self) -> None:
        if self._failures:
            with self._lock:
                failures, self._failures = self._failures, []
            if failures:
                raise DeliveryError(*failures[0], others=len(failures) - 1)


class StreamProducer(RecordProducer):
    """What a model server says to the pipeline: an observation came, a model predicts, the truth is known.

    All methods return at once, unless librdkafka's queue is full and there is no `buffer`: `RecordProducer`
    describes what an outage of the brokers does. They raise ValueError, quoting the argument, for what would
    end in dead-letters, and DeliveryError for records that failed since the last call (see `RecordProducer`).
    numpy's scalars are understood.

    Ids are strings or integers (17 and `"17"` are the same id), classes are strings, integers or booleans;
    names and ids have at most 256 bytes of UTF-8. Where a `ts` (epoch milliseconds or a datetime with a time
    zone) is None, the time of the call by this machine's clock is sent: Kafka's own time would put a
    prediction after its label where the label's batch reaches the broker first.

    Parameters
    ----------
    kafka
        As in `RecordProducer`.
    **settings
        As in `RecordProducer`.

    Examples
    --------
    ```python
    with StreamProducer(KafkaConfig("kafka:9092")) as producer:
        producer.instance("elec2", 17)
        producer.prediction("elec2", "nb", 17, "UP", y_proba={"UP": 0.8, "DOWN": 0.2})
        producer.label("elec2", 17, "DOWN")
    ```

    >>> StreamProducer(KafkaConfig(), log_level=0).label("elec2", 17, float("nan"))
    Traceback (most recent call last):
    ...
    ValueError: y_true is nan: expected a string, an integer, a boolean or a finite number
    """

    def instance(
        self, stream: str, instance_id: Id, *, ts: Time = None, version: int | None = None,
        segments: Mapping[str, str] | None = None, label_propensity: float | None = None,
    ) -> None:  # fmt: skip
        """Say that an observation arrived.

        Parameters
        ----------
        stream
            The stream that it is of, also the record's key.
        instance_id
            What predictions and the label will name it by.
        ts
            When it arrived; None: now.
        version
            Of an instance that changes while its label is awaited: which version this is.
        segments
            Its groups, such as `{"region": "north"}`.
        label_propensity
            The probability with which it gets a label at all, from 1e-9 to 1, where only some do.

        Raises
        ------
        ValueError
            Quoting the argument that can't be used, or if the record has more than 1 MiB.
        DeliveryError
            For records that failed since the last call.

        Examples
        --------
        >>> StreamProducer(KafkaConfig(), log_level=0).instance("elec2", 17, label_propensity=0)
        Traceback (most recent call last):
        ...
        ValueError: label_propensity is 0: expected a number from 1e-09 to 1
        """
        fields = {
            "instance_id": values.identifier("instance_id", instance_id),
            "ts": _time(ts),
            "version": None if version is None else values.integer("version", version),
            "segments": values.segments(segments),
            "label_propensity": values.propensity(label_propensity),
        }
        self._say("instances", stream, fields)

    def prediction(
        self, stream: str, model: str, instance_id: Id, y_pred: Class | values.Labels, *, ts: Time = None,
        y_proba: Mapping[Any, float] | None = None, segments: Mapping[str, str] | None = None,
        model_version: Id | None = None, quantiles: Mapping[Any, float] | None = None,
        **numbers: Unpack[PredictionNumbers],
    ) -> None:  # fmt: skip
        """Say what a model predicts; as often as it changes its mind before the label is known.

        Parameters
        ----------
        stream
            As in `instance`.
        instance_id
            As in `instance`.
        model
            The model's name.
        y_pred
            The predicted class; a finite number with `task: regression`, labels with `task: multilabel`.
        ts
            When it was made; None: now.
        y_proba
            Probabilities by class, from 0 to 1, with a sum of at most 1.001. A class that is no string is
            written as one, booleans as `true` and `false`.
        segments
            Groups of the instance.
        model_version
            The version of the model that made it.
        quantiles
            Numbers by level, such as `{0.1: 3.2, 0.9: 7}`, where the stream has the measure `wis`.
        **numbers
            Numbers that some measures need: fields of `prequential.topics.messages.Prediction`.

        Raises
        ------
        ValueError
            Quoting the argument that can't be used, or if the record has more than 1 MiB.
        DeliveryError
            For records that failed since the last call.

        Examples
        --------
        >>> producer = StreamProducer(KafkaConfig(), log_level=0)
        >>> producer.prediction("elec2", "nb", 17, "UP", y_proba={"UP": 1.2})
        Traceback (most recent call last):
        ...
        ValueError: y_proba of 'UP' is 1.2: expected a probability from 0 to 1
        """
        fields = {
            "model": values.model_name(model),
            "instance_id": values.identifier("instance_id", instance_id),
            "y_pred": values.target("y_pred", y_pred),
            "ts": _time(ts),
            "y_proba": values.probabilities(y_proba, y_pred),
            "segments": values.segments(segments),
            "model_version": (
                None if model_version is None else values.identifier("model_version", model_version)
            ),
            **values.numbers(numbers),
            "quantiles": values.quantiles(quantiles),
        }
        self._say("predictions", stream, fields)

    def label(
        self, stream: str, instance_id: Id, y_true: Class | values.Labels | None, *, ts: Time = None,
        value: float | None = None,
    ) -> None:  # fmt: skip
        """Say what is true of an instance; said again with another class, it is a revision.

        Parameters
        ----------
        stream
            As in `instance`.
        instance_id
            As in `instance`.
        y_true
            As `y_pred` in `prediction`. None withdraws the label.
        ts
            When it became known; None: now.
        value
            As in `prediction`; it counts before the prediction's.

        Raises
        ------
        ValueError
            Quoting the argument that can't be used.
        DeliveryError
            For records that failed since the last call.

        Examples
        --------
        >>> StreamProducer(KafkaConfig(), log_level=0).label("elec2", 17, "DOWN", ts="today")
        Traceback (most recent call last):
        ...
        ValueError: ts is 'today': expected integer milliseconds or a datetime with a time zone
        """
        fields = {
            "instance_id": values.identifier("instance_id", instance_id),
            "y_true": None if y_true is None else values.target("y_true", y_true),
            "ts": _time(ts),
            "value": values.number("value", value),
        }
        self._say("labels", stream, fields)

    def _say(self, topic: str, stream: str, fields: Mapping[str, object]) -> None:
        name = values.text("stream", stream)
        present = {field: value for field, value in fields.items() if value is not None or field == "y_true"}
        value = _encode({"stream": name, **present})
        if len(value) > MAX_VALUE_BYTES:
            raise ValueError(
                f"the message about instance {values.quoted(fields['instance_id'])} has {len(value)} "
                f"bytes: at most {MAX_VALUE_BYTES} are allowed"
            )
        self.send(topic, key_of(name, str(fields["instance_id"]), self._wide), value)


def _check_partitioner(settings: Mapping[str, Any], setting_name: str) -> None:
    """Raise UsageError for a partitioner, in any of the ways to set one, that splits streams.

    >>> _check_partitioner({"topic.partitioner": "consistent_random"}, "kafka.security")
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: kafka.security: topic.partitioner is 'consistent_random': expected \
murmur2_random or none at all, so that a stream's records lie in the same partition of all topics, whoever \
writes them
    """
    of_topics = settings.get("default.topic.config")
    if isinstance(of_topics, Mapping):
        _check_partitioner(of_topics, f"{setting_name}, default.topic.config")
    for name in ("partitioner", "topic.partitioner"):
        if settings.get(name, _PARTITIONERS[0]) not in _PARTITIONERS:
            raise UsageError(
                f"{setting_name}: {name} is {values.quoted(settings[name])}: "
                f"expected {_PARTITIONERS[0]} or none at "
                "all, so that a stream's records lie in the same partition of all topics, whoever writes them"
            )


def _time(ts: Time) -> int:
    """A time in epoch milliseconds; None: now."""
    timestamp = values.milliseconds(ts)
    return now_ms() if timestamp is None else timestamp

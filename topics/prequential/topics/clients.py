"""How to reach Kafka: one configuration for every client, and errors in plain words."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union
from urllib.parse import unquote, urlsplit, urlunsplit

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from prequential.topics.errors import UsageError, WorkError, is_secret_setting, redacted, remember_value

#: Seconds in which a broker must have answered: enough for one that is just starting (about 5 s)
#: and for a TLS and SASL handshake over a slow line.
REACH_SECONDS = 10.0

#: Seconds in which a client that knows a broker has connected again: its pauses grow to 15 s.
_RECONNECT_SECONDS = 20.0

#: What a client says that finds no broker.
NO_BROKER = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN)

#: What passes by itself: a leader, a coordinator or a broker is another one or isn't there yet, or hasn't
#: answered in time.
_TEMPORARY = frozenset(
    {
        # A broker that has just started may not know its partitions yet.
        *NO_BROKER, KafkaError._WAIT_COORD, KafkaError._UNKNOWN_PARTITION, KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.REQUEST_TIMED_OUT, KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION, KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.UNSTABLE_OFFSET_COMMIT,
        # Of a member of a group: brokers have raised its epoch, or it joins again.
        KafkaError.STALE_MEMBER_EPOCH, KafkaError.FENCED_MEMBER_EPOCH, KafkaError.UNKNOWN_MEMBER_ID,
    }
)  # fmt: skip

#: Kafka's two group protocols: the members of a group divide its partitions, or the brokers do (KIP-848).
CLASSIC, CONSUMER = GROUP_PROTOCOLS = ("classic", "consumer")

#: Characters that Kafka allows in a topic's name.
_PREFIX = re.compile(r"[a-zA-Z0-9._-]*")

#: Longest prefix in characters: Kafka allows 249 for a name, the longest of ours takes 21.
_MAX_PREFIX = 249 - 21


@dataclass(frozen=True)
class KafkaConfig:
    """Where the cluster is and how its topics are laid out.

    Parameters
    ----------
    bootstrap_servers
        Brokers as `host:port`, separated by commas.
    prefix
        Prefix of all topic names, such as `eu.`, at most 228 characters.
    partitions
        Partitions of topics that are created.
    replication
        Replicas of topics that are created.
    security
        Settings of librdkafka, such as `sasl.mechanism`. A value `env:NAME` is read from an
        environment variable, `file:PATH` from a file, when a client starts; neither is printed.
    schema_registry
        Settings of confluent-kafka's Schema Registry client (`url`, `basic.auth.user.info`), with the same
        forms for secrets.
    group_protocol
        How workers, `ingest` and `notify` share partitions: `classic`, or `consumer` (KIP-848, brokers from
        Apache Kafka 4.0 on).

    Raises
    ------
    UsageError
        If there is no server, a number is below 1, Kafka allows no topic of that prefix, or there is no such
        group protocol.

    Examples
    --------
    >>> KafkaConfig(prefix="eu.", security={"sasl.username": "me", "sasl.password": "hush"})
    KafkaConfig(bootstrap_servers='localhost:9092', prefix='eu.', partitions=4, replication=1, \
security={'sasl.username': 'me', 'sasl.password': '***'})
    >>> KafkaConfig(partitions=0)
    Traceback (most recent call last):
    ...
    prequential.topics.errors.UsageError: kafka.partitions is 0: expected at least 1
    """

    bootstrap_servers: str = "localhost:9092"
    prefix: str = ""
    partitions: int = 4
    replication: int = 1
    security: Mapping[str, str] = field(default_factory=dict, hash=False)
    schema_registry: Mapping[str, Any] = field(default_factory=dict, hash=False)
    group_protocol: str = CLASSIC

    def __post_init__(self) -> None:
        if not self.bootstrap_servers.strip():
            raise UsageError("kafka.bootstrap_servers is empty: expected host:port")
        if "@" in self.bootstrap_servers:
            raise UsageError(
                "kafka.bootstrap_servers has a user or password: expected host:port, and `sasl.username` and "
                "`sasl.password` of kafka.security"
            )
        for name, number in (("partitions", self.partitions), ("replication", self.replication)):
            if number < 1:
                raise UsageError(f"kafka.{name} is {number}: expected at least 1")
        if not _PREFIX.fullmatch(self.prefix) or len(self.prefix) > _MAX_PREFIX:
            raise UsageError(
                f"kafka.prefix is {self.prefix[:64]!r}: expected at most {_MAX_PREFIX} letters, "
                "digits, dots, underscores and hyphens"
            )
        if self.group_protocol not in GROUP_PROTOCOLS:
            raise UsageError(
                f"kafka.group_protocol is {self.group_protocol!r}: expected {' or '.join(GROUP_PROTOCOLS)}"
            )

    def __repr__(self) -> str:
        security, registry = (
            {key: "***" if is_secret_setting(key) else value for key, value in settings.items()}
            for settings in (self.security, self.schema_registry)
        )
        return redacted(
            f"KafkaConfig(bootstrap_servers={self.bootstrap_servers!r}, prefix={self.prefix!r}, "
            f"partitions={self.partitions!r}, replication={self.replication!r}, security={security!r}"
            f"{f', schema_registry={registry!r}' if registry else ''}"
            f"{'' if self.group_protocol == CLASSIC else f', group_protocol={self.group_protocol!r}'})"
        )

    def topic(self, name: str) -> str:
        """The full name of one of the pipeline's topics: `prefix` and `name`.

        Examples
        --------
        >>> KafkaConfig(prefix="eu.").topic("labels")
        'eu.labels'
        """
        return self.prefix + name

    def client(self, **overrides: Any) -> dict[str, Any]:
        """Settings of a librdkafka client, with secrets resolved.

        Parameters
        ----------
        **overrides
            Settings that win over those of the configuration.

        Returns
        -------
        dict
            What `confluent_kafka.Producer`, `Consumer` and `AdminClient` take.

        Raises
        ------
        UsageError
            If a secret's environment variable or file can't be read.

        Examples
        --------
        >>> KafkaConfig("kafka:9092").client(**{"group.id": "g"})
        {'bootstrap.servers': 'kafka:9092', 'log_level': 0, 'group.id': 'g'}
        """
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "log_level": 0,  # errors are raised, or logged in our words; `log_level` of `security` wins
            **{key: resolved(f"kafka.security: {key}", value) for key, value in self.security.items()},
            **overrides,
        }

    def registry(self) -> dict[str, Any]:
        """Settings of a confluent-kafka client of Schema Registry, with secrets resolved.

        A user and password within the URL become `basic.auth.user.info`: HTTP clients log the URL.

        Returns
        -------
        dict
            What `SchemaRegistryClient` takes.

        Raises
        ------
        UsageError
            If a secret's environment variable or file can't be read, or the URL is none.

        Examples
        --------
        >>> KafkaConfig(schema_registry={"url": "http://registry:8081"}).registry()
        {'url': 'http://registry:8081'}
        """
        settings = {
            key: resolved(f"kafka.schema_registry: {key}", value) if isinstance(value, str) else value
            for key, value in self.schema_registry.items()
        }
        if "url" in settings:
            settings["url"], user_info = _without_user_info(settings["url"])
            if user_info is not None:
                if "basic.auth.user.info" in settings:
                    raise UsageError(
                        "kafka.schema_registry: url and basic.auth.user.info have a user: expected only one"
                    )
                settings["basic.auth.user.info"] = user_info
        return settings


def connect(kafka: KafkaConfig, timeout: float = REACH_SECONDS) -> AdminClient:
    """An admin client of a cluster that has just answered.

    Raises WorkError if no broker answers within `timeout` seconds: one sentence with the address
    and the last reason that is known. Raises UsageError for settings that librdkafka refuses.
    """
    reasons: list[str] = []

    def note(error: KafkaError) -> None:
        # "All brokers are down" follows from the reasons noted before it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            reasons.append(error.str())

    with plain_errors(kafka):
        # What would be logged is what `note` gets: it is told once, in the error's sentence.
        admin = AdminClient(kafka.client(error_cb=note, log_level=0))
        try:
            admin.list_topics(timeout=timeout)
        except KafkaException as error:
            admin.poll(0)  # serves `note`
            reason = _without_details(reasons[-1] if reasons else error.args[0].str())
            raise WorkError(
                f"no Kafka broker answered at {kafka.bootstrap_servers} within {timeout:g} s: {reason}"
            ) from error
    return admin


#: Settings with which a consumer reads assigned partitions, and reports where they end.
READ_TO_END = {"enable.auto.offset.store": False, "enable.partition.eof": True}

#: Settings with which a consumer skips records of open and aborted transactions. Retention may have deleted
#: the record at which it should start: it then starts at the first one.
READ_COMMITTED = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}


def new_consumer(kafka: KafkaConfig, group: str, **settings: Any) -> Consumer:
    """Make a consumer; `settings` win over those of the configuration.

    librdkafka needs the name of a group, which the consumer joins only if it subscribes. It commits offsets
    only if `settings` ask for that.
    """
    return Consumer(kafka.client(**{"group.id": group, "enable.auto.commit": False, **settings}))


def is_stranded(client: Union[Consumer, Producer], topic: str) -> bool:
    """Whether a client finds no broker, though the cluster has just answered a new one.

    Such a client never comes back. A broker that shuts down may say, last of all, that there are no
    brokers; librdkafka (2.10 to 2.16 at least) then forgets those that it knew, and depending on when
    the connection ends it doesn't return to `bootstrap.servers` either
    (https://github.com/confluentinc/librdkafka/issues/5301). Blocks for up to 20 s; `topic` is one that
    exists.
    """
    try:
        client.list_topics(topic, timeout=_RECONNECT_SECONDS)
    except KafkaException as error:
        return error.args[0].code() in NO_BROKER
    return False


def release_clients(clients: list[Any]) -> None:
    """Drop the last references to clients, which are in the list.

    Whatever librdkafka does to end them, and its threads, it keeps nobody waiting; but where the interpreter
    itself ends: a thread that is started then never runs, and up to Python 3.11 that is waited for.
    """
    if not sys.is_finalizing():
        with suppress(RuntimeError):  # how later ones say it
            threading.Thread(target=clients.clear, daemon=True).start()


@contextmanager
def plain_errors(kafka: KafkaConfig) -> Iterator[None]:
    """Turn librdkafka's exceptions within it into UsageError (refused settings) or WorkError (all others)."""
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() == KafkaError._INVALID_ARG:
            raise UsageError(f"kafka.security: {cause.str()}") from error
        raise WorkError(f"Kafka at {kafka.bootstrap_servers}: {cause.str()}") from error


def is_temporary(error: KafkaError) -> bool:
    """Whether an error may be gone when the same is asked again, such as a change of leader or a timeout.

    (`KafkaError.retriable` says so of transactions alone, and false of all else.)
    """
    return error.retriable() or error.code() in _TEMPORARY


def _without_user_info(urls: object) -> tuple[str, str | None]:
    """Addresses of a registry, separated by commas, and `user:password` of the first that has one.

    Raises UsageError, which shows no address that can't be read.

    >>> _without_user_info("https://me:h%40sh@one:8081,https://two:8081")
    ('https://one:8081,https://two:8081', 'me:h@sh')
    """
    plain, user_info = [], None
    for url in str(urls).split(","):
        try:
            parts = urlsplit(url.strip())
            usable = parts.scheme in ("http", "https", "mock") and (parts.port or 1)
        except ValueError:
            usable = False
        if not usable:
            raise UsageError("kafka.schema_registry.url is no address: expected e.g. http://registry:8081")
        before, separator, host = parts.netloc.rpartition("@")
        if separator:
            user, _, password = before.partition(":")
            user_info = user_info or f"{unquote(user)}:{unquote(password)}"
        plain.append(urlunsplit(parts._replace(netloc=host)))
    return ",".join(plain), user_info


def is_reference(value: str) -> bool:
    """Whether a value is `env:NAME` or `file:PATH`, which stands for a secret kept elsewhere.

    >>> is_reference("env:TOKEN"), is_reference("https://me:hush@host")
    (True, False)
    """
    return value.startswith(("env:", "file:"))


def resolved(setting: str, value: str) -> str:
    """The value itself, or what it stands for as `env:NAME` or `file:PATH` (without the file's last newline).

    `setting` names it in errors. Raises UsageError if the variable isn't set, or the file can't be read as
    UTF-8.
    """
    resolved_value = _referred(setting, value)
    remember_value(setting, resolved_value)
    return resolved_value


def _referred(setting: str, value: str) -> str:
    form, _, source = value.partition(":")
    if form == "env":
        if source not in os.environ:
            raise UsageError(f"{setting} is 'env:{source}', but the environment variable {source} is not set")
        return os.environ[source]
    if form == "file":
        try:
            # Editors and secret stores end files with a newline that is not part of the secret.
            return Path(source).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(
                f"{setting} is 'file:{source}', but the file {source} can't be read: {reason}"
            ) from error
    return value


def _without_details(reason: str) -> str:
    """librdkafka's reason without the state machine's bookkeeping in brackets.

    >>> _without_details("kafka:1/bootstrap: Connect failed (after 0ms in state CONNECT, 2 more)")
    'Connect failed'
    """
    reason = re.sub(r" \(after \d+ms in state .*", "", reason)
    return re.sub(r"^\S+/(bootstrap|\d+): ", "", reason)

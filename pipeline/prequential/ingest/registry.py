"""Schema Registry: the schemas behind the ids that records begin with, through confluent-kafka's own client.

What reads a schema's records is made once for each id. A registry that can't be asked is no fault of the
record: the process ends with a sentence, and nothing of the batch is committed. A schema that the registry
doesn't have, or that can't be used, is a reason to refuse the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from confluent_kafka import Message
from prequential.ingest.formats import Content, Unreadable, each, named_header, schema_id
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError

#: Seconds that one question may take, unless `kafka.schema_registry.timeout` says otherwise.
_TIMEOUT_SECONDS = 10

#: Seconds until a schema that the registry didn't have is asked for again.
_AGAIN_SECONDS = 30.0

_NOT_FOUND = 404

#: Formats that carry no id of a schema.
_WITHOUT_REGISTRY = ("json", "cloudevents")

#: What reads a record: all of its bytes, the frame too.
Read = Callable[[bytes], Any]


def refuse_without_registry(kafka: KafkaConfig, format: str) -> None:
    """Raise UsageError where a format needs Schema Registry and no address of it is configured."""
    if format not in _WITHOUT_REGISTRY and not kafka.schema_registry.get("url"):
        raise UsageError(
            f"ingest reads {format}, but kafka.schema_registry.url is missing: expected e.g. "
            "http://registry:8081"
        )


class Registry:
    """A client of the registry that the configuration names; raises UsageError if it can't be made."""

    def __init__(self, kafka: KafkaConfig, format: str) -> None:
        refuse_without_registry(kafka, format)
        settings = {"timeout": _TIMEOUT_SECONDS, **kafka.registry()}
        self.url = settings["url"]
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
            from confluent_kafka.schema_registry.error import SchemaRegistryError
        except ImportError as error:
            raise UsageError(
                f"ingest reads {format}, for which {error.name} is missing: pip install 'prequential[ingest]'"
            ) from error
        try:
            self._client = SchemaRegistryClient(settings)
        except (ValueError, TypeError) as error:
            raise UsageError(f"kafka.schema_registry: {error}") from error
        self._refused = SchemaRegistryError

    def schema(self, number: int, form: str | None = None) -> Any:
        """The schema of an id: `schema_str`, `schema_type`, `references`. Raises Unreadable."""
        return self._asked(f"schema {number}", lambda: self._client.get_schema(number, fmt=form))

    def referred(self, subject: str, version: int, form: str | None = None) -> Any:
        """The schema of a subject's version, which another one refers to."""
        what = f"version {version} of {subject}"
        return self._asked(what, lambda: self._client.get_version(subject, version, fmt=form)).schema

    def _asked(self, what: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except self._refused as error:
            if error.http_status_code == _NOT_FOUND:
                raise Unreadable(f"Schema Registry at {self.url} has no {what}") from error
            raise WorkError(f"Schema Registry at {self.url} refuses {what}: {error}") from error
        except Exception as error:  # whatever its HTTP client raises
            raise WorkError(f"Schema Registry at {self.url} can't be asked for {what}: {error!r}") from error


class Framed:
    """Reads records by the schema's id before their content; `prepare` makes what reads those of an id."""

    def __init__(
        self, prepare: Callable[[int], Read], *, of_keys: bool = False,
        content: Callable[[list[Any], dict[int, str]], Content] = Content,
    ) -> None:  # fmt: skip
        self._prepare, self._make = prepare, content
        self._readers: dict[int, Read] = {}
        self._unknown: dict[int, tuple[float, str]] = {}
        self._bytes: Callable[[Message], bytes | None] = Message.key if of_keys else Message.value

    def __call__(self, messages: Sequence[Message]) -> Content:
        """The contents of a batch."""
        read = each(messages, self._one)
        return self._make(read.values, dict(read.reasons))

    def _one(self, message: Message) -> Any:
        content = self._bytes(message)
        if content is None:
            return None
        with named_header(message):
            number = schema_id(content)
            read = self._readers.get(number)
            if read is None:
                read = self._readers[number] = self._prepared(number)
            return read(content)

    def _prepared(self, number: int) -> Read:
        since, reason = self._unknown.get(number, (float("-inf"), ""))
        if monotonic() - since < _AGAIN_SECONDS:
            raise Unreadable(reason)
        try:
            return self._prepare(number)
        except Unreadable as error:
            self._unknown[number] = monotonic(), str(error)
            raise

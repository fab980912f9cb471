"""Schema Registry: fetch the schemas that records name by ID or GUID, through confluent-kafka's client.

The reader of a schema's records is made once for each ID or GUID. If the registry can't be reached, the
process ends with an error and commits nothing of the batch, because the record is not at fault. A record is
refused if the registry does not have its schema, or if that schema can't be used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from confluent_kafka import Message
from prequential.mapping.evaluations import Unreadable
from prequential.runtime.ingest.formats import KEY_ID, VALUE_ID, Content, each, framed, named_header
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError

#: The default of `kafka.schema_registry.timeout`: seconds that one request may take.
_TIMEOUT_SECONDS = 10

#: Seconds until the client asks again for a schema that the registry didn't have.
_AGAIN_SECONDS = 30.0

_NOT_FOUND = 404

#: Formats whose records name a schema.
_WITH_REGISTRY = ("avro", "protobuf", "json_schema")

#: A function that reads a record from its payload, which is what follows the schema's ID.
Read = Callable[[bytes], Any]


def refuse_without_registry(kafka: KafkaConfig, format: str) -> None:
    """Raise UsageError if a format needs Schema Registry and no address is configured."""
    if format in _WITH_REGISTRY and not kafka.schema_registry.get("url"):
        raise UsageError(
            f"ingest reads {format}, but kafka.schema_registry.url is missing: expected e.g. "
            "http://registry:8081"
        )


class SchemaRegistry:
    """A client of the configured registry; raises UsageError if it can't be made."""

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

    def schema(self, name: int | str, form: str | None = None) -> Any:
        """Return a schema by its ID or GUID: `schema_str`, `schema_type`, `references`. Raises Unreadable."""
        def question() -> Any:
            if isinstance(name, str):
                return self._client.get_schema_by_guid(name, fmt=form)
            return self._client.get_schema(name, fmt=form)

        return self._asked(f"schema {name}", question)

    def referred(self, subject: str, version: int, form: str | None = None) -> Any:
        """Return the schema of a subject's version, to which another schema refers."""
        what = f"version {version} of {subject}"
        return self._asked(what, lambda: self._client.get_version(subject, version, fmt=form)).schema

    def _asked(self, what: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except self._refused as error:
            if error.http_status_code == _NOT_FOUND:
                raise Unreadable(f"Schema Registry at {self.url} has no {what}") from error
            raise WorkError(f"Schema Registry at {self.url} refuses {what}: {error}") from error
        except Exception as error:  # the HTTP client raises various errors
            raise WorkError(f"Schema Registry at {self.url} can't be asked for {what}: {error!r}") from error


class Framed:
    """Reads records by their schema's ID or GUID; `prepare` makes the reader for one."""

    def __init__(
        self, prepare: Callable[[int | str], Read], *, of_keys: bool = False,
        content: Callable[[list[Any], dict[int, str]], Content] = Content,
    ) -> None:  # fmt: skip
        self._prepare, self._make = prepare, content
        self._readers: dict[int | str, Read] = {}
        self._unknown: dict[int | str, tuple[float, str]] = {}
        self._bytes: Callable[[Message], bytes | None] = Message.key if of_keys else Message.value
        self._header = KEY_ID if of_keys else VALUE_ID

    def __call__(self, messages: Sequence[Message]) -> Content:
        """Return the contents of a batch."""
        read = each(messages, self._one)
        return self._make(read.values, dict(read.reasons))

    def _one(self, message: Message) -> Any:
        content = self._bytes(message)
        if content is None:
            return None
        with named_header(message):
            schema, payload = framed(message, content, self._header)
            read = self._readers.get(schema)
            if read is None:
                read = self._readers[schema] = self._prepared(schema)
            return read(payload)

    def _prepared(self, schema: int | str) -> Read:
        since, reason = self._unknown.get(schema, (float("-inf"), ""))
        if monotonic() - since < _AGAIN_SECONDS:
            raise Unreadable(reason)
        try:
            return self._prepare(schema)
        except Unreadable as error:
            self._unknown[schema] = monotonic(), str(error)
            raise

"""The settings of the section `kafka`, whose class clients without a configuration also use.

`topics.clients.KafkaConfig` has the defaults and the documentation.
"""

from __future__ import annotations

from typing import Any

from prequential.configuration.settings.parsing import TEXT, AcceptedValues, expected, integer, one_of
from prequential.configuration.settings.setting import InDigest, OnChange, Setting
from prequential.topics.clients import GROUP_PROTOCOLS


def _prefix(value: Any) -> str:
    return "" if value in (None, "") else str(TEXT(value))


def _librdkafka_setting(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise expected(value, "a librdkafka setting: a string, a number or a boolean")


def _registry_setting(value: Any) -> Any:
    if isinstance(value, (str, int, float)):
        return value
    raise expected(value, "a setting of Schema Registry's client: a string, a number or a boolean")


def _declared(values: AcceptedValues, change: str) -> Setting:
    return Setting(values, change, OnChange.KEEP, InDigest.NEVER, of_tables=False)


#: By key.
KAFKA: dict[str, Setting] = {
    "bootstrap_servers": _declared(
        TEXT,
        "kept if it is the same cluster by another address; in another cluster everything begins empty, as "
        "inputs, journal and state are topics",
    ),
    "prefix": _declared(
        AcceptedValues(_prefix),
        "everything begins empty, because topics and group change; data under the earlier prefix stay there, "
        "and continue if that prefix is configured again",
    ),
    "partitions": _declared(
        integer(1, 100_000),
        "kept; it applies to new topics: `prequential topics grow` raises existing ones, with their state",
    ),
    "replication": _declared(integer(1, 1000), "kept; it is of topics that are yet to be created"),
    "group_protocol": _declared(
        one_of(GROUP_PROTOCOLS),
        "kept; each process joins its group by it after its restart, and a group may have members of both",
    ),
}

#: By section within it: of each of its keys, which are those of a client.
CLIENTS: dict[str, Setting] = {
    "security": _declared(AcceptedValues(_librdkafka_setting), "kept; it changes the access to the cluster"),
    "schema_registry": _declared(
        AcceptedValues(_registry_setting), "kept; it changes how ingest reads schemas"
    ),
}

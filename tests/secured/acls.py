"""Access control lists: who may do what to which resource of Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.worker.processes import eventually

#: Kinds of resources, as Strimzi's KafkaUser names them.
_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactionalId": ResourceType.TRANSACTIONAL_ID,
}

#: Operations, as Kafka's documentation writes them.
_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Alter": AclOperation.ALTER,
}


class Acl(NamedTuple):
    """One operation on one resource, or on those whose names begin so."""

    kind: str
    name: str
    operation: str
    prefixed: bool = False

    def __str__(self) -> str:
        return f"{self.operation} {self.kind} {self.name}{'*' if self.prefixed else ''}"

    def binding(self, user: str) -> AclBinding:
        """The same for Kafka."""
        pattern = ResourcePatternType.PREFIXED if self.prefixed else ResourcePatternType.LITERAL
        return AclBinding(
            _KINDS[self.kind], self.name, pattern, f"User:{user}", "*", _OPERATIONS[self.operation],
            AclPermissionType.ALLOW,
        )  # fmt: skip


def of_kafka_user(document: Mapping[str, Any]) -> list[Acl]:
    """What one of Strimzi's KafkaUsers may do."""
    return [
        Acl(resource["type"], resource["name"], operation, resource["patternType"] == "prefix")
        for rule in document["spec"]["authorization"]["acls"]
        for resource in [rule["resource"]]
        for operation in rule["operations"]
    ]


def grant(admin: AdminClient, bindings: Iterable[AclBinding]) -> None:
    """Let users do all that."""
    for done in admin.create_acls(list(bindings)).values():
        done.result()


def revoke(admin: AdminClient, user: str, acls: Iterable[Acl]) -> None:
    """Let a user do that no more, and wait until the broker knows."""
    gone = {acl.binding(user) for acl in acls}
    wanted = [
        AclBindingFilter(
            one.restype, one.name, one.resource_pattern_type, one.principal, one.host, one.operation,
            one.permission_type,
        )
        for one in gone
    ]  # fmt: skip
    for done in admin.delete_acls(wanted).values():
        done.result()
    eventually(
        "the permissions are gone", lambda: gone.isdisjoint(admin.describe_acls(all_of(user)).result())
    )


def all_of(user: str) -> AclBindingFilter:
    """What finds all that a user may do."""
    return AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{user}", None, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip


def set_passwords(admin: AdminClient, passwords: Mapping[str, str]) -> None:
    """Make users with passwords for SCRAM-SHA-512."""
    credentials = [
        UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
        )
        for user, password in passwords.items()
    ]
    for done in admin.alter_user_scram_credentials(credentials).values():
        done.result()

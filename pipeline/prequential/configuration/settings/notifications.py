"""Settings of `prequential notify`."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Forms in which a message is sent.
MESSAGE, SLACK, CLOUDEVENTS = "message", "slack", "cloudevents"

FORMS = (MESSAGE, SLACK, CLOUDEVENTS)

#: Output topics whose messages can be sent, without the prefix.
NOTIFIED = ("incidents", "drift-alarms")

#: What an incident may be.
STATUSES = ("open", "recovered", "closed")


@dataclass(frozen=True)
class NotifyConfig:
    """A webhook, which messages it gets, and in which form; times in ms."""

    #: Webhook, or `env:NAME` or `file:PATH` with its URL.
    url: str | None = field(default=None, repr=False)
    #: `message`, `slack` or `cloudevents`.
    form: str = MESSAGE
    #: `env:NAME` or `file:PATH` with the key that signs requests; null: unsigned.
    secret: str | None = field(default=None, repr=False)
    #: Topics whose messages are sent: `incidents`, `drift-alarms`.
    topics: tuple[str, ...] = ("incidents",)
    #: Streams whose messages are sent, with `*`, `?` and `[…]`; null: all.
    streams: tuple[str, ...] | None = None
    #: Statuses of incidents that are sent.
    statuses: tuple[str, ...] = STATUSES
    #: Lowest severity of an incident that is sent; null: any.
    severity: float | None = None
    #: Whether further messages about an open incident are sent.
    updates: bool = True
    #: Longest time for an answer before a retry.
    timeout: int = 10_000
    #: Consumer group; null: the worker's with `-notify` appended.
    group: str | None = None

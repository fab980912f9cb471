"""What `prequential notify` sends where."""

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

    #: Where messages are posted; `env:NAME` and `file:PATH` stand for what is there. None: nowhere.
    url: str | None = field(default=None, repr=False)
    form: str = MESSAGE
    #: `env:NAME` or `file:PATH` of what messages are signed with; None: they aren't.
    secret: str | None = field(default=None, repr=False)
    topics: tuple[str, ...] = ("incidents",)
    #: Names of streams, with `*`, `?` and `[…]` as in a shell; None: all.
    streams: tuple[str, ...] | None = None
    #: Statuses of incidents that are sent.
    statuses: tuple[str, ...] = STATUSES
    #: The least severity of an incident that is sent; None: any, also what has become better.
    severity: float | None = None
    #: Whether an incident that is open is sent again when more is known of it.
    updates: bool = True
    #: Within so long a request is answered, or tried again.
    timeout: int = 10_000
    #: The consumer group; None: that of the worker with `-notify` behind it.
    group: str | None = None

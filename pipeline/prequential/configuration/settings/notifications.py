"""Settings of `prequential notify`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from prequential.configuration.settings.parsing import (
    DURATION,
    FLAG,
    SECRET,
    TEXT,
    URL,
    list_of,
    number,
    one_of,
    optional,
)
from prequential.configuration.settings.setting import setting

#: Forms in which a message is sent.
MESSAGE, SLACK, CLOUDEVENTS = "message", "slack", "cloudevents"

FORMS = (MESSAGE, SLACK, CLOUDEVENTS)

#: Output topics whose messages can be sent, without the prefix.
NOTIFIED = ("incidents", "drift-alarms")

#: What an incident may be.
STATUSES = ("open", "recovered", "closed")


#: Settings of a program of its own.
notify_setting = partial(setting, change="kept; `prequential notify` uses it after its restart")


@dataclass(frozen=True)
class NotifyConfig:
    """A webhook, which messages it gets, and in which form; times in ms."""

    #: Webhook, or `env:NAME` or `file:PATH` with its URL.
    url: str | None = notify_setting(None, optional(URL), repr=False)
    #: `message`, `slack` or `cloudevents`.
    form: str = notify_setting(MESSAGE, one_of(FORMS))
    #: `env:NAME` or `file:PATH` with the key that signs requests; null: unsigned.
    secret: str | None = notify_setting(None, optional(SECRET), repr=False)
    #: Topics whose messages are sent: `incidents`, `drift-alarms`.
    topics: tuple[str, ...] = notify_setting(("incidents",), list_of(one_of(NOTIFIED)))
    #: Streams whose messages are sent, with `*`, `?` and `[…]`; null: all.
    streams: tuple[str, ...] | None = notify_setting(None, optional(list_of(TEXT)))
    #: Statuses of incidents that are sent.
    statuses: tuple[str, ...] = notify_setting(STATUSES, list_of(one_of(STATUSES)))
    #: Lowest severity of an incident that is sent; null: any.
    severity: float | None = notify_setting(None, optional(number(-10)))
    #: Whether further messages about an open incident are sent.
    updates: bool = notify_setting(True, FLAG)
    #: Longest time for an answer before a retry.
    timeout: int = notify_setting(10_000, DURATION)
    #: Consumer group; null: the worker's with `-notify` appended.
    group: str | None = notify_setting(
        None, optional(TEXT), change="kept; the new group begins with messages after its start"
    )

"""Which messages a webhook gets."""

from __future__ import annotations

from fnmatch import fnmatchcase

from prequential.settings.notifying import NotifyConfig
from prequential.topics.outputs import Alarm, Incident


def chosen(message: Incident | Alarm, config: NotifyConfig) -> bool:
    """Whether a message is sent: by its stream and, if it is an incident, its status, severity and revision.

    It depends on nothing but the message, so that whoever sends it decides the same.
    """
    if config.streams is not None and not any(fnmatchcase(message.stream, one) for one in config.streams):
        return False
    if isinstance(message, Alarm):
        return True
    if message.status not in config.statuses:
        return False
    if config.severity is not None and message.severity < config.severity:
        return False
    return config.updates or message.revision == 1 or message.status != "open"

"""Choose the messages that a webhook receives."""

from __future__ import annotations

from fnmatch import fnmatchcase

from prequential.configuration.settings.notifying import NotifyConfig
from prequential.topics.outputs import Alarm, Incident


def chosen(message: Incident | Alarm, config: NotifyConfig) -> bool:
    """Return whether to send a message, by its stream and an incident's status, severity and revision.

    The result depends only on the message and the configuration, so every process decides the same.
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

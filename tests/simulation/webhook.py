"""A webhook for `notify`: it takes messages, refuses some for a while, or its answer is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from prequential.configuration.settings.notifications import NOTIFIED
from prequential.runtime.notifying.posting import WebhookAnswer

from tests.simulation.loop import current_process, running_loop

if TYPE_CHECKING:
    from tests.simulation.world import World


class Notice(NamedTuple):
    """A message that a webhook has taken: its id, and its content."""

    identifier: str
    content: bytes


class Webhook:
    """The webhook of a world."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        #: Share of requests that are refused, or whose answer is lost; 0 once faults have ended.
        self.loss = 0.0


#: The webhook of the world that runs.
webhooks: list[Webhook] = []


class SimulatedPoster:
    """In the place of `Poster`."""

    def __init__(self, url: str, seconds: float) -> None:
        self._seconds = seconds

    def post(self, content: bytes, headers: Mapping[str, str]) -> WebhookAnswer:
        """Post the content; returns the answer."""
        loop, webhook = running_loop(), webhooks[-1]
        loop.block(loop.random.random() * 0.05)
        process = current_process.get()
        assert process is not None
        assert process.is_alive
        draw = loop.random.random()
        if draw < webhook.loss / 2:
            return WebhookAnswer(503, None)
        webhook.notices.append(Notice(headers["webhook-id"], content))
        if draw < webhook.loss:
            loop.block(self._seconds)
            return WebhookAnswer(0, why="no answer")
        loop.block(loop.random.random() * 0.05)
        return WebhookAnswer(200, None)

    def close(self) -> None:
        """Nothing to close."""


def first_missing(world: World) -> str | None:
    """Return what is wrong with the notices about incidents; None: each is there, in order, and unchanged.

    The promise is at least once, in order within a partition. A group begins at the ends of partitions.
    """
    contents: dict[str, bytes] = {}
    for notice in world.webhook.notices:
        if contents.setdefault(notice.identifier, notice.content) != notice.content:
            return f"notice {notice.identifier} has two contents"
    first = {identifier: index for index, identifier in reversed(list(enumerate(
        notice.identifier for notice in world.webhook.notices
    )))}  # fmt: skip
    if not world.plan.faults and not world.plan.webhook_loss and len(first) < len(world.webhook.notices):
        return "a message was notified twice, though nothing has failed"
    group = world.cluster.group(world.config.notify_group)
    logs = [log for name in NOTIFIED for log in world.cluster.topics[world.config.kafka.topic(name)]]
    for log in logs:
        begins = group.first.get((log.topic, log.number))
        last = -1
        for entry in log.read(0, log.end, committed=True):
            if begins is None or entry.offset < begins:
                continue
            assert entry.record is not None
            message = json.loads(entry.record.value or b"")
            identifier = message["id"] + (f"-{message['revision']}" if "revision" in message else "")
            if identifier not in first:
                return (
                    f"incident {identifier} was not notified ({log.topic}/{log.number} offset {entry.offset})"
                )
            if first[identifier] < last:
                return f"{identifier} was notified before an earlier message of its partition"
            last = first[identifier]
    return None

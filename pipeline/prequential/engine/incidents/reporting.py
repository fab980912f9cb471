"""Messages about incidents."""

from __future__ import annotations

from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Entity
from prequential.engine.incidents.finding import now_of
from prequential.engine.incidents.incidents import Incidents, watched_stage
from prequential.topics.outputs import Incident

#: Most examples in a message.
_EXAMPLES = 5


def message_of(catalog: Catalog, incidents: Incidents, about: Entity) -> Incident:
    """The message about the open incident of a model, or of a correction."""
    owner, stream, state = about.row, catalog.streams[about.stream], incidents.open[about.row]
    now, point = now_of(incidents.history, owner), state.details["change_point"]["outcome"]
    kept = incidents.examples.get(owner, [])
    message = Incident(
        state.id, stream.name, catalog.partition, about.model, state.revision, state.status,
        stage=watched_stage(stream.evaluated), opened=dict(state.opened), alarms=list(state.alarms),
        alarm_count=state.alarm_count, signals=[dict(one) for one in state.signals],
        examples=[name for number, name in kept if number >= point][:_EXAMPLES],
        former_alarms={"alarms": state.former_alarms, "outcomes": state.opened["outcome"]},
        outcome=now.outcome, ts=now.ts, config=stream.config.digest, **state.details,
    )  # fmt: skip
    if state.recovered is not None:
        message.recovered = state.recovered
    if state.agreed is not None:
        message.agreed = state.agreed
    if owner in incidents.graded:
        message.graded = dict(zip(("incidents", "agreed"), incidents.graded[owner]))
    if stream.config.incident_loss != "error":
        message.loss = stream.config.incident_loss
    if catalog.untimed:
        message.untimed = True
    if same := catalog.same_as(owner, message.stage, stream):
        message.same = same
    return message

"""What is known of a model, for attribution: its clusters, and those of the stream's other models."""

from __future__ import annotations

from functools import partial

from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import OTHER, Stream
from prequential.engine.incidents.cause import CauseNames
from prequential.engine.incidents.clusters import length_of
from prequential.engine.incidents.finding import Now, View
from prequential.engine.incidents.history import MOST_CLASSES, ClusterHistory, read, read_parts
from prequential.engine.tables.streams import MODEL


def view_of(catalog: Catalog, history: ClusterHistory, owner: int, *, alone: bool = False) -> View:
    """What is known of a model (its row).

    Of the other models of its stream too, unless it is asked for `alone`.
    """
    stream = _stream_of(catalog, owner)
    classes, fixed = int(history.owners.classes[owner]), int(history.owners.fixed[owner])
    names = list(stream.class_names[:classes])
    if classes == MOST_CLASSES:  # whether others have come yet: names of this batch are known
        names[-1] = OTHER
    versions = [stream.version_name(code) if code else "" for code in history.versions[owner].tolist()]
    return View(
        read(history.outcomes, owner, fixed), length_of(fixed, int(history.outcomes.lines.doubled[owner])),
        partial(read, history.predictions, int(history.owners.model[owner]), fixed),
        partial(read_parts, history, owner),
        int(history.owners.measure[owner]), classes,
        CauseNames(names, segments_of(catalog, history, owner), versions), now_of(history, owner),
        None if alone else partial(_others, catalog, history, owner),
    )  # fmt: skip


def segments_of(catalog: Catalog, history: ClusterHistory, owner: int) -> list[str]:
    """The segments of a model that have columns, by column."""
    owners = history.owners
    segments = [""] * int(owners.slots[owner])
    for row in _stream_of(catalog, owner).entities:
        slot = int(owners.slot[row])
        if slot > 0 and owners.owner[row] == owner:
            segments[slot - 1] = catalog.entities[row].segment or ""  # type: ignore[union-attr]
    return segments


def now_of(history: ClusterHistory, owner: int) -> Now:
    """The newest outcome of a model."""
    return Now(int(history.owners.outcomes[owner]), int(history.owners.newest[owner]))


def _others(catalog: Catalog, history: ClusterHistory, owner: int) -> list[View]:
    """What is known of the other models of a model's stream."""
    owners, models = history.owners, []
    for row in _stream_of(catalog, owner).entities:
        about = catalog.entities[row]
        watched = row != owner and owners.owner[row] == row and owners.position[row]
        if about is not None and watched and about.kind == MODEL:
            models.append(view_of(catalog, history, row, alone=True))
    return models


def _stream_of(catalog: Catalog, row: int) -> Stream:
    about = catalog.entity(row)
    return catalog.streams[about.stream]

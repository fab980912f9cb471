"""The declaration of a setting: all that follows from it is in one place, the field of its section's class.

    #: Number of most probable classes that `top_k_accuracy` accepts.
    top_k: int = setting(5, integer(1, MAX_CLASSES), "kept; …", on_change=BEGIN_EMPTY)

The comment above the field is the setting's documentation. The declaration has its default, the values that
it takes (`parsing.AcceptedValues`), and what a change of it means for state. From it follow the keys of the
configuration and their errors, the digests in messages, snapshots and restores, `config diff`, the arguments
of `evaluate`, and the pages of the reference.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple

from prequential.configuration.settings.parsing import AcceptedValues


class OnChange(Enum):
    """What a restore makes of a snapshot in which a setting of streams has another value."""

    #: State is kept; what begins or ends by it (a stage, an estimator) is found by its own name.
    KEEP = auto()
    #: Sums of outcomes that depend on it begin empty (`engine.tables.scores.ScorePart`); all others are kept.
    BEGIN_EMPTY = auto()
    #: The snapshot is refused.
    REFUSE = auto()


class InDigest(Enum):
    """When a setting of streams is part of the digest of their settings, `config` in messages."""

    #: Only where it isn't the default: a new setting leaves the digests of others as they are.
    IF_SET = auto()
    #: Always, as the first settings are.
    ALWAYS = auto()
    #: Never, because outcomes are evaluated alike with any value.
    NEVER = auto()


class Setting(NamedTuple):
    """What a field of a section declares, see `setting`."""

    values: AcceptedValues | None
    change: str
    on_change: OnChange
    in_digest: InDigest
    of_tables: bool


def setting(
    default: Any = MISSING, values: AcceptedValues | None = None, change: str = "", *,
    on_change: OnChange = OnChange.KEEP, in_digest: InDigest = InDigest.IF_SET, of_tables: bool = True,
    **options: Any,
) -> Any:  # fmt: skip
    """Declare a setting: the default of a field in a section's frozen dataclass.

    Parameters
    ----------
    default
        The value without a configuration; MISSING: `options` have a `default_factory`.
    values
        The values that it takes; None: the engine declares them (`configfile.reading.keys`), or it is a
        section with keys of its own.
    change
        What a change means for state, in words of `prequential config diff`, if a restore keeps everything.
    on_change
        What a restore makes of state with another value.
    in_digest
        When it is part of the digest of a stream's settings.
    of_tables
        Whether it means something to tables, so that `evaluate` has an argument for it.
    options
        Further arguments of `dataclasses.field`, such as `repr=False`.
    """
    declared = Setting(values, change, on_change, in_digest, of_tables)
    return field(default=default, metadata={Setting: declared}, **options)


#: Settings that have been in digests from the first one on.
first_setting = partial(setting, in_digest=InDigest.ALWAYS)

#: Settings with any value of which outcomes are evaluated alike.
unevaluated_setting = partial(setting, in_digest=InDigest.NEVER)


def settings_of(section: Any) -> dict[str, Setting]:
    """Return what a section's class, or an object of it, declares, by the names of its fields.

    >>> from prequential.configuration.settings.streams import StreamConfig
    >>> settings_of(StreamConfig)["task"].on_change.name
    'REFUSE'
    """
    return {entry.name: entry.metadata[Setting] for entry in fields(section) if Setting in entry.metadata}

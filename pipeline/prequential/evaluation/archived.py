"""The history of the output topics as tables: what `prequential archive` has written."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timezone
from functools import cached_property
from typing import Any

import msgspec
from prequential.evaluation.message_tables import GroupRow, explanation_of, rows_of_groups, table_of
from prequential.offline.tables.opening import needs_pyarrow
from prequential.topics import specs
from prequential.topics.decoding import milliseconds
from prequential.topics.disparities import Disparity
from prequential.topics.errors import UsageError
from prequential.topics.foreign_json import reader
from prequential.topics.marks import IncidentMark
from prequential.topics.outputs import Alarm, Comparison, Incident, Metrics


class ArchivedResult:
    """The messages of an archive; `read_archive` returns it.

    `metrics`, `comparisons`, `disparities`, `alarms` and `incidents` are Arrow tables with the columns of a
    `Result`. Each is read when it is first used. They raise WorkError if a file can't be read.

    Attributes
    ----------
    gaps
        What retention removed before it was archived: `topic`, `partition`, the `first` and the `last`
        missing offset, and when that was `noted` (epoch ms).
    """

    def __init__(
        self, archive: Any, since: int | None, until: int | None, streams: Sequence[str] | None
    ) -> None:
        self._archive, self._since, self._until, self._streams = archive, since, until, streams
        self.gaps: list[dict[str, Any]] = [msgspec.to_builtins(gap) for gap in archive.state.gaps]

    @cached_property
    def metrics(self) -> Any:
        """Measures over time, as `Result.metrics`."""
        return table_of(self._messages(specs.METRICS, Metrics), Metrics)

    @cached_property
    def comparisons(self) -> Any:
        """Comparisons of pairs of models over time, as `Result.comparisons`."""
        return table_of(self._messages(specs.COMPARISONS, Comparison), Comparison)

    @cached_property
    def disparities(self) -> Any:
        """Disparity between segments over time, as `Result.disparities`."""
        return table_of(list(rows_of_groups(self._messages(specs.DISPARITIES, Disparity))), GroupRow)

    @cached_property
    def alarms(self) -> Any:
        """Drift alarms, as `Result.alarms`."""
        return table_of(self._messages(specs.DRIFT_ALARMS, Alarm), Alarm)

    @cached_property
    def incidents(self) -> Any:
        """Incidents, as `Result.incidents`: a row for each, from its newest message."""
        newest: dict[str, Incident] = {}
        for incident in self._incidents:
            if incident.id not in newest or incident.revision > newest[incident.id].revision:
                newest[incident.id] = incident
        return table_of(list(newest.values()), Incident)

    @cached_property
    def marks(self) -> list[dict[str, Any]]:
        """People's marks of incidents: `incident`, `mark`, `by`, `ts` and `note` of each."""
        messages = self._archive.messages([specs.INCIDENT_MARKS], since=self._since, until=self._until)
        decode = reader(IncidentMark)
        return [msgspec.structs.asdict(decode(message.value)) for message in messages]

    @cached_property
    def _incidents(self) -> list[Incident]:
        return self._messages(specs.INCIDENTS, Incident)

    def explain(self, incident: str | int) -> list[str]:
        """Return the lines that explain an incident, named by its id, the beginning of it, or its number.

        Raises ValueError if there is no such incident.
        """
        alarms = self._messages(specs.DRIFT_ALARMS, Alarm)
        return explanation_of([*self._messages(specs.METRICS, Metrics), *alarms, *self._incidents], incident)

    def _messages(self, topic: str, kind: Any) -> list[Any]:
        decode = reader(kind)
        messages = self._archive.messages(
            [topic], since=self._since, until=self._until, streams=self._streams
        )
        return [decode(message.value) for message in messages]


def read_archive(
    place: str, *, since: str | int | date | None = None, until: str | int | date | None = None,
    streams: str | Iterable[str] | None = None,
) -> ArchivedResult:  # fmt: skip
    """The messages that `prequential archive` has written, as tables.

    Parameters
    ----------
    place
        Folder of the archive, or an address such as `s3://bucket/folder`.
    since
        First label time (`ts`) of messages: RFC 3339, a date, or epoch ms. A time without a zone is UTC.
    until
        End of the label times; messages of that time are not read.
    streams
        Name of a stream, or names; None: all.

    Returns
    -------
    ArchivedResult
        Tables with the columns of a `Result`.

    Raises
    ------
    UsageError
        If pyarrow isn't installed, there is no archive, or a time is none.
    """
    needs_pyarrow("an archive is Parquet")
    archive = importlib.import_module("prequential.archive.reading").open_archive(place)
    names = [streams] if isinstance(streams, str) else streams if streams is None else list(streams)
    return ArchivedResult(archive, _time("since", since), _time("until", until), names)


def _time(name: str, moment: str | int | date | None) -> int | None:
    """A time as epoch ms."""
    if moment is None or type(moment) is int:
        return moment
    if isinstance(moment, date):
        if not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return round(moment.timestamp() * 1000)
    try:
        text = str(moment)
        return milliseconds(f"{text}T00:00:00Z" if len(text) == len("2026-01-31") else text)
    except ValueError as error:
        raise UsageError(f"{name} is {moment!r:.40}: expected such as 2026-01-31T00:00:00Z") from error

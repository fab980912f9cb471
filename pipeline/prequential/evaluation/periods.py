"""A model's results by day: what each day was expected to be, and what it was in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from prequential.configuration.settings.model import StreamConfig
from prequential.configuration.settings.stages import PERIOD
from prequential.engine.measures.registry import MEASURES
from prequential.evaluation.shown import Table
from prequential.evaluation.wanted import check
from prequential.topics.errors import Fault
from prequential.topics.outputs import Metrics
from prequential.views.wording.measures import COMPARED

#: A day, and the time from which epoch milliseconds count.
_DAY, _EPOCH = 86_400_000, datetime(1970, 1, 1, tzinfo=timezone.utc)

#: The settings of a stream, by its name.
Settings = Callable[[str], StreamConfig]


class PeriodTable(Table):
    """A model's results by day of prediction: a row for each model and day.

    Columns are `model`, `measure`, `day` (its start; `period` if the setting `period` isn't one day) and
    `predictions`. `labelled_share` is the share of predictions with a label. `so_far` is the measure over
    these labels. `expected`, `low` and `high` are the estimate of the final value and its interval. For a
    final day they come from the first report after its end, so that `final` grades them. `final` is None
    until the day is final. With several streams, `stream` is a column also.

    Examples
    --------
    >>> from prequential.evaluation import evaluate
    >>> day = 86_400_000
    >>> predictions = [{"instance_id": i, "y_pred": "UP", "ts": i * day // 50} for i in range(200)]
    >>> labels = [
    ...     {"instance_id": i, "y_true": "UP" if i % 4 else "DOWN", "ts": (i + 20) * day // 50}
    ...     for i in range(150)
    ... ]
    >>> periods = evaluate(predictions, labels, period="1d", label_horizon="1d").periods
    >>> first, *_ = periods.rows()
    >>> first["day"].isoformat(), first["predictions"], first["labelled_share"], first["final"]
    ('1970-01-01T00:00:00+00:00', 50, 1.0, 0.74)
    """

    def __init__(self, messages: Sequence[Metrics], settings: Settings, measure: str | None = None) -> None:
        self._messages = messages
        self._settings = settings
        rows = list(_rows(messages, settings, measure))
        lengths = {settings(row["stream"]).period for row in rows}
        start = "day" if lengths <= {_DAY} else "period"
        names = ["model", "measure", start, "predictions", "labelled_share"]
        names += ["so_far", "expected", "low", "high", "final"]
        if len({row["stream"] for row in rows}) > 1:
            names.insert(2, "stream")
        for row in rows:
            row[start] = row.pop("start")
        super().__init__(names, rows)

    def measure(self, name: str) -> PeriodTable:
        """Return the same table of another measure, such as `kappa`; its messages must have it.

        Raises ValueError for the name of a measure that no period has; the error lists the others.
        """
        if not self._messages:
            expected = "expected the setting period, such as period='1d'"
            raise ValueError(f"no period has measure {name!r}: {expected}")
        known = dict.fromkeys(
            one for message in self._messages for one in (*message.measures, *_expected(message))
        )
        check("measure", name, (one for one in MEASURES if one in known))
        return PeriodTable(self._messages, self._settings, name)


def periods_of(messages: Iterable[Metrics], settings: Settings) -> PeriodTable:
    """Return the periods of streams as a whole; without the setting `period` there are none."""
    return PeriodTable([one for one in messages if one.stage == PERIOD and one.segment is None], settings)


def _rows(messages: Sequence[Metrics], settings: Settings, measure: str | None) -> Iterable[dict[str, Any]]:
    """Yield the row of each model and period, in order of time."""
    newest: dict[tuple[str, str, int], Metrics] = {}
    graded: dict[tuple[str, str, int], Metrics] = {}
    for one in messages:
        key = one.stream, one.model, _period(one)["start"]
        newest[key] = one
        expected = one.expected or {}
        if expected and (key not in graded or _is_unfinished(graded[key])):
            graded[key] = one  # the first one after the period's end stays
    models = list(dict.fromkeys(key[:2] for key in newest))
    for key, one in sorted(newest.items(), key=lambda item: (models.index(item[0][:2]), item[0][2])):
        period, final = _period(one), _period(one)["status"] == "final"
        earlier = graded.get(key) if final else one
        estimates = {} if earlier is None else _expected(earlier)
        name = measure or next((some for some in COMPARED if some in (*estimates, *one.measures)), None)
        estimate = estimates.get(name or "", {})
        low, high = estimate.get("interval") or (None, None)
        value, predictions = one.measures.get(name or ""), period["predictions"]
        yield {
            "stream": key[0], "model": key[1], "measure": name, "predictions": predictions,
            "start": key[2] if one.untimed is True else _moment(key[2], settings(key[0]).period_zone),
            "labelled_share": period["labelled"] / predictions if predictions else None,
            "so_far": value, "expected": estimate.get("value"), "low": low, "high": high,
            "final": value if final else None,
        }  # fmt: skip


def _is_unfinished(message: Metrics) -> bool:
    """Return whether the period's time hadn't passed yet when the message was made."""
    return not isinstance(message.expected, dict) or message.expected.get("maturity") is None


def _expected(message: Metrics) -> dict[str, dict[str, Any]]:
    """Return the expected values of a message, by measure."""
    measures: dict[str, dict[str, Any]] = (message.expected or {}).get("measures", {})
    return measures


def _period(message: Metrics) -> dict[str, Any]:
    if not isinstance(message.period, dict):
        raise Fault("a message has no period: this is a fault of prequential, please report it")
    return message.period


def _moment(ms: int, zone: str) -> datetime:
    return (_EPOCH + timedelta(milliseconds=ms)).astimezone(timezone.utc if zone == "UTC" else ZoneInfo(zone))

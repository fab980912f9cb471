"""Settings of HTTP: addresses, tokens, and which series are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from prequential.configuration.settings.parsing import (
    FLAG,
    STAGE,
    TEXT,
    AcceptedValues,
    expected,
    integer,
    list_of,
    one_of,
    optional,
    or_all,
)
from prequential.configuration.settings.setting import setting
from prequential.configuration.settings.stages import parse, sides
from prequential.configuration.settings.streams import StreamConfig

#: Stands for all measures, stages or estimators, and all groups of series.
ALL_SERIES = "all"

#: Groups of series that neither alerts nor dashboards need: the histogram of label latencies, shares of
#: labelled predictions at ages before the horizon, how the labelled differ from the others, Q and McNemar's
#: statistics of pairs, thresholds that a budget of false alarms has set.
SERIES = ("latency_buckets", "maturity", "selection", "tests", "thresholds")


def _groups(value: Any) -> tuple[str, ...]:
    if value in ("needed", ALL_SERIES):
        return SERIES if value == ALL_SERIES else ()
    if not isinstance(value, list):
        raise expected(value, "needed, all or a list of groups of series")
    return tuple(list_of(one_of(SERIES), empty=True)(value))


_SERIES = AcceptedValues(_groups)

#: Settings of what is served: no state depends on them.
served_setting = partial(setting, change="kept; it is of /metrics and pages")


@dataclass(frozen=True)
class HttpConfig:
    """Where a worker, or `ingest`, serves `/metrics`, `/live` and `/ready`."""

    #: Address of `/metrics`, `/live` and `/ready`, IPv4 or IPv6.
    host: str = served_setting("127.0.0.1", TEXT)
    #: Its port; 0: a free one; null: 9464 for a worker, 9466 for `ingest`, 9467 for `notify`.
    port: int | None = served_setting(None, optional(integer(0, 65_535)))
    #: Measures that become series; `all`, or an empty list for none.
    measures: tuple[str, ...] = served_setting(
        ("accuracy", "kappa", "kappa_per", "kappa_plus", "f1", "log_loss", "mae", "rmse")
    )
    #: Stages that become series, or `all`; null: `final` and compared stages.
    stages: tuple[str, ...] | str | None = served_setting(
        None, optional(or_all(list_of(STAGE, key=parse, empty=True), ALL_SERIES))
    )
    #: Estimators that become series, or `all`; null: the first one that forgets.
    estimators: tuple[str, ...] | str | None = served_setting(None)
    #: Groups of further series, or `all`.
    series: tuple[str, ...] = served_setting((), _SERIES)
    #: Whether segments become series.
    segments: bool = served_setting(True, FLAG)
    #: Token that requests must carry as `Authorization: Bearer`, or the password of the dashboard; `env:NAME`
    #: or `file:PATH`.
    token: str | None = served_setting(None, optional(TEXT), repr=False)
    #: PEM file with the certificate; with both files the server uses HTTPS.
    tls_certificate: str | None = served_setting(None, optional(TEXT))
    #: PEM file with its key.
    tls_key: str | None = served_setting(None, optional(TEXT))

    def shows_stage(self, stage: str, config: StreamConfig, same: Iterable[str] = ()) -> bool:
        """Whether a stage of a stream has series, or one that is the `same` up to now.

        `bins` stands for each bin. Of two stages that are compared both must be listed, if any are.

        >>> http, config = HttpConfig(stages=("final", "bins")), StreamConfig()
        >>> [http.shows_stage(stage, config) for stage in ("final", "bin:2", "initial", "initial/final")]
        [True, True, False, False]
        >>> [HttpConfig().shows_stage(stage, config) for stage in ("final", "initial", "initial/final")]
        [True, False, True]
        >>> HttpConfig(stages=("initial",)).shows_stage("final", config, same=["initial"])
        True
        """
        shown = self.stages
        if shown is None:
            return stage == config.main_stage or len(sides(stage)) > 1
        return shown == ALL_SERIES or any(
            all(side in shown or parse(side).configured in shown for side in sides(stage_name))
            for stage_name in (stage, *same)
        )

    def shows_estimator(self, estimator: str, config: StreamConfig) -> bool:
        """Whether an estimator of a stream has series."""
        shown = self.estimators
        if shown is None:
            return estimator == config.main_estimator
        return shown == ALL_SERIES or estimator in shown

"""The settings of a stream as keyword arguments, so that editors and type checkers support them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict, TypeVar, Union

#: A duration, such as `30d`, `1D` or a pandas `Timedelta`.
Duration = Union[str, timedelta]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Settings(TypedDict, total=False):
    """The settings of `defaults` in a configuration file, under the same names.

    All are optional. `docs/reference/configuration.md` describes each setting and its default.
    """

    #: `classification` or `regression`; for regression, `loss` is `absolute` or `squared`.
    task: str
    loss: str
    positive_class: str | int | float | bool | None
    #: `all`, `window:1000`, `fading:0.999`, `decay:1h`, …
    estimators: Sequence[str]
    measures: Sequence[str]
    #: `initial`, `final`, `bins`, `intermediate`, `after:1h`, …
    stages: Sequence[str]
    bins: int
    alpha: float
    costs: Mapping[str, Any] | None
    cost_per_value: bool
    #: The number of most probable classes that count as correct for `top_k_accuracy`.
    top_k: int
    #: The quantile that predicted numbers estimate, for `pinball`.
    quantile: float | None
    #: The time after which labels repeat, such as `1d`, for `mase` and `rmsse`.
    season: Duration | None
    value_limit: float | None
    coverage: bool
    temporal_correction: bool
    period: Duration | None
    period_zone: str
    period_final_at: float
    expected: bool
    period_alarms: Mapping[str, float | None]
    segments: Sequence[str]
    segments_per_key: int
    #: `persistent`, `majority`, `random`.
    baselines: Sequence[str]
    #: Further content of messages: `confusion`, `intervals`, `scores`, …
    details: Sequence[str]
    dependence_order: int
    label_horizon: Duration
    label_at_horizon: str | int | float | bool | None
    settle: Duration
    #: `{"detector": "adwin", "signal": "error", "delta": 0.002}`, …
    detectors: Sequence[Mapping[str, Any]]
    #: `N per DURATION`, as in `1 per 30d`.
    alarm_budget: str | None
    alarm_change: float
    #: `auto`, or a duration: predictions made within it count as one observation.
    cluster: Duration | None
    #: `N per DURATION` for each model, as in `1 per 30d`.
    incident_budget: str | None
    objective: Mapping[str, Any] | None
    #: `{"segments": ["region"], "measures": ["error", "recall"], "level": 0.05}`.
    disparity: Mapping[str, Any] | None
    #: `mark` or `separate`.
    versions: str
    #: `all`, `champion` or `off`.
    compare: str
    champion: str | None
    compare_losses: Sequence[str]
    #: `error`, `cost`, `recall`, …: the loss that incidents watch.
    incident_loss: str
    compare_stages: Sequence[str]
    compare_level: float
    mcnemar_level: float
    #: `{"outcomes": 1000, "every": "10s", "comparisons": "1m"}`.
    emit: Mapping[str, Any]


def with_settings(function: _Function) -> _Function:
    """Return the function with a signature that lists the settings by name in place of `**settings`.

    Notebooks use the signature to complete arguments. Type checkers use the equivalent annotation.
    """
    signature = inspect.signature(function)
    kept = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    named = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in Settings.__annotations__.items()
    ]
    function.__signature__ = signature.replace(parameters=[*kept, *named])  # type: ignore[attr-defined]
    return function

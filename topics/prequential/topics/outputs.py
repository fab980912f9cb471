"""What crosses the wire outwards: metrics, comparisons, drift alarms, incidents, dead letters, and ids.

An id is a function of what the message is about, so a repeat has the id of the original.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from prequential.topics.specs import COMPARISONS, METRICS

#: Bytes of an id, which is their hex digits: so many that ids never collide by chance.
ID_BYTES = 16


def _of_numpy(value: Any) -> Any:
    """Where loops aren't compiled, some of their numbers are numpy's."""
    return value.item()


_encode = msgspec.json.Encoder(enc_hook=_of_numpy).encode


class Metrics(msgspec.Struct, gc=False):
    """State of one estimator of one sequence (`docs/semantics.md`).

    A stream whose records lie in several partitions is evaluated in each of them by itself.
    """

    id: str
    stream: str
    partition: int
    model: str
    segment: str | None
    stage: str
    estimator: str
    n: int | float
    outcomes: int
    ts: int
    measures: dict[str, float]
    undefined: dict[str, str]
    counts: dict[str, int]
    config: str
    #: Of a model whose predictions say so: its version, and the outcome that was the first of this version.
    model_version: str | msgspec.UnsetType = msgspec.UNSET
    version_since: int | msgspec.UnsetType = msgspec.UNSET
    #: True where no record had a time: `ts` counts rows then, and is no time.
    untimed: bool | msgspec.UnsetType = msgspec.UNSET
    #: True while an estimator that a new configuration added hasn't seen the whole sequence.
    started_empty: bool | msgspec.UnsetType = msgspec.UNSET
    #: Of messages about a period of prediction time: which one it is, and how much of it is labelled.
    period: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    #: … and what its final values are expected to be, until it is final.
    expected: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    #: What became of the model's predictions, and when; in messages that time made due.
    coverage: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    # Details, where the configuration asks for them:
    per_class: dict[str, dict[str, float]] | msgspec.UnsetType = msgspec.UNSET
    normalised: dict[str, float] | msgspec.UnsetType = msgspec.UNSET
    class_ratio: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    intervals: dict[str, tuple[float, float]] | msgspec.UnsetType = msgspec.UNSET
    dependence: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    worse_than_baseline: dict[str, int] | msgspec.UnsetType = msgspec.UNSET


class Comparison(msgspec.Struct, gc=False):
    """Two models on instances that both have an outcome of (`docs/semantics.md`): positive, B is better."""

    id: str
    stream: str
    partition: int
    model: str  # A
    against: str  # B
    segment: str | None
    stage: str
    estimator: str
    loss: str
    n: int | float
    outcomes: int
    ts: int
    measures: dict[str, int | float]
    undefined: dict[str, str]
    #: Of the mean difference over the whole history, valid at all times; None: the loss has no bound.
    interval: tuple[float, float] | None
    #: Of the verdicts of a stream, and the number of pairs that share it.
    level: float
    pairs: int
    verdict: str
    #: The joint outcome at which the verdict began.
    since: int | None
    config: str
    #: How many independent ones the outcomes that count were worth to interval and verdict.
    effective: int = 0
    #: The verdict that forgets what was before the latest change of the difference: `verdict`, and `since`
    #: about which of the outcomes that count it holds. Messages of earlier versions have none.
    recent: dict[str, Any] = msgspec.field(default_factory=dict)
    #: Whether McNemar's test rejects, looked at once; where there is one.
    significant: bool | msgspec.UnsetType = msgspec.UNSET
    #: As in `Metrics`.
    untimed: bool | msgspec.UnsetType = msgspec.UNSET


class Alarm(msgspec.Struct, gc=False):
    """A detector's alarm (`docs/semantics.md`)."""

    id: str
    stream: str
    partition: int
    model: str
    segment: str | None
    stage: str
    detector: str
    signal: str
    outcome: int
    instance_id: str
    ts: int
    statistic: float
    threshold: float
    params: dict[str, float | bool | str]
    #: Of neighbouring errors up to this outcome: tests for drift assume that it is 0.
    error_autocorrelation: float | msgspec.UnsetType = msgspec.UNSET
    #: As in `Metrics`.
    untimed: bool | msgspec.UnsetType = msgspec.UNSET


class Incident(msgspec.Struct, gc=False):
    """Alarms of one change of one model: what changed, since when, how bad it is, and whether it is over.

    One id for all messages about it; `revision` counts them from 1 (`docs/semantics.md`).
    """

    id: str
    stream: str
    partition: int
    model: str
    revision: int
    status: str  # open, recovered, closed
    #: The segment whose levels these are, where the model's own level hasn't clearly changed.
    segment: str | None
    stage: str
    #: The alarm that opened it, and where the level changed: outcomes are those of the model in this stage.
    opened: dict[str, int]  # outcome, ts
    change_point: dict[str, int]  # outcome, ts, prediction_ts
    alarms: list[str]
    #: Alarms so far, also beyond those whose ids are named.
    alarm_count: int
    #: What has raised alarms, and at which outcome of its own sequence for the first time.
    signals: list[dict[str, Any]]  # detector, signal, stage, segment, outcome, level
    severity: float
    before: dict[str, Any]  # level, interval, n
    after: dict[str, Any]  # … and at_former_class_ratio
    causes: list[dict[str, Any]]
    #: By name: the levels of baselines before and after.
    baselines: dict[str, dict[str, float]]
    #: Ids of instances that were wrong, the first ones behind the change point.
    examples: list[str]
    #: Alarms of the model before this incident, and over how many outcomes.
    former_alarms: dict[str, int]  # alarms, outcomes
    #: Newest outcome of the model, and its label time.
    outcome: int
    ts: int
    config: str
    #: Of the change: outcomes before and after it (first, last), and by what these were compared.
    compared: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    #: From where on the level is back within its former interval.
    recovered: dict[str, int] | msgspec.UnsetType = msgspec.UNSET  # outcome, ts
    #: As in `Metrics`.
    untimed: bool | msgspec.UnsetType = msgspec.UNSET


class DeadLetter(msgspec.Struct, gc=False):
    """A record that can't be used: where it stands in its input topic, and why."""

    kind: int
    offset: int
    reason: str


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """A message about metrics or a comparison, as it is published."""

    topic: str  # METRICS or COMPARISONS
    stream: str
    json: bytes


#: What is said, as objects.
Message = Metrics | Comparison | Alarm | Incident | DeadLetter

#: What an engine gives; `decoded` makes objects of what is JSON already.
Output = Encoded | Alarm | Incident | DeadLetter

_DECODERS: dict[str, Any] = {
    METRICS: msgspec.json.Decoder(Metrics).decode,
    COMPARISONS: msgspec.json.Decoder(Comparison).decode,
}


def decoded(output: Output) -> Message:
    """An output as an object: one that is JSON is read."""
    if isinstance(output, Encoded):
        message: Metrics | Comparison = _DECODERS[output.topic](output.json)
        return message
    return output


def digest_of(*about: Any) -> Any:
    """The digest of an id whose last parts are missing: see `identity`.

    >>> digest = digest_of("elec2", 0, "nb", None, "final", "all")
    >>> digest.update(b",%d,%d]" % (1000, 0))
    >>> digest.hexdigest()[:32] == identity("elec2", 0, "nb", None, "final", "all", 1000, 0)
    True
    """
    return hashlib.sha256(_encode(about)[:-1])


def identity(*what: Any) -> str:
    """The id of a message about `what`: the same on every machine and in every run.

    >>> identity("elec2", 0, "nb", None, "final", "all", 1000, 0)
    '9ad1de6c69be9de119d05361307c9c08'
    """
    return hashlib.sha256(_encode(what)).hexdigest()[: 2 * ID_BYTES]


def encode(message: Metrics | Comparison | Alarm | Incident) -> bytes:
    """A message as the JSON object that is published."""
    return _encode(message)


def fields_of(message: dict[str, Any]) -> bytes:
    """The fields of a JSON object, without what stands around them.

    >>> fields_of({"a": 1, "b": None})
    b'"a":1,"b":null'
    """
    return _encode(message)[1:-1]

"""The oracle's comparisons: plain sums over the instances that both models have an outcome of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from oracle import Meeting, Result
from oracle_estimators import NOTHING, Halving, parse_estimator
from oracle_records import Record, Settings, identifier
from oracle_scores import Probable, brier, log_loss


@dataclass
class Joint:
    """One instance on which two models meet: their losses, None where one isn't known."""

    a: float | None
    b: float | None
    ts: int
    at: Meeting  # A's
    record: int  # which of the stream's records completed it


def loss_of(
    name: str, settings: Settings, outcome: Mapping[str, Any], proba: Mapping[str, float],
    latest: Mapping[str, Any], known: bool,
) -> float | None:  # fmt: skip
    """An outcome's loss, by the label of the `latest`; probabilities are `known` when it meets them only."""
    y = latest["y_true"]
    if settings.task == "regression":
        error = abs(outcome["y_pred"] - y)
        name = settings.loss if name == "error" else name
        return float(error if name == "absolute" else error * error)
    if name == "cost":
        assert settings.costs is not None
        cost = settings.costs.get(y, {}).get(outcome["y_pred"], 0.0)
        if not settings.by_value:
            return cost
        value = outcome["value"] if latest["value_of_label"] is None else latest["value_of_label"]
        return None if value is None else cost * float(value)
    if name == "error":
        return float(outcome["y_pred"] != y)
    if not known or not proba:
        return None
    probable = Probable(y, outcome["y_pred"], proba)
    return log_loss(probable) if name == "log_loss" else brier(probable)


def joint_outcomes(
    result: Result, stream: str, stage: str, pair: tuple[str, str], loss: str, settings: Settings
) -> list[Joint]:  # fmt: skip
    """In the order in which the later of the two came; both by the label as it was then."""
    if "/" in stage:
        return _stages(result, stream, stage, pair[0], loss, settings)
    found: list[Joint] = []
    lives: dict[Any, dict[str, Any]] = {}
    for outcome, meeting in zip(result.outcomes, result.meetings):
        if (outcome["stream"], outcome["stage"]) != (stream, stage) or outcome["model"] not in pair:
            continue
        both = lives.setdefault(meeting.life, {})
        both[outcome["model"]] = outcome, meeting
        if len(both) == len(pair):
            a, b = (
                loss_of(loss, settings, own, met.proba, outcome, met.record == meeting.record)
                for own, met in (both[name] for name in pair)
            )
            if a is not None and b is not None:
                found.append(Joint(a, b, outcome["ts"], both[pair[0]][1], meeting.record))
    return found


def _stages(
    result: Result, stream: str, stages: str, model: str, loss: str, settings: Settings
) -> list[Joint]:
    """Two stages of one model, such as `initial/final`."""
    found: list[Joint] = []
    a, b = (
        [
            (outcome, meeting)
            for outcome, meeting in zip(result.outcomes, result.meetings)
            if (outcome["stream"], outcome["stage"], outcome["model"]) == (stream, stage, model)
        ]
        for stage in stages.split("/")
    )
    for (one, met), (other, also) in zip(a, b, strict=True):
        losses = [
            loss_of(loss, settings, outcome, meeting.proba, one, True)
            for outcome, meeting in ((one, met), (other, also))
        ]
        if losses[0] is not None and losses[1] is not None:
            found.append(Joint(losses[0], losses[1], one["ts"], met, met.record))
    return found


def due(
    joint: list[Joint],
    stream: str,
    settings: Settings,
    records: Iterable[Record],
    changes: Iterable[int] = (),
) -> list[int]:
    """After which joint outcomes there are messages, but for the last set; `changes`: those of verdicts."""
    completed = Counter(one.record for one in joint)
    moments = {*changes}
    if settings.emit_outcomes is not None:
        moments |= {n for n in range(1, len(joint) + 1) if n % settings.emit_outcomes == 0}
    found: list[int] = []
    n = processed = 0
    newest: int | None = None
    for _, obj, record_time in records:
        before, newest = newest, record_time if newest is None else max(newest, record_time)
        every = settings.emit_comparisons
        if before is not None and every is not None and newest // every > before // every:
            found += [n] if n and n not in found[-1:] else []
        if identifier(obj["stream"]) == stream:
            processed += 1
            found += [one for one in range(n + 1, n + completed[processed] + 1) if one in moments]
            n += completed[processed]
    return found


def ranks(begun: Mapping[Any, int]) -> dict[Any, range]:
    """By pair which places it may have in the order of beginning, by the records that began them."""
    records = list(begun.values())
    return {
        pair: range(1 + sum(one < own for one in records), 1 + sum(one <= own for one in records))
        for pair, own in begun.items()
    }


def statistics(
    joint: list[Joint], estimator: str, counted: bool
) -> tuple[float, dict[str, float], dict[str, str]]:
    """n, measures and undefined ones of an estimator's memory of these outcomes."""
    weights = [1.0] * len(joint)
    if estimator.startswith("window:"):
        joint = joint[-int(estimator[7:]) :]
        weights = weights[: len(joint)]
    elif estimator.startswith("fading:"):
        factor = float(estimator[7:])
        weights = [factor**age for age in range(len(joint) - 1, -1, -1)]
    elif estimator.startswith("decay:"):
        halving = Halving(int(parse_estimator(estimator)[1] or 0))
        weights = [1.0] * bool(joint)
        for factor in [halving.left(one.ts) for one in joint][:0:-1]:
            weights.insert(0, weights[0] * factor)
        if counted:
            weights = [w if w >= NOTHING else 0.0 for w in weights]
    n = sum(weights)
    loss_a = sum(w * one.a for w, one in zip(weights, joint))  # type: ignore[operator]
    loss_b = sum(w * one.b for w, one in zip(weights, joint))  # type: ignore[operator]
    measures, undefined = {"difference": (loss_a - loss_b) / n}, {}
    if loss_a > 0 and loss_b > 0:
        measures["q"] = math.log(loss_a) - math.log(loss_b)
    else:
        undefined["q"] = "zero_loss"
    if counted:
        n01 = sum(w for w, one in zip(weights, joint) if (one.a, one.b) == (1, 0))
        n10 = sum(w for w, one in zip(weights, joint) if (one.a, one.b) == (0, 1))
        measures |= {"n01": n01, "n10": n10}
        if n01 + n10 > 0:
            measures["mcnemar"] = math.copysign((n01 - n10) ** 2 / (n01 + n10), n01 - n10)
            if not estimator.startswith(("fading:", "decay:")) and n01 + n10 < 25:
                both, fewer = int(n01 + n10), int(min(n01, n10))
                tail = sum(math.comb(both, k) for k in range(fewer + 1)) / 2**both
                measures["mcnemar_p"] = min(1.0, 2 * tail)
        else:
            undefined["mcnemar"] = "no_discordant"
    return n, measures, undefined

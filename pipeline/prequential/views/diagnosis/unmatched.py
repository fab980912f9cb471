"""Findings about labels and predictions that don't match."""

from __future__ import annotations

from collections.abc import Iterator

from prequential.configuration.settings.durations import shown_duration
from prequential.engine.input.odd_times import MICROSECONDS, SECONDS
from prequential.engine.input.seen import Refusal
from prequential.topics.decoding import LABELS, PREDICTIONS
from prequential.views.diagnosis.stream_facts import Finding, StreamFacts
from prequential.views.diagnosis.times import has_wrong_times, shown

#: Share of a stream's labels without a prediction from which on there is a finding, and their least number
#: if nothing explains them.
_UNMATCHED, _LEAST_UNMATCHED = 0.05, 10

#: A longer label latency (ms) means that labels and predictions have different units: ten years.
_ABSURD = 10 * 31_556_952_000


def never_meet(stream: StreamFacts) -> bool:
    """Return whether there are predictions and labels, no label has met a prediction, and nothing is late."""
    some = stream.records[PREDICTIONS] and stream.records[LABELS]
    return bool(some and not (stream.matched or stream.late_labels or stream.late_predictions))


def may_lack_predictions(stream: StreamFacts) -> bool:
    """Return whether enough labels have no prediction to search for an example of ids."""
    without, least = stream.unmatched + stream.waiting_labels, _UNMATCHED * stream.records[LABELS]
    return bool(stream.records[PREDICTIONS] and without and without >= least)


def unmatched_findings(
    stream: StreamFacts, least: int, refused: Refusal | None = None
) -> Iterator[Finding]:  # fmt: skip
    """Yield labels without predictions, and labels of instances that are settled and forgotten.

    `refused`: invalid predictions of any stream.
    """
    labels = stream.records[LABELS]
    if labels >= least:
        yield from _never(stream) if never_meet(stream) else _in_part(stream, least, refused)
        yield from _after_settle(stream)


def _never(stream: StreamFacts) -> Iterator[Finding]:
    """Yield why no label has met a prediction."""
    labels, latency = stream.records[LABELS], stream.latency
    if latency is None:
        said = f"none of {labels:,} labels has met a prediction: no instance_id is in both"
        yield Finding("ids", stream.name, said + _example(stream))
        return
    if _explained_by_ids(stream):
        yield from _in_part(stream, 1, None)
        return
    if abs(latency) > _ABSURD:
        if not any(one.oddity in (SECONDS, MICROSECONDS) for one in stream.odd):
            where = "after" if latency > 0 else "before"
            yield Finding(
                "late_labels", stream.name,
                f"none of {labels:,} labels has met a prediction: they are {shown(abs(latency))} {where} "
                "predictions with the same instance_id, by ts: use the same unit of ts for both",
            )  # fmt: skip
    elif latency > stream.horizon:
        yield Finding(
            "late_labels", stream.name,
            f"none of {labels:,} labels came within the horizon of {shown_duration(stream.horizon)}; the "
            f"median time from predictions to labels with the same instance_id is {shown(latency)}: raise "
            "label_horizon",
        )  # fmt: skip
    elif not has_wrong_times(stream):
        yield Finding(
            "late_labels", stream.name,
            f"none of {labels:,} labels has met a prediction, although instance_ids match: records came "
            "more than label_horizon after their ts, or far from the order of ts: check ts",
        )  # fmt: skip


def _explained_by_ids(stream: StreamFacts) -> bool:
    labelled, both = stream.sampled
    return stream.cause is not None and both < labelled / 2


def _in_part(stream: StreamFacts, least: int, refused: Refusal | None) -> Iterator[Finding]:
    """Yield why some labels have met no prediction."""
    labels, cause = stream.records[LABELS], stream.cause
    without = stream.unmatched
    if stream.ended or cause is not None:
        without += stream.waiting_labels
    if not may_lack_predictions(stream) or not without or without < _UNMATCHED * labels:
        return
    said = f"{without:,} of {labels:,} labels ({100 * without / labels:.0f}%) have met no prediction"
    if cause is not None:
        yield Finding("ids", stream.name, said + _example(stream))
        return
    if without < max(least, _LEAST_UNMATCHED) or has_wrong_times(stream):
        return
    if refused is not None and refused.records >= without / 2:
        yield Finding(
            "unmatched", stream.name,
            f"{said}: {refused.records:,} predictions are invalid, most often: {refused.sentence}",
        )  # fmt: skip
        return
    labelled, both = stream.sampled
    if labelled and 1 - both / labelled < _UNMATCHED / 2:
        yield Finding(
            "unmatched", stream.name,
            f"{said}, although predictions have their instance_ids: these predictions came more than "
            f"label_horizon ({shown_duration(stream.horizon)}) after the labels, or records came far from "
            "the order of ts; check ts of both",
        )  # fmt: skip
    else:
        yield Finding("unmatched", stream.name, said + _example(stream))


def _example(stream: StreamFacts) -> str:
    """Return the end of a sentence about ids that differ: the difference, and an example."""
    if stream.cause is not None:
        what, fix, of_label, of_prediction = stream.cause
        return f": {what}, e.g. label `{of_label}`, prediction `{of_prediction}`: {fix}"
    said = ""
    if stream.example.label is not None:
        said = f"; e.g. label `{stream.example.label}`"
        if stream.example.prediction is not None:
            said += f", prediction `{stream.example.prediction}`"
    return f"{said}: use the same ids for both, and check that no predictions are missing"


def _after_settle(stream: StreamFacts) -> Iterator[Finding]:
    late, labels = stream.after_settle, stream.records[LABELS]
    if late and late >= _UNMATCHED * labels:
        first = f" (first: {stream.first_after_settle})" if stream.first_after_settle else ""
        yield Finding(
            "after_settle", stream.name,
            f"{late:,} of {labels:,} labels ({100 * late / labels:.0f}%) came for instances that were "
            f"settled and forgotten{first}, and changed nothing: raise settle "
            f"({shown_duration(stream.settle)}) to let later labels revise outcomes",
        )  # fmt: skip

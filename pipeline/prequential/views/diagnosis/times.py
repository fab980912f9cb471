"""Findings about times of records, and about labels and predictions that don't match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from prequential.configuration.settings.durations import shown_duration
from prequential.engine.input.refusals import Refusal
from prequential.engine.input.seen import AHEAD, LEAST_MICROSECONDS, MICROSECONDS, SECONDS
from prequential.mapping.units import Clocks, TimeColumn, calendar_form
from prequential.topics.decoding import KINDS, LABELS, PREDICTIONS
from prequential.views.diagnosis.classes import quoted
from prequential.views.diagnosis.stream_facts import Finding, Step, StreamFacts

#: No current stream has times after the year 2200, or times in milliseconds before March 1973.
YEAR_2200, _LEAST_MS = 7_258_118_400_000, 100_000_000_000

_YEAR = 31_556_952_000

#: Number of units (ms) from which on a long time is shown in this unit.
_COARSE = (3_600_000, 60_000, 1_000)
_MANY = 10

#: With fewer records, the first and the last time may look like dates by chance.
_LEAST_DATES = 10


def time_findings(stream: StreamFacts, least: int) -> Iterator[Finding]:
    """Yield times of a stream in another unit, and records far ahead of others."""
    dates = list(_dates(stream))
    yield from dates or _units(stream)
    if not dates:
        yield from _ahead(stream)


def has_wrong_times(stream: StreamFacts) -> bool:
    """Return whether times of the stream are wrong, so that late and expired records mean nothing."""
    return bool(stream.odd) or max(stream.latest) >= YEAR_2200 or _astray(stream) is not None


def shown(duration: int) -> str:
    """Return a duration in ms for a sentence, in years if it has many.

    >>> shown(86_100_000), shown(1_790_000), shown(250), shown(50 * _YEAR)
    ('1d', '30m', '250ms', 'about 50 years')
    """
    if duration >= _MANY * _YEAR:
        return f"about {round(duration / _YEAR)} years"
    return shown_duration(rounded(duration))


def rounded(duration: int) -> int:
    """Return a duration in ms, such as a quantile, which is accurate to 1%, in whole units."""
    for unit in _COARSE:
        if duration >= _MANY * unit:
            return (duration + unit // 2) // unit * unit
    return duration


def _units(stream: StreamFacts) -> Iterator[Finding]:
    """Yield times in seconds or microseconds, of all records of a kind or of a share."""
    kinds_present = [kind for kind, count in enumerate(stream.records) if count]
    for oddity, code, text in (
        (SECONDS, "seconds", "in January 1970: are they in seconds instead of milliseconds?"),
        (MICROSECONDS, "future", "in the year {}: are they in microseconds instead of milliseconds?"),
    ):
        odd = [odd_records for odd_records in stream.odd if odd_records.oddity == oddity]
        whole = [
            odd_records.kind for odd_records in odd if odd_records.number >= stream.records[odd_records.kind]
        ]
        year = 1970 + max(stream.latest) // _YEAR
        if whole:
            of_kinds = "" if whole == kinds_present else f" of {' and '.join(KINDS[kind] for kind in whole)}"
            yield Finding(code, stream.name, f"all ts{of_kinds} are {text.format(year)}")
        for odd_records in odd:
            # Some test streams begin at 0, and reach times that look like seconds.
            if odd_records.kind not in whole and max(stream.latest) >= _LEAST_MS:
                total = stream.records[odd_records.kind]
                yield Finding(
                    code, stream.name,
                    f"{odd_records.number:,} of {total:,} ts of {KINDS[odd_records.kind]} "
                    f"({100 * odd_records.number / total:.2g}%) are "
                    f"{text.format(year)} (first: {odd_records.place}): use one unit for all ts of a field",
                    KINDS[odd_records.kind],
                )  # fmt: skip


def _dates(stream: StreamFacts) -> Iterator[Finding]:
    """Yield the kinds of records whose times are dates that are written as numbers, such as 20260105."""
    for kind, records in enumerate(stream.records):
        ends = stream.earliest[kind], stream.latest[kind]
        if records >= _LEAST_DATES and calendar_form(ends) is not None:
            yield Finding(
                "dates", stream.name,
                f"ts of {KINDS[kind]} are from {ends[0]} to {ends[1]}: are they dates instead of "
                "milliseconds since 1970?",
                KINDS[kind],
            )  # fmt: skip


def _ahead(stream: StreamFacts) -> Iterator[Finding]:
    """Yield records whose times are far ahead of their record time, or of all other records."""
    for odd_records in stream.odd:
        if odd_records.oddity == AHEAD:
            yield Finding(
                "ahead", stream.name,
                f"{odd_records.number:,} {KINDS[odd_records.kind]} have a ts far ahead of the record's own "
                f"time (first: {odd_records.place}): check the producer's clock; "
                "one record moves the stream's clock by at most "
                "an hour, or label_horizon/10 if that is less",
                KINDS[odd_records.kind],
            )  # fmt: skip
    step = _astray(stream)
    if step is not None and not any(odd_records.oddity == MICROSECONDS for odd_records in stream.odd):
        late_records = f"{step.later:,} of {sum(stream.records):,} records"
        yield Finding(
            "ahead", stream.name,
            f"{late_records} have a ts {shown(step.after - step.before)} after all others "
            f"(first: {step.place}, "
            f"{np.datetime64(step.after, 'ms').astype('datetime64[s]')}Z): check that time",
            "step",
        )  # fmt: skip
    elif max(stream.latest) >= YEAR_2200 and max(stream.latest) < LEAST_MICROSECONDS:
        year = 1970 + max(stream.latest) // _YEAR
        yield Finding("future", stream.name, f"some ts are in the year {year}: check the producer's clock")


def _astray(stream: StreamFacts) -> Step | None:
    return stream.step if stream.step is not None and stream.step.is_astray else None


# ---- time zones


def zone_findings(clocks: Mapping[str, Clocks]) -> Iterator[Finding]:
    """Yield likely mistakes with time zones, by the name of the input that they are in.

    >>> naive, aware = Clocks(), Clocks()
    >>> naive.note("naive", "2026-01-05 05:00:00")
    >>> aware.note("aware", "2026-01-05T10:10:00Z")
    >>> [finding] = zone_findings({"predictions": naive, "labels": aware})
    >>> print(finding)
    1 ts of predictions has no time zone and was read as UTC (e.g. 2026-01-05 05:00:00), but ts of labels \
has a time zone (e.g. 2026-01-05T10:10:00Z): set `timezone` for ts of predictions, such as {path: ts, \
timezone: America/New_York}, or UTC if that is right
    """
    clocks = _alike(clocks)
    aware = next((name for name, clock in clocks.items() if clock.counts.get("aware")), None)
    for name, clock in clocks.items():
        naive = clock.counts.get("naive", 0)
        if aware is not None and naive:
            aware_ts = "other" if aware == name else f"ts of {aware}"
            has = "times have" if aware == name else "has"
            have, were = ("has", "was") if naive == 1 else ("have", "were")
            yield Finding(
                "naive_times", None,
                f"{naive:,} ts of {name} {have} no time zone and {were} read as UTC (e.g. "
                f"{clock.examples['naive']}), but {aware_ts} {has} a time zone (e.g. "
                f"{clocks[aware].examples['aware']}): set `timezone` for ts of {name}, such as {{path: ts, "
                "timezone: America/New_York}, or UTC if that is right",
                name,
            )  # fmt: skip
        for kind, occurs, way in (
            ("twice", "occur twice", "each was read as the earlier of the two"),
            ("never", "don't exist, as clocks skip them,", "each was read with the offset before the change"),
        ):
            if count := clock.counts.get(kind, 0):
                yield Finding(
                    f"{kind}_local", None,
                    f"{count:,} of {clock.counts['named']:,} local ts of {name} {occurs} in {clock.zone} "
                    f"(e.g. {clock.examples[kind]});  {way}: send times in UTC or with an offset",
                    name,
                )  # fmt: skip


def _alike(clocks: Mapping[str, Clocks]) -> dict[str, Clocks]:
    """Return the clocks with one entry for inputs with the same facts, as from the same column."""
    names: list[tuple[list[str], Clocks]] = []
    for name, clock in clocks.items():
        same = next((same_names for same_names, first_clock in names if first_clock == clock), None)
        if same is None:
            names.append(([name], clock))
        else:
            same.append(name)
    return {" and ".join(same_names): clock for same_names, clock in names}


#: The section of a mapping that was given in Python, rather than in a configuration file, begins with this.
_IN_PYTHON = "columns"


def untimed_findings(columns: Iterable[TimeColumn]) -> Iterator[Finding]:
    """Yield the columns that may contain times, if no record had a time and rows were taken in order.

    >>> for one in untimed_findings([TimeColumn(1, "created_at", "files.predictions")]):
    ...     print(one)
    no record has a ts, so the order of rows is that of time; predictions have a column 'created_at': if \
that is the time, set files.predictions.ts to created_at
    """
    by_kind: dict[int, list[TimeColumn]] = {}
    for column in columns:
        by_kind.setdefault(column.kind, []).append(column)
    if not by_kind:
        return
    names = {kind: [column.name for column in group] for kind, group in by_kind.items()}
    several = "columns" if any(len(group) > 1 for group in names.values()) else "a column"
    if len(set(map(tuple, names.values()))) == 1:
        kinds_named = " and ".join(KINDS[kind] for kind in names)
        have = f"{kinds_named} have {several} {quoted(next(iter(names.values())))}"
    else:
        have = " and ".join(f"{KINDS[kind]} have {quoted(group)}" for kind, group in names.items())
    if any(column.section.startswith(_IN_PYTHON) for group in by_kind.values() for column in group):
        kinds = {KINDS[kind]: {"ts": group[0]} for kind, group in names.items()}
        same = {group[0] for group in names.values()}
        fix = f"pass columns={{'ts': {same.pop()!r}}}" if len(same) == 1 else f"pass columns={kinds}"
    else:
        fix = "set " + ", ".join(f"{group[0].section}.ts to {group[0].name}" for group in by_kind.values())
    sentence = f"no record has a ts, so the order of rows is that of time; {have}: if that is the time, {fix}"
    yield Finding("untimed", None, sentence)


#: Share of a stream's labels without a prediction from which on there is a finding, and their least number
#: if nothing explains them.
_UNMATCHED, _LEAST_UNMATCHED = 0.05, 10

#: A longer label latency (ms) means that labels and predictions have different units: ten years.
ABSURD = 10 * _YEAR


def never_meet(stream: StreamFacts) -> bool:
    """Return whether there are predictions and labels, no label has met a prediction, and nothing is late."""
    has_both = stream.records[PREDICTIONS] and stream.records[LABELS]
    return bool(has_both and not (stream.matched or stream.late_labels or stream.late_predictions))


def may_lack_predictions(stream: StreamFacts) -> bool:
    """Return whether enough labels have no prediction to search for an example of ids."""
    without, least = stream.unmatched + stream.waiting_labels, _UNMATCHED * stream.records[LABELS]
    return bool(stream.records[PREDICTIONS] and without > 0 and without >= least)


def unmatched_findings(stream: StreamFacts, least: int, refused: Refusal | None = None) -> Iterator[Finding]:
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
    if stream.null_labels and not (stream.unmatched or stream.waiting_labels or stream.after_settle):
        yield Finding(
            "null_labels", stream.name,
            f"all {labels:,} labels are null, or were withdrawn by a null one: map y_true to the field with "
            "the true values",
        )  # fmt: skip
        return
    if latency is None:
        sentence = f"none of {labels:,} labels has met a prediction: no instance_id is in both"
        yield Finding("ids", stream.name, sentence + _example(stream))
        return
    labelled, both = stream.sampled
    if stream.cause is not None and both < labelled / 2:  # ids explain it
        yield from _in_part(stream, 1, None)
        return
    if abs(latency) > ABSURD:
        if not any(odd_records.oddity in (SECONDS, MICROSECONDS) for odd_records in stream.odd):
            side = "after" if latency > 0 else "before"
            yield Finding(
                "late_labels", stream.name,
                f"none of {labels:,} labels has met a prediction: they are {shown(abs(latency))} {side} "
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


def _in_part(stream: StreamFacts, least: int, refused: Refusal | None) -> Iterator[Finding]:
    """Yield why some labels have met no prediction."""
    labels, cause = stream.records[LABELS], stream.cause
    without = stream.unmatched + min(0, stream.waiting_labels)  # of those that came since then
    if stream.ended or cause is not None:
        without = stream.unmatched + stream.waiting_labels
    if not may_lack_predictions(stream) or without <= 0 or without < _UNMATCHED * labels:
        return
    sentence = f"{without:,} of {labels:,} labels ({100 * without / labels:.0f}%) have met no prediction"
    if cause is not None:
        yield Finding("ids", stream.name, sentence + _example(stream))
        return
    if without < max(least, _LEAST_UNMATCHED) or has_wrong_times(stream):
        return
    if refused is not None and refused.records >= without / 2:
        yield Finding(
            "unmatched", stream.name,
            f"{sentence}: {refused.records:,} predictions are invalid, most often: {refused.sentence}",
        )  # fmt: skip
        return
    labelled, both = stream.sampled
    if labelled and 1 - both / labelled < _UNMATCHED / 2:
        yield Finding(
            "unmatched", stream.name,
            f"{sentence}, although predictions have their instance_ids: these predictions came more than "
            f"label_horizon ({shown_duration(stream.horizon)}) after the labels, or records came far from "
            "the order of ts; check ts of both",
        )  # fmt: skip
    else:
        yield Finding("unmatched", stream.name, sentence + _example(stream))


def _example(stream: StreamFacts) -> str:
    """Return the end of a sentence about ids that differ: the difference, and an example."""
    if stream.cause is not None:
        difference, fix, of_label, of_prediction = stream.cause
        return f": {difference}, e.g. label `{of_label}`, prediction `{of_prediction}`: {fix}"
    examples = ""
    if stream.example.label is not None:
        examples = f"; e.g. label `{stream.example.label}`"
        if stream.example.prediction is not None:
            examples += f", prediction `{stream.example.prediction}`"
    return f"{examples}: use the same ids for both, and check that no predictions are missing"


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

"""Likely mistakes in a configuration or in records, with a fix for each: facts in, findings out.

`replay` prints them at its end, a worker from time to time. Findings are a function of the facts (see
`views.diagnosis.facts`), so the same facts give the same sentences everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from prequential.configuration.settings.durations import shown_duration
from prequential.engine.input.refusals import Refusal
from prequential.engine.measures.registry import MEASURES
from prequential.engine.tables.streams import OTHER_FORM
from prequential.topics.decoding import KINDS, LABELS, PREDICTIONS
from prequential.views.diagnosis import classes, times
from prequential.views.diagnosis.stream_facts import Facts, Finding, StreamFacts, by_name, listed

#: Share of a stream's labels that may be late without a finding, as in the alert PrequentialLateLabels;
#: share of predictions that may be made after their labels; share of records that may be invalid.
_LATE_LABELS, _LATE_PREDICTIONS, _UNUSABLE = 0.05, 0.5, 0.05

#: A class that is a number, and one that is a number with a fraction.
_NUMBER, _SCORE = re.compile(r"-?\d+(\.\d+)?"), re.compile(r"-?\d+\.\d+")

#: A class that is a whole number; records per class from which on both sides have had all of their classes.
_WHOLE, _RECORDS_PER_CLASS = re.compile(r"-?\d{1,9}"), 20

#: So many classes, all of them numbers, look like numbers.
_MANY_CLASSES = 20

#: Share of predictions with an id of another pending instance, and their least number.
_REUSED, _LEAST_REUSED = 0.05, 3

#: The finding that stops the evaluation of files, unless an option allows it.
REUSED_IDS = "reused_ids"


def findings(facts: Facts, least: int = 1) -> list[Finding]:
    """Return likely mistakes, first the one that explains most.

    With `least` there are no findings on shares and matches among fewer labels or records than these.
    """
    all_findings = [*_unusable(facts, least), *_misplaced(facts), *times.zone_findings(facts.clocks)]
    all_findings += times.untimed_findings(facts.time_columns)
    unmatched = partial(times.unmatched_findings, refused=_refused(facts))
    checks: tuple[Callable[[StreamFacts, int], Iterator[Finding]], ...] = (
        times.time_findings, _reused, _late_labels, _late_predictions, unmatched, _class_sets, _task,
        _lacking,
    )  # fmt: skip
    for check in checks:
        for stream in facts.streams:
            # If records are lost, labels miss their predictions for that reason, not because of their IDs.
            if not (stream.lost and check in (_reused, unmatched)):
                all_findings += check(stream, least)
    for check in (_positive_class, _segments, _compared):
        for stream in together(facts):
            all_findings += check(stream, least)
    all_findings += classes.class_findings(facts.streams, facts.reasons, least)
    all_findings += classes.share_findings(facts.streams, facts.share_columns)
    all_findings += classes.mapping_findings(facts.uses, least)
    all_findings += [*_names(facts, least), *_sections(facts, least)]
    return list(dict.fromkeys(all_findings))  # the partitions of a stream have some findings in common


def _refused(facts: Facts) -> Refusal | None:
    """Return the invalid predictions: their number, and the most frequent reason."""
    reasons = [refusal for refusal in facts.reasons if refusal.kind == PREDICTIONS]
    if not reasons:
        return None
    most = max(reasons, key=lambda refusal: refusal.records)
    return most._replace(records=sum(refusal.records for refusal in reasons))


def together(facts: Facts) -> Iterator[StreamFacts]:
    """Return streams with the facts of all of their partitions together.

    A class or model that one partition has never had may have come in another one.
    """
    for name, parts in by_name(facts.streams).items():
        if name in facts.elsewhere:
            continue
        first, *rest = parts
        instances, predictions, labels = map(sum, zip(*(part.records for part in parts)))
        yield first if not rest else replace(
            first,
            records=(instances, predictions, labels),
            matched=sum(part.matched for part in parts),
            classes=_union(part.classes for part in parts),
            unseen_keys=tuple(
                key for key in first.unseen_keys if all(key in part.unseen_keys for part in rest)
            ),
            other_keys=_union(part.other_keys for part in parts),
            models=_union(part.models for part in parts),
            pairs_left_out=max(part.pairs_left_out for part in parts),
        )  # fmt: skip


def _union(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names_of_part in names for name in names_of_part))


def why_nothing(facts: Facts, findings: list[Finding]) -> str:
    """Return why nothing was evaluated, in one sentence: a missing kind of records, or the first finding."""
    for kind in (PREDICTIONS, LABELS):
        if not facts.records[kind]:
            why = "".join(f": {finding}" for finding in findings if finding.code == "mapping")
            return f"nothing was evaluated: there are no {KINDS[kind]}{why}"
    if findings:
        return f"nothing was evaluated: {findings[0]}"
    return "nothing was evaluated: no prediction has met a label"


# ---- records that can't be used

_REMEDIES = (
    (r"at `\$\.ts`|^ts is ",
     "ts is integer milliseconds since 1970, or RFC 3339 with offset: 2024-05-01T12:00:00Z"),
    (r"y_proba(?!.*`classes`)", 'y_proba is an object of probabilities by class: {"UP": 0.8, "DOWN": 0.2}'),
    (r"segments", 'segments is an object of strings: {"arm": "A"}'),
    (r"task: regression", "`task: classification` if these are classes"),
    (r"one too many: limits\.classes", "`task: regression` if these are numbers; else raise the limit"),
    (r"limits\.", "raise the limit if that is intended"),
    (r"missing required field", "every record of this kind needs the field"),
    (r"^not UTF-8", "records are JSON in UTF-8"),
    (r"malformed|truncated|^expected `object`",
     "each record is one JSON object, and a file has one JSON object per line; a CSV file needs a name "
     "that ends in .csv"),
)  # fmt: skip

_NANOSECONDS = re.compile(r"`int` <= \d+ - at `\$\.ts`|\bts is \W?[1-9]\d{17,18}\W?: ")


def remedy(reason: str) -> str | None:
    """Return the fix for records that are invalid for this reason; None if the reason contains it.

    >>> remedy("expected `object | null`, got `float` - at `$.y_proba`")
    'y_proba is an object of probabilities by class: {"UP": 0.8, "DOWN": 0.2}'
    """
    if _NANOSECONDS.search(reason):
        return "ts is milliseconds since 1970: are these nanoseconds?"
    return next((way for pattern, way in _REMEDIES if re.search(pattern, reason)), None)


def _unusable(facts: Facts, least: int) -> Iterator[Finding]:
    for kind, records in enumerate(facts.records):
        reasons = [reason for reason in facts.reasons if reason.kind == kind]
        letters = sum(reason.records for reason in reasons)
        if not letters or records < least or letters < _UNUSABLE * records:
            continue
        first = max(reasons, key=lambda reason: reason.records)
        sentence = f"{letters:,} of {records:,} {KINDS[kind]} are invalid; most often: {first.sentence}"
        way = remedy(first.sentence)
        yield Finding("unusable", None, f"{sentence} ({way})" if way else sentence, KINDS[kind])


# ---- one stream


def _late_labels(stream: StreamFacts, least: int) -> Iterator[Finding]:
    late = stream.late_labels
    if not late or late + stream.matched < least or late <= _LATE_LABELS * (late + stream.matched):
        return
    sentence = f"{late:,} labels came after the horizon of {shown_duration(stream.horizon)}"
    if stream.lateness is None:
        sentence += " by the stream's clock, although they were on time by their ts: "
        wrong = times.has_wrong_times(stream)
        sentence += "a record far ahead has moved the clock, check clocks" if wrong else "raise label_horizon"
    else:
        absurd, latency = stream.lateness > times.ABSURD, stream.horizon + times.rounded(stream.lateness)
        sentence += (
            f"; their median latency is {times.shown(latency) if absurd else shown_duration(latency)}: "
        )
        sentence += "use the same unit of ts for predictions and labels" if absurd else "raise label_horizon"
    yield Finding("late_labels", stream.name, sentence)


def _late_predictions(stream: StreamFacts, least: int) -> Iterator[Finding]:
    late, predictions = stream.late_predictions, stream.records[PREDICTIONS]
    if predictions >= least and late > _LATE_PREDICTIONS * predictions:
        share = "all" if late == predictions else f"{late:,} of"
        yield Finding(
            "late_predictions", stream.name,
            f"{share} {predictions:,} predictions were made after their labels, by ts, and don't count. "
            "Set ts of predictions to when they were made, of labels to when the truth was known",
        )  # fmt: skip


def _reused(stream: StreamFacts, least: int) -> Iterator[Finding]:
    """Yield a finding if ids come again while the labels of earlier ones are pending."""
    predictions, reused = stream.reused
    if predictions < least or reused < _LEAST_REUSED or reused <= _REUSED * predictions:
        return
    yield Finding(
        REUSED_IDS, stream.name,
        f"ids come again while their labels are pending: {100 * reused / predictions:.0f}% of predictions "
        f"({reused:,} of {predictions:,} that were checked) have the id of another pending instance. "
        "They would get each other's labels: give each instance its own id, also "
        "of several columns, such as instance_id: [customer, day]",
    )  # fmt: skip


def _class_sets(stream: StreamFacts, least: int) -> Iterator[Finding]:
    """Yield a finding if predictions have classes that labels lack, and others may mean the same.

    Of sets of labels, these are the labels.
    """
    has_sets = stream.task == "multilabel"
    if has_sets:
        stream = classes.labels_in_sets(stream)
    predicted, labelled = set(stream.predicted), set(stream.labelled)
    records = min(stream.records[PREDICTIONS], stream.records[LABELS])
    if not predicted or not labelled or records < max(least, classes.LEAST_RECORDS):
        return
    alone, without = predicted - labelled, labelled - predicted
    alike = {classes.meaning(name) for name in alone} & {classes.meaning(name) for name in without}
    both = predicted & labelled
    if both and not alike:
        yield from _shifted(stream, records)
        return
    kind, kinds = ("label", "labels") if has_sets else ("class", "classes")
    summary = (
        f"some {kinds} are written in two ways" if both
        else f"no predicted {kind} occurs among the {'true ones' if has_sets else 'labels'}"
    )  # fmt: skip
    shown, labels_shown = classes.quoted(stream.predicted), classes.quoted(stream.labelled)
    # The predictions' own form, of those with the same meaning.
    by_meaning = {classes.meaning(name): name for name in sorted(alone)}
    names = {
        name: by_meaning[classes.meaning(name)]
        for name in stream.labelled if name in without and classes.meaning(name) in by_meaning
    }  # fmt: skip
    way = ", ".join(f"{old!r}: {new!r}" for old, new in names.items()) or f"{stream.labelled[0]!r}: …"
    fix = "unify them where sets are written" if has_sets else (
        f"unify them with a map such as y_true: {{path: …, map: {{{way}}}}}"
    )  # fmt: skip
    yield Finding(
        "class_sets", stream.name,
        f"{summary}: predictions have {shown}, labels have {labels_shown}; names are compared as text, "
        f"booleans as true and false: {fix}",
    )  # fmt: skip


def _shifted(stream: StreamFacts, records: int) -> Iterator[Finding]:
    """Yield a finding if classes are whole numbers that begin at another number in labels.

    Also if those of two classes are -1 and 1 on one side, and 0 and 1 on the other one.
    """
    sides = {*stream.predicted}, {*stream.labelled}
    if not all(_WHOLE.fullmatch(name) for side in sides for name in side):
        return
    predicted, labelled = (sorted(map(int, side)) for side in sides)
    is_signed = sorted((predicted, labelled)) == [[-1, 1], [0, 1]]
    shifts = {number - other for number, other in zip(predicted, labelled)}
    is_shifted = 1 < len(predicted) == len(labelled) and len(shifts) == 1 and shifts != {0}
    if not (is_signed or is_shifted) or records < _RECORDS_PER_CLASS * len(predicted):
        return
    way = ", ".join(f"'{old}': {new}" for old, new in zip(labelled, predicted))
    yield Finding(
        "class_sets", stream.name,
        f"predictions have {classes.quoted(map(str, predicted))}, labels have "
        f"{classes.quoted(map(str, labelled))}, as if classes were numbered in two ways: if so, unify them "
        f"with a map such as y_true: {{path: …, map: {{{way}}}}}",
    )  # fmt: skip


def _task(stream: StreamFacts, least: int) -> Iterator[Finding]:
    seen = stream.classes
    if stream.task != "classification":
        return
    if len(seen) > _MANY_CLASSES and all(map(_NUMBER.fullmatch, seen)):
        number_kind = "whole numbers" if not any("." in name for name in seen) else "numbers"
        sentence = f"{len(seen)} classes, all {number_kind}: `task: regression` if they are numbers"
        yield Finding("task", stream.name, sentence)
        return
    labels = {*seen, *stream.labelled}
    forms = set(map(classes.canonical, labels))  # `1.0` is a form of 1, and no score
    scores = [
        name for name in stream.named
        if name not in labels and _SCORE.fullmatch(name) and classes.canonical(name) not in forms
    ]  # fmt: skip
    if (
        labels
        and len(scores) >= max(2, len(stream.named) - len(labels))
        and not any(map(_SCORE.fullmatch, labels))
    ):
        yield Finding(
            "task", stream.name,
            f"y_pred has {classes.quoted(scores)}, which look like scores, and labels have "
            f"{classes.quoted(sorted(labels))}: give y_pred a threshold, such as y_pred: {{path: …, "
            "threshold: 0.5, above: …, below: …}, or set `task: regression` if both are numbers",
        )  # fmt: skip


#: What a measure lacks, by the reason for its missing value.
_LACKS = {
    "no_costs": "costs aren't configured: set costs",
    "no_values": "no outcome has a value: send value with predictions or labels",
    "no_probabilities": "no outcome has probabilities: send y_proba with predictions",
    "no_intervals": "no outcome has an interval: send y_lower and y_upper with predictions",
    "no_quantile_sets": "no outcome has quantiles: send quantiles with predictions",
    "no_quantile": "the quantile isn't configured: set quantile, such as 0.9",
    "no_positive_class": "no class is known as positive: set positive_class",
    "no_season": "the season isn't configured: set season, such as 1d",
}  # fmt: skip


def _lacking(stream: StreamFacts, least: int) -> Iterator[Finding]:
    """Yield configured measures that have no value, by what they lack."""
    if stream.matched < least:
        return
    by_reason: dict[str, list[str]] = {}
    for name, reason in stream.lacking:
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        sentence = f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no value"
        if reason == "no_setting":
            settings = dict.fromkeys(setting for name in names for setting in MEASURES[name].inputs.settings)
            why = f"{', '.join(settings)} isn't configured: set {', '.join(settings)}"
        elif reason in _LACKS:
            why = _LACKS[reason]
        else:
            continue
        yield Finding("measures", stream.name, f"{sentence}, because {why}", reason)


def _positive_class(stream: StreamFacts, least: int) -> Iterator[Finding]:
    positive, seen = stream.positive_class, stream.classes
    if positive is None or not seen or stream.records[LABELS] < least:
        return
    if positive in seen or OTHER_FORM.get(positive) in seen:
        return
    yield Finding(
        "positive_class", stream.name,
        f"positive_class `{positive}` never occurs among labels; labels: {listed(seen)}",
    )  # fmt: skip


def _segments(stream: StreamFacts, least: int) -> Iterator[Finding]:
    records = sum(stream.records[:LABELS])  # labels have no segments
    if not records or records < least:
        return
    for key in stream.unseen_keys:
        seen = f"; seen: {listed(stream.other_keys)}" if stream.other_keys else ", nor any other key"
        sentence = f"no record has the key `{key}` in its field segments{seen}"
        yield Finding("segments", stream.name, sentence, key)


# ---- streams together


def _names(facts: Facts, least: int) -> Iterator[Finding]:
    """Yield streams with predictions and no labels, if others have labels and no predictions."""
    predicted = [part for part in facts.streams if part.records[PREDICTIONS] and not part.records[LABELS]]
    # A stream with models had predictions, maybe before this process restored it.
    labelled = [part for part in facts.streams if part.records[LABELS] and not part.models]
    for stream in predicted:
        many = [candidate for candidate in labelled if candidate.records[LABELS] >= least]
        elsewhere = [candidate.partition for candidate in many if candidate.name == stream.name]
        other_names = sorted({candidate.name for candidate in many})
        count = stream.records[PREDICTIONS]
        if count < least:
            continue
        if elsewhere:
            yield Finding(
                "partitions", stream.name,
                f"its predictions are in partition {stream.partition}, its labels in {elsewhere[0]}: "
                "all producers need the partitioner murmur2",
            )  # fmt: skip
        elif other_names:
            yield Finding(
                "names", stream.name,
                f"{count:,} predictions and no label; streams with labels and no predictions: "
                f"{listed(other_names)}; "
                "check that the field stream is the same in both",
            )  # fmt: skip


def _sections(facts: Facts, least: int) -> Iterator[Finding]:
    seen = sorted({stream.name for stream in facts.streams if any(stream.records)})
    if not seen or sum(facts.records) < least:
        return
    stream_names = {stream.name for stream in facts.streams}  # those that were restored and are silent, too
    for name in facts.configured:
        if name not in stream_names:
            sentence = f"streams.{name}: no such stream occurs; streams: {listed(seen)}"
            yield Finding("streams", None, sentence, name)


def _compared(stream: StreamFacts, least: int) -> Iterator[Finding]:
    if stream.pairs_left_out:
        yield Finding(
            "comparisons", stream.name,
            f"pairs of models that are not compared: {stream.pairs_left_out:,}; limits.pairs_per_stream is "
            f"{stream.most_pairs}: raise it, or compare: champion",
        )  # fmt: skip
    if stream.champion is not None and stream.champion not in stream.models and stream.matched >= least:
        yield Finding(
            "champion", stream.name,
            f"champion `{stream.champion}` never occurs among models, so no models are compared; models: "
            f"{listed(stream.models)}",
        )  # fmt: skip
    if stream.estimate is not None and stream.estimate not in stream.models and stream.matched >= least:
        yield Finding(
            "estimate", stream.name,
            f"objective.estimate `{stream.estimate}` never occurs among models, so no errors are estimated; "
            f"models: {listed(stream.models)}",
        )  # fmt: skip


def _misplaced(facts: Facts) -> Iterator[Finding]:
    for name, count in facts.misplaced:
        yield Finding(
            "misplaced", name,
            f"{count:,} records are in a partition that is not the stream's: all producers need the "
            "partitioner murmur2, and the stream's name as key",
        )  # fmt: skip

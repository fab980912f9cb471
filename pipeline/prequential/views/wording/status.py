"""The status of a model and its incidents in words: one word, a sentence, and the story of its page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec
from prequential.engine.estimators.naming import is_baseline
from prequential.engine.measures.registry import LOSSES, MEASURES
from prequential.topics.errors import printable
from prequential.topics.outputs import Alarm, Incident
from prequential.views.wording.measures import baseline_values, main_measure

#: Causes in words.
CAUSES = {
    "class_ratio": "class distribution", "concept": "concept", "persistence": "persistence of labels",
    "coverage": "coverage", "label_latency": "label latency", "selection": "which predictions get labels",
    "segment": "segment", "class": "class", "model_version": "version", "inputs": "other inputs",
    "not_clear": "not clear",
}  # fmt: skip

#: What to do next, by the first cause: as `docs/do/respond-to-incident.md` has it.
NEXT = {
    **dict.fromkeys(("class_ratio", "persistence"), "check the source of labels and the decision thresholds"),
    **dict.fromkeys(("concept", "class"), "inspect the listed instances; consider retraining"),
    "segment": "check upstream features of that segment",
    "inputs": "harder inputs arrive; check where they come from",
    "model_version": "roll back, unless everything changed in that hour",
    **dict.fromkeys(("label_latency", "coverage", "selection"), "check the label pipeline first"),
    "not_clear": "check `noise` and wait",
}  # fmt: skip

#: What to do next about a model that needs attention without an incident, by its status.
NEXT_OF_STATUS = {
    "objective": "compare its segments and classes, then decide on retraining",
    "unlabelled": "check that labels are produced, and that their ids are those of predictions",
    "silent": "check that the model predicts, and that a worker runs",
    "below": "use the baseline until the model is retrained, or check how labels arrive",
}  # fmt: skip

#: … and if no worker runs.
NEXT_WITHOUT_WORKER = "start a worker: prequential worker --config FILE"

#: Share of a change that is due to the class distribution from which on the classes themselves are unchanged.
_ALL = 0.9

#: Characters of an incident's ID by which `explain` finds it.
ID = 8

#: Fields with the subject of a cause.
_NAMED_KINDS = {"segment": "segment", "class": "class", "model_version": "version"}


def cause_in_words(cause: dict[str, Any]) -> str:
    """Return a cause of an incident as text: its subject, and its share in per cent.

    >>> cause_in_words({"cause": "segment", "share": 0.93, "segment": "region=eu"})
    'segment region=eu (93%)'
    >>> cause_in_words({"cause": "class_ratio", "share": 0.96, "class": "a", "before": 0.25, "after": 0.55})
    'more of class a: 25% → 55% (96%), errors within classes unchanged'
    >>> cause_in_words({"cause": "not_clear", "share": 0.0})
    'not clear'
    """
    if cause["cause"] == "not_clear":
        return cause_name(cause)
    share = f"({100 * cause['share']:.0f}%)"
    if cause["cause"] != "class_ratio" or not cause.keys() >= {"class", "before", "after"}:
        return f"{cause_name(cause)} {share}"
    before, after = cause["before"], cause["after"]
    subject = f"{'more' if after > before else 'less'} of class {printable(str(cause['class']))}"
    unchanged = ", errors within classes unchanged" if cause["share"] >= _ALL else ""
    return f"{subject}: {100 * before:.0f}% → {100 * after:.0f}% {share}{unchanged}"


def cause_name(cause: dict[str, Any]) -> str:
    """Return the subject of a cause of an incident, as text.

    >>> cause_name({"cause": "segment", "share": 0.93, "segment": "region=eu"})
    'segment region=eu'
    """
    name = str(cause["cause"])
    part_name = cause.get(_NAMED_KINDS.get(name, ""))
    return (
        f"{CAUSES.get(name, printable(name))}{'' if part_name is None else f' {printable(str(part_name))}'}"
    )


def next_step(message: Incident) -> str:
    """Return what to do next about an incident, by its first cause."""
    cause = str(message.causes[0]["cause"]) if message.causes else "not_clear"
    return NEXT.get(cause, NEXT["not_clear"])


def span_of(message: Incident, axis: str) -> tuple[int, int | None]:
    """Return start and end of an incident on axis `ts` or `outcome`; an open incident has no end."""
    start: int = message.change_point[axis]
    if message.status == "open":
        return start, None
    if isinstance(message.recovered, dict):
        return start, message.recovered[axis]
    return start, message.ts if axis == "ts" else message.outcome


def is_share(incident: Incident) -> bool:
    """Return whether levels are shares that are right, such as accuracy or recall."""
    if not isinstance(incident.loss, str):
        return bool(incident.baselines)  # only incidents of classification have them
    return incident.loss in LOSSES and LOSSES[incident.loss].one_less


def level(loss: float | None, incident: Incident) -> float | None:
    """Return a level of an incident: the share that is right, or else the mean loss."""
    return 1 - loss if loss is not None and is_share(incident) else loss


def level_name(incident: Incident) -> str:
    """Return the name of the values of `level`."""
    if isinstance(incident.loss, str):
        return incident.loss.replace("_", " ")
    return "accuracy" if incident.baselines else "mean loss"


#: Shares of the worst rise by which the present level is called recovering, or worse than it will last.
_RECOVERING, _AT_WORST = 0.5, 0.9


#: A ratio of levels that reads as more than 1.0.
_VISIBLE_RATIO = 1.05


def size_in_words(message: Incident) -> str:
    """Return how bad it is, by what lasts: `24 wrong in 100, before 7: 3.4 times as many`.

    Other losses than errors: `mean loss 0.25, before 0.1: 2.5 times as much`. Small rises are differences:
    `22.9 wrong in 100, before 22.1: 0.8 more`.
    """
    before, after = message.before["level"], message.after["level"]
    rise, name = after - before, level_name(message)
    has_ratio = after > before > 0 and after >= _VISIBLE_RATIO * before
    if name == "accuracy":
        smaller = 100 * (min(before, rise) if before > 0 else rise)
        digits = 0 if has_ratio and smaller >= 1 else 1 if smaller >= 0.1 else 2
        text = f"{100 * after:.{digits}f} wrong in 100, before {100 * before:.{digits}f}"
        size = f"{after / before:.1f} times as many" if has_ratio else f"{100 * rise:.{digits}f} more"
        return f"{text}: {size}" if before > 0 else text
    if is_share(message):
        return f"{name} {100 * (1 - after):.1f}%, before {100 * (1 - before):.1f}%"
    size = f"{after / before:.1f} times as much" if has_ratio else f"{rise:.2g} more"
    return f"{name} {after:.3g}, before {before:.3g}: {size}"


def present_in_words(message: Incident) -> str:
    """Return where the level is now: `recovering: 14.1% now; before 7.0%, worst 24.0%`.

    Levels are losses: of errors, shares that are wrong. What is over, or an older message, has none: "".
    """
    if message.now is msgspec.UNSET or message.worst is msgspec.UNSET:
        return ""
    before, worst, now = (part["level"] for part in (message.before, message.worst, message.now))
    share = (now - before) / (worst - before) if worst > before else 1.0
    if share >= _AT_WORST:
        name = "at its worst"
    elif share < _RECOVERING:
        name = "recovering"
    else:
        name = "the change lasts" if message.grade == "lasting" else "still worse"
    now_text, before_text, worst_text = (_loss_in_words(loss, message) for loss in (now, before, worst))
    return f"{name}: {now_text} now; before {before_text}, worst {worst_text}"


def _loss_in_words(loss: float, message: Incident) -> str:
    return f"{100 * loss:.1f}%" if is_share(message) else f"{loss:.3g}"


def levels_in_words(message: Incident) -> str:
    """Return the levels before and after the change: `accuracy 90.0% → 75.0%`, or `mean loss 0.1 → 0.25`."""
    before, after = (level(side["level"], message) for side in (message.before, message.after))
    if before is None or after is None:
        return "worse"
    if is_share(message):
        return f"{level_name(message)} {100 * before:.1f}% → {100 * after:.1f}%"
    return f"{level_name(message)} {before:.3g} → {after:.3g}"


def subject_of(message: Incident | Alarm) -> str:
    """Return the model of an incident, and its segment."""
    segment = "" if message.segment is None else f" {printable(message.segment)}"
    return f"{printable(message.stream)}/{printable(message.model)}{segment}"


def standing_in_words(message: Incident) -> str:
    """Return status and grade: `open, possible`; older messages have no grade.

    While it is open, also where the level is now.
    """
    parts = [message.status, *([message.grade] if isinstance(message.grade, str) else [])]
    return ", ".join(part for part in (*parts, present_in_words(message)) if part)


def sentence(message: Incident) -> str:
    """Return an incident in one line: since when, how bad, what changed, and its status."""
    causes = ", ".join(cause_in_words(cause) for cause in message.causes[:2])
    alarms = f"{message.alarm_count:,} alarm{'' if message.alarm_count == 1 else 's'}"
    return (
        f"{subject_of(message)} {message.stage}: {standing_in_words(message)}, began at outcome "
        f"{message.change_point['outcome']:,}, {size_in_words(message)}; {causes}; {alarms}; "
        f"incident {printable(message.id[:ID])}"
    )


#: Models that are named.
_MOST_NAMED = 10


def changed_with(incident: Incident, incidents: Iterable[Incident]) -> list[Incident]:
    """Return incidents of other models of the stream whose changes overlap with this one's.

    A change lasts from its change point to its alarm. A change point is an estimate, so a change
    extends to both sides by the time that either took to be noticed.
    """
    begins, ends = _span(incident)
    neighbours = []
    for candidate in incidents:
        if (candidate.stream, candidate.partition) != (
            incident.stream,
            incident.partition,
        ) or candidate.model == incident.model:
            continue
        first, last = _span(candidate)
        slack = max(ends - begins, last - first)
        if first - slack <= ends and begins - slack <= last:
            neighbours.append(candidate)
    return sorted(
        neighbours, key=lambda candidate: (abs(_span(candidate)[0] - begins), candidate.model, candidate.id)
    )


def unchanged(incident: Incident, changed: Iterable[Incident], models: Iterable[str]) -> list[str]:
    """Return the stream's models without a change at that time, except baselines."""
    unaffected = {name for name in models if not is_baseline(name)}
    return sorted(unaffected - {incident.model} - {neighbour.model for neighbour in changed})


def in_words(incident: Incident, incidents: Iterable[Incident], models: Iterable[str]) -> Iterator[str]:
    """Yield a line for each model that changed, and one for the others."""
    changed = changed_with(incident, incidents)
    for neighbour in changed[:_MOST_NAMED]:
        levels = levels_in_words(neighbour)
        yield f"{printable(neighbour.model)} changed at the same time: {levels} ({neighbour.id[:8]})"
    if len(changed) > _MOST_NAMED:
        yield f"… and {len(changed) - _MOST_NAMED:,} more"
    unaffected = unchanged(incident, changed, models)
    names = ", ".join(map(printable, unaffected[:_MOST_NAMED])) + (
        " …" if len(unaffected) > _MOST_NAMED else ""
    )
    if unaffected:
        yield f"{'no change of' if changed else 'none of the others changed:'} {names}"
    elif not changed:
        yield "no other model of the stream is known"


def _span(incident: Incident) -> tuple[int, int]:
    """Return the time from the change point to the alarm that opened the incident (label times, ms)."""
    return incident.change_point["ts"], max(incident.change_point["ts"], incident.opened["ts"])


#: Statuses in the order of their urgency, with their words. A model has the first one that applies.
WORDS = {
    "worse": "worse", "objective": "misses objective", "unlabelled": "no labels", "silent": "silent",
    "below": "below baseline", "waiting": "no label yet",
    "few": "few outcomes", "beaten": "another is better", "steady": "steady", "baseline": "baseline",
}  # fmt: skip

#: Statuses that need attention.
URGENT = ("worse", "objective", "unlabelled", "silent", "below")

#: A model with fewer outcomes has no reliable status.
FEW = 30

#: Causes and models that a sentence names.
_CAUSES, _NAMED = 1, 3


def moment(ms: int) -> str:
    """Return a time (epoch ms) as text, to the minute.

    >>> moment(1_700_000_000_000)
    '14 Nov 2023 22:13'
    """
    try:
        utc_time = datetime.fromtimestamp(ms / 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return str(ms)
    return f"{utc_time.day} {utc_time:%b %Y %H:%M}"


def began_in_words(incident: Incident) -> str:
    """Return the beginning of an incident: a time, or an outcome if the records have no times."""
    point = incident.change_point
    return f"outcome {point['outcome']:,}" if incident.untimed else moment(point["ts"])


def _levels(incident: Incident) -> tuple[str, str] | None:
    """Return the levels before and after the change as text; None if one is missing."""
    before, after = (level(side.get("level"), incident) for side in (incident.before, incident.after))
    if before is None or after is None:
        return None
    shown = _percent if incident.baselines or is_share(incident) else number
    return shown(before), shown(after)


def change_in_words(incident: Incident) -> str:
    """Return the levels since the beginning of an incident and before it."""
    levels, since = _levels(incident), began_in_words(incident)
    if levels is None:
        return f"Worse since {since}"
    before, after = levels
    if incident.baselines:
        return f"Right in {after} of outcomes since {since}, {before} before"
    name = level_name(incident)
    return f"{name[0].upper()}{name[1:]} {after} since {since}, {before} before"


def finding(incident: Incident, latest: float | None = None, *, is_back: bool = False) -> str:
    """Return the finding of an incident: the heading of its page.

    `latest` is the level in the latest outcomes of an open incident; `is_back`: it is near that before.
    """
    levels = _levels(incident)
    in_segment = "" if incident.segment is None else f" in {printable(incident.segment)}"
    model = f"{printable(incident.model)}{in_segment}"
    is_open = incident.status == "open" and not is_back
    if levels is None:
        return f"{model} {'is' if is_open else 'was'} worse"
    before, after = levels
    back = f", back at {levels_text(incident)(latest)}" if is_back and latest is not None else ""
    if incident.baselines:
        return f"{model} {'is' if is_open else 'was'} right in {after} of outcomes, {before} before{back}"
    return f"{model} {'has' if is_open else 'had'} a {level_name(incident)} of {after}, {before} before{back}"


def levels_text(incident: Incident) -> Callable[[float], str]:
    """Return the function that writes a level of an incident: a percentage, or a number."""
    return _percent if incident.baselines or is_share(incident) else number


def severity_in_words(severity: float) -> str:
    """Return a severity on its scale, by Cohen's words (1988)."""
    return f"severity {severity:.2f}, on a scale from 0.2 (small) over 0.5 (medium) to 0.8 (large)"


def noise_sentence(incident: Incident) -> str:
    """Return how often the detectors of a model raised alarms before an incident."""
    alarms, outcomes = (incident.former_alarms.get(name, 0) for name in ("alarms", "outcomes"))
    if not alarms:
        return f"No alarm in the {outcomes:,} outcomes before."
    alarms_text = f"{alarms:,} alarm{'' if alarms == 1 else 's'}"
    return f"{alarms_text} in the {outcomes:,} outcomes before: one in {outcomes // alarms:,}."


def incident_sentence(incident: Incident, other_models: Sequence[str] = ()) -> str:
    """Return an incident in short sentences: its levels, its first cause, and models that also changed."""
    return f"{change_in_words(incident)}. {cause_sentence(incident, other_models)}".strip()


def cause_sentence(incident: Incident, other_models: Sequence[str] = ()) -> str:
    """Return the first cause of an incident, and the models that also changed, in short sentences."""
    parts = [f"Cause: {cause_in_words(cause)}" for cause in incident.causes[:_CAUSES]]
    if other_models:
        parts.append(f"Changed at the same time: {names(other_models)}")
    return " ".join(f"{part}." for part in parts)


def objective_sentence(measure: str, value: float, bound: float, less_is_better: bool) -> str:
    """Return a missed objective as a sentence.

    >>> objective_sentence("accuracy", 0.8, 0.85, False)
    'accuracy is 0.800: the objective is at least 0.85.'
    """
    most = "most" if less_is_better else "least"
    return f"{measure} is {number(value)}: the objective is at {most} {bound}."


def silence_sentence(lasted: int, why: str, waiting: int | None = None) -> str:
    """Return a sentence: for how long (ms) a model has had no new outcomes, and why.

    `waiting` is the number of predictions that wait for labels; None: the labels have not stopped.

    >>> silence_sentence(28_800_000, "its labels stopped, its predictions go on", 2400)
    '2,400 predictions wait, no label for 8 h: its labels stopped, its predictions go on.'
    >>> silence_sentence(1_260_000, "no worker runs")
    'No labelled prediction for 21 min: no worker runs.'
    """
    if waiting is None:
        return f"No labelled prediction for {age(lasted)}: {why}."
    return f"{waiting:,} prediction{'' if waiting == 1 else 's'} wait, no label for {age(lasted)}: {why}."


def unlabelled_sentence(waiting: int | None, lasted: int) -> str:
    """Return a sentence about a model that has predictions, and has never had a label, for `lasted` ms.

    >>> unlabelled_sentence(2400, 28_800_000), unlabelled_sentence(None, 0)
    ('2,400 predictions, no label for 8 h.', 'Predictions arrive, no label yet.')
    """
    predictions = f"prediction{'' if waiting == 1 else 's'}"
    subject = "Predictions arrive" if waiting is None else f"{waiting:,} {predictions}"
    return f"{subject}, no label {'yet' if lasted < _SECOND else f'for {age(lasted)}'}."


#: Units of a length of time, in ms, the largest first.
_SECOND = 1_000
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", _SECOND))


def age(ms: int) -> str:
    """Return a length of time in its largest unit.

    >>> age(28_800_000), age(90_000), age(0)
    ('8 h', '1 min', '0 s')
    """
    for unit, size in _UNITS:
        if ms >= size:
            return f"{ms // size} {unit}"
    return "0 s"


def better_sentence(better: Sequence[str]) -> str:
    """Return the models that are better as a sentence."""
    return f"{names(better)} {'is' if len(better) == 1 else 'are'} better."


def value_sentence(measures: Mapping[str, float], estimator: str, n: float, outcomes: int) -> str:
    """Return a model's main measure, and the best baseline that beats it, as sentences.

    >>> value_sentence({"accuracy": 0.5, "p_maj": 0.75}, "window:1000", 1000, 4000)
    'Right in 50.0% of the latest 1,000 outcomes. The most frequent label is right in 75.0%.'
    """
    name = main_measure(measures)
    outcomes_text = _where(estimator, n, outcomes)
    if name is None:
        return f"No measure has a value in {outcomes_text}."
    if name != "accuracy":
        return f"{name} is {number(measures[name])} in {outcomes_text}."
    baselines = baseline_values(measures, name)
    best = max(baselines, key=lambda baseline: baseline.value, default=None)
    sentence = f"Right in {_percent(measures[name])} of {outcomes_text}."
    if best is None or best.value <= measures[name]:
        return sentence
    baseline_name = best.line.name
    return f"{sentence} {baseline_name[:1].upper()}{baseline_name[1:]} is right in {_percent(best.value)}."


def _where(estimator: str, n: float, outcomes: int) -> str:
    """Return a text that names the outcomes behind an estimator's values.

    >>> _where("window:1000", 1000, 4000), _where("all", 4000, 4000), _where("window:1000", 20, 20)
    ('the latest 1,000 outcomes', 'all 4,000 outcomes', 'all 20 outcomes')
    >>> _where("fading:0.997", 333.3, 4000)
    '4,000 outcomes, by fading:0.997'
    """
    if n == outcomes:
        return f"all {outcomes:,} outcomes"
    if estimator.startswith("window:"):
        return f"the latest {n:,.0f} outcomes"
    return f"{outcomes:,} outcomes, by {estimator}"


def names(texts: Sequence[str]) -> str:
    """Return names as a list, with the number of those that are not named."""
    shown = [printable(text) for text in texts[:_NAMED]]
    more = len(texts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def attention(needs: int, models: int) -> str:
    """Return the heading of the overview: how many of the models need attention.

    >>> attention(5, 13), attention(1, 2), attention(0, 2), attention(0, 0)
    ('5 of 13 models need attention', '1 of 2 models needs attention', 'No model needs attention', 'Models')
    """
    if not needs:
        return "No model needs attention" if models else "Models"
    return f"{needs:,} of {models:,} models need{'s' if needs == 1 else ''} attention"


def number(value: float) -> str:
    """Return a measure's value as text: three decimals below 10, else four digits."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def references(measures: Mapping[str, float], name: str) -> Iterator[dict[str, Any]]:
    """Yield the baselines of a measure: name, value, and the value's difference from it."""
    if name not in measures:
        return
    definition = MEASURES.get(name)
    values = [(baseline.line.short, baseline.value) for baseline in baseline_values(measures, name)]
    if definition is not None and definition.quality and definition.reference is not None:
        values.append((definition.reference.short, 0.0))
    for short, value in values:
        yield {"name": short, "value": value, "difference": measures[name] - value}


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"

"""The status of a model in words: one word, a sentence, and the story of its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from prequential.engine.measures.registry import MEASURES
from prequential.topics.errors import printable
from prequential.topics.outputs import Incident
from prequential.views.wording.incidents import cause_in_words, is_share, level, level_name
from prequential.views.wording.measures import COMPARED, baseline_references

#: Statuses in the order of their urgency, with their words. A model has the first one that applies.
WORDS = {
    "worse": "worse", "objective": "misses objective", "silent": "silent", "waiting": "no label yet",
    "few": "few outcomes", "beaten": "another is better", "steady": "steady", "baseline": "baseline",
}  # fmt: skip

#: Statuses that need attention.
URGENT = ("worse", "objective", "silent")

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
        when = datetime.fromtimestamp(ms / 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return str(ms)
    return f"{when.day} {when:%b %Y %H:%M}"


def began_in_words(incident: Incident) -> str:
    """Return the beginning of an incident: a time, or an outcome if the records have no times."""
    point = incident.change_point
    return f"outcome {point['outcome']:,}" if incident.untimed else moment(point["ts"])


def change_in_words(incident: Incident) -> str:
    """Return the levels since the beginning of an incident and before it."""
    before = level(incident.before.get("level"), incident)
    after = level(incident.after.get("level"), incident)
    since = began_in_words(incident)
    if before is None or after is None:
        return f"Worse since {since}"
    if incident.baselines:
        return f"Right in {_percent(after)} of outcomes since {since}, {_percent(before)} before"
    name, shown = level_name(incident), _percent if is_share(incident) else number
    return f"{name[0].upper()}{name[1:]} {shown(after)} since {since}, {shown(before)} before"


def finding(incident: Incident) -> str:
    """Return the finding of an incident: the heading of its page."""
    before = level(incident.before.get("level"), incident)
    after = level(incident.after.get("level"), incident)
    where = "" if incident.segment is None else f" in {printable(incident.segment)}"
    model = f"{printable(incident.model)}{where}"
    if before is None or after is None:
        return f"{model} is worse"
    if incident.baselines:
        return f"{model} is right in {_percent(after)} of outcomes, {_percent(before)} before"
    name, shown = level_name(incident), _percent if is_share(incident) else number
    return f"{model} has a {name} of {shown(after)}, {shown(before)} before"


def noise_sentence(incident: Incident) -> str:
    """Return how often the detectors of a model raised alarms before an incident."""
    alarms, outcomes = (incident.former_alarms.get(name, 0) for name in ("alarms", "outcomes"))
    if not alarms:
        return f"No alarm in the {outcomes:,} outcomes before."
    found = f"{alarms:,} alarm{'' if alarms == 1 else 's'}"
    return f"{found} in the {outcomes:,} outcomes before: one in {outcomes // alarms:,}."


def incident_sentence(incident: Incident, others: Sequence[str] = ()) -> str:
    """Return an incident in short sentences: its levels, its first cause, and models that also changed."""
    return f"{change_in_words(incident)}. {cause_sentence(incident, others)}".strip()


def cause_sentence(incident: Incident, others: Sequence[str] = ()) -> str:
    """Return the first cause of an incident, and the models that also changed, in short sentences."""
    parts = [f"Cause: {cause_in_words(one)}" for one in incident.causes[:_CAUSES]]
    if others:
        parts.append(f"Changed at the same time: {names(others)}")
    return " ".join(f"{part}." for part in parts)


def objective_sentence(measure: str, value: float, bound: float, less_is_better: bool) -> str:
    """Return a missed objective as a sentence.

    >>> objective_sentence("accuracy", 0.8, 0.85, False)
    'accuracy is 0.800: the objective is at least 0.85.'
    """
    most = "most" if less_is_better else "least"
    return f"{measure} is {number(value)}: the objective is at {most} {bound}."


def silence_sentence(since: int, why: str) -> str:
    """Return a sentence: since when a model has had no new outcomes, and why."""
    return f"No new outcomes since {moment(since)}; {why}."


def better_sentence(better: Sequence[str]) -> str:
    """Return the models that are better as a sentence."""
    return f"{names(better)} {'is' if len(better) == 1 else 'are'} better."


def value_sentence(measures: Mapping[str, float], estimator: str, n: float, outcomes: int) -> str:
    """Return a model's main measure, and the best baseline that beats it, as sentences.

    >>> value_sentence({"accuracy": 0.5, "p_maj": 0.75}, "window:1000", 1000, 4000)
    'Right in 50.0% of the latest 1,000 outcomes. The most frequent label is right in 75.0%.'
    """
    name = next((one for one in COMPARED if one in measures), None)
    where = _where(estimator, n, outcomes)
    if name is None:
        return f"No measure has a value in {where}."
    if name != "accuracy":
        return f"{name} is {number(measures[name])} in {where}."
    lines = {
        one.line.name: measures[one.measure] for one in baseline_references(name) if one.measure in measures
    }
    best = max(lines, key=lambda one: lines[one], default=None)
    said = f"Right in {_percent(measures[name])} of {where}."
    if best is None or lines[best] <= measures[name]:
        return said
    return f"{said} {_capital(best)} is right in {_percent(lines[best])}."


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


def names(found: Sequence[str]) -> str:
    """Return names as a list, with the number of those that are not named."""
    shown = [printable(one) for one in found[:_NAMED]]
    more = len(found) - len(shown)
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
    """Return a measure's value as text."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def references(measures: Mapping[str, float], name: str) -> Iterator[dict[str, Any]]:
    """Yield the baselines of a measure: name, value, and the value's difference from it."""
    if name not in measures:
        return
    one = MEASURES.get(name)
    found = [
        (other.line.short, 1 - measures[other.measure] if other.one_less else measures[other.measure])
        for other in baseline_references(name)
        if other.measure in measures
    ]
    if one is not None and one.quality and one.reference is not None:
        found.append((one.reference.short, 0.0))
    for short, value in found:
        yield {"name": short, "value": value, "difference": measures[name] - value}


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

"""The evidence of a cause of an incident, in words."""

from __future__ import annotations

from typing import Any

from prequential.topics.dead_letters import clock
from prequential.topics.errors import printable
from prequential.views.wording import status


def evidence(cause: dict[str, Any], *, untimed: bool = False) -> str:
    """Return a cause, and the change behind it.

    >>> evidence({"cause": "class_ratio", "share": 0.9, "class": "b", "before": 0.1, "after": 0.5})
    'more of class b: 10% → 50% (90%), errors within classes unchanged'
    >>> evidence({"cause": "selection", "share": 0.8, "segment": "region=eu", "before": 0.7, "after": 0.2})
    'which predictions get labels (80%): of segment region=eu from 70% to 20%'
    >>> evidence({"cause": "segment", "share": 0.9, "segment": "region=us", "before": 0.2, "after": 0.7})
    'segment region=us (90%): from 20% to 70%'
    >>> evidence({"cause": "inputs", "share": 0.9, "confidence": {"before": 0.95, "after": 0.8}})
    'other inputs (90%): mean confidence from 95% to 80%'
    >>> evidence({"cause": "concept", "share": 0.6, "since": {"outcome": 2501, "ts": 0}})
    'concept (60%), since outcome 2,501, labels of 1970-01-01T00:00:00Z'
    """
    return f"{status.cause_in_words(cause)}{evidence_details(cause, untimed=untimed)}"


def evidence_details(cause: dict[str, Any], *, untimed: bool = False) -> str:
    """Return the change behind a cause, without its name and its share; "" if nothing more is known.

    >>> evidence_details({"cause": "segment", "segment": "region=us", "before": 0.2, "after": 0.7})
    ': from 20% to 70%'
    """
    sentence = ""
    if cause["cause"] != "class_ratio" and "before" in cause and "after" in cause:
        subject = "".join(
            f"of {kind} {printable(str(cause[kind]))} "
            for kind in ("class", "segment")
            if kind in cause and f"{kind}_share" not in cause and cause["cause"] != kind
        )
        sentence += f": {subject}from {100 * cause['before']:.0f}% to {100 * cause['after']:.0f}%"
    if "confidence" in cause:
        sure = cause["confidence"]
        sentence += f": mean confidence from {100 * sure['before']:.0f}% to {100 * sure['after']:.0f}%"
    if "other_models" in cause:
        other_models = cause["other_models"]
        sentence += f"; of {other_models['models']} other models {other_models['worse']} got worse at once"
    if "since" in cause:
        sentence += f", since outcome {cause['since']['outcome']:,}"
        sentence += "" if untimed else f", labels of {clock(cause['since']['ts'])}"
    for name in ("segment", "class"):
        if f"{name}_share" in cause:
            sentence += f"; {100 * cause[f'{name}_share']:.0f}% of it in {name} {printable(str(cause[name]))}"
    return sentence


def named_evidence(cause: dict[str, Any], *, untimed: bool) -> str:
    """Return a cause under the name that it has in messages and in the documentation.

    >>> named_evidence({"cause": "inputs", "share": 0.9}, untimed=False)
    'inputs: other inputs (90%)'
    >>> named_evidence({"cause": "concept", "share": 0.6}, untimed=False)
    'concept (60%)'
    """
    details = evidence(cause, untimed=untimed)
    return details if details.startswith(f"{cause['cause']} (") else f"{cause['cause']}: {details}"

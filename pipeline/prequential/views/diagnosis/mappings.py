"""Findings about values of a mapping that no record has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prequential.mapping.uses import Uses
from prequential.views.diagnosis.classes import canonical, quoted
from prequential.views.diagnosis.stream_facts import Finding


def mapping_findings(all_uses: Iterable[Uses], least: int = 1) -> Iterator[Finding]:
    """Yield values of a `map`, and conditions, that no record matched, if there were records.

    Conditions are also checked if another form of their value occurs.

    >>> from prequential.mapping.parsing import parse
    >>> section = {"y_true": {"path": "y", "map": {"Y": 1, "N": 0}}, "instance_id": "id", "when": "op = u"}
    >>> uses = Uses(parse(section, 2, bare=True))
    >>> uses.note_values("y_true", ["Y", "Y"])
    >>> uses.note_condition(0, ["U", "c"], 0)
    >>> for finding in mapping_findings([uses]):
    ...     print(finding)
    the mapping.y_true.map names 'N', which no record has; records have 'Y'
    the mapping.when: no record has op = u; records have 'U', 'c'
    """
    for uses in all_uses:
        origin = uses.mapping.origin
        for field, met in uses.met.items():
            absent = [one for one in uses.named(field) if one not in met]
            if met and absent:
                yield _finding(
                    f"{origin.place(field, 'map')} names {quoted(absent)}, which no record has; records have "
                    f"{quoted(sorted(met))}"
                )
        for condition, asked, held, values in zip(uses.mapping.when, uses.asked, uses.held, uses.values):
            if asked < max(1, least):
                continue
            path, wanted = condition.path.text, condition.value
            if wanted is None:
                if not held:
                    yield _finding(f"{origin.place('when')}: no record has {path}")
                continue
            sign = "=" if condition.equal else "!="
            others = [one for one in values if one != wanted and canonical(one) == canonical(wanted)]
            if condition.equal and not held:
                there = f"records have {quoted(values)}" if values else "records have no value there"
                yield _finding(f"{origin.place('when')}: no record has {path} = {wanted}; {there}")
            elif others:
                yield _finding(
                    f"{origin.place('when')}: {path} {sign} {wanted} doesn't match {quoted(others)}, which "
                    "records also have: values are compared as text"
                )


def _finding(sentence: str) -> Finding:
    return Finding("mapping", None, sentence, sentence)

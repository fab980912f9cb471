"""Findings about classes: one class in two forms, probabilities of other names, unused classes and values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from prequential.engine.input.refusals import Refusal
from prequential.engine.tables.streams import OTHER_FORM
from prequential.mapping.model import Uses
from prequential.topics.decoding import KINDS, LABELS, PREDICTIONS
from prequential.topics.values import labels_of
from prequential.views.diagnosis.stream_facts import Finding, ShareColumns, StreamFacts, by_name, listed

#: Ways to write two classes.
_MEANINGS = {
    "1": "true", "yes": "true", "y": "true", "t": "true",
    "0": "false", "no": "false", "n": "false", "f": "false",
}  # fmt: skip

#: A whole number as programs write it that have it as a float.
_WHOLE = re.compile(r"([+-]?\d+)\.0*")

#: What programs write for an absent value: Python, numpy, pandas, R, SQL and spreadsheets.
_FOR_ABSENT = {"", "nan", "none", "null", "nil", "na", "n/a", "#n/a", "<na>", "nat", "(null)"}

#: A number with more digits after the point than one of 16 bits needs.
_DECIMAL = re.compile(r"[+-]?\d{1,38}\.\d{5,}")

#: Invisible characters in addition to those of `_UNSEEN`: combining grapheme joiner, Hangul fillers, Khmer's
#: inherent vowels, braille's blank, variation selectors.
_INVISIBLE = {
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10),
    *range(0x180B, 0x180F), *range(0xE0100, 0xE01F0),
}  # fmt: skip

#: Categories of invisible characters: formats, control characters such as NUL, and unassigned ones.
_UNSEEN = ("Cf", "Cc", "Cn")

#: Bytes as Python writes them where they were not decoded: `b'spam'`.
_BYTES = re.compile(r"""b(?P<mark>['"])(?P<text>.*)(?P=mark)""", re.DOTALL)

#: Quotation marks, and the brackets that Python writes around the only element of a list or an array.
_QUOTES, _LISTED_ALONE = "\"'`“”‘’«»", re.compile(r"\[(?P<text>[^\[\],]+)\]", re.DOTALL)

#: Cyrillic and Greek letters that look like Latin ones, which keyboards and text recognition mix up.
_LOOKALIKES = str.maketrans(
    dict(zip("авеѕіјкмнорстухһԁԛԝαοερτυκνικχ", "abesijkmhopctyxhdqwaoeptuknikx"))
)  # fmt: skip

#: Labels that are indicators of labels.
_INDICATORS = {"0", "1", "true", "false"}

#: Share of predictions with probabilities whose own class may have none.
_WITHOUT_OWN = 0.05

#: With fewer predictions or labels the set of classes is not known.
LEAST_RECORDS = 10

#: With more classes, columns aren't searched for their names.
_MOST_CLASSES = 200

#: Pairs of forms and code points that are shown of many.
_PAIRS, _POINTS = 3, 8


def class_findings(
    streams: Sequence[StreamFacts], reasons: Sequence[Refusal], least: int
) -> Iterator[Finding]:
    """Yield likely mistakes with classes; the partitions of a stream are checked together.

    With `least`, streams with fewer labels, or predictions with probabilities, have no such finding.
    """
    for name, parts in by_name(streams).items():
        if parts[0].task == "multilabel":
            labels = [labels_in_sets(part) for part in parts]
            yield from _forms(name, labels, least)
            yield from _indicators(name, labels, least)
        elif parts[0].task != "regression":
            yield from _probabilities(name, parts, least)
            yield from _forms(name, parts, least)
            yield from _absent(name, parts, least)
            yield from _configured(name, parts, least)
    yield from _dropped(reasons)


# ---- labels of sets


def labels_in_sets(part: StreamFacts) -> StreamFacts:
    """Return the facts of a stream of sets with the labels in its sets instead of the sets."""
    kept = ("named", "predicted", "labelled", "classes", "foreign")
    names: dict[str, Any] = {
        field: tuple(dict.fromkeys(label for name in getattr(part, field) for label in labels_of(name)))
        for field in kept
    }
    return replace(part, **names, at_horizon=None)


def _indicators(name: str, parts: Sequence[StreamFacts], least: int) -> Iterator[Finding]:
    """Yield a finding if all labels are 0 and 1, or booleans, as in vectors of indicators."""
    named = {class_name for part in parts for class_name in part.named}
    records = sum(part.records[LABELS] for part in parts)
    if named and named <= _INDICATORS and records >= max(least, LEAST_RECORDS):
        yield Finding(
            "indicators", name,
            f"the only labels in sets are {quoted(sorted(named))}, which look like vectors of indicators: "
            "give the names of the labels instead, such as [\"jazz\", \"rock\"], or set `classes`",
        )  # fmt: skip


# ---- one class in several forms


@lru_cache(maxsize=1 << 16)
def canonical(name: str) -> str:
    r"""Return a class's name without the usual differences between two ways to write it.

    These are the Unicode form, case, blanks around it, invisible and control characters, quotation marks,
    `b''` or the brackets of a list around it, letters of another alphabet, `.0` after a whole number, and
    the digits that a number of 32 or 16 bits gets in 64 bits.

    >>> canonical(" Spam\u200b "), canonical("\uff33pam"), canonical("1.0"), canonical("cafe\u0301")
    ('spam', 'spam', '1', 'café')
    >>> canonical("spam\0\0"), canonical("b'spam'"), canonical("0.10000000149011612")
    ('spam', 'spam', '0.1')
    >>> canonical('"spam"'), canonical("['spam']"), canonical("sp\u0430m")
    ('spam', 'spam', 'spam')
    """
    text = _visible(unicodedata.normalize("NFKC", _visible(_decoded(name))))
    text = _in_latin(unicodedata.normalize("NFC", _single_blanks(_unquoted(text)).casefold()))
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else _shortest(text)


def meaning(name: str) -> str:
    """Return the meaning of a class's name, in whatever form it is written.

    >>> meaning("no "), meaning("1.0"), meaning("Yes"), meaning("UP")
    ('false', 'true', 'true', 'up')
    """
    plain = canonical(name)
    return _MEANINGS.get(plain, plain)


def looks_alike(first: str, second: str) -> bool:
    """Return whether code points are needed to distinguish two names, as visible ASCII does not."""
    return not (first + second).isascii() or _single_blanks(first) == _single_blanks(second)


def _visible(text: str) -> str:
    return "".join(character for character in text if character.isspace() or not _is_invisible(character))


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in _UNSEEN or ord(character) in _INVISIBLE


def _decoded(text: str) -> str:
    """Return the text in Python's form of bytes; any other text unchanged."""
    match = _BYTES.fullmatch(text.strip())
    return match["text"] if match else text


def _unquoted(text: str) -> str:
    """Return the text without quotation marks and the brackets of a list around it."""
    match = _LISTED_ALONE.fullmatch(text.strip())
    text = (match["text"] if match else text).strip()
    is_quoted = len(text) > 2 and text[0] in _QUOTES and text[-1] in _QUOTES
    return text[1:-1] if is_quoted else text


def _in_latin(text: str) -> str:
    """Return the text with Latin letters for those of other alphabets that look alike, if it has both kinds.

    >>> _in_latin("sp\u0430m") == "spam", _in_latin("\u0441\u043e\u043a") == "cok"
    (True, False)
    """
    return text.translate(_LOOKALIKES) if re.search("[a-z]", text) else text


def _shortest(text: str) -> str:
    """Return a number of 32 or 16 bits with as few digits as it has there; any other text unchanged.

    >>> _shortest("0.10000000149011612"), _shortest("0.0999755859375"), _shortest("0.1"), _shortest("0.375")
    ('0.1', '0.1', '0.1', '0.375')
    """
    if _DECIMAL.fullmatch(text):
        number = float(text)
        for kind in (np.float16, np.float32):
            narrow = kind(number) if abs(number) <= np.finfo(kind).max else kind(0)
            if float(narrow) == number:
                return np.format_float_positional(narrow, trim="-")
    return text


def _single_blanks(text: str) -> str:
    return " ".join(text.split())


#: Ways in which two forms of a name differ: how, the fix, and a form in which they are the same.
_WAYS: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("in their Unicode form", "normalise both to NFC", lambda name: unicodedata.normalize("NFC", name)),
    ("in blanks", "strip them", _single_blanks),
    ("in invisible characters", "remove these", _visible),
    ("in Python's form of bytes", "decode them", _decoded),
    ("in quotation marks or brackets", "remove these", _unquoted),
    ("in the width or style of characters", "normalise both to NFKC",
     lambda name: unicodedata.normalize("NFKC", name)),
    ("in the digits of 32 and 64 bits", "write both with the same bits", _shortest),
    ("in case", "write both in one case", lambda name: unicodedata.normalize("NFC", name.casefold())),
    ("in letters of another alphabet that look alike", "write both in one alphabet",
     lambda name: _in_latin(name.casefold())),
)  # fmt: skip


def _way_of(first: str, second: str) -> tuple[str, str]:
    """Return how two names with one meaning differ, and the fix."""
    for differ, fix, form in _WAYS:
        if form(first) == form(second):
            return differ, fix
    plain = canonical(first)
    if plain != canonical(second) or plain.lstrip("+-").isdigit():
        return "in how a number or a boolean is written", "write both in one way"
    return "in case, blanks or forms of characters", "write both in one way"


def _forms(name: str, parts: Sequence[StreamFacts], least: int) -> Iterator[Finding]:
    named = dict.fromkeys(class_name for part in parts for class_name in part.named)
    written = _written(parts)
    for part in parts:  # `_configured` reports a class that no record has
        if part.at_horizon is not None and part.at_horizon not in written:
            named.pop(part.at_horizon, None)
    foreign = {
        class_name: None
        for part in parts
        for class_name in part.foreign
        if OTHER_FORM.get(class_name) not in named
    }
    classes = [*named, *(class_name for class_name in foreign if class_name not in named)]
    says = _meanings(classes)
    groups: dict[str, list[str]] = {}
    for class_name in classes:
        groups.setdefault(says[class_name], []).append(class_name)
    by_way: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for group in groups.values():
        for variant in group[1:]:
            if not any(_is_said(group[0], variant, part, least) for part in parts):
                by_way.setdefault(_way_of(group[0], variant), []).append((group[0], variant))
    for (differ, fix), pairs in by_way.items():
        shown = ", ".join(f"{_shown(*pair)} and {_shown(*pair[::-1])}" for pair in pairs[:_PAIRS])
        more = f" and {len(pairs) - _PAIRS} pairs more" if len(pairs) > _PAIRS else ""
        of_sides = _sides_of_forms(pairs[0], parts)
        yield Finding(
            "class_forms", name,
            f"{shown}{more} count as different classes and differ only {differ}{of_sides}: if they are one "
            f"class, {fix} where they are written",
            differ,
        )  # fmt: skip


def _meanings(classes: Sequence[str]) -> dict[str, str]:
    """Return the meaning of each class: `yes` and 1 are the same if most classes are such names."""
    plain = {class_name: canonical(class_name) for class_name in classes}
    names = {*plain.values()}
    binary = {form for form in names if form in _MEANINGS or form in _MEANINGS.values()}
    return (
        {class_name: meaning(class_name) for class_name in classes}
        if 2 * len(binary) >= len(names)
        else plain
    )


def _is_said(first: str, second: str, stream: StreamFacts, least: int) -> bool:
    """Return whether only predictions have one form and only labels the other, and the forms look different.

    The finding about sets of classes then covers it.
    """
    if looks_alike(first, second) or min(stream.records[PREDICTIONS], stream.records[LABELS]) < max(
        least, LEAST_RECORDS
    ):
        return False
    predicted, labelled = {*stream.predicted}, {*stream.labelled}
    alone, without = predicted - labelled, labelled - predicted
    return (first in alone and second in without) or (second in alone and first in without)


def _shown(name: str, other_name: str) -> str:
    """Return a name, with the code points in which it differs from another one that looks alike."""
    if not looks_alike(name, other_name):
        return repr(name)
    start, end = 0, 0
    shorter = min(len(name), len(other_name))
    while start < shorter and name[start] == other_name[start]:
        start += 1
    while end < shorter - start and name[-1 - end] == other_name[-1 - end]:
        end += 1
    points = [f"U+{ord(character):04X}" for character in name[start : len(name) - end]]
    cut = " …" if len(points) > _POINTS else ""
    return f"{name!r} ({' '.join(points[:_POINTS])}{cut})" if points else repr(name)


def _sides_of_forms(pair: tuple[str, str], parts: Sequence[StreamFacts]) -> str:
    """Return whether predictions or labels have each form of a name, if that is known."""
    sides = []
    for class_name in pair:
        has = {
            "predictions": any(class_name in part.predicted for part in parts),
            "labels": any(class_name in part.labelled for part in parts),
            "y_proba": any(class_name in part.foreign for part in parts),
        }
        sides.append(" and ".join(side for side, is_there in has.items() if is_there))
    if not all(sides):
        return ""
    if sides[0] == sides[1]:
        return f" (both in {sides[0]})"
    return f" (the first in {sides[0]}, the second in {sides[1]})"


# ---- texts for an absent value


def _absent(name: str, parts: Sequence[StreamFacts], least: int) -> Iterator[Finding]:
    """Yield classes that only predictions or only labels have, and that programs write for absent values."""
    sides = {
        "predictions": {class_name for part in parts for class_name in part.predicted},
        "labels": {class_name for part in parts for class_name in part.labelled},
    }
    records = [sum(part.records[kind] for part in parts) for kind in (PREDICTIONS, LABELS)]
    if not all(sides.values()) or min(records) < max(least, LEAST_RECORDS):
        return
    for side, other in (("labels", "predictions"), ("predictions", "labels")):
        absent = sorted(filter(_is_for_absent, sides[side] - sides[other]))
        if absent:
            yield Finding(
                "absent", name,
                f"{side} have {quoted(absent)} as a class, which {other} don't have and programs write for "
                f"absent values: leave out such {side}, or write null where they are written",
                side,
            )  # fmt: skip


def _is_for_absent(class_name: str) -> bool:
    return canonical(class_name) in _FOR_ABSENT


# ---- probabilities


def _probabilities(name: str, parts: Sequence[StreamFacts], least: int) -> Iterator[Finding]:
    """Yield a finding if probabilities name none of the classes of predictions and labels."""
    labels = {class_name for part in parts for class_name in part.classes}
    foreign = [*dict.fromkeys(class_name for part in parts for class_name in part.foreign)]
    scored, without = (sum(part.scored[index] for part in parts) for index in (0, 1))
    names_a_label = any(
        class_name in labels or OTHER_FORM.get(class_name) in labels for class_name in foreign
    )
    if not foreign or names_a_label or scored < least or without <= _WITHOUT_OWN * scored:
        return
    classes = [*dict.fromkeys(class_name for part in parts for class_name in part.named)]
    share = "all" if without == scored else f"{without:,} of"
    yield Finding(
        "y_proba", name,
        f"y_proba of {share} {scored:,} predictions names neither the class of y_pred nor that of any label: "
        f"y_proba has {quoted(foreign)}, y_pred and y_true have {quoted(classes)}. So the correct class has "
        "probability 0: use the classes of y_pred in y_proba",
    )  # fmt: skip


def share_findings(streams: Sequence[StreamFacts], columns: Iterable[ShareColumns]) -> Iterator[Finding]:
    """Yield columns that are named as classes and that are no `y_proba`, if no prediction has one.

    >>> [names] = share_columns_of(("proba_yes", "proba_no", "score"), ["no", "yes"])
    >>> names
    {'yes': 'proba_yes', 'no': 'proba_no'}
    """
    for unread in columns:
        for name, parts in by_name(streams).items():
            classes = list(dict.fromkeys(class_name for part in parts for class_name in part.named))
            scored = sum(part.scored[0] for part in parts)
            if scored or parts[0].task != "classification" or len(classes) > _MOST_CLASSES:
                continue
            for by_class in share_columns_of(unread.names, classes):
                paths = {
                    class_name: column if column.isidentifier() else f'"{column}"'  # of one step
                    for class_name, column in by_class.items()
                }
                way = f"set {unread.section}.y_proba to {paths}"
                if unread.section.startswith("columns"):
                    way = f"pass columns={{'predictions': {{'y_proba': {paths}}}}}"
                yield Finding(
                    "share_columns", name,
                    f"no prediction has y_proba, but there are columns {quoted(by_class.values())}: if they "
                    f"are probabilities, {way}",
                )  # fmt: skip


def share_columns_of(names: Sequence[str], classes: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield columns by class where two or more names consist of a class and the same other text."""
    by_rest: dict[tuple[str, bool], dict[str, str]] = {}
    for name in names:
        folded = name.casefold().rstrip(")]")  # such as P(yes)
        # The longest class that a name ends or begins with is its own.
        for class_name in sorted(classes, key=len, reverse=True):
            text = class_name.casefold()
            if text and folded != text and folded.endswith(text):
                by_rest.setdefault((folded[: -len(text)], True), {}).setdefault(class_name, name)
                break
            if text and folded != text and folded.startswith(text):
                by_rest.setdefault((folded[len(text) :], False), {}).setdefault(class_name, name)
                break
    yield from (by_class for by_class in by_rest.values() if len(by_class) > 1)


# ---- configured classes


def _configured(name: str, parts: Sequence[StreamFacts], least: int) -> Iterator[Finding]:
    """Yield configured classes that neither predictions nor labels have."""
    if sum(part.records[LABELS] for part in parts) < max(1, least):
        return
    named = _written(parts)
    for key, wanted in (
        ("costs", dict.fromkeys(class_name for part in parts for class_name in part.costs)),
        ("label_at_horizon", dict.fromkeys(part.at_horizon for part in parts if part.at_horizon is not None)),
    ):
        absent = [
            class_name
            for class_name in wanted
            if class_name not in named and OTHER_FORM.get(class_name) not in named
        ]
        if absent:
            verb = "was" if len(absent) == 1 else "were"
            yield Finding(
                key, name,
                f"{key} names {quoted(absent)}, which {verb} never seen among predictions and labels; seen: "
                f"{quoted(named)}",
            )  # fmt: skip


def _written(parts: Sequence[StreamFacts]) -> dict[str, None]:
    """Return the classes that records have; if there are too many to tell apart, also configured ones."""
    named = dict.fromkeys(class_name for part in parts for class_name in part.named)
    if not all(part.predicted or part.labelled for part in parts):
        return named
    met = {class_name for part in parts for class_name in (*part.predicted, *part.labelled)}
    return {class_name: None for class_name in named if class_name in met}


def _dropped(reasons: Sequence[Refusal]) -> Iterator[Finding]:
    """Yield a finding if records were dropped because of their class: measures exclude them."""
    of_classes = [refusal for refusal in reasons if "limits.classes_per_stream" in refusal.sentence]
    if not of_classes:
        return
    limit = of_classes[0].sentence.rpartition(" ")[2]
    counted = " and ".join(
        f"{count:,} {KINDS[kind]}" for kind in (PREDICTIONS, LABELS)
        if (count := sum(refusal.records for refusal in of_classes if refusal.kind == kind))
    )  # fmt: skip
    yield Finding(
        "classes", None,
        f"measures cover only the first {limit} classes of a stream (limits.classes_per_stream): {counted} "
        "of other classes were dropped: raise it in the configuration (`limits: {classes_per_stream: 4096}`; "
        "in Python by `config=`), or set `task: regression` if classes are numbers",
    )  # fmt: skip


def quoted(names: Iterable[str]) -> str:
    """Return names in quotes for a sentence, the first few of many."""
    return listed(list(map(repr, names)))


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
            absent = [class_name for class_name in uses.named(field) if class_name not in met]
            if met and absent:
                yield _finding(
                    f"{origin.place(field, 'map')} names {quoted(absent)}, which no record has; records have "
                    f"{quoted(sorted(met))}"
                )
        for field, scores in uses.scores.items():
            if scores.is_off_scale and scores.count >= least:
                side, count = ("above", scores.above) if 2 * scores.above > scores.count else (
                    "below", scores.count - scores.above
                )  # fmt: skip
                share = "all" if count == scores.count else f"{count:,} of"
                yield _finding(
                    f"{origin.place(field, 'threshold')}: {share} {scores.count:,} scores ({scores.least:g} "
                    f"to {scores.most:g}) are {side} the threshold {scores.threshold:g}, which is on another "
                    "scale: give the threshold on the scale of the scores"
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
            similar = [value for value in values if value != wanted and canonical(value) == canonical(wanted)]
            if condition.equal and not held:
                there = f"records have {quoted(values)}" if values else "records have no value there"
                yield _finding(f"{origin.place('when')}: no record has {path} = {wanted}; {there}")
            elif similar:
                yield _finding(
                    f"{origin.place('when')}: {path} {sign} {wanted} doesn't match {quoted(similar)}, which "
                    "records also have: values are compared as text"
                )


def _finding(sentence: str) -> Finding:
    return Finding("mapping", None, sentence, sentence)

"""Facts about streams and their records, forms of ids, and findings: sentences about likely mistakes."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from prequential.engine.input.refusals import Refusal
from prequential.mapping.model import Uses
from prequential.mapping.units import Clocks, TimeColumn

#: How many of the compared ids must have a counterpart by a form, and their share.
_LEAST, _SHARE = 1, 0.05

#: Digits that form a number: a prefix that consists of digits must explain nearly all ids, and more of them
#: than a decade has, as 60 to 69 begin with 6 before 0 to 9.
_NEARLY_ALL, _DECADE = 0.99, 10

#: Digits of whole numbers up to which 64-bit floats represent each one.
_EXACT_DIGITS = 15

_UUID = re.compile(r"(?:urn:uuid:)?\{?([0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})\}?", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_BYTES = re.compile(r"""b(['"])(.*)\1""")
_QUOTES = "\"'`“”‘’«»"


class IdentifierDifference(NamedTuple):
    """The difference between ids, the fix, and an example."""

    difference: str
    fix: str
    label: str
    prediction: str


class _LikelyCause(NamedTuple):
    """A difference that ids may have, the fix, and pairs of ids of labels and predictions that have it."""

    difference: str
    fix: str
    pairs: list[tuple[str, str]]


class Unpaired(NamedTuple):
    """Ids of labels that met no prediction, and of predictions that met no label."""

    labels: Sequence[str]
    predictions: Sequence[str]


def likely_cause(ids: Unpaired) -> IdentifierDifference | None:
    """Return the form that matches most ids of labels with ids of predictions; None if no form does.

    >>> likely_cause(Unpaired(["7.0", "8.0"], ["7", "8", "9"]))
    IdentifierDifference(difference='one side has decimal text', fix='write whole numbers without decimals', \
label='7.0', prediction='7')
    >>> likely_cause(Unpaired(["order-7", "order-8"], ["7", "8"])).difference
    "ids of labels begin with 'order-'"
    >>> likely_cause(Unpaired(["a"], ["b"]))
    """
    causes = [_LikelyCause(difference, fix, _pairs(ids, form)) for difference, fix, form in _FORMS]
    for owner, ours, theirs in (
        ("labels", ids.labels, ids.predictions), ("predictions", ids.predictions, ids.labels)
    ):  # fmt: skip
        for is_prefix in (True, False):
            affix_and_pairs = _affix(ours, theirs, is_prefix=is_prefix)
            if affix_and_pairs is not None:
                affix, pairs = affix_and_pairs
                verb = "begin" if is_prefix else "end"
                if owner == "predictions":
                    pairs = [(their_id, our_id) for our_id, their_id in pairs]
                difference = f"ids of {owner} {verb} with {affix!r}"
                causes.append(
                    _LikelyCause(difference, "add it to or remove it from the ids of one side", pairs)
                )
    cause = max(causes, key=lambda cause: len(cause.pairs))  # the first of equal ones
    if not cause.pairs:
        cause = _of_both_affixes(ids)
    return IdentifierDifference(cause.difference, cause.fix, *cause.pairs[0]) if cause.pairs else None


def _pairs(ids: Unpaired, form: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return pairs of ids of labels and predictions that differ, but have the same form."""
    by_form: dict[str, str] = {}
    for prediction in ids.predictions:
        by_form.setdefault(form(prediction), prediction)
    pairs = [(label, by_form[key]) for label in ids.labels if (key := form(label)) in by_form]
    pairs = [(label, prediction) for label, prediction in pairs if label != prediction]
    return pairs if len(pairs) >= max(_LEAST, _SHARE * len(ids.labels)) else []


def _affix(
    ours: Sequence[str], theirs: Iterable[str], *, is_prefix: bool
) -> tuple[str, list[tuple[str, str]]] | None:
    """Return the text that most of our ids have before (or after) the id of another one, and such pairs."""
    their_ids = set(theirs)
    pairs_by_affix: dict[str, list[tuple[str, str]]] = {}
    for our_id in ours:
        for cut in range(1, len(our_id)):
            rest, affix = (our_id[cut:], our_id[:cut]) if is_prefix else (our_id[:cut], our_id[cut:])
            if rest in their_ids:
                pairs_by_affix.setdefault(affix, []).append((our_id, rest))
    if not pairs_by_affix:
        return None
    affix, pairs = max(pairs_by_affix.items(), key=lambda item: len(item[1]))
    share, least = _SHARE, min(2, len(ours))
    if affix.isdigit():
        share, least = _NEARLY_ALL, _DECADE + 1
    return (affix, pairs) if len(pairs) >= max(least, share * len(ours)) else None


def _of_both_affixes(ids: Unpaired) -> _LikelyCause:
    """Return ids that differ in a prefix of one side."""
    # The text before the first digit, in most ids of each side.
    heads = (Counter(re.split(r"\d", text, maxsplit=1)[0] for text in ids_of_side) for ids_of_side in ids)
    prefixes = [count.most_common(1)[0][0] for count in heads if count]
    if len(prefixes) < 2 or not all(prefixes):
        return _LikelyCause("", "", [])
    of_labels, of_predictions = prefixes
    rests = {
        prediction[len(of_predictions) :]: prediction
        for prediction in ids.predictions
        if prediction.startswith(of_predictions)
    }
    pairs = [
        (label, rests[label[len(of_labels) :]]) for label in ids.labels
        if label.startswith(of_labels) and label[len(of_labels) :] in rests
    ]  # fmt: skip
    difference = f"ids of labels begin with {of_labels!r}, ids of predictions with {of_predictions!r}"
    pairs = pairs if len(pairs) >= max(2, _NEARLY_ALL * min(len(ids.labels), len(rests))) else []
    return _LikelyCause(difference, "remove the prefix on both sides", pairs)


def _without_blanks(text: str) -> str:
    return "".join(
        character
        for character in text
        if not character.isspace() and unicodedata.category(character) not in _UNSEEN
    )


#: Categories of invisible characters: formats (zero-width ones), control.
_UNSEEN = ("Cf", "Cc")


def _decimal(text: str) -> str:
    """Return numbers as whole ones if they are whole."""
    if not _NUMBER.fullmatch(text):
        return text
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if number != number.to_integral_value() or abs(number.adjusted()) > 2 * _EXACT_DIGITS:
        return text
    return str(int(number)) if text[0] != "0" or set(text) <= set("0.") else text


def _rounded(text: str) -> str:
    if not _NUMBER.fullmatch(text) or sum(map(str.isdigit, text)) < _EXACT_DIGITS:
        return text
    return repr(float(text))


def _uuid(text: str) -> str:
    match = _UUID.fullmatch(text)
    return match[1].replace("-", "").lower() if match else text


def _unquoted(text: str) -> str:
    match = _BYTES.fullmatch(text)
    return match[2] if match else text.strip(_QUOTES)


def _plain(text: str) -> str:
    text = _without_blanks(_unquoted(unicodedata.normalize("NFKC", text)))
    return _decimal(_ZEROS.sub("", _uuid(text).casefold()))


#: The description of each form, the fix, and the function that brings ids into it; simple ones first.
_FORMS: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("one side has decimal text", "write whole numbers without decimals", _decimal),
    ("one side has blanks or invisible characters", "strip them", _without_blanks),
    ("ids differ in upper and lower case", "use one case", str.casefold),
    ("one side has leading zeros", "keep ids as text, or remove leading zeros on both sides",
     lambda text: _ZEROS.sub("", text)),
    ("UUIDs are written in two forms", "use one form, such as lower case with hyphens", _uuid),
    ("one side has quotes", "remove them", _unquoted),
    ("characters are coded in two ways (Unicode forms)", "normalise ids to NFC",
     lambda text: unicodedata.normalize("NFKC", text)),
    ("ids have different separators", "use one separator", lambda text: "".join(filter(str.isalnum, text))),
    ("numbers were rounded to 64-bit floats", "read ids as text or integers, never as floats", _rounded),
    ("ids are written in several forms", "write ids in one form on both sides", _plain),
)  # fmt: skip


#: Records after the longest step of time that count as few: this number, or this share.
_FEW, _FEW_SHARE = 3, 0.01


class Finding(NamedTuple):
    """A likely mistake. `code` is its kind; `stream` is None if it is about no single stream.

    Findings with the same `subject` are one finding, even if the numbers in their sentences differ.
    """

    code: str
    stream: str | None
    sentence: str
    subject: str = ""

    def __str__(self) -> str:
        return self.sentence if self.stream is None else f"{self.stream}: {self.sentence}"


class OddRecords(NamedTuple):
    """Records of a kind whose times are odd in one way (see `engine.input.seen`)."""

    oddity: int
    kind: int
    number: int
    place: str | None  # of the first one


class Step(NamedTuple):
    """The longest step of a stream's time: from `before` to `after` (ms), the ts of a record of a kind."""

    before: int
    after: int
    kind: int
    earlier: int  # records before it, and records as late or later
    later: int
    place: str | None

    @property
    def is_astray(self) -> bool:
        """Return whether the few records after it may have a wrong time."""
        return self.later <= max(_FEW, _FEW_SHARE * (self.earlier + self.later))


class Example(NamedTuple):
    """Ids of pending instances: one with predictions and no label, one with a label only."""

    prediction: str | None = None
    label: str | None = None


#: No instance is pending, or nothing was searched.
NO_EXAMPLE = Example()


@dataclass(frozen=True)
class StreamFacts:
    """The facts of one stream in one partition. Times are ms; triples are by kind of record."""

    name: str
    partition: int
    task: str
    horizon: int
    records: tuple[int, int, int]  # usable ones
    earliest: tuple[int, int, int]  # ts, 0 without records
    latest: tuple[int, int, int]
    matched: int  # labels that met a prediction
    late_predictions: int  # made after their labels
    late_labels: int
    lateness: int | None = None  # median time of late labels beyond the horizon, if it is known
    reused: tuple[int, int] = (0, 0)  # of predictions that were followed: all, and with an id of others
    latency: int | None = None  # median from predictions to labels with the same id, met or not
    sampled: tuple[int, int] = (0, 0)  # of sampled ids: those with a label; of these, with a prediction
    settle: int = 0
    unmatched: int = 0  # labels that had met no prediction when their horizon ended
    waiting_labels: int = 0  # change of their number, in facts since earlier ones
    null_labels: int = 0  # labels that are null, which withdraw one if there is one
    after_settle: int = 0  # labels of instances that were settled and forgotten
    first_after_settle: str | None = None  # where the first one is
    odd: tuple[OddRecords, ...] = ()  # records whose times are odd
    step: Step | None = None  # the longest step of time
    cause: IdentifierDifference | None = None  # why ids differ
    ended: bool = False  # whether no more records come
    predicted: tuple[str, ...] = ()  # classes that predictions have named, and labels, if these are few
    labelled: tuple[str, ...] = ()
    positive_class: str | None = None
    classes: tuple[str, ...] = ()  # of labels, the most frequent first
    named: tuple[str, ...] = ()  # all classes of the stream
    costs: tuple[str, ...] = ()  # classes that `costs` name
    at_horizon: str | None = None  # `label_at_horizon`
    scored: tuple[int, int] = (0, 0)  # predictions with probabilities; without one of their own class
    foreign: tuple[str, ...] = ()  # names in the latter, if none of them is the class of a label
    unseen_keys: tuple[str, ...] = ()  # of segments: configured, in no record
    other_keys: tuple[str, ...] = ()  # … in records, not configured
    example: Example = NO_EXAMPLE
    models: tuple[str, ...] = ()
    champion: str | None = None  # where others are compared with it alone
    lacking: tuple[tuple[str, str], ...] = ()  # measures without a value in any model, and the reason of each
    estimate: str | None = None  # the model whose predictions estimate errors
    pairs_left_out: int = 0  # pairs of models beyond `most_pairs`, which aren't compared
    most_pairs: int = 0
    lost: bool = False  # whether records are missing, so that labels may have lost their predictions


def by_name(streams: Iterable[StreamFacts]) -> dict[str, list[StreamFacts]]:
    """Return the partitions of each stream."""
    parts_by_name: dict[str, list[StreamFacts]] = {}
    for part in streams:
        parts_by_name.setdefault(part.name, []).append(part)
    return parts_by_name


#: Names that are listed of many.
_LISTED = 5


def listed(names: Sequence[str]) -> str:
    """Return names for a sentence, the first few of many."""
    shown = ", ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown}, … ({len(names)} in all)"


class ShareColumns(NamedTuple):
    """Columns of predictions without `y_proba` whose names speak of probabilities."""

    names: tuple[str, ...]
    section: str  # of the predictions' mapping


@dataclass(frozen=True)
class Facts:
    """The facts of some shards together, in which `findings` searches for mistakes."""

    streams: tuple[StreamFacts, ...]
    records: tuple[int, int, int]  # read, invalid ones included
    reasons: tuple[Refusal, ...] = ()  # why some are invalid
    configured: tuple[str, ...] = ()  # streams with a section of their own that should be here
    misplaced: tuple[tuple[str, int], ...] = ()  # streams in a partition of other streams, and their records
    elsewhere: frozenset[str] = frozenset()  # streams of which other processes may have a part
    clocks: Mapping[str, Clocks] = field(default_factory=dict)  # zones of times, by input
    time_columns: tuple[TimeColumn, ...] = ()  # of files without times, which may contain times
    share_columns: tuple[ShareColumns, ...] = ()  # of files without probabilities, which may contain them
    uses: tuple[Uses, ...] = ()  # values and conditions of mappings that have occurred

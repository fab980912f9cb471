"""Which number answers a question, and what a term means: the documentation's own sentences."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

import msgspec
from prequential.engine.measures.registry import MEASURES
from prequential.views.answers.answer import AgentAnswer, quoted, refused
from prequential.views.wording.status import CAUSES, NEXT

#: The file with the tables of the documentation; `tests/reference.py` writes it.
TERMS_FILE = "terms.json"

#: Words that don't tell one question from another.
_COMMON = frozenset({
    "a", "an", "and", "are", "at", "be", "do", "does", "for", "good", "how", "i", "if", "in", "is", "it",
    "its", "me", "my", "number", "of", "on", "or", "should", "than", "that", "the", "there", "this", "to",
    "use", "used", "was", "we", "what", "when", "which", "who",
})  # fmt: skip


class NumberChoice(msgspec.Struct, frozen=True):
    """A row of the page "Which number should I use?"."""

    question: str
    use: str
    avoid: str


class Term(msgspec.Struct, frozen=True):
    """A term of the glossary, and its meaning."""

    term: str
    meaning: str


class Guide(msgspec.Struct, frozen=True):
    """The tables of the documentation that answers use."""

    numbers: list[NumberChoice]
    terms: list[Term]
    #: Why a measure has no value, by the reason's code.
    reasons: dict[str, str]


@cache
def guide() -> Guide:
    """Return the tables of the documentation."""
    content = (resources.files("prequential.views.answers") / TERMS_FILE).read_bytes()
    return msgspec.json.decode(content, type=Guide)


def why_undefined(measure: str, code: str) -> str:
    """Return why a measure has no value, as a sentence.

    >>> why_undefined("mape", "zero_denominator")
    'mape is not known because the quotient is 0/0.'
    """
    return f"{measure} is not known because {guide().reasons.get(code, quoted(code))}."


def which_number(question: str) -> AgentAnswer:
    """Return the numbers that answer a question; all questions if none is similar."""
    asked = _words(question)
    ranked = sorted(guide().numbers, key=lambda choice: -_similarity(asked, choice))
    if not _similarity(asked, ranked[0]):
        listed = " ".join(f"- {choice.question}" for choice in guide().numbers)
        return refused(f"The question is not known; expected one like these: {listed}")
    choice = ranked[0]
    return AgentAnswer(
        [f"{choice.question} Use {choice.use}.", f"Avoid: {choice.avoid}."],
        {**msgspec.to_builtins(choice), "page": "Which number should I use?"},
    )


def _words(text: str) -> set[str]:
    """Return the words of a text that tell it from others, without endings.

    >>> sorted(_words("Are its probabilities right?"))
    ['probabilit', 'right']
    """
    words = set(re.findall(r"[a-z_0-9]+", text.casefold())) - _COMMON
    return {re.sub(r"(ies|ing|es|s|y|d)$", "", word) for word in words}


def _similarity(asked: set[str], choice: NumberChoice) -> float:
    """Return how many words a question shares with a row; those of the row's question count most."""
    own, uses = _words(choice.question), _words(choice.use)
    return len(asked & own) + 0.4 * len(asked & uses)


def explain_term(term: str) -> AgentAnswer:
    """Return the meaning of a term: a measure, a cause of an incident, or a term of the glossary."""
    name = term.strip().strip("`").casefold().replace(" ", "_")
    if name in MEASURES:
        measure = MEASURES[name]
        values = {
            "term": name, "meaning": measure.help, "formula": measure.formula, "better": measure.better,
            "page": "Measures",
        }  # fmt: skip
        better = {"more": "More is better.", "less": "Less is better."}.get(measure.better, "")
        return AgentAnswer([f"{name}: {measure.help}. Formula: {measure.formula}. {better}".strip()], values)
    if name in CAUSES:
        meaning = f"a cause of incidents: {CAUSES[name]}; next: {NEXT.get(name, NEXT['not_clear'])}"
        values = {"term": name, "meaning": meaning, "page": "Respond to an incident"}
        return AgentAnswer([f"{name}: {meaning}."], values)
    if name in guide().reasons:
        values = {"term": name, "meaning": guide().reasons[name], "page": "Measures"}
        return AgentAnswer([f"{name}: a measure has no value because {guide().reasons[name]}."], values)
    plain = name.replace("_", " ")
    entries = {entry.term.casefold(): entry for entry in guide().terms}
    entry = entries.get(plain) or entries.get(plain.removesuffix("s"))
    if entry is None:
        near = [
            entry.term for entry in guide().terms if _words(plain) & _words(f"{entry.term} {entry.meaning}")
        ]
        listed = f"; similar terms: {', '.join(near[:5])}" if near else ""
        return refused(f"The term {quoted(term)} is not known{listed}.")
    values = {"term": entry.term, "meaning": entry.meaning, "page": "Glossary"}
    return AgentAnswer([f"{entry.term}: {entry.meaning}."], values)

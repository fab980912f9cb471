"""Reports of odd messages that are valid by the schema: no traceback, and the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from boards import a_drift, alarm, comparison, incident, metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential.cli.main import main
from prequential.topics.schemas import schema
from prequential.topics.specs import COMPARISONS, DRIFT_ALARMS, INCIDENTS, METRICS
from prequential.views.report import Promotion, markdown, parse_condition
from prequential.views.report.html import page
from prequential.views.state.history import History

from tests.nightly import scaled

Strategy = st.SearchStrategy[Any]

NUMBERS: Strategy = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, 1e308, -1e308]),
    st.floats(allow_nan=False, allow_infinity=False),
)
INTEGERS: Strategy = st.one_of(
    st.integers(-2, 50), st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 70, 1 << 40, 1_700_000_000_000])
)
WORDS: Strategy = st.sampled_from([
    "", "accuracy", "mae", "error", "class_ratio", "segment", "not_clear", "final", "@majority", "\x1b[1m",
])  # fmt: skip
FIELDS: Strategy = st.sampled_from(
    ["outcome", "ts", "level", "n", "value", "measures", "cause", "p50", "since"]
)
ANYTHING: Strategy = st.recursive(
    st.one_of(st.none(), st.booleans(), INTEGERS, NUMBERS, WORDS),
    lambda one: st.one_of(st.lists(one, max_size=3), st.dictionaries(FIELDS, one, max_size=4)),
    max_leaves=6,
)
BOTH: Strategy = st.tuples(NUMBERS, NUMBERS).map(list)
COUNTS: Strategy = st.dictionaries(st.sampled_from(["p50", "p99", "1h", "horizon"]), NUMBERS, max_size=2)


def usual(*names: Any) -> Strategy:
    """One of these, the first one most often, so that several messages are about the same."""
    return st.one_of(st.just(names[0]), st.just(names[0]), st.sampled_from(names))


def shaped(**fields: Strategy) -> Strategy:
    """An object with these fields, mostly; or with some of them; or with anything in them."""
    odd = {name: st.one_of(one, ANYTHING) for name, one in fields.items()}
    whole = st.fixed_dictionaries(fields)
    return st.one_of(whole, whole, whole, st.fixed_dictionaries(odd), st.fixed_dictionaries({}, optional=odd))


PLACE = shaped(outcome=INTEGERS, ts=INTEGERS, prediction_ts=INTEGERS)
LEVEL = shaped(level=NUMBERS, interval=BOTH, n=INTEGERS)

#: What messages are about, and objects whose fields the schema leaves open, as they mostly are.
USUAL = {
    "stream": usual("s", "t", ""), "partition": usual(0, 1, -1), "model": usual("a", "b", "@majority", ""),
    "against": usual("b", "a", "@majority"), "segment": usual(None, "k=v", ""),
    "stage": usual("final", "initial", "bin:1", "initial/final", "x:y", ""),
    "estimator": usual("all", "window:5", "decay:1h", "fading:0.9", "x:y"),
    "loss": usual("error", "brier", "x"), "status": usual("open", "recovered", "closed", "x"),
    "verdict": usual("a_better", "b_better", "undecided", "x"),
    "measures": st.dictionaries(st.sampled_from(["accuracy", "mae", "difference", "x"]), NUMBERS, max_size=3),
    "opened": PLACE, "change_point": PLACE, "recovered": PLACE, "before": LEVEL, "after": LEVEL,
    "worst": LEVEL, "now": shaped(level=NUMBERS, outcomes=INTEGERS, ts=INTEGERS),
    "grade": usual("possible", "lasting", "x"),
    "causes": st.lists(shaped(cause=WORDS, share=NUMBERS, before=NUMBERS, after=NUMBERS), max_size=2),
    "former_alarms": shaped(alarms=INTEGERS, outcomes=INTEGERS),
    "coverage": shaped(
        waiting=INTEGERS, oldest_waiting_ms=INTEGERS, label_latency_ms=COUNTS, labelled=COUNTS,
        waiting_expected=shaped(predictions=INTEGERS, labels=NUMBERS, right=NUMBERS, interval=BOTH),
    ),
    "scores": st.one_of(
        shaped(bins=st.just([0, 199]), negatives=BOTH, positives=BOTH),
        shaped(bins=st.lists(INTEGERS, max_size=3), negatives=BOTH, positives=BOTH),
    ),
    "reference": shaped(
        outcomes=INTEGERS,
        measures=st.dictionaries(WORDS, shaped(value=NUMBERS, difference=NUMBERS, interval=BOTH), max_size=2),
    ),
    "period": shaped(start=INTEGERS, end=INTEGERS, predictions=INTEGERS, labelled=INTEGERS, status=WORDS),
    "expected": shaped(
        maturity=NUMBERS,
        measures=st.dictionaries(
            WORDS,
            shaped(
                value=NUMBERS, interval=BOTH,
                record=shaped(
                    finals=INTEGERS, coverage=NUMBERS, mean_error=NUMBERS, labelled_so_far=NUMBERS,
                    last_final=NUMBERS, lost_to=WORDS,
                ),
            ),
            max_size=2,
        ),
    ),
    "recent": shaped(verdict=usual("b_better", "undecided"), since=INTEGERS),
}  # fmt: skip


def valid(of: dict[str, Any]) -> Strategy:
    """Whatever is valid by a JSON Schema, of those that `schema` makes."""
    if "anyOf" in of:
        return st.one_of(*map(valid, of["anyOf"]))
    if "properties" in of:
        each = {name: USUAL[name] if name in USUAL else valid(one) for name, one in of["properties"].items()}
        required = {name: each.pop(name) for name in of["required"]}
        return st.fixed_dictionaries(required, optional=each)
    if of["type"] == "object":
        more = of.get("additionalProperties")
        return st.dictionaries(st.one_of(WORDS, FIELDS), valid(more) if more else ANYTHING, max_size=4)
    if of["type"] == "array":
        if "prefixItems" in of:
            return st.tuples(*map(valid, of["prefixItems"])).map(list)
        return st.lists(valid(of["items"]), max_size=3)
    return {
        "string": WORDS, "integer": INTEGERS, "number": NUMBERS, "boolean": st.booleans(), "null": st.none(),
    }[of["type"]]  # fmt: skip


def agreeing(message: dict[str, Any]) -> dict[str, Any]:
    """The message, with `since` where there is a verdict, and only there."""
    if "verdict" in message:
        message["since"] = None if message["verdict"] == "undecided" else 7
    return message


MESSAGES = st.one_of(*(
    st.tuples(st.just(topic), st.one_of(valid(schema(topic)), valid(schema(topic)).map(agreeing)))
    for topic in (METRICS, COMPARISONS, DRIFT_ALARMS, INCIDENTS)
))  # fmt: skip


@settings(max_examples=scaled(100, 300))
@given(messages=st.lists(MESSAGES, min_size=1, max_size=6))
def test_any_valid_messages_are_reported(messages: list[tuple[str, Any]]) -> None:
    """Whatever isn't taken is counted; everything that the command makes of the rest is made."""
    history = History()
    for topic, message in messages:
        history.update(topic, json.dumps(message).encode(), 0)
    conditions = [parse_condition(text) for text in ("accuracy < 0.9", "alarms > 0", "a not better")]
    markdown(history, "", conditions)
    for champion in (None, "b"):
        Promotion("a", champion).check(history)
    page(history, "", [])


def test_a_report_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    """Names in sets come in another order in each process; in the page and in Markdown they don't."""
    values = {f"later{number}": number / 10 for number in range(9)}
    both = [*a_drift(), *a_drift(estimator="all"), *(
        metrics(6000, 0.9, model=model, estimator="all", segment=segment, **values)
        for model in ("tree", "nb", "svm", "@majority", "@persistent")
        for segment in (None, "k=x", "k=y", "j=z")
    )]  # fmt: skip
    others = {"comparisons": [comparison()], "alarms": [alarm(), alarm(5001)], "incidents": [incident()]}
    for name, records in {"metrics": both, **others}.items():
        (tmp_path / name).write_bytes(b"".join((record.value or b"") + b"\n" for record in records))
    seen = set()
    for seed in ("0", "1", "2"):
        out, text = tmp_path / f"{seed}.html", tmp_path / f"{seed}.md"
        done = subprocess.run(
            [sys.executable, "-m", "prequential.cli.main", "report", "metrics", f"--out={out}",
             f"--markdown={text}", *(f"--{name}={name}" for name in others), "--fail-if=accuracy < 2",
             "--promote=tree"],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}, cwd=tmp_path,
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1, done.stderr.decode()
        seen.add((out.read_bytes(), text.read_bytes(), done.stderr))
    assert len(seen) == 1


def test_the_command_counts_what_it_cannot_take(tmp_path: Path, capsys: Any) -> None:
    lacks = {**json.loads(incident().value or b""), "change_point": {}}
    files = {"metrics": metrics().value or b"", "incidents": json.dumps(lacks).encode()}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content + b"\n")
    words = [f"--incidents={tmp_path / 'incidents'}", f"--out={tmp_path / 'page.html'}"]
    assert main(["report", str(tmp_path / "metrics"), *words]) == 0
    assert capsys.readouterr().err == "prequential: 1 messages can't be read\n"

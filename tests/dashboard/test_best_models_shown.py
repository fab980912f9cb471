"""The models that may be the best: on a model's page, in the verdict of a run, in the gate, at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from boards import comparison, history_of, metrics, served
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.views.dashboard.gate import gate_page
from prequential.views.dashboard.pages import model_page
from prequential.views.dashboard.verdict import verdict_of
from prequential.views.state.history import History
from prequential.views.state.newest import ModelKey
from prequential.views.state.ranking import Ranking

from tests.browser import ready

if TYPE_CHECKING:
    from playwright.sync_api import Page

UNDECIDED = {"verdict": "undecided", "since": None}
SENTENCE = (
    "the best by error is among nb and svm (90% confidence); tree left at outcome 31,400 (nb is better)"
)


def messages(*models: str) -> list[Any]:
    """Of three models, of which `tree` is worse than `nb`; and `models` without any pair."""
    records: list[Any] = [metrics(40_000, model=model) for model in ("nb", "svm", "tree", *models)]
    records += [
        comparison(40_000, verdict="a_better", since=31_400),
        comparison(40_000, against="svm", level=0.025, **UNDECIDED),
        comparison(40_000, model="svm", level=0.025, **UNDECIDED),
        comparison(40_000, segment="k=v", verdict="b_better"),
    ]
    return records


def history(*models: str, config: Config | None = None) -> History:
    return history_of(messages(*models), config=config)


def test_the_page_of_each_model_begins_with_the_set() -> None:
    for model in ("nb", "tree"):
        page = model_page(history(), ModelKey("elec2", model, 0))
        assert page["best_models"] == [f"Of all models, {SENTENCE}."]
    page = model_page(history("late"), ModelKey("elec2", "nb", 0))
    assert page["best_models"] == [f"Of all models, {SENTENCE}; late is not compared."]


def test_two_models_have_their_pair_alone() -> None:
    two = history_of([metrics(4000), metrics(4000, model="tree"), comparison()])
    assert model_page(two, ModelKey("elec2", "nb", 0))["best_models"] == []
    assert "Over the whole run, " not in str(gate_page(two))


def test_the_verdict_of_a_run_has_it_in_place_of_pairs() -> None:
    past = history()
    ranking = Ranking(past)
    [verdict] = verdict_of(past, [ranking.row(model) for model in past.models.values()])
    assert f"Of all models, {SENTENCE}." in verdict["sentences"]
    assert not [sentence for sentence in verdict["sentences"] if "has a lower error than" in sentence]


def test_the_gate_names_it_for_each_model() -> None:
    checks = {
        check["model"]: check for check in gate_page(history())["checks"]
        if check["expected"] == "no other model is proven better"
    }  # fmt: skip
    assert {model: check["result"] for model, check in checks.items()} == {
        "nb": "passed", "svm": "passed", "tree": "failed",
    }  # fmt: skip
    assert checks["svm"]["sentence"] == f"None is. Over the whole run, {SENTENCE}."


def test_only_a_challenger_of_the_set_may_replace_a_champion() -> None:
    config = Config(streams={"elec2": StreamConfig(champion="svm")})
    past = history(config=config)
    promotions = {promotion["model"]: promotion for promotion in gate_page(past)["promotions"]}
    [of_set] = [answer for answer in promotions["tree"]["answers"] if SENTENCE in answer["sentence"]]
    assert of_set["failed"]
    [of_set] = [answer for answer in promotions["nb"]["answers"] if SENTENCE in answer["sentence"]]
    assert not of_set["failed"]


@pytest.mark.slow
def test_a_page_in_a_browser_has_it_above_the_pairs(page: Page) -> None:
    with served(messages()) as (address, _):
        ready(page, f"{address}#/model?stream=elec2&model=nb&partition=0")
        text = page.inner_text("main")
        assert f"Of all models, {SENTENCE}." in text
        assert text.index("Of all models") < text.index("nb beats tree")

"""`prequential report`, its Markdown and its conditions, and `replay --report`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from boards import a_drift, alarm, comparison, history_of, incident, metrics, period
from prequential.cli.main import main
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import Objective, StreamConfig
from prequential.topics.errors import UsageError
from prequential.views.report import Promotion, markdown, parse_condition
from prequential.views.state.output_records import OutputRecord


def lines(*records: OutputRecord) -> bytes:
    return b"".join((record.value or b"") + b"\n" for record in records)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a replay's outputs."""
    (tmp_path / "metrics.jsonl").write_bytes(
        lines(*a_drift(), *a_drift(estimator="all"), metrics(6000, 0.95, model="tree", estimator="all"))
    )
    (tmp_path / "comparisons.jsonl").write_bytes(lines(comparison()))
    (tmp_path / "alarms.jsonl.gz").write_bytes(gzip.compress(lines(alarm())))
    (tmp_path / "incidents.jsonl").write_bytes(lines(incident()))
    return tmp_path


class TestConditions:
    def failures(self, text: str, *records: OutputRecord) -> list[str]:
        return [one.sentence for one in parse_condition(text).check(history_of(*records)) if one.failed]

    def test_of_each_model_over_all_history(self) -> None:
        some = metrics(estimator="all", accuracy=0.8), metrics(accuracy=0.1), metrics(accuracy=0.2,
            stage="initial")
        assert self.failures("accuracy < 0.8", *some) == []
        assert self.failures("accuracy <= 0.8", *some) == ["elec2 / nb, final, all: accuracy 0.8"]
        assert self.failures("accuracy>0.5", *some) == ["elec2 / nb, final, all: accuracy 0.8"]

    def test_selectors(self) -> None:
        some = [
            metrics(model="nb", accuracy=0.1), metrics(model="tree", accuracy=0.2),
            metrics(model="@majority", accuracy=0.3), metrics(accuracy=0.4, stage="initial"),
            metrics(accuracy=0.5, estimator="fading:0.9"), metrics(accuracy=0.6, segment="country=fr"),
            metrics(accuracy=0.7, stream="other, with a comma"),
        ]  # fmt: skip
        assert len(self.failures("accuracy < 1", *some)) == 3
        assert self.failures("accuracy[model=tree] < 1",
            *some) == ["elec2 / tree, final, window:1000: accuracy 0.2"]
        assert len(self.failures("accuracy[model=@*] < 1", *some)) == 1
        assert "initial, window:1000: accuracy 0.4" in self.failures("accuracy[stage=initial] < 1", *some)[0]
        assert "fading:0.9: accuracy 0.5" in self.failures("accuracy[estimator=fading*] < 1", *some)[0]
        assert "country=fr, final" in self.failures('accuracy[segment="country=*"] < 1', *some)[0]
        assert "country=fr, final" in self.failures("accuracy[segment=country=fr, model=nb] < 1", *some)[0]
        assert len(self.failures('accuracy[stream="other, with a comma"] < 1', *some)) == 1

    def test_alarms_incidents_and_outcomes_count(self) -> None:
        some = metrics(6000), alarm(5000), alarm(5001, stage="initial"), incident()
        assert self.failures("alarms > 1", *some) == ["elec2 / nb: alarms 2"]
        assert self.failures("alarms[stage=initial] > 1", *some) == []
        assert self.failures("incidents > 0", *some) == ["elec2 / nb: incidents 1"]
        assert self.failures("outcomes < 7000", *some) == ["elec2 / nb, final, window:1000: outcomes 6000"]

    def test_a_challenger_that_isnt_better_now(self) -> None:
        def said(verdict: str, **more: Any) -> OutputRecord:
            recent = {"verdict": verdict, "since": None if verdict == "undecided" else 1_300}
            return comparison(model="nb", against="tree", recent=recent, **more)

        better = said("b_better")
        assert self.failures("tree not better", better) == []
        assert self.failures("tree[against=nb] not better", better) == []
        assert self.failures("nb not better", better) == [
            "elec2 / nb against tree, final, error: tree is better since about outcome 1,300"
        ]
        assert self.failures("tree not better", better, said("undecided")) == [
            "elec2 / tree against nb, final, error: recently undecided"
        ]
        for text in ("other not better", "tree[against=other] not better", "tree[stage=initial] not better"):
            said_of_none = f"`{text}`: no pair of models that it is about is compared"
            assert self.failures(text, better) == [said_of_none]

    def test_what_cannot_be_told_fails(self) -> None:
        assert self.failures("kappa_plus < 0", metrics()) == [
            "elec2 / nb, final, window:1000: kappa_plus has no value (p_per_one)"
        ]
        assert "not among the measures" in self.failures("auc < 0.5", metrics())[0]
        assert "no model that it is about" in self.failures("accuracy[model=x] < 0.5", metrics())[0]
        assert "no model that it is about" in self.failures("accuracy[stage=bin:3] < 0.5", metrics())[0]

    @pytest.mark.parametrize(("text", "said"), [
        ("acuracy < 0.9", "no measure 'acuracy'; did you mean accuracy?"),
        ("zzz < 0.9", "no measure 'zzz'; known: error, accuracy,"),
        ("accuracy", "expected MEASURE"), ("accuracy < ", "expected MEASURE"),
        ("accuracy < x", "'x' is no number"),
        ("accuracy < nan", "'nan' is no number"),
        ("accuracy << 1", "expected MEASURE"),
        ("accuracy[modl=nb] < 1", "'modl' is no selector; expected NAME=VALUE of stream, model"),
        ("accuracy[nb] < 1", "'nb' is no selector"),
        ("alarms[segment=a] > 0", "alarms can't be chosen by segment; expected stream, model, stage"),
        ("incidents[stage=final] > 0", "incidents can't be chosen by stage; expected stream, model"),
        ("", "expected MEASURE"),
    ])
    def test_what_is_no_condition_is_quoted(self, text: str, said: str) -> None:
        with pytest.raises(UsageError) as raised:
            parse_condition(text)
        assert str(raised.value).startswith(f"--fail-if {text!r}: ")
        assert said in str(raised.value)


class TestPromotion:
    def said(
        self, *records: OutputRecord, champion: str | None = None, config: Config | None = None
    ) -> list[str]:
        """Sentences, those against it first."""
        answers = Promotion("tree", champion).check(history_of(*records, config=config))
        marked = [("-" if one.failed else "+") + one.sentence for one in answers]
        return sorted(marked, key=lambda one: one.startswith("+"))

    def pair(self, lately: str, **more: Any) -> OutputRecord:
        recent = {"verdict": lately, "since": None if lately == "undecided" else 1_300}
        return comparison(**{"model": "nb", "against": "tree", "recent": recent, **more})

    def test_a_challenger_that_is_better_now(self) -> None:
        assert self.said(metrics(model="tree"), self.pair("b_better")) == [
            "+elec2 / tree against nb, error: tree is better since about outcome 1,300; "
            "tree beats nb over the whole run: error lower by 0.031 (0.012 to 0.050), "
            "since outcome 712 of 4,000 at 95% confidence"
        ]

    def test_undecided_or_worse(self) -> None:
        for verdict, who in (("undecided", "recently undecided"), ("a_better", "nb is better since")):
            (said,) = self.said(metrics(model="tree"), self.pair(verdict))
            assert said.startswith(f"-elec2 / tree against nb, error: {who}")

    def test_a_segment_or_another_loss_in_which_the_champion_is_better(self) -> None:
        for more, where in (
            ({"segment": "region=eu"}, "elec2 region=eu / tree against nb, error"),
            ({"loss": "brier"}, "elec2 / tree against nb, brier"),
        ):
            worse = self.pair("a_better", **more)
            said = self.said(metrics(model="tree"), self.pair("b_better"), worse)
            assert said[0] == f"-{where}: nb is better"
            assert len(said) == 2
            undecided = self.pair("undecided", verdict="undecided", since=None, **more)
            said = self.said(metrics(model="tree"), self.pair("b_better"), undecided)
            assert [one[0] for one in said] == ["+"]

    def test_only_the_champion_counts(self) -> None:
        some = metrics(model="tree"), self.pair("b_better"), self.pair("a_better", model="old")
        among = "+elec2: tree is the best by error (90% confidence); nb left at outcome 712 (tree is better)"
        said = self.said(*some)
        assert [one[0] for one in said] == ["-", "+", "+"]
        assert said[2].startswith(among)
        for options in (
            {"champion": "nb"},
            {"config": Config(defaults=StreamConfig(champion="nb", compare="champion"))},
        ):
            said = self.said(*some, **options)
            assert [one[0] for one in said] == ["+", "+"]
            assert said[1].startswith(among)
        assert self.said(*some, champion="x") == ["-elec2: tree and 'x' aren't compared by their final error"]

    @pytest.mark.parametrize(("lately", "sign"), [("a_better", "-"), ("undecided", "-"), ("b_better", "+")])
    def test_of_three_models_the_challenger_may_be_the_best(self, lately: str, sign: str) -> None:
        """Another model that is better over the whole run forbids it, unless that has turned round."""
        third = self.pair(lately, model="old", verdict="a_better")
        said = self.said(metrics(model="tree"), self.pair("b_better"), third, champion="nb")
        assert sorted(one[0] for one in said) == sorted(["+", sign])
        [of_set] = [one for one in said if "old is the best by error" in one]
        assert of_set.startswith(f"{sign}elec2: old is the best by error (90% confidence)")
        assert ("not recently" in of_set) == (sign == "+")

    def test_a_baseline_is_no_champion_unless_it_is_named(self) -> None:
        some = metrics(model="tree"), self.pair("b_better", model="@persistent")
        assert self.said(*some) == ["-elec2: tree and another model aren't compared by their final error"]
        assert [one[0] for one in self.said(*some, champion="@persistent")] == ["+"]

    def test_a_model_that_is_not_there(self) -> None:
        assert self.said(metrics(model="nb")) == ["-no message is about a model 'tree'"]

    def test_exit_status_and_sentences(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        read = ["report", str(files / "metrics.jsonl"), "--comparisons", str(files / "comparisons.jsonl")]
        assert main([*read, "--promote", "tree"]) == 1
        said = capsys.readouterr().err
        assert said.startswith("promote tree: no\n  no: elec2 / tree against nb, error: recently undecided")
        better = self.pair("b_better").value or b""
        (files / "comparisons.jsonl").write_bytes(better + b"\n")
        assert main([*read, "--promote", "tree", "--champion", "nb"]) == 0
        assert capsys.readouterr().err.startswith("promote tree: yes\n  elec2 / tree against nb, error: tree")
        assert main([*read[:2], "--promote", "tree"]) == 2
        assert "--promote 'tree': expected --comparisons FILE" in capsys.readouterr().err
        assert main([*read, "--markdown", "-", "--champion", "nb"]) == 2
        assert "--champion 'nb': expected --promote MODEL" in capsys.readouterr().err


class TestMarkdown:
    def test_conditions_models_pairs_alarms_and_incidents(self) -> None:
        config = Config(defaults=StreamConfig(objective=Objective({"accuracy": 0.9})))
        causes = [{"cause": "segment", "share": 0.7, "segment": "country=fr"}]
        history = history_of(
            metrics(6000, 0.75, estimator="all"), metrics(6000, 0.95, model="tree", estimator="all"),
            comparison(),
            alarm(), incident(causes=causes, id="i1"), config=config,
        )  # fmt: skip
        conditions = [parse_condition("accuracy < 0.9"), parse_condition("kappa < -1")]
        assert markdown(history, "build 7", conditions) == """\
## `build 7`

- ❌ fails `accuracy < 0.9`: 1 of 2 fail
  - `elec2 / nb, final, all: accuracy 0.75`
- ✅ passes `kappa < -1`: 0 of 2 fail

| stream | model | stage | estimator | outcomes | accuracy | kappa | kappa_per | p_per | p_maj |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
| `elec2` | `nb` | `final` | `all` | 6,000 | 0.750 ▼ | 0.500 | 0.100 | 0.700 | 0.500 |
| `elec2` | `tree` | `final` | `all` | 6,000 | 0.950 | 0.900 | 0.100 | 0.700 | 0.500 |

Model comparison (in brackets: confidence sequence of the loss difference over \
the whole run, valid at any number of looks, if dependence is short):

- `final: tree beats nb over the whole run: error lower by 0.031 (0.012 to 0.050), since outcome \
712 of 4,000 at 95% confidence`

Drift alarms: 1, 1 of them in incidents

- `elec2 / nb`: 1

Incidents: 1

- `elec2/nb final: open, began at outcome 4,800, 33 wrong in 100, before 12: 2.8 times as many; segment country=fr (70%); 1 alarm; incident i1`
"""  # noqa: E501

    def test_models_that_stopped_before_their_stream_did(self) -> None:
        going = [metrics(n, model=model) for n in range(0, 900, 10) for model in ("on", "@majority")]
        stopped = [metrics(n, model="off") for n in range(0, 300, 10)]
        said = markdown(history_of(*going, *stopped))
        assert """
Models without new outcomes: 1

- `elec2 / off`: since 22:18:10, its predictions stopped, its stream goes on
""" in said
        assert "without new outcomes" not in markdown(history_of(*going))

    def test_what_is_expected_before_labels_are_there(self) -> None:
        waits = {"waiting_expected": {"predictions": 50, "labels": 40.0, "right": 30.0}}
        said = markdown(history_of(metrics(coverage=waits), period(0, 0.84, 0.83, interval=(0.81, 0.87))))
        assert """
Estimated performance

- `elec2 / nb`: 14 Nov 2023, accuracy: expected 0.840 [0.810, 0.870] (held in 92% of \
50 earlier periods), labelled so far 0.830 (50% of predictions); 50 pending predictions in provisional \
periods: 40 are expected to get a label, 30 to be correct

Assumes that """ in said

    def test_names_are_code(self) -> None:
        said = markdown(history_of(metrics(model="a|b`<img src=x> @everyone", stream="x\n# y")))
        assert "`` a\\|b`<img src=x> @everyone ``" in said
        assert "\n# y" not in said


class TestCommand:
    def test_a_report_markdown_and_the_exit_status(
        self, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(files)
        words = ["report", "metrics.jsonl", "--comparisons", "comparisons.jsonl", "--alarms",
            "alarms.jsonl.gz"]
        words += ["--incidents", "incidents.jsonl", "--out", "report.html", "--markdown", "-"]
        assert main([*words, "--fail-if", "accuracy < 0.5"]) == 0
        said = capsys.readouterr()
        assert said.out.startswith("## `metrics.jsonl`\n\n- ✅ passes `accuracy < 0.5`")
        assert "Incidents: 1" in said.out
        assert 100_000 < (files / "report.html").stat().st_size < 2_000_000
        assert main([*words, "--fail-if", "accuracy < 0.5", "--fail-if", "accuracy[model=tree] > 0.9"]) == 1
        said = capsys.readouterr()
        assert said.err == (
            "prequential: elec2 / tree, final, all: accuracy 0.95: "
            "--fail-if holds: accuracy[model=tree] > 0.9\n"
        )

    @pytest.mark.parametrize(("words", "status", "said"), [
        (["metrics.jsonl"], 2, "expected --out, --markdown, --fail-if or --promote"),
        (["none.jsonl", "--out", "x.html"], 2, "can't read 'none.jsonl': No such file or directory"),
        (["alarms.jsonl.gz", "--out", "x.html"], 1, "no metrics message in alarms.jsonl.gz"),
        (["wrong.jsonl", "--out", "x.html"], 1, "wrong.jsonl, line 2: "),
        (["empty.jsonl", "--out", "x.html"], 1, "no metrics message in empty.jsonl"),
        (["metrics.jsonl", "--fail-if", "accuracy"], 2, "--fail-if 'accuracy': expected MEASURE"),
        (["metrics.jsonl", "--fail-if", "alarms > 0"], 2, "expected --alarms FILE, to count them"),
        (["metrics.jsonl", "--fail-if", "tree not better"], 2, "expected --comparisons FILE, to read"),
        (["metrics.jsonl", "--fail-if", "incidents > 0"], 2, "expected --incidents FILE, to count them"),
        (["metrics.jsonl", "--alarms", "alarms.jsonl.gz", "--fail-if", "alarms > 0"], 1, "nb: alarms 1"),
        (["metrics.jsonl", "alarms.jsonl.gz", "--fail-if", "alarms > 0"], 1, "nb: alarms 1"),
        (["metrics.jsonl", "--alarms", "empty.jsonl", "--fail-if", "alarms > 0"], 0, ""),
    ])
    def test_what_is_wrong_is_a_sentence(
        self, files: Path, words: list[str], status: int, said: str,
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        monkeypatch.chdir(files)
        Path("wrong.jsonl").write_bytes(lines(metrics()) + b'{"stream": 1}\n')
        Path("empty.jsonl").write_bytes(b"\n")
        assert main(["report", *words]) == status
        assert said in capsys.readouterr().err


def test_a_replay_writes_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Path("predictions.jsonl").open("w") as predictions, Path("labels.jsonl").open("w") as labels:
        for number in range(300):
            about = {"stream": "elec2", "instance_id": number}
            right = number < 200 or number % 2
            prediction = {**about, "model": "nb", "y_pred": "UP" if right else "DOWN", "ts": 1000 * number}
            print(json.dumps(prediction), file=predictions)
            print(json.dumps({**about, "y_true": "UP", "ts": 1000 * number + 500}), file=labels)
    Path("c.yaml").write_text("defaults: {positive_class: X}\n", encoding="utf-8")
    words = ["replay", "--predictions", "predictions.jsonl", "--labels", "labels.jsonl", "--config", "c.yaml"]
    assert main([*words, "--report", "r.html"]) == 0
    written = Path("r.html").read_text(encoding="utf-8")
    data = json.loads(written.split('id="report">')[1].split("</script>")[0])
    assert data["board"]["title"] == "predictions.jsonl, labels.jsonl"
    [row] = data["overview"]["rows"]
    assert (row["model"], row["outcomes"]) == ("nb", 300)
    assert row["values"]["accuracy"] == pytest.approx(250 / 300)
    assert data["board"]["findings"] == ["elec2: positive_class `X` never occurs among labels; labels: UP"]
    assert data["models"][0]["series"]["final"]["outcomes"][-1] == 300

"""`/metrics` says what the messages say, of one moment, and doesn't hold the shard up."""

from __future__ import annotations

import gzip
import random
import threading
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest
from helpers import Feed, World, advance, batch_of, comparisons_of, examples, metrics_of
from hypothesis import example, given
from hypothesis import strategies as st
from prequential.configuration.settings.http_server import ALL_SERIES, SERIES, HttpConfig
from prequential.configuration.settings.model import Config
from prequential.demo.worker import parse
from prequential.engine.compiled.kernel import columns_of
from prequential.engine.measures.registry import NAMES
from prequential.engine.shard import Shard
from prequential.engine.snapshot import read_snapshot
from prequential.runtime.worker.exporter import Exporter
from prequential.runtime.worker.open_transactions import OpenTransaction
from prequential.runtime.worker.publisher import ShardStatistics
from prequential.runtime.worker.series import PAIR_FAMILIES
from prequential.topics.decoding import KINDS
from prequential.topics.outputs import Alarm, Comparison, Incident, Metrics, Output
from prequential.topics.partitioning import partition_of
from prequential.web.http import TEXT, Endpoint
from prometheus_client.parser import text_string_to_metric_families
from worlds import extreme_world, random_world

from tests.nightly import scaled

#: All that there can be.
EVERYTHING = HttpConfig(stages=ALL_SERIES, estimators=ALL_SERIES, series=SERIES)

#: Samples by name and labels.
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    """What Prometheus reads, without the group, which every series has; no series may stand there twice."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items() - {("group", "prequential")})
            assert len(key[1]) == len(sample.labels) - 1, sample
            assert key not in found, key
            found[key] = sample.value
    return found


def exporter(config: Config, shard: Shard, *, recovering: bool = False) -> Exporter:
    runner: Any = SimpleNamespace(
        shard=shard, recovering=recovering, halted=None, partition=0, statistics=ShardStatistics(),
        open_transactions=[OpenTransaction(name) for name in KINDS],
    )
    fetcher: Any = SimpleNamespace(ends={})
    return Exporter(config, fetcher, {0: runner})


def at_once(question: Callable[[], Any]) -> Any:
    return question()


def exported(config: Config, shard: Shard) -> Samples:
    return samples(exporter(config, shard).text(at_once))


def with_measures(config: Config, measures: tuple[str, ...]) -> Config:
    return replace(config, http=replace(EVERYTHING, measures=measures))


def lived(world: World, *where: int) -> tuple[Shard, list[Output]]:
    """A shard that has processed everything, and all of its outputs but the last set."""
    shard = Shard(world.config, *where)
    feed = Feed(shard, world.topics)
    for kind, rows in enumerate(world.topics):
        feed.give(kind, len(rows))
    advance(shard, 1 << 30)
    return shard, shard.flush()[0]


def last_set(shard: Shard) -> tuple[list[Metrics], list[Comparison]]:
    """The messages of the present state, but for those of periods."""
    shard.last_set()
    outputs = shard.flush()[0]
    return [one for one in metrics_of(outputs) if one.stage != "period"], comparisons_of(outputs)


def shown_to_users(series: Samples) -> Samples:
    """Series with control and format characters of labels as `\\uXXXX`: they change a terminal's line."""

    def shown(value: str) -> str:
        return "".join(
            one if one == "\n" or not unicodedata.category(one).startswith(("C", "Z")) or one == " "
            else f"\\u{ord(one):04x}"
            for one in value
        )  # fmt: skip

    return {
        (name, frozenset((label, shown(value)) for label, value in labels)): number
        for (name, labels), number in series.items()
    }


#: Families of measures and details.
SEQUENCE = {
    f"prequential_{name}"
    for name in (
        *NAMES, "normalised", "positives", "class_ratio_gradient", "interval_lower", "interval_upper",
        "error_autocorrelation", "error_autocorrelation_se", "majority_share", "persistence", "repeat",
        "increment",
    )
}  # fmt: skip


def of_sequences(messages: list[Metrics], measures: tuple[str, ...]) -> Samples:
    """The series of measures and details, made of messages."""
    found: Samples = {}
    for said in messages:

        def put(name: str, value: float, said: Metrics = said, **labels: Any) -> None:
            labels |= {
                "stream": said.stream, "partition": said.partition, "model": said.model,
                "stage": said.stage, "estimator": said.estimator,
            }  # fmt: skip
            if said.segment is not None:
                labels["segment"] = said.segment
            own = frozenset((key.rstrip("_"), str(label)) for key, label in labels.items())
            found[f"prequential_{name}", own] = value

        for name, value in said.measures.items():
            if name in measures:
                put(name, value)
        details = {
            name: {} if (value := getattr(said, name)) is msgspec.UNSET else value
            for name in ("normalised", "class_ratio", "intervals", "dependence")
        }
        for name, value in details["normalised"].items():
            put("normalised", value, measure=name)
        if details["class_ratio"]:
            put("positives", details["class_ratio"]["positives"])
            for name, value in details["class_ratio"]["gradients"].items():
                put("class_ratio_gradient", value, measure=name)
        for name, (lower, upper) in details["intervals"].items():
            put("interval_lower", lower, measure=name)
            put("interval_upper", upper, measure=name)
        dependence = dict(details["dependence"])
        for label, value in dependence.pop("repeat", {}).items():
            put("repeat", value, class_=label)
        for label, values in dependence.pop("increments", {}).items():
            for order, value in enumerate(values, 1):
                put("increment", value, class_=label, order=order)
        dependence.pop("recent", None)
        for name, value in dependence.items():
            put(name, value)
    return found


def of_accounts(messages: list[Metrics]) -> Samples:
    """The series of outcomes and coverage that messages have, too."""
    found: Samples = {}
    for said in messages:
        if said.segment is None and said.stage != "intermediate" and not said.model.endswith("@random"):
            about = {
                "stream": said.stream, "partition": str(said.partition), "model": said.model,
                "stage": said.stage,
            }  # fmt: skip
            found["prequential_outcomes_total", frozenset(about.items())] = said.outcomes
        if said.coverage is msgspec.UNSET:
            continue
        of_stream = {"stream": said.stream, "partition": str(said.partition)}
        one = {**of_stream, "model": said.model}
        found["prequential_waiting_predictions", frozenset(one.items())] = said.coverage["waiting"]
        oldest = said.coverage["oldest_waiting_ms"] / 1000
        found["prequential_oldest_waiting_seconds", frozenset(one.items())] = oldest
        for label, value in said.coverage.get("labelled_by_class", {}).items():
            about = {**one, "class": label}
            found["prequential_labelled_by_class_ratio", frozenset(about.items())] = value
        for of, index in (
            ("prediction", said.coverage.get("prediction_psi")),
            *((f"segment:{key}", index) for key, index in said.coverage.get("segment_psi", {}).items()),
        ):
            if index is not None:
                found["prequential_selection_psi", frozenset({**one, "of": of}.items())] = index
        for kind, key in (("", "label_latency_ms"), ("recent_", "recent_label_latency_ms")):
            for percentile, value in said.coverage[key].items():
                about = {**of_stream, "percentile": percentile}
                name = f"prequential_label_latency_{kind}quantile_seconds"
                found[name, frozenset(about.items())] = value / 1000
    return found


def of_alarms(outputs: list[Output], messages: list[Metrics]) -> Samples:
    """The series of alarms; those of a version that has left its place to a newer one are gone with it.

    A stage that goes on from another one, which it was the same as, has had that one's alarms.
    """
    found: Samples = {}
    known = {(one.stream, one.model) for one in messages}
    same = {(one.stream, one.model, stage) for one in messages for stage in one.same or ()}
    for alarm in outputs:
        if isinstance(alarm, Alarm) and (alarm.stream, alarm.model) in known:
            names = ["stream", "partition", "model", "detector", "signal"]
            names += ["segment"] if alarm.segment else []
            about = [(name, str(getattr(alarm, name))) for name in names]
            for stage in (alarm.stage, *(alarm.same or ())):
                if (alarm.stream, alarm.model, stage) not in same:
                    key = "prequential_drift_alarms_total", frozenset([*about, ("stage", stage)])
                    found[key] = found.get(key, 0) + 1
    return found


def of_incidents(outputs: list[Output], messages: list[Metrics]) -> Samples:
    """The series of incidents, made of messages; those of a version that has left its place are gone."""
    found: Samples = {}
    newest = {}
    known = {(one.stream, one.model) for one in messages}
    for one in outputs:
        if isinstance(one, Incident) and (one.stream, one.model) in known:
            about = {"stream": one.stream, "partition": str(one.partition), "model": one.model}
            newest[one.id] = about, one
            if one.revision == 1:
                key = "prequential_incidents_total", frozenset(
                    {**about, "cause": one.causes[0]["cause"]}.items()
                )
                found[key] = found.get(key, 0) + 1
    for about, one in newest.values():
        if one.status == "open":
            found["prequential_open_incidents", frozenset(about.items())] = 1
            about["incident"] = one.id
            opened = "prequential_incident_opened_timestamp_seconds", frozenset(about.items())
            found[opened] = one.opened["ts"] / 1000
            began = "prequential_incident_began_timestamp_seconds", opened[1]
            found[began] = one.change_point["ts"] / 1000
            about["cause"], about["grade"] = one.causes[0]["cause"], one.grade
            found["prequential_incident_severity", frozenset(about.items())] = one.severity
    return found


#: Families of pairs.
COMPARISONS = {f"prequential_{name}" for name, _, _ in PAIR_FAMILIES} - {
    "prequential_champion_info", "prequential_comparison_pairs_left_out"
}  # fmt: skip

VERDICTS = {"a_better": -1, "undecided": 0, "b_better": 1}


def of_pairs(messages: list[Comparison]) -> Samples:
    """The series of pairs, made of messages; of age bins there are none."""
    found: Samples = {}
    for said in messages:
        if said.stage.startswith("bin:"):
            continue
        about = {
            "stream": said.stream, "partition": str(said.partition), "model": said.model,
            "against": said.against, "stage": said.stage,
        }  # fmt: skip
        if said.segment is not None:
            about["segment"] = said.segment
        of_loss = {**about, "loss": said.loss}
        of_estimator = {**about, "estimator": said.estimator}
        values: list[tuple[str, float | None, dict[str, str]]] = [
            ("outcomes", said.outcomes, of_loss),
            ("verdict", VERDICTS[said.verdict], of_loss),
            ("since_outcome", said.since, of_loss),
            ("recent_verdict", VERDICTS[said.recent["verdict"]], of_loss),
            ("recent_since_outcome", said.recent["since"], of_loss),
            *zip(("low", "high"), said.interval or (), (of_loss, of_loss)),
            ("difference", said.measures.get("difference"), {**of_loss, **of_estimator}),
            ("q", said.measures.get("q"), {**of_loss, **of_estimator}),
            ("mcnemar", said.measures.get("mcnemar"), of_estimator),
            ("disagreement", (said.disagreement or {}).get("share"), of_loss),
            ("disagreement_at_most", (said.disagreement or {}).get("at_most"), of_loss),
        ]
        for name, value, labels in values:
            if value is not None:
                found[f"prequential_comparison_{name}", frozenset(labels.items())] = value
    return found


class TestSeries:
    @pytest.mark.parametrize("size", [read_snapshot._BYTES, 1], ids=["at once", "entity by entity"])
    @examples(40, 8)
    @given(seed=st.integers(0, 1 << 30), extreme=st.booleans())
    @example(seed=44403, extreme=True).via("a version with an incident leaves its place to a newer one")
    def test_they_are_what_the_messages_say(self, size: int, seed: int, extreme: bool) -> None:
        rng = random.Random(seed)
        world = extreme_world(rng, 150) if extreme else random_world(rng, 200, rng.choice([2, 3]))
        config = with_measures(world.config, NAMES)
        shard, outputs = lived(world, rng.randrange(3))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(read_snapshot, "_BYTES", size)
            found = exported(config, shard)
        messages, comparisons = last_set(shard)
        expected = shown_to_users(of_sequences(messages, NAMES))
        assert {key: value for key, value in found.items() if key[0] in SEQUENCE} == expected
        for key, value in shown_to_users(of_accounts(messages)).items():
            assert found[key] == value, key
        alarms = {key: n for key, n in found.items() if key[0] == "prequential_drift_alarms_total" and n}
        assert alarms == shown_to_users(of_alarms(outputs, messages))
        incidents = {key: n for key, n in found.items() if "_incident" in key[0]}
        shown = {key: n for key, n in incidents.items() if n or "severity" in key[0]}
        assert shown == shown_to_users(of_incidents(outputs, messages))
        pairs = {key: n for key, n in found.items() if key[0] in COMPARISONS}
        assert pairs == shown_to_users(of_pairs(comparisons))

    def test_only_the_measures_that_are_wanted(self) -> None:
        shard, _ = lived(steady(60))
        names = {name for name, _ in exported(with_measures(shard.config, ("kappa", "mae")), shard)}
        assert "prequential_kappa" in names
        assert not names & {"prequential_accuracy", "prequential_error", "prequential_mae"}
        assert "prequential_outcomes_total" in names

    @examples(20)
    @given(st.integers(0, 1 << 32), st.sampled_from([None, "stages", "estimators"]), st.booleans())
    @example(180, "stages", True).via("compared where `initial` is the same as `final`")
    def test_only_what_is_wanted_of_sequences(self, seed: int, key: str | None, segments: bool) -> None:
        """Whatever has a stage, an estimator or a segment that isn't wanted is left out, and nothing else."""
        world = random_world(random.Random(seed), 200, 2)
        shard, _ = lived(world)
        names = {} if key is None else {key: getattr(world.config.defaults, key)[:1]}
        http = replace(EVERYTHING, segments=segments, **names)
        every = exported(replace(world.config, http=EVERYTHING), shard)
        same = {
            (labels["stream"], labels["model"])
            for name, of in every if name == "prequential_same_stage_info" for labels in [dict(of)]
        }  # fmt: skip

        def stands_for(labels: dict[str, str]) -> list[str]:
            """The stages that are the same as one, of all models that a sample is about."""
            models = [labels[name].removesuffix("@random") for name in ("model", "against") if name in labels]
            alike = labels.get("stage") == "final" and same.issuperset((labels["stream"], m) for m in models)
            return ["initial"] if alike else []

        def is_shown(key: tuple[str, frozenset[tuple[str, str]]]) -> bool:
            name, labels = key[0], dict(key[1])
            stage, estimator = labels.get("stage"), labels.get("estimator")
            config = world.config.stream(labels.get("stream", ""))
            if name == "prequential_same_stage_info":
                return http.shows_stage(labels["same"], config)
            if stage is not None and not http.shows_stage(stage, config, stands_for(labels)):
                return False
            if estimator is not None and not http.shows_estimator(estimator, config):
                return False
            return segments or "segment" not in labels

        wanted = {sample: value for sample, value in every.items() if is_shown(sample)}
        assert exported(replace(world.config, http=http), shard) == wanted

    def test_a_shard_that_is_restored_isnt_shown(self) -> None:
        shard, _ = lived(steady(60))
        found = samples(exporter(shard.config, shard, recovering=True).text(at_once))
        assert found["prequential_shards", frozenset({("state", "recovering")})] == 1
        assert not [name for name, labels in found if "stream" in dict(labels)]
        assert not [name for name, _ in found if name.startswith("prequential_dead_letters")]

    def test_a_shard_that_goes_meanwhile_isnt_shown_any_more(self) -> None:
        shard, _ = lived(steady(60))
        one = exporter(shard.config, shard)
        asked: list[int] = []

        def then_gone(question: Callable[[], Any]) -> Any:
            if asked:
                one._runners.clear()
            asked.append(1)
            return question()

        found = samples(one.text(then_gone))
        assert len(asked) > 1
        assert not [name for name, labels in found if "stream" in dict(labels)]

    def test_names_may_have_any_characters(self) -> None:
        world = steady(60, stream='a"\\b\nc')
        shard, _ = lived(world)
        streams = {dict(labels).get("stream") for _, labels in exported(shard.config, shard)}
        assert streams == {None, 'a"\\b\nc'}

    def test_a_split_stream_is_several_series_that_add_up(self) -> None:
        """Two thirds of a stream's instances lie in partition 0, the others in partition 1."""
        world = steady(90)
        parts: list[Any] = [([], [], []), ([], [], [])]
        for kind, rows in enumerate(world.topics):
            for at, said in rows:
                parts[int(said["instance_id"]) % 3 == 2][kind].append((at, said))  # type: ignore[index]
        shards = [lived(World(world.settings, topics), number)[0] for number, topics in enumerate(parts)]
        runners = {}
        for number, shard in enumerate(shards):
            runner: Any = SimpleNamespace(
                shard=shard, recovering=False, halted=None, partition=number, statistics=ShardStatistics(),
                open_transactions=[OpenTransaction(name) for name in KINDS],
            )
            runners[number] = runner
        fetcher: Any = SimpleNamespace(ends={})
        found = samples(Exporter(world.config, fetcher, runners).text(at_once))
        outcomes = {
            dict(labels)["partition"]: n
            for (name, labels), n in found.items()
            if name == "prequential_outcomes_total"
            and {("model", "m0"), ("stage", "final")} <= labels
        }
        assert outcomes == {"0": 60, "1": 30}
        names = [{name for name, _ in labels} for _, labels in found]
        assert [labels for labels in names if "stream" in labels and "partition" not in labels] == []

    def test_a_champion_that_is_beaten_in_all_but_one_segment(self) -> None:
        """In France it is right, and so is the other one."""
        shard, _ = lived(a_champion_is_beaten())
        found = exported(shard.config, shard)
        champions = {key: n for key, n in found.items() if key[0] == "prequential_champion_info"}
        about = {"stream": "s", "partition": "0", "model": "old"}
        assert champions == {("prequential_champion_info", frozenset(about.items())): 1}
        segments = {None: 1, "country=DE": 1, "country=FR": 0}
        for segment, verdict in segments.items():
            of = {**about, "against": "new", "stage": "final", "loss": "error"}
            labels = frozenset((of if segment is None else {**of, "segment": segment}).items())
            assert found["prequential_comparison_verdict", labels] == verdict
            assert (("prequential_comparison_since_outcome", labels) in found) == bool(verdict)
            assert (found["prequential_comparison_low", labels] > 0) == bool(verdict)

    def test_pairs_beyond_the_limit_are_counted(self) -> None:
        world = two_models(20, {}, lambda i: dict.fromkeys("abcd", "1"), "1")
        shard, _ = lived(World({**world.settings, "limits": {"pairs_per_stream": 2}}, world.topics))
        found = exported(shard.config, shard)
        labels = frozenset({"stream": "s", "partition": "0"}.items())
        assert found["prequential_comparison_pairs_left_out", labels] == 4
        assert len([name for name, _ in found if name == "prequential_comparison_verdict"]) == 2

    def test_whether_objectives_are_kept(self) -> None:
        world = steady(200)
        bounds = {"accuracy": 0.9, "log_loss": 0.5, "tolerance": 0.02}
        settings = {"defaults": {**world.settings["defaults"], "objective": bounds}}
        shard, _ = lived(World(settings, world.topics))
        found = exported(with_measures(shard.config, ()), shard)
        about = {"stream": "s", "partition": "0"}
        for measure in ("accuracy", "log_loss"):
            bound = found["prequential_objective", frozenset({**about, "measure": measure}.items())]
            assert bound == bounds[measure]
        compared = 0
        for said in last_set(shard)[0]:
            of = {**about, "model": said.model, "stage": said.stage, "estimator": said.estimator}
            for measure, margin in (
                ("accuracy", said.measures["accuracy"] - 0.9 + 0.02),
                ("log_loss", 0.5 - said.measures["log_loss"] + 0.02),
            ):
                key = "prequential_objective_margin", frozenset({**of, "measure": measure}.items())
                assert found[key] == pytest.approx(margin, abs=1e-12)
                compared += 1
        assert compared == len([key for key in found if key[0] == "prequential_objective_margin"]) == 8

    def test_versions_of_models(self) -> None:
        world = steady(60)
        for at, said in world.topics[1]:
            if said["model"] == "m0":  # type: ignore[index]
                said["model_version"] = "v1" if at < 300 else "v2"  # type: ignore[index]
        shard, _ = lived(world)
        found = exported(shard.config, shard)
        about = {"stream": "s", "partition": "0", "model": "m0"}
        versions = {key: n for key, n in found.items() if key[0] == "prequential_model_version_info"}
        assert versions == {
            ("prequential_model_version_info", frozenset({**about, "version": "v2"}.items())): 1
        }
        since = {key: n for key, n in found.items() if key[0] == "prequential_model_version_since_outcome"}
        assert since == {("prequential_model_version_since_outcome", frozenset(about.items())): 31}

    def test_records_that_belong_to_another_partition(self) -> None:
        """Of three partitions, murmur2 gives stream `s` the first one."""
        for partition, expected in ((partition_of("s", 3), 0), ((partition_of("s", 3) + 1) % 3, 60)):
            shard, _ = lived(steady(60), partition, 3)
            found = exported(shard.config, shard)
            key = "prequential_misplaced_records_total"
            counts = {dict(labels)["topic"]: n for (name, labels), n in found.items() if name == key}
            assert counts == {"instances": expected, "predictions": 2 * expected, "labels": expected}

    def test_the_lag_is_what_has_not_been_read(self) -> None:
        shard, _ = lived(steady(60))
        one, key = exporter(shard.config, shard), "prequential_lag_records"
        one._fetcher.ends = {(0, 0): 70, (2, 0): 50}  # an end that was found earlier
        found = samples(one.text(at_once))
        lags = {dict(labels)["topic"]: n for (name, labels), n in found.items() if name == key}
        assert lags == {"instances": 10, "labels": 0}


def two_models(
    count: int, settings: dict[str, Any], said: Callable[[int], dict[str, Any]], truth: Any
) -> World:
    """Models say what they are told to of each instance; half of them are of Germany, half of France."""
    topics: Any = ([], [], [])
    for i in range(count):
        head = {"stream": "s", "instance_id": str(i), "ts": 10 * i}
        for model, y_pred in said(i).items():
            row = {**head, "model": model, "y_pred": y_pred, "segments": {"country": ("DE", "FR")[i % 2]}}
            topics[1].append((10 * i, row))
        topics[2].append((10 * i + 2, {**head, "y_true": truth, "ts": 10 * i + 2}))
    return World({"defaults": {"stages": ["final"], "estimators": ["all", "window:50"], **settings}}, topics)


def a_champion_is_beaten() -> World:
    settings = {"segments": ["country"], "compare": "champion", "champion": "old", "cluster": "off"}
    return two_models(1_000, settings, lambda i: {"new": "1", "old": "01"[i % 2]}, "1")


def numbers() -> World:
    """The one is always 2 off, the other 1."""
    settings = {"task": "regression", "compare_losses": ["squared"]}
    return two_models(80, settings, lambda i: {"old": 7.0, "new": 6.0}, 5.0)


def steady(count: int, stream: str = "s") -> World:
    """Two models, one instance after the other."""
    rng = random.Random(1)
    topics: Any = ([], [], [])
    for i in range(count):
        head = {"stream": stream, "instance_id": str(i), "ts": 10 * i}
        truth = rng.choice("01")
        topics[0].append((10 * i, head))
        for model in ("m0", "m1"):
            guess = rng.choice(truth + "01")
            proba = {guess: 0.75, "01".replace(guess, ""): 0.25}
            said = {**head, "model": model, "y_pred": guess, "y_proba": proba}
            topics[1].append((10 * i + 1, said))
        topics[2].append((10 * i + 2, {**head, "y_true": truth, "ts": 10 * i + 2}))
    settings = {"defaults": {"emit": {"outcomes": None, "every": "50ms"}, "estimators": ["all", "window:50"]}}
    return World(settings, topics)


def test_scrapes_while_the_shard_advances_are_of_one_moment_each() -> None:
    """What is said of a sequence is what the message after as many outcomes says: never half of a round."""
    count = scaled(600, 1_500)
    world = steady(count)
    shard = Shard(world.config)
    said: dict[tuple[str, float], dict[str, float]] = {}
    questions: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[Any]]] = SimpleQueue()
    ended = threading.Event()

    def in_loop(question: Callable[[], Any]) -> Any:
        answer: SimpleQueue[Any] = SimpleQueue()
        questions.put((question, answer))
        return answer.get(timeout=30)

    def scrape() -> list[Samples]:
        one = exporter(with_measures(world.config, NAMES), shard)
        found = []
        while not ended.is_set():
            found.append(samples(one.text(in_loop)))
        return found

    with ThreadPoolExecutor(2) as threads:
        scrapes = [threads.submit(scrape) for _ in range(2)]
        for start in range(0, count, 3):
            for kind, each in enumerate((3, 6, 3)):
                first = start * each // 3
                shard.add(batch_of(kind, world.topics[kind], first, first + each))
            while shard.advance([world.topics[0][start][0] + 25] * 3, 4):
                for row in (one.row for one in shard.catalog.entities if one is not None):
                    for message in metrics_of(shard.reporter.metrics([row])):
                        if message.estimator == "all" and message.stage == "final":
                            said[message.model, message.outcomes] = message.measures
                try:
                    while True:
                        question, answer = questions.get_nowait()
                        answer.put(question())
                except Empty:
                    pass
            shard.flush()
        ended.set()
        while not all(one.done() for one in scrapes):
            try:
                question, answer = questions.get(timeout=0.1)
                answer.put(question())
            except Empty:
                pass
        found = [one for scraped in scrapes for one in scraped.result()]
    moments = set()
    for one in found:
        for model in ("m0", "m1"):
            about = {"stream": "s", "model": model, "stage": "final", "partition": "0"}
            outcomes = one.get(("prequential_outcomes_total", frozenset(about.items())))
            if not outcomes:
                continue
            of = {**about, "estimator": "all"}
            measures = {
                name: value
                for name in NAMES
                if (value := one.get((f"prequential_{name}", frozenset(of.items())))) is not None
            }
            assert measures == said[model, outcomes]
            moments.add(outcomes)
    assert len(moments) > 3


def test_what_is_copied_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows with probabilities are the largest of what is copied, an entity the least."""
    monkeypatch.setattr(read_snapshot, "_BYTES", 50_000)
    world = steady(60)
    topics: Any = ([], [], [])
    for n in range(60):
        for kind, rows in enumerate(world.topics):
            topics[kind].extend((time, {**row, "stream": f"s{n}"}) for time, row in rows[:20])  # type: ignore[dict-item]
    settings = {"defaults": {"estimators": ["window:5000"], "stages": ["final"]}}
    shard, _ = lived(World(settings, topics))
    copied = []
    for part in read_snapshot.parts(shard.state, scored=True):
        taken = read_snapshot.take(shard.state, shard.comparisons, part, scored=True)
        copied.append(
            sum(
                column.nbytes
                for plan in taken.catalog.plans
                if len(plan.owner) == plan.rows and plan.rows
                for estimator in plan.estimators
                for held in estimator.attributes()
                for column in held.table
            )
        )
    assert len(copied) > 3
    assert max(copied) < 2 * read_snapshot._BYTES
    # A window takes room for its outcomes, a power of two, and not for all that it may hold.
    assert 120 * 41 * 20 < sum(copied) < 2 * 120 * 41 * 32


def test_what_is_copied_of_pairs_at_once_is_bounded() -> None:
    """Losses in windows are the largest of it; counts have no use of theirs."""
    one = numbers()
    topics: Any = ([], [], [])
    for n in range(60):
        for kind, rows in enumerate(one.topics):
            topics[kind].extend((time, {**row, "stream": f"s{n}"}) for time, row in rows[:20])  # type: ignore[dict-item]
    settings = {"defaults": {**one.settings["defaults"], "estimators": ["window:5000"]}}
    shard, _ = lived(World(settings, topics))
    copied = []
    for part in read_snapshot.parts(shard.state, scored=False):
        pairs = read_snapshot.take(shard.state, shard.comparisons, part, scored=False).pairs
        copied.append(
            sum(column.nbytes for side in pairs.sides.values() for _, table in side.named()
                for column in columns_of(table).values())
        )  # fmt: skip
    assert max(copied) < 2 * read_snapshot._BYTES
    # A pair's windows of its outcomes, and some kilobytes of its verdicts.
    assert 60 * 16 * 20 < sum(copied) < 60 * (16 * 32 + 40_000)


def test_the_demo_reads_what_a_worker_says_by_default() -> None:
    config = Config()
    shard = Shard(config)
    for kind, later in enumerate((0, 0, 2_500)):
        about = ({}, {"model": "m", "y_pred": "a"}, {"y_true": "a"})[kind]
        count = (200, 201, 200)[kind]  # of one prediction there is no label
        about |= {"stream": "s"}
        rows = [(n + later, {**about, "instance_id": n, "ts": n + later}) for n in range(count)]
        shard.add(batch_of(kind, rows, 0, count))
    advance(shard, 1 << 30)
    readings = parse(exporter(config, shard).text(at_once))
    assert readings.latency == pytest.approx(2.5, rel=0.04)
    assert readings.waiting == 1


class TestCompression:
    @pytest.fixture
    def address(self) -> Any:
        body = b"prequential_kappa 1\n" * 1_000
        endpoint = Endpoint(
            HttpConfig(port=0),
            {"/metrics": lambda: (200, TEXT, body), "/live": lambda: (200, TEXT, b"alive\n")},
        )
        yield endpoint.address
        endpoint.stop()

    @pytest.mark.parametrize(
        ("accepted", "compressed"),
        [("gzip", True), ("deflate, gzip;q=0.5", True), ("identity", False), (None, False)],
    )
    def test_where_it_is_asked_for(self, address: str, accepted: str | None, compressed: bool) -> None:
        request = Request(f"{address}/metrics", headers={"Accept-Encoding": accepted} if accepted else {})
        with urlopen(request) as answer:
            body = answer.read()
            assert answer.headers["Vary"] == "Accept-Encoding"
            assert (answer.headers["Content-Encoding"] == "gzip") == compressed
            assert int(answer.headers["Content-Length"]) == len(body)
        assert (gzip.decompress(body) if compressed else body) == b"prequential_kappa 1\n" * 1_000
        assert len(body) < 1_000 or not compressed

    def test_small_answers_stay_as_they_are(self, address: str) -> None:
        with urlopen(Request(f"{address}/live", headers={"Accept-Encoding": "gzip"})) as answer:
            assert (answer.read(), answer.headers["Content-Encoding"]) == (b"alive\n", None)
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{address}/nowhere")

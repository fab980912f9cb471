"""The comparison of two models as the page's JSON, and whether a challenger may replace a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from prequential.configuration.settings.stages import FINAL
from prequential.engine.estimators.naming import is_baseline
from prequential.engine.measures.registry import LESS_IS_BETTER, NAMES, NOT_QUALITY
from prequential.views.dashboard.courses import Absent, Courses
from prequential.views.dashboard.incident import events_of
from prequential.views.dashboard.overview import silent_line
from prequential.views.state import ranking
from prequential.views.state.best import deciding_set
from prequential.views.state.history import History
from prequential.views.state.newest import ModelKey, SequenceName, coverage_of, expected_lines
from prequential.views.state.statuses import better_now
from prequential.views.state.thresholds import threshold_of, thresholds_sentence
from prequential.views.wording import comparing
from prequential.views.wording.best_models import in_words
from prequential.views.wording.comparing import PairKey


class Answer(NamedTuple):
    """The answer of a condition about a model: `failed` if it holds, or if the result is unknown."""

    failed: bool
    sentence: str


def lately(better: str | None, since: int | None) -> str:
    """Return a sentence about the better model by the recent verdict; None: undecided.

    >>> lately("tree", 1300), lately(None, None)
    ('tree is better since about outcome 1,300', 'recently undecided')
    """
    if better is None:
        return "recently undecided"
    return f"{better} is better since about outcome {since:,}"


class Promotion(NamedTuple):
    """The question whether `model` may replace `champion`.

    The answer is yes if these conditions hold in each stream that has the model:

    - The stream compares the two models.
    - By the stream's first loss, in stage `final` and without segments, the recent verdict names the model.
    - The champion is not better by another loss or in a segment, over all history or recently.
    - Of three models or more, it may be the best: it is in the set over the whole run (see
      `wording.best_models`), unless it has become better than each model that beats it.
    """

    model: str
    #: None: the stream's `champion`, or each other model if the stream has none.
    champion: str | None = None

    def check(self, history: History) -> list[Answer]:
        """Return the answers, of which those against the model have failed; at least one answer."""
        answers: list[Answer] = []
        for key in sorted(history.models):
            if key.model == self.model:
                answers += self.of_stream(history, key)
        return answers or [Answer(True, f"no message is about a model {self.model!r}")]

    def of_stream(self, history: History, key: ModelKey) -> Iterator[Answer]:
        """Yield the answers for one stream, in which `key` is the challenger."""
        settings = history.config.stream(key.stream)
        champion = self.champion or settings.champion
        pairs = [
            (pair, pair.against if pair.model == self.model else pair.model)
            for pair in history.pairs(key.stream, key.partition)
            if self.model in (pair.model, pair.against) and FINAL in (pair.stage, *pair.same)
        ]  # fmt: skip
        pairs = [
            (pair, rival) for pair, rival in pairs
            if rival == champion or (champion is None and not is_baseline(rival))
        ]  # fmt: skip
        deciding = [
            (pair, rival) for pair, rival in pairs
            if pair.segment is None and pair.loss == settings.compare_losses[0]
        ]  # fmt: skip
        if not deciding:
            rival_text = "another model" if champion is None else repr(champion)
            yield Answer(
                True, f"{key.stream}: {self.model} and {rival_text} aren't compared by their final "
                f"{settings.compare_losses[0]}",
            )  # fmt: skip
        for pair, rival in deciding:
            better = since = None
            if pair.recent is not None:
                better, since = pair.better(pair.recent.verdict), pair.recent.since
            sentence = f"{self._subject(pair, rival)}: {lately(better, since)}"
            yield Answer(better != self.model, f"{sentence}; {comparing.over_the_whole_run(pair)}")
        for pair, rival in pairs:
            recently = None if pair.recent is None else pair.better(pair.recent.verdict)
            if (pair, rival) not in deciding and rival in (pair.better(pair.verdict), recently):
                yield Answer(True, f"{self._subject(pair, rival)}: {rival} is better")
        if deciding:
            yield from self._among_best(history, key)
        for model in dict.fromkeys((self.model, *(rival for _, rival in deciding))):
            yield from _known(history, key._replace(model=model))

    def _among_best(self, history: History, key: ModelKey) -> Iterator[Answer]:
        """Yield whether the challenger may be the best of the stream's models, if there are several."""
        best = deciding_set(history, key)
        if best is None:
            return
        left_model = best.left_model(self.model)
        failed = left_model is not None and not left_model.is_reversed
        yield Answer(failed, f"{key.stream}: {in_words(best, str)}")

    def _subject(self, pair: comparing.Pair, rival: str) -> str:
        segment = "" if pair.segment is None else f" {pair.segment}"
        return f"{pair.stream}{segment} / {self.model} against {rival}, {pair.loss}"


def _known(history: History, key: ModelKey) -> Iterator[Answer]:
    """Yield an answer about a model's pending predictions, which does not affect the decision."""
    model = history.models.get(key)
    coverage = {} if model is None else coverage_of(model)
    waiting, labelled = coverage.get("waiting"), coverage.get("labelled")
    share = labelled.get("horizon") if isinstance(labelled, dict) else None
    if isinstance(waiting, int | float):
        had = f"; {share:.1%} of those before had one by the horizon" if isinstance(share, float) else ""
        yield Answer(False, f"{key.stream} / {key.model}: {waiting:,.0f} predictions wait for labels{had}")


#: Measures of the calibration of probabilities.
_CALIBRATION = ("log_loss", "brier", "ece")

#: The largest number of other measures that are shown.
_MEASURES = 8


def pair_page(
    history: History, pair_key: PairKey, courses: Courses | None = None, now: int | None = None
) -> dict[str, Any]:
    """Return the page of two models as JSON: the difference of their losses over time, and the verdict.

    The page also shows whether one may replace the other, the verdicts by segment and loss, and each model's
    measures, coverage and expected values. `now` is in epoch ms, None for files. Raises Absent for an unknown
    comparison.
    """
    courses = courses or Courses(history)
    pairs = [
        pair
        for pair in history.pairs(pair_key.stream, pair_key.partition)
        if (pair.model, pair.against, pair.segment, pair.loss)
        == (pair_key.model, pair_key.against, pair_key.segment, pair_key.loss)
        and pair_key.stage in (pair.stage, *pair.same)
    ]
    if not pairs:
        raise Absent(
            f"no comparison of {pair_key.model!r} with {pair_key.against!r} on {pair_key.stream!r} was seen"
        )
    [pair] = pairs
    pair_key = pair_key._replace(stage=pair.stage)
    past = history.pair_past.get(pair_key, {})
    promotions = list(_promotions(history, pair_key))
    return {
        **pair_key._asdict(), "same": pair.same, "split": pair_key.stream in history.split,
        "estimators": list(past),
        "outcomes": pair.outcomes, "ts": pair.ts, "untimed": pair.untimed, "difference": pair.difference,
        "interval": pair.interval, "level": pair.level, "verdict": pair.verdict, "since": pair.since,
        "latest": pair.latest, "recent": pair.recent, "contradicted": comparing.contradicted(pair),
        "since_then": _since_then(history, pair_key, pair),
        "sentence": comparing.standing(pair), **_certainty(pair),
        "thresholds": _thresholds(history, pair_key),
        "series": {
            estimator: courses.course(estimator, course.series, course.newest)
            for estimator, course in past.items()
        },
        "champion": history.config.stream(pair_key.stream).champion,
        "promotions": promotions,
        "question": _question(
            pair, promotions, history.config.stream(pair_key.stream).compare_margin
        ),
        "segments": [_standing(alike_pair) for alike_pair in _alike(history, pair_key, "loss")
            if alike_pair.segment is not None],
        "losses": [_standing(alike_pair) for alike_pair in _alike(history, pair_key, "segment")
            if alike_pair.loss != pair_key.loss],
        "calibration": _CALIBRATION, "less_is_better": list(LESS_IS_BETTER), "not_quality": list(NOT_QUALITY),
        "models": [_side(history, pair_key, name, now)
            for name in dict.fromkeys((pair_key.model, pair_key.against))],
        "others": [
            line
            for line in pair_lines(history, pair_key.stream, pair_key.partition, pair_key.model,
                pair_key.against)
            if {line["model"], line["against"]} != {pair_key.model, pair_key.against}
            or pair_key.stage not in (line["stage"], *line["same"])
        ],
        **_events(history, pair_key),
    }  # fmt: skip


def _certainty(pair: comparing.Pair) -> dict[str, Any]:
    """Return what a verdict over the whole run still needs, as fields of the message and in words."""
    return {
        "provisional": pair.provisional, "needed": pair.needed,
        "whole_verdict": comparing.whole_verdict(pair),
        "disagreement": pair.disagreement, "agreement": comparing.agreement_in_words(pair.disagreement),
    }  # fmt: skip


def _thresholds(history: History, pair_key: PairKey) -> str | None:
    """Return a sentence if the two models decide at different thresholds, as far as messages show it."""
    settings = history.config.stream(pair_key.stream)
    decided = []
    for name in dict.fromkeys((pair_key.model, pair_key.against)):
        model = history.models.get(ModelKey(pair_key.stream, name, pair_key.partition))
        readings = [] if model is None else [
            history.reading(newest) for sequence, newest in model.sequences.items()
            if (sequence.segment, sequence.stage) == (None, pair_key.stage)
        ]  # fmt: skip
        # Of memories the one with the most outcomes: its histogram is the finest.
        finest_first = sorted(
            (reading for reading in readings if reading is not None), key=lambda reading: -reading.n
        )
        decisions = (threshold_of(reading, settings) for reading in finest_first)
        decision = next((threshold for threshold in decisions if threshold is not None), None)
        if decision is not None:
            decided.append((name, decision))
    return thresholds_sentence(decided)


def _since_then(history: History, pair_key: PairKey, pair: comparing.Pair) -> float | None:
    """Return the mean difference of losses since the recent verdict began, from the course over all history.

    The mean over all n outcomes times n is their sum; the part up to the beginning is subtracted.
    """
    course = history.pair_past.get(pair_key, {}).get(comparing.WHOLE)
    newest = None if course is None else course.newest
    if pair.recent is None or pair.recent.since is None or course is None or newest is None:
        return None
    end = newest.values.get("difference")
    points = zip(course.series.outcomes(), course.series.values("difference"))
    before = [
        (outcomes, value) for outcomes, value in points
        if outcomes <= pair.recent.since and value is not None
    ]  # fmt: skip
    if end is None or newest.outcomes <= pair.recent.since:
        return None
    outcomes, value = before[-1] if before else (0, 0.0)
    return float((end * newest.outcomes - value * outcomes) / (newest.outcomes - outcomes))


def _promotions(history: History, pair_key: PairKey) -> Iterator[dict[str, Any]]:
    """Yield whether a model may replace the other, as in `report --promote`, but never for a champion."""
    champion = history.config.stream(pair_key.stream).champion
    names = (pair_key.model, pair_key.against)
    if pair_key.model == pair_key.against or any(map(is_baseline, names)):
        return
    for challenger, rival in (names[::-1], names):
        if champion in names and challenger == champion:
            continue
        key = ModelKey(pair_key.stream, challenger, pair_key.partition)
        answers = list(Promotion(challenger, rival).of_stream(history, key))
        yield {
            "model": challenger, "champion": rival, "allowed": not any(answer.failed for answer in answers),
            "answers": [answer._asdict() for answer in answers],
        }  # fmt: skip


def _question(
    pair: comparing.Pair, promotions: list[dict[str, Any]], margin: float | None
) -> dict[str, Any] | None:
    """Return the question that the page answers: whether the model that is ahead may replace the other.

    A champion is never the challenger. Returns None for a pair with a baseline.
    """
    if not promotions:
        return None
    latest = pair.difference if pair.latest is None else pair.latest.difference
    ahead = better_now(pair) or (pair.model if (latest or 0.0) < 0 else pair.against)
    promotion = min(promotions, key=lambda promotion: (not promotion["allowed"], promotion["model"] != ahead))
    failed = [answer["sentence"] for answer in promotion["answers"] if answer["failed"]]
    recently_better = None if pair.recent is None else pair.better(pair.recent.verdict)
    answer = (
        "Yes" if promotion["allowed"] else "No" if recently_better == promotion["champion"] else "Not yet"
    )
    is_equivalent = pair.verdict == comparing.EQUIVALENT or comparing.is_within_margin(pair, margin)
    if answer == "Not yet" and is_equivalent:
        answer = "Equivalent"
    reason = comparing.promotion_reason(pair, promotion["model"], recently_better, failed, margin)
    # Recent outcomes alone are less than the whole run with them.
    is_sure = answer != "Yes" or pair.better(pair.verdict) == promotion["model"]
    basis = "" if answer in ("Not yet", "Equivalent") else "by recent outcomes" + ("" if is_sure else " only")
    return {
        "challenger": promotion["model"], "champion": promotion["champion"], "answer": answer,
        "reason": reason,
        "basis": basis, "is_sure": is_sure,
    }  # fmt: skip


def _alike(history: History, pair_key: PairKey, field: str) -> list[comparing.Pair]:
    """Return the comparisons of the same two models with the same stage and the same `field`."""
    return [
        pair for pair in history.pairs(pair_key.stream, pair_key.partition)
        if (pair.model, pair.against) == (pair_key.model, pair_key.against)
        and pair_key.stage in (pair.stage, *pair.same) and getattr(pair, field) == getattr(pair_key, field)
    ]  # fmt: skip


def _standing(pair: comparing.Pair) -> dict[str, Any]:
    """Return a comparison by segment or loss, with the better model now and over the whole run."""
    return {
        **_pair_line(pair), "difference": pair.difference, "interval": pair.interval,
        "outcomes": pair.outcomes, "now": better_now(pair), "whole": pair.better(pair.verdict),
    }  # fmt: skip


def _side(history: History, pair_key: PairKey, name: str, now: int | None) -> dict[str, Any]:
    """Return one model's measures, now and over the whole run, its coverage and its expected values."""
    key = ModelKey(pair_key.stream, name, pair_key.partition)
    model = history.models.get(key)
    if model is None:
        return {"model": name, "latest": None, "whole": None, "coverage": {}, "expected": [], "silent": None}
    row = ranking.Ranking(history).row(model)
    estimator = None if row.sequence is None else row.sequence.estimator
    memories = {"latest": estimator, "whole": comparing.WHOLE if estimator != comparing.WHOLE else None}
    sides: dict[str, Any] = {}
    for side, memory in memories.items():
        sequence = SequenceName(pair_key.segment, pair_key.stage, memory or "")
        reading = None if memory is None else history.reading(model.sequences.get(sequence))
        values = {} if reading is None else reading.measures
        # `error` is 1 minus accuracy, which is already listed.
        names = frozenset(values) - ({"error"} if "accuracy" in values else set())
        measure_names = ranking.measures_shown(names, None) if names else []
        shown = [
            *[measure for measure in measure_names if measure not in _CALIBRATION][:_MEASURES],
            *_CALIBRATION,
        ]
        sides[side] = None if reading is None else {
            "estimator": memory, "n": reading.n,
            "values": {measure: values[measure] for measure in sorted(shown, key=NAMES.index)
                if measure in values},
        }  # fmt: skip
    silence = history.silence(model, now)
    return {
        "model": name, **sides, "coverage": coverage_of(model),
        "expected": expected_lines(model, history.config.stream(pair_key.stream).period_zone),
        "silent": None if silence is None else silent_line(silence),
    }  # fmt: skip


def _events(history: History, pair_key: PairKey) -> dict[str, Any]:
    """Return the incidents and versions of both models, each with its model's name."""
    names = dict.fromkeys((pair_key.model, pair_key.against))
    both = {name: events_of(history, ModelKey(pair_key.stream, name, pair_key.partition)) for name in names}
    return {
        "bands": [
            {**band, "name": f"{name}: {band['name']}"} for name, events in both.items()
            for band in events.bands
        ],
        "marks": [
            {**mark, "text": f"{name}: {mark['text']}"}
            for name, events in both.items() for mark in events.marks if mark["kind"] != "alarm"
        ],
    }  # fmt: skip


def pair_lines(history: History, stream: str, partition: int, *models: str) -> list[dict[str, Any]]:
    """Return the pairs of a stream that include one of these models."""
    return [
        _pair_line(pair) for pair in history.pairs(stream, partition)
        if not {pair.model, pair.against}.isdisjoint(models)
    ]  # fmt: skip


def _pair_line(pair: comparing.Pair) -> dict[str, Any]:
    return {
        "stream": pair.stream, "partition": pair.partition, "model": pair.model, "against": pair.against,
        "segment": pair.segment, "stage": pair.stage, "same": pair.same, "loss": pair.loss,
        "verdict": pair.verdict, "contradicted": comparing.contradicted(pair),
        "provisional": pair.provisional, "sentence": comparing.standing(pair),
    }  # fmt: skip

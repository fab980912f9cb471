"""What an evaluation has found: tables of its messages, a summary to read, a report to pass on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from prequential.backtesting.backtest import TOLERANCE
from prequential.calibration.calibrating import OUTCOMES
from prequential.evaluation.html import page_of
from prequential.evaluation.inputs import Inputs
from prequential.evaluation.looking_back import Backtest, Calibration, Change, Looking
from prequential.evaluation.messages import table_of, table_of_incidents
from prequential.evaluation.plots import plot_of
from prequential.evaluation.residuals import Residuals, residuals_of
from prequential.evaluation.scores import Scores, scores_of
from prequential.evaluation.shown import text_of
from prequential.evaluation.svg import Plot
from prequential.evaluation.wanted import Wanted, check
from prequential.replay.summary import Summary
from prequential.replay.text import IN_PYTHON, finding_in_words, show, shown_estimators
from prequential.report import Report
from prequential.settings.model import Config
from prequential.topics.decoding import KINDS
from prequential.topics.errors import WorkError
from prequential.topics.outputs import Alarm, Comparison, DeadLetter, Incident, Message, Metrics
from prequential.topics.reasons import listed
from prequential.wording.explaining import Known, explain
from prequential.wording.references import referred


class Result:
    """What an evaluation has found; `evaluate` and `Evaluator.result` make it.

    Tables are Arrow's (`.to_pandas()`, `polars.from_arrow(…)`), with a row for each message that `replay`
    would have written, the same bit for bit, and their measures as columns. They need pyarrow, and raise
    UsageError without it; all else doesn't. In a notebook a result shows itself as HTML, elsewhere `print`
    shows the same as text.

    Attributes
    ----------
    messages
        All messages in their order, as structs of `prequential.topics.outputs`.
    summary
        What became of all records, and how models stand (see `replay --summary`).

    Examples
    --------
    >>> from prequential.evaluation import evaluate
    >>> table = {"y_pred": ["UP", "UP", "DOWN", "UP"], "y_true": ["UP", "DOWN", "DOWN", "UP"]}
    >>> result = evaluate(table, table, estimators=["all"])
    >>> result.metrics.column("accuracy").to_pylist()
    [0.75]
    >>> result.metrics.column("stage").to_pylist()  # and `initial`, which is the same here
    ['final']
    >>> result.dead_letters
    []
    """

    def __init__(
        self, outputs: Sequence[Message], summary: Summary, config: Config, inputs: Inputs | None = None,
        latest: Callable[[], Sequence[Message]] = tuple,
    ) -> None:  # fmt: skip
        #: The messages themselves, in their order.
        self.messages: Sequence[Message] = outputs
        #: What became of all records, and how models stand (see `replay --summary`).
        self.summary = summary
        self._config = config
        self._inputs = inputs
        #: Makes the messages about the present state, where `outputs` end with older ones.
        self._latest = latest

    @cached_property
    def metrics(self) -> Any:
        """Measures in the course of time: an Arrow table, a row for each sequence and estimator when due.

        Columns are the fields of `prequential.topics.outputs.Metrics`, with each measure as one of its own;
        `ts` is a timestamp in ms (UTC), or the number of a row where records had no times.
        """
        return self._table(Metrics)

    @cached_property
    def comparisons(self) -> Any:
        """How pairs of models compared in the course of time: an Arrow table, a row for each message.

        Columns are the fields of `prequential.topics.outputs.Comparison`, with each measure as one of its
        own.
        """
        return self._table(Comparison)

    @cached_property
    def alarms(self) -> Any:
        """Drift alarms: an Arrow table with the fields of `prequential.topics.outputs.Alarm`."""
        return self._table(Alarm)

    @cached_property
    def incidents(self) -> Any:
        """Incidents, a row each, as its newest message has it.

        Levels, places and causes have columns of their own (`before_level`, `change_point_outcome`, `cause`,
        `cause_share`, …). All messages, each time one changed, are in `messages`.
        """
        return table_of_incidents(list(self.summary.incidents))

    @cached_property
    def dead_letters(self) -> list[dict[str, Any]]:
        """Records that couldn't be used: `input`, `number` in order of time from 0, and `reason` of each."""
        letters = [one for one in self.messages if isinstance(one, DeadLetter)]
        return [{"input": KINDS[one.kind], "number": one.offset, "reason": one.reason} for one in letters]

    @property
    def references(self) -> list[dict[str, Any]]:
        """Measures at the end beside those of the reference (`evaluate(…, reference=1000)`).

        A dict for each model, estimator and measure: `stream`, `model`, `stage`, `estimator`, `measure`,
        `outcomes` of the reference, its value (`reference`), `now`, `difference`, and its 95% `interval`,
        None while a memory has some of the reference's outcomes.
        """
        return [
            {"stream": one.stream, "model": one.model, "stage": one.stage, "estimator": name, **row._asdict()}
            for one in self.summary.sequences
            for name, said in (one.reference or {}).items() for row in referred(said)
        ]

    def measures(
        self, measure: str, *, stage: str = "final", estimator: str | None = None, stream: str | None = None
    ) -> dict[str, float | None]:
        """A measure of the whole run by model.

        Parameters
        ----------
        measure
            Its name, such as `kappa`.
        stage
            Which of an instance's predictions is evaluated.
        estimator
            By default `all`, or the first one where that isn't evaluated; `window:1000` gives the latest
            outcomes.
        stream
            Must be named if there are several.

        Returns
        -------
        dict
            By model its value; None where it has none.

        Raises
        ------
        ValueError
            For names that nothing has, and if there are several streams and none is named.

        Examples
        --------
        >>> from prequential.evaluation import evaluate
        >>> table = {"y_pred": ["UP", "UP", "DOWN"], "y_true": ["UP", "DOWN", "DOWN"], "model": ["nb"] * 3}
        >>> evaluate(table, table, estimators=["all"]).measures("accuracy")
        {'nb': 0.6666666666666666}
        """
        by_model: dict[str, float | None] = {}
        rows = [one for one in self.summary.sequences if stream in (None, one.stream)]
        streams = list(dict.fromkeys(one.stream for one in rows))
        if stream is None and len(streams) > 1:
            raise ValueError(f"there are several streams: expected stream to be one of {listed(streams)}")
        for one in rows:
            if one.is_of(stage):
                name = estimator or shown_estimators(one.measures)[0]
                if name not in one.measures:
                    raise ValueError(f"no estimator {name!r}: expected one of {', '.join(one.measures)}")
                by_model[one.model] = one.measures[name].get(measure)
        if not by_model:
            known = ", ".join(dict.fromkeys(stage for one in rows for stage in (one.stage, *one.same)))
            expected = f"expected one of {known}" if known else "there are none at all"
            raise ValueError(f"no outcomes of stage {stage!r}: {expected}")
        check("measure", measure, (name for one in rows for name in self._config.stream(one.stream).measures))
        return by_model

    def plot(
        self, measure: str, *, stage: str = "final", estimator: str | None = None,
        stream: str | None = None, segment: str | None = None,
    ) -> Plot:  # fmt: skip
        """A measure in the course of time, a line for each model, with incidents behind: SVG for a notebook.

        A point is what a message said; few points are drawn as points.

        Parameters
        ----------
        measure
            Its name, such as `kappa`.
        stage
            Which of an instance's predictions is evaluated.
        estimator
            By default the one of the latest outcomes (`window:1000`), or the first one.
        stream
            Must be named if there are several.
        segment
            `key=value`; None: the stream as a whole.

        Returns
        -------
        Plot
            `.save(path)` writes it to a file.

        Raises
        ------
        ValueError
            For names that nothing has, and if there are several streams and none is named.

        Examples
        --------
        >>> from prequential.evaluation import evaluate
        >>> table = {"y_pred": ["UP", "UP", "DOWN"], "y_true": ["UP", "DOWN", "DOWN"], "model": ["nb"] * 3}
        >>> plot = evaluate(table, table, estimators=["all"]).plot("accuracy")
        >>> plot.title, [line.name for line in plot.lines if not line.faint]
        ('accuracy, final, all', ['nb'])
        """
        if estimator is None:
            named = next((one for one in self.summary.sequences if stream in (None, one.stream)), None)
            estimator = None if named is None else shown_estimators(named.measures)[1]
        by_model = self.measures(measure, stage=stage, estimator=estimator, stream=stream)
        if all(value is None for value in by_model.values()):
            raise ValueError(f"measure {measure!r} has no value in stage {stage!r}")
        chosen = [
            one for one in self.messages
            if isinstance(one, Metrics) and one.segment == segment and one.estimator == estimator
            and stage in (one.stage, *(one.same or ())) and stream in (None, one.stream)
        ]  # fmt: skip
        if not chosen:
            raise ValueError(f"no message of segment {segment!r}: expected one of {self._segments()}")
        incidents = [one for one in self.summary.incidents if stream in (None, one.stream)]
        where = "" if segment is None else f", {segment}"
        return plot_of(chosen, measure, incidents, f"{measure}, {stage}, {estimator}{where}")

    def explain(self, incident: str | int | Incident = 0) -> list[str]:
        """What is known of an incident, as lines of text: those of `prequential explain`.

        They say since when it is, how bad, what changed, what other models and baselines did then, whether
        detectors are noisy here, which records to look at, and its alarms.

        Parameters
        ----------
        incident
            (The beginning of) its id, its number in the order in which incidents opened, from 0 (-1: the
            newest), or the incident itself.

        Returns
        -------
        list of str
            Lines of a text, without their ends.

        Raises
        ------
        ValueError
            If there is no such incident.

        Examples
        --------
        >>> import random
        >>> from prequential.evaluation import evaluate
        >>> r = random.Random(1)
        >>> wrong = [r.random() < (0.1 if i < 1500 else 0.5) for i in range(3000)]
        >>> y_true = [r.choice("ab") for _ in range(3000)]
        >>> y_pred = ["b" if (y == "a") == bad else "a" for y, bad in zip(y_true, wrong)]
        >>> table = {"y_pred": y_pred, "y_true": y_true}
        >>> lines = evaluate(table, table).explain(0)
        >>> lines[1]
        'since         outcome 1,504'
        >>> lines[3]
        'how bad       mean loss 0.0925 (0.0762 to 0.109, n = 1,503) → 0.533 (0.491 to 0.575, n = 227): \
severity 1.08'
        """
        known = Known()
        for message in self.messages:
            known.put(message)
        found = known.newest()
        if isinstance(incident, Incident):
            return list(explain(known, incident))
        if isinstance(incident, int):
            if not -len(found) <= incident < len(found):
                many = f"there are {len(found):,}" if len(found) != 1 else "there is 1"
                raise ValueError(f"no incident number {incident}: {many}")
            return list(explain(known, found[incident]))
        try:
            return list(explain(known, known.by_id(incident)))
        except WorkError as error:
            raise ValueError(str(error)) from None

    def scores(
        self, model: str | None = None, *, stage: str = "final", estimator: str | None = None,
        stream: str | None = None,
    ) -> Scores:  # fmt: skip
        """A model's scores at the end of the run: histogram, curves, reliability, the best threshold.

        Parameters
        ----------
        model, stream
            Must be named if there are several.
        stage
            Which of an instance's predictions is evaluated.
        estimator
            By default `all`, or the first one where that isn't evaluated.

        Returns
        -------
        Scores
            They need `details=["scores"]`, `y_proba` and a positive class.

        Raises
        ------
        ValueError
            For names that nothing has, and where there are no scores: it says why.
        """
        metrics = [one for one in self.messages if isinstance(one, Metrics)]
        return scores_of(metrics, Wanted(model, stage, estimator, stream), self._config)

    def residuals(
        self, model: str | None = None, *, stage: str = "final", estimator: str | None = None,
        stream: str | None = None,
    ) -> Residuals:  # fmt: skip
        """A model's predicted numbers against what came, at the end of the run, by decile.

        Parameters
        ----------
        model, stream
            Must be named if there are several.
        stage
            Which of an instance's predictions is evaluated.
        estimator
            By default `all`, or the first one where that isn't evaluated.

        Returns
        -------
        Residuals
            They need `details=["residuals"]` and ten outcomes.

        Raises
        ------
        ValueError
            For names that nothing has, and where there are no residuals: it says why.
        """
        metrics = [one for one in self.messages if isinstance(one, Metrics)]
        return residuals_of(metrics, Wanted(model, stage, estimator, stream))

    def detectors(
        self, detectors: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = (), *,
        changes: Sequence[Change] = (), inject: str | Sequence[str] = (), tolerance: int = TOLERANCE,
        seeds: int | None = None, block: int | None = None, stream: str | None = None,
        model: str | None = None, segment: str | None = None, stage: str | None = None,
    ) -> Backtest:  # fmt: skip
        """What drift detectors would have said on this past: as `prequential detectors` does it.

        The tables of `evaluate` are read once more, so they must be as they were; the result holds on to
        them, and keeps no outcome. See `docs/reference/detectors.md`.

        Parameters
        ----------
        detectors
            In place of the configured ones, which stay if none is given: `"adwin delta=0.01"`, `"page-hinkley
            window:100/window:1000 delta=0.1 lambda=100"`, dicts as in a configuration, `"all"` for each one
            with its defaults.
        changes
            Known changes: the last outcomes before them, or dicts with `outcome` or `ts`, and maybe `width`,
            `stream`, `model`, `segment`, `stage`.
        inject
            Rises of the error, `"abrupt:0.05@5000"` or `"gradual:0.1@5000+1000"`, in streams made of blocks
            of the past's outcomes; several are in the same streams.
        tolerance
            Outcomes after a change within which an alarm finds it.
        seeds
            Streams that are made of each sequence; None: 100.
        block
            Outcomes in a block; None: by the dependence of neighbouring losses.
        stream, model, segment, stage
            Sequences of these alone.

        Returns
        -------
        Backtest
            It shows itself; `.rows()` and `.table` have it for programs, `.save(path)` writes its plot.

        Raises
        ------
        UsageError
            For detectors, changes and rises that make no sense, and tables that can't be read again or have
            changed; for a result of an `Evaluator`, which keeps no records.
        WorkError
            If there are no such sequences, or no detectors or changes for them.

        Examples
        --------
        >>> import random
        >>> from prequential.evaluation import evaluate
        >>> r = random.Random(1)
        >>> wrong = [r.random() < (0.1 if i < 1500 else 0.5) for i in range(3000)]
        >>> table = {"y_pred": ["UP"] * 3000, "y_true": ["DOWN" if one else "UP" for one in wrong]}
        >>> found = evaluate(table, table).detectors(["adwin", "ddm"], changes=[1500])
        >>> [(row["detector"], row["alarms"], row["found"]) for row in found.rows()[:2]]
        [('adwin error', 1, 1), ('ddm error', 1, 1)]
        """
        rises = [inject] if isinstance(inject, str) else list(inject)
        named = [detectors] if isinstance(detectors, (str, Mapping)) else list(detectors)
        wanted = {"stream": stream, "model": model, "segment": segment, "stage": stage}
        return Looking(self._inputs, self._config, self.summary).backtest(
            named, list(changes), rises, wanted, tolerance=tolerance, seeds=seeds, block=block
        )

    def calibrate(
        self, budget: str | None = None, *, change: float | None = None, outcomes: int = OUTCOMES,
        seed: int = 1, stream: str | None = None,
    ) -> Calibration:  # fmt: skip
        """Thresholds of the configured detectors for a budget of false alarms: as `prequential calibrate`.

        The tables of `evaluate` are read once more, as by `detectors`. See `docs/reference/detectors.md`.

        Parameters
        ----------
        budget
            False alarms of a stream that are accepted, such as `"1 per 30d"`; None: its `alarm_budget`, or
            else 1 per 30d.
        change
            Rise of the mean loss whose delay is reported; None: the stream's `alarm_change`.
        outcomes
            How many are made of each sequence: the more, the surer.
        seed
            Of random numbers.
        stream
            Sequences of this stream alone.

        Returns
        -------
        Calibration
            It shows itself; `.rows()` and `.table` have it for programs, `.config` goes to `evaluate`, and
            `.text` into a file.

        Raises
        ------
        UsageError
            For a budget or numbers that make no sense, and as `detectors` does.
        WorkError
            If no threshold was found: it says why.
        """
        return Looking(self._inputs, self._config, self.summary).calibrate(
            budget, change, outcomes, seed, stream
        )

    def report(self, path: str | os.PathLike[str], title: str = "") -> int:
        """Write a report as one HTML file that needs nothing else.

        Parameters
        ----------
        path
            Where to; a file that is there is replaced.
        title
            By default the names of the streams.

        Returns
        -------
        int
            The file's size in bytes.

        Raises
        ------
        OSError
            If the file can't be written.
        """
        streams = ", ".join(dict.fromkeys(one.stream for one in self.summary.outcomes))
        report = Report(title or streams, self._config)
        for message in (*self.messages, *self._latest()):
            report.put(message)
        report.findings += [finding_in_words(one) for one in self.summary.findings]
        return Path(path).write_bytes(report.html())

    def __repr__(self) -> str:
        return text_of(partial(show, self.summary, more=IN_PYTHON))

    def _repr_html_(self) -> str:
        return page_of(self.summary)

    def _segments(self) -> str:
        found = {one.segment for one in self.messages if isinstance(one, Metrics) and one.segment is not None}
        return ", ".join(sorted(found)) or "none"

    def _table(self, kind: Any) -> Any:
        return table_of([one for one in self.messages if isinstance(one, kind)], kind)

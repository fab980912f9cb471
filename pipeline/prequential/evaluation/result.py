"""The result of an evaluation: tables of its messages, a summary to read, a report to share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import stage_name
from prequential.evaluation.best import table_of_best_models
from prequential.evaluation.inputs import Inputs
from prequential.evaluation.looking_back import Backtest, Calibration, Change, Looking, several
from prequential.evaluation.message_tables import GroupRow, explanation_of, rows_of_groups, table_of
from prequential.evaluation.plots import plot_of, times_of
from prequential.evaluation.scores import Residuals, Scores, residuals_of, scores_of
from prequential.evaluation.shown import Table, page_of, pandas_of, text_of, with_short_errors
from prequential.evaluation.values import (
    MeasureTable,
    PeriodTable,
    Wanted,
    measures_of,
    periods_of,
    sequences_of,
)
from prequential.offline.backtesting.making import TOLERANCE
from prequential.offline.calibration.calibrating import OUTCOMES
from prequential.offline.replay.summary import Summary
from prequential.offline.replay.text import IN_PYTHON, finding_in_words, show, shown_estimators
from prequential.topics.decoding import KINDS
from prequential.topics.disparities import Disparity
from prequential.topics.errors import listed
from prequential.topics.outputs import Alarm, Comparison, DeadLetter, Incident, Message, Metrics
from prequential.views.report import Report, parse_condition
from prequential.views.svg import Plot
from prequential.views.wording.comparing import referred
from prequential.views.wording.measures import COLUMNS


class Result:
    """The result of an evaluation; `evaluate` and `Evaluator.result` return it.

    `metrics`, `comparisons`, `disparities`, `alarms` and `incidents` are Arrow tables (`.to_pandas()`,
    `polars.from_arrow(…)`). They have a row for each message that `replay` would have written, identical bit
    for bit. Measures and entries of objects are columns, and durations are of Arrow's and pandas' type.
    These tables need pyarrow, and raise UsageError without it; all other attributes work without it. A
    notebook displays a result as HTML; elsewhere `print` shows the same as text.

    Attributes
    ----------
    messages
        All messages in order, as structs of `prequential.topics.outputs`.
    summary
        How many records were used and dropped, and the models' measures (see `replay --summary`).

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
        self.messages: Sequence[Message] = outputs
        self.summary = summary
        self._config = config
        self._inputs = inputs
        #: Returns messages about the current state, if the newest ones in `outputs` are older.
        self._latest = latest

    @cached_property
    def all_messages(self) -> Sequence[Message]:
        """`messages`, and for an `Evaluator` those about its state at this time, as at the end of a run."""
        return [*self.messages, *self._latest()]

    @cached_property
    def metrics(self) -> Any:
        """Measures over time: an Arrow table, with a row for each message of a sequence and estimator.

        Columns are the fields of `prequential.topics.outputs.Metrics`, with a column for each measure. `ts`
        is a timestamp in ms (UTC), or the number of a row if records had no times.
        """
        return self._table(Metrics)

    @cached_property
    def comparisons(self) -> Any:
        """Comparisons of pairs of models over time: an Arrow table, with a row for each message.

        Columns are the fields of `prequential.topics.outputs.Comparison`, with a column for each measure.
        """
        return self._table(Comparison)

    @cached_property
    def disparities(self) -> Any:
        """Disparity between segments over time: an Arrow table, with a row for each message and group.

        Columns are the fields of `prequential.topics.disparities.Disparity`. Those of the group are `group`,
        `n`, `group_value`, `group_difference`, `interval_low` and `interval_high`; `difference_low` and
        `difference_high` are the interval of `difference`.

        Examples
        --------
        >>> from prequential.evaluation import evaluate
        >>> segments = [{"region": region} for region in ("north", "south") * 32]
        >>> table = {"y_pred": [1, 1, 0, 1] * 16, "y_true": [1, 0, 0, 1] * 16, "segments": segments}
        >>> groups = evaluate(table, disparity={"segments": ["region"], "measures": ["error"]}).disparities
        >>> groups.select(["group", "n", "group_value", "verdict"]).to_pylist()[-1]
        {'group': 'south', 'n': 32, 'group_value': 0.5, 'verdict': 'too_few'}
        """
        rows = rows_of_groups(message for message in self.all_messages if isinstance(message, Disparity))
        return table_of(list(rows), GroupRow)

    @cached_property
    def alarms(self) -> Any:
        """Drift alarms: an Arrow table with the fields of `prequential.topics.outputs.Alarm`."""
        return self._table(Alarm)

    @cached_property
    def incidents(self) -> Any:
        """Incidents: an Arrow table, with a row for each incident, from its newest message.

        Levels, places and causes have separate columns (`before_level`, `change_point_outcome`, `cause`,
        `cause_share`, …). The messages about each change of an incident are in `messages`.
        """
        return table_of(self.summary.incidents, Incident)

    @cached_property
    def dead_letters(self) -> list[dict[str, Any]]:
        """Invalid records: `input`, `number` in order of time from 0, and `reason` of each."""
        letters = [message for message in self.messages if isinstance(message, DeadLetter)]
        return [
            {"input": KINDS[letter.kind], "number": letter.offset, "reason": letter.reason}
            for letter in letters
        ]

    @property
    def periods(self) -> PeriodTable:
        """Results by day (setting `period="1d"`): labelled share, expected value, interval, final value."""
        return periods_of(self._metrics, self._config.stream)

    def to_pandas(self) -> Any:
        """Return `metrics` as a pandas frame. Raises UsageError if pyarrow or pandas isn't installed."""
        return pandas_of(self.metrics)

    @property
    def references(self) -> list[dict[str, Any]]:
        """Measures at the end, compared with those of the reference (`evaluate(…, reference=1000)`).

        There is a dict for each model, estimator and measure. It has `stream`, `model`, `stage`, `estimator`,
        `measure`, `outcomes` of the reference, its value (`reference`), `now`, and `difference`. The 95%
        `interval` of the difference is None while the estimator contains outcomes of the reference.
        """
        return [
            {
                "stream": sequence.stream,
                "model": sequence.model,
                "stage": sequence.stage,
                "estimator": name,
                **row._asdict(),
            }
            for sequence in self.summary.sequences
            for name, reference in (sequence.reference or {}).items()
            for row in referred(reference)
        ]

    @with_short_errors
    def measures(
        self, measure: str | None = None, *, stage: str = "final", estimator: str | None = None,
        stream: str | None = None,
    ) -> MeasureTable:  # fmt: skip
        """Return one measure of each model at the end of the run, or all measures.

        Parameters
        ----------
        measure
            The name of the measure, such as `kappa`; None: all.
        stage
            Which of an instance's predictions is evaluated.
        estimator
            By default `all`, or the first estimator if `all` isn't configured; `window:1000` gives the latest
            outcomes.
        stream
            The name of the stream; None: all streams.

        Returns
        -------
        MeasureTable
            A table with a row for each model and a column for each measure. It is also read like a dict by
            model, or by stream and model if there are several streams. Values are those of `measure`, None
            if it is undefined, or without `measure` dicts of all measures.

        Raises
        ------
        ValueError
            If a name is unknown.

        Examples
        --------
        >>> from prequential.evaluation import evaluate
        >>> table = {"y_pred": ["UP", "UP", "DOWN"], "y_true": ["UP", "DOWN", "DOWN"], "model": ["nb"] * 3}
        >>> result = evaluate(table, table, estimators=["all"], measures=["accuracy", "kappa"])
        >>> result.measures("accuracy")["nb"]
        0.6666666666666666
        >>> result.measures()["nb"]["kappa"]
        0.4
        >>> result.measures("accuracy", estimator="all").to_pandas()
          model estimator  n  outcomes  accuracy
        0    nb       all  3         3  0.666667
        """
        chosen = sequences_of(self.summary.sequences, stage, estimator, stream)
        return measures_of(chosen, measure, self._config)

    @with_short_errors
    def best_models(
        self, *, stage: str = "final", loss: str | None = None, stream: str | None = None,
        segment: str | None = None,
    ) -> Table:  # fmt: skip
        """Return which models may be the best, by the verdicts of all pairs over the whole run.

        The best model is among them with a probability of at least 1 - `compare_level`, at any number of
        looks. See `docs/understand/repeated-looks.md`, also for the sources.

        Parameters
        ----------
        stage, stream, segment
            As in `measures` and `plot`: streams are all or one, and a segment is `key=value`.
        loss
            One of `compare_losses`; None: all.

        Returns
        -------
        Table
            A row for each model that is compared with another one: `in_set`, whether it may be the best. For
            others, `left_at` is the outcome of the pair at which the earliest verdict against it began, and
            `better` names the better models, with commas between them. Rows of models in the set come first.

        Raises
        ------
        ValueError
            If no two models are compared in this stage, by this loss or in this segment.

        Examples
        --------
        >>> from prequential.evaluation import evaluate
        >>> labels = {"instance_id": range(200), "ts": range(200), "y_true": ["UP", "DOWN"] * 100}
        >>> predictions = [
        ...     {"model": model, "instance_id": row, "ts": row, "y_pred": "UP" if name == "up" else truth}
        ...     for row, truth in enumerate(labels["y_true"])
        ...     for model, name in (("nb", "true"), ("tree", "true"), ("constant", "up"))
        ... ]
        >>> best = evaluate(predictions, labels, cluster="off", estimators=["all"]).best_models()
        >>> [(row["model"], row["in_set"], row["left_at"], row["better"]) for row in best.rows()]
        [('nb', True, None, ''), ('tree', True, None, ''), ('constant', False, 104, 'nb, tree')]
        """
        return table_of_best_models(
            (message for message in self.all_messages if isinstance(message, Comparison)),
            self.summary, stage_name(stage), loss, stream, segment,
        )  # fmt: skip

    @with_short_errors
    def plot(
        self, measure: str | None = None, *, stage: str = "final", estimator: str | None = None,
        stream: str | None = None, segment: str | None = None,
    ) -> Plot:  # fmt: skip
        """Plot a measure over time, with a line for each model and incidents behind: SVG for a notebook.

        Each message gives a point. A line with few points is drawn as separate points.

        Parameters
        ----------
        measure
            The name of the measure, such as `kappa`; None: the first one of the stream's task.
        stage, stream
            As in `measures`. The stream is required if there are several.
        estimator
            By default the estimator of the latest outcomes (`window:1000`), or the first one.
        segment
            `key=value`; None: the stream as a whole.

        Returns
        -------
        Plot
            `.save(path)` writes it to a file.

        Raises
        ------
        ValueError
            If a name is unknown, or there are several streams and none is named.

        Examples
        --------
        >>> from prequential.evaluation import evaluate
        >>> table = {"y_pred": ["UP", "UP", "DOWN"], "y_true": ["UP", "DOWN", "DOWN"], "model": ["nb"] * 3}
        >>> plot = evaluate(table, table, estimators=["all"]).plot("accuracy")
        >>> plot.title, [line.name for line in plot.lines if not line.faint]
        ('accuracy, final, all', ['nb'])
        """
        stage = stage_name(stage)
        if measure is None:
            task = next(
                (sequence.task for sequence in self.summary.sequences if stream in (None, sequence.stream)),
                None,
            )
            if task is None:
                raise ValueError("no model has a sequence to plot")
            measure = COLUMNS[task][0]
        if estimator is None:
            named = next(
                (sequence for sequence in self.summary.sequences if stream in (None, sequence.stream)), None
            )
            estimator = None if named is None else shown_estimators(named.measures)[1]
        streams = dict.fromkeys(
            sequence.stream for sequence in self.summary.sequences if stream in (None, sequence.stream)
        )
        if len(streams) > 1:
            raise ValueError(f"there are several streams: expected stream to be one of {listed(streams)}")
        by_model = self.measures(measure, stage=stage, estimator=estimator, stream=stream)
        if all(value is None for value in by_model.values()):
            raise ValueError(f"measure {measure!r} has no value in stage {stage!r}")
        chosen = [
            message for message in self._metrics
            if message.segment == segment and message.estimator == estimator
            and stage in (message.stage, *(message.same or ())) and stream in (None, message.stream)
        ]  # fmt: skip
        if not chosen:
            segments = {message.segment for message in self._metrics if message.segment is not None}
            expected = ", ".join(sorted(segments))
            raise ValueError(f"no message of segment {segment!r}: expected one of {expected or 'none'}")
        incidents = [incident for incident in self.summary.incidents if stream in (None, incident.stream)]
        segment_text = "" if segment is None else f", {segment}"
        return plot_of(chosen, measure, incidents, f"{measure}, {stage}, {estimator}{segment_text}")

    @with_short_errors
    def explain(self, incident: str | int | Incident = 0) -> list[str]:
        """Explain an incident in lines of text, as `prequential explain` does.

        The lines describe its start, its severity, the changes behind it, and other models and baselines at
        the time. They also list noisy detectors, records to inspect, and the incident's alarms.

        Parameters
        ----------
        incident
            The ID of the incident, or its beginning; the number of the incident in the order of opening, from
            0 (-1: the newest); or the incident itself.

        Returns
        -------
        list of str
            Lines of a text, without line ends.

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
        'how bad       35 wrong in 100, before 9: 3.8 times as many (expected to last)'
        """
        return explanation_of(self.messages, incident)

    @with_short_errors
    def scores(
        self, model: str | None = None, *, stage: str = "final", estimator: str | None = None,
        stream: str | None = None,
    ) -> Scores:  # fmt: skip
        """Return a model's scores at the end of the run: histogram, curves, reliability, the best threshold.

        `model` and `stream` are required if there are several. The other arguments are those of `measures`.

        Returns
        -------
        Scores
            They need `details=["scores"]`, `y_proba` and a positive class.

        Raises
        ------
        ValueError
            If a name is unknown, or there are no scores; the error gives the reason.
        """
        return scores_of(self._metrics, Wanted(model, stage_name(stage), estimator, stream), self._config)

    @with_short_errors
    def residuals(
        self, model: str | None = None, *, stage: str = "final", estimator: str | None = None,
        stream: str | None = None,
    ) -> Residuals:  # fmt: skip
        """Return a model's predicted numbers compared with labels at the end of the run, by decile.

        The arguments are those of `scores`.

        Returns
        -------
        Residuals
            They need `details=["residuals"]` and ten outcomes.

        Raises
        ------
        ValueError
            If a name is unknown, or there are no residuals; the error gives the reason.
        """
        return residuals_of(self._metrics, Wanted(model, stage_name(stage), estimator, stream))

    @with_short_errors
    def detectors(
        self, detectors: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = (), *,
        changes: Sequence[Change] = (), inject: str | Sequence[str] = (), tolerance: int = TOLERANCE,
        seeds: int | None = None, block: int | None = None, stream: str | None = None,
        model: str | None = None, segment: str | None = None, stage: str | None = None,
    ) -> Backtest:  # fmt: skip
        """Run drift detectors on this past, as `prequential detectors` does.

        The tables of `evaluate` are read again, so they must not have changed. The result keeps references to
        the tables, and no outcomes. See `docs/reference/detectors.md`.

        Parameters
        ----------
        detectors
            Detectors that replace the configured ones: `"adwin delta=0.01"`, `"page-hinkley
            window:100/window:1000 delta=0.1 lambda=100"`, dicts as in a configuration, or `"all"` for every
            detector with its defaults. Without any, the configured detectors run.
        changes
            Known changes: for each, the last outcome before the change, or a dict. A dict has `outcome` or
            `ts`, and optionally `width`, `stream`, `model`, `segment`, `stage`.
        inject
            Rises of the error, `"abrupt:0.05@5000"` or `"gradual:0.1@5000+1000"`, in streams made from blocks
            of the past's outcomes. Several rises are injected into the same streams.
        tolerance
            Outcomes after a change within which an alarm finds it.
        seeds
            Streams that are made from each sequence; None: 100.
        block
            Outcomes in a block; None: computed from the dependence of neighbouring losses.
        stream, model, segment, stage
            Restrict the backtest to the sequences with these values.

        Returns
        -------
        Backtest
            `print` or a notebook displays it. `.rows()` and `.table` are for programs; `.save(path)` writes
            its plot.

        Raises
        ------
        UsageError
            If detectors, changes or rises are invalid, or the tables can't be read again or have changed.
            Also for a result of an `Evaluator`, which keeps no records.
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
        wanted = {"stream": stream, "model": model, "segment": segment,
                  "stage": None if stage is None else stage_name(stage)}  # fmt: skip
        return Looking(self._inputs, self._config, self.summary).backtest(
            several(detectors),
            several(changes),
            several(inject),
            wanted,
            tolerance=tolerance,
            seeds=seeds,
            block=block,
        )

    @with_short_errors
    def calibrate(
        self, budget: str | None = None, *, change: float | None = None, outcomes: int = OUTCOMES,
        seed: int = 1, stream: str | None = None,
    ) -> Calibration:  # fmt: skip
        """Find thresholds of the configured detectors for a budget of false alarms (`prequential calibrate`).

        The tables of `evaluate` are read again, as by `detectors`. See `docs/reference/detectors.md`.

        Parameters
        ----------
        budget
            The accepted false alarms of a stream, such as `"1 per 30d"`; None: its `alarm_budget`, or else
            1 per 30d.
        change
            Rise of the mean loss whose delay is reported; None: the stream's `alarm_change`.
        outcomes
            How many outcomes are generated from each sequence; more give better precision.
        seed
            The seed of random numbers.
        stream
            Restrict the calibration to the sequences of this stream.

        Returns
        -------
        Calibration
            `print` or a notebook displays it. `.rows()` and `.table` are for programs; pass `.config` to
            `evaluate`, or write `.text` to a file.

        Raises
        ------
        UsageError
            If the budget or a number is invalid, and as `detectors` does.
        WorkError
            If no threshold was found; the error gives the reasons.
        """
        return Looking(self._inputs, self._config, self.summary).calibrate(
            budget, change, outcomes, seed, stream
        )

    @with_short_errors
    def report(self, path: str | os.PathLike[str], title: str = "", *, fail_if: Sequence[str] = ()) -> int:
        """Write a report as one self-contained HTML file.

        Parameters
        ----------
        path
            The path of the file; an existing file is replaced.
        title
            By default the names of the streams.
        fail_if
            Conditions as of `prequential report --fail-if`, such as `"accuracy < 0.9"`: the report's gate
            lists each with its answer, next to its own checks.

        Returns
        -------
        int
            The file's size in bytes.

        Raises
        ------
        OSError
            If the file can't be written.
        UsageError
            If a condition is invalid.
        """
        return Path(path).write_bytes(self._report(title, fail_if).html())

    def dict(self, *, fail_if: Sequence[str] = ()) -> dict[str, Any]:
        """Return the result as plain values, as the report's first screen has it: for JSON and for checks.

        Parameters
        ----------
        fail_if
            Conditions, as of `report`.

        Returns
        -------
        dict
            `verdict` (for each stream: `sentences`, and `totals` over the whole run), `models` (for each: its
            status and its latest measures), `incidents`, `gate` (its `checks`, and how many are `passed`,
            `failed` and `unknown`), and `findings` as sentences.

        Examples
        --------
        >>> from prequential.evaluation import evaluate
        >>> table = {"y_pred": ["UP", "UP", "DOWN", "UP"], "y_true": ["UP", "DOWN", "DOWN", "UP"]}
        >>> said = evaluate(table, table).dict()
        >>> said["verdict"][0]["totals"][0]["value"], said["models"][0]["model"], said["incidents"]
        (0.75, 'model', [])
        >>> said = evaluate(table, table).dict(fail_if=["accuracy < 0.9"])["gate"]
        >>> said["failed"], said["checks"][0]["sentence"]
        (1, 'default / model, final, all: accuracy 0.75')
        """
        return self._report("", fail_if).values()

    def _report(self, title: str, fail_if: Sequence[str] = ()) -> Report:
        streams = ", ".join(dict.fromkeys(counts.stream for counts in self.summary.outcomes))
        report = Report(title or streams, self._config)
        for message in self.all_messages:
            report.put(message)
        report.findings += [finding_in_words(finding) for finding in self.summary.findings]
        report.conditions = [parse_condition(text) for text in fail_if]
        return report

    def __repr__(self) -> str:
        return text_of(partial(show, self.summary, self._config, more=IN_PYTHON))

    def _repr_html_(self) -> str:
        return page_of(self.summary, self._config, times_of(self._metrics))

    @property
    def _metrics(self) -> list[Metrics]:
        return [message for message in self.all_messages if isinstance(message, Metrics)]

    def _table(self, kind: Any) -> Any:
        return table_of([message for message in self.all_messages if isinstance(message, kind)], kind)

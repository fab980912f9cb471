"""The demo's screen: a live picture for a terminal, plain lines for anything else; and its last lines."""

from __future__ import annotations

from collections.abc import Iterable

from prequential.configuration.settings.durations import shown_duration
from prequential.demo.source import EMIT_OUTCOMES, DemoStream, Feed
from prequential.demo.stream import RATIO
from prequential.demo.worker import Readings
from prequential.offline.replay.text import ModelRow, models_table, number, print_wide, with_courses
from prequential.topics.outputs import Incident
from prequential.views.state.newest import ModelState, NewestMessages, NewestReading, SequenceName
from prequential.views.state.readings import Heading, Notice, Reading
from prequential.views.wording import comparing, comparison_report, measures, status
from prequential.views.wording.console import Console, counted, duration
from rich.console import Group
from rich.table import Table
from rich.text import Text

#: Outcomes that the estimator of how good a model is now looks back at.
LATEST = 1000
RECENT = f"window:{LATEST}"

STAGES = ("initial", "final")


class DemoBoard(NewestMessages):
    """The newest messages about the demo's stream, its alarms by their outcomes, and the models' courses."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        #: By model and stage: recent accuracies, with the numbers of outcomes after which they were.
        self.course: dict[tuple[str, str], list[tuple[int, float]]] = {}
        self.alarms: list[Notice] = []
        self.readings: Readings | None = None
        self.rate = 0.0
        self._read_at = 0.0

    def _noted(
        self, model: ModelState, sequence: SequenceName, newest: NewestReading, heading: Heading
    ) -> None:
        if sequence.estimator != RECENT or (reading := self.reading(newest)) is None:
            return
        if (accuracy := reading.measures.get("accuracy")) is not None:
            course = self.course.setdefault((model.key.model, sequence.stage), [])
            course.append((reading.outcomes, accuracy))

    def _alarmed(self, model: ModelState, alarm: Notice) -> None:
        self.alarms.append(alarm)
        self.alarms.sort(key=lambda raised: raised.outcome)

    def read(self, readings: Readings | None, now: float) -> None:
        """Take a reading of the endpoint in; `now` is in seconds of any clock."""
        if readings is None:
            return
        if self.readings is not None and now > self._read_at:
            self.rate = (readings.records - self.readings.records) / (now - self._read_at)
        self.readings, self._read_at = readings, now

    @property
    def model_names(self) -> list[str]:
        """The models that have metrics, in order of their names."""
        return sorted({key.model for key, model in self.models.items() if model.sequences})

    @property
    def outcomes(self) -> int:
        """Outcomes that all models have had, as far as the messages tell; 0 before the first."""
        newest = [
            newest.outcomes or 0
            for model in self.models.values()
            for sequence, newest in model.sequences.items()
            if sequence.estimator == RECENT
        ]
        return min(newest, default=0)

    def same(self, model: str, stage: str) -> list[str]:
        """Stages of a model that are the same as one up to now."""
        reading = self._reading(model, stage, RECENT)
        return [] if reading is None else list(reading.same)

    def stages(self, model: str) -> list[str]:
        """Those that are shown of a model: not what is the same as another one."""
        same = {same_stage for stage in STAGES for same_stage in self.same(model, stage)}
        return [stage for stage in STAGES if stage not in same]

    def measure(self, model: str, stage: str, estimator: str, name: str) -> float | None:
        """A measure's newest value of a model, a stage and an estimator; None if it has none."""
        reading = self._reading(model, stage, estimator)
        return None if reading is None else reading.measures.get(name)

    def _reading(self, model: str, stage: str, estimator: str) -> Reading | None:
        sequence = SequenceName(None, stage, estimator)
        candidates = (
            state.sequences.get(sequence) for key, state in self.models.items() if key.model == model
        )
        return self.reading(next((newest for newest in candidates if newest is not None), None))

    def accuracy_from(self, model: str, stage: str, outcome: int | None) -> float | None:
        """Accuracy in the first `LATEST` outcomes none of which is before `outcome`; None without them.

        Only messages after so many outcomes count: those of the clock differ from run to run.

        >>> board = DemoBoard("demo")
        >>> board.course["nb", "final"] = [(1700, 0.9), (1790, 0.8), (1800, 0.7)]
        >>> [board.accuracy_from("nb", "final", outcome) for outcome in (701, 702, 802)]
        [0.9, 0.7, None]
        """
        if outcome is None:
            return None
        for after, accuracy in self.course.get((model, stage), []):
            if after % EMIT_OUTCOMES == 0 and after - LATEST + 1 >= outcome:
                return accuracy
        return None

    def count(self, name: str) -> int:
        """One of the newest messages' counts that all models of a stream share."""
        return max(self._counts(name).values(), default=0)

    def total(self, name: str) -> int:
        """One of the newest messages' counts, of all models together."""
        return sum(self._counts(name).values())

    def _counts(self, name: str) -> dict[str, int]:
        counts = dict.fromkeys(self.model_names, 0)
        for key, model in self.models.items():
            for newest in model.sequences.values():
                if (reading := self.reading(newest)) is not None:
                    counts[key.model] = max(counts[key.model], reading.counts.get(name, 0))
        return counts


#: Incidents shown while it runs, the latest: what fits below the table on a screen of 24 lines.
_INCIDENTS = 4

#: Delay in seconds behind the plan of the stream from which on the screen shows it.
_BEHIND = 2.0


def read_snapshot(board: DemoBoard, feed: Feed, console: Console) -> Group:
    """All that is known by now, for rich to draw: progress, the drift, the models' table, incidents."""
    source = feed.source
    lines = filter(None, (progress(board, feed), drift(source)))
    parts: list[Text | Table] = [
        *map(Text, lines),
        table(board, source, console) if board.model_names else Text("waiting for the first labels"),
    ]
    for incident in list(board.incidents)[-_INCIDENTS:]:
        parts += [
            Text(line, style="yellow", no_wrap=True, overflow="ellipsis")
            for line in incident_lines(incident, source)
        ]
    return Group(*parts)


def table(board: DemoBoard, source: DemoStream, console: Console) -> Table:
    """The models: accuracy in the whole run and after the drift, and recent measures."""
    drifts = source.drift is not None
    rows = []
    for model in board.model_names:
        stages = board.stages(model)
        for stage in stages:
            values = [board.measure(model, stage, comparing.WHOLE, "accuracy")]
            if drifts:
                values.append(board.accuracy_from(model, stage, source.drift_outcome))
            values += [
                board.measure(model, stage, RECENT, name) for name in ("accuracy", "kappa", "kappa_per")
            ]
            names = (model if stage == stages[0] else "", measures.marked(stage, board.same(model, stage)))
            course = [accuracy for _, accuracy in board.course.get((model, stage), [])]
            rows.append(ModelRow(names, tuple(values), course, stage == stages[-1]))
    headings = ["accuracy\nwhole run", "accuracy\nlatest", "kappa\nlatest", "kappa_per\nlatest"]
    if drifts:
        headings.insert(1, "accuracy\nat drift")
    at_drift = f"at drift: {LATEST:,} from it on; " if drifts else ""
    return models_table(
        rows, ("model", "stage"), tuple(headings), "accuracy over time" if with_courses(console) else None,
        title=f"after {board.outcomes:,} outcomes; {at_drift}latest: the last {LATEST:,}",
        caption=measures.caption_of_stages(board.same(model, STAGES[-1]) for model in board.model_names)
        + "kappa_per: gain over repeating the latest label known at the prediction; "
        "below 0: a loss",
    )  # fmt: skip


def legend(source: DemoStream) -> list[str]:
    """Return lines that explain the demo's output to a newcomer."""
    return [
        *source.legend,
        "lines that begin with INCIDENT: a lasting worsening of one model, its size and its likely cause",
    ]


def progress(board: DemoBoard, feed: Feed) -> str:
    """How far the stream is and how much has come, in one line of text that a terminal of 80 columns has."""
    source = feed.source
    readings = board.readings
    parts = [
        f"{feed.due_seconds:.0f} s of {source.duration:.0f} s",
        source.position,
        f"{source.instances:,} instances",
        f"{source.labels:,} labels",
    ]
    if feed.behind >= _BEHIND:
        parts.append(f"{feed.behind:.0f} s behind: busy machine")
    elif readings is not None and readings.latency is not None:
        parts += [f"delay {duration(readings.latency * 1000)}", f"{readings.waiting:,} pending"]
    else:
        parts.append(f"{board.rate:,.0f} records/s")
    return ", ".join(filter(None, parts))


def drift(source: DemoStream) -> str:
    """At which instance the drift is, and whether it has come, in one line of text; empty without one."""
    if source.drift is None:
        return ""
    verb = "comes" if source.instances < source.drift else "came"
    return f"the drift {verb} at instance {source.drift:,}"


def recent_lines(board: DemoBoard) -> list[str]:
    """Return the models' recent accuracies as plain text, a line of at most 80 columns for each stage.

    >>> recent_lines(DemoBoard("demo"))
    ['no outcomes yet']
    """
    if not board.model_names:
        return ["no outcomes yet"]
    lines = []
    for stage in STAGES:
        shown = [
            f"{model} {number(value).plain}" for model in board.model_names
            if (value := board.measure(model, stage, RECENT, "accuracy")) is not None
        ]  # fmt: skip
        if shown:
            lines.append(f"{stage} accuracy: {', '.join(shown)}")
    return lines


def incident_lines(incident: Incident, source: DemoStream) -> list[str]:
    """An incident in two lines of text: how bad; since when, which causes, and how many alarms."""
    began, drift = incident.change_point["outcome"], ""
    if source.drift_outcome is not None:
        drift = f" (drift: {source.drift_outcome:,})"
    causes = ", ".join(map(status.cause_in_words, incident.causes[:2]))
    return [
        f"INCIDENT {incident.status}: {incident.model}, {status.levels_in_words(incident)}",
        f"  from outcome {began:,}{drift}: {causes}; {counted(incident.alarm_count, 'alarm')}",
    ]


def signal_name(alarm: Notice) -> str:
    """What was watched, in words where the signal's name is a formula."""
    return "recent/older error" if alarm.signal == RATIO else alarm.signal


def print_lines(lines: Iterable[str], console: Console) -> None:
    """Lines for good, broken between words where they go to a terminal."""
    for line in lines:
        console.print(Text(line), soft_wrap=not console.is_terminal)


def print_table(board: DemoBoard, source: DemoStream, console: Console) -> None:
    """Print the models' table for good, at the end of the run."""
    print_wide(lambda wide: table(board, source, wide), console)


#: What to do after the demo, for a cluster of one's own.
NEXT = (
    "next, with your own Kafka: prequential topics create, then worker, then watch",
    "(all take --bootstrap-servers); send with prequential.topics.producer.StreamProducer",
)


def totals(board: DemoBoard, source: DemoStream) -> list[str]:
    """Return lines about the records, and about the faults that a stream has."""
    behind = source.outcomes - board.outcomes
    waiting, repeated = (board.readings.waiting, board.readings.repeated) if board.readings else (0, 0)
    horizon = shown_duration(source.horizon)
    return [
        f"{source.instances:,} instances, {source.labels:,} labels; "
        f"{source.outcomes:,} outcomes (prediction met label) of each model and stage"
        + (f" (the worker is {behind:,} behind)" if behind >= EMIT_OUTCOMES else ""),
        f"labels: {repeated:,} were repeated, {board.count('revisions'):,} were revised, "
        f"{board.count('late_label'):,} came after {horizon} and were dropped",
        f"predictions: {board.total('expired'):,} got no label within {horizon} and expired, "
        f"{waiting:,} are pending",
    ]


def worth(board: DemoBoard, source: DemoStream) -> list[str]:
    """Return lines about how much better the last predictions are than the first ones."""
    lines = []
    later = []
    for model in source.learning:
        initial, final = (board.measure(model, stage, comparing.WHOLE, "accuracy") for stage in STAGES)
        if initial is not None and final is not None:
            lines.append(
                f"{model}: accuracy {initial:.3f} initial, {final:.3f} final: "
                f"predicting again before the label added {_gain(initial, final)}"
            )
        initial, final = (board.accuracy_from(model, stage, source.drift_outcome) for stage in STAGES)
        if initial is not None and final is not None:
            later.append(f"{_gain(initial, final)} to {model}")
    if later:
        lines.append(f"in the {LATEST:,} outcomes after the drift it added {', '.join(later)}")
    return lines


def compared(board: DemoBoard, source: DemoStream) -> list[str]:
    """Return lines about pairs: which model is better, by how much, by which verdict, and since when."""
    return list(comparison_report.report(board.all_pairs()))


def _gain(initial: float, final: float) -> str:
    return f"{round(final, 3) - round(initial, 3):.3f}"


def detected(board: DemoBoard, source: DemoStream) -> list[str]:
    """Return lines about the drift, if there is one, and the incidents up to the end of the run."""
    lines = [line for incident in board.incidents for line in incident_lines(incident, source)]
    count = f"{counted(len(board.alarms), 'alarm')}, {counted(len(board.incidents), 'incident')}"
    if source.drift is None:
        return [f"{count}{':' if lines else ''}", *lines]
    first = source.drift_outcome
    if first is None:
        line = f"ended before the labels of the drift, which is at instance {source.drift:,}"
    else:
        after = next((alarm for alarm in board.alarms if alarm.outcome >= first), None)
        finding = "no alarm since"
        if after is not None:
            raised_by = f"{after.model} {after.stage}, {signal_name(after)}"
            finding = f"first alarm {after.outcome - first:,} outcomes later: {raised_by}"
        line = f"drift at instance {source.drift:,}, outcome {first:,}; {finding}"
    return [f"{line}; {count}:" if lines else line, *lines]

"""The status of an installation: shards, lag, labels, incidents, models that need attention, and problems.

The words about models are those of the overview, and its statuses decide which model needs attention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from prequential.engine.estimators.naming import is_baseline
from prequential.topics.errors import printable
from prequential.topics.outputs import ALL_PARTITIONS, Incident
from prequential.views.dashboard.overview import Overview
from prequential.views.state.history import History
from prequential.views.state.incidents import OPEN, began
from prequential.views.state.ranking import Choice
from prequential.views.state.statuses import pending
from prequential.views.watching.group import InputProgress, WorkerGroup
from prequential.views.wording import status
from prequential.views.wording.console import clock, counted

#: Pending records of an input partition that are no problem: transaction markers count as records.
_FEW_RECORDS = 10

#: Milliseconds without progress, while records are pending, after which a shard is stuck.
_STUCK_MS = 300_000

#: Marks by which an incident is no problem: no worsening of the model has to be handled.
_SETTLED = ("expected", "false")

#: Lines of each section of the screen.
_LISTED = 8

#: Columns of a section's title.
_TITLE = 11


class Problem(NamedTuple):
    """Something that is wrong: a name for programs, a sentence, and what to do next."""

    kind: str
    sentence: str
    next: str | None = None


class ClusterStatus:
    """The status of an installation at a time `now` (epoch ms).

    A lag of more than `most_lag` (ms) is a problem.
    """

    def __init__(self, group: WorkerGroup, history: History, now: int, most_lag: int) -> None:
        history.workers = None if group.members is None else len(group.members)
        self._group, self._history = group, history
        self._now, self._most_lag = now, most_lag
        self._page = Overview(history, live=True).page(Choice(), now, size=1)
        self.problems = [*self._of_workers(), *self._of_models()]

    def as_json(self) -> dict[str, Any]:
        """Return the status for programs; times are epoch ms, lengths of time are seconds."""
        inputs = self._group.inputs
        return {
            "now": self._now,
            "group": self._group.name,
            "ok": not self.problems,
            "problems": [problem._asdict() for problem in self.problems],
            "workers": None
            if self._group.members is None
            else [
                {"host": member.host, "instance_id": member.instance_id, "partitions": member.partitions}
                for member in self._group.members
            ],
            "shards": [self._shard(partition) for partition in self._partitions()],
            "lag": {
                "records": sum(progress.records for progress in inputs),
                "seconds": max((self._seconds(progress) or 0.0 for progress in inputs), default=0.0),
            },
            "labels": list(self._labels()),
            "incidents": [self._incident(incident) for incident in self._open_incidents()],
            "models": {
                "total": sum(not is_baseline(key.model) for key in self._history.models),
                "need_attention": self._page["needs_total"],
            },
        }

    def lines(self) -> Iterator[str]:
        """Yield the status as lines for people: problems first, then one section after the other."""
        number = len(self.problems)
        state = counted(number, "problem") if number else "nothing is wrong"
        yield f"{clock(self._now)}  group {printable(self._group.name)}: {state}"
        for problem in self.problems[:_LISTED]:
            yield f"  {problem.sentence}"
            if problem.next is not None:
                yield f"    next: {problem.next}"
        if number > _LISTED:
            yield f"  … and {number - _LISTED:,} more"
        for title, lines in (
            ("shards", self._shard_lines()),
            ("labels", self._label_lines()),
            ("incidents", self._incident_lines()),
            ("models", [self._page["heading"]]),
        ):
            for line in lines:
                yield f"{title:<{_TITLE}}{line}"
                title = ""

    # ---- problems

    def _of_workers(self) -> Iterator[Problem]:
        """Yield what is wrong with workers and shards, the most important first."""
        group = self._group
        start = status.NEXT_WITHOUT_WORKER
        if group.members == []:
            if not group.has_run and not self._history.messages:
                yield Problem("never_run", f"no worker of group {group.name!r} has ever run", start)
            else:
                yield Problem("no_worker", f"no worker of group {group.name!r} runs", start)
        for partition in self._partitions():
            inputs = self._inputs(partition)
            if lost := sum(progress.lost for progress in inputs):
                yield Problem(
                    "lost_records",
                    f"shard {partition} lacks {counted(lost, 'record')}, which retention deleted before "
                    "their outputs were published",
                    f"see its worker's log; prequential worker --accept-loss {partition} goes on without "
                    "them",
                )
        yield from self._of_shards()

    def _of_shards(self) -> Iterator[Problem]:
        members = self._group.members
        held = {partition for member in members or () for partition in member.partitions}
        free = [partition for partition in self._partitions() if members and partition not in held]
        if free:
            yield Problem(
                "unassigned",
                f"no worker has {counted(len(free), 'shard')}: {_numbers(free)}",
                "wait until the workers have settled, then check `prequential topics check`",
            )
        for partition in self._partitions():
            if partition in free or members == []:
                continue
            inputs = self._inputs(partition)
            worst = max(inputs, key=lambda progress: self._seconds(progress) or 0.0)
            records, seconds = sum(progress.records for progress in inputs), self._seconds(worst) or 0.0
            published = _published(inputs)
            if max(progress.records for progress in inputs) <= _FEW_RECORDS:
                continue
            if published is not None and self._now - published > _STUCK_MS:
                yield Problem(
                    "stuck",
                    f"shard {partition} has published nothing for {status.age(self._now - published)}, and "
                    f"{counted(records, 'record')} are pending",
                    "check its worker's /ready and log, then restart the worker",
                )
            elif 1000 * seconds > self._most_lag:
                yield Problem(
                    "behind",
                    f"shard {partition} is {status.age(round(1000 * seconds))} behind: "
                    f"{counted(records, 'record')} are pending, most delayed in {worst.topic}",
                    "wait while the number falls; else add workers",
                )

    def _of_models(self) -> Iterator[Problem]:
        """Yield the models that need attention as the overview lists them, without settled incidents."""
        for need in self._page["needs"]:
            need_status = need["status"]
            mark = self._history.marks.newest(need_status["incident"] or "")
            if mark is not None and mark.mark in _SETTLED:
                continue
            others = f" and {need['models'] - 1:,} more models" if need["models"] > 1 else ""
            place = self._place(need["stream"], need["partition"])
            name = f"{printable(need['stream'])}/{printable(need['model'])}{others}{place}"
            yield Problem(
                need_status["kind"],
                f"{name}: {need_status['word']}. {need_status['sentence']}",
                need_status["next"],
            )
        listed = sum(need["models"] for need in self._page["needs"])
        if (more := self._page["needs_total"] - listed) > 0:
            yield Problem("more_models", f"{counted(more, 'further model')} need attention")

    # ---- shards

    def _partitions(self) -> list[int]:
        return sorted({progress.partition for progress in self._group.inputs})

    def _inputs(self, partition: int) -> list[InputProgress]:
        return [progress for progress in self._group.inputs if progress.partition == partition]

    def _seconds(self, progress: InputProgress) -> float | None:
        """Return the age of the oldest pending record; None if it can't be read."""
        if not progress.records:
            return 0.0
        return None if progress.oldest is None else max(0, self._now - progress.oldest) / 1000

    def _worker(self, partition: int) -> str | None:
        members = self._group.members or ()
        return next((member.name for member in members if partition in member.partitions), None)

    def _shard(self, partition: int) -> dict[str, Any]:
        inputs = self._inputs(partition)
        return {
            "partition": partition,
            "worker": self._worker(partition),
            "published_at": _published(inputs),
            "inputs": [
                {
                    "topic": progress.topic,
                    "committed": progress.committed,
                    "end": progress.end,
                    "lag_records": progress.records,
                    "lag_seconds": self._seconds(progress),
                }
                for progress in inputs
            ],
        }

    def _shard_lines(self) -> Iterator[str]:
        shards = [self._shard(partition) for partition in self._partitions()]
        workers = self._group.members
        records = sum(progress.records for progress in self._group.inputs)
        running = "unknown workers" if workers is None else counted(len(workers), "worker")
        yield f"{counted(len(shards), 'shard')}, {running}, lag {counted(records, 'record')}"
        shards.sort(key=lambda shard: -sum(entry["lag_records"] for entry in shard["inputs"]))
        for shard in shards[:_LISTED]:
            lag = ", ".join(_lag_text(entry) for entry in shard["inputs"])
            at = shard["published_at"]
            published = "never published" if at is None else f"published {self._ago(at)}"
            worker = printable(shard["worker"] or "no worker")
            yield f"{shard['partition']}  {worker}  {published}  {lag}"
        if len(shards) > _LISTED:
            yield f"… and {len(shards) - _LISTED:,} more"

    # ---- labels

    def _labels(self) -> Iterator[dict[str, Any]]:
        """Yield each model, except baselines, with the state of its labels."""
        for key, model in sorted(self._history.models.items()):
            if not is_baseline(key.model):
                silence = self._history.silence(model, self._now)
                unlabelled = self._history.unlabelled(model, self._now)
                since = None if unlabelled is None else self._now - unlabelled
                yield {
                    **key._asdict(),
                    "arriving": silence is None and unlabelled is None and bool(model.pace.newest),
                    "newest": model.pace.newest or None,
                    "waiting_since": silence.since if silence is not None else since,
                    "why": None if silence is None else silence.why,
                    "pending": pending(model),
                }

    def _label_lines(self) -> Iterator[str]:
        labels = list(self._labels())
        arriving = [entry for entry in labels if entry["arriving"]]
        waiting = sum(entry["pending"] or 0 for entry in labels)
        if not labels:
            yield "no model has reported yet"
            return
        pending_text = counted(waiting, "prediction")
        yield f"arriving for {len(arriving):,} of {counted(len(labels), 'model')}, {pending_text} pending"
        missing = [entry for entry in labels if not entry["arriving"]]
        for entry in missing[:_LISTED]:
            since = entry["waiting_since"]
            lasted = "no label yet" if since is None else f"no label for {status.age(self._now - since)}"
            why = "" if entry["why"] is None else f": {entry['why']}"
            place = self._place(entry["stream"], entry["partition"])
            yield f"{printable(entry['stream'])}/{printable(entry['model'])}{place}  {lasted}{why}"
        if len(missing) > _LISTED:
            yield f"… and {len(missing) - _LISTED:,} more"

    # ---- incidents

    def _open_incidents(self) -> list[Incident]:
        """Return open incidents, lasting ones first, then the most severe."""
        incidents = [
            incident for incident in self._history.incidents.all() if incident.status == OPEN
        ]  # fmt: skip
        return sorted(incidents, key=lambda incident: incident.grade != "lasting")

    def _incident(self, incident: Incident) -> dict[str, Any]:
        mark = self._history.marks.newest(incident.id)
        return {
            "id": incident.id,
            "stream": incident.stream,
            "model": incident.model,
            "partition": incident.partition,
            "segment": incident.segment,
            "grade": incident.grade if isinstance(incident.grade, str) else None,
            "severity": incident.severity,
            "began": None if incident.untimed else began(incident),
            "outcome": incident.change_point["outcome"],
            "sentence": status.incident_sentence(incident),
            "mark": None if mark is None else mark.mark,
            "next": status.next_step(incident),
        }

    def _incident_lines(self) -> Iterator[str]:
        incidents = self._open_incidents()
        grades = [incident.grade if isinstance(incident.grade, str) else "open" for incident in incidents]
        by_grade = ", ".join(f"{grades.count(grade):,} {grade}" for grade in dict.fromkeys(grades))
        yield f"{len(incidents):,} open{f': {by_grade}' if by_grade else ''}"
        for incident in incidents[:_LISTED]:
            mark = self._history.marks.newest(incident.id)
            marked = "" if mark is None else f" (marked {mark.mark})"
            place = self._place(incident.stream, incident.partition)
            yield f"{status.sentence(incident)}{place}{marked}"
        if len(incidents) > _LISTED:
            yield f"… and {len(incidents) - _LISTED:,} more"

    def _place(self, stream: str, partition: int) -> str:
        """Return the words for a partition, as in the dashboard; none for a stream in one partition."""
        if stream not in self._history.split:
            return ""
        return " (all partitions)" if partition == ALL_PARTITIONS else f" (partition {partition} alone)"

    def _ago(self, ms: int) -> str:
        return f"{status.age(max(0, self._now - ms))} ago"


def _published(inputs: Iterable[InputProgress]) -> int | None:
    return max((entry.published_at for entry in inputs if entry.published_at is not None), default=None)


def _lag_text(entry: dict[str, Any]) -> str:
    seconds = entry["lag_seconds"]
    records = entry["lag_records"]
    age = "" if not records or seconds is None else f" ({status.age(round(1000 * seconds))})"
    return f"{entry['topic']} {records:,}{age}"


def _numbers(partitions: list[int]) -> str:
    shown = ", ".join(map(str, partitions[:_LISTED]))
    return shown + (" …" if len(partitions) > _LISTED else "")

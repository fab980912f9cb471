"""The whole system on one real cluster, as the Helm chart deploys it: does all of it work together?

`PREQUENTIAL_TESTS=large python -m tests.evidence.cluster --minutes 60 --out FOLDER`

Apache Kafka on three nodes, which wants TLS and SCRAM and lets users do what their ACLs say; two workers,
`ingest`, `notify` and the dashboard, each as a user of its own with the ACLs of the chart's KafkaUser and
nothing else; Prometheus with the chart's rules and an Alertmanager with the configuration in deploy/; a
Chromium that looks at the dashboard. Configuration, ACLs, topics, command lines and rules are read from what
the chart renders.

Four streams of two models come by themselves, one more through `ingest`, labels late; each drifts now and
then; past half of the time a record of an input and one of a source can't be used. At the end each label must
have its outcome, a replay must say what was published, the alerts that fired must be those that should, and
no secret may stand in anything that was written, answered or sent.

The folder gets `cluster.json` with the verdicts, `pods/` with configuration and log of each process, `kafka/`
with the brokers' logs, `pictures/` of the dashboard, `requests.jsonl` with what was posted, and what
Prometheus and the Alertmanager have kept. Below ten minutes these two have short intervals.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from prequential.runtime.compilation import compile_loops
from prequential.topics.errors import WorkError

from tests.bench.live import Feeder, Load, name_of
from tests.notify.notifying import Receiver
from tests.secured import chart, verdicts
from tests.secured.acls import Acl
from tests.secured.components import Component, Secrets, deployed
from tests.secured.looking import Viewer, viewing
from tests.secured.monitoring import Monitoring, monitoring
from tests.secured.nodes import Secured, secured
from tests.secured.scoring import Scores
from tests.secured.verdicts import Verdict
from tests.worker.processes import await_ready, eventually

#: Records a second: of the streams that come by themselves; and instances of the one through `ingest`.
_PACE, _SCORES = 120.0, 12.0

#: The stream through `ingest`, and its models.
_STREAM, _MODELS = "elec2", ("nb", "tree")

#: Below so many minutes nobody waits for intervals, late labels and long drifts.
_LONG_MINUTES: Final = 10.0

#: Seconds that are waited for the end of everything: labels, outcomes, webhooks, alerts.
_PATIENCE: Final = 300.0

#: Principals beside the chart's, and what docs/reference/topics.md lets them do.
_PRODUCER, _REPLAYER = "producer", "replayer"


class Run:
    """What is there once all runs."""

    def __init__(self, out: Path, minutes: float) -> None:
        self.out, self.minutes = out, minutes
        self.short = minutes < _LONG_MINUTES
        self.settings = chart.settings()
        self.prefix = self.settings["kafka"]["prefix"]
        [self.source] = self.settings["ingest"]
        self.hooks, self.alerts = Receiver(), Receiver()
        self.kafka: Secured
        self.pods: Mapping[str, Component]
        self.monitoring: Monitoring
        self.own: Secrets
        self.facts: dict[str, Any] = {"minutes": minutes}

    @property
    def streams(self) -> set[str]:
        """All of them."""
        return {_STREAM, *map(name_of, range(self.load.streams))}

    @property
    def load(self) -> Load:
        """What comes by itself: a drift of one stream after the other."""
        if self.short:
            return Load(4, regions=0, label_seconds=(1.0, 2.0, 8.0), drift_every=240.0, drift_for=60.0)
        every = self.minutes * 20
        return Load(
            4, regions=0, label_seconds=(2.0, 20.0, 240.0), drift_every=every, drift_for=min(180.0, every / 5)
        )

    @property
    def scores(self) -> tuple[tuple[float, float], tuple[tuple[float, float], ...]]:
        """Of the stream through `ingest`: seconds to the labels, and when it drifts."""
        whole = self.minutes * 60
        drifts = ((whole * 0.4, whole * 0.4 + min(240.0, whole / 5)),)
        return ((2.0, 8.0) if self.short else (3.0, 120.0)), drifts

    # ---- the phases

    def prepare(self) -> None:
        """Topics as the chart's KafkaTopics have them, and users."""
        kafka = self.kafka
        kafka.create(one["spec"] for one in chart.of("KafkaTopic"))
        kafka.create([{"topicName": self.source, "partitions": 4, "replicas": 3}])
        for part in chart.parts().values():
            kafka.add_user(part.user, part.acls)
        inputs = [self.prefix + kind for kind in ("instances", "predictions", "labels")]
        kafka.add_user(_PRODUCER, [
            Acl("topic", name, operation)
            for name in (*inputs, self.source) for operation in ("Write", "Describe")
        ])  # fmt: skip
        kafka.add_user(_REPLAYER, [
            *(
                Acl("topic", name, operation)
                for name in (*inputs, f"{self.prefix}prequential-journal")
                for operation in ("Read", "Describe")
            ),
            *(Acl("group", name, "Describe") for name in ("prequential-replay", "prequential-read")),
        ])  # fmt: skip

    def watch(self, viewer: Viewer, feeder: Feeder, scores: Scores) -> None:
        """Let it run for the time, with a look at the dashboard now and then."""
        ends = time.monotonic() + self.minutes * 60
        every = 15.0 if self.short else 120.0
        spoil_at = time.monotonic() + self.minutes * 33
        look_at = time.monotonic() + every
        while (now := time.monotonic()) < ends:
            ended = {pod: one.status for pod, one in self.pods.items() if one.status is not None}
            if ended:
                raise WorkError(f"processes have ended: {ended}")
            if now >= spoil_at:
                scores.spoil()
                spoil_at = float("inf")
            if now >= look_at:
                viewer.look(self.streams)
                look_at = now + every
                self.note(f"{feeder.sent + scores.sent:,} records, {len(self.hooks.requests)} webhooks, "
                          f"alerts {sorted(self.monitoring.fired())}")  # fmt: skip
            time.sleep(0.5)
        viewer.look(self.streams)

    def finish(self, feeder: Feeder, scores: Scores) -> dict[tuple[str, str], int]:
        """Wait for the last labels and their outcomes; returns how many labels each sequence has."""
        feeder.pace(0.0)
        scores.stop()
        time.sleep(self.load.label_seconds[2] + 2)
        wanted = {(_STREAM, model): scores.labelled for model in _MODELS}
        for number, count in enumerate(feeder.labelled):
            wanted |= {(name_of(number), f"m-{model}"): count for model in range(self.load.models)}
        self.facts |= {"records": feeder.sent + scores.sent, "labels": sum(feeder.labelled) + scores.labelled}

        def done() -> bool:
            found = verdicts.outcomes(self.workers)
            return all(found.get(sequence, 0) >= count for sequence, count in wanted.items())

        try:
            eventually("each label has its outcome", done, _PATIENCE)
        except AssertionError as late:
            self.note(str(late))
        return wanted

    @property
    def workers(self) -> list[Component]:
        """The workers' processes."""
        return [one for one in self.pods.values() if one.part.name == "worker"]

    @property
    def parts(self) -> dict[str, list[str]]:
        """Addresses of all that is scraped, by component."""
        found: dict[str, list[str]] = {}
        for one in self.pods.values():
            if one.part.name in chart.monitors():
                found.setdefault(one.part.name, []).append(one.address)
        return found

    def note(self, text: str) -> None:
        """A line for who waits."""
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def run_all(out: Path, minutes: float) -> list[Verdict]:
    """Run it; what is known is written even if a part of it fails."""
    run = Run(out, minutes)
    found: list[Verdict] = []
    for name in ("kafka", "pods", "monitoring"):
        (out / name).mkdir()
    compile_loops(run.note)
    try:
        with ExitStack() as stack:
            hooks = stack.enter_context(run.hooks.serving())
            alerts = stack.enter_context(run.alerts.serving())
            run.own = Secrets(hooks)
            run.kafka = kafka = stack.enter_context(secured(out / "kafka", 3, run.prefix))
            stack.callback(_keep_logs, kafka, out / "kafka")
            run.note(f"{kafka.cluster.name} is ready")
            run.prepare()
            run.pods = stack.enter_context(deployed(out / "pods", kafka, run.own))
            await_ready(*run.pods.values(), seconds=_PATIENCE)
            run.note("all components are ready")
            (out / "kafka" / "passwords" / "token").write_text(run.own.token)
            run.monitoring = stack.enter_context(
                monitoring(
                    out / "monitoring", run.parts, out / "kafka" / "passwords" / "token", alerts,
                    short=run.short,
                )
            )  # fmt: skip
            producer = kafka.client_of(_PRODUCER)
            seconds, drifts = run.scores
            with viewing(
                f"http://{run.pods['prequential-dashboard-0'].address}/", run.own.token, out / "pictures"
            ) as viewer, Feeder(producer, run.load) as feeder:
                scores = Scores(producer, run.source, _STREAM, _MODELS, _SCORES, seconds, drifts)
                scores.start()
                feeder.pace(_PACE)
                run.watch(viewer, feeder, scores)
                wanted = run.finish(feeder, scores)
            found += _judged(run, viewer, wanted)
    finally:
        (out / "requests.jsonl").write_text("".join(_lines(run)))
        for folder in (*out.glob("pods/*/secrets"), out / "kafka" / "passwords"):
            shutil.rmtree(folder, ignore_errors=True)
        (out / "cluster.json").write_text(
            json.dumps({**run.facts, "verdicts": [one._asdict() for one in found]}, indent=1) + "\n"
        )
    return found


def _judged(run: Run, viewer: Viewer, wanted: Mapping[tuple[str, str], int]) -> list[Verdict]:
    """All verdicts; one that fails on the way is broken, and the others are still given."""
    receivers = {"notify": run.hooks, "alertmanager": run.alerts}
    asked: list[tuple[str, Callable[[], Verdict]]] = [
        ("each label has its outcome", lambda: verdicts.complete(run.workers, wanted)),
        ("no process has ended", lambda: verdicts.alive(run.pods)),
        ("the dashboard shows all streams", lambda: verdicts.shown(viewer, run.streams)),
        ("alerts", lambda: verdicts.alerts(run.monitoring, run.alerts)),
        ("webhooks are signed", lambda: verdicts.signed(run.hooks, run.own, run.kafka)),
        ("replay", lambda: verdicts.replayed(run.kafka, _REPLAYER, run.out)),
        ("each user's ACLs", lambda: verdicts.least(run.kafka)),
        ("secrets", lambda: verdicts.secret(
            run.kafka, run.own, run.pods, run.monitoring, run.out, receivers
        )),
    ]  # fmt: skip
    found = []
    for bar, ask in asked:
        run.note(f"verdict: {bar}")
        try:
            found.append(ask())
        except (AssertionError, WorkError, OSError) as error:
            found.append(Verdict(bar, False, str(error)[:2000]))
    return found


def _keep_logs(kafka: Secured, folder: Path) -> None:
    for number, node in enumerate(kafka.cluster.nodes, 1):
        if node.log.exists():
            shutil.copyfile(node.log, folder / f"node-{number}.log")


def _lines(run: Run) -> list[str]:
    """What was posted."""
    return [
        json.dumps({
            "to": name, "headers": {key: one.headers[key] for key in one.headers if key != "authorization"},
            "content": one.content.decode(),
        }) + "\n"
        for name, receiver in (("notify", run.hooks), ("alertmanager", run.alerts))
        for one in receiver.requests
    ]


def main() -> None:
    """Run it, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="(default: 60)")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="must not exist")
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    found = run_all(args.out.resolve(), args.minutes)
    for one in found:
        print(f"{'kept  ' if one.kept else 'BROKEN'} {one.bar}: {one.found}")
    sys.exit(0 if found and all(one.kept for one in found) else 1)


if __name__ == "__main__":
    main()

"""An hour of load on a real broker and real workers: is memory flat, is lag bounded, are metrics in time?

`python -m tests.evidence.soak --minutes 60 --out FOLDER [--overload]`

2,000 streams of two models with probabilities, in three segments (`--regions`), with comparisons, two
Page-Hinkley tests and ADWIN, incidents, periods with what is expected of them, and snapshots; each stream
drifts from time to time. First each stream gets 2,400 outcomes, so that windows and histories are full soon,
and the workers (`--workers`) are replaced by others that begin with what is there. Then the capacity is
measured: how many records a second they take while more come than that, with everything else on the same
machine. Half of that comes for the given time. With `--overload`, twice the capacity follows for five
minutes, and then a tenth of it, until all is caught up. At the end each label that was sent must have its
outcome.

The folder gets `soak.csv`, a line a second, `soak.svg`, `soak.json` with the verdicts, and the workers' logs.
Delays are those of 200 streams' metrics messages since they were due: since the label (LogAppendTime: the
broker's clock) that made a thousand outcomes, or the multiple of ten seconds after the last label in them.
*Published* is the time that its producer, a worker, gave it when it was sent; *seen* is when a reader of
committed messages had it. All is on one machine, and so on one clock.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import topic_specs
from prequential.views.svg import Plot, lines_by_outcome, stacked

from tests.bench.live import Feeder, Load, name_of
from tests.bench.observer import Observer
from tests.bench.running import Running, Sample, broker_pid, keep_outputs_short
from tests.brokers import launch
from tests.worker.processes import WorkerProcess, await_ready, eventually, write_config

#: Streams whose messages' delays are measured.
_OBSERVED: Final = 200

#: The bars: spread of memory after the warm-up, seconds of lag, and of the 99th percentile of delays.
_FLAT, _LAG_SECONDS, _P99_SECONDS = 0.02, 10.0, 1.0

#: Share of the time that counts as warm-up.
_WARM_UP: Final = 0.25

#: The time after the warm-up is divided into so many parts, whose median memory is compared.
_PARTS: Final = 10

#: Records a second while streams are filled: many, so that few messages come of each.
_FILL_PACE: Final = 50_000.0

#: Records a second that the search for the capacity begins with; seconds of its steps, and of their ends that
#: are looked at.
_FIRST_PACE, _STEP_SECONDS, _LOOK_SECONDS = 1_000.0, 30, 15

#: Lag, in seconds of records, from which on a worker has fallen behind: an order of which nothing has come is
#: settled two seconds after the last one.
_BEHIND: Final = 4.0

#: Top of the plot of delays, s: what the overload has is far beyond.
_HIGH: Final = 5.0

#: Seconds that catching up may take at most.
_PATIENCE: Final = 1_800.0

#: Share of the capacity that still comes while the worker catches up after the overload.
_TRICKLE: Final = 0.1

#: Seconds between two scrapes of `/metrics`, and what they show: all that 2,000 streams have to say is more
#: than Prometheus should read.
_SCRAPE_SECONDS: Final = 60.0
_SHOWN: Final[dict[str, Any]] = {
    "measures": ["accuracy", "kappa"], "stages": ["final"], "estimators": ["window:1000"], "segments": False,
}  # fmt: skip

#: Settings of streams. What grows with time comes to rest within the warm-up: what is settled or expired is
#: forgotten, and each stream has drifted. (Histories for incidents are full after 430 outcomes, windows of
#: three segments after 3,000: `--fill`.)
STREAMS: Final[dict[str, Any]] = {
    "segments": ["region"],
    "label_horizon": "2m",
    "settle": "30s",
    "period": "5m",
    "detectors": [
        {"detector": "page-hinkley", "signal": "error"},
        {"detector": "page-hinkley", "signal": "fading:0.997/fading:0.9994", "delta": 0.1, "lambda": 100},
        {"detector": "adwin", "signal": "error"},
    ],
}


class Verdict(NamedTuple):
    """One bar."""

    bar: str
    kept: bool
    found: str


def fill(
    workers: Sequence[WorkerProcess], broker: int, feeder: Feeder, observer: Observer, outcomes: int
) -> None:
    """Give each stream so many outcomes, as fast as it goes."""
    run = Running(workers, broker, feeder, observer)
    wanted = outcomes * feeder.load.streams
    run.go("fill", _FILL_PACE, _PATIENCE, lambda sample: sum(feeder.labelled) >= wanted)
    run.go("catch up", 0.0, _PATIENCE, lambda sample: sample.lag < _FIRST_PACE)


@contextmanager
def running(count: int, config: Path, out: Path, name: str) -> Iterator[list[WorkerProcess]]:
    """So many workers that are ready, with equal parts of the shards; their logs are kept."""
    with ExitStack() as stack:
        workers = [stack.enter_context(WorkerProcess(config)) for _ in range(count)]
        for number, worker in enumerate(workers):
            log = out / (f"{name}-{number}.log" if number else f"{name}.log")
            stack.callback(lambda worker=worker, log=log: log.write_text(worker.log))
        eventually("each has shards", lambda: all(worker.shards() for worker in workers), 300.0)
        await_ready(*workers, seconds=300.0)
        yield workers


def capacity(run: Running) -> float:
    """Records a second that the workers take while more come than that.

    1. Raise the pace by half until the worker falls behind.
    2. Measure at that pace, which is less than half above what it manages: how many messages come of a record
       depends on how many records a second there are.
    """
    pace = _FIRST_PACE
    while True:  # step 1
        some = run.go("capacity", pace, _STEP_SECONDS)[-_LOOK_SECONDS:]
        arrived = (some[-1].sent - some[0].sent) / (len(some) - 1)
        if some[-1].lag > _BEHIND * pace and progress(some) < 0.95 * arrived:
            break
        pace *= 1.5
    found = progress(run.go("capacity", pace, _STEP_SECONDS))  # step 2
    run.go("catch up", 0.0, _PATIENCE, lambda sample: sample.lag < found)
    return found


def progress(some: Sequence[Sample]) -> float:
    """Records taken a second."""
    return (some[-1].taken - some[0].taken) / (len(some) - 1)


def verdicts(run: Running, pace: float) -> list[Verdict]:
    """Of the soak alone."""
    whole = [sample for sample in run.samples if sample.phase == "soak"]
    warm = whole[round(_WARM_UP * len(whole)) :]
    levels = [float(np.median(part)) for part in np.array_split([one.rss_mb for one in warm], _PARTS)]
    spread = max(levels) / min(levels) - 1
    most = max(one.lag for one in warm)
    quarter = len(warm) // 4
    first, last = (median(one.lag for one in part) for part in (warm[:quarter], warm[-quarter:]))
    told = [delay for phase, delay in run.delays if phase == "soak"]
    late = np.array(told[round(_WARM_UP * len(told)) :], float) / 1e3
    (half, published), seen = np.percentile(late[:, 0], (50, 99)), np.percentile(late[:, 1], 99)
    return [
        Verdict(
            f"memory flat within {_FLAT:.0%} after warm-up", spread <= _FLAT,
            f"{spread:.1%}: medians of {_PARTS} parts from {min(levels):.0f} to {max(levels):.0f} MB, "
            f"of the first {levels[0]:.0f}, of the last {levels[-1]:.0f}",
        ),
        Verdict(
            f"lag below {_LAG_SECONDS:g} s of records, and not growing",
            most < _LAG_SECONDS * pace and last < 2 * first + pace,
            f"at most {most / pace:.1f} s of records; median {first / pace:.2f} s in the first quarter, "
            f"{last / pace:.2f} s in the last",
        ),
        Verdict(
            f"p99 of metrics messages since they were due below {_P99_SECONDS:g} s",
            bool(published < _P99_SECONDS),
            f"{published:.2f} s published, {seen:.2f} s seen by a reader; median {half:.2f} s published; "
            f"{len(late):,} messages",
        ),
    ]  # fmt: skip


def complete(run: Running, feeder: Feeder) -> Verdict:
    """Whether each label has its outcome, of each model.

    But for those whose prediction came to Kafka after them: where a broker is busy, a batch of one topic may
    overtake that of another. These are counted as late predictions, and have none.
    """
    run.drain(_PATIENCE)
    labelled = {name_of(stream): count for stream, count in enumerate(feeder.labelled) if count}
    wanted = {
        (stream, f"m-{model}", "final"): count
        for stream, count in labelled.items()
        for model in range(feeder.load.models)
    }
    found, late = run.outcomes()
    wrong = sum(
        wanted.get(key, 0) != found.get(key, 0) + late.get(key[:2], 0) for key in wanted.keys() | found.keys()
    )
    return Verdict(
        "each label has its outcome", not wrong,
        f"{sum(labelled.values()):,} labels, {sum(found.values()):,} outcomes of {feeder.load.models} "
        f"models, {sum(late.values()):,} late predictions; {wrong} of {len(wanted):,} sequences have "
        "another number than labels were sent",
    )  # fmt: skip


def alive(run: Running) -> Verdict:
    """Whether probes of liveness would have let the worker live, in all phases."""
    failed = [phase for what, phase in run.unanswered if what == "/live"]
    scrapes = [phase for what, phase in run.unanswered if what == "/metrics"]
    longest = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in run.longest.items())
    return Verdict(
        "`/live` answers", not failed,
        f"{len(failed)} times not; longest answers: {longest}; {len(scrapes)} scrapes failed "
        f"({', '.join(sorted(set(scrapes))) or 'none'})",
    )  # fmt: skip


def survived(run: Running, found: float) -> Verdict:
    """Of the overload."""
    over = [sample for sample in run.samples if sample.phase == "overload"]
    after = [sample for sample in run.samples if sample.phase == "after overload"]
    peak = max(sample.rss_mb for sample in (*over, *after))
    return Verdict(
        "overload is survived and caught up", after[-1].lag < found,
        f"{max(sample.lag for sample in over):,} records of lag at its end, caught up {len(after)} s later; "
        f"memory at most {peak:.0f} MB",
    )  # fmt: skip


def plot(samples: Sequence[Sample]) -> str:
    """The SVG: seconds from left to right."""

    def curve(of: Callable[[Sample], float]) -> Any:
        return np.array([of(sample) for sample in samples], float)

    phases = [sample.phase for sample in samples]
    changes = [at for at in range(1, len(phases)) if phases[at] != phases[at - 1]]
    rates = np.diff(curve(lambda one: one.taken), prepend=0)
    p99 = curve(lambda one: one.published_p99 / 1e3)
    cpu = {
        "workers": smoothed(curve(lambda one: one.worker_cpu)),
        "broker": smoothed(curve(lambda one: one.broker_cpu)),
    }
    panels = {
        "resident memory of the workers, MB; over seconds": {"": curve(lambda one: one.rss_mb)},
        "records a second": {"asked for": curve(lambda one: one.pace), "taken": smoothed(rates)},
        "lag, records": {"": curve(lambda one: one.lag)},
        "metrics messages, s since they were due: 99th percentile of each second": {
            "published": np.minimum(p99, _HIGH), "limit": np.full(len(p99), _P99_SECONDS)
        },
        "CPU, cores": cpu,
    }  # fmt: skip
    bounds = 0.0, np.inf
    plots = [
        Plot(title, lines_by_outcome(curves), bounds=bounds, axis="seconds", dashed=changes)
        for title, curves in panels.items()
    ]
    return stacked(plots)


def smoothed(curve: Any) -> Any:
    """Means of ten seconds."""
    sums = np.cumsum(np.insert(curve, 0, 0.0))
    ends = np.arange(1, len(curve) + 1)
    starts = np.maximum(0, ends - 10)
    return (sums[ends] - sums[starts]) / (ends - starts)


def soak(args: argparse.Namespace, kafka: KafkaConfig, broker: int) -> list[Verdict]:
    """Run all phases; what is known is written even if one of them fails."""
    out: Path = args.out
    create(kafka, topic_specs(kafka))
    keep_outputs_short(kafka)
    load = Load(
        args.streams, regions=args.regions, probabilities=True,
        drift_every=_WARM_UP * args.minutes * 60, drift_for=args.minutes * 3,
    )  # fmt: skip
    observed = {name_of(stream) for stream in range(0, args.streams, max(1, args.streams // _OBSERVED))}
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    defaults = STREAMS if args.regions else {**STREAMS, "segments": []}
    config = write_config(folder, kafka, defaults=defaults, http=_SHOWN)
    found: list[Verdict] = []
    facts: dict[str, Any] = {
        "streams": args.streams, "regions": args.regions, "minutes": args.minutes, "workers": args.workers,
    }  # fmt: skip
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        observer = Observer(kafka, observed)
        observer.start()
        stack.callback(observer.stop)
        feeder = stack.enter_context(Feeder(kafka, load))
        with running(args.workers, config, out, "fill") as first:
            fill(first, broker, feeder, observer, args.fill)
            for worker in first:
                worker.terminate()
            for worker in first:
                worker.wait(60.0)  # with 1, if its last snapshots take too long: nothing is lost by that
        workers = stack.enter_context(running(args.workers, config, out, "worker"))
        run = Running(
            workers, broker, feeder, observer, file=out / "soak.csv", scrape_every=args.scrape_every,
            probed=True,
        )  # fmt: skip
        try:
            most = args.capacity or capacity(run)
            facts |= {"capacity": most, "pace": most / 2}
            run.go("soak", most / 2, args.minutes * 60)
            found += verdicts(run, most / 2)
            if args.overload:
                run.go("overload", 2 * most, args.overload_minutes * 60)
                run.go("after overload", _TRICKLE * most, _PATIENCE, lambda sample: sample.lag < most)
                found.append(survived(run, most))
            found.append(complete(run, feeder))
            found.append(alive(run))
        finally:
            sizes = [size for _, size in run.scrapes] or [0]
            seconds = [took for took, _ in run.scrapes] or [0.0]
            own = [sample for sample in run.samples if sample.phase == "soak"] or run.samples
            facts |= {
                "worker_cpu": sum(one.worker_cpu for one in own) / max(1, len(own)),
                "broker_cpu": sum(one.broker_cpu for one in own) / max(1, len(own)),
                "messages_per_second": (own[-1].messages - own[0].messages) / max(1, len(own)) if own else 0,
                "scrape_mb": max(sizes) / 1e6, "scrape_seconds": median(seconds),
                "unanswered": run.unanswered, "longest_live_seconds": run.longest,
                "verdicts": [one._asdict() for one in found],
            }  # fmt: skip
            (out / "soak.json").write_text(json.dumps(facts, indent=1) + "\n")
            if run.samples:
                (out / "soak.svg").write_text(plot(run.samples))
    return found


def main() -> None:
    """Run it on a broker of its own, or on one that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="of the soak (default: 60)")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--streams", type=int, default=2_000)
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="of the group (default: 2, as many as cores)"
    )
    parser.add_argument("--regions", type=int, default=3, help="segments of a stream (default: 3; 0: none)")
    parser.add_argument(
        "--fill", type=int, default=2_400, metavar="N", help="outcomes of each stream before (default: 2400)"
    )
    parser.add_argument(
        "--capacity", type=float, metavar="RECORDS", help="a second: it isn't measured, but taken as this"
    )
    parser.add_argument("--overload", action="store_true", help="afterwards, twice the capacity")
    parser.add_argument("--overload-minutes", type=float, default=5.0, metavar="M", help="default: 5")
    parser.add_argument(
        "--scrape-every", type=float, default=_SCRAPE_SECONDS, metavar="S",
        help="seconds between two scrapes of /metrics (default: 60; 0: never)",
    )  # fmt: skip
    parser.add_argument("--bootstrap-servers", metavar="ADDR", help="a cluster that is there")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    prefix = f"soak-{uuid4().hex[:8]}."
    if args.bootstrap_servers:
        found = soak(args, KafkaConfig(args.bootstrap_servers, prefix=prefix), 0)
    else:
        with launch("kafka") as broker:
            print(broker.name, flush=True)
            found = soak(args, broker.config(prefix=prefix), broker_pid(broker))
    for one in found:
        print(f"{'kept  ' if one.kept else 'BROKEN'}  {one.bar}: {one.found}")
    sys.exit(0 if all(one.kept for one in found) else 1)


if __name__ == "__main__":
    main()

"""The verdict about each stream of a finished run: dates, outcomes, the best model, baselines, incidents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prequential.configuration.settings.stages import FINAL
from prequential.engine.estimators.naming import is_baseline
from prequential.topics.errors import printable
from prequential.topics.outputs import Incident
from prequential.views.dashboard.courses import by_stream
from prequential.views.state.best import best_sentences
from prequential.views.state.history import History
from prequential.views.state.incidents import OPEN
from prequential.views.state.newest import SequenceName, StreamPartition
from prequential.views.state.ranking import RankedModel
from prequential.views.state.statuses import is_below_baseline
from prequential.views.state.thresholds import with_area
from prequential.views.wording import comparing, measures, status
from prequential.views.wording.console import counted

#: Streams that have a verdict, the one with the worst model first.
_STREAMS = 8


def worst_first(incidents: Iterable[Incident]) -> list[Incident]:
    """Return incidents in the order of their urgency: open ones first, then by severity."""
    return sorted(incidents, key=lambda incident: (incident.status != OPEN, -incident.severity, incident.id))


def verdict_of(history: History, rows: list[RankedModel]) -> Iterator[dict[str, Any]]:
    """Yield for each stream its name, its totals by model over the whole run, and a verdict in sentences."""
    for stream_partition, own in list(by_stream(rows).items())[:_STREAMS]:
        models = [row for row in own if not is_baseline(row.model.key.model) and row.reading is not None]
        if models:
            totals = [total for row in models if (total := _total(history, row)) is not None]
            yield {
                "stream": stream_partition.stream, "totals": totals,
                "sentences": list(_sentences(history, stream_partition, models, totals)),
                "references": list(_references(models)),
            }  # fmt: skip


def _references(models: list[RankedModel]) -> Iterator[dict[str, Any]]:
    """Yield by model its main measure in the latest outcomes, beside that of the reference's outcomes."""
    for row in models:
        comparison = None if row.reading is None else comparing.main_comparison(row.reading.reference)
        if comparison is not None:
            yield {
                "model": row.model.key.model, "measure": comparison.measure, "outcomes": comparison.outcomes,
                "reference": comparison.reference, "latest": comparison.now,
                "difference": comparison.difference,
                "differs": comparison.differs,
            }  # fmt: skip


def _total(history: History, row: RankedModel) -> dict[str, Any] | None:
    """Return a model's measures over the whole run; None without an estimator that keeps all of it."""
    if row.sequence is None:
        return None
    sequence = SequenceName(None, row.sequence.stage, comparing.WHOLE)
    reading = history.reading(row.model.sequences.get(sequence))
    if reading is None:
        return None
    name = measures.main_measure(reading.measures)
    if name is None:
        return None
    baselines = {
        reference.line.name: reading.measures[reference.measure]
        for reference in measures.baseline_references(name) if reference.measure in reading.measures
        and not reference.one_less
    }  # fmt: skip
    shown = ("precision", "recall", "f1", "auc", "kappa")
    values = with_area(reading)
    more = {measure: values[measure] for measure in shown if measure in values}
    return {
        "model": row.model.key.model, "measure": name, "value": reading.measures[name],
        "outcomes": reading.outcomes, "measures": more, "baselines": baselines,
    }  # fmt: skip


def _sentences(
    history: History,
    stream_partition: StreamPartition,
    models: list[RankedModel],
    totals: list[dict[str, Any]],
) -> Iterator[str]:
    stream = printable(stream_partition.stream)
    outcomes = sorted({row.reading.outcomes for row in models if row.reading is not None})
    outcome_counts = f"{outcomes[-1]:,}" if len(outcomes) == 1 else f"{outcomes[0]:,} to {outcomes[-1]:,}"
    period = "" if models[0].model.untimed else _period(history, models)
    yield f"{stream}{period}: {outcome_counts} outcomes of {counted(len(models), 'model')}."
    accurate = [total for total in totals if total["measure"] == "accuracy"]
    if accurate:
        best = max(accurate, key=lambda total: total["value"])
        share = f"{100 * best['value']:.1f}%"
        name = max(best["baselines"], key=lambda baseline: best["baselines"][baseline], default=None)
        model = printable(best["model"])
        alone = len(accurate) == 1
        often = f"{model} was right" if alone else f"Of the models, {model} was right most often:"
        yield f"{often} in {share} of the whole run."
        if name is not None:
            ahead = ", which is more" if best["baselines"][name] > best["value"] else ""
            yield f"{name[:1].upper()}{name[1:]} was right in {100 * best['baselines'][name]:.1f}%{ahead}."
    below = sum(map(is_below_baseline, models))
    if below:
        are = "is" if below == 1 else "are"
        yield f"{below} of {len(models)} {are} worse than a baseline in the latest outcomes."
    pairs = [
        pair
        for pair in history.pairs(*stream_partition)
        if pair.segment is None and FINAL in (pair.stage, *pair.same)
    ]
    names = {row.model.key.model for row in models}
    of_all = best_sentences(history, stream_partition)
    yield from of_all
    decided = [pair for pair in pairs if pair.is_decided and {pair.model, pair.against} <= names]
    for pair in [] if of_all else decided[:3]:
        better = pair.better(pair.verdict)
        worse = pair.against if better == pair.model else pair.model
        yield f"{printable(str(better))} has a lower {pair.loss} than {printable(worse)} over the whole run."
    alike = [pair for pair in pairs if pair.verdict == comparing.EQUIVALENT]
    alike = [pair for pair in alike if {pair.model, pair.against} <= names]
    for pair in alike[:3]:
        yield f"{printable(pair.model)} and {printable(pair.against)} are equivalent by their {pair.loss}."
    early = [pair for pair in pairs if pair.provisional is not None and {pair.model, pair.against} <= names]
    if early and not of_all:
        yield f"It is too early for {'a verdict' if len(early) == 1 else 'verdicts'} about pairs of models."
    incidents = [incident for row in models for incident in history.incidents.of_model(*row.model.key)]
    at_end = sum(incident.status == OPEN for incident in incidents)
    yield f"{counted(len(incidents), 'incident')}, {at_end or 'none'} open at the end."


def _period(history: History, models: list[RankedModel]) -> str:
    firsts = [past.first for row in models if (past := history.past.get(row.model.key)) and past.first]
    lasts = [row.reading.ts for row in models if row.reading is not None]
    if not firsts or not lasts:
        return ""
    return f", {status.moment(min(firsts))} to {status.moment(max(lasts))}"

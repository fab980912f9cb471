"""Series about what the newest whole period is expected to be, as its last message said it."""

from __future__ import annotations

from collections.abc import Iterable

from prequential.core.catalog.catalog import Catalog
from prequential.core.delay.usual import SIGNALS
from prequential.core.output.messages import Reporter
from prequential.http.exposition import GAUGE, Family, labels

FAMILIES = (
    (
        "expected",
        GAUGE,
        "What a measure of the newest whole period is expected to be in the end",
    ),
    ("expected_low", GAUGE, "Lower end of its interval, which holds in nine of ten periods"),
    ("expected_high", GAUGE, "Its upper end"),
    ("expected_coverage", GAUGE, "Share of former periods whose final value was within their interval"),
    ("expected_miss", GAUGE, "Probability that it will miss its bound in the objective"),
    (
        "expected_signal",
        GAUGE,
        "How unusual whole periods are, in standard deviations: the largest that was said last of a maturity",
    ),
)


def add(families: dict[str, Family], catalog: Catalog, reporter: Reporter, streams: Iterable[int]) -> None:
    """Add the samples of these streams' models."""
    newest, signals = reporter.expectations.newest, reporter.expectations.signals
    for stream in map(catalog.streams.__getitem__, streams):
        for model, row in stream.models.items():
            if row not in newest:
                continue
            where = labels(stream=stream.name, partition=catalog.partition, model=model)
            for name, expected in newest[row].measures.items():
                with_measure = f'{where},measure="{name}"'
                families["expected"].add(with_measure, expected["value"])
                if expected["record"] is not None:
                    families["expected_low"].add(with_measure, expected["interval"][0])
                    families["expected_high"].add(with_measure, expected["interval"][1])
                    families["expected_coverage"].add(with_measure, expected["record"]["coverage"])
                if "miss" in expected:
                    families["expected_miss"].add(with_measure, expected["miss"])
            for name in SIGNALS:
                said = [value for one in signals.get(row, {}).values() if (value := one[name]) is not None]
                if said:
                    families["expected_signal"].add(f'{where},signal="{name}"', max(said, key=abs))

"""Series of the estimated performance of the newest whole period and of pending predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prequential.engine.catalog.catalog import Catalog
from prequential.engine.delay.usual import SIGNALS
from prequential.engine.output.messages import Reporter
from prequential.runtime.http.exposition import GAUGE, Family, labels

FAMILIES = (
    (
        "expected",
        GAUGE,
        "Estimated final value of a measure in the newest whole period",
    ),
    ("expected_low", GAUGE, "Lower bound of the estimated final value, at level 0.9"),
    ("expected_high", GAUGE, "Upper bound of the estimated final value, at level 0.9"),
    ("expected_coverage", GAUGE, "Share of earlier periods whose final value was within its interval"),
    (
        "waiting_expected_labels", GAUGE,
        "Pending predictions, in periods that are not final, that are expected to get a label",
    ),
    ("waiting_expected_right", GAUGE, "Pending predictions that are expected to get a label and be correct"),
    ("waiting_expected_right_low", GAUGE, "Lower bound of the expected correct pending predictions"),
    ("waiting_expected_right_high", GAUGE, "Upper bound of the expected correct pending predictions"),
    ("expected_miss", GAUGE, "Probability that the newest whole period will miss its objective"),
    (
        "expected_signal",
        GAUGE,
        "Largest recent deviation of a completed period from earlier ones, in standard deviations",
    ),
)  # fmt: skip


def add(families: dict[str, Family], catalog: Catalog, reporter: Reporter, streams: Iterable[int]) -> None:
    """Add the samples of the models of these streams."""
    expectations = reporter.expectations
    newest, waiting, signals = expectations.newest, expectations.waiting, expectations.signals
    for stream in map(catalog.streams.__getitem__, streams):
        for model, row in stream.models.items():
            if row not in newest and row not in waiting:
                continue
            where = labels(stream=stream.name, partition=catalog.partition, model=model)
            if row in waiting:
                add_waiting(families, where, waiting[row].as_message())
            if row not in newest:
                continue
            add_expected(families, where, newest[row].measures)
            for name in SIGNALS:
                values = [value for one in signals.get(row, {}).values() if (value := one[name]) is not None]
                if values:
                    families["expected_signal"].add(f'{where},signal="{name}"', max(values, key=abs))


def add_waiting(families: dict[str, Family], where: str, said: Mapping[str, Any]) -> None:
    """Add the samples of a model's pending predictions; `said` is a message's `waiting_expected`."""
    for family, value in (
        ("labels", said["labels"]), ("right", said["right"]),
        *zip(("right_low", "right_high"), said.get("interval", ())),
    ):  # fmt: skip
        families[f"waiting_expected_{family}"].add(where, value)


def add_expected(families: dict[str, Family], where: str, said: Mapping[str, Mapping[str, Any]]) -> None:
    """Add the samples of a model's newest whole period; `said` has the measures of a message's `expected`."""
    for name, expected in said.items():
        with_measure = f'{where},measure="{name}"'
        families["expected"].add(with_measure, expected["value"])
        for family, value in zip(("low", "high"), expected.get("interval", ())):
            families[f"expected_{family}"].add(with_measure, value)
        if expected["record"] is not None:
            families["expected_coverage"].add(with_measure, expected["record"]["coverage"])
        if "miss" in expected:
            families["expected_miss"].add(with_measure, expected["miss"])

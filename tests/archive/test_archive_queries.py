"""The queries of `docs/do/query-archive.md`, over the archive of a real evaluation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from flights_archive import archive_flights

duckdb = pytest.importorskip("duckdb")

PAGE = Path(__file__).parents[2] / "docs" / "do" / "query-archive.md"

#: Titles and queries of the page, after the one that makes the views.
QUERIES = dict(
    re.findall(r"^## (.*?)\n.*?```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
)


@pytest.fixture(scope="module")
def archive_of_flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive_flights(tmp_path_factory.mktemp("flights") / "archive")


@pytest.fixture(scope="module")
def connection(archive_of_flights: Path) -> Any:
    views = re.search(r"```sql\n(CREATE.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert views is not None
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(views[1].replace("'archive/", f"'{archive_of_flights}/"))
    return connection


def test_there_are_ten_and_more() -> None:
    assert len(QUERIES) >= 10


@pytest.mark.parametrize("title", QUERIES)
def test_each_query_has_an_answer(title: str, connection: Any) -> None:
    table = connection.sql(QUERIES[title]).to_arrow_table()
    assert table.num_rows
    for name in table.column_names:
        if name != "settings":  # the evaluation has no records with that header
            assert table.column(name).null_count < table.num_rows, f"{name} is null everywhere"


def test_answers_are_those_of_the_messages(connection: Any, archive_of_flights: Path) -> None:
    """The queries whose numbers can be said: against a plain loop over the reader's tables."""
    from prequential.evaluation import read_archive

    result = read_archive(str(archive_of_flights))
    rows = result.metrics.to_pylist()
    expected: dict[tuple[str, str], tuple[int, float]] = {}
    for row in rows:
        if row["stage"] == "final" and row["accuracy"] is not None:
            key = row["model"], row["estimator"]
            expected[key] = max(expected.get(key, (0, 0.0)), (row["outcomes"], row["accuracy"]))
    answer = connection.execute(QUERIES["Current values of each model"]).fetchall()
    assert {row[:2]: (row[2], row[3]) for row in answer} == {
        key: (outcomes, round(accuracy, 3)) for key, (outcomes, accuracy) in expected.items()
    }
    assert connection.execute(QUERIES["Doubles"]).fetchall() == [(0,)]
    incidents = connection.sql(QUERIES["Incidents with their main cause"]).to_arrow_table()
    assert any("concept" in line for line in result.explain(0))
    assert incidents.num_rows == result.incidents.num_rows == 2
    assert sorted(incidents.column("severity").to_pylist()) == sorted(
        result.incidents.column("severity").to_pylist()
    )
    alarms = connection.sql(QUERIES["Alarms by detector and month"]).to_arrow_table()
    assert sum(alarms.column("alarms").to_pylist()) == result.alarms.num_rows

"""What docs/reference/topics.md lets each component do is what the chart's users may do."""

from __future__ import annotations

import pytest

from tests.secured import chart
from tests.secured.acls import of_kafka_user
from tests.secured.documented import documented

#: Operations of `topics grow`, which the chart gives the worker's user while it is asked for.
GROW = "`topics grow`"


@pytest.mark.parametrize("name", ["worker", "ingest", "notify", "dashboard", "`archive`"])
def test_the_chart_gives_a_user_what_the_docs_say(name: str) -> None:
    assert documented(name) == set(chart.parts()[name.strip("`")].acls)


def test_an_archive_of_some_topics_takes_these_alone() -> None:
    acls = set(chart.parts(chart.WIDE)["archive"].acls)
    letters = {acl for acl in documented("`archive --topics dead-letters`") if acl.kind == "topic"}
    assert letters < acls
    assert acls - letters < documented("`archive`")
    named = {acl.name for acl in acls if acl.kind == "topic"}
    assert named == {"eu.metrics", "eu.incidents", "eu.dead-letters"}


def test_a_stream_in_all_partitions_takes_what_the_docs_say() -> None:
    own, beside = (documented("worker", values) for values in (chart.WIDE, chart.EVERYTHING))
    assert own == set(chart.parts(chart.WIDE)["worker"].acls)
    assert own > beside


def test_while_it_grows_the_worker_s_user_has_what_that_needs() -> None:
    [worker] = [one for one in chart.of("KafkaUser") if chart.component_of(one) == "worker"]
    assert documented("worker") | documented(GROW) == set(of_kafka_user(worker))

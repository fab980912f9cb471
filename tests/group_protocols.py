"""Which tests need brokers with both of Kafka's group protocols."""

from __future__ import annotations

import pytest
from prequential.topics.clients import CLASSIC, CONSUMER

from tests.kafka_jars import KAFKA

#: Brokers from Apache Kafka 4.0 on have the `consumer` protocol.
NEEDS_CONSUMER = pytest.mark.skipif(
    KAFKA.startswith("3."), reason=f"Apache Kafka {KAFKA} has no `consumer` protocol"
)

#: Parameters of a test of both protocols, and of one that does so at night only.
BOTH = [CLASSIC, pytest.param(CONSUMER, marks=NEEDS_CONSUMER)]
BOTH_AT_NIGHT = [CLASSIC, pytest.param(CONSUMER, marks=[NEEDS_CONSUMER, pytest.mark.nightly])]

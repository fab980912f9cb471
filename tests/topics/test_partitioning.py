"""Where a stream belongs: the same partition as Java's, Faust's and librdkafka's producers give its name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given
from hypothesis import strategies as st
from prequential.topics.partitioning import murmur2, partition_of

from tests.kafka_jars import java_program, kafka_jars
from tests.skipping import or_skip

#: Names of every length modulo four, in one to four bytes a character, short and as long as may be.
STREAMS = ["", "a", "ab", "abc", "é", "日本", "🦔", "elec2", "eu.fraud/v2", *(f"s-{i}" for i in range(300))]
STREAMS += ["x" * length for length in (253, 254, 255, 256)]

PARTITIONS = (1, 2, 3, 4, 7, 12, 64)

#: Reads partitions and stream in hexadecimal, a line each, and answers as Java's producer would.
JAVA = """
import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

public class Partitions {
    public static void main(String[] arguments) {
        for (Scanner lines = new Scanner(System.in); lines.hasNextLine(); ) {
            String[] line = lines.nextLine().split(" ", 2);
            byte[] key = HexFormat.of().parseHex(line[1]);
            System.out.println(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(line[0])));
        }
    }
}
"""


@pytest.mark.parametrize(
    ("key", "java"),  # the values that Kafka's UtilsTest.testMurmur2 expects
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, java: int) -> None:
    assert murmur2(key) == java & 0xFFFFFFFF


@given(stream=st.text(max_size=64), partitions=st.integers(1, 5_000))
def test_a_stream_belongs_where_fausts_producer_puts_it(stream: str, partitions: int) -> None:
    places = range(partitions)
    assert partition_of(stream, partitions) == DefaultPartitioner()(stream.encode(), places, places)


@pytest.mark.slow
def test_a_stream_belongs_where_javas_producer_puts_it(tmp_path: Path) -> None:
    with or_skip():
        java, jars = java_program(), kafka_jars()
    source = tmp_path / "Partitions.java"
    source.write_text(JAVA, encoding="utf-8")
    asked = [(partitions, stream) for partitions in PARTITIONS for stream in STREAMS]
    done = subprocess.run(
        [java, "-cp", f"{jars}/*", source],
        input="".join(f"{partitions} {stream.encode().hex()}\n" for partitions, stream in asked),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if "jdk.compiler" in done.stderr:
        pytest.skip("this Java comes without a compiler")
    assert not done.returncode, done.stderr
    assert [int(line) for line in done.stdout.split()] == [partition_of(s, p) for p, s in asked]

"""A record at which workers die: it is found, passed over, and all the rest is as if it weren't there."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import processes
import pytest
from comparison import assert_as_replayed, assert_published_once
from prequential.engine.input.encoder import Encoder
from prequential.engine.input.merge import Batch, Merge, OffsetVector
from prequential.engine.input.plain import Parser
from prequential.runtime.worker import isolating
from prequential.runtime.worker import runner as runner_module
from prequential.runtime.worker.isolating import Isolation
from prequential.runtime.worker.journal import (
    Attempt,
    Death,
    JournalEntry,
    JournalStatus,
    Quarantine,
    Suspicion,
    TopicsOrigin,
    decode_entry,
    encode_entry,
    standing,
)
from prequential.topics.clients import KafkaConfig
from prequential.topics.decoding import Decoded
from prequential.topics.errors import WorkError
from prequential.topics.specs import DEAD_LETTERS, INPUTS, JOURNAL
from processes import WorkerProcess, await_published, eventually, write_config
from test_checkpoint import Killed, Log, assert_whole_and_once, lives, place_of, said
from workload import Record, Sender, records

from tests.nightly import few, scaled

__all__ = ["lives"]  # a fixture

#: The records that some test dies at, by kind and offset, and small parts, so that there are many.
_POISON, _PART = (1, 57), 8


#: What is said of a worker that left no word.
_WITHOUT = "the process ended without an error of its own"


# ---- the journal


def entries(*parts: tuple[list[OffsetVector], Any]) -> list[JournalEntry]:
    return [JournalEntry(n, vectors, TopicsOrigin(1), note) for n, (vectors, note) in enumerate(parts, 1)]


class TestJournal:
    @pytest.mark.parametrize(
        "note", [None, Attempt(0), Attempt(2, 1, (2, 7)), Death("E"), Quarantine(1, 2, "r")]
    )
    def test_written_and_read(self, note: Any) -> None:
        entry = JournalEntry(3, [(1, 2, 3), (1, 9, 3)], TopicsOrigin(4, "a", "b", "c"), note)
        assert decode_entry(encode_entry(entry)) == entry

    def test_entries_without_a_note_are_those_of_earlier_versions(self) -> None:
        """Byte for byte: an earlier version goes on from them, and they are read here."""
        plain = b"\x94\x02\x07\x93\x01\x02\x03\x94\x04\xa0\xa0\xa0"
        entry = JournalEntry(7, [(1, 2, 3)], TopicsOrigin(4))
        assert (encode_entry(entry), decode_entry(plain)) == (plain, entry)

    def test_another_format_is_refused(self) -> None:
        with pytest.raises(WorkError, match="format 9: this version reads formats 2 and 3"):
            decode_entry(b"\x94\x09\x07\x90\x94\x04\xa0\xa0\xa0")

    def test_ordinary_entries(self) -> None:
        a, b, c = (1, 0, 0), (1, 2, 0), (3, 2, 1)
        assert standing(entries(([a, b], None), ([], None), ([c], None))) == ([a, b], [c], [], None)

    def test_a_life_of_which_nothing_came(self) -> None:
        found = standing(entries(([(1, 0, 0)], None), ([], Attempt(0))))
        assert found == ([(1, 0, 0)], [], [], Suspicion(1))
        assert standing(entries(([], Attempt(0)), ([(1, 0, 0)], None))).suspicion is None

    def test_an_error_counts_once_with_what_was_announced(self) -> None:
        found = standing(entries(([(1, 0, 0)], None), ([], Death("E: x"))))
        assert found.suspicion == Suspicion(1, error="E: x")
        found = standing(entries(([(4, 0, 0)], Attempt(1, 4)), ([], Death("E: x"))))
        assert (found.open, found.suspicion) == ([(4, 0, 0)], Suspicion(2, 4, None, "E: x"))

    def test_parts_of_what_was_announced_come_before_its_rest(self) -> None:
        whole, one, two = (9, 9, 9), (3, 0, 0), (3, 1, 0)
        tried = [([whole], Attempt(1, 27)), ([one], Attempt(2, 3))]
        found = standing(entries(*tried, ([two], Attempt(2, 1, (1, 0)))))
        assert found == ([one], [two, whole], [], Suspicion(3, 1, (1, 0), alone=1))
        twice = standing(entries(*tried, *2 * [([two], Attempt(2, 1, (1, 0)))]))
        assert twice.suspicion == Suspicion(3, 1, (1, 0), alone=2)
        again = standing(entries(*tried, ([one], Attempt(3, 3))))
        assert again == ([], [one, whole], [], Suspicion(4, 3))

    def test_a_quarantine_leaves_the_rest_in_its_place(self) -> None:
        whole, one = (9, 9, 9), (3, 0, 0)
        record = Quarantine(0, 2, "r")
        parts = [([whole], Attempt(1, 27)), ([one], Attempt(2, 1, (0, 2))), ([], Death("E")), ([], record)]
        assert standing(entries(*parts)) == ([], [one, whole], [record], Suspicion(records=1))
        after = standing(entries(*parts, ([one], Attempt(0, 1, (0, 2))), ([whole], None)))
        assert after == ([one], [whole], [record], Suspicion(records=1))

    def test_what_is_left_behind_tried_parts_is_still_to_be_tried(self) -> None:
        """However the worker ended there: followed as a whole, every successor would die of it, unnoticed."""
        whole, one, two = (9, 9, 9), (3, 0, 0), (3, 1, 0)
        tried = [([whole], Attempt(1, 8)), ([one], Attempt(2, 1, (0, 2)))]
        found = standing(entries(*tried, ([whole], None)))
        assert found == ([one], [whole], [], Suspicion(2, 1))
        isolation = Isolation(found)
        assert (list(isolation.planned), isolation.deaths, isolation.most) == ([whole], 2, 1)
        died = standing(entries(*tried, ([whole], None), ([two], Attempt(2, 1, (1, 0))), ([], Death("E"))))
        assert died == ([one], [two, whole], [], Suspicion(3, 1, (1, 0), "E", 1))

    def test_of_many_records_the_rest_is_tried_in_parts(self) -> None:
        whole, more, part = (900, 0, 0), (999, 0, 0), (250, 0, 0)
        tried = [([whole, more], None), ([], Death("E")), ([part], Attempt(1, 250))]
        found = standing(entries(*tried, ([whole, more], None)))
        assert found == ([part], [whole, more], [], Suspicion(1))
        assert Isolation(found).most == 250

    def test_where_nothing_is_left_the_shard_has_got_on(self) -> None:
        one = (3, 0, 0)
        found = standing(entries(([one], Attempt(1, 3)), ([], None)))
        assert found == ([one], [], [], None)


# ---- the order in small parts


@pytest.mark.parametrize("planned", [False, True])
def test_parts_are_in_the_order_of_rounds(planned: bool) -> None:
    """Taken in parts of any size, with any watermarks, or up to a cut: the same order as as a whole."""
    rng = random.Random(4)
    for _ in range(300):
        topics = [sorted(rng.randrange(10) for _ in range(rng.randrange(12))) for _ in range(3)]
        offsets = [sorted(rng.sample(range(40), len(times))) for times in topics]
        watermarks = [rng.choice([None, rng.randrange(12), 1 << 50]) for _ in range(3)]
        whole, parts = Merge(), Merge()
        for merge in (whole, parts):
            for kind, times in enumerate(topics):
                merge.add(Batch(kind, offsets[kind], times, Decoded([object()] * len(times), {})))
        taken = whole.take(watermarks, 100)
        until: OffsetVector | None = tuple(whole.vector) if planned else None
        found: list[tuple[int, int]] = []
        while (step := parts.ahead(watermarks, rng.randrange(1, 5), until))[1]:
            part = parts.take_until(step[0])
            assert part is not None
            assert len(part) == step[1]
            found += _places(part)
        assert found == ([] if taken is None else _places(taken))


def _places(part: Any) -> list[tuple[int, int]]:
    located = [part.locate(place) for place in part.order.tolist()]
    return [(batch.kind, batch.offsets[index]) for batch, index in located]


def test_what_is_planned_and_gone_is_passed_over() -> None:
    """Retention has taken the records, or their offsets were transactions' marks."""
    merge = Merge()
    merge.add(Batch(0, [7], [1], Decoded([object()], {})))
    isolation = Isolation(JournalStatus([], [(5, 4, 0), (8, 4, 0)], [], Suspicion(1, 9)))
    assert isolation.next(merge, [None] * 3) is None
    merge.reach(1, 4)
    merge.reach(2, 3)  # further than what was planned knew of
    assert isolation.next(merge, [None] * 3) == ((8, 4, 0), Attempt(1, 1, (0, 7)))


def test_what_came_after_the_death_is_not_doubtful() -> None:
    """Where it isn't known at which records it was: at most those that were there then."""
    isolation = Isolation(JournalStatus([], [], [], Suspicion(1)))
    isolation.taken((4, 4, 2), 10)
    isolation.limit([5, 6, 3], [4, 4, 2])
    assert not isolation.over
    isolation.limit([50, 60, 30], [5, 6, 2])  # read further: the first ends count
    assert not isolation.over
    isolation.limit([50, 60, 30], [5, 7, 3])
    assert isolation.over
    planned = Isolation(JournalStatus([], [(9, 9, 9)], [], Suspicion(1)))
    planned.limit([5, 6, 3], [5, 6, 3])
    assert not planned.over, "what is settled is taken as it is"


# ---- lives


@pytest.fixture(params=["engine", "decoder"])
def poison(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[BaseException | None], None]:
    """Let engine or decoder fail at `_POISON`: with an error, or with `Killed`, as if the process crashed."""
    monkeypatch.setattr(isolating, "_PART", _PART)
    monkeypatch.setattr(runner_module, "_TURN", 3)
    encode, parse, publish, known = Encoder.encode, Parser.parse, Log.publish, Log.known
    kind, _ = _POISON
    id = _poisonous()
    crashed = [False]

    def set_to(failure: BaseException | None) -> None:
        def fail() -> None:
            if failure is not None:
                crashed[0] = isinstance(failure, Killed)
                raise failure

        def encoding(self: Encoder, records: Sequence[Any], *about: Any) -> Any:
            if any(_is(record, id) for record in records):
                fail()
            return encode(self, records, *about)

        def parsing(self: Parser, of: int, values: Sequence[bytes | None]) -> Any:
            if of == kind and id in values:
                fail()
            return parse(self, of, values)

        if request.param == "engine":
            monkeypatch.setattr(Encoder, "encode", encoding)
        else:
            monkeypatch.setattr(Parser, "parse", parsing)

    def published(self: Log, messages: Any) -> Any:
        if crashed[0]:  # so are all threads
            raise Killed
        return publish(self, messages)

    def taken_over(self: Log, *_: Any, **__: Any) -> Any:
        crashed[0] = False
        return known(self)

    monkeypatch.setattr(Log, "publish", published)
    monkeypatch.setattr(Log, "known", taken_over)

    return set_to


def _poisonous() -> bytes:
    """The value of the poisoned record."""
    kind, offset = _POISON
    rows = said()[kind]
    message = rows[place_of(rows, offset)]
    assert message.offset() == offset
    return message.value()  # type: ignore[return-value]


def _is(record: Any, value: bytes) -> bool:
    """Whether it is the record of the poisoned kind with that value."""
    return _POISON[0] == record.KIND and all(
        str(part).encode() in value for part in (record.instance_id, record.model, record.ts)
    )


Lives = Callable[..., tuple[bool, int]]
Poison = Callable[[BaseException | None], None]


def deaths(lives: Lives, log: Log, *, at: int | None = None) -> int:
    """How many lives end at the poison until one goes on to the end; `at`: each is cut at that await, too."""
    for count in range(50):
        try:
            survived, _ = lives(log, at if count % 2 else None, False)
        except (ValueError, Killed):
            continue
        if survived and (at is None or count % 2 == 0):
            return count
    raise AssertionError("no life got on")


def assert_passed_over(log: Log, error: str) -> None:
    """The record is in the journal and the dead letters, once, and all else is as a replay says."""
    notes = [decode_entry(record.value).note for record in log.topics[JOURNAL]]
    [record] = [note for note in notes if isinstance(note, Quarantine)]
    assert (record.kind, record.offset) == _POISON
    assert record.reason.endswith(f"in a row died at it: {error}")
    [letter] = log.topics[DEAD_LETTERS]
    assert letter.headers is not None
    assert [value.decode() for _, value in letter.headers] == [
        record.reason, INPUTS[_POISON[0]], "0", str(_POISON[1])
    ]  # fmt: skip
    assert letter.value == _poisonous()
    assert_whole_and_once(log, said())


@pytest.mark.slow
def test_three_deaths_of_an_error(lives: Lives, poison: Poison) -> None:
    poison(ValueError("boom,\nin two lines"))
    log = Log()
    assert deaths(lives, log) == 3
    assert_passed_over(log, "ValueError: boom, in two lines")


@pytest.mark.slow
def test_deaths_without_a_word(lives: Lives, poison: Poison) -> None:
    """As of a crash in compiled code, or when memory runs out: until it was alone three times."""
    poison(Killed())
    log = Log()
    assert 4 <= deaths(lives, log) <= 7
    assert_passed_over(log, _WITHOUT)


@pytest.mark.slow
@pytest.mark.parametrize("failure", [ValueError("boom"), Killed()])
def test_killed_in_between(lives: Lives, poison: Poison, failure: BaseException) -> None:
    """Every other life is cut at one of its awaits: another one each time."""
    error = "ValueError: boom" if isinstance(failure, ValueError) else _WITHOUT
    for at in range(1, 30, scaled(12, 1)):
        poison(failure)
        log = Log()
        deaths(lives, log, at=at)
        assert_passed_over(log, error)


@pytest.mark.slow
def test_an_error_that_does_not_come_again(lives: Lives, poison: Poison) -> None:
    """Nothing is passed over."""
    log = Log()
    for failure in (ValueError("boom"), ValueError("boom"), None):
        poison(failure)
        if failure is None:
            assert lives(log, None, False)[0]
        else:
            with pytest.raises(ValueError, match="boom"):
                lives(log, None, False)
    assert DEAD_LETTERS not in log.topics
    assert_whole_and_once(log, said())


# ---- processes


#: A worker that fails, see there, and the session time of its group: a dead member's shards wait for it.
_FAULTY = (sys.executable, str(Path(__file__).with_name("faulty.py")))
_SESSION = "2s"

#: What they fail at: a record about an instance that no other one is about.
_POISONED = Record("labels", b"s-0", b'{"stream":"s-0","instance_id":"poison","y_true":"UP"}')


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [2], indirect=True)
@pytest.mark.parametrize(
    ("part", "failure", "after", "deaths", "why"),
    few(
        [
            ("engine", "error", 3, (3, 5), "ValueError: the engine fails"),
            ("engine", "crash", 2, (4, 6), _WITHOUT),
            ("decoder", "error", 3, (3, 5), "ValueError: the decoder fails"),
        ],
        keep=0,
    ),
)
def test_workers_die_and_the_shard_goes_on(
    part: str, failure: str, after: int, deaths: tuple[int, int], why: str, cluster: KafkaConfig,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """One of two shards has the record. The second worker is killed as soon as it takes part."""
    worker_section = {"session_timeout": _SESSION, "commit_every": "100ms", "quarantine_after": after}
    config = write_config(tmp_path, cluster, worker=worker_section)
    everything = list(records(5, 1_500, 8))
    half = len(everything) // 2
    sender = Sender(cluster)
    sender.send([*everything[:half], _POISONED, *everything[half:]])
    sender.flush()
    died = 0
    monkeypatch.setattr(processes, "_PROGRAM", (*_FAULTY, part, failure))
    while True:
        with WorkerProcess(config) as worker:
            if died == 1 and failure == "error":
                eventually("it takes part", lambda: "shards of this worker" in worker.log)
                worker.kill()
            eventually("it dies, or gets on", lambda: worker.status is not None or _passed_over(worker))
            if worker.status is None:
                await_published(cluster, worker)
                counted = worker.metrics()["prequential_quarantined_records_total"]
                assert worker.stop() == 0, worker.log
                break
        died += 1
        assert died <= deaths[1], worker.log
    assert died >= deaths[0]
    assert [dict(about)["topic"] for about, count in counted.items() if count] == [cluster.topic("labels")]
    monkeypatch.undo()
    assert_published_once(cluster)
    [(error, _, value)] = assert_as_replayed(cluster, config).letters.values()
    assert (error, value) == (f"{after} workers in a row died at it: {why}", _POISONED.value.decode())


def _passed_over(worker: WorkerProcess) -> bool:
    """Whether the record has been passed over."""
    status, text = worker.get("/metrics")
    counts = [line for line in text.splitlines() if line.startswith("prequential_quarantined_records_total{")]
    return status == 200 and any(line.endswith(" 1.0") or line.endswith(" 1") for line in counts)

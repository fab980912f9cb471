"""Safeguards of the product that can be switched off, to see how soon worlds find that they are missing.

Each is a function that changes the product, for as long as `switched_off` lasts. Its first line says what
goes without.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from prequential.engine.input import merge
from prequential.runtime.ingest import reading
from prequential.runtime.kafka import fetching, transactions
from prequential.runtime.worker import app as worker_app
from prequential.runtime.worker import (
    arrivals,
    checkpoint,
    findings,
    isolating,
    journal,
    merging,
    publisher,
    runner,
    snapshots,
)
from prequential.topics import clients

#: Replaces an attribute of a module or class until the end.
Replace = Callable[[Any, str, Any], None]

SAFEGUARDS: dict[str, Callable[[Replace], None]] = {}

#: By safeguard that few worlds need: the aim of the worlds in which it is searched (`AIMS` in `plan.py`).
SEARCHED_IN = {
    "checksum": "snapshots",
    "attempts_in_the_journal": "crash",
    "findings_know_what_was_restored": "mistake",
    "membership_in_transactions": "group",
    "settled_offsets_of_sources": "group",
    "entries_of_others": "doubt",
    "late_requests_are_expected": "doubt",
    "look_before_sending_again": "doubt",
    "grace": "order",
    "deaths_before_a_quarantine": "crash",
    "records_are_tried_alone": "crash",
    "nothing_is_parsed_before_it_is_announced": "crash",
    "stranded_clients_are_replaced": "strand",
    "stuck_shards_are_paused": "leaderless",
    "open_transactions_hold_back": "order",
}


def _safeguard(function: Callable[[Replace], None]) -> Callable[[Replace], None]:
    SAFEGUARDS[function.__name__.strip("_")] = function
    return function


@contextmanager
def switched_off(name: str) -> Iterator[None]:
    """Have the product go without a safeguard."""
    changed: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, attribute: str, value: Any) -> None:
        if isinstance(owner, dict):
            changed.append((owner, attribute, owner.get(attribute)))
            owner[attribute] = value
        else:
            changed.append((owner, attribute, getattr(owner, attribute)))
            setattr(owner, attribute, value)

    SAFEGUARDS[name](replace)
    try:
        yield
    finally:
        for owner, attribute, value in reversed(changed):
            if isinstance(owner, dict):
                owner[attribute] = value
            else:
                setattr(owner, attribute, value)


# ---- order and outputs


@_safeguard
def order_before_outputs(replace: Replace) -> None:
    """Outputs are published before the order that led to them."""
    publish = checkpoint.Checkpoint._publish_entries

    async def reversed_(self: Any, entries: Any) -> None:
        await publish(self, list(reversed(entries)))

    replace(checkpoint.Checkpoint, "_publish_entries", reversed_)


@_safeguard
def outputs_with_their_entry(replace: Replace) -> None:
    """Outputs are published in a transaction of their own, before their entry."""
    publish = publisher.Publisher.publish

    def divided(self: Any, messages: Any) -> Any:
        messages = list(messages)
        if len(messages) > 1 and messages[-1].topic == self._journal:
            publish(self, messages[:-1])
            return publish(self, messages[-1:])
        return publish(self, messages)

    replace(publisher.Publisher, "publish", divided)


@_safeguard
def idle_moment_in_the_journal(replace: Replace) -> None:
    """What a silence made due is published without an entry about the silence."""

    async def idle(self: Any, quiet: int) -> None:
        await self.commit()
        self._changed = True

    replace(checkpoint.Checkpoint, "idle", idle)


@_safeguard
def commit_before_an_idle_moment(replace: Replace) -> None:
    """A silence is settled before earlier outputs are published."""

    async def idle(self: Any, quiet: int) -> None:
        await self._publish_entry([], [], journal.Idle(quiet))
        self._changed = True

    replace(checkpoint.Checkpoint, "idle", idle)


@_safeguard
def silent_replay(replace: Replace) -> None:
    """A successor publishes the outputs of all entries that it follows."""

    def end(self: Any) -> None:
        self.shard.observed = True

    replace(runner.ShardRunner, "_end_replay_if_due", end)


@_safeguard
def last_outputs_again(replace: Replace) -> None:
    """A successor does not publish the outputs of the last entry."""
    standing = journal.standing

    def settled(entries: Any) -> Any:
        status = standing(entries)
        return status._replace(settled=[*status.settled, *status.open], open=[])

    replace(runner, "standing", settled)


@_safeguard
def following_the_journal(replace: Replace) -> None:
    """A successor takes records in an order of its own."""
    standing = journal.standing

    def nothing(entries: Any) -> Any:
        return standing(entries)._replace(settled=[], open=[])

    replace(runner, "standing", nothing)


# ---- one writer


@_safeguard
def fencing(replace: Replace) -> None:
    """Each producer of a shard has a transactional id of its own."""
    connected = transactions.Transactions._connected

    def unique(self: Any) -> Any:
        self._lives = getattr(self, "_lives", 0) + 1
        self._id = f"{self._id.partition('#')[0]}#{id(self)}.{self._lives}"
        return connected(self)

    replace(transactions.Transactions, "_connected", unique)


@_safeguard
def take_over_before_reading(replace: Replace) -> None:
    """A successor reads the state first, and takes the id over when it first publishes."""
    take_over, publish = publisher.Publisher.take_over, publisher.Publisher.publish

    def later(self: Any) -> None:
        self._is_late = not getattr(self, "_has_published", False)
        if not self._is_late:
            take_over(self)

    def published(self: Any, messages: Any) -> Any:
        if getattr(self, "_is_late", False):
            self._is_late, self._has_published = False, True
            take_over(self)
        return publish(self, messages)

    replace(publisher.Publisher, "take_over", later)
    replace(publisher.Publisher, "publish", published)


@_safeguard
def late_requests_are_expected(replace: Replace) -> None:
    """A producer goes on after a connection ended with a request that was not answered."""
    replace(transactions._Log, "log", lambda self, *_: None)


@_safeguard
def look_before_sending_again(replace: Replace) -> None:
    """A transaction of unknown result is sent again, without a look whether it is committed."""
    replace(transactions.Transactions, "_looked_up", lambda self, messages: None)


@_safeguard
def entries_of_others(replace: Replace) -> None:
    """A producer that looks what is committed takes another worker's entries for its own."""

    def committed(self: Any, messages: Any) -> Any:
        entries = list(
            publisher.read_partition(
                self._kafka, self._journal, self._partition, self.journal_offset, lambda: self.stopping, 10.0
            )
        )
        return {self._journal: entries[-1].offset()} if entries else None

    replace(publisher.Publisher, "_committed", committed)


# ---- snapshots


@_safeguard
def checksum(replace: Replace) -> None:
    """A snapshot is read without a look at its checksum."""
    replace(snapshots, "zlib", type("zlib", (), {"crc32": staticmethod(lambda *_: 0)}))


@_safeguard
def two_generations(replace: Replace) -> None:
    """Each snapshot replaces the chunks of the one before."""
    replace(snapshots, "chunk_key", lambda generation, number: b"0/%d" % number)


@_safeguard
def manifest_last(replace: Replace) -> None:
    """A manifest is written although the last transaction of chunks is not."""
    write = checkpoint.Checkpoint._write_chunks

    async def shortened(self: Any, *args: Any) -> Any:
        publish, count = self._publisher.publish, 0

        def first_only(messages: Any) -> Any:
            nonlocal count
            count += 1
            return publish(list(messages)[: 1 if count > 1 else None])

        self._publisher.publish = first_only
        try:
            return await write(self, *args)
        finally:
            del self._publisher.publish

    replace(checkpoint.Checkpoint, "_write_chunks", shortened)


@_safeguard
def entry_of_the_copy(replace: Replace) -> None:
    """A manifest has the journal's number of when it is written, and not that of the copied state."""
    manifest = checkpoint.Checkpoint._manifest

    def now(self: Any, writer: Any, vector: Any, number: int, journal_offset: int) -> bytes:
        return manifest(self, writer, vector, self._journal_number, self._journal_offset)

    replace(checkpoint.Checkpoint, "_manifest", now)


@_safeguard
def committed_state_only(replace: Replace) -> None:
    """A successor reads snapshots and journals with the records of aborted transactions."""
    replace(clients.READ_COMMITTED, "isolation.level", "read_uncommitted")


# ---- records


@_safeguard
def committed_records_only(replace: Replace) -> None:
    """Records of aborted transactions are evaluated."""
    fetch_client = fetching.new_fetch_client

    def uncommitted(kafka: Any, group: str) -> Any:
        client = fetch_client(kafka, group)
        client._is_committed = False
        return client

    replace(fetching, "new_fetch_client", uncommitted)


@_safeguard
def open_transactions_hold_back(replace: Replace) -> None:
    """Topics don't wait for records of another topic's open transaction."""
    replace(arrivals.OpenTransaction, "holds_back", False)


@_safeguard
def grace(replace: Replace) -> None:
    """A topic that was read to its end once holds nothing back."""
    init = arrivals.Arrivals.__init__

    def without(self: Any, fetcher: Any, partition: int, grace: float, topics: Any) -> None:
        init(self, fetcher, partition, -1_000.0, topics)

    replace(arrivals.Arrivals, "__init__", without)


# ---- records that crash workers


@_safeguard
def quarantine(replace: Replace) -> None:
    """A record at which workers die is tried for ever."""
    replace(isolating, "to_quarantine", lambda *_: None)


@_safeguard
def deaths_before_a_quarantine(replace: Replace) -> None:
    """A record goes to the dead letters after one death fewer than the setting says."""
    to_quarantine = isolating.to_quarantine

    def early(suspicion: Any, after: Any) -> Any:
        return to_quarantine(suspicion, after - 1)

    replace(isolating, "to_quarantine", early)


@_safeguard
def records_are_tried_alone(replace: Replace) -> None:
    """After a crash a record is to blame that workers have died at, though not alone."""
    to_quarantine = isolating.to_quarantine

    def blamed(suspicion: Any, after: Any) -> Any:
        return to_quarantine(suspicion._replace(alone=suspicion.deaths), after)

    replace(isolating, "to_quarantine", blamed)


@_safeguard
def nothing_is_parsed_before_it_is_announced(replace: Replace) -> None:
    """Records are parsed ahead before the journal says that the worker processes records."""
    ahead = property(lambda self: not self.recovering and self._isolation is None)
    replace(runner.ShardRunner, "parses_ahead", ahead)


@_safeguard
def attempts_in_the_journal(replace: Replace) -> None:
    """A worker does not announce that it processes records, so its successor does not know that it died."""

    async def nothing(self: Any) -> None:
        return None

    replace(checkpoint.Checkpoint, "begin", nothing)


@_safeguard
def nothing_of_a_broken_batch(replace: Replace) -> None:
    """Outputs of a micro-batch that failed midway are published."""
    replace(runner.ShardRunner, "_write_error", _write_error_and_outputs)


async def _write_error_and_outputs(self: Any, error: Exception) -> None:
    if not self.recovering:
        await self.checkpoint.commit()


# ---- what a worker says


@_safeguard
def findings_know_what_was_restored(replace: Replace) -> None:
    """Findings count since a shard was restored, as if nothing had been before."""

    def window(self: Any, partition: int, own: Any) -> Any:
        known = self._windows.get(partition)
        if known is None or known.shard is not own.shard:
            known = self._windows[partition] = findings._Window(
                own.shard, findings.monotonic(), findings._NOTHING
            )
        return known

    replace(findings.Findings, "_window", window)


@_safeguard
def ready_after_recovery(replace: Replace) -> None:
    """A worker is ready as soon as its shards have begun to follow their journals."""
    restore = runner.ShardRunner._restore

    async def early(self: Any, recovered: Any) -> None:
        await restore(self, recovered)
        self.recovering = False

    replace(runner.ShardRunner, "_restore", early)


# ---- lost shards, groups


@_safeguard
def lost_shards_are_opened_again(replace: Replace) -> None:
    """A worker whose producer is refused does not take the shard again that the group assigns to it."""
    replace(worker_app.Worker, "_on_lost", lambda self, partition, why: None)


@_safeguard
def stranded_clients_are_replaced(replace: Replace) -> None:
    """A worker does not look whether its clients have lost their brokers."""

    async def nothing(self: Any) -> None:
        return None

    replace(worker_app.Worker, "_replace_stranded", nothing)


@_safeguard
def stuck_shards_are_paused(replace: Replace) -> None:
    """A shard that has enough of a topic, and does not get on, keeps it from the other shards."""
    replace(fetching, "_STUCK_SECONDS", 1e9)


@_safeguard
def all_records_of_an_entry(replace: Replace) -> None:
    """A successor follows an entry as soon as any record of it has arrived."""
    replace(merge.Merge, "covers", lambda self, vector: True)


@_safeguard
def membership_in_transactions(replace: Replace) -> None:
    """Offsets in a transaction do not say with which membership their records were read."""
    write = transactions.GroupTransactions.write

    def anonymous(self: Any, messages: Any, offsets: Any, membership: bytes, notes: Any = None) -> None:
        nobody = membership[:7] + (-1).to_bytes(4, sys.byteorder, signed=True)
        group = membership[11:].partition(b"\0")[0]
        write(self, messages, offsets, nobody + group + b"\0", notes)

    replace(transactions.GroupTransactions, "write", anonymous)


@_safeguard
def settled_offsets_of_sources(replace: Replace) -> None:
    """`ingest` takes committed offsets that an open transaction of another process is about to change."""
    committed = reading.SourceFetcher.committed

    def unsettled(self: Any, partitions: Any) -> Any:
        self._member._is_committed = False
        return committed(self, partitions)

    replace(reading.SourceFetcher, "committed", unsettled)


@_safeguard
def moments_of_merged_messages(replace: Replace) -> None:
    """Whoever merges does not commit up to which moment messages are published."""
    replace(merging, "text_of", lambda moments, wide: "")

"""The brokers' side of a model of Kafka: logs, transactions, and groups, in one process.

Each method is a request that arrives, and takes effect at once. Delays, losses and repetitions are the
network's (`network.py`), and what a client makes of an answer is the client's (`clients.py`). Brokers answer
with Kafka's error codes; 0 is none.

Left out, because nothing here depends on it: replicas and their leaders, quotas, and permissions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Uuid

from tests.simulation.loop import SimulatedLoop

#: A partition of a topic.
Place = tuple[str, int]

#: Seconds between two looks for members of a group that have gone silent.
_LOOK_SECONDS = 0.5

#: Longest timeout of transactions that a broker accepts (`transaction.max.timeout.ms`).
MAX_TIMEOUT_MS = 900_000

#: The brokers' time (epoch ms) when the clock of the simulation is at 0.
EPOCH_MS = 1_700_000_000_000


class Record(NamedTuple):
    """What a producer sends."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] | None = None
    timestamp: int | None = None


class Entry(NamedTuple):
    """An entry of a log: a record, or a marker that ends a transaction."""

    offset: int
    time: int
    record: Record | None
    transaction: Transaction | None = None
    #: For a marker, whether it commits.
    commits: bool = False


class Transaction:
    """One transaction of a transactional id."""

    def __init__(self, producer: TransactionalId, epoch: int) -> None:
        self.producer, self.epoch = producer, epoch
        self.partitions: dict[Place, None] = {}
        #: Offsets by group that become visible with the transaction: offset and metadata by place.
        self.offsets: dict[str, dict[Place, tuple[int, str]]] = {}
        self.is_open = True
        self.commits: bool | None = None


class TransactionalId:
    """What the coordinator knows of a transactional id."""

    def __init__(self, name: str, producer_id: int) -> None:
        self.name, self.producer_id = name, producer_id
        self.epoch = -1
        self.timeout_ms = 60_000
        self.transaction: Transaction | None = None
        #: Whether the last transaction was committed; None if there was none.
        self.last_commits: bool | None = None


class Partition:
    """The log of a partition."""

    def __init__(self, topic: str, number: int) -> None:
        self.topic, self.number = topic, number
        self.entries: list[Entry] = []
        self.start = 0
        self.end = 0
        #: By open transaction, the offset of its first record here.
        self.open: dict[Transaction, int] = {}
        self.aborted: set[Transaction] = set()
        #: By producer id, the newest epoch, and the batches that were appended (for repeated requests).
        self.epochs: dict[int, int] = {}
        #: Entries that retention has removed: brokers have them no longer, but whoever checks a world does.
        self.removed: list[Entry] = []
        self.batches: dict[tuple[int, int, int], list[int]] = {}

    @property
    def stable_end(self) -> int:
        """The last stable offset: up to here no transaction is open."""
        return min(self.open.values(), default=self.end)

    def append(
        self, records: Iterable[Record], time: int, transaction: Transaction | None = None
    ) -> list[int]:
        """Append records; returns their offsets."""
        offsets = []
        for record in records:
            if transaction is not None:
                self.open.setdefault(transaction, self.end)
            self.entries.append(Entry(self.end, time, record, transaction))
            offsets.append(self.end)
            self.end += 1
        return offsets

    def mark(self, transaction: Transaction, commits: bool, time: int) -> None:
        """Append the marker of a transaction."""
        self.open.pop(transaction, None)
        if not commits:
            self.aborted.add(transaction)
        self.entries.append(Entry(self.end, time, None, transaction, commits))
        self.end += 1

    def read(self, offset: int, end: int, *, committed: bool) -> list[Entry]:
        """The records from an offset up to another one."""
        first = bisect_left(self.entries, offset, key=lambda entry: entry.offset)
        last = bisect_left(self.entries, end, key=lambda entry: entry.offset)
        return [
            entry
            for entry in self.entries[first:last]
            if entry.record is not None and not (committed and entry.transaction in self.aborted)
        ]

    def truncate(self, offset: int) -> None:
        """Remove all entries below an offset, as retention does."""
        self.start = max(self.start, min(offset, self.end))
        self.removed += [entry for entry in self.entries if entry.offset < self.start]
        self.entries = [entry for entry in self.entries if entry.offset >= self.start]

    def bring_back(self) -> None:
        """Have all entries again that retention has removed."""
        self.start, self.entries, self.removed = 0, [*self.removed, *self.entries], []

    def compact(self) -> None:
        """Keep the newest record of each key, below the last stable offset."""
        end = self.stable_end
        newest = {
            entry.record.key: entry.offset
            for entry in self.entries
            if entry.record is not None and entry.offset < end and entry.transaction not in self.aborted
        }
        self.entries = [
            entry
            for entry in self.entries
            if entry.offset >= end or entry.record is None or newest.get(entry.record.key) == entry.offset
        ]


class Member:
    """A member of a group."""

    def __init__(self, client: Any, instance: str | None, topics: Sequence[str], seen: float) -> None:
        self.client, self.instance, self.topics = client, instance, topics
        self.seen = seen
        self.has_joined = True
        self.assignment: list[Place] = []
        #: With the `consumer` protocol: what the member has, or has not yet let go; and its epoch.
        self.owned: list[Place] = []
        self.told: list[Place] = []  # what it was told to have, and may not have confirmed yet
        self.epoch = 0


class Group:
    """A consumer group, and its committed offsets.

    With the classic protocol, eager or cooperative, all members join again for each generation. With the
    `consumer` protocol (KIP-848), each change has an epoch. Members learn with their heartbeats what they
    have to let go, and get partitions once their former owners have done so.

    Clients have `group_member_is_alive`, `group_rebalances`, `group_assigns`, `group_reconciles` and
    `group_expels`.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self.name = cluster, name
        self.generation = 0
        self.members: dict[str, Member] = {}
        self._is_stable = True
        self.offsets: dict[Place, tuple[int, str]] = {}
        #: The first offset that was ever committed, by place.
        self.first: dict[Place, int] = {}
        #: Open transactions by place that change its offset.
        self.unstable: dict[Place, set[Transaction]] = {}
        self._is_watched = False
        #: Members that were removed: they can't join again under their former ids.
        self._removed: set[str] = set()

    def join(self, member_id: str, client: Any, instance: str | None, topics: Sequence[str]) -> None:
        """A client joins, or joins again."""
        if member_id in self._removed:
            client.group_expels(fenced=False)
            return
        if instance is not None and self._replaces(member_id, client, instance):
            return
        member = self.members.get(member_id)
        if member is None:
            self.members[member_id] = Member(client, instance, topics, self._cluster.loop.time())
        else:
            member.has_joined = True
        if client.is_reconciled:
            if member is None:
                self._aim()
                self._cluster.loop.call_outside(self._beat, member_id, delay=client.heartbeat_seconds / 10)
        else:
            if self._is_stable:
                self._rebalance(member_id)
            self._complete()
        if not self._is_watched:
            self._is_watched = True
            self._cluster.loop.call_outside(self._watch, delay=_LOOK_SECONDS)

    def _replaces(self, member_id: str, client: Any, instance: str) -> bool:
        """Whether a static member took the place of another one without a rebalance."""
        for former_id, former in list(self.members.items()):
            if former.instance == instance and former_id != member_id:
                del self.members[former_id]
                former.client.group_expels(fenced=True)
                member = Member(client, instance, former.topics, self._cluster.loop.time())
                self.members[member_id] = member
                if self._is_stable:
                    member.assignment = former.assignment
                    client.group_assigns(self.generation, member.assignment)
                    return True
        return False

    def leave(self, member_id: str) -> None:
        """A member leaves; its partitions go to others."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._change(member)

    def _change(self, gone: Member) -> None:
        """Divide the partitions among the others after a member has gone."""
        if gone.client.is_reconciled:
            self._aim()
        else:
            self._rebalance(None)
            self._complete()

    def _aim(self) -> None:
        """Begin an epoch of the `consumer` protocol, with the partitions that members are to have."""
        self.generation += 1
        self._assign()

    def _beat(self, member_id: str) -> None:
        """A member's heartbeat: it learns what to let go or, if nothing, what it gets."""
        member = self.members.get(member_id)
        if member is None:
            return
        again = member.client.heartbeat_seconds
        self._cluster.loop.call_outside(self._beat, member_id, delay=again)
        if not member.client.group_member_is_alive() or (member.client.reconciled or []) != member.told:
            return  # or it has not confirmed yet
        member.owned = member.told
        kept = [place for place in member.owned if place in member.assignment]
        if len(kept) < len(member.owned):
            # The brokers have the partitions as this member's until it has confirmed that it has let them go.
            self._tell(member, kept)
            return
        others = {place for other in self.members.values() if other is not member for place in other.owned}
        owned = [place for place in member.assignment if place not in others]
        if owned != member.owned or member.epoch != self.generation:
            member.owned, member.epoch = owned, self.generation
            self._tell(member, owned)

    def _tell(self, member: Member, places: list[Place]) -> None:
        member.told = places
        member.client.group_reconciles(member.epoch, places)

    def _rebalance(self, joining: str | None) -> None:
        self._is_stable = False
        for member_id, member in self.members.items():
            if member_id != joining:
                member.has_joined = False
                member.client.group_rebalances()

    def _complete(self) -> None:
        if self._is_stable or not all(member.has_joined for member in self.members.values()):
            return
        self._is_stable = True
        self.generation += 1
        self._assign()
        for member in self.members.values():
            member.client.group_assigns(self.generation, member.assignment)

    def _assign(self) -> None:
        members = sorted(self.members.items())
        topics = sorted({topic for _, member in members for topic in member.topics})
        places = [(topic, number) for topic in topics for number in range(self._cluster.count(topic))]
        if members and members[0][1].client.is_cooperative:
            is_reconciled = members[0][1].client.is_reconciled
            if not is_reconciled:  # members say when they join what they own, not what they were to get
                for _, member in members:
                    member.assignment = list(member.client.owned)
            _divide_again([member for _, member in members], places, moves=is_reconciled)
            return
        for _, member in members:
            member.assignment = []
        if members and members[0][1].client.assigns_by_range:
            for topic in topics:
                whole, rest = divmod(self._cluster.count(topic), len(members))
                first = 0
                for index, (_, member) in enumerate(members):
                    size = whole + (index < rest)
                    member.assignment += [(topic, number) for number in range(first, first + size)]
                    first += size
        else:
            for index, place in enumerate(places):
                members[index % len(members)][1].assignment.append(place)

    def _watch(self) -> None:
        now = self._cluster.loop.time()
        for member_id, member in list(self.members.items()):
            if member.client.group_member_is_alive():
                member.seen = now
            elif now - member.seen > member.client.session_seconds:
                del self.members[member_id]
                self._removed.add(member_id)
                member.client.group_expels(fenced=False)
                self._change(member)
        if not any(member.client.is_reconciled for member in self.members.values()):
            self._complete()
        self._is_watched = bool(self.members)
        if self._is_watched:
            self._cluster.loop.call_outside(self._watch, delay=_LOOK_SECONDS)

    def check(self, member_id: str, generation: int) -> int:
        """Whether offsets of this member are taken."""
        if generation < 0 and not member_id:
            return 0
        if member_id not in self.members:
            return KafkaError.UNKNOWN_MEMBER_ID
        member = self.members[member_id]
        if member.client.is_reconciled:
            return 0 if generation == member.epoch else KafkaError.STALE_MEMBER_EPOCH
        return 0 if generation == self.generation else KafkaError.ILLEGAL_GENERATION

    def commit(self, offsets: Mapping[Place, tuple[int, str]], member_id: str, generation: int) -> int:
        """Commit offsets outside of transactions."""
        if code := self.check(member_id, generation):
            return code
        self.offsets.update(offsets)
        for place, (offset, _) in offsets.items():
            self.first.setdefault(place, offset)
        return 0


def _divide_again(members: Sequence[Member], places: Sequence[Place], *, moves: bool) -> None:
    """Divide partitions evenly, and give as few as possible to others.

    Unless it `moves` at once, such a partition has no owner until the next rebalance, for which its former
    owner asks.
    """
    base, more = divmod(len(places), len(members))
    owned = {place for member in members for place in member.assignment}
    quotas = []
    for index, member in enumerate(sorted(members, key=lambda member: -len(member.assignment))):
        quota = base + (index < more)
        member.assignment = [place for place in member.assignment if place in places][:quota]
        quotas.append((member, quota))
    kept = {place for member in members for place in member.assignment}
    free = [place for place in places if place not in (kept if moves else owned)]
    for member, quota in quotas:
        while free and len(member.assignment) < quota:
            member.assignment.append(free.pop())


class Cluster:
    """The brokers of a world."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.random = loop.random
        #: Milliseconds that the brokers' clock has been moved by.
        self.clock_step = 0
        self.topics: dict[str, list[Partition]] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.ids: dict[str, Any] = {}
        self.groups: dict[str, Group] = {}
        self.transactional: dict[str, TransactionalId] = {}
        self._numbers = count(1)
        #: Seconds that markers take from the coordinator to a partition.
        self.marker_delay: Callable[[], float] = lambda: self.random.random() * 0.01
        #: Topics whose disks are full, and partitions without a leader: nothing can be appended.
        self.full: set[str | Place] = set()
        #: Told of what happens, for the story of a world.
        self.tell: Callable[[str], None] = lambda line: None

    def now_ms(self) -> int:
        """The brokers' clock: epoch milliseconds."""
        return EPOCH_MS + round(self.loop.time() * 1000) + self.clock_step

    def is_full(self, place: Place) -> bool:
        """Whether nothing can be appended to a partition."""
        return place in self.full or place[0] in self.full

    # ---- topics

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create a topic."""
        self.topics[topic] = [Partition(topic, number) for number in range(partitions)]
        self.configs[topic] = dict(configs)
        self.ids[topic] = Uuid(1, next(self._numbers))

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic."""
        logs = self.topics[topic]
        logs += [Partition(topic, number) for number in range(len(logs), partitions)]

    def count(self, topic: str) -> int:
        """The number of a topic's partitions; 0 if it doesn't exist."""
        return len(self.topics.get(topic, ()))

    def log(self, place: Place) -> Partition | None:
        """The log of a partition, if it exists."""
        topic, number = place
        logs = self.topics.get(topic, [])
        return logs[number] if number < len(logs) else None

    def group(self, name: str) -> Group:
        """A group, which exists from when anybody asks for it."""
        if name not in self.groups:
            self.groups[name] = Group(self, name)
        return self.groups[name]

    def append(self, place: Place, records: Sequence[Record]) -> list[int]:
        """Append records of a producer without transactions."""
        log = self.log(place)
        assert log is not None
        return log.append(records, self.now_ms())

    # ---- transactions

    def init_producer(self, name: str, timeout_ms: int) -> tuple[int, TransactionalId | None, int]:
        """`InitProducerId`: fence earlier producers; returns an error, the id, and the new epoch."""
        if timeout_ms > MAX_TIMEOUT_MS:
            return KafkaError.INVALID_TRANSACTION_TIMEOUT, None, -1
        known = self.transactional.get(name)
        if known is None:
            known = self.transactional[name] = TransactionalId(name, next(self._numbers))
        open_ = known.transaction
        if open_ is not None:
            if open_.is_open:
                known.epoch += 1
                self.tell(f"the transaction of {name} is aborted: another producer takes the id over")
                self._end(known, commits=False)
            return KafkaError.CONCURRENT_TRANSACTIONS, None, -1
        known.epoch += 1
        known.timeout_ms, known.last_commits = timeout_ms, None
        return 0, known, known.epoch

    def add_partition(
        self, known: TransactionalId, epoch: int, place: Place
    ) -> tuple[int, Transaction | None]:
        """`AddPartitionsToTxn`, or `AddOffsetsToTxn`: begins a transaction where there is none."""
        if epoch != known.epoch:
            return KafkaError.PRODUCER_FENCED, None
        transaction = known.transaction
        if transaction is not None and not transaction.is_open:
            return KafkaError.CONCURRENT_TRANSACTIONS, None
        if transaction is None:
            transaction = known.transaction = Transaction(known, epoch)
            self.loop.call_outside(self._time_out, known, transaction, delay=known.timeout_ms / 1000)
        transaction.partitions[place] = None
        return 0, transaction

    def produce(
        self, known: TransactionalId, epoch: int, place: Place, batch: int, records: Sequence[Record]
    ) -> tuple[int, list[int]]:
        """`Produce` within a transaction; a batch that is sent again is appended once."""
        log = self.log(place)
        if log is None:
            return KafkaError.UNKNOWN_TOPIC_OR_PART, []
        if log.epochs.get(known.producer_id, -1) > epoch:
            return KafkaError.INVALID_PRODUCER_EPOCH, []
        key = known.producer_id, epoch, batch
        if key in log.batches:
            return 0, log.batches[key]
        if self.is_full(place):
            return KafkaError.KAFKA_STORAGE_ERROR, []
        transaction = known.transaction
        if (
            transaction is None
            or not transaction.is_open
            or transaction.epoch != epoch
            or place not in transaction.partitions
        ):
            return KafkaError.INVALID_TXN_STATE, []
        log.epochs[known.producer_id] = epoch
        log.batches[key] = log.append(records, self.now_ms(), transaction)
        return 0, log.batches[key]

    def send_offsets(
        self, known: TransactionalId, epoch: int, group: Group, offsets: Mapping[Place, tuple[int, str]],
        member_id: str, generation: int,
    ) -> int:  # fmt: skip
        """`TxnOffsetCommit`: offsets that become visible with the transaction."""
        if epoch != known.epoch:
            return KafkaError.PRODUCER_FENCED
        if code := group.check(member_id, generation):
            return code
        transaction = known.transaction
        if transaction is None or not transaction.is_open:
            return KafkaError.INVALID_TXN_STATE
        transaction.offsets.setdefault(group.name, {}).update(offsets)
        for place in offsets:
            group.unstable.setdefault(place, set()).add(transaction)
        return 0

    def end_transaction(self, known: TransactionalId, epoch: int, *, commits: bool) -> int:
        """`EndTxn`."""
        if epoch != known.epoch:
            return KafkaError.PRODUCER_FENCED
        transaction = known.transaction
        if transaction is None:
            return 0 if known.last_commits is commits else KafkaError.INVALID_TXN_STATE
        if not transaction.is_open:
            if transaction.commits is commits:
                return KafkaError.CONCURRENT_TRANSACTIONS
            return KafkaError.INVALID_TXN_STATE
        self._end(known, commits=commits)
        return 0

    def _time_out(self, known: TransactionalId, transaction: Transaction) -> None:
        if known.transaction is transaction and transaction.is_open:
            known.epoch += 1
            self.tell(f"the transaction of {known.name} outlived its timeout: aborted")
            self._end(known, commits=False)

    def _end(self, known: TransactionalId, *, commits: bool) -> None:
        """Decide a transaction; its markers follow, one by one."""
        transaction = known.transaction
        assert transaction is not None
        transaction.is_open, transaction.commits = False, commits
        waiting = [*transaction.partitions, *transaction.offsets]
        if not waiting:
            known.transaction, known.last_commits = None, commits
        for where in waiting:
            self.loop.call_outside(self._mark, known, transaction, where, waiting, delay=self.marker_delay())

    def _mark(self, known: TransactionalId, transaction: Transaction, where: Any, waiting: list[Any]) -> None:
        commits = bool(transaction.commits)
        if isinstance(where, str):
            group = self.group(where)
            for place, offset in transaction.offsets[where].items():
                group.unstable[place].discard(transaction)
                if commits:
                    group.offsets[place] = offset
        else:
            log = self.log(where)
            if self.is_full(where):  # the coordinator tries again
                again = (known, transaction, where, waiting)
                self.loop.call_outside(self._mark, *again, delay=_LOOK_SECONDS)
                return
            if log is not None:
                log.mark(transaction, commits, self.now_ms())
                log.epochs[known.producer_id] = max(log.epochs.get(known.producer_id, -1), known.epoch)
        waiting.remove(where)
        if not waiting:
            known.transaction, known.last_commits = None, commits

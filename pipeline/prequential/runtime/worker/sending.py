"""How much a shard sends at a time: less after a transaction that outlived its timeout, and more again later.

A slow broker may take longer for a transaction than its timeout. The broker then aborts it, and the same
transaction would fail again. So the next attempt has more time, and later transactions have fewer outputs.
"""

from __future__ import annotations

#: Most outputs that may wait for the previous commit to end.
MOST_OUTPUTS = 100_000

#: Least number of outputs to which timeouts reduce a transaction: a round makes about as many.
LEAST_OUTPUTS = 1_000

#: Milliseconds after which the broker aborts an abandoned transaction. Until then the transaction withholds
#: records from read_committed readers. The time is longer than any pause of a healthy worker.
TRANSACTION_TIMEOUT_MS = 60_000

#: Most that the timeout grows by. Brokers accept 15 minutes by default.
_MOST_TIMES = 4

#: Share of the timeout within which a transaction counts as quick, so that the shard may send more.
_QUICK = 0.25


class SendingPace:
    """How many outputs a shard sends in a transaction, and the transaction's timeout.

    It outlives the shard's producer, because a producer whose transaction timed out is of no use any more.

    >>> pace = SendingPace()
    >>> pace.timed_out()
    >>> pace.most_outputs, pace.timeout_ms
    (25000, 120000)
    >>> pace.text
    'a transaction outlived its timeout (1 in a row): sending at most 25000 outputs at a time'
    >>> pace.done(2.0)
    >>> pace.done(2.0)
    >>> pace.most_outputs, pace.timeout_ms, pace.text
    (100000, 60000, None)
    """

    def __init__(self) -> None:
        self.most_outputs = MOST_OUTPUTS
        self.timeout_ms = TRANSACTION_TIMEOUT_MS
        self._in_a_row = 0

    @property
    def text(self) -> str | None:
        """What `/ready` says of it; None while the shard sends as much as it can."""
        if self.most_outputs == MOST_OUTPUTS:
            return None
        return (
            f"a transaction outlived its timeout ({self._in_a_row} in a row): "
            f"sending at most {self.most_outputs} outputs at a time"
        )

    def timed_out(self) -> None:
        """Send a quarter at a time, and give the next producer's transactions twice the time."""
        self._in_a_row += 1
        self.most_outputs = max(LEAST_OUTPUTS, self.most_outputs // 4)
        self.timeout_ms = min(_MOST_TIMES * TRANSACTION_TIMEOUT_MS, 2 * self.timeout_ms)

    def done(self, seconds: float) -> None:
        """Send twice as much at a time after a transaction that was quick."""
        if self.most_outputs == MOST_OUTPUTS or seconds > _QUICK * TRANSACTION_TIMEOUT_MS / 1000:
            return
        self._in_a_row = 0
        self.most_outputs = min(MOST_OUTPUTS, 2 * self.most_outputs)
        if self.most_outputs == MOST_OUTPUTS:
            self.timeout_ms = TRANSACTION_TIMEOUT_MS

    def refused(self) -> None:
        """Keep to the usual timeout: the broker accepts no longer one (`transaction.max.timeout.ms`)."""
        self.timeout_ms = TRANSACTION_TIMEOUT_MS

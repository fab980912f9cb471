"""What crosses the wire inwards: instances, predictions and labels as typed structs.

`Instance`, `Prediction` and `Label` are the form that the pipeline uses: ids are strings, `ts` is
integer epoch milliseconds or None. The `Wire…` forms accept all that the contract allows (integer
ids, RFC 3339 times); `topics.decoding` brings one to the other. Unknown fields are ignored. The
structs are never part of a reference cycle, so the garbage collector needn't know them (`gc=False`).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Union

import msgspec

#: Longest id or name, in bytes of UTF-8: keeps the join's memory per waiting prediction bounded.
MAX_NAME_BYTES = 256

#: Longest value of a record, in bytes; Kafka's own default limit of a message is near it.
MAX_VALUE_BYTES = 1 << 20

# msgspec counts characters, the contract bytes: this bound is necessary, `topics.decoding`
# looks at the bytes where a batch isn't plain ASCII.
Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME_BYTES)]

#: Epoch milliseconds within 100 million days of 1970, the range in which dates are defined
#: (ECMA-262, 21.4.1.1): wide enough for every clock, and safe to add durations to in 64 bits.
Milliseconds = Annotated[int, msgspec.Meta(ge=-8_640_000_000_000_000, le=8_640_000_000_000_000)]

#: Smallest probability of a label: its inverse is a weight, which is squared and added up.
MIN_PROPENSITY = 1e-9

#: Integers that are classes, with a bound: larger ones are rare, and `topics.decoding` counts their digits.
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

#: A class (string, integer, boolean) or, for regression, a number.
Target = Union[Name, Whole, bool, float]
#: The same without a bound.
WireTarget = Union[Name, int, bool, float]


class Instance(msgspec.Struct, gc=False):
    """An observation arrived."""

    #: Which input topic it is of, here and below.
    KIND: ClassVar[int] = 0

    stream: Name
    instance_id: Name
    ts: Milliseconds | None = None
    #: In 64 bits, as columns and snapshots have room for; the lowest stands for none.
    version: Annotated[int, msgspec.Meta(ge=-(2**63) + 1, le=2**63 - 1)] | None = None
    segments: dict[Name, Name] | None = None
    #: The probability with which it gets a label at all.
    label_propensity: Annotated[float, msgspec.Meta(ge=MIN_PROPENSITY, le=1)] | None = None


class Prediction(msgspec.Struct, gc=False):
    """A model said what it expects."""

    KIND: ClassVar[int] = 1

    stream: Name
    model: Name
    instance_id: Name
    y_pred: Target
    ts: Milliseconds | None = None
    y_proba: dict[Name, float] | None = None
    segments: dict[Name, Name] | None = None
    model_version: Union[Name, int, None] = None


class Label(msgspec.Struct, gc=False):
    """The truth came."""

    KIND: ClassVar[int] = 2

    stream: Name
    instance_id: Name
    y_true: Target
    ts: Milliseconds | None = None


class WireInstance(Instance, gc=False):
    """`Instance` as it may be written."""

    instance_id: Union[Name, int]  # type: ignore[assignment]
    ts: Union[Milliseconds, str, None] = None  # type: ignore[assignment]


class WirePrediction(Prediction, gc=False):
    """`Prediction` as it may be written."""

    y_pred: WireTarget
    instance_id: Union[Name, int]  # type: ignore[assignment]
    ts: Union[Milliseconds, str, None] = None  # type: ignore[assignment]


class WireLabel(Label, gc=False):
    """`Label` as it may be written."""

    y_true: WireTarget
    instance_id: Union[Name, int]  # type: ignore[assignment]
    ts: Union[Milliseconds, str, None] = None  # type: ignore[assignment]


Record = Union[Instance, Prediction, Label]

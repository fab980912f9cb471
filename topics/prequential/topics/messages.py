"""What crosses the wire inwards: instances, predictions and labels as typed structs.

`Instance`, `Prediction` and `Label` are the form that the pipeline uses: ids are strings, `ts` is
integer epoch milliseconds or None. The `Wire…` forms accept all that is allowed (integer
ids, RFC 3339 times); `prequential.topics.decoding` brings one to the other. Unknown fields are ignored. The
structs are never part of a reference cycle, so the garbage collector needn't know them (`gc=False`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, TypedDict, Union, get_args, get_type_hints

import msgspec

#: Longest id or name, in bytes of UTF-8: keeps the join's memory per waiting prediction bounded.
MAX_NAME_BYTES = 256

#: Longest value of a record, in bytes; Kafka's own default limit of a message is near it.
MAX_VALUE_BYTES = 1 << 20

#: Longest record of an input topic, in bytes. Kafka limits the bytes of a batch, we those of a value: a batch
#: of one record must have room for the largest value, its key (at most 256 bytes), 61 + 20 bytes of framing,
#: and headers that tracing may add. (Kafka's default, 1 MiB + 12 bytes, would refuse a value of 1 MiB.)
#: Readers of lines read no more of one.
INPUT_MESSAGE_BYTES = MAX_VALUE_BYTES + 16 * 1024

#: Deepest nesting of a value's objects and lists. How deep the decoder itself can go depends on the version
#: of Python, and on how deep the stack is already: this is less than that, and more than records need.
MAX_NESTING = 100

# msgspec counts characters, the limit is of bytes: this bound is necessary, `prequential.topics.decoding`
# looks at the bytes where a batch isn't plain ASCII.
Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME_BYTES)]

#: Epoch milliseconds within 100 million days of 1970, the range in which dates are defined
#: (ECMA-262, 21.4.1.1): wide enough for every clock, and safe to add durations to in 64 bits.
Milliseconds = Annotated[int, msgspec.Meta(ge=-8_640_000_000_000_000, le=8_640_000_000_000_000)]

#: Smallest probability of a label: its inverse is a weight, which is squared and added up.
MIN_PROPENSITY = 1e-9

#: Largest value at stake in an outcome: costs by it, added up as often as there may be, are finite.
MAX_AMOUNT = 1e100


class OptionalNumber(NamedTuple):
    """The declaration of an optional number: all that reads, stores and checks records follows from it.

    Streams that read a number refuse a record whose number isn't from `low` to `high`; others ignore it.
    """

    low: float = -MAX_AMOUNT
    high: float = MAX_AMOUNT
    #: The number of a record that has none.
    default: float = math.nan
    #: The field of the number that this one isn't below; a record has both or neither.
    above: str = ""
    #: The configuration key by which streams read it; else they read it for measures.
    key: str = ""


#: Integers that are classes or versions, with a bound: larger ones are rare; `prequential.topics.decoding`
#: counts their digits.
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

#: A predicted probability.
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]

#: How far rounding may bring a probability out of 0 … 1: it is clipped then.
ROUNDING = 1e-6

#: A probability as it may be written.
RoundedProbability = Annotated[float, msgspec.Meta(ge=-ROUNDING, le=1 + ROUNDING)]

#: Largest sum of one prediction's probabilities: above 1, as models in half precision round them.
MAX_PROBABILITY_SUM = 1.001

#: Sums below it are surely within the limit: what rounding adds to the sum of as many probabilities as a
#: value of `MAX_VALUE_BYTES` can hold is below 1e-10.
SUM_SURELY_WITHIN = MAX_PROBABILITY_SUM - 1e-9

#: Longest excerpt of a class in an error, in characters.
_QUOTED = 24

#: A class (string, integer, boolean) or, for regression, a number.
Target = Union[Name, Whole, bool, float]
#: The same without a bound, or the labels of a set.
WireTarget = Union[Name, int, bool, float, list[Any]]


class Instance(msgspec.Struct, gc=False):
    """An observation: something that models predict and that may get a label.

    Attributes
    ----------
    stream
        Name of the stream.
    instance_id
        ID of the instance, a string or an integer.
    ts
        Arrival, in epoch milliseconds or RFC 3339; default: the record time.
    version
        Integer that increases with each change of the instance before its label.
    segments
        Groups of the instance, values by key.
    label_propensity
        Probability that the instance gets a label, from 1e-9 to 1.

    Examples
    --------
    >>> msgspec.json.decode(b'{"stream":"elec2","instance_id":"17"}', type=Instance).ts is None
    True
    """

    #: Which input topic it is of, here and below.
    KIND: ClassVar[int] = 0

    stream: Name
    instance_id: Name
    ts: Milliseconds | None = None
    #: In 64 bits, as columns and snapshots have room for; the lowest stands for none.
    version: Annotated[int, msgspec.Meta(ge=-(2**63) + 1, le=2**63 - 1)] | None = None
    segments: dict[Name, Name] | None = None
    label_propensity: Annotated[float, msgspec.Meta(ge=MIN_PROPENSITY, le=1)] | None = None


class Prediction(msgspec.Struct, gc=False):
    """What a model predicts for an instance.

    Attributes
    ----------
    stream
        Name of the stream.
    instance_id
        ID of the instance, a string or an integer.
    model
        Name of the model.
    y_pred
        Predicted class (string, number or boolean), an array of labels or, for regression, a number.
    ts
        Time of the prediction, in epoch milliseconds or RFC 3339; default: the record time.
    y_proba
        Probability of each class, from 0 to 1; the sum is at most 1.001.
    segments
        Groups of the instance, values by key.
    model_version
        Version of the model.
    value
        Value at stake, from 0 to 1e100, for `cost_per_value`.
    y_lower, y_upper
        Bounds of a predicted interval, both or neither, for measures of intervals.
    quantiles
        Predicted numbers by level, such as `{"0.1": 3, "0.9": 7}`, for `wis`; they don't decrease.
    weight
        Weight in `weighted_mae`, from 0 to 1e100; default: 1.

    Examples
    --------
    >>> value = b'{"stream":"elec2","model":"nb","instance_id":"17","y_pred":"UP","y_proba":{"UP":0.8}}'
    >>> msgspec.json.decode(value, type=Prediction).y_proba
    {'UP': 0.8}
    """

    KIND: ClassVar[int] = 1

    stream: Name
    model: Name
    instance_id: Name
    y_pred: Target
    ts: Milliseconds | None = None
    y_proba: dict[Name, Probability] | None = None
    segments: dict[Name, Name] | None = None
    model_version: Union[Name, Whole, None] = None
    value: Annotated[Any, OptionalNumber(0.0, key="cost_per_value")] = None
    y_lower: Annotated[Any, OptionalNumber()] = None
    y_upper: Annotated[Any, OptionalNumber(above="y_lower")] = None
    quantiles: Any = None
    weight: Annotated[Any, OptionalNumber(0.0, default=1.0)] = None


class PredictionNumbers(TypedDict, total=False):
    """The numbers of `Prediction` as arguments of functions."""

    value: float | None
    y_lower: float | None
    y_upper: float | None
    weight: float | None


class Label(msgspec.Struct, gc=False):
    """The true class or number of an instance; one that comes again with another value is a revision.

    Attributes
    ----------
    stream
        Name of the stream.
    instance_id
        ID of the instance, a string or an integer.
    y_true
        As `y_pred`; null withdraws the label.
    ts
        Time of the label, in epoch milliseconds or RFC 3339; default: the record time.
    value
        Value at stake; it takes precedence over the prediction's.

    Examples
    --------
    >>> msgspec.json.decode(b'{"stream":"elec2","instance_id":"17","y_true":"UP","ts":1500}', type=Label)
    Label(stream='elec2', instance_id='17', y_true='UP', ts=1500, value=None)
    """

    KIND: ClassVar[int] = 2

    stream: Name
    instance_id: Name
    y_true: Union[Name, Whole, bool, float, None]
    ts: Milliseconds | None = None
    value: Annotated[Any, OptionalNumber(0.0, key="cost_per_value")] = None


class WireInstance(Instance, gc=False):
    """`Instance` as it may be written."""

    instance_id: Union[Name, int]  # type: ignore[assignment]
    ts: Union[Milliseconds, str, None] = None  # type: ignore[assignment]


class WirePrediction(Prediction, gc=False):
    """`Prediction` as it may be written."""

    y_pred: WireTarget  # type: ignore[assignment]
    instance_id: Union[Name, int]  # type: ignore[assignment]
    ts: Union[Milliseconds, str, None] = None  # type: ignore[assignment]
    y_proba: dict[Name, RoundedProbability] | None = None
    model_version: Union[Name, int, None] = None


class GivenProbabilities(msgspec.Struct, gc=False):
    """What a prediction says of probabilities, with whatever numbers: to find the one that is wrong."""

    y_proba: dict[Name, float] | None = None


class WireLabel(Label, gc=False):
    """`Label` as it may be written."""

    y_true: Union[WireTarget, None]  # type: ignore[assignment]
    instance_id: Union[Name, int]  # type: ignore[assignment]
    ts: Union[Milliseconds, str, None] = None  # type: ignore[assignment]


Record = Union[Instance, Prediction, Label]


def _numbers_of(struct: type[msgspec.Struct]) -> dict[str, OptionalNumber]:
    hints = get_type_hints(struct, include_extras=True).items()
    return {
        name: annotation
        for name, hint in hints
        for annotation in get_args(hint)
        if isinstance(annotation, OptionalNumber)
    }


#: By kind of record its numbers by field; and those of all kinds, whose order is that of columns.
NUMBERS_OF_KIND = tuple(_numbers_of(struct) for struct in (Instance, Prediction, Label))
NUMBERS = {name: number for numbers in NUMBERS_OF_KIND for name, number in numbers.items()}


def is_sum_too_large(y_proba: Mapping[str, float]) -> bool:
    """Whether probabilities (of 0 to 1) sum to more than `MAX_PROBABILITY_SUM`.

    Near the limit the sum is exact, so that it depends neither on the order of the classes nor on how
    this version of Python adds.

    >>> is_sum_too_large({"UP": 0.5, "DOWN": 0.501}), is_sum_too_large({"UP": 0.5, "DOWN": 0.502})
    (False, True)
    """
    values = y_proba.values()
    return sum(values) > SUM_SURELY_WITHIN and math.fsum(values) > MAX_PROBABILITY_SUM


def clipped(share: float) -> float:
    """A probability brought back to 0 … 1, where it is outside by at most `ROUNDING`; others as they are.

    >>> clipped(1.0000000000000002), clipped(-1e-7), clipped(0.5), clipped(1.1)
    (1.0, 0.0, 0.5, 1.1)
    """
    if 0 <= share <= 1 or not -ROUNDING <= share <= 1 + ROUNDING:
        return share
    return 0.0 if share < 0 else 1.0


def check_probabilities(y_proba: Mapping[str, float]) -> None:
    """Raise ValueError, in one sentence, unless these are probabilities of one prediction.

    Each is from 0 to 1, but for `ROUNDING`, and their sum is at most `MAX_PROBABILITY_SUM`.

    >>> check_probabilities({"UP": 0.8, "DOWN": -0.2})
    Traceback (most recent call last):
    ...
    ValueError: y_proba of 'DOWN' is -0.2: expected a probability from 0 to 1
    """
    for name, share in y_proba.items():
        if not 0 <= clipped(share) <= 1:
            shown = repr(name) if len(name) <= _QUOTED else f"{name[:_QUOTED]!r}…"
            raise ValueError(f"y_proba of {shown} is {share!r}: expected a probability from 0 to 1")
    if is_sum_too_large(y_proba):
        raise ValueError(
            f"y_proba sums to {math.fsum(y_proba.values())!r} over {len(y_proba)} classes: "
            f"expected at most {MAX_PROBABILITY_SUM}"
        )

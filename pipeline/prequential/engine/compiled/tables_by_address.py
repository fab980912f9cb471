"""How loops get tables: as the address of their arrays, instead of each array in a variable of its own.

To numba, a NamedTuple of arrays is a structure that holds seven numbers for each array. A loop that gets a
hundred arrays therefore has seven hundred parameters, and so has each function that it calls, though most of
them use three of the arrays. Compiling this took most of the time, and calls between loops were dear.

Here, such a NamedTuple is laid out in memory once, when Python calls the loop, and loops pass its address on.
An array is read from there where a loop uses it. What is laid out never changes while the loop runs, so that
the compiler may keep what it has read.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba.core.cgutils
import numba.core.imputils
import numba.extending
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.errors import NumbaNotImplementedError
from numba.extending import models

#: numba's modules without their type hints, which don't cover what is used here.
cgutils: Any = numba.core.cgutils
extending: Any = numba.extending
imputils: Any = numba.core.imputils

#: Number of bytes of an address and of a number.
_WORD = 8
#: Words of an array's description before its shape: memory info, parent, items, size of an item, data.
_WORDS_BEFORE_SHAPE = 5


class TablesByAddress(types.NamedTuple):
    """numba's type of a NamedTuple of arrays, or of such NamedTuples, that Python passes to a loop."""


#: How numba finds the type of a tuple.
_numbas_type_of_tuple: Any = extending.typeof_impl.dispatch(tuple)


@extending.typeof_impl.register(tuple)  # type: ignore[untyped-decorator]
def _type_of_tuple(value: Any, context: Any) -> Any:
    """The type of a tuple: for this package's NamedTuples of arrays alone, `TablesByAddress`."""
    kind: Any = _numbas_type_of_tuple(value, context)
    own = type(value).__module__.partition(".")[0] == "prequential"
    is_named: bool = isinstance(kind, types.BaseNamedTuple)
    if own and is_named and len(kind) and all(map(_is_laid_out, kind)):
        return TablesByAddress(tuple(kind), kind.instance_class)  # type: ignore[no-untyped-call]
    return kind


def _is_laid_out(kind: Any) -> bool:
    return isinstance(kind, (types.Array, TablesByAddress))


@extending.register_model(TablesByAddress)
class _Address(models.PrimitiveModel):
    """The address of the arrays' descriptions."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, cgutils.voidptr_t)  # type: ignore[no-untyped-call]


def _size(kind: Any) -> int:
    """Number of bytes that a table or an array's description takes."""
    if isinstance(kind, TablesByAddress):
        return sum(map(_size, kind))
    return _WORD * (_WORDS_BEFORE_SHAPE + 2 * kind.ndim)


@cache
def _bytes_of(context: Any, dtype: Any) -> int:
    """Number of bytes of an array's items: to find it, LLVM reads a module of its own."""
    size: int = context.get_abi_sizeof(context.get_data_type(dtype))
    return size


def _moved(builder: Any, address: Any, size: int) -> Any:
    return builder.gep(address, [ir.Constant(cgutils.intp_t, size)], inbounds=True) if size else address


def _item(context: Any, builder: Any, kind: Any, address: Any, index: int) -> Any:
    """The item of a table: the address of an inner table, or an array."""
    before = sum(_size(item) for item in tuple(kind)[:index])
    place, item = _moved(builder, address, before), kind[index]
    return place if isinstance(item, TablesByAddress) else _array(context, builder, item, place)


def _array(context: Any, builder: Any, kind: Any, place: Any) -> Any:
    """The array that is described at an address."""
    array = context.make_array(kind)(context, builder)

    def word(index: int, type_: Any = cgutils.intp_t) -> Any:
        address = _moved(builder, place, _WORD * index)
        loaded = builder.load(builder.bitcast(address, type_.as_pointer()))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    number = ir.Constant(cgutils.intp_t, _bytes_of(context, kind.dtype))
    array.itemsize = number
    array.data = word(4, array.data.type)
    shape = [word(_WORDS_BEFORE_SHAPE + axis) for axis in range(kind.ndim)]
    if kind.layout == "C":
        array.nitems = shape[0] if kind.ndim == 1 else word(2)
        strides = [number]
        for length in shape[:0:-1]:
            strides.insert(0, builder.mul(strides[0], length))
    else:
        array.nitems = word(2)
        strides = [word(_WORDS_BEFORE_SHAPE + kind.ndim + axis) for axis in range(kind.ndim)]
    array.shape = cgutils.pack_array(builder, shape)
    array.strides = cgutils.pack_array(builder, strides)
    if context.enable_nrt:
        array.meminfo, array.parent = word(0, array.meminfo.type), word(1, array.parent.type)
    else:
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()


@extending.lower_getattr_generic(TablesByAddress)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, kind: Any, address: Any, name: str) -> Any:
    index = kind.fields.index(name)
    item = _item(context, builder, kind, address, index)
    return imputils.impl_ret_borrowed(context, builder, kind[index], item)


@extending.lower_builtin("static_getitem", TablesByAddress, types.IntegerLiteral)  # type: ignore[untyped-decorator]
def _item_by_position(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind, (address, index) = signature.args[0], args
    item = _item(context, builder, kind, address, index)
    return imputils.impl_ret_borrowed(context, builder, signature.return_type, item)


@extending.unbox(TablesByAddress)  # type: ignore[untyped-decorator]
def _lay_out(kind: Any, value: Any, call: Any) -> Any:
    """Describe a table's arrays in memory that lasts as long as the call."""
    builder = call.builder
    size = ir.Constant(cgutils.intp_t, _size(kind))
    with builder.goto_entry_block():
        memory = builder.alloca(cgutils.int8_t, size)
        memory.align = _WORD
    failed = cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(32), 0))
    adapt = "nrt_adapt_ndarray_from_python" if call.context.enable_nrt else "numba_array_adaptor"
    adapt = getattr(call.pyapi, adapt)
    arrays = []

    def describe(table: Any, kind: Any, place: int) -> None:
        for index, item in enumerate(kind):
            part = call.pyapi.tuple_getitem(table, index)
            if isinstance(item, TablesByAddress):
                describe(part, item, place)
            else:
                adapted = adapt(part, _moved(builder, memory, place))
                builder.store(builder.or_(builder.load(failed), adapted), failed)
                arrays.append((item, place))
            place += _size(item)

    describe(value, kind, 0)
    is_error = cgutils.is_not_null(builder, builder.load(failed))
    with builder.if_then(is_error, likely=False):
        call.pyapi.err_set_string("PyExc_TypeError", f"expected {kind.instance_class.__name__} of arrays")

    # An address that the compiler can't follow: what it reads from there is written before, and never again.
    identity = ir.FunctionType(cgutils.voidptr_t, [cgutils.voidptr_t])
    address = builder.asm(identity, "", "=r,0,~{memory}", [memory], True)

    def clean_up() -> None:
        for item, place in arrays:
            array = _array(call.context, builder, item, _moved(builder, address, place))
            call.context.nrt.decref(builder, item, array)

    return extending.NativeValue(
        address, is_error=is_error, cleanup=clean_up if call.context.enable_nrt else None
    )


@extending.box(TablesByAddress)  # type: ignore[untyped-decorator]
def _refuse_to_return(kind: Any, address: Any, call: Any) -> Any:
    """Refuse to return a table: when Python would get it, nothing keeps what it was laid out from."""
    raise NumbaNotImplementedError(f"{kind}: a loop changes tables in place, and returns numbers")

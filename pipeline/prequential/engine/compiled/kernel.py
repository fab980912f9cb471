"""Compiled loops: how they are compiled, and how the tables that they work on grow.

*Tables*, which are NamedTuples of arrays of equal length, hold the state. Loops over their rows, which numba
compiles, update it. With `NUMBA_DISABLE_JIT=1`, or within `interpreted`, the same functions run as plain
Python.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar, Union, cast

import numpy as np
import numpy.typing as npt
from numba import njit, types
from prequential.engine.compiled.calls import with_bounds
from prequential.engine.compiled.libraries import Allocating, LibraryPart, Whole
from prequential.engine.compiled.loopcache import keep
from prequential.engine.compiled.tables_by_address import TablesByAddress  # noqa: F401  (registers the type)

Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.uint16]
Words = npt.NDArray[np.uint64]
Words32 = npt.NDArray[np.uint32]
Shorts = npt.NDArray[np.int16]

#: `njit` without its type hints, which don't cover all of its options.
_jit: Any = njit

Function = TypeVar("Function", bound=Callable[..., Any])
Table = TypeVar("Table", bound=tuple[Any, ...])
Growing = TypeVar("Growing", bound=Union[tuple[Any, ...], npt.NDArray[Any]])


def _once(compiled: Any) -> Any:
    """Compile calls from other loops only once, instead of once for each integer width and each constant."""
    template = compiled.get_call_template

    def widened(args: Any, kws: Any) -> Any:
        return template(tuple(map(_wide, args)), {name: _wide(kind) for name, kind in kws.items()})

    compiled.get_call_template = widened
    return compiled


def _wide(kind: Any) -> Any:
    """The type in which an argument is passed: integers become int64, except for uint64."""
    kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
    narrow = isinstance(kind, types.Integer) and kind != types.uint64
    return types.int64 if narrow else kind


def named(function: Function, owner: str) -> Function:
    """The function with the qualified name `OWNER.name`, for functions that a factory makes for owners.

    Compiled loops are cached and linked by their qualified names. Two loops with the same name could
    therefore be confused.

    >>> named(lambda: None, "window").__qualname__
    'window.<lambda>'
    """
    function.__qualname__ = f"{owner}.{function.__name__}"
    return function


def kernel(function: Function) -> Function:
    """Compile a loop that Python calls, once for each machine; the loop makes no arrays (see `allocating`).

    The compiler doesn't use `fastmath`, so results are those of the same loop in Python, to the last bit. The
    loop releases the interpreter's lock, so that other threads can run. Callers make sure that no loop
    divides by zero.

    The compiler omits numba's reference counts. Otherwise, every call between loops would count each array of
    each table up and down, which costs ten times as much as the loops themselves. A loop that allocates can't
    be compiled in this way, and numba reports it.

    An index outside of a table raises IndexError without the compiler (`NUMBA_DISABLE_JIT=1`) or with
    `NUMBA_BOUNDSCHECK=1`; otherwise, the behaviour is undefined.
    """
    return _from_python(_compiled(function, Whole, _nrt=False))


def inner(function: Function) -> Function:
    """Compile a loop that only other loops call: it becomes part of their code, without its own machine code.

    A call from Python runs the plain Python function, as tests and debuggers need it.
    """
    return _from_loops(_compiled(function, LibraryPart, _nrt=False, no_cpython_wrapper=True))


def inlined(function: Function) -> Function:
    """As `inner`, but the compiler inlines every call; otherwise it does so where the code is short.

    It is for short loops that many records pass: each call becomes a copy, which has to be compiled.
    """
    compiled = _compiled(function, LibraryPart, _nrt=False, no_cpython_wrapper=True, forceinline=True)
    return _from_loops(compiled)


def allocating(function: Function) -> Function:
    """Compile a loop that makes arrays for its own use, and that Python calls.

    It is like `kernel`, but with numba's reference counts.
    """
    return _from_python(_compiled(function, Allocating))


def _compiled(function: Function, compiler: Any, **flags: Any) -> Function:
    """Compile a function with a compiler of `libraries`. Parts aren't cached, because wholes contain them."""
    if compiler is not Allocating:
        flags["no_rewrites"] = True  # of expressions of whole arrays
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "pipeline_class": compiler}
    compiled = _jit(**options, **flags)(function)
    if compiled is function:
        return function
    if compiler is not LibraryPart:
        keep(compiled)
    _loops.append(compiled)
    return cast(Function, _once(compiled))


def _from_python(compiled: Any) -> Any:
    """Without the compiler, make indices outside of tables fail, because compiled loops don't check them."""
    return compiled if hasattr(compiled, "py_func") else with_bounds(compiled, Records)


def _from_loops(compiled: Any) -> Any:
    """Make calls from Python run the plain function, because the compiled one has no wrapper for Python."""
    if hasattr(compiled, "py_func"):
        compiled.__class__ = _plain_in_python(cast("Any", type(compiled)))
    return compiled


@cache
def _plain_in_python(dispatcher: Any) -> Any:
    def call(self: Any, *args: Any) -> Any:
        return _plain(self.py_func(*args))

    return type("Inner", (dispatcher,), {"__call__": call})


#: All loops that can be compiled.
_loops: list[Any] = []


@contextmanager
def interpreted() -> Iterator[None]:
    """Run all loops as plain Python within the block: with the same results, but a hundred times slower.

    No other thread may run a loop at the same time.
    """
    before: list[tuple[Any, Any]] = [(loop, type(loop)) for loop in _loops]
    for loop, kind in before:
        loop.__class__ = _interpreted(kind)
    try:
        # Hashes wrap around on purpose, which numpy would report.
        with np.errstate(over="ignore"):
            yield
    finally:
        for loop, kind in before:
            loop.__class__ = kind


@cache
def _interpreted(dispatcher: Any) -> Any:
    def call(self: Any, *args: Any) -> Any:
        return self.py_func(*args)

    return type("Interpreted", (dispatcher,), {"__call__": call, "interpreted": True})


def _plain(value: Any) -> Any:
    """The value with Python's numbers, which compiled loops return, instead of numpy's."""
    if isinstance(value, np.generic):
        return value.item()
    return tuple(map(_plain, value)) if type(value) is tuple else value


def capacity_for(rows: int, present: int = 0) -> int:
    """The number of rows to allocate: a power of two that fits `rows` and makes growing row by row cheap.

    >>> capacity_for(3), capacity_for(1000), capacity_for(5, 64)
    (16, 1024, 64)
    """
    return max(present, 16, 1 << max(0, rows - 1).bit_length())


#: Element types by the names of the array types above.
_ELEMENTS = {
    "Ints": "<i8", "Ints32": "<i4", "Shorts": "<i2", "Words": "<u8", "Words32": "<u4", "Codes": "<u2",
    "Bytes": "u1", "Floats": "<f8",
}  # fmt: skip


class Records(np.ndarray):
    """A table that is one array; its columns are attributes, as in `numpy.recarray`.

    `numpy.recarray` checks in Python for each attribute whether it is a column, which costs three times as
    much.
    """

    def __getattr__(self, name: str) -> Any:
        fields = self.dtype.fields
        if fields is None or name not in fields:
            raise AttributeError(f"{type(self).__name__} has no column {name!r}")
        return self.view(np.ndarray)[name]


def as_records(rows: Any) -> Any:
    """Structured rows as a table whose fields are attributes (a view, no copy); see `records`."""
    return rows.view(Records)


def records(schema: type[Table], rows: int, packed: bool = False) -> Table:
    """A table of zeros with the schema's columns as fields of records, row by row in memory.

    You use it like a NamedTuple of columns, `table.column[row]`, but it is one array. A call of a loop with
    many tables is much cheaper in this form, and the data of a row lie together in memory. `packed` leaves no
    gaps between fields or records. It is for tables of millions of rows that only loops use, because numpy
    copies such columns before it computes with them.

    >>> from typing import NamedTuple
    >>> class Points(NamedTuple):
    ...     x: Ints
    ...     kind: Bytes
    >>> points = records(Points, 3)
    >>> points.x[1] = 7
    >>> points.x, len(points)
    (array([0, 7, 0]), 3)
    >>> points.itemsize, records(Points, 3, packed=True).itemsize
    (16, 9)
    """
    fields = [(name, _ELEMENTS[_name(kind)]) for name, kind in schema.__annotations__.items()]
    dtype = np.dtype((np.record, np.dtype(fields, align=not packed)))
    return cast(Table, as_records(np.zeros(rows, dtype=dtype)))


def zeros(schema: type[Table], rows: int, **widths: int) -> Table:
    """A table of zeros with the schema's columns as arrays; `widths`: values per row, by name of column.

    >>> from typing import NamedTuple
    >>> class Lists(NamedTuple):
    ...     values: Floats
    ...     count: Ints
    >>> zeros(Lists, 1, values=3)
    Lists(values=array([[0., 0., 0.]]), count=array([0]))
    """
    elements = {name: _ELEMENTS[_name(kind)] for name, kind in schema.__annotations__.items()}
    shapes = {name: (rows, widths[name]) if name in widths else (rows,) for name in elements}
    return schema(*(np.zeros(shapes[name], elements[name]) for name in elements))


def _name(annotation: Any) -> str:
    return str(getattr(annotation, "__forward_arg__", annotation))


def columns_of(table: Any) -> dict[str, Any]:
    """A table's columns by name, as views; for a dict of columns, the dict itself.

    A table is a NamedTuple of arrays of equal length, or an array of records (`records`).
    """
    if isinstance(table, dict):
        return table
    if isinstance(table, np.ndarray):
        rows = table.view(np.ndarray)
        return {name: rows[name] for name in table.dtype.names or ()}
    return dict(zip(table._fields, table))


def as_columns(schema: type[Table], table: Table) -> Table:
    """A table as a NamedTuple, `schema`, of views of its columns: writing to them writes to the table."""
    return schema(*columns_of(table).values())


def grown(table: Growing, rows: int) -> Growing:
    """The table or column with at least `rows` rows, new ones zero; the same object if it has enough rows.

    The new number of rows is `capacity_for(rows)`.

    Raises
    ------
    RuntimeError
        If a table's columns differ in length.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Points(NamedTuple):
    ...     x: Ints
    >>> grown(Points(np.array([7])), 2).x[:3]
    array([7, 0, 0])
    """
    if isinstance(table, np.ndarray):
        return cast(Growing, _wider(table, rows))
    lengths = lengths_of(table)
    if min(lengths) != max(lengths):
        raise RuntimeError(f"columns of {type(table).__name__} have {lengths} rows: expected one length")
    if rows <= lengths[0]:
        return table
    return type(table)(*(_wider(column, rows) for column in table))


def lengths_of(tables: Iterable[Any]) -> list[int]:
    """Lengths of tables and of the columns of those that are NamedTuples."""
    lengths: list[int] = []
    for table in tables:
        lengths += [len(table)] if isinstance(table, np.ndarray) else map(len, table)
    return lengths


def of_one_length(rows: int, *tables: Any) -> list[Any]:
    """Tables that share an index, all with the length of the longest, and with at least `rows` rows.

    New rows are zero.

    >>> short, long = of_one_length(2, np.array([7]), np.arange(20))
    >>> len(short), len(long), short[:2]
    (32, 32, array([7, 0]))
    """
    lengths = lengths_of(tables)
    if rows > max(lengths) or min(lengths) < max(lengths):
        rows = capacity_for(max(rows, *lengths))
    return [
        _wider(table, rows) if isinstance(table, np.ndarray)
        else type(table)(*(_wider(column, rows) for column in table))
        for table in tables
    ]  # fmt: skip


def _wider(column: Any, rows: int) -> Any:
    present = len(column)
    if rows <= present:
        return column
    wider = np.zeros((capacity_for(rows, present), *column.shape[1:]), column.dtype)
    if column.nbytes and column.flags.c_contiguous:
        # As bytes: numpy copies records field by field, which takes eight times as long.
        _bytes_of(wider)[: column.nbytes] = _bytes_of(column)
    else:
        wider[:present] = column
    return wider.view(type(column))


def _bytes_of(column: Any) -> Bytes:
    """The memory of a contiguous column."""
    memory: Bytes = column.view(np.ndarray).reshape(-1).view(np.uint8)
    return memory


def copy_of_rows(table: Table, rows: Ints | slice, *unread: str) -> Table:
    """A copy of these rows alone, in this order, as a table of `len(rows)` rows.

    Columns of a NamedTuple that are named in `unread` are copied with no rows.
    """
    if isinstance(table, np.ndarray):
        return cast(Table, table[rows].copy())
    names: Any = zip(table._fields, table)  # type: ignore[attr-defined]
    return type(table)(
        *(_copy_of_column(column, slice(0) if name in unread else rows) for name, column in names)
    )


def _copy_of_column(column: Any, rows: Ints | slice) -> Any:
    return column[rows].copy() if isinstance(rows, slice) else np.take(column, rows, axis=0)


def row_bytes(table: Any, *unread: str) -> int:
    """Number of bytes that `copy_of_rows` copies for each row, of all columns except the `unread` ones."""
    columns = (column for name, column in columns_of(table).items() if name not in unread)
    return sum(column.itemsize * int(np.prod(column.shape[1:])) for column in columns)


def viewed(table: Table, rows: slice) -> Table:
    """These rows of a NamedTuple of columns as views: writing to them writes to the table."""
    return type(table)(*(column[rows] for column in table))


def of_rows(table: Table, rows: Ints) -> Table:
    """A copy of equal shape with these rows (numbers) in their places, and zeros elsewhere.

    Pages of zeros that no code writes to take almost no time or memory.
    """
    if isinstance(table, np.ndarray):
        copied = np.zeros(table.shape, table.dtype)
        copied[rows] = table[rows]
        return cast(Table, as_records(copied))
    columns = []
    for column in table:
        copied = np.zeros(column.shape, column.dtype)
        copied[rows] = column[rows]
        columns.append(copied)
    return type(table)(*columns)


def tables_of(tables: tuple[Any, ...], prefix: str = "") -> dict[str, npt.NDArray[Any]]:
    """All arrays of nested NamedTuples, by names such as `pool.key`, as snapshots write them."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, value in zip(tables._fields, tables):  # type: ignore[attr-defined]
        if isinstance(value, tuple):
            arrays |= tables_of(value, f"{prefix}{name}.")
        else:
            arrays[prefix + name] = value
    return arrays


def with_tables(tables: Table, arrays: dict[str, npt.NDArray[Any]], prefix: str = "") -> Table:
    """The same NamedTuples with these arrays, not copied, in place of their own, by the names of `tables_of`.

    Raises
    ------
    KeyError
        For a missing array; arrays with other names are ignored.
    """
    values = [
        with_tables(value, arrays, f"{prefix}{name}.") if isinstance(value, tuple) else arrays[prefix + name]
        for name, value in zip(tables._fields, tables)  # type: ignore[attr-defined]
    ]
    return type(tables)(*values)


def written(
    name: str, parameters: str, lines: Sequence[str], namespace: Mapping[str, Any], module: str, file: str
) -> Callable[..., Any]:
    """A function with these lines as its body; `namespace` has the names that they use.

    `module` and `file` are the caller's `__name__` and `__file__`. The cache drops the compiled function when
    that file, or a file that it imports, changes (`engine.compiled.loopcache`). The function's name
    contains a digest of its source, which distinguishes functions from different declarations.

    >>> twice = written("twice", "x", ["return add(x, x)"], {"add": lambda a, b: a + b}, __name__, __file__)
    >>> twice(2), twice.__name__[:6]
    (4, 'twice_')
    """
    body = "\n    ".join(lines) if lines else "pass"
    digest = hashlib.sha256(f"{parameters}\n{body}".encode()).hexdigest()[:16]
    name = f"{name}_{digest}"
    source = f"def {name}({parameters}):\n    {body}\n"
    names = {**namespace, "__name__": module, "__file__": file}
    exec(compile(source, file, "exec"), names)  # the lines come from this program, not from users
    function: Callable[..., Any] = names[name]
    return function

"""Move sixteen floats side by side from and to memory (:mod:`.simd_vector`).

After a change here, save ``tops.py`` too.
"""

# mypy: allow-untyped-decorators, allow-untyped-calls
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from calibrant.metrics.kernels.rows import intrinsic
from calibrant.metrics.kernels.simd_vector import FLOATS, INTEGERS, LANES, LANES_KIND

__all__ = ["announce", "load", "load_columns", "memory_of", "store"]


def _address(context: Any, builder: Any, kind: Any, array: Any, start: Any) -> Any:
    """Return the address of 16 floats from a place on, in an array or a :func:`memory_of`."""
    if isinstance(kind, types.Integer):
        data = builder.inttoptr(array, ir.FloatType().as_pointer())
    else:
        data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), FLOATS.as_pointer())


def _joined(builder: Any, parts: list[Any]) -> Any:
    """Join vectors one after the other into one vector."""
    while len(parts) > 1:
        count = 2 * parts[0].type.count
        order = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(count)))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [builder.shuffle_vector(left, right, order) for left, right in pairs]
    return parts[0]


def _turn(builder: Any, vectors: list[Any]) -> list[Any]:
    """Transpose a 4 × 4 matrix in each quarter of four vectors, a move that all processors have.

    Twice, numbers of the first vector alternate with those of the third, and so the other two.
    """
    for _ in range(2):
        (a, b, c, d), first, second = vectors, [], []
        for quarter in range(0, LANES, 4):
            first += [quarter, LANES + quarter, quarter + 1, LANES + quarter + 1]
            second += [quarter + 2, LANES + quarter + 2, quarter + 3, LANES + quarter + 3]
        orders = [ir.Constant(INTEGERS, order) for order in (first, second)]
        pairs = (a, c), (b, d)
        vectors = [
            builder.shuffle_vector(left, right, order) for left, right in pairs for order in orders
        ]
    return vectors


@intrinsic
def memory_of(_: Any, flat: Any) -> Any:
    """Return the memory address of an array as a number, for the functions below.

    Numba counts the references to an array at each call, even of a function that it inlines, and
    while vectors are in registers that spills them all. The array must outlive the number.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(flat), generate


@intrinsic
def load(_: Any, flat: Any, start: Any) -> Any:
    """Load 16 floats from a place in a flat array on."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        loaded = builder.load(_address(context, builder, signature.args[0], *values))
        loaded.align = 4
        return loaded

    return LANES_KIND(flat, start), generate


@intrinsic
def load_columns(_: Any, flat: Any, start: Any, columns: Any) -> Any:
    """Load four floats of each of 16 rows from a place in the first on, as four times 16 lanes.

    Row 4 j + i starts as part j of vector i; within the parts, rows and columns change places.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array, start, columns = values
        kind, pointer = signature.args[0], ir.VectorType(ir.FloatType(), 4).as_pointer()
        rows = []
        for row in range(LANES):
            place = builder.add(start, builder.mul(columns, columns.type(row)))
            address = _address(context, builder, kind, array, place)
            loaded = builder.load(builder.bitcast(address, pointer))
            loaded.align = 4
            rows.append(loaded)
        turned = _turn(builder, [_joined(builder, rows[i::4]) for i in range(4)])
        return context.make_tuple(builder, signature.return_type, turned)

    return types.UniTuple(LANES_KIND, 4)(flat, start, columns), generate


@intrinsic
def store(_: Any, values: Any, flat: Any, start: Any) -> Any:
    """Write 16 floats to a flat array, from a place on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes, array, start = arguments
        address = _address(context, builder, signature.args[1], array, start)
        builder.store(lanes, address).align = 4
        return context.get_dummy_value()

    return types.void(values, flat, start), generate


@intrinsic
def announce(_: Any, flat: Any, start: Any) -> Any:
    """Prefetch 16 floats to the second-level cache; they may lie past the end."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address = _address(context, builder, signature.args[0], *values)
        address = builder.bitcast(address, ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(fetch, [address, number(0), number(2), number(1)])
        return context.get_dummy_value()

    return types.void(flat, start), generate

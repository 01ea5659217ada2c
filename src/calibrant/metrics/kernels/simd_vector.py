"""Sixteen floats side by side as a type for numba's kernels, with the operations they need.

LLVM maps it to the processor's registers: one, two or four. Loops that are left to LLVM to
turn into vectors end with a remainder of single numbers, which for a row of a hundred scores takes
longer than the rest.

After a change here, save ``tops.py`` too: numba keeps machine code on disk until the
file of the function that was called changes.
"""

# mypy: allow-untyped-decorators, allow-untyped-calls
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core.imputils import lower_builtin
from numba.core.typing import templates

from calibrant.metrics.kernels.rows import intrinsic

__all__ = [
    "FLOATS",
    "INTEGERS",
    "LANES",
    "LANES_KIND",
    "count_equal",
    "keep_first",
    "larger",
    "largest",
    "power_of_two",
    "same",
    "smaller",
    "smallest",
    "sum_of_lanes",
    "where_larger",
]

LANES = 16
FLOATS = ir.VectorType(ir.FloatType(), LANES)
INTEGERS = ir.VectorType(ir.IntType(32), LANES)
_FIRST = ir.Constant(ir.IntType(32), 0)


class _Lanes(types.Type):
    """16 floats side by side, with +, − and · among themselves and with a float."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


LANES_KIND = _Lanes()


@extending.register_model(_Lanes)
class _LanesModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, FLOATS)


def _all(builder: Any, value: Any) -> Any:
    """Return the same number in all lanes."""
    kind = ir.VectorType(value.type, LANES)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _FIRST)
    return builder.shuffle_vector(
        one, ir.Constant(kind, ir.Undefined), ir.Constant(INTEGERS, [0] * LANES)
    )


def _arithmetic(operation: Any, instruction: str) -> None:
    """Teach numba an operator for lanes."""

    class Typing(templates.AbstractTemplate):
        def generic(self, arguments: Any, _: Any) -> Any:
            if LANES_KIND in arguments:
                return templates.signature(LANES_KIND, *arguments)
            return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right = (
            value
            if kind == LANES_KIND
            else _all(builder, context.cast(builder, value, kind, types.float32))
            for value, kind in zip(arguments, signature.args, strict=True)
        )
        return getattr(builder, instruction)(left, right, flags=("contract", "nsz"))

    templates.infer_global(operation)(Typing)
    for kinds in ((LANES_KIND, LANES_KIND), (LANES_KIND, types.Float), (types.Float, LANES_KIND)):
        lower_builtin(operation, *kinds)(generate)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")


def _by(emit: Callable[..., Any]) -> Callable[..., Any]:
    """Adapt a function of LLVM's builder and the values to numba's intrinsic interface."""
    return lambda _context, builder, _signature, values: emit(builder, *values)


def _inside(builder: Any, count: Any) -> Any:
    """Return which lanes come before ``count``."""
    limit = _all(builder, builder.trunc(count, ir.IntType(32)))
    return builder.icmp_signed("<", ir.Constant(INTEGERS, list(range(LANES))), limit)


def _halves(builder: Any, vector: Any) -> tuple[Any, Any]:
    half = vector.type.count // 2
    kind, other = ir.VectorType(ir.IntType(32), half), ir.Constant(vector.type, ir.Undefined)
    low, high = list(range(half)), list(range(half, 2 * half))
    return (
        builder.shuffle_vector(vector, other, ir.Constant(kind, low)),
        builder.shuffle_vector(vector, other, ir.Constant(kind, high)),
    )


def _together(builder: Any, vector: Any, join: Callable[..., Any]) -> Any:
    """Reduce all lanes to one number, half with half."""
    while vector.type.count > 1:
        vector = join(builder, *_halves(builder, vector))
    return builder.extract_element(vector, _FIRST)


def _take_larger(builder: Any, left: Any, right: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def _take_smaller(builder: Any, left: Any, right: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", left, right), left, right)


def _take_sum(builder: Any, left: Any, right: Any) -> Any:
    return builder.fadd(left, right)


@intrinsic
def same(_: Any, value: Any) -> Any:
    """Return a float in all lanes."""
    return LANES_KIND(value), _by(_all)


@intrinsic
def keep_first(_: Any, values: Any, count: Any, fill: Any) -> Any:
    """Return the first ``count`` lanes, and ``fill`` in the others."""

    def emit(builder: Any, lanes: Any, count: Any, fill: Any) -> Any:
        return builder.select(_inside(builder, count), lanes, _all(builder, fill))

    return LANES_KIND(values, count, fill), _by(emit)


@intrinsic
def larger(_: Any, left: Any, right: Any) -> Any:
    """Return the larger of two numbers, lane by lane; the right one where the left is NaN."""
    return LANES_KIND(left, right), _by(_take_larger)


@intrinsic
def smaller(_: Any, left: Any, right: Any) -> Any:
    """Return the smaller of two numbers, lane by lane; the right one where the left is NaN."""
    return LANES_KIND(left, right), _by(_take_smaller)


@intrinsic
def where_larger(_: Any, left: Any, right: Any, values: Any, others: Any) -> Any:
    """Return ``values`` in the lanes where left > right, and ``others`` elsewhere, also for NaN."""

    def emit(builder: Any, left: Any, right: Any, values: Any, others: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", left, right), values, others)

    return LANES_KIND(left, right, values, others), _by(emit)


@intrinsic
def largest(_: Any, values: Any) -> Any:
    """Return the largest number of all lanes."""
    return types.float32(values), _by(lambda b, lanes: _together(b, lanes, _take_larger))


@intrinsic
def smallest(_: Any, values: Any) -> Any:
    """Return the smallest number of all lanes."""
    return types.float32(values), _by(lambda b, lanes: _together(b, lanes, _take_smaller))


@intrinsic
def sum_of_lanes(_: Any, values: Any) -> Any:
    """Return the sum of all lanes, half with half."""
    return types.float32(values), _by(lambda b, lanes: _together(b, lanes, _take_sum))


@intrinsic
def power_of_two(_: Any, shifted: Any) -> Any:
    """Return 2^k if the lowest bits of a float are k + 127: these bits as its exponent."""

    def emit(builder: Any, lanes: Any) -> Any:
        left = ir.Constant(INTEGERS, [23] * LANES)
        return builder.bitcast(builder.shl(builder.bitcast(lanes, INTEGERS), left), FLOATS)

    return LANES_KIND(shifted), _by(emit)


@intrinsic
def count_equal(_: Any, values: Any, value: Any) -> Any:
    """Count the lanes that hold ``value``."""

    def emit(builder: Any, lanes: Any, value: Any) -> Any:
        found = builder.fcmp_ordered("==", lanes, _all(builder, value))
        bits = builder.zext(builder.bitcast(found, ir.IntType(LANES)), ir.IntType(64))
        return builder.ctpop(bits)

    return types.int64(values, value), _by(emit)

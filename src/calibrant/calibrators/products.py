"""Products that stay on one core, because waiting threads cost more than they save.

OpenBLAS gives longer products to its threads, which then wait busily for the next one: 50 ms of
processor time after each call, and on a busy machine ten times as long as they work. Up to 128
classes a product is made in pieces that are short enough; with more, threads have enough to do.
"""

from __future__ import annotations

import numpy as np

__all__ = ["dot", "rows_times", "sum_of_products"]

_PIECE = 1 << 18  # The most multiplications that OpenBLAS makes on one core.
_FEWEST_ROWS = 16  # A piece with fewer takes longer than its share of the whole.


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """Return Σ a b. OpenBLAS would use threads for vectors of more than 10,000 numbers."""
    return float(np.einsum("i,i->", a, b))


def rows_times(
    x: np.ndarray, matrix: np.ndarray, piece: int | None = None, fewest: int | None = None
) -> np.ndarray:
    """Return x @ matrix for x of shape (n, K).

    >>> rows_times(np.ones((3, 2)), np.array([[1.0, 2.0], [3.0, 4.0]]))[2]
    array([4., 6.])
    """
    whole, rest = _pieces(x, matrix.size, piece, fewest)
    matrix = np.ascontiguousarray(matrix)  # Else packing it takes as long as a small product.
    result = np.empty((len(x), matrix.shape[1]), x.dtype)
    done = len(x) - len(rest)
    np.matmul(whole, matrix, out=result[:done].reshape(*whole.shape[:2], matrix.shape[1]))
    np.matmul(rest, matrix, out=result[done:])
    return result


def sum_of_products(
    a: np.ndarray, b: np.ndarray, piece: int | None = None, fewest: int | None = None
) -> np.ndarray:
    """Return aᵀ b for a and b with the same number of rows.

    >>> sum_of_products(np.ones((3, 2)), np.array([[1.0, 2.0]] * 3))
    array([[3., 6.],
           [3., 6.]])
    """
    sizes = a.shape[1] * b.shape[1], piece, fewest
    (a_whole, a_rest), (b_whole, b_rest) = _pieces(a, *sizes), _pieces(b, *sizes)
    total: np.ndarray = a_rest.T @ b_rest
    total += np.matmul(a_whole.transpose(0, 2, 1), b_whole).sum(axis=0)
    return total


def _pieces(
    x: np.ndarray, per_row: int, piece: int | None, fewest: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return x as (pieces, rows, columns), and the rows that are left."""
    n, columns = x.shape
    size = (piece or _PIECE) // per_row
    size = max(1, n) if size < (fewest or _FEWEST_ROWS) else size
    end = n - n % size
    return x[:end].reshape(-1, size, columns), x[end:]

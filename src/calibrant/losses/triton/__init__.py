"""The pair sums as Triton kernels; only :mod:`calibrant.losses.fused` imports these modules.

A program owns ``ROWS`` examples i and a part of the columns j. It walks along that part in tiles of
``COLUMNS`` × ``ROWS`` pairs that live in registers, rows last: each thread then adds up its own
rows, and threads exchange nothing. It stores one number for each row (the
gradient of its part) and two for the whole program; ``finish`` sums these in a fixed order. There
are no atomic additions, so every run gives the same bits.

The kernels do not specialise on launch arguments, or every batch size would be compiled again. The
bandwidth is a constant of the kernel because Triton would otherwise round it to float32.
"""

__all__: list[str] = []

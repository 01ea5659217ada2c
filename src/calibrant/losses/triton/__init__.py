"""The pair sums as Triton kernels; only :mod:`calibrant.losses.fused` imports these modules.

A program owns ``ROWS`` examples i and a part of the columns j. It walks along that part in tiles of
``COLUMNS`` × ``ROWS`` pairs that live in registers, rows last: each thread then adds up its own
rows, and nothing is exchanged between threads. What it leaves is one number for each row (the
gradient of its part) and two for the whole program; ``finish`` adds these up in a fixed order. No
atomic additions, so every run gives the same bits.

Numbers given at each launch are not specialised on, or every batch size would compile anew. The
bandwidth is a constant of the kernel, as Triton would otherwise round it to float32.
"""

__all__: list[str] = []

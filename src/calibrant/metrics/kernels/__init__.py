"""Kernels that numba compiles; :mod:`calibrant.metrics.kernel_dispatch` decides when they run.

``rows`` adds up states, ``tops`` the bins of the top label, ``short_rows`` the latter for few
classes; ``simd_*`` is sixteen floats side by side, as a type for them.
"""

"""The reproduction of the papers: their numbers, claims and targets next to a study of our runs.

``python -m benchmarks.reproduction RUNS -o FOLDER`` writes the report of ``calibrant report`` with
these tables in it; in Python, ``build_study(records, extra_tables=reproduction_tables)``.
"""

from .tables import reproduction_tables

__all__ = ["reproduction_tables"]

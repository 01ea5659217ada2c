"""What the paper printed, to stand beside what was measured.

G. Jouet, C. Duhart, J. Staiano, F. Rousseaux, C. de Runz, *A Novel Gradient Accumulation Method
for Calibration of Named Entity Recognition Models*, IJCNN 2022, Table I (hal-03792800):
``paper_table_1.json`` holds its 5 methods × 4 widths × 5 corpora as they are printed.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["CITATION", "PRINTED", "paper_methods", "paper_value"]

# Metric → its place in the table's triples.
PRINTED = {"entity_f1": 0, "ece": 1, "apcr": 2}
CITATION = "Jouet et al., IJCNN 2022, Table I: BERT-base, batch 3, one run per cell"


def paper_value(corpus: str, method: str, width: int, metric: str) -> float | None:
    """A number of Table I; None where it has none.

    >>> paper_value("gum", "head_noise", 128, "apcr")
    1.89
    >>> paper_value("gum", "focal", 128, "apcr")
    """
    triple = _table()["values"].get(corpus, {}).get(method, {}).get(str(width))
    return None if triple is None or metric not in PRINTED else float(triple[PRINTED[metric]])


def paper_methods() -> list[str]:
    """The methods of Table I by our names, in its order."""
    return list(_table()["methods"])


@cache
def _table() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("paper_table_1.json").read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    return content

"""Exports: a run as one folder that onnxruntime, tokenizers and NumPy predict with.

:mod:`calibrant.tasks.export_folder` reads it; this part needs torch and writes it.
"""

from calibrant.export.tracing import run_by_onnxruntime
from calibrant.export.writing import Export, Quantised, export_run, fold_temperature

__all__ = ["Export", "Quantised", "export_run", "fold_temperature", "run_by_onnxruntime"]

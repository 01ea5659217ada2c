"""Figures of other data: metrics against the strength of a corruption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calibrant.study.curves import curve_of, grouped, labels_of, over_seeds, told_width
from calibrant.study.main_head import at_shared_widths
from calibrant.study.panels import Figure, Panel
from calibrant.study.runs import Run
from calibrant.study.shift_tables import OTHER, kind_title, measured_on, shift_measures, shifts_of

__all__ = ["shift_figures"]

# What only the order of confidences decides: a map hardly changes it, and its picture not at all.
_ORDER_ALONE = ("aurc", "auroc")


def shift_figures(unit: str, runs: Sequence[Run], by: Sequence[str] = ()) -> list[Figure]:
    """One per kind of corruption with several strengths."""
    found = []
    for kind, shift in shifts_of(runs).items():
        if kind == OTHER or len(shift) < 3:  # One strength makes no line.
            continue
        whole = measured_on(runs, shift)
        measured = at_shared_widths(whole)
        panels = []
        for measure in shift_measures(measured, shift):
            if measure.map != "identity" and measure.metric in _ORDER_ALONE:
                continue
            lines = []
            for label, cell in grouped(measured, labels_of(measured, by)).items():
                places = [
                    (float(strength), over_seeds(cell, replace(measure, part=part)))
                    for strength, part in shift.items()
                ]
                lines.append(curve_of(label, places))
            panels.append(Panel(measure.title, "Strength", measure.title, tuple(lines)))
        title = f"{kind_title(kind)} of growing strength, trained on {unit}"
        title += told_width(measured, whole)
        found.append(Figure(f"shift-{kind}", title, unit, "lines", tuple(panels)))
    return found

"""The report of the demo: all methods in a table and two pictures, then the baseline's audit."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.auditing import audit
from calibrant.calibrators import load_calibrator
from calibrant.demo.pictures import draw_reliability, draw_trade_off
from calibrant.demo.runs import BASELINE, run_path
from calibrant.demo.telling import LEGEND, Records, findings, method_table
from calibrant.experiments.run_folder import RunFolder
from calibrant.outputs import new_file
from calibrant.plots.canvas import save_figure
from calibrant.predictions import Predictions
from calibrant.report import write_report
from calibrant.report.markup import Markup, tag
from calibrant.report.tables import plain_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FILES", "write_demo_report"]

FILES = ("report.html", "trade-off.png", "trade-off.svg", "reliability.png")
_REPLICATES = 200  # For intervals: enough to see their width, a fifth of the usual time.


def write_demo_report(out: Path, records: Records, runs: Path) -> None:
    """Write :data:`FILES` into ``out``; ``runs`` is the folder of the runs."""
    first = records[BASELINE][0].recipe
    run = RunFolder(run_path(runs, first))
    test, ood = (Predictions.read(run.predictions(part)) for part in ("test", "ood"))
    temperature = load_calibrator(run.temperature)
    trade_off, reliability = draw_trade_off(records), draw_reliability(test, ood, temperature)
    pictures = {"trade-off": trade_off, "reliability": reliability}
    for name in FILES[1:]:
        with new_file(out / name, overwrite=True) as unfinished:
            save_figure(pictures[Path(name).stem], unfinished)
    who = f"the baseline, seed {first.seed}"
    shown = {
        "Performance against calibration; crosses are 95 % intervals over seeds.": trade_off,
        f"How often right, against how sure: {who}.": reliability,
    }
    options: dict[str, Any] = {"bootstrap": _REPLICATES, "provenance": {"recipe": first.key}}
    audits = {
        f"{who}, as trained": audit(test, **options),
        "temperature-scaled": audit(temperature.transform(test), **options),
    }
    opening = _opening(records, shown)
    write_report(out / "report.html", audits, overwrite=True, opening=opening)


def _opening(records: Records, pictures: Mapping[str, Figure]) -> Markup:
    shown = [
        tag(
            "figure",
            tag("img", src=_address(figure), alt=words, width="100%"),
            tag("figcaption", words),
        )
        for words, figure in pictures.items()
    ]
    return tag(
        "section",
        tag("h2", "All methods"),
        tag("p", LEGEND, class_="note"),
        plain_table("All methods", *method_table(records)),
        tag("ul", *(tag("li", sentence) for sentence in findings(records))),
        *shown,
    )


def _address(figure: Figure) -> str:
    file = BytesIO()
    figure.savefig(file, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()

"""``calibrant demo``: the main job on embedded data, in seconds and without a network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Add the command's options."""
    parser = commands.add_parser(
        "demo",
        help="audit and fix an overconfident network on embedded data",
        description="Train a small network on handwritten digits until it is overconfident, audit "
        "its confidences, fix them with temperature scaling, and write the report.",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("out/demo"), help="(out/demo)")
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    parser.add_argument("--seed", type=int, default=0, help="of the network and its data (0)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make predictions, audit them, fit a temperature, audit again."""
    from calibrant.audit import audit
    from calibrant.calibrators import Temperature
    from calibrant.cli.audit import print_audits
    from calibrant.demo import digit_predictions
    from calibrant.extras import require
    from calibrant.outputs import check_writable, make_folder
    from calibrant.plots import reliability_diagram
    from calibrant.report import write_report

    out: Path = args.output
    for name in ("sklearn", "matplotlib"):
        require(name, "demo", "The demo")  # Before anything is written.
    make_folder(out)
    for file in ("valid.npz", "test.npz", "temperature.json", "report.html", "reliability.png"):
        check_writable(out / file, overwrite=args.overwrite)
    print("A small network learns 600 noisy handwritten digits by heart …\n")
    valid, test = digit_predictions(args.seed)
    valid.write(out / "valid.npz", overwrite=args.overwrite)
    test.write(out / "test.npz", overwrite=args.overwrite)
    temperature = Temperature().fit(valid)
    temperature.save(out / "temperature.json", overwrite=args.overwrite)
    audits = {"before": audit(test), "after temperature": audit(temperature.transform(test))}
    print_audits(audits)
    write_report(out / "report.html", audits, overwrite=args.overwrite)
    drawn = reliability_diagram(audits["before"].state).get_figure(root=True)
    assert drawn is not None
    drawn.savefig(out / "reliability.png", dpi=150)
    print(
        f"\nOpen {out / 'report.html'} in a browser. With predictions of your own:\n"
        f"  calibrant audit {out / 'test.npz'} --report audit.html\n"
        f"  calibrant compare {out / 'valid.npz'} {out / 'test.npz'}\n"
        f"  calibrant fit {out / 'valid.npz'} --method temperature -o map.json\n"
        f"  calibrant apply map.json {out / 'test.npz'} -o calibrated.npz"
    )
    return 0

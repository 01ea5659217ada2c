"""How honest the confidences of whole entities are: products of words', and learned.

What is learned is a ``SpanCalibrator``.

calibrant train --data gum --model minilm --epochs 6 --batch 32 --learning-rate 1e-4 -o RUN
python benchmarks/entities.py RUN [RUN …] --json results/entities-cpu.json
"""

import argparse
import json
from pathlib import Path

from calibrant import Predictions
from calibrant.calibrators import load_calibrator
from calibrant.comparison import SpanCalibrator
from calibrant.experiments.record import circumstances
from calibrant.metrics import aurc, auroc, chance_ece, ece, entity_confidences
from calibrant.metrics.confidences import bin_confidences


def numbers(found):
    state = bin_confidences(found)
    return {
        "ece": float(ece(state)),
        "ece by chance": chance_ece(state)[0],
        "auroc": float(auroc(found)),
        "aurc": float(aurc(found)),
        "entities": len(found),
    }


def measure(run):
    valid, test = (Predictions.read(next(run.glob(f"{s}.*"))) for s in ("valid", "test"))
    words = load_calibrator(run / "calibrator.json")
    fitted = SpanCalibrator().fit(valid)
    return {
        "recipe": json.loads((run / "recipe.json").read_text()),
        "words": {
            "ece": float(ece(test)),
            f"ece after {words.name}": float(ece(words.transform(test))),
        },
        "product of words": numbers(entity_confidences(test)),
        f"product after {words.name}": numbers(entity_confidences(words.transform(test))),
        f"entity map ({fitted.reduction_})": numbers(fitted.transform(test)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    made = [measure(run) for run in args.runs]
    for run in made:
        print(f"{run['recipe']['data']}, seed {run['recipe']['seed']}")
        for name, found in list(run.items())[1:]:
            print(f"  {name:35}" + "  ".join(f"{k} {v:.4g}" for k, v in found.items()))
    if args.json:
        args.json.write_text(json.dumps({"runs": made, "circumstances": circumstances()}, indent=1))


if __name__ == "__main__":
    main()

"""Confidence maps of the same photographs by several finished runs, as in the poster of MbLS.

    python benchmarks/confidence_maps.py RUN RUN --data camvid --photographs 20 150 -o maps.png

A row for each photograph and run: image, truth, prediction, confidence (deeper is more confident)
and the confidence of mistakes. With ``--calibrated``, each run gets a second row with its
temperature. ``--corrupt motion-blur-3`` damages the photographs first. The numbers of each row are
printed: accuracy, mean confidence of right and of wrong pixels.
"""

import argparse
import json
from pathlib import Path

from calibrant.corruptions import IMAGE, known_corruption
from calibrant.metrics import Scene
from calibrant.plots import confidence_maps
from calibrant.tasks.segmentation.data import Pixels, SegmentationData
from calibrant.tasks.segmentation.pixel_predictions import pixel_logits
from calibrant.tasks.segmentation.scenes import CorruptedScenes, load_scenes
from calibrant.tasks.segmentation.segmenter import load_segmenter


def photographs(args):
    scenes = load_scenes(args.data, args.data_dir)
    test = scenes.parts["test"]
    if args.corrupt:
        test = CorruptedScenes(test, known_corruption(args.corrupt, IMAGE, of="images"))
    return scenes, [Pixels(test)[number] for number in args.photographs]


def temperature_of(run):
    return json.loads((run / "metrics.json").read_text())["results"]["temperature"]["temperature"]


def title_of(run):
    recipe = json.loads((run / "recipe.json").read_text())
    options = ", ".join(f"{key} {value}" for key, value in recipe["method_options"].items())
    return recipe["method"].replace("_", " ") + (f"\n{options}" if options else "")


def rows_of(run, scenes, shown, calibrated):
    """The scene of each photograph, as trained and perhaps with the run's temperature."""
    model, about = load_segmenter(run / "model")
    data = SegmentationData(scenes, moments=(about["mean"], about["deviation"]))
    scales = {"": 1.0, "\ntemperature": temperature_of(run)} if calibrated else {"": 1.0}
    for number, logits in enumerate(pixel_logits(model, shown, data.collate)):
        example = shown[number]
        for words, scale in scales.items():
            name = title_of(run) + words
            image, mask = example["pixel_values"], example["labels"]
            yield number, Scene.from_logits(image, logits / scale, mask, name)


def describe(scene):
    kept, wrong = scene.kept, scene.wrong
    right = kept & ~wrong
    numbers = (right.sum() / kept.sum(), *(scene.confidence[of].mean() for of in (right, wrong)))
    words = scene.name.replace("\n", ", ")
    return f"{words:50}accuracy {numbers[0]:.3f}, confidence {numbers[1]:.3f}, {numbers[2]:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--data", default="camvid")
    parser.add_argument("--data-dir")
    parser.add_argument("--photographs", type=int, nargs="+", default=[20])
    parser.add_argument("--corrupt", metavar="KIND-STRENGTH")
    parser.add_argument("--calibrated", action="store_true")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    scenes, shown = photographs(args)
    found = [row for run in args.runs for row in rows_of(run, scenes, shown, args.calibrated)]
    rows = [scene for _, scene in sorted(found, key=lambda row: row[0])]
    figure = confidence_maps(rows, scenes.labels)
    across = len(figure.axes) // len(rows)
    for row, scene in enumerate(rows):
        figure.axes[row * across].set_ylabel(scene.name, fontsize=6)
        print(describe(scene))
    figure.savefig(args.output, dpi=200)


if __name__ == "__main__":
    main()

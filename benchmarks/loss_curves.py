"""Draw a run that collapses, one that learns late and one that learns.

The picture is in docs/findings/papers-setting.md.

python benchmarks/loss_curves.py docs/images/collapse.png
"""

import sys

import matplotlib.pyplot as plt

from findings import records, value

# Method, seed and warm-up of the runs on WNUT17, and how they are drawn.
RUNS = {
    ("cross_entropy", 2, 0.0): ("cross-entropy, seed 2: collapsed", "-"),
    ("head_noise", 2, 0.0): ("∇Acc, seed 2: learns late", "--"),
    ("cross_entropy", 0, 0.06): ("cross-entropy with warm-up, seed 0: learns", ":"),
}


def chosen():
    """The recorded runs of RUNS, with the label and the line of each."""
    for record in records("paper-setting", "paper-setting-more"):
        recipe = record["recipe"]
        shown = RUNS.get((recipe["method"], recipe["seed"], recipe["warm_up"]))
        usual = recipe["head_width"] == 128 and recipe["dtype"] == "bfloat16"
        plain = usual and not recipe["method_options"] and recipe["head_activation"] != "none"
        curve = record["training"].get("loss_curve")
        if shown and plain and curve and recipe["data"] == "wnut17" and "mpnet" in recipe["model"]:
            yield record, curve, *shown


def draw(path):
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for record, curve, label, line in chosen():
        steps = [curve["every"] * (i + 1) for i in range(len(curve["losses"]))]
        axes.plot(
            steps, curve["losses"], line, label=f"{label} (F1 {value(record, 'entity_f1'):.2f})"
        )
    axes.set(xlabel="step", ylabel="mean training loss", ylim=(0, 1))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(sys.argv[1])

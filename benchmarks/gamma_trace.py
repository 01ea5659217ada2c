"""Where γ-Net takes γ, and where each calibration error would have it go, step by step.

    python benchmarks/gamma_trace.py --data cifar10 --data-dir DATA -o gamma-trace.jsonl

A small convolutional network with features of --width (or a network by name, --model) is trained
with FLγ. Each line is a stretch of steps: mean and largest γ, confidence and accuracy on held-out
batches, and for each error the slope of its look-ahead value when every γ grows by the same little:
mean over steps, and mean over standard deviation. A positive slope lowers γ. With --rate 0 γ stays
where it begins (about 0.25 / τ), and all errors are asked on the same path.
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

from calibrant.experiments.recipe import Recipe
from calibrant.experiments.recipe_parts import build_method, schedule_of
from calibrant.experiments.record import circumstances
from calibrant.methods import Dece, MetaRegularization, Sece
from calibrant.tasks.image.classifier import ImageClassifier
from calibrant.tasks.image.task import Image
from calibrant.training.loop import Loop

ERRORS = {
    "sece": Sece(),
    "dece": Dece(),
    "dece, accuracy constant": Dece(accuracy_gradient=False),
}


class Shifted(nn.Module):
    """γ of a γ-Net plus one number, for the slope along which all of them grow."""

    def __init__(self, net):
        super().__init__()
        self.net = [net]  # Not a part: the shift is the only parameter.
        self.shift = nn.Parameter(torch.zeros(()))
        self.gamma = None

    def forward(self, features):
        with torch.no_grad():
            self.gamma = self.net[0](features)
        return self.gamma + self.shift


def small_network(data, width, seed):
    torch.manual_seed(seed)
    sizes = [data.shape.channels, 32, 64, width]
    layers = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    encoder = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return ImageClassifier(encoder, nn.Linear(width, len(data.labels)))


def watch(method, device):
    """What each outer step of ``method`` sees, in a list that grows."""
    probes = {name: MetaRegularization(error) for name, error in ERRORS.items()}
    for probe in probes.values():
        probe.gamma_net = Shifted(method.gamma_net).to(device)
    seen, plain = [], method.outer_step

    def outer_step(step):
        row = {}
        for name, probe in probes.items():
            row[name] = (probe.hypergradient(step)[0] / probe.look_ahead_rate).item()
            gamma = probe.gamma_net.gamma
        confidence, predicted = step.holdout.logits.float().softmax(-1).max(-1)
        row |= {"gamma": gamma.mean().item(), "largest": gamma.max().item()}
        right = (predicted == step.holdout.labels).float()
        row |= {"confidence": confidence.mean().item(), "accuracy": right.mean().item()}
        seen.append(row)
        plain(step)

    method.outer_step = outer_step
    return seen


def summary(rows):
    values = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    found = {name: float(values[name].mean()) for name in ("gamma", "confidence", "accuracy")}
    found["largest"] = float(values["largest"].max())
    for name in ERRORS:
        slope, spread = values[name].mean(), values[name].std()
        found[name] = [float(slope), float(slope / spread) if spread else 0.0]
    return {
        name: [float(f"{v:.4g}") for v in value] if isinstance(value, list) else round(value, 4)
        for name, value in found.items()
    }


def main(args):
    options = {"learning_rate": args.rate, "temperature": args.temperature}
    if args.method == "gamma_net_dece":
        options["accuracy_gradient"] = not args.constant_accuracy
    recipe = Recipe.from_dict({
        "task": "image", "data": args.data, "model": args.model or "lenet", "method": args.method,
        "method_options": options, "seed": args.seed, "epochs": args.epochs, "batch": args.batch,
        "learning_rate": 0.4, "warm_up": 0.2, "augment": "crop+flip", "image_size": args.size,
        "dtype": "float32",
    })  # fmt: skip
    task = Image()
    data = task.prepare(recipe, args.data_dir)
    network = (
        task.build_model(recipe, data) if args.model else small_network(data, args.width, args.seed)
    )
    windows, held = data.windows(args.device)
    method = build_method(recipe)
    loop = Loop(
        network, method, windows, schedule_of(recipe), seed=args.seed, graph=False, holdout=held
    )
    seen = watch(loop.method, args.device)
    stretches = []
    for number in loop.steps():
        if number % args.every == 0 or number == len(loop.order):
            stretches.append({"step": number, **summary(seen)})
            print(json.dumps(stretches[-1]), flush=True)
            seen.clear()
    found = {"arguments": {k: v for k, v in vars(args).items() if k not in ("output", "data_dir")}}
    found |= {"stretches": stretches, "circumstances": circumstances()}
    if args.output:
        with Path(args.output).open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--data-dir")
    parser.add_argument("--model", help="a network by name; without one, the small one")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--size", type=int, default=16, help="side of the images; 0: as they are")
    parser.add_argument("--method", default="gamma_net_dece")
    parser.add_argument("--constant-accuracy", action="store_true", help="DECE's, to γ-Net")
    parser.add_argument("--rate", type=float, default=1e-4, help="of γ-Net's Adam")
    parser.add_argument("--temperature", type=float, default=1.0, help="τ")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--every", type=int, default=250)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-o", "--output")
    main(parser.parse_args())

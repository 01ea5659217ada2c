"""Images per second of the lean loop on a GPU: eager, compiled, and captured as a CUDA graph.

    python benchmarks/image_speed.py --model resnet18 --batch 512
    python benchmarks/image_speed.py --model resnet18_small_stem --size 64 --classes 200
    python benchmarks/image_speed.py --read tiny-imagenet

Random images, by default of CIFAR-10's size: speed does not depend on what they show. Augmentation,
loss, backward pass and optimizer are all in a step; "batches alone" only gathers, augments and
normalises images. With ``--read`` it measures how long a data set takes to read, and nothing else.
The share of the chip's limit takes the operations of convolutions and matrix products, three times
those of the forward pass, over the dense peak of bfloat16.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from calibrant.experiments.record import circumstances
from calibrant.methods import create
from calibrant.tasks.image.classifier import Shape, build_classifier
from calibrant.tasks.image.pictures import load_pictures
from calibrant.training.images import Images
from calibrant.training.loop import Loop
from calibrant.training.schedule import Schedule

PEAK = 989.4e12  # H100 and H200 SXM, dense bfloat16
WARM_UP = 5
METHODS = ("cross_entropy", "sece", "input_mixup", "gamma_net_sece")


def random_images(args, count=8192):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (count, args.size, args.size, 3), np.uint8)
    normal = {"mean": [127.5] * 3, "deviation": [74.0] * 3}
    augment = frozenset({"crop", "flip"})
    classes = random.integers(0, args.classes, count)
    return Images(pixels, classes, args.device, **normal, augment=augment)


def network_of(args):
    return build_classifier(args.model, Shape(3, args.size), args.classes)


def forward_operations(args):
    """Of one image."""
    network = network_of(args).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(1, 3, args.size, args.size))
    return counter.get_total_flops()


def measure_batches(args):
    """Of the loader alone: what a step does before the network."""
    images = random_images(args)
    rows = torch.randint(0, len(images), (args.steps, args.batch), device=args.device)
    wait = torch.cuda.synchronize if images.device.type == "cuda" else lambda: None
    images.batch(rows[0], images.longest)
    wait()
    began = time.perf_counter()
    for chosen in rows:
        images.batch(chosen, images.longest)
    wait()
    taken = (time.perf_counter() - began) / args.steps
    return {
        "method": "batches alone",
        "milliseconds_per_step": round(1e3 * taken, 2),
        "images_per_second": round(args.batch / taken),
    }


def measure_reading(name):
    began = time.perf_counter()
    pictures = load_pictures(name)
    taken = time.perf_counter() - began
    images = sum(map(len, pictures.images.values()))
    return {
        "read": Path(name).name,
        "images": images,
        "seconds": round(taken, 1),
        "images_per_second": round(images / taken),
    }


def measure(args, method, compiled, graph):
    images = random_images(args)
    network = network_of(args).to(memory_format=torch.channels_last)
    if compiled:
        network.encoder.compile()
    steps = WARM_UP + args.steps
    epochs = -(-steps * args.batch // len(images))
    schedule = Schedule(
        epochs=epochs, batch=args.batch, learning_rate=0.1, optimizer_name="sgd", clip=0.0,
        decay="cosine", dtype="bfloat16",
    )  # fmt: skip
    made = create(method)
    held = images if made.needs_holdout else None
    began = time.perf_counter()
    loop = Loop(network, made, images, schedule, graph=graph, holdout=held)
    queue = loop.steps()
    for _ in range(WARM_UP):
        next(queue)
    loop.wait()
    ready = time.perf_counter()
    for _ in range(args.steps):
        next(queue)
    loop.wait()
    taken = (time.perf_counter() - ready) / args.steps
    captured = bool(loop.replays)
    loop.close()
    return {
        "method": method,
        "compiled": compiled,
        "captured": captured,
        "first_steps_seconds": round(ready - began, 1),
        "milliseconds_per_step": round(1e3 * taken, 2),
        "images_per_second": round(args.batch / taken),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--read", metavar="DATA", nargs="+", default=())
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--json", type=Path, metavar="PATH")
    args = parser.parse_args()
    rows = [measure_reading(name) for name in args.read] or measure_training(args)
    if args.json is not None:
        about = {"model": args.model, "size": args.size, "classes": args.classes}
        content = {**about, "batch": args.batch, "rows": rows, **circumstances()}
        args.json.write_text(json.dumps(content, indent=1) + "\n")
    elif args.read:
        print(*map(json.dumps, rows), sep="\n")


def measure_training(args):
    torch.backends.cudnn.benchmark = True
    operations = 3 * forward_operations(args)
    cuda = args.device.startswith("cuda")
    ways = [(c, g) for c in (False, True) for g in ((False, True) if cuda else (False,))]
    rows = [measure_batches(args)]
    print(json.dumps(rows[0]), flush=True)
    for compiled, graph in ways:
        if args.compile in ("both", "yes" if compiled else "no"):
            for method in METHODS if graph or not cuda else METHODS[:1]:
                row = measure(args, method, compiled, graph)
                row["share_of_peak"] = round(row["images_per_second"] * operations / PEAK, 3)
                rows.append(row)
                print(json.dumps(row), flush=True)
    return rows


if __name__ == "__main__":
    main()

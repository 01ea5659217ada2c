"""Honest confidences on damaged images: which copies and which signals help on an unseen kind?

    python benchmarks/shift_images.py collect narrow_resnet 0 cifar10.npz OUT.npz
    python benchmarks/shift_images.py study OUT.npz … -o shift-images.jsonl
    python benchmarks/shift_images.py table shift-images.jsonl

``collect`` trains one network of ``NETWORKS`` on ``train_images`` of an npz (five to ten minutes
on one core), or loads it with ``--weights``. It keeps logits, the signals of a run, and moments
(mean and deviation of each channel) of inner layers, for parts of the training, validation and test
images: clean, and with each corruption.

``study`` always leaves the tested kind out of the fit. ``damage`` is a signal: a small network
reads the moments and says how likely damage has changed the prediction. It learned that from
training images under random kinds, without labels, so no tested kind and no validation image. By
default these are the five kinds of ``RANDOM_KINDS``; ``three`` has filters, waves and tones alone,
``four`` blocks too. ``mix`` adds copies of validation with one of the random kinds for each image.
``as calibrant train`` has the copies that it makes: five of the ten kinds, and the mix. ``strict``
leaves out, of the signal and of the mix, the random kinds that resemble the tested one. ``oracle``
knows kind and strength. ``rule`` is whether the rule of `calibrant train` takes the calibrator, and
``as the rule chooses`` has the weight of clean rows that the rule found, where it does.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from calibrant import Predictions
from calibrant.calibrators import ShiftAware, Temperature
from calibrant.comparison import select_calibrator
from calibrant.corruptions import IMAGE, IMAGE_COPIES
from calibrant.corruptions.counter_random import uniform
from calibrant.corruptions.image import corrupt_images
from calibrant.corruptions.names import RANDOM_KINDS
from calibrant.experiments.record import circumstances
from calibrant.metrics import ece
from calibrant.tasks.damage_signal import DamageReader, learned_from
from calibrant.tasks.feature_signals import _centres, feature_signals
from calibrant.tasks.scoring import SIGNALS

STRENGTHS = (1, 3, 5)
MIX = "random-mix"
KINDS = tuple(kind for kind in IMAGE if not kind.startswith("random-"))
NEAREST = {
    "random-filter": ("gaussian-blur", "defocus-blur", "motion-blur", "pixelate"),
    "random-waves": ("gaussian-noise", "shot-noise", "impulse-noise"),
    "random-tones": ("contrast", "brightness"),
    "random-blocks": ("pixelate", "jpeg"),
    "random-veils": ("contrast", "brightness"),
}
CLEAN = "clean"
MIXED = tuple(name for name in IMAGE_COPIES if name.startswith(MIX))
SPLITS, ROWS_OF_A_PART = ("train", "valid", "test"), 3000
TRAINED = 45_000  # Images that the network is trained on; the others are for validation.
ROWS = 1 << 14
BATCH = 100
CHOSEN = "as the rule chooses"


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.c2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.n1, self.n2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.skip: nn.Module = nn.Identity()
        if before != width or stride != 1:
            shortcut = nn.Conv2d(before, width, 1, stride, bias=False)
            self.skip = nn.Sequential(shortcut, nn.BatchNorm2d(width))

    def forward(self, images: Tensor) -> Tensor:
        """Return the activations after the block."""
        inside = self.n2(self.c2(functional.relu(self.n1(self.c1(images)))))
        return functional.relu(inside + self.skip(images))


class NarrowResNet(nn.Module):
    """One block each of 16, 32 and 64 channels."""

    rate, optimizer = 0.2, "sgd"

    def __init__(self) -> None:
        super().__init__()
        first = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.stem = nn.Sequential(first, nn.BatchNorm2d(16), nn.ReLU())
        self.layer1 = nn.Sequential(Block(16, 16, 1))
        self.layer2 = nn.Sequential(Block(16, 32, 2))
        self.layer3 = nn.Sequential(Block(32, 64, 2))
        self.fc = nn.Linear(64, 10)

    def inner(self) -> list[nn.Module]:
        """Return the layers whose moments are kept."""
        return [self.stem, self.layer1, self.layer2, self.layer3]

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        after = self.layer3(self.layer2(self.layer1(self.stem(images))))
        logits: Tensor = self.fc(after.mean((2, 3)))
        return logits


class MixLayer(nn.Module):
    """Mixes places, then channels."""

    def __init__(self, width: int, places: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.t = nn.Sequential(nn.Linear(places, places), nn.ReLU(), nn.Linear(places, places))
        self.c = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows (images, places, width)."""
        rows = rows + self.t(self.n1(rows).transpose(1, 2)).transpose(1, 2)
        mixed: Tensor = rows + self.c(self.n2(rows))
        return mixed


class SmallMixer(nn.Module):
    """An MLP-Mixer of four layers with convolutional patches and no batch normalisation."""

    rate, optimizer = 1.5e-3, "adamw"

    def __init__(self) -> None:
        super().__init__()
        patches = nn.Conv2d(32, 96, 4, 2, 1)
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), patches)
        self.layers = nn.ModuleList(MixLayer(96, 64) for _ in range(4))
        self.norm, self.fc = nn.LayerNorm(96), nn.Linear(96, 10)

    def inner(self) -> list[nn.Module]:
        """Return the layers whose moments are kept."""
        return [self.stem, *self.layers]

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        rows = self.stem(images).flatten(2).transpose(1, 2)
        for layer in self.layers:
            rows = layer(rows)
        logits: Tensor = self.fc(self.norm(rows).mean(1))
        return logits


NETWORKS: dict[str, tuple[type[Any], int]] = {  # With the epochs of their training.
    "narrow_resnet": (NarrowResNet, 8),
    "small_mixer": (SmallMixer, 10),
}


class Images:
    """The parts of the data, as values in [0, 1]."""

    def __init__(self, path: Path, trained: int = TRAINED) -> None:
        arrays = np.load(path)
        order = np.random.default_rng(0).permutation(len(arrays["train_labels"]))
        rows = {"train": order[:trained], "valid": order[TRAINED:]}
        self.parts = {s: self._part(arrays, "train", r) for s, r in rows.items()}
        self.parts["test"] = self._part(arrays, "test", np.arange(len(arrays["test_labels"])))
        pixels = self.parts["train"][0]
        self.mean = pixels.mean((0, 2, 3), keepdim=True)
        self.deviation = pixels.std((0, 2, 3), keepdim=True)

    @staticmethod
    def _part(arrays: Any, split: str, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        pixels = torch.as_tensor(arrays[f"{split}_images"][rows]).permute(0, 3, 1, 2)
        return pixels.float() / 255, torch.as_tensor(arrays[f"{split}_labels"][rows])

    def normal(self, pixels: Tensor) -> Tensor:
        """Return pixels as the network takes them."""
        values = (pixels - self.mean.to(pixels)) / self.deviation.to(pixels)
        return values.contiguous(memory_format=torch.channels_last)


def train(network: Any, images: Images, epochs: int, seed: int, device: str) -> None:
    """Train with random crops and mirrored images, cosine decay after a rise, in bfloat16."""
    pixels, labels = images.parts["train"]
    padded = functional.pad(images.normal(pixels), (4,) * 4, mode="reflect")
    batch, draw = 128, torch.Generator().manual_seed(seed)
    steps = epochs * (len(labels) // batch)
    if network.optimizer == "sgd":
        optimizer: Any = torch.optim.SGD(
            network.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True
        )
    else:
        optimizer = torch.optim.AdamW(network.parameters(), network.rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, network.rate, total_steps=steps + 1, pct_start=0.2
    )
    network.train()
    for _ in range(epochs):
        order = torch.randperm(len(labels), generator=draw)
        for rows in order[: len(order) // batch * batch].split(batch):
            down, across = torch.randint(0, 9, (2,), generator=draw).tolist()
            cut = padded[rows][:, :, down : down + 32, across : across + 32]
            mirrored = torch.rand(batch, generator=draw) < 0.5
            cut = torch.where(mirrored[:, None, None, None], cut.flip(3), cut).to(device)
            with torch.autocast(device, torch.bfloat16):
                logits = network(cut.contiguous(memory_format=torch.channels_last))
            loss = functional.cross_entropy(logits.float(), labels[rows].to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
    network.eval()


class Reader:
    """Reads logits, the head's input and moments of inner layers in one pass."""

    def __init__(self, network: Any, images: Images, device: str) -> None:
        self.network, self.images, self.device = network, images, device
        self.moments: list[Tensor] = []
        self.features: Tensor | None = None
        for layer in network.inner():
            layer.register_forward_hook(self._keep)
        network.fc.register_forward_pre_hook(self._keep_features)

    def __call__(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits, features and moments."""
        found = [self._chunk(chunk.to(self.device)) for chunk in pixels.split(500)]
        return tuple(torch.cat(columns).cpu() for columns in zip(*found, strict=True))  # type: ignore[return-value]

    def _chunk(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.moments = []
        with torch.autocast(self.device, torch.bfloat16):
            logits = self.network(self.images.normal(pixels))
        assert self.features is not None
        return logits.float(), self.features.float(), torch.cat(self.moments, 1)

    def _keep(self, layer: nn.Module, args: Any, output: Tensor) -> None:  # noqa: ARG002
        rows = output.flatten(2) if output.ndim == 4 else output.transpose(1, 2)
        mean = rows.float().mean(2)
        self.moments += [mean, (rows.float() - mean[..., None]).square().mean(2).sqrt()]

    def _keep_features(self, head: nn.Module, args: Any) -> None:  # noqa: ARG002
        self.features = args[0]


def collect(options: argparse.Namespace) -> None:
    """Train or load one network, predict every part, write the file."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images = Images(options.data, options.trained)
    torch.manual_seed(options.seed)
    kind, epochs = NETWORKS[options.network]
    network = kind().to(device, memory_format=torch.channels_last)
    if options.weights and options.weights.exists():
        network.load_state_dict(torch.load(options.weights, map_location=device))
    else:
        train(network, images, epochs, options.seed, device)
        if options.weights:
            torch.save(network.state_dict(), options.weights)
    network.eval()
    torch.set_grad_enabled(False)
    reader = Reader(network, images, device)
    about = {"network": options.network, "seed": options.seed, "data": options.data.stem,
             "epochs": epochs, "images": options.trained, "trained": circumstances()}  # fmt: skip
    kept: dict[str, Any] = {"about": np.array(json.dumps(about))}
    centres = _known_centres(reader, *(v[: 2 * options.rows] for v in images.parts["train"]))
    for split in SPLITS:
        pixels, labels = (values[: options.rows] for values in images.parts[split])
        kinds = RANDOM_KINDS if split == "train" else KINDS
        names = (CLEAN, *(f"{kind}-{s}" for kind in kinds for s in STRENGTHS))
        for name in (*names, *(MIXED if split == "valid" else ())):
            changed = pixels
            if name != CLEAN:
                which, _, strength = name.rpartition("-")
                seed = SPLITS.index(split)
                changed = corrupt_images(pixels, which, int(strength), seed=seed)
                changed = (changed * 255).round() / 255
            logits, features, moments = reader(changed)
            signals = feature_signals(logits, features, centres)
            columns = {"logits": logits.half(), "labels": labels, "signals": signals,
                       "moments": moments.half()}  # fmt: skip
            if name in MIXED:
                columns["drawn"] = drawn_kinds(pixels, seed)
            kept |= {f"{split}/{name}/{c}": values.numpy() for c, values in columns.items()}
    np.savez(options.out, **kept)


def drawn_kinds(pixels: Tensor, seed: int) -> Tensor:
    """Return the number of the random kind that each image of a mix has."""
    drawn = uniform(pixels, seed, f"{MIX}, kind", each=1)[:, 0]
    return (drawn * len(RANDOM_KINDS)).long()


def _known_centres(reader: Reader, pixels: Tensor, labels: Tensor) -> Tensor:
    """Return centres of the features of training images, as a run keeps them."""
    points = functional.normalize(reader(pixels)[1], dim=-1)
    classes = int(labels.max()) + 1
    return torch.stack([_centres(points[labels == c], 256 // classes) for c in range(classes)])


class Parts:
    """The parts of one file, as predictions."""

    def __init__(self, path: Path) -> None:
        arrays = np.load(path)
        self.arrays = {name: arrays[name] for name in arrays.files}
        self.about = json.loads(str(self.arrays["about"]))
        self.damage = functools.cache(functools.partial(damage_signal, self.arrays))

    def get(
        self, split: str, names: Sequence[str], random: Sequence[str] = (), batch: int = 0
    ) -> Predictions:
        """Return parts one after the other, with the signals of a run.

        ``random`` are the kinds that the signal of damage is learned from, and those of the rows of
        a mix; without any there is no such signal.
        """
        scores, labels, signals, copies, batches = [], [], [], [], []
        for name in names:
            key = f"{split}/{name}"
            rows = self._rows(key, random)
            scores.append(self.arrays[f"{key}/logits"][rows].astype(np.float64))
            labels.append(self.arrays[f"{key}/labels"][rows])
            columns = self.arrays[f"{key}/signals"][rows].astype(np.float64)
            found = [self.damage(tuple(random))[key][rows]] if random else []
            signals.append(np.column_stack([columns, *found]))
            count = len(columns)
            copies.append(np.full(count, "" if name == CLEAN else name, "U32"))
            batches.append(np.random.default_rng(0).permutation(count) // (batch or 1))
        groups = {"corruption": np.concatenate(copies)}
        if batch:
            groups["batch"] = np.concatenate(batches)
        given = dict(zip(SIGNALS, np.concatenate(signals).T, strict=False))
        return Predictions.from_logits(
            np.concatenate(scores), np.concatenate(labels), groups=groups, signals=given
        )

    def _rows(self, key: str, random: Sequence[str]) -> Any:
        if f"{key}/drawn" not in self.arrays:
            return slice(None)
        kept = [number for number, kind in enumerate(RANDOM_KINDS) if kind in random]
        return np.isin(self.arrays[f"{key}/drawn"], kept)


def damage_signal(
    arrays: Mapping[str, np.ndarray], kinds: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Return the signal of damage of each part, as :func:`learned_damage` learns it.

    The network learned from training images: clean ones, and ones with damage of random ``kinds``,
    whose prediction is or is not that of the clean image.
    """

    def moments(key: str) -> Tensor:
        return torch.as_tensor(arrays[f"{key}/moments"].astype(np.float32))

    def predicted(name: str) -> Tensor:
        return torch.as_tensor(arrays[f"train/{name}/logits"].argmax(1))

    damaged = [f"{kind}-{s}" for kind in kinds for s in STRENGTHS]
    found = learned_from(
        (predicted(CLEAN), moments(f"train/{CLEAN}")),
        ((predicted(name), moments(f"train/{name}")) for name in damaged),
    )
    reader = DamageReader([], found)
    keys = [key.removesuffix("/logits") for key in arrays if key.endswith("/logits")]
    with torch.no_grad():
        return {key: reader.of(moments(key)).double().numpy() for key in keys}


class Setting(NamedTuple):
    """What is fitted: the random kinds of the signal and the mix, and further copies."""

    random: tuple[str, ...] = ()
    mix: bool = False
    strict: bool = False
    seen: bool = False  # Whether the tested kind is in the fit.
    five: bool = False  # Whether only the kinds of `calibrant train` are.
    batch: int = 0
    clean_weight: float = 1.0
    rows: int = ROWS

    def kinds(self, tested: str) -> tuple[str, ...]:
        """Return the random kinds, for a tested one."""
        return tuple(k for k in self.random if not (self.strict and tested in NEAREST[k]))

    def copies(self, tested: str) -> list[str]:
        """Return clean validation and its copies without the tested kind."""
        five = {name.rpartition("-")[0] for name in IMAGE_COPIES}
        kinds = [k for k in KINDS if (k != tested or self.seen) and (k in five or not self.five)]
        named = [f"{kind}-{s}" for kind in kinds for s in STRENGTHS]
        return [CLEAN, *named, *(MIXED if self.mix else ())]


SETTINGS: dict[str, Setting] = {
    "shift-aware": Setting(),
    "damage, three kinds": Setting(RANDOM_KINDS[:3]),
    "damage, four kinds": Setting(RANDOM_KINDS[:4]),
    "damage": Setting(RANDOM_KINDS),
    "damage, mix": Setting(RANDOM_KINDS, mix=True),
    "as calibrant train": Setting(RANDOM_KINDS, mix=True, five=True),
    "as calibrant train, clean weight 3": Setting(
        RANDOM_KINDS, mix=True, five=True, clean_weight=3.0
    ),
    "as calibrant train, without the mix": Setting(RANDOM_KINDS, five=True),
    "damage, four kinds, strict": Setting(RANDOM_KINDS[:4], strict=True),
    "damage, mix, strict": Setting(RANDOM_KINDS, mix=True, strict=True),
    "damage, mix, kind in the fit": Setting(RANDOM_KINDS, mix=True, seen=True),
    "shift-aware, batches": Setting(batch=BATCH),
    "damage, mix, batches": Setting(RANDOM_KINDS, mix=True, batch=BATCH),
}


def study(parts: Parts, settings: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each setting and test part."""
    tests = [CLEAN, *(f"{kind}-{s}" for kind in KINDS for s in STRENGTHS)]
    if "temperature" in settings:
        fitted: Any = Temperature().fit(parts.get("valid", [CLEAN]))
        for name in tests:
            yield measured("temperature", name, fitted.transform(parts.get("test", [name])))
    if "oracle" in settings:
        for name in tests:
            fitted = ShiftAware(rows=ROWS).fit(parts.get("valid", [name]))
            yield measured("oracle", name, fitted.transform(parts.get("test", [name])))
    if "rule" in settings:
        yield from rule(parts, SETTINGS["as calibrant train"])
    for name, setting in SETTINGS.items():
        if name in settings:
            yield from unseen(parts, name, setting)


def rule(parts: Parts, setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield what the rule says and, if it takes the calibrator, the numbers at its weight."""
    start = time.process_time()
    valid = parts.get("valid", setting.copies(""), random=setting.random)
    found = select_calibrator(valid, ["temperature", "shift-aware"])
    verdict = {"setting": "rule", "chosen": found.calibrator.name, "reason": found.reason,
               "rule_cpu_s": time.process_time() - start}  # fmt: skip
    if not isinstance(found.calibrator, ShiftAware):
        yield verdict
        return
    weight = found.calibrator.clean_weight
    yield {**verdict, "clean_weight": weight}
    yield from unseen(parts, CHOSEN, setting._replace(clean_weight=weight, rows=1 << 17))


def unseen(parts: Parts, name: str, setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each test part, by a fit without its kind of damage."""

    @functools.cache
    def fit(copies: tuple[str, ...], random: tuple[str, ...]) -> tuple[ShiftAware, float]:
        valid = parts.get("valid", copies, random=random, batch=setting.batch)
        start = time.perf_counter()
        fitted = ShiftAware(clean_weight=setting.clean_weight, rows=setting.rows).fit(valid)
        return fitted, time.perf_counter() - start

    for kind in ("", *KINDS):
        fitted, took = fit(tuple(setting.copies(kind)), setting.kinds(kind))
        for part in [f"{kind}-{s}" for s in STRENGTHS] if kind else [CLEAN]:
            test = parts.get("test", [part], random=setting.kinds(kind), batch=setting.batch)
            yield {**measured(name, part, fitted.transform(test)), "fit_s": took}


def measured(setting: str, name: str, test: Predictions) -> dict[str, Any]:
    """Return the numbers of one test part."""
    probabilities = test.probabilities()
    rows = np.arange(len(probabilities))
    nll = -np.log(np.clip(probabilities[rows, test.labels], 1e-12, 1))
    return {
        "setting": setting, "test": name, "ece": float(ece(test)), "nll": float(nll.mean()),
        "accuracy": float((probabilities.argmax(1) == test.labels).mean()),
        "confidence": float(probabilities.max(1).mean()), "rows": len(rows),
    }  # fmt: skip


def table(records: Sequence[Mapping[str, Any]]) -> None:
    """Print means over kinds and seeds, in points, per network."""
    records = [r for r in records if "ece" in r]
    for network in sorted({r["network"] for r in records}):
        own = [r for r in records if r["network"] == network]

        def mean(setting: str, column: str, ending: str, own: Any = own) -> float:
            return float(np.mean([
                abs(r["confidence"] - r["accuracy"]) if column == "gap" else r[column]
                for r in own if r["setting"] == setting and r["test"].endswith(ending)
                and (ending == CLEAN or r["test"] != CLEAN)
            ]))  # fmt: skip

        base = mean("temperature", "ece", "")
        print(f"\n{network}, seeds {sorted({r['seed'] for r in own})}\n")
        print("| | clean | 1 | 3 | 5 | all damage | of temperature's | gap | NLL clean | damage |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for setting in dict.fromkeys(r["setting"] for r in own):
            cells = [100 * mean(setting, "ece", e) for e in (CLEAN, "-1", "-3", "-5", "")]
            shown = [f"{value:.1f}" for value in cells]
            shown += [f"{mean(setting, 'ece', '') / base:.0%}"]
            shown += [f"{100 * mean(setting, 'gap', ''):.1f}"]
            shown += [f"{mean(setting, 'nll', e):.3f}" for e in (CLEAN, "")]
            print(f"| {setting} | {' | '.join(shown)} |")
        print("\nby kind, ECE\n")
        for setting in dict.fromkeys(r["setting"] for r in own):
            by_kind = {
                kind: np.mean([r["ece"] for r in own if r["setting"] == setting
                               and r["test"].rpartition("-")[0] == kind])
                for kind in KINDS
            }  # fmt: skip
            print(setting, {kind: round(100 * float(value), 1) for kind, value in by_kind.items()})


def main() -> None:
    """Run one of the three steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True)
    made = steps.add_parser("collect")
    made.add_argument("network", choices=sorted(NETWORKS))
    made.add_argument("seed", type=int)
    made.add_argument("data", type=Path)
    made.add_argument("out", type=Path)
    made.add_argument("--trained", type=int, default=TRAINED, help="images to train on")
    made.add_argument("--rows", type=int, default=ROWS_OF_A_PART, help="images of each part")
    made.add_argument("--weights", type=Path, help="load them, or keep them here")
    for name in ("study", "table"):
        step = steps.add_parser(name)
        step.add_argument("files", nargs="+", type=Path)
    every = ("temperature", "oracle", "rule", *SETTINGS)
    steps.choices["study"].add_argument("-o", "--output", type=Path, required=True)
    steps.choices["study"].add_argument("--settings", nargs="+", choices=every, default=every)
    options = parser.parse_args()
    if options.step == "collect":
        collect(options)
    elif options.step == "study":
        for path in options.files:
            parts = Parts(path)
            about = {**parts.about, "fitted": circumstances()}
            with options.output.open("a") as output:
                for found in study(parts, options.settings):
                    rounded = {k: round(v, 6) if isinstance(v, float) else v
                               for k, v in found.items()}  # fmt: skip
                    output.write(json.dumps({**about, **rounded}, separators=(",", ":")) + "\n")
                    output.flush()
    else:
        table([json.loads(x) for path in options.files for x in path.read_text().splitlines()])


if __name__ == "__main__":
    main()

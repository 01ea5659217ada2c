"""Train one model and keep what a shift-aware calibrator can see: clean and corrupted splits.

    python benchmarks/collect_signals.py TASK DATA MODEL SEED OUT.npz [--epochs 10] [--rate 1e-4] …

Writes one array per part and column, named ``PART/NAME/COLUMN``. PART is ``valid`` or ``test``.
NAME is ``clean``, a corruption such as ``typos-5`` or another corpus. Columns: ``logits``,
``labels``, ``norm`` of the head's input and its ``distance`` to the nearest ``TRAINING`` inputs
(mean Euclidean distance to ten, of unit vectors), and, as ``run_NAME``, the signals that a run
computes (of images also ``run_damage``, and ``damage_without_KIND``, learned without one of the
random kinds); words also have ``sentence`` and ``pieces``, texts
``pieces``. Texts and images have ``inner_I``: how far the mean activations after a quarter, a half
and three quarters of the encoder are from those of training (mean squared standard score), and
``near_I``: the mean distance of these scores to the ten nearest of training. Images also have
``flip``, by how much the log-probability of the predicted class falls if the image is mirrored, and
``pixel_NAME``: mean, spread and fine detail. ``about`` is JSON: recipe, versions, hardware.
``shift_study.py`` reads the file.
"""

from __future__ import annotations

import argparse
import json
import lzma
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.corruptions import RANDOM_DAMAGE, corrupt_text
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run import train
from calibrant.experiments.run_folder import RunFolder
from calibrant.predictions import IGNORED
from calibrant.tasks import task_of
from calibrant.tasks.damage_signal import DamageReader
from calibrant.tasks.data import Damaged
from calibrant.tasks.feature_signals import feature_signals, known_features
from calibrant.tasks.scoring import SIGNALS
from calibrant.training.head import find_head

TRAINING = 20_000  # Training examples whose features others are compared with.
NEIGHBOURS = 10
STRENGTHS = (1, 3, 5)
LAYERS = "layers"  # Activations among the columns, until they are distances.

Columns = dict[str, np.ndarray]


class WithFeatures(nn.Module):
    """A head that returns its logits, its input and what ``inner`` has kept, side by side.

    Signals of damage are the last columns: one for each reader, all of the same inner layers.
    """

    def __init__(
        self, head: nn.Module, inner: Inner | None, damage: Sequence[DamageReader] = ()
    ) -> None:
        super().__init__()
        self.head, self.inner, self.damage = head, inner, nn.ModuleList(damage)

    def forward(self, features: Tensor) -> Tensor:
        """Return (…, classes + width + widths of the inner layers)."""
        kept = [] if self.inner is None else [v.float() for v in self.inner.taken()]
        damage = []
        for number, reader in enumerate(self.damage):
            if not number:
                moments = reader.moments()  # type: ignore[operator]
            damage.append(reader.of(moments)[:, None])  # type: ignore[operator]
        return torch.cat([self.head(features).float(), features.float(), *kept, *damage], -1)


class Inner:
    """Mean activations of some layers of the encoder in the last pass, one row per example."""

    def __init__(self, model: nn.Module) -> None:
        self.widths: list[int] = []
        self.mask: Tensor | None = None
        self.kept: list[Tensor] = []
        model.register_forward_pre_hook(self._see, with_kwargs=True)
        for layer in _inner_layers(model):
            layer.register_forward_hook(self._keep)

    def taken(self) -> list[Tensor]:
        """Return the activations, and forget them."""
        kept, self.kept = self.kept, []
        self.widths = [values.shape[-1] for values in kept]
        return kept

    def _see(self, model: nn.Module, args: Any, inputs: Any) -> None:  # noqa: ARG002
        self.mask, self.kept = inputs.get("attention_mask"), []

    def _keep(self, layer: nn.Module, args: Any, output: Any) -> None:  # noqa: ARG002
        values = output[0] if isinstance(output, tuple) else output
        if values.ndim != 3:  # Channels of an image, or features already.
            self.kept.append(values.flatten(2).mean(2) if values.ndim == 4 else values)
            return
        mask = torch.ones(values.shape[:2], device=values.device)
        weight = (mask if self.mask is None else self.mask)[..., None].float()
        self.kept.append((values * weight).sum(1) / weight.sum(1))


def _inner_layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers after a quarter, a half and three quarters of an encoder."""
    stages = [getattr(getattr(model, "encoder", None), f"layer{i}", None) for i in (1, 2, 3)]
    if all(stages):  # Of a residual network.
        return stages
    rows = [m for m in model.modules() if isinstance(m, (nn.ModuleList, nn.Sequential))]
    layers = list(max(rows, key=len, default=()))
    quarters = {max(0, len(layers) * i // 4 - 1) for i in (1, 2, 3)}
    return [layers[i] for i in sorted(quarters)] if layers else []


class Collector:
    """Predicts parts of a data set with a trained model; ``outputs`` are logits and features."""

    copied: tuple[str, ...] = ("valid", "test")  # What is corrupted.
    skipped: tuple[str, ...] = ()  # Kinds of corruption that are left out.

    def __init__(self, recipe: Recipe, folder: Path, device: str) -> None:
        self.recipe, self.device = recipe, device
        self.task: Any = task_of(recipe.task)
        self.data: Any = self.task.prepare(recipe)
        self.classes = len(self.data.labels)
        model = self.load(folder).to(device)
        self.centres = known_features(model, self.data.windows(device)[0], self.classes)
        name, head = find_head(model)
        parent, _, last = name.rpartition(".")
        self.damaged = self.readers(model)
        if self.damaged:
            self.damaged["run_damage"].watch(model)
        self.inner = Inner(model) if recipe.task != "ner" else None
        wrapped = WithFeatures(head, self.inner, list(self.damaged.values()))
        setattr(model.get_submodule(parent), last, wrapped)
        self.model = model.eval()
        _, features, more = self.outputs(self.data.splits["train"])
        chosen = np.random.default_rng(0).permutation(len(features))[:TRAINING]
        self.known = _unit(torch.as_tensor(features[chosen], device=device))
        layers = [torch.as_tensor(values[chosen], device=device) for values in more.pop(LAYERS, ())]
        self.moments = [(v.mean(0), _at_least(v.std(0))) for v in layers]
        self.layers = [(v - m) / s for v, (m, s) in zip(layers, self.moments, strict=True)]

    def load(self, folder: Path) -> nn.Module:
        """Load the trained model of a run."""
        raise NotImplementedError

    def outputs(self, part: Any) -> tuple[np.ndarray, np.ndarray, Columns]:
        """Return logits, features and further columns of a part."""
        raise NotImplementedError

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield every part to keep, with its name."""
        raise NotImplementedError

    def readers(self, model: nn.Module) -> dict[str, DamageReader]:
        """Learn to read damage, from all random kinds and without each, by the column's name."""
        if not isinstance(self.data, Damaged):
            return {}
        data: Any = self.data
        kinds = dict.fromkeys(name.rpartition("-")[0] for name in RANDOM_DAMAGE)
        found = {"run_damage": data.damage(model)} | {
            f"damage_without_{kind}": data.damage(
                model, [name for name in RANDOM_DAMAGE if not name.startswith(f"{kind}-")]
            )
            for kind in kinds
        }
        return {name: reader.to(self.device) for name, reader in found.items() if reader}

    def damage(self, split: str) -> list[tuple[str, int]]:
        """Return the kinds and strengths of the corruptions of a split."""
        random = {name.rpartition("-")[0] for name in RANDOM_DAMAGE}
        kinds = [kind for kind in self.task.corruptions if kind not in {*self.skipped, *random}]
        return [(kind, s) for kind in kinds for s in STRENGTHS] if split in self.copied else []

    def columns(self, part: Any) -> Columns:
        """Return what is kept of a part."""
        logits, features, more = self.outputs(part)
        inner = self._of_layers(more.pop(LAYERS, ()))
        rows = (torch.as_tensor(values, device=self.device) for values in (logits, features))
        signals = feature_signals(*rows, self.centres).cpu().numpy()
        return {
            **{
                f"run_{n}": column.astype(np.float16)
                for n, column in zip(SIGNALS, signals.T, strict=False)
            },
            "logits": (np.round(logits * 64) / 64).astype(np.float16),  # Smaller files.
            "norm": np.linalg.norm(features, axis=1).astype(np.float16),
            "distance": self._distances(_unit(features), self.known).astype(np.float16),
            **inner,
            **more,
        }

    def _of_layers(self, layers: Sequence[np.ndarray]) -> Columns:
        """Return how far the mean activations of each inner layer are from those of training."""
        found = {}
        for i, values in enumerate(layers):
            mean, deviation = self.moments[i]
            score = (torch.as_tensor(values, device=self.device) - mean) / deviation
            found[f"inner_{i + 1}"] = score.square().mean(1).cpu().numpy()
            found[f"near_{i + 1}"] = self._distances(score, self.layers[i])
        return {n: v.clip(max=6e4).astype(np.float16) for n, v in found.items()}

    def _distances(self, points: Any, known: Tensor) -> np.ndarray:
        """Return the mean distance of each point to the nearest known ones."""
        found = []
        for chunk in torch.as_tensor(points).split(4096):
            apart = torch.cdist(chunk.to(self.device), known)
            nearest = apart.topk(min(NEIGHBOURS, len(known)), largest=False).values
            found.append(nearest.mean(1).cpu().numpy())
        return np.concatenate(found)

    def _split(self, all_: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return the logits, the features and the inner layers of rows of outputs."""
        widths = [] if self.inner is None else self.inner.widths
        logits, rest = all_[:, : self.classes], all_[:, self.classes :]
        rest = rest[:, : rest.shape[1] - len(self.damaged)]
        width = rest.shape[1] - sum(widths)
        layers = np.split(rest[:, width:], np.cumsum(widths)[:-1], axis=1) if widths else []
        return logits, rest[:, :width], layers


class Words(Collector):
    """Tagged sentences."""

    def load(self, folder: Path) -> nn.Module:
        """Load the token classifier."""
        from calibrant.tasks.encoders.model_folder import load_model

        return load_model(RunFolder(folder).model)[0]

    def outputs(self, part: Any) -> tuple[np.ndarray, np.ndarray, Columns]:
        """Return one row per word."""
        from calibrant.tasks.ner.word_predictions import predict_runs

        def forward(**inputs: Tensor) -> list[Tensor]:
            return [self.model(**inputs).logits]

        device = torch.device(self.device)
        found = predict_runs(forward, device, part, None, padding=self.data.padding)[0]
        more = {
            "labels": found.labels.astype(np.int16),
            "sentence": found.groups["sentence"].astype(np.int32),
            "position": found.groups["position"].astype(np.int16),
            "pieces": _pieces(part).astype(np.uint8),
        }
        return *self._split(found.scores)[:2], more

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield the clean and corrupted splits, and the other corpora of the recipe's shift."""
        from calibrant.tasks.ner.corpora.corrupted_sentences import corrupt_sentences

        corpus = self.data.corpus
        for split, sentences in (("valid", corpus.dev), ("test", corpus.test)):
            yield f"{split}/clean", self.data.encode(sentences)
            for kind, strength in self.damage(split):
                made = list(corrupt_sentences(sentences, kind, strength, seed=0))
                yield f"{split}/{kind}-{strength}", self.data.encode(made)
        for name, part in self.task.shifted(self.recipe, self.data, None).items():
            yield f"test/{name}", part


def _pieces(part: Any) -> np.ndarray:
    """Count the pieces of each labelled word, in the order of sentences and words."""
    windows = np.repeat(np.arange(len(part)), part.lengths)
    key = windows * (1 << 20) + part.words
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    labelled = np.flatnonzero(part.labels != IGNORED)
    owner = np.repeat(part.sentences, part.lengths)[labelled]
    order = np.lexsort((part.words[labelled], owner))
    return np.minimum(counts[inverse[labelled[order]]], 255)


class Texts(Collector):
    """Texts with one class each."""

    def load(self, folder: Path) -> nn.Module:
        """Load the sequence classifier."""
        from calibrant.tasks.encoders.model_folder import load_model

        return load_model(RunFolder(folder).model, unit="sequence")[0]

    def outputs(self, part: Any) -> tuple[np.ndarray, np.ndarray, Columns]:
        """Return one row per text; the label of a text of no class is −100."""
        from calibrant.tasks.text.encoded_texts import text_scores

        logits, features, layers = self._split(
            text_scores(self.model, part, self.data.padding).logits
        )
        more = {
            LAYERS: layers,
            "labels": part.labels.astype(np.int16),
            "pieces": np.minimum(part.lengths, 32767).astype(np.int16),
        }
        return logits, features, more

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield the clean and corrupted splits, and the texts of no class."""
        from calibrant.tasks.text.encoded_texts import encode_texts

        data = self.data
        for split, name in (("valid", "dev"), ("test", "test")):
            texts, classes = data.corpus.texts[name], data.corpus.classes[name]
            yield f"{split}/clean", data.splits[name]
            for kind, strength in self.damage(split):
                made = [
                    corrupt_text(text, kind, strength, seed=0, number=number)
                    for number, text in enumerate(texts)
                ]
                encoded = encode_texts(made, classes, data.tokenizer, data.max_length)
                yield f"{split}/{kind}-{strength}", encoded
        if "ood" in data.splits:
            yield "test/outside", data.splits["ood"]


class Pictures(Collector):
    """Images with one class each."""

    def load(self, folder: Path) -> nn.Module:
        """Load the image classifier."""
        from calibrant.tasks.image.classifier import load_classifier

        return load_classifier(RunFolder(folder).model)[0]

    def outputs(self, part: Any) -> tuple[np.ndarray, np.ndarray, Columns]:
        """Return one row per image."""
        scores = self._scores(part)
        logits, features, layers = self._split(scores)
        mirrored = part._replace(images=np.ascontiguousarray(part.images[:, :, ::-1]))
        again = self._scores(mirrored)[:, : self.classes]
        rows, predicted = np.arange(len(logits)), logits.argmax(1)
        falls = (_log_softmax(logits) - _log_softmax(again))[rows, predicted]
        return (
            logits,
            features,
            {
                LAYERS: layers,
                **self._damage(scores),
                "labels": part.classes.astype(np.int16),
                "flip": falls.astype(np.float16),
                **_of_pixels(part.images),
            },
        )

    def _damage(self, scores: np.ndarray) -> Columns:
        columns = scores[:, scores.shape[1] - len(self.damaged) :].astype(np.float16).T
        return dict(zip(self.damaged, columns, strict=True))

    def _scores(self, part: Any) -> np.ndarray:
        from calibrant.tasks.image.classifier import image_scores

        return image_scores(self.model, self.data.on_device(part, self.device)).logits

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield the clean and corrupted splits."""
        from calibrant.corruptions.image import corrupt_bytes

        for split, name in (("valid", "dev"), ("test", "test")):
            part = self.data.splits[name]
            yield f"{split}/clean", part
            for kind, strength in self.damage(split):
                images = corrupt_bytes(part.images, kind, strength, device=self.device)
                yield f"{split}/{kind}-{strength}", part._replace(images=images)


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    return torch.as_tensor(logits).log_softmax(1).numpy()


def _of_pixels(images: np.ndarray) -> Columns:
    """Return the mean, the deviation and the mean difference of neighbours, of bytes."""
    grey = images.astype(np.float32).mean(3)
    across = [np.abs(np.diff(grey, axis=axis)).mean((1, 2)) for axis in (1, 2)]
    found = {"mean": grey.mean((1, 2)), "spread": grey.std((1, 2)), "fine": sum(across) / 2}
    return {f"pixel_{name}": values.astype(np.float16) for name, values in found.items()}


COLLECTORS = {"ner": Words, "text": Texts, "image": Pictures}


def _at_least(deviations: Tensor) -> Tensor:
    """Return deviations that one may divide by: a unit that is dead in training may wake up."""
    return deviations.clamp(min=max(0.01 * float(deviations.mean()), 1e-6))


def _unit(features: Any) -> Tensor:
    return nn.functional.normalize(torch.as_tensor(features).float(), dim=-1)


def main() -> None:
    """Train, predict every part, write the file."""
    options = _options()
    recipe = Recipe(
        task=options.task, data=options.data, model=options.model, seed=options.seed,
        method="cross_entropy", epochs=options.epochs, learning_rate=options.rate,
        batch=options.batch, dtype=options.dtype, measure=("identity", "temperature"),
        copies=("none",),
        **json.loads(options.more),
    )  # fmt: skip
    recipe = replace(recipe, shift=tuple(options.shift))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as name:
        record = train(replace(recipe, shift=()), Path(name) / "run", bootstrap=0)
        torch.set_grad_enabled(False)
        collector = COLLECTORS[recipe.task](recipe, Path(name) / "run", device)
        collector.copied, collector.skipped = options.copied, options.skip
        about = {"recipe": recipe.to_dict(), "circumstances": record.circumstances}
        kept: Columns = {"about": np.array(json.dumps(about))}
        for part, examples in collector.parts():
            columns = collector.columns(examples)
            kept.update({f"{part}/{column}": values for column, values in columns.items()})
    if options.out.suffix == ".xz":
        with lzma.open(options.out, "wb", preset=3) as file:
            np.savez(file, **kept)
    else:
        np.savez_compressed(options.out, **kept)
    print(f"{options.out}: {len(kept)} arrays")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=sorted(COLLECTORS))
    parser.add_argument("data")
    parser.add_argument("model")
    parser.add_argument("seed", type=int)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--shift", nargs="*", default=())
    parser.add_argument("--skip", nargs="*", default=(), help="kinds of corruption to leave out")
    parser.add_argument("--copied", nargs="*", default=Collector.copied, help="corrupted splits")
    parser.add_argument("--more", default="{}", help="further settings of the recipe, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Train one model and keep what a shift-aware calibrator can see: clean and corrupted splits.

    python benchmarks/collect_signals.py TASK DATA MODEL SEED OUT.npz [--epochs 10] [--rate 1e-4] …

Writes one array per part and column, named ``PART/NAME/COLUMN``. PART is ``valid`` or ``test``.
NAME is ``clean``, a corruption such as ``typos-5`` or another corpus. Columns: ``logits``,
``labels``, ``norm`` of the head's input and its ``distance`` to the nearest ``TRAINING`` inputs
(mean Euclidean distance to ten, of unit vectors), and, as ``run_NAME``, the signals that a run
computes; words also have ``sentence`` and ``pieces``, texts ``pieces``. ``about`` is JSON: recipe,
versions, hardware. ``shift_study.py`` reads the file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant.corruptions import corrupt_text
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.run import train
from calibrant.experiments.run_folder import RunFolder
from calibrant.predictions import IGNORED
from calibrant.tasks import task_of
from calibrant.tasks.feature_signals import feature_signals, known_features
from calibrant.tasks.scoring import SIGNALS
from calibrant.training.head import find_head

TRAINING = 20_000  # Training examples whose features others are compared with.
NEIGHBOURS = 10
STRENGTHS = (1, 3, 5)

Columns = dict[str, np.ndarray]


class WithFeatures(nn.Module):
    """A head that returns its logits and its input, side by side."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, features: Tensor) -> Tensor:
        """Return (…, classes + width)."""
        return torch.cat([self.head(features).float(), features.float()], -1)


def with_features(model: nn.Module) -> nn.Module:
    """Put :class:`WithFeatures` around the head of a model."""
    name, head = find_head(model)
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, WithFeatures(head))
    return model.eval()


class Collector:
    """Predicts parts of a data set with a trained model; ``outputs`` are logits and features."""

    def __init__(self, recipe: Recipe, folder: Path, device: str) -> None:
        self.recipe, self.device = recipe, device
        self.task: Any = task_of(recipe.task)
        self.data: Any = self.task.prepare(recipe)
        self.classes = len(self.data.labels)
        model = self.load(folder).to(device)
        self.centres = known_features(model, self.data.windows(device)[0], self.classes)
        self.model = with_features(model)
        features = self.outputs(self.data.splits["train"])[1]
        chosen = np.random.default_rng(0).permutation(len(features))[:TRAINING]
        self.known = _unit(torch.as_tensor(features[chosen], device=device))

    def load(self, folder: Path) -> nn.Module:
        """Load the trained model of a run."""
        raise NotImplementedError

    def outputs(self, part: Any) -> tuple[np.ndarray, np.ndarray, Columns]:
        """Return logits, features and further columns of a part."""
        raise NotImplementedError

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield every part to keep, with its name."""
        raise NotImplementedError

    def columns(self, part: Any) -> Columns:
        """Return what is kept of a part."""
        logits, features, more = self.outputs(part)
        rows = (torch.as_tensor(values, device=self.device) for values in (logits, features))
        signals = feature_signals(*rows, self.centres).cpu().numpy()
        return {
            **{f"run_{n}": signals[:, i].astype(np.float16) for i, n in enumerate(SIGNALS)},
            "logits": logits.astype(np.float16),
            "norm": np.linalg.norm(features, axis=1).astype(np.float16),
            "distance": self._distances(features).astype(np.float16),
            **more,
        }

    def _distances(self, features: np.ndarray) -> np.ndarray:
        found = []
        for chunk in torch.as_tensor(features).split(4096):
            apart = torch.cdist(_unit(chunk.to(self.device)), self.known)
            nearest = apart.topk(NEIGHBOURS, largest=False).values
            found.append(nearest.mean(1).cpu().numpy())
        return np.concatenate(found)

    def _split(self, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return both[:, : self.classes], both[:, self.classes :]


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
        return *self._split(found.scores), more

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield the clean and corrupted splits, and the other corpora of the recipe's shift."""
        from calibrant.tasks.ner.corpora.corrupted_sentences import corrupt_sentences

        corpus = self.data.corpus
        for split, sentences in (("valid", corpus.dev), ("test", corpus.test)):
            yield f"{split}/clean", self.data.encode(sentences)
            for kind in self.task.corruptions:
                for strength in STRENGTHS:
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

        both = text_scores(self.model, part, self.data.padding).logits
        more = {
            "labels": part.labels.astype(np.int16),
            "pieces": np.minimum(part.lengths, 32767).astype(np.int16),
        }
        return *self._split(both), more

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield the clean and corrupted splits, and the texts of no class."""
        from calibrant.tasks.text.encoded_texts import encode_texts

        data = self.data
        for split, name in (("valid", "dev"), ("test", "test")):
            texts, classes = data.corpus.texts[name], data.corpus.classes[name]
            yield f"{split}/clean", data.splits[name]
            for kind in self.task.corruptions:
                for strength in STRENGTHS:
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
        from calibrant.tasks.image.classifier import image_scores

        both = image_scores(self.model, self.data.on_device(part, self.device)).logits
        return *self._split(both), {"labels": part.classes.astype(np.int16)}

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield the clean and corrupted splits."""
        from calibrant.corruptions.image import corrupt_bytes

        for split, name in (("valid", "dev"), ("test", "test")):
            part = self.data.splits[name]
            yield f"{split}/clean", part
            for kind in self.task.corruptions:
                for strength in STRENGTHS:
                    images = corrupt_bytes(part.images, kind, strength, device=self.device)
                    yield f"{split}/{kind}-{strength}", part._replace(images=images)


COLLECTORS = {"ner": Words, "text": Texts, "image": Pictures}


def _unit(features: Tensor) -> Tensor:
    return nn.functional.normalize(features.float(), dim=-1)


def main() -> None:
    """Train, predict every part, write the file."""
    options = _options()
    recipe = Recipe(
        task=options.task, data=options.data, model=options.model, seed=options.seed,
        method="cross_entropy", epochs=options.epochs, learning_rate=options.rate,
        batch=options.batch, dtype=options.dtype, measure=("identity", "temperature"),
        **json.loads(options.more),
    )  # fmt: skip
    recipe = replace(recipe, shift=tuple(options.shift))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as name:
        record = train(replace(recipe, shift=()), Path(name) / "run", bootstrap=0)
        torch.set_grad_enabled(False)
        collector = COLLECTORS[recipe.task](recipe, Path(name) / "run", device)
        about = {"recipe": recipe.to_dict(), "circumstances": record.circumstances}
        kept: Columns = {"about": np.array(json.dumps(about))}
        for part, examples in collector.parts():
            columns = collector.columns(examples)
            kept.update({f"{part}/{column}": values for column, values in columns.items()})
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
    parser.add_argument("--more", default="{}", help="further settings of the recipe, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Signals of a model's features: computed beside the logits, by torch and by onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrant import InputError, Predictions, load_calibrator
from calibrant.experiments.outcome import copy_names, labelled_rows
from calibrant.experiments.recipe import Recipe
from calibrant.tasks import open_task
from calibrant.tasks.scoring import SIGNALS, TorchScorer

torch = pytest.importorskip("torch")

from calibrant.experiments.run import train  # noqa: E402
from calibrant.loading import load_run  # noqa: E402
from calibrant.tasks.feature_signals import (  # noqa: E402
    FILE,
    WithSignals,
    feature_signals,
    known_features,
    with_saved_signals,
    write_signals,
)

SMALL = {
    "text": {"data": "synthetic", "model": "tiny", "epochs": 1, "copies": ["typos-3", "ocr-3"]},
    "image": {"data": "digits", "epochs": 1, "copies": ["gaussian-noise-3", "jpeg-3"]},
}


class Net(torch.nn.Module):
    """A head of two classes on three numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.classifier = torch.nn.Identity(), torch.nn.Linear(3, 2)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.encoder(pixel_values))


def test_signals_against_plain_loops() -> None:
    rng = np.random.default_rng(0)
    logits, features = rng.normal(size=(20, 4)), 3 * rng.normal(size=(20, 5))
    centres = rng.normal(size=(4, 3, 5))
    centres /= np.linalg.norm(centres, axis=2, keepdims=True)
    found = feature_signals(*(torch.as_tensor(v) for v in (logits, features, centres))).numpy()
    for i in range(20):
        norm = np.sqrt((features[i] ** 2).sum())
        apart = 1 - centres @ (features[i] / norm)
        own = apart[logits[i].argmax()].min()
        expected = [np.log(np.exp(logits[i]).sum()), norm, apart.min(), own]
        np.testing.assert_allclose(found[i], expected, rtol=1e-10)


def test_a_wrapped_model_keeps_its_logits_and_survives_its_file(tmp_path: Path) -> None:
    net, centres = Net().eval(), torch.nn.functional.normalize(torch.randn(2, 4, 3), dim=-1)
    pixels = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    plain = TorchScorer(net).scored(pixel_values=pixels)
    wrapped = WithSignals(net, centres.half().float()).eval()
    made = TorchScorer(wrapped).scored(pixel_values=pixels)
    assert not plain.signals
    assert tuple(made.signals) == SIGNALS[:4]
    np.testing.assert_array_equal(made.logits, plain.logits)
    write_signals(wrapped, tmp_path)
    again = TorchScorer(with_saved_signals(Net().eval(), tmp_path)).scored(pixel_values=pixels)
    np.testing.assert_array_equal(again.signals["norm"], made.signals["norm"])
    np.savez(tmp_path / FILE, centres=np.full((2, 4, 3), np.nan))
    with pytest.raises(InputError, match="must have centres of features"):
        with_saved_signals(net, tmp_path)


def test_a_class_without_training_examples_has_a_centre_too() -> None:
    data = open_task("image", tiny=True)
    centres = known_features(data.build_model().eval(), data.windows("cpu")[0], classes=3)
    assert centres.shape[0] == 3
    assert torch.isfinite(centres).all()


@pytest.fixture(scope="module", params=SMALL)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / request.param
    settings = {**SMALL[request.param], "task": request.param, "calibrator": "shift-aware"}
    train(Recipe.from_dict({**settings, "dtype": "float32"}), folder, device="cpu", bootstrap=0)
    return folder


def test_texts_and_images_learn_from_copies_and_predict_with_signals(run: Path) -> None:
    valid = Predictions.read(next(run.glob("valid.*")))
    calibrator = load_calibrator(run / "calibrator.json")
    expected = set(SIGNALS) if run.name == "image" else set(SIGNALS[:4])
    assert set(valid.signals) & set(SIGNALS) == expected
    assert expected <= set(calibrator.signals_)
    assert calibrator.fitted_on_["n"] == 3 * len(valid)
    predictor = load_run(run, device="cpu")
    given = ["Anna Lind lives in Paris .", "A text"]
    if run.name == "image":
        given = [example["pixel_values"] for example in open_task("image", "digits").load("test")]
    found = predictor.predict(given[:2])
    raw = next(iter(predictor.raw_predictions(given[:2])))
    top = calibrator.transform(raw).probabilities().max(axis=1)
    np.testing.assert_allclose([one.confidence for one in found], top, rtol=1e-6)
    assert len(predictor.evidence.confidence) == len(valid)


def test_an_export_computes_the_same_signals(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from calibrant.export.writing import export_run

    export_run(run, tmp_path / "export")
    given = ["Anna Lind lives in Paris .", "A text"]
    if run.name == "image":
        given = [example["pixel_values"] for example in open_task("image", "digits").load("test")]
    here, there = (
        next(iter(load_run(folder, device="cpu").raw_predictions(given[:9])))
        for folder in (run, tmp_path / "export")
    )
    for name, column in here.signals.items():
        np.testing.assert_allclose(there.signals[name], column, rtol=1e-3, atol=1e-4, err_msg=name)


def test_how_many_rows_a_part_has() -> None:
    for name in ("ner", "text", "image"):
        data = open_task(name, tiny=True)
        model = data.build_model().eval()
        for part in data.parts.values():
            assert labelled_rows(part) == len(data.predict(model, part))


@pytest.mark.parametrize(("task", "copies"), [("text", 15), ("image", 20)])
def test_copies_are_made_where_validation_is_large(task: str, copies: int) -> None:
    """Five kinds at three strengths; images also have random damage, at five strengths."""
    recipe = Recipe.from_dict({"task": task})
    assert copy_names(recipe, 999) == ()
    assert len(copy_names(recipe, 1000)) == copies


class _Pooled(Net):
    """Pools after its head, so that no signal can be computed."""

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        return super().forward(pixel_values).mean((1, 2))


def test_a_model_whose_signals_cannot_be_computed_keeps_no_features() -> None:
    from calibrant.training.images import Images

    pixels, normal = np.zeros((4, 2, 2, 3), np.uint8), {"mean": [0.0] * 3, "deviation": [1.0] * 3}
    rows, net = Images(pixels, np.zeros(4, np.int64), "cpu", **normal), _Pooled().eval()
    rows.batch = lambda numbers, _: {
        "pixel_values": torch.zeros(len(numbers), 2, 2, 3),
        "labels": torch.zeros(len(numbers), dtype=torch.long),
    }
    with pytest.raises(InputError, match="signals cannot be computed"):
        known_features(net, rows, 2)
    assert not net.classifier._forward_pre_hooks


def test_a_grid_trains_each_seed_on_a_model_without_hooks_of_the_one_before() -> None:
    """The signals of a run stay with it, and so does its model: another process measures it."""
    pytest.importorskip("sklearn")
    from calibrant.experiments.lean_engine import run_cell

    small = {**SMALL["image"], "task": "image", "calibrator": "shift-aware", "model": "tiny"}
    recipes = [Recipe.from_dict({**small, "seed": seed}) for seed in (0, 1)]
    seen: list[int] = []

    def count(module: torch.nn.Module, args: object) -> None:
        if torch.is_grad_enabled():
            hooks = [len(m._forward_hooks) for m in module.modules() if m is not module]
            seen.append(sum(hooks))

    handle = torch.nn.modules.module.register_module_forward_pre_hook(
        lambda module, args: count(module, args) if hasattr(module, "encoder") else None
    )
    try:
        outcomes = [found for found in run_cell(recipes, None, "cpu") if found is not None]
    finally:
        handle.remove()
    assert {"distance", "damage"} <= set(outcomes[1].valid.signals)
    assert [outcome.signals for outcome in outcomes] == [None, None]
    assert set(seen) == {1}  # That of the training method, at the head.

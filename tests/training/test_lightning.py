"""The Lightning callback."""

import pytest
import torch
from algorithm_one import WEIGHT, Classifier, Mirror, algorithm_one, token_batch
from torch.utils.data import DataLoader, TensorDataset

from calibrant.errors import InputError
from calibrant.methods import HeadNoise, MetaRegularization

# Lightning's own deprecations are not ours.
pytestmark = pytest.mark.filterwarnings("ignore")
lightning = pytest.importorskip("lightning")
from calibrant.training.lightning import Calibration  # noqa: E402


class Module(lightning.LightningModule):
    def __init__(self, calibration):
        super().__init__()
        self.model, self.calibration = Classifier(), calibration

    def training_step(self, batch, index):
        inputs, labels = self.calibration.prepare(batch)
        return self.calibration.loss(self.model(inputs), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.model.parameters(), lr=0.1)


def fit(calibration, folder, kind=Module, **options):
    module = kind(calibration)
    trainer = lightning.Trainer(
        accelerator="cpu",
        callbacks=[calibration],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **{"max_epochs": 1, **options},
    )
    loader = DataLoader(TensorDataset(*token_batch()), batch_size=8)
    trainer.fit(module, loader)
    return module, trainer


def test_a_step_is_algorithm_one(tmp_path):
    module, _ = fit(Calibration(HeadNoise(weight=WEIGHT, noise=Mirror())), tmp_path)
    expected = Classifier()
    gradients = algorithm_one(expected, *token_batch())
    for name, parameter in expected.named_parameters():
        updated = parameter.detach() - 0.1 * gradients[name]
        torch.testing.assert_close(
            module.model.get_parameter(name).detach(), updated, rtol=1e-12, atol=1e-15
        )


def test_the_model_is_free_of_the_method_afterwards(tmp_path):
    module, _ = fit(Calibration("head_noise"), tmp_path)
    assert not any(part._forward_pre_hooks for part in module.modules())
    assert not any("calibration" in key for key in module.state_dict())


def test_the_checkpoint_holds_the_noise_stream(tmp_path):
    calibration = Calibration(HeadNoise(seed=3))
    _, trainer = fit(calibration, tmp_path)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)["callbacks"]["Calibration"]
    other = Calibration(HeadNoise(seed=4))
    other.load_state_dict(saved)
    cpu = torch.device("cpu")
    first = torch.rand(3, generator=calibration.method.stream.generator(cpu))
    assert torch.equal(first, torch.rand(3, generator=other.method.stream.generator(cpu)))


def test_meta_regularization_asks_for_held_out_data(tmp_path):
    with pytest.raises(InputError, match="holdout"):
        Calibration(MetaRegularization())
    asked = []

    def holdout():
        asked.append(1)
        return token_batch(seed=7)

    method = MetaRegularization()
    fit(Calibration(method, holdout=holdout), tmp_path, max_epochs=2)
    assert len(asked) == 2
    assert len(method._adam().state) == 2


def test_held_out_data_leaves_each_part_in_its_mode(tmp_path):
    class Frozen(Module):
        def on_train_start(self):
            self.model.encoder.eval()

    calibration = Calibration(MetaRegularization(), holdout=lambda: token_batch(seed=7))
    module, _ = fit(calibration, tmp_path, kind=Frozen)
    assert not module.model.encoder.training


def test_training_that_breaks_off_leaves_the_model_free(tmp_path):
    class Breaking(Module):
        def on_train_batch_end(self, *_):
            raise RuntimeError("out of patience")

    calibration = Calibration("head_noise")
    with pytest.raises(RuntimeError, match="patience"):
        fit(calibration, tmp_path, kind=Breaking)
    assert calibration._hook is None


def test_a_callback_that_is_not_in_fit_says_so():
    with pytest.raises(InputError, match="callbacks"):
        Calibration("head_noise").loss(torch.zeros(1, 2), torch.tensor([0]))

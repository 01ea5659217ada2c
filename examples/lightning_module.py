"""∇Acc in a LightningModule, by one callback. Runs in seconds, offline."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from calibrant.training.lightning import Calibration


def loader(count: int = 256) -> DataLoader:
    """Points of three clusters."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (count,), generator=generator)
    centres = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    inputs = centres[labels] + torch.randn(count, 2, generator=generator)
    return DataLoader(TensorDataset(inputs, labels), batch_size=32)


class Classifier(lightning.LightningModule):
    def __init__(self, calibration: Calibration) -> None:
        super().__init__()
        self.calibration = calibration
        self.model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
        self.last_loss = float("nan")

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:  # noqa: ARG002
        inputs, labels = self.calibration.prepare(batch)
        loss = self.calibration.loss(self.model(inputs), labels)
        self.last_loss = loss.item()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.model.parameters(), lr=1e-2)


def main(epochs: int = 3) -> float:
    torch.manual_seed(0)
    calibration = Calibration("head_noise")
    classifier = Classifier(calibration)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[calibration],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(classifier, loader())
    print(f"task loss {classifier.last_loss:.3f}")
    return classifier.last_loss


if __name__ == "__main__":
    main()

"""What two processes of torchrun do: each adds its share; every rank has the sum."""

import sys
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from calibrant import Predictions
from calibrant.errors import InputError
from calibrant.integrations.torchmetrics import CalibrationMetrics
from calibrant.metrics import Bins, CalibrationState, ConfidenceSketch, accumulate


def data():
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 1001)
    labels[::10] = -100
    return random.normal(size=(1001, 4)).astype("f4") * 2, labels


def rows_of(rank):
    """Which rows each process evaluates."""
    return (slice(0, 300), slice(300, None))[rank]


def refused(rank):
    """Return what each process says to states that mean different things on the others."""
    logits, labels = data()
    p, messages = Predictions.from_logits(logits, labels), []
    other = Predictions.from_logits(logits, labels, weights=np.ones(len(labels)))
    for mine in (
        accumulate(p, bins=15 + rank),
        accumulate(p, bins=Bins(15, ("right", "left")[rank])),
        accumulate((p, other)[rank]),
        ConfidenceSketch.of((p, other)[rank]),
    ):
        try:
            mine.all_reduce()
            messages.append("nothing")
        except InputError as error:
            messages.append(str(error))
    return messages


def with_lightning(rank):
    """Validate with Lightning's Trainer under DDP; return what it logs."""
    import lightning
    from torch.utils.data import DataLoader, TensorDataset

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)  # DDP wants a parameter.
            self.metrics = CalibrationMetrics(classes=4)

        def validation_step(self, batch, index):
            self.metrics.update(*batch)

        def on_validation_epoch_end(self):
            self.log_dict(self.metrics.compute())
            self.metrics.reset()

    logits, labels = data()
    own = rows_of(rank)
    loader = DataLoader(
        TensorDataset(torch.as_tensor(logits[own]), torch.as_tensor(labels[own])), batch_size=64
    )
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    return [trainer.validate(module, loader, verbose=False)[0] for module in [Module()] * 2]


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    logits, labels = data()
    own = rows_of(rank)
    rows, classes = range(1001)[own], torch.as_tensor(labels)
    metrics = CalibrationMetrics(classes=4)
    for start in range(rows.start, rows.stop, 128):
        batch = slice(start, min(start + 128, rows.stop))
        metrics.update(torch.as_tensor(logits[batch]), classes[batch])
    p = Predictions.from_logits(logits[own], labels[own])
    alone = accumulate(p) if rank == 0 else CalibrationState.empty(4)
    found = {
        "metrics": metrics.compute(),
        "state": accumulate(p).all_reduce().to_bytes(),
        "sketch": ConfidenceSketch.of(p).all_reduce().to_bytes(),
        "only rank 0 has rows": alone.all_reduce().to_bytes(),
        "refused": refused(rank),
    }
    if "lightning" in sys.argv:
        found["lightning"] = with_lightning(rank)
    torch.save(found, f"{sys.argv[1]}/rank-{rank}.pt")
    dist.destroy_process_group()

"""What two processes of torchrun do: each adds its share; every rank has the sum."""

import sys
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from calibrant import Predictions
from calibrant.integrations.torchmetrics import CalibrationMetrics
from calibrant.metrics import ConfidenceSketch, accumulate


def data():
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 1001)
    labels[::10] = -100
    return random.normal(size=(1001, 4)).astype("f4") * 2, labels


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    logits, labels = data()
    share = slice(0, 300) if rank == 0 else slice(300, None)
    metrics = CalibrationMetrics(classes=4)
    for start in range(share.start, share.stop or 1001, 128):
        rows = slice(start, min(start + 128, share.stop or 1001))
        metrics.update(torch.as_tensor(logits[rows]), torch.as_tensor(labels[rows]))
    p = Predictions.from_logits(logits[share], labels[share])
    found = {
        "metrics": metrics.compute(),
        "state": accumulate(p).all_reduce().to_bytes(),
        "sketch": ConfidenceSketch.of(p).all_reduce().to_bytes(),
    }
    torch.save(found, f"{sys.argv[1]}/rank-{rank}.pt")
    dist.destroy_process_group()

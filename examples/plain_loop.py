"""∇Acc in a plain PyTorch loop: the five lines between the markers. Runs in seconds, offline."""

import torch
from torch import nn

from calibrant import CrossEntropy, HeadNoise
from calibrant.training import attach


def data(count: int = 512) -> tuple[torch.Tensor, torch.Tensor]:
    """Two noisy moons' poor cousin: a class for each quadrant pair, a tenth of the labels wrong."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, 2, generator=generator)
    labels = (inputs.prod(-1) > 0).long()
    wrong = torch.rand(count, generator=generator) < 0.1
    return inputs, torch.where(wrong, 1 - labels, labels)


def main(epochs: int = 20) -> float:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    inputs, labels = data()
    # --- from here
    method = HeadNoise(CrossEntropy(), weight=0.025)
    with attach(model, method) as hook:
        for epoch in range(epochs):
            for rows in torch.randperm(len(labels)).split(64):
                step = hook.step(model(inputs[rows]), labels[rows])
                loss = method.loss(step)  # Reads as the task loss; the gradient is the method's.
                # --- to here
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            print(f"epoch {epoch:2d}  task loss {loss.item():.3f}")
    return loss.item()


if __name__ == "__main__":
    main()

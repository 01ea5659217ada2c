"""Using a method in a training loop: find the head, record its input, hand the method a step.

>>> import torch
>>> from calibrant.methods import CrossEntropy, HeadNoise
>>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
>>> method = HeadNoise(CrossEntropy(), weight=0.025)
>>> with attach(model, method) as hook:
...     logits = model(torch.ones(2, 4))
...     method.loss(hook.step(logits, torch.tensor([0, 2]))).backward()
>>> all(weight.grad is not None for weight in model.parameters())
True

The Hugging Face subclass is in ``calibrant.training.trainer`` and the Lightning callback in
``calibrant.training.lightning``: each imports its framework, so neither is imported here.
"""

from typing import Any

from calibrant.extras import require
from calibrant.old_names import renamed

require("torch", "torch", "Training with a method")

from calibrant.training.head import find_head  # noqa: E402
from calibrant.training.head_hook import HeadHook, attach  # noqa: E402
from calibrant.training.step import Step  # noqa: E402

__all__ = ["HeadHook", "Step", "attach", "find_head"]


def __getattr__(name: str) -> Any:
    return renamed(__name__, name)

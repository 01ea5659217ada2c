"""What each method costs: the time of a training step over plain PyTorch cross-entropy.

    python benchmarks/overhead.py                 # CPU, encoder of 6 layers and width 384
    python benchmarks/overhead.py --device cuda   # BERT-base size, bfloat16 autocast

Random weights and tokens: only the time counts. A step is forward, loss, backward, AdamW, and what
the method does of its own (γ-Net's outer step with its held-out batch included). Each measurement
of a method stands between two of the baseline, and the overhead is the median over rounds of its
time divided by theirs, so a machine that slows down or speeds up slows both. On a CPU that other
programs use too, ``--clock process`` counts the time that the step itself was running. On the GPU
the batch is large enough to fill it: with 32 sentences an H200 waits for launches three quarters of
the time, with 128 still for some, and a method is charged for every small kernel
(``overhead_graph.py`` captures the step).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from calibrant.methods import METHODS, Method, create
from calibrant.training import attach

LABELS = 9
TARGETS = {"head_noise": 2.0, "head_noise_error_regularization": 4.0}
SKIPPED = {"input_mixup": "mixes pixels; this encoder reads token ids"}
# Otherwise AvUC would be timed in its warm-up.
OPTIONS: dict[str, dict[str, Any]] = {"avuc": {"threshold": "median"}}
CLOCKS = {"wall": time.perf_counter, "process": time.process_time}
SIZES = {
    "cpu": {"layers": 6, "width": 384, "heads": 12, "batch": 8, "tokens": 64},
    "cuda": {"layers": 12, "width": 768, "heads": 12, "batch": 256, "tokens": 128},
}


class Run:
    """One model, optimizer and batch that all methods share."""

    def __init__(self, device: str, size: dict[str, int], bfloat16: bool, clock: str) -> None:
        torch.manual_seed(0)
        self.device, self.bfloat16 = device, bfloat16
        self.clock = CLOCKS[clock]
        self.model = _model(size).to(device).train()
        fused = device == "cuda"
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=fused)
        self.batch, self.held_out = (_batch(size, device, seed) for seed in (0, 1))

    def block(self, method: Method | None, steps: int) -> float:
        """Seconds for each of ``steps`` steps; ``None`` is the baseline."""
        with nullcontext() if method is None else attach(self.model, method) as hook:
            self._wait()
            start = self.clock()
            for _ in range(steps):
                self._step(method, hook)
            self._wait()
            return (self.clock() - start) / steps

    def _step(self, method: Method | None, hook: Any) -> None:
        if method is None:
            logits = self._logits(self.batch)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), self.batch["labels"].flatten())
            loss.backward()
        else:
            batch = method.prepare(self.batch)
            step = hook.step(self._logits(batch), batch["labels"])
            method.loss(step).backward()
            if method.needs_holdout:
                method.outer_step(replace(step, holdout=self._holdout(hook)))
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _logits(self, batch: dict[str, Tensor]) -> Tensor:
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bfloat16):
            logits: Tensor = self.model(batch["input_ids"], batch["attention_mask"]).logits
            return logits

    @torch.no_grad()
    def _holdout(self, hook: Any) -> Any:
        return hook.step(self._logits(self.held_out), self.held_out["labels"])

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def measure(run: Run, names: list[str], rounds: int, steps: int) -> list[dict[str, Any]]:
    """For each method its time and its overhead in percent, with the quartiles."""
    methods = {name: create(name, **OPTIONS.get(name, {})) for name in names}
    for method in (None, *methods.values()):  # Warm caches, allocators and kernels.
        run.block(method, steps=3)
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    ratios: dict[str, list[float]] = {name: [] for name in methods}
    baseline: list[float] = []
    for number in range(rounds):
        before = run.block(None, steps)
        for name, method in methods.items():
            mine = run.block(method, steps)
            after = run.block(None, steps)
            seconds[name].append(mine)
            ratios[name].append(2 * mine / (before + after))
            baseline.append(before)
            before = after
        print(f"round {number + 1} of {rounds}", end="\r", file=sys.stderr, flush=True)
    rows = [{"method": "plain cross-entropy", "milliseconds": 1e3 * statistics.median(baseline)}]
    return rows + [_row(name, seconds[name], ratios[name]) for name in methods]


def _row(name: str, seconds: list[float], ratios: list[float]) -> dict[str, Any]:
    percent = [100 * (ratio - 1) for ratio in ratios]
    low, middle, high = statistics.quantiles(percent, n=4)
    return {
        "method": name,
        "milliseconds": 1e3 * statistics.median(seconds),
        "overhead_percent": middle,
        "quartiles_percent": [low, high],
        "target_percent": TARGETS.get(name),
    }


def show(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'method':<33}{'ms':>9}{'overhead':>11}{'quartiles':>18}  target"]
    for row in rows:
        line = f"{row['method']:<33}{row['milliseconds']:>9.2f}"
        if "overhead_percent" in row:
            low, high = row["quartiles_percent"]
            line += f"{row['overhead_percent']:>+10.1f}%{f'{low:+.1f} … {high:+.1f}':>18}"
            if row["target_percent"] is not None:
                met = "met" if row["overhead_percent"] <= row["target_percent"] else "MISSED"
                line += f"  ≤ {row['target_percent']:g} %: {met}"
        lines.append(line)
    return "\n".join(lines + [f"{name:<33}skipped: {why}" for name, why in SKIPPED.items()])


def _model(size: dict[str, int]) -> nn.Module:
    config = transformers.BertConfig(
        hidden_size=size["width"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"],
        intermediate_size=4 * size["width"],
        num_labels=LABELS,
    )
    return transformers.BertForTokenClassification(config)


def _batch(size: dict[str, int], device: str, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (size["batch"], size["tokens"])
    ids = torch.randint(1000, 30000, shape, generator=generator)
    labels = torch.randint(LABELS, shape, generator=generator)
    labels[torch.rand(shape, generator=generator) < 0.3] = -100
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    return {name: value.to(device) for name, value in batch.items()}


def environment(device: str) -> dict[str, Any]:
    cpu = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), cpu)
    git = ["git", "describe", "--always", "--dirty=+", "--abbrev=12"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return {
        "git": done.stdout.strip() or None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
        "load_average": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=list(SIZES), default="cpu")
    parser.add_argument("--method", action="append", choices=list(METHODS), help="default: all")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, help="in each block (CPU 1, GPU 10)")
    parser.add_argument("--batch", type=int, help="sentences (CPU 8, GPU 256)")
    parser.add_argument("--tokens", type=int, help="of each sentence (CPU 64, GPU 128)")
    parser.add_argument("--float32", action="store_true", help="no bfloat16 autocast on the GPU")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--json", type=Path, help="write the rows and the environment there")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    size = dict(SIZES[options.device])
    size.update(
        {key: getattr(options, key) for key in ("batch", "tokens") if getattr(options, key)}
    )
    bfloat16 = options.device == "cuda" and not options.float32
    steps = options.steps or (10 if options.device == "cuda" else 1)
    names = options.method or [name for name in METHODS if name not in SKIPPED]
    rows = measure(Run(options.device, size, bfloat16, options.clock), names, options.rounds, steps)
    print(show(rows))
    if options.json:
        settings = {"device": options.device, **size, "bfloat16": bfloat16}
        settings.update(steps=steps, rounds=options.rounds, clock=options.clock)
        content = {"settings": settings, "environment": environment(options.device), "rows": rows}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

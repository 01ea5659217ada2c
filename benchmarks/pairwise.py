"""Pairwise losses against the naive n × n versions: time and peak memory of forward plus backward.

Both sides run in one process, in turns, on the same inputs; the best of several runs counts. Memory
is the growth of the process (CPU, Linux; a fresh process for each number) or of the allocator
(CUDA); below n = 1024 a process grows by less than its own noise, and none is given.

    python benchmarks/pairwise.py                       # sizes 64 … 16,384, and ours alone beyond
    python benchmarks/pairwise.py --device cuda
    python benchmarks/pairwise.py --json benchmarks/results/pairwise-cpu.json

On CUDA "ours" is the way that the library picks, and four more columns tell the two it picks from
apart: "fused" (all pairs on chip, in Triton) and "older" (the matrix, or sorting), each launched
one by one from Python and replayed as a captured graph, where launches cost next to nothing.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant.losses import fused
from calibrant.losses.pairwise import kernel_calibration, order_violation, smooth_gap

SIZES = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
OURS_ALONE = {"cpu": [65536, 1_000_000], "cuda": [32768, 65536, 131_072, 1_000_000]}
LARGEST_FUSED = 131_072
LIMIT = {"cpu": 1.0, "cuda": 0.3}  # seconds for the repetitions of one number


class Example(NamedTuple):
    confidence: Tensor
    error: Tensor
    correct: Tensor


Loss = Callable[[Example], Tensor]


def naive_error_regularization(x: Example) -> Tensor:
    worse = x.error[:, None] > x.error[None, :]
    excess = (x.confidence[:, None] - x.confidence[None, :]).clamp(min=0)
    return (excess.square() * worse).sum() / worse.sum().clamp(min=1)


def naive_mmce(x: Example) -> Tensor:
    residual = x.correct - x.confidence
    kernel = (-(x.confidence[:, None] - x.confidence[None, :]).abs() / 0.4).exp()
    return (residual[:, None] * residual[None, :] * kernel).mean().sqrt()


def naive_sece(x: Example) -> Tensor:
    distance = x.confidence[:, None] - x.confidence[None, :]
    kernel = (-distance.square() / (2 * 0.01**2)).exp()
    smoothed = (kernel @ x.correct) / kernel.sum(1)
    return (smoothed - x.confidence).abs().mean()


def error_regularization(x: Example) -> Tensor:
    return order_violation(x.confidence, x.error)


def mmce(x: Example) -> Tensor:
    return kernel_calibration(
        x.confidence, x.correct, torch.full_like(x.correct, 1 / x.correct.numel())
    )


def sece(x: Example) -> Tensor:
    return smooth_gap(x.confidence, x.correct)


WAYS = {
    "fused_seconds": "fused ms",
    "older_seconds": "older ms",
    "fused_graph_seconds": "fused graph",
    "older_graph_seconds": "older graph",
}

LOSSES: dict[str, tuple[Loss, Loss]] = {
    "error_regularization": (naive_error_regularization, error_regularization),
    "mmce": (naive_mmce, mmce),
    "sece": (naive_sece, sece),
}


def example(n: int, device: str) -> Example:
    """Confidences as a trained tagger has them, most of them near 1; float32, as in training."""
    generator = torch.Generator().manual_seed(n)
    confidence = 1 - 0.6 * torch.rand(n, generator=generator) ** 4
    correct = (torch.rand(n, generator=generator) < confidence).float()
    error = torch.where(correct.bool(), -confidence.log(), torch.rand(n, generator=generator) + 1)
    return Example(confidence.to(device).requires_grad_(), error.to(device), correct.to(device))


def step(loss: Loss, inputs: Example) -> None:
    inputs.confidence.grad = None
    loss(inputs).backward()


def timed(loss: Loss, inputs: Example, device: str) -> float:
    """Seconds of one forward and backward."""
    if device == "cpu":
        start = time.perf_counter()
        step(loss, inputs)
        return time.perf_counter() - start
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    step(loss, inputs)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1000


def seconds(losses: list[Loss], n: int, device: str) -> list[float]:
    """The best time of each, taken in turns so that a busy machine slows all alike."""
    inputs = example(n, device)
    for loss in losses:
        step(loss, inputs)
    best, runs, start = [float("inf")] * len(losses), 0, time.perf_counter()
    while runs < 3 or (runs < 200 and time.perf_counter() - start < LIMIT[device]):
        best = [min(b, timed(loss, inputs, device)) for b, loss in zip(best, losses, strict=True)]
        runs += 1
    return best


@contextmanager
def only(way: str) -> Iterator[None]:
    """All that runs inside goes this way, whatever its n."""
    before = {name: dict(limits) for name, limits in fused.FUSED_BELOW.items()}
    for limits in fused.FUSED_BELOW.values():
        limits.update(dict.fromkeys(limits, {"fused": 1 << 31, "older": 0}[way]))
    try:
        yield
    finally:
        fused.FUSED_BELOW.update(before)


def captured_seconds(loss: Loss, n: int, replays: int = 20) -> float:
    """Of one forward and backward, replayed from a CUDA graph; the best of ten rounds."""
    inputs = example(n, "cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.autograd.grad(loss(inputs), inputs.confidence)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.autograd.grad(loss(inputs), inputs.confidence)
    best = float("inf")
    for _ in range(10):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) / 1000 / replays)
    return best


def compare_ways(name: str, n: int) -> dict[str, object]:
    """The fused way and the older one next to each other, launched one by one and as a graph."""
    row: dict[str, object] = {}
    for way in ("fused", "older") if n <= LARGEST_FUSED else ("older",):
        with only(way):
            (row[f"{way}_seconds"],) = seconds([LOSSES[name][1]], n, "cuda")
            row[f"{way}_graph_seconds"] = captured_seconds(LOSSES[name][1], n)
    return row


def cuda_bytes(loss: Loss, n: int) -> int:
    inputs = example(n, "cuda")
    step(loss, inputs)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(loss, inputs)
    return torch.cuda.max_memory_allocated() - before


def process_bytes(name: str, naive: bool, n: int) -> int:
    """Growth of the peak of a fresh process over what it held before the step."""
    command = [sys.executable, __file__, "--measure", name, str(int(naive)), str(n)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(name: str, naive: bool, n: int) -> None:
    """Print the growth; run by :func:`process_bytes`."""
    torch.set_num_threads(1)
    loss = LOSSES[name][0 if naive else 1]
    inputs = example(n, "cpu")
    step(
        loss, example(768, "cpu")
    )  # Threads and libraries, loaded on first use, are no part of it.
    before = resident("VmRSS")
    step(loss, inputs)
    print(max(resident("VmHWM") - before, 4096))  # Less than a page is not seen.


def resident(field: str) -> int:
    """Memory held now (VmRSS) or at the peak (VmHWM), in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def peak_bytes(name: str, naive: bool, n: int, device: str) -> int:
    if device == "cpu":
        return process_bytes(name, naive, n)
    return cuda_bytes(LOSSES[name][0 if naive else 1], n)


def compare(name: str, n: int, device: str, with_naive: bool) -> dict[str, object]:
    row: dict[str, object] = {"loss": name, "n": n}
    if device == "cuda":
        row |= compare_ways(name, n)
    if not with_naive:
        (row["seconds"],) = seconds([LOSSES[name][1]], n, device)
        return row | {"bytes": peak_bytes(name, False, n, device)}
    naive, ours = seconds(list(LOSSES[name]), n, device)
    row |= {"naive_seconds": naive, "seconds": ours, "faster": naive / ours}
    if n >= 1024:
        naive_bytes, bytes_ = (peak_bytes(name, side, n, device) for side in (True, False))
        row |= {"naive_bytes": naive_bytes, "bytes": bytes_, "smaller": naive_bytes / bytes_}
    return row


def show(row: dict[str, object]) -> str:
    def number(key: str, scale: float, width: int, digits: int) -> str:
        value = row.get(key)
        return (
            f"{value * scale:{width}.{digits}f}" if isinstance(value, int | float) else " " * width
        )

    return " ".join(
        [
            f"{row['loss']:<21}{row['n']:>9}",
            number("naive_seconds", 1e3, 11, 3),
            number("seconds", 1e3, 11, 3),
            number("naive_bytes", 1e-6, 10, 2),
            number("bytes", 1e-6, 10, 2),
            number("faster", 1, 9, 2),
            number("smaller", 1, 9, 1),
            *(number(key, 1e3, 12, 3) for key in WAYS if "older_seconds" in row),
        ]
    )


def environment(device: str) -> dict[str, object]:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor()
    if device == "cpu" and Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), name)
    return {
        "device": device,
        "hardware": name,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": git("rev-parse", "HEAD"),
        "changed_files": git("status", "--porcelain", "src/calibrant/losses", "benchmarks"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--loss", choices=list(LOSSES), action="append", help="default: all")
    parser.add_argument("--largest", type=int, default=16384, help="largest n for the naive side")
    parser.add_argument("--threads", type=int, help="CPU threads of both sides")
    parser.add_argument("--json", type=Path, help="write the rows and the environment there")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, naive, n = options.measure
        return measure(name, bool(int(naive)), int(n))
    if options.threads:
        torch.set_num_threads(options.threads)
    rows = []
    print(
        f"{'loss':<21}{'n':>9} {'naive ms':>11} {'ours ms':>11} {'naive MB':>10} {'ours MB':>10} "
        f"{'faster':>9} {'smaller':>9}"
        + (" ".join(["", *(f"{x:>12}" for x in WAYS.values())]) if options.device == "cuda" else "")
    )
    for name in options.loss or LOSSES:
        for n in SIZES + OURS_ALONE[options.device]:
            rows.append(compare(name, n, options.device, n <= min(options.largest, max(SIZES))))
            print(show(rows[-1]), flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        content = {"environment": environment(options.device), "rows": rows}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()

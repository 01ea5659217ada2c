"""Steps per second on a GPU: the Hugging Face Trainer, the lean loop, and stacks of runs.

    CALIBRANT_DATA=… python benchmarks/training_speed.py --data conll2003 --model minilm

One run on one machine: a corpus of the catalogue, so that lengths of sentences are real; the same
encoder, head and batch size for all. A row counts optimizer steps of one run: a stack of ten runs
that does 100 steps a second counts 1,000. The share of the chip's limit takes 6 floating-point
operations for each weight of the encoder and each real word piece, forward and backward, over the
dense peak of the number format, so padding and everything that is no matrix product counts as loss.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
from transformers import (
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from calibrant.methods import create
from calibrant.tasks.encoders.finding import find_encoder
from calibrant.tasks.encoders.heads import load_encoder, with_head
from calibrant.tasks.ner.corpus import load_corpus
from calibrant.tasks.ner.data import occurring, renumber, trim_embeddings
from calibrant.tasks.ner.subword_windows import encode
from calibrant.training.loop import Loop, Schedule, Windows
from calibrant.training.stacked import Stack

METHODS = (
    "cross_entropy",
    "avuc",
    "error_regularization",
    "head_noise",
    "head_noise_error_regularization",
)
PEAK = {"tf32": 494.7e12, "bfloat16": 989.4e12}  # H100 and H200 SXM, dense
WARM_UP = 10


class Clock(TrainerCallback):
    """The time of the steps after the warm-up, the device waited for at both ends."""

    def on_step_end(self, args, state, _control, **_more):
        if state.global_step in (WARM_UP, args.max_steps):
            torch.cuda.synchronize()
            setattr(self, "began" if state.global_step == WARM_UP else "ended", time.perf_counter())


class Bench:
    def __init__(self, args):
        self.corpus = load_corpus(args.data)
        self.where = find_encoder(args.model)
        self.tokenizer = AutoTokenizer.from_pretrained(self.where)
        self.pieces = encode(self.corpus.train, self.corpus.labels, self.tokenizer)
        self.windows = Windows(self.pieces, "cuda", self.tokenizer.pad_token_id)
        self.steps, self.rows = args.steps, []
        encoder = self.model().base_model
        embedded = sum(p.numel() for p in encoder.embeddings.parameters())
        self.matrices = sum(p.numel() for p in encoder.parameters()) - embedded

    def model(self, seed=0):
        labels = self.corpus.labels
        return with_head(load_encoder(self.where, labels), len(labels), seed)

    def trainer(self, dtype, batch=32):
        """The second of two runs: in the first, kernels of ever new shapes are loaded."""
        self._train(dtype, batch)
        clock = self._train(dtype, batch)
        self.add("Trainer", dtype, batch, 1, self.steps / (clock.ended - clock.began))

    def _train(self, dtype, batch):
        clock = Clock()
        arguments = TrainingArguments(
            str(Path(tempfile.gettempdir()) / "trainer"),  # Nothing is written there.
            max_steps=WARM_UP + self.steps,
            per_device_train_batch_size=batch,
            bf16=dtype == "bfloat16",
            tf32=True,
            dataloader_num_workers=4,
            train_sampling_strategy="group_by_length",
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            logging_strategy="no",
        )
        collator = DataCollatorForTokenClassification(self.tokenizer)
        Trainer(
            self.model(), arguments, collator, train_dataset=self.pieces, callbacks=[clock]
        ).train()
        return clock

    def loops(self, dtype, batch=32, jobs=1, graph=True):
        schedule = Schedule(epochs=5, batch=batch, dtype=dtype)
        made = [
            Loop(
                self.model(s), create("cross_entropy"), self.windows, schedule, seed=s, graph=graph
            )
            for s in range(jobs)
        ]
        what = "lean loop" if graph else "lean loop, eager"
        self.add(what, dtype, batch, jobs, jobs * self.rate(made))

    def stack(self, dtype, batch, size, jobs=1, compiled=True):
        schedule = Schedule(epochs=5, batch=batch, dtype=dtype)
        kept = occurring([self.pieces], self.tokenizer.pad_token_id)
        padding = int(kept.searchsorted(self.tokenizer.pad_token_id))
        windows = Windows(renumber(self.pieces, kept), "cuda", padding)
        made = []
        for _ in range(jobs):
            methods = [create(METHODS[i % len(METHODS)]) for i in range(size)]
            models = [trim_embeddings(self.model(s), kept) for s in range(size)]
            made.append(Stack(models, methods, windows, schedule, compiled=compiled))
        what = ("stack" if jobs == 1 else f"{jobs} stacks") + (", compiled" if compiled else "")
        self.add(what, dtype, batch, size * jobs, size * jobs * self.rate(made))

    def rate(self, made):
        running = [loop.steps() for loop in made]
        for turn in range(WARM_UP + self.steps):
            if turn == WARM_UP:
                torch.cuda.synchronize()
                began = time.perf_counter()
            for each in running:
                next(each)
        torch.cuda.synchronize()
        return self.steps / (time.perf_counter() - began)

    def add(self, what, dtype, batch, runs, rate):
        pieces = rate * batch * self.pieces.lengths.mean()
        row = {
            "what": what,
            "dtype": dtype,
            "batch": batch,
            "runs": runs,
            "steps_per_second": rate,
            "sentences_per_second": rate * batch,
            "share_of_peak": 6 * self.matrices * pieces / PEAK[dtype],
            "gigabytes": torch.cuda.max_memory_allocated() / 2**30,
        }
        self.rows.append(row)
        print(
            f"{what:18s} {dtype:9s} batch {batch:<4d} × {runs:<3d} {rate:7.0f} steps/s "
            f"{rate * batch:9.0f} sentences/s {row['share_of_peak']:6.1%} of peak "
            f"{row['gigabytes']:5.1f} GB",
            flush=True,
        )
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="conll2003")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    bench = Bench(args)
    for dtype in PEAK:
        bench.trainer(dtype)
        bench.loops(dtype, graph=False)
        bench.loops(dtype)
    bench.loops("tf32", jobs=8)
    for dtype in PEAK:
        for batch, size, jobs in ((32, 10, 1), (32, 20, 1), (64, 10, 1), (64, 10, 2)):
            bench.stack(dtype, batch, size, jobs)
    bench.stack("bfloat16", 64, 10, compiled=False)
    if args.json:
        about = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
        args.json.write_text(json.dumps({"rows": bench.rows, "data": args.data, **about}, indent=1))


if __name__ == "__main__":
    main()

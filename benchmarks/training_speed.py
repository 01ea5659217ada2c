"""Steps per second of the lean loop: eager, as captured CUDA graphs, and several side by side.

    CALIBRANT_DATA=… python benchmarks/training_speed.py --data conll2003 --model minilm

The data are a corpus of the catalogue, so that lengths of sentences are real.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from transformers import AutoTokenizer

from calibrant.methods import create
from calibrant.tasks.encoders import find_encoder
from calibrant.tasks.ner import load_corpus
from calibrant.tasks.pieces import encode
from calibrant.tasks.token_classifier import load_encoder, with_head
from calibrant.training.loop import Loop, Schedule, Windows

JOBS, DTYPES = (1, 4, 8, 12), ("float32", "tf32", "bfloat16")
BATCH, WARM_UP = 32, 10


def loops(count, args, labels, data, **more):
    made = []
    for seed in range(count):
        model = with_head(load_encoder(find_encoder(args.model), labels), len(labels), seed)
        schedule = Schedule(epochs=3, batch=BATCH, dtype=more.pop("dtype", "tf32"))
        made.append(Loop(model, create("cross_entropy"), data, schedule, seed=seed, **more))
        more["dtype"] = schedule.dtype
    return made


def steps_per_second(made, steps):
    running = [loop.steps() for loop in made]
    for turn in range(WARM_UP + steps):
        if turn == WARM_UP:
            torch.cuda.synchronize()
            began = time.perf_counter()
        for each in running:
            next(each)
    torch.cuda.synchronize()
    rate = len(made) * steps / (time.perf_counter() - began)
    for loop in made:
        loop.close()
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="conll2003")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    corpus = load_corpus(args.data)
    tokenizer = AutoTokenizer.from_pretrained(find_encoder(args.model))
    data = Windows(encode(corpus.train, corpus.labels, tokenizer), "cuda", tokenizer.pad_token_id)
    rows = []
    for dtype in DTYPES:
        for graph in (False, True):
            made = loops(1, args, corpus.labels, data, dtype=dtype, graph=graph)
            rows.append(
                {"dtype": dtype, "graph": graph, "jobs": 1, "rate": steps_per_second(made, 60)}
            )
    for jobs in JOBS[1:]:
        made = loops(jobs, args, corpus.labels, data, dtype="tf32")
        rate = steps_per_second(made, 200)
        rows.append({"dtype": "tf32", "graph": True, "jobs": jobs, "rate": rate})
    for row in rows:
        how = "graph" if row["graph"] else "eager"
        print(
            f"{row['dtype']:9s} {how} × {row['jobs']:<3d} {row['rate']:8.0f} steps/s "
            f"{BATCH * row['rate']:10.0f} sentences/s"
        )
    if args.json:
        about = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
        args.json.write_text(json.dumps({"rows": rows, "batch": BATCH, **about}, indent=1))


if __name__ == "__main__":
    main()

"""Texts per second of predict, by torch and by an export, beside transformers.pipeline.

calibrant train --task text --data DATA --model minilm --head-depth 0 -o RUN
calibrant export RUN -o EXPORT
OMP_NUM_THREADS=2 python benchmarks/predict_speed.py RUN EXPORT --data clinc150 -o RESULT.json

All ways see the same texts, take turns in each round, and must give the same probabilities. Ratios
are those of one round, so that other work on the machine burdens all of them alike; the table has
their medians. ``--stream`` measures the memory of a long stream instead.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np

import calibrant

START = (
    "import time; began = time.perf_counter(); import calibrant; "
    "made = calibrant.load({path!r}); made.predict('a text'); "
    "print(time.perf_counter() - began, time.process_time())"
)


def texts_of(name, directory, count):
    """Return texts of a corpus: of classes, or sentences of a corpus of entities."""
    if name in ("clinc150", "20newsgroups"):
        from calibrant.tasks.text.corpus import load_texts

        return list(load_texts(name, directory).texts["test"])[:count]
    from calibrant.tasks.ner.corpus import load_corpus

    return [" ".join(sentence.words) for sentence in load_corpus(name, directory).test][:count]


def pipeline_of(run, threads):
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(threads)
    kinds = transformers.AutoModelForSequenceClassification, transformers.AutoTokenizer
    model, tokenizer = (kind.from_pretrained(str(run / "model")) for kind in kinds)
    return transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)


def softmax(logits):
    wide = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return wide / wide.sum(axis=1, keepdims=True)


def clock(work):
    wall, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - used


def compare(args):
    texts = texts_of(args.data, args.data_dir, args.texts)
    pipeline = pipeline_of(args.run, args.threads)
    run, export = (calibrant.load(path, device="cpu") for path in (args.run, args.export))
    cut = {"truncation": True, "max_length": run.max_length}
    ways = {
        "pipeline": lambda: pipeline(texts, **cut),
        "pipeline, batch 32": lambda: pipeline(texts, batch_size=32, **cut),
        "calibrant, torch": lambda: run.predict(texts),
        "calibrant, export": lambda: export.predict(texts),
    }
    scores = np.array([found["score"] for found in pipeline(texts, **cut)])
    own = [softmax(made.logits(texts)).max(axis=1) for made in (run, export)]
    differences = [float(np.abs(scores - probabilities).max()) for probabilities in own]
    rounds = [{name: clock(work) for name, work in ways.items()} for _ in range(args.rounds)]
    table = {}
    for name in ways:
        wall, used = (
            statistics.median(r["pipeline"][kind] / r[name][kind] for r in rounds)
            for kind in (0, 1)
        )
        best = min(r[name][0] for r in rounds)
        table[name] = {
            "texts_per_second_best": len(texts) / best,
            "times_pipeline_wall": wall,
            "times_pipeline_processor": used,
        }
    pieces = [len(ids) for ids in run.tokenizer.encode_texts(texts)]
    return {
        "texts": len(texts),
        "mean_pieces": float(np.mean(pieces)),
        "largest_difference": max(differences),
        "rounds": args.rounds,
        "load_average_before": os.getloadavg()[0],
        "ways": table,
    }


def start(args):
    """Seconds from the first import to the first prediction of an export, in a new process."""
    command = [sys.executable, "-c", START.format(path=str(args.export))]
    found = [
        tuple(map(float, subprocess.check_output(command, text=True).split())) for _ in range(5)
    ]
    return {"wall_best": min(w for w, _ in found), "processor_best": min(p for _, p in found)}


def stream(args):
    """Peak memory after a tenth of a long stream, and at its end."""
    export = calibrant.load(args.export)
    source = texts_of(args.data, args.data_dir, 1000)
    found = export.stream(source[i % len(source)] for i in range(args.stream))
    began = time.perf_counter()
    peaks = []
    for count in (args.stream // 10, args.stream - args.stream // 10):
        assert sum(1 for _ in islice(found, count)) == count
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    seconds = time.perf_counter() - began
    return {"texts": args.stream, "peak_mb": peaks, "seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("export", type=Path)
    parser.add_argument("--data", default="clinc150")
    parser.add_argument("--data-dir")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--stream", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    result = {"data": args.data, "threads": args.threads}
    result |= {"stream": stream(args)} if args.stream else {**compare(args), "start": start(args)}
    text = json.dumps(result, indent=1)
    print(text)
    if args.output is not None:
        args.output.write_text(text + "\n")


if __name__ == "__main__":
    main()

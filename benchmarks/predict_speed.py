"""Texts per second of predict, by torch and by an export, next to transformers.pipeline.

calibrant train --task text --data DATA --model minilm --head-depth 0 --epochs 1 -o RUN
calibrant export RUN -o EXPORT
OMP_NUM_THREADS=2 python benchmarks/predict_speed.py RUN EXPORT --data clinc150 -o RESULT.json

A run of entities (``--task ner``) is compared with the pipeline that finds entities. Speed does not
depend on what a model has learned, so that a few sentences of training data are enough.

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
from machine import circumstances

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


def pipeline_of(run, threads, entities):
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(threads)
    task, kind = "text-classification", transformers.AutoModelForSequenceClassification
    if entities:
        task, kind = "token-classification", transformers.AutoModelForTokenClassification
    kinds = kind, transformers.AutoTokenizer
    model, tokenizer = (kind.from_pretrained(str(run / "model")) for kind in kinds)
    return transformers.pipeline(task, model=model, tokenizer=tokenizer)


def softmax(logits):
    wide = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return wide / wide.sum(axis=1, keepdims=True)


def clock(work):
    wall, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - used


def of_texts(pipeline, run, export, texts):
    """Return the ways to classify texts, and the largest difference of their probabilities."""
    cut = {"truncation": True, "max_length": run.max_length}
    ways = {
        "pipeline": lambda: pipeline(texts, **cut),
        "pipeline, batch 32": lambda: pipeline(texts, batch_size=32, **cut),
        "calibrant, torch": lambda: run.predict(texts),
        "calibrant, export": lambda: export.predict(texts),
    }
    scores = np.array([found["score"] for found in pipeline(texts, **cut)])
    own = [softmax(made.scored(texts).logits).max(axis=1) for made in (run, export)]
    return ways, max(float(np.abs(scores - each).max()) for each in own)


def of_entities(pipeline, run, export, texts):
    """Return the ways to find entities, and the largest difference of the words' probabilities.

    Words are given, so that all ways see the same word pieces.
    """
    whole = {"aggregation_strategy": "simple"}
    ways = {
        "pipeline": lambda: pipeline(texts, **whole),
        "pipeline, batch 32": lambda: pipeline(texts, batch_size=32, **whole),
        "calibrant, torch": lambda: run.predict(texts, tokens=True),
        "calibrant, export": lambda: export.predict(texts, tokens=True),
    }
    scores = [
        piece["score"]
        for text, pieces in zip(texts, pipeline(texts, ignore_labels=[]), strict=True)
        for piece in pieces
        if piece["start"] == 0 or text[piece["start"] - 1] == " "  # The first piece of a word.
    ]
    own = [
        np.concatenate([softmax(part.scores).max(axis=1) for part in made.raw_predictions(
            texts, tokens=True)]) for made in (run, export)
    ]  # fmt: skip
    return ways, max(float(np.abs(np.array(scores) - each).max()) for each in own)


def compare(args):
    texts = texts_of(args.data, args.data_dir, args.texts)
    run, export = (calibrant.load(path, device="cpu") for path in (args.run, args.export))
    pipeline = pipeline_of(args.run, args.threads, run.finds_entities)
    make = of_entities if run.finds_entities else of_texts
    ways, difference = make(pipeline, run, export, texts)
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
        "task": "entities" if run.finds_entities else "texts",
        "largest_difference": difference,
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
    packages = ("calibrant", "numpy", "torch", "transformers", "onnxruntime", "tokenizers")
    text = json.dumps({**result, "circumstances": circumstances(packages)}, indent=1)
    print(text)
    if args.output is not None:
        args.output.write_text(text + "\n")


if __name__ == "__main__":
    main()

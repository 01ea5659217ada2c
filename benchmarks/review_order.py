"""Errors that a reviewer finds per 100 entities, by the order of the documents.

    python benchmarks/review_order.py CORPUS-SEED.npz … -o FILE.json

The files are those of collect_signals.py: a trained model's words on validation and test. Entities
get the confidence that is learned on validation. A document is ``--sentences`` sentences in a row.
Orders: by calibrant (mean of 1 − confidence over the entities of a document), by two raw scores
(the same with the product or the mean of the words' softmax, the latter as transformers.pipeline
has it), and at random (mean of 200 orders). Looked at are whole documents until the share of all
predicted entities is reached. An error is a predicted entity whose span or type is wrong; missed
entities are not counted, because no order of predictions can show them.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from calibrant.comparison import SpanCalibrator
from calibrant.metrics import entity_confidences
from machine import circumstances
from shift_study import CLEAN, Parts

SHARES = (0.05, 0.1, 0.25, 0.5)
ORDERS = ("calibrant", "raw product", "raw mean", "random")


def found_per_100(order, entities, errors, share):
    """Return errors per 100 entities of the first documents with at least this share of them."""
    looked = np.cumsum(entities[order])
    last = int(np.searchsorted(looked, share * entities.sum()))
    return 100 * errors[order][: last + 1].sum() / looked[last]


def rows(path, sentences, tests):
    parts = Parts(path)
    learned = SpanCalibrator().fit(parts.get("valid", CLEAN))
    for name in tests:
        if f"test/{name}" not in parts.names:
            continue
        test = parts.get("test", name)
        block = np.unique(test.groups["sentence"], return_inverse=True)[1] // sentences
        raw = {
            f"raw {r}": entity_confidences(test, reduction=r, block=block)
            for r in ("product", "mean")
        }
        wrong = ~np.asarray(raw["raw product"].correct, bool)
        document = raw["raw product"].block
        entities = np.bincount(document)
        kept = entities > 0
        errors, entities = np.bincount(document, wrong)[kept], entities[kept]
        scores = {"calibrant": learned.transform(test).confidence}
        scores |= {label: one.confidence for label, one in raw.items()}
        orders = {
            label: np.argsort(-np.bincount(document, 1 - score)[kept] / entities, kind="stable")
            for label, score in scores.items()
        }
        yield {"file": path.stem, "test": name, "entities": int(entities.sum()),
               "documents": len(entities), "errors_per_100": 100 * errors.sum() / entities.sum(),
               "found": found(orders, entities, errors)}  # fmt: skip


def found(orders, entities, errors):
    random = np.random.default_rng(0)
    shuffled = [random.permutation(len(entities)) for _ in range(200)]
    return {
        str(share): {
            **{n: found_per_100(order, entities, errors, share) for n, order in orders.items()},
            "random": np.mean([found_per_100(o, entities, errors, share) for o in shuffled]),
        }
        for share in SHARES
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--sentences", type=int, default=10)
    parser.add_argument("--tests", nargs="+", default=[CLEAN, "typos-3", "wnut17"])
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    made = [row for path in args.files for row in rows(path, args.sentences, args.tests)]
    names = dict.fromkeys((row["file"].rpartition("-")[0], row["test"]) for row in made)
    for corpus, test in names:
        mine = [r for r in made if (r["file"].rpartition("-")[0], r["test"]) == (corpus, test)]
        print(f"{corpus} {test}: errors per 100 entities, means over {len(mine)} seeds")
        for share in mine[0]["found"]:
            values = {n: np.mean([r["found"][share][n] for r in mine]) for n in ORDERS}
            shown = "  ".join(f"{name} {value:5.1f}" for name, value in values.items())
            print(f"   the first {100 * float(share):3.0f} %: {shown}")
    if args.output is not None:
        content = {
            "circumstances": circumstances(("calibrant", "numpy")),
            "sentences": args.sentences,
            "rows": made,
        }
        args.output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

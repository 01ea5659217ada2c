"""Write a corpus with fewer training sentences, so that a long schedule fits the time at hand.

python benchmarks/sample_corpus.py conll2003 2000 DATA/ner/conll2003-2000

The training sentences are a sample without replacement (seed 0), in the corpus' order. The
development and test splits stay whole, unless ``--dev`` and ``--test`` sample them, too.
"""

import argparse
from pathlib import Path

import numpy as np

from calibrant.tasks.ner import load_corpus


def write(path, sentences):
    lines = (
        "".join(f"{w}\t{t}\n" for w, t in zip(s.words, s.tags, strict=True)) for s in sentences
    )
    path.write_text("\n".join(lines), encoding="utf-8")


def sampled(sentences, count):
    rows = np.random.default_rng(0).permutation(len(sentences))[:count]
    return [sentences[row] for row in np.sort(rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("sentences", type=int)
    parser.add_argument("output", type=Path)
    parser.add_argument("--dev", type=int, help="sentences of the development split (all)")
    parser.add_argument("--test", type=int, help="sentences of the test split (all)")
    parser.add_argument("--data-dir")
    args = parser.parse_args()
    corpus = load_corpus(args.corpus, args.data_dir)
    args.output.mkdir(parents=True, exist_ok=True)
    write(args.output / "train.conll", sampled(corpus.train, args.sentences))
    write(args.output / "dev.conll", sampled(corpus.dev, args.dev))
    write(args.output / "test.conll", sampled(corpus.test, args.test))


if __name__ == "__main__":
    main()

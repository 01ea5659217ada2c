"""A corpus of a few sentences that a tiny encoder learns in seconds."""

import numpy as np

FIRST = ["Anna", "Boris", "Clara", "Dario", "Elena", "Felix"]
LAST = ["Berg", "Holm", "Lind", "Sand"]
PLACES = ["Paris", "Rome", "Oslo", "Lima", "Accra"]
FIRMS = ["Acme", "Bosco", "Cortex"]


def sentence(random):
    """One sentence as lines of a CoNLL file."""
    kind = int(random.integers(3))
    name = [(random.choice(FIRST), "B-PER"), (random.choice(LAST), "I-PER")]
    if kind == 0:
        words = [*name, ("lives", "O"), ("in", "O"), (random.choice(PLACES), "B-LOC"), (".", "O")]
    elif kind == 1:
        words = [(random.choice(FIRMS), "B-ORG"), ("hired", "O"), *name, ("today", "O"), (".", "O")]
    else:
        words = [("Nobody", "O"), ("knows", "O"), ("why", "O"), (".", "O")]
    return "".join(f"{word}\t{tag}\n" for word, tag in words)


def write_corpus(folder, seed=0, **sizes):
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in {"train": 40, "dev": 24, "test": 24, **sizes}.items():
        text = "\n".join(sentence(random) for _ in range(size))
        (folder / f"{split}.conll").write_text(text)
    return folder

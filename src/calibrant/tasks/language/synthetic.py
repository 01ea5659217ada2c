"""The embedded corpus: seeded, annotated sentences of news, and of posts as another domain.

Its entities are persons, organisations, places and products. Some names have several types
(*Jordan*, *Ford*). The words around them decide the type, or leave it open: then no model can be
sure. Some words are mistyped and some sentences are in lower case. The out-of-domain part has its
own templates and names, so a model trained on the news is wrong there more often than it thinks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from calibrant.errors import InputError
from calibrant.tasks.language.grammar import NEWS, POSTS, Domain
from calibrant.tasks.language.sentences import Sentence

__all__ = ["generate", "generate_splits"]

SIZES = {"train": 1500, "dev": 400, "test": 600, "ood": 600}
_DOMAINS = {"train": NEWS, "dev": NEWS, "test": NEWS, "ood": POSTS}
_OPEN = 0.12  # share of sentences that do not show the type of their name
_AMBIGUOUS = 0.15  # share of names with several types, if the sentence shows which
_SLOT = re.compile(r"\{(\w+)\}")


def generate_splits(seed: int = 0, **sizes: int) -> dict[str, list[Sentence]]:
    """Generate train, dev, test and ood (out-of-domain) sentences, the same on every machine.

    Each split draws from its own stream, so the size of one does not change another.

    >>> splits = generate_splits(seed=0, train=2, dev=1, test=1, ood=1)
    >>> {name: len(sentences) for name, sentences in splits.items()}
    {'train': 2, 'dev': 1, 'test': 1, 'ood': 1}
    """
    unknown = sorted(set(sizes) - set(SIZES))
    if unknown:
        raise InputError(f"Unknown split '{unknown[0]}'; there are {', '.join(SIZES)}.")
    wanted = {**SIZES, **sizes}
    return {
        split: generate(wanted[split], _DOMAINS[split], (seed, number))
        for number, split in enumerate(SIZES)
    }


def generate(size: int, domain: Domain = NEWS, seed: int | Sequence[int] = 0) -> list[Sentence]:
    """Generate ``size`` sentences of a domain.

    >>> sentence = generate(1, seed=1)[0]
    >>> print(*sentence.words)
    The mayor of Port Tim , Rosa Tes , announced nothing .
    >>> print(*sentence.tags)
    O O O B-LOC I-LOC O B-PER I-PER O O O O
    """
    if size < 0:
        raise InputError(f"The number of sentences must not be negative, got {size}.")
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    return [_sentence(domain, random) for _ in range(size)]


def _sentence(domain: Domain, random: np.random.Generator) -> Sentence:
    open_ = random.random() < _OPEN
    template = _pick(domain.open_ if open_ else domain.decided, random)
    words: list[str] = []
    tags: list[str] = []
    for token in template.split():
        for word, tag in _expand(token, domain, random):
            words.append(_mistyped(word, random) if random.random() < domain.typos else word)
            tags.append(tag)
    if random.random() < domain.lower:
        words = [word.lower() for word in words]
    return Sentence(tuple(words), tuple(tags))


def _expand(token: str, domain: Domain, random: np.random.Generator) -> Iterator[tuple[str, str]]:
    """Return the words that replace a token of a template, with their tags."""
    slot = _SLOT.fullmatch(token)
    if slot is None:
        yield token, "O"
    elif slot[1] in domain.parts:
        yield _pick(domain.parts[slot[1]], random), "O"
    else:
        kind, name = _name(slot[1], domain, random)
        for number, word in enumerate(name.split()):
            yield word, f"{'I' if number else 'B'}-{kind}"


def _name(kind: str, domain: Domain, random: np.random.Generator) -> tuple[str, str]:
    """Draw a type and a name of it; ANY is a name of several types in any context."""
    if kind == "ANY":
        name = _pick(tuple(domain.ambiguous), random)
        return _pick(domain.ambiguous[name], random), name
    if random.random() < _AMBIGUOUS:
        return kind, _pick([n for n, kinds in domain.ambiguous.items() if kind in kinds], random)
    pattern = _pick(domain.patterns[kind], random)
    return kind, _SLOT.sub(lambda part: _pick(domain.parts[part[1]], random), pattern)


def _mistyped(word: str, random: np.random.Generator) -> str:
    """Leave out, double, or swap one letter."""
    place = int(random.integers(len(word)))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    changed = (
        before + after,
        before + letter + letter + after,
        before + after[:1] + letter + after[1:],
    )
    return _pick(changed, random) or word


def _pick(options: Sequence[str], random: np.random.Generator) -> str:
    return options[int(random.integers(len(options)))]

"""The embedded corpus: the same everywhere, ambiguous, and with a separate domain."""

from __future__ import annotations

import hashlib
from collections import defaultdict

import pytest

from calibrant.errors import InputError
from calibrant.tasks.language.grammar import NEWS, POSTS, Domain
from calibrant.tasks.language.sentences import Sentence, to_bio
from calibrant.tasks.language.synthetic import generate, generate_splits

SPLITS = generate_splits()
TYPES = {"LOC", "ORG", "PER", "PROD"}


def test_default_sizes() -> None:
    sizes = {name: len(sentences) for name, sentences in SPLITS.items()}
    assert sizes == {"train": 1500, "dev": 400, "test": 600, "ood": 600}


def test_same_text_on_every_machine() -> None:
    """A change of this digest changes every number that was measured on the corpus."""
    text = "\n".join(
        f"{word}\t{tag}"
        for sentences in SPLITS.values()
        for sentence in sentences
        for word, tag in zip(sentence.words, sentence.tags, strict=True)
    )
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "8a754e5dc7a0ceb1"


def test_seeds_differ_and_sizes_do_not_disturb() -> None:
    assert generate(20, seed=1) != generate(20, seed=2)
    small = generate_splits(train=10)
    assert small["train"] == SPLITS["train"][:10]
    assert small["ood"] == SPLITS["ood"]


def test_tags_are_well_formed_bio_of_four_types() -> None:
    for sentences in SPLITS.values():
        kinds = {tag[2:] for s in sentences for tag in s.tags} - {""}
        assert kinds == TYPES
        for s in sentences:
            assert all(s.words)
            for before, tag in zip(("O", *s.tags), s.tags, strict=False):
                assert tag[0] != "I" or before[1:] == tag[1:]
        assert to_bio(sentences) == sentences


def names(sentences: list[Sentence]) -> dict[str, set[str]]:
    """The types of each name, lower-cased."""
    found: dict[str, set[str]] = defaultdict(set)
    for s in sentences:
        spans: list[list[str]] = []
        for word, tag in zip(s.words, s.tags, strict=True):
            if tag[0] == "B":
                spans.append([tag[2:], word])
            elif tag[0] == "I":
                spans[-1].append(word)
        for kind, *words in spans:
            found[" ".join(words).lower()].add(kind)
    return found


def test_some_names_have_several_types_and_contexts_that_do_not_tell() -> None:
    train = names(SPLITS["train"])
    assert train["ford"] == {"PER", "ORG", "PROD"}
    assert train["jordan"] == {"PER", "LOC"}
    tags_of: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for s in SPLITS["train"]:
        tags_of[s.words].add(s.tags)
    assert max(len(tags) for tags in tags_of.values()) > 1  # The same sentence, two truths.


def test_typos_and_lower_case() -> None:
    known = {word for text in (*NEWS.decided, *NEWS.open_) for word in text.split()}
    known |= {word for part in ("noun", "how", "stated", "job", "day") for word in NEWS.parts[part]}
    words = [w for s in SPLITS["train"] for w, t in zip(s.words, s.tags, strict=True) if t == "O"]
    wrong = sum(word not in known and word.capitalize() not in known for word in words)
    assert 0.005 < wrong / len(words) < 0.15
    lower = sum(" ".join(s.words).islower() for s in SPLITS["train"]) / 1500
    assert 0.05 < lower < 0.25


def test_out_of_domain_names_and_templates_never_occur_in_training() -> None:
    assert not set(names(SPLITS["train"])) & set(names(SPLITS["ood"]))
    assert not {*NEWS.decided, *NEWS.open_} & {*POSTS.decided, *POSTS.open_}
    assert not set(NEWS.ambiguous) & set(POSTS.ambiguous)
    training = {word.lower() for name in names(generate(5000, seed=9)) for word in name.split()}
    # No single word of a name is shared either, except where a typo makes it so.
    elsewhere = [word for name in names(SPLITS["ood"]) for word in name.split()]
    assert sum(word in training for word in elsewhere) <= 0.005 * len(elsewhere)
    assert not {tuple(s.words) for s in SPLITS["train"]} & {tuple(s.words) for s in SPLITS["ood"]}


@pytest.mark.parametrize("domain", [NEWS, POSTS], ids=["news", "posts"])
def test_every_slot_is_known(domain: Domain) -> None:
    assert {kind for kinds in domain.ambiguous.values() for kind in kinds} == TYPES
    assert set(domain.patterns) == TYPES
    for sentence in generate(3000, domain):
        assert not any("{" in word for word in sentence.words)


def test_errors() -> None:
    with pytest.raises(InputError, match="Unknown split 'valid'"):
        generate_splits(valid=3)
    with pytest.raises(InputError, match="must not be negative, got -1"):
        generate(-1)
    assert generate(0) == []

"""The classes of a model under the names of a corpus; what has no counterpart is refused."""

import numpy as np
import pytest

from calibrant.errors import InputError
from calibrant.tasks.label_matching import in_tags_of, match_classes, match_tags, parse_labels

BIO = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


def test_the_same_names_need_nothing():
    assert match_tags(BIO, BIO, {}) == BIO
    assert match_classes(("a", "b", "c"), ("c", "a"), {}) == ("a", "b", "c")


def test_types_are_renamed_and_merged():
    own = ("O", "B-PERSON", "I-PERSON", "B-GPE", "I-GPE", "B-LOC", "I-LOC", "B-DATE")
    mapping = {"PERSON": "PER", "GPE": "LOC", "DATE": "O"}
    found = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-LOC", "I-LOC", "O")
    assert match_tags(own, BIO, mapping) == found


@pytest.mark.parametrize("letters", ["BILU", "BIES", "BMEW"])
def test_schemes_with_ends_become_bio(letters):
    own = ("O", *(f"{letter}-PER" for letter in letters), *(f"{letter}-LOC" for letter in letters))
    # B(egin) and the letter of a whole entity begin one, the other two are inside.
    whole = letters[-1]
    wanted = tuple(
        tag if tag == "O" else ("B" if tag[0] in ("B", whole) else "I") + tag[1:] for tag in own
    )
    assert match_tags(own, BIO, {}) == wanted


def test_without_prefixes_every_word_is_inside():
    assert match_tags(("O", "PER", "LOC"), BIO, {}) == ("O", "I-PER", "I-LOC")
    found = match_tags(("O", "PERSON", "PLACE"), BIO, {"PERSON": "PER", "PLACE": "LOC"})
    assert found == ("O", "I-PER", "I-LOC")


def test_classes_without_names_are_mapped_whole():
    own = tuple(f"LABEL_{n}" for n in range(5))
    mapping = dict(zip(own, BIO, strict=True))
    assert match_tags(own, BIO, mapping) == BIO


def test_joined_prefixes():
    assert match_tags(BIO, BIO, {}, join=True) == ("O", "I-LOC", "I-LOC", "I-PER", "I-PER")


def test_tags_of_a_corpus_follow_a_model_without_begin():
    assert in_tags_of(("O", "I-PER"), ("O", "B-PER", "I-PER")) == ("O", "I-PER", "I-PER")
    assert in_tags_of(BIO, BIO) == BIO


def test_what_the_model_lacks_is_refused_with_both_sides():
    with pytest.raises(InputError, match="no class 'pos'") as error:
        match_classes(("POSITIVE", "NEGATIVE"), ("neg", "pos"), {"NEGATIVE": "neg"})
    message = str(error.value)
    assert "The model has POSITIVE, NEGATIVE; the corpus has neg, pos" in message
    assert "--labels POSITIVE=pos" in message
    with pytest.raises(InputError, match=r"no entity type 'LOC', 'PER'.*--labels PERSON=PER"):
        match_tags(("O", "B-PERSON", "I-PERSON"), BIO, {})


def test_numbered_classes_are_proposed_by_their_number():
    with pytest.raises(InputError, match="--labels LABEL_0=0,LABEL_1=1"):
        match_classes(("LABEL_0", "LABEL_1"), ("0", "1"), {})


def test_types_that_the_model_lacks_can_be_dropped_but_not_all():
    assert match_tags(BIO[:3], BIO, {}, drop=True) == BIO[:3]
    with pytest.raises(InputError, match="no entity type"):
        match_tags(("O", "B-X", "I-X"), BIO, {}, drop=True)


@pytest.mark.parametrize(
    ("own", "mapping", "words"),
    [
        (BIO, {"PERS": "PER"}, "names 'PERS', which is not a class of the model"),
        (("A", "B-PER", "I-PER", "B-LOC", "I-LOC"), {}, "no class O"),
        (("O", "B-PER", "B-LOC"), {}, "no tag I-LOC"),
    ],
)
def test_bad_tags(own, mapping, words):
    with pytest.raises(InputError, match=words):
        match_tags(own, BIO, mapping)


@pytest.mark.parametrize("pairs", ["", "a", "a=", "=b", "a=b,", "a=b,a=c"])
def test_bad_pairs(pairs):
    with pytest.raises(InputError, match=r"Labels must|two names"):
        parse_labels(pairs)


def test_merged_outputs_add_their_probabilities():
    torch = pytest.importorskip("torch")
    from calibrant.tasks.encoders.merged_classes import MergedClasses

    names = ("O", "LOC", "PER", "LOC", "LOC")
    merged = MergedClasses(torch.nn.Identity(), names)
    logits = torch.as_tensor(np.random.default_rng(0).normal(size=(3, 4, 5)) * 30)
    found = merged.merge(logits).softmax(-1)
    whole = logits.softmax(-1)
    for column, label in enumerate(("O", "LOC", "PER")):
        one = sum(whole[..., k] for k, name in enumerate(names) if name == label)
        torch.testing.assert_close(found[..., column], one)
    # A class of one output keeps its logit to the bit.
    assert torch.equal(merged.merge(logits)[..., 0], logits[..., 0])


@pytest.mark.parametrize("spelling", ["{0}_{1}", "{1}-{0}", "{1}_{0}", "{2}-{1}", "{2}_{1}"])
def test_reads_tags_of_other_spellings(spelling: str) -> None:
    """``B_PER``, ``PER-B`` and ``b-PER`` are tags, not types; ``--labels`` may name either."""
    own = [t if t == "O" else spelling.format(t[0], t[2:], t[0].lower()) for t in BIO]
    assert match_tags(own, BIO, {}) == BIO
    other = tuple(name.replace("PER", "PERSON") for name in own)
    assert match_tags(other, BIO, {"PERSON": "PER"}) == BIO
    whole = {name: tag for name, tag in zip(other, BIO, strict=True) if "PERSON" in name}
    assert match_tags(other, BIO, whole) == BIO


def test_reads_types_that_look_like_tags_as_types() -> None:
    assert match_tags(("O", "B_cell", "T_cell"), ("O", "B-B_cell", "B-T_cell"), {}) == (
        "O",
        "I-B_cell",
        "I-T_cell",
    )

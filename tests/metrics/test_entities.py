"""Tags, spans, F1 against seqeval on whole corpora, and the confidence of entities."""

import dataclasses
import json
import os
from pathlib import Path

import metric_loops as loops
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import classification_report, f1_score
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, IOBES

from calibrant import Predictions
from calibrant.errors import InputError
from calibrant.metrics import (
    MatchCounts,
    TagSet,
    assign_blocks,
    ece,
    entity_confidences,
    entity_counts,
    entity_f1,
    entity_risk_coverage,
    entity_state,
    find_spans,
    is_bio,
    token_counts,
    token_f1,
    without_outside,
)
from calibrant.metrics.spans import sentence_starts

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("CALIBRANT_DATA", ROOT.parent / "shared" / "data"))
CORPORA = ["conll2003", "gum", "ncbi-disease", "wikiann-en", "wnut17"]
NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
BIOES = ["O", *(f"{p}-{t}" for p in "BIES" for t in ("PER", "LOC"))]


def tagged(predicted, gold, names=NAMES, confidence=None):
    """Predictions of sentences given as lists of tag names, with the confidences of the tags."""
    number = {name: k for k, name in enumerate(names)}
    chosen = [number[tag] for sentence in predicted for tag in sentence]
    scores = np.zeros((len(chosen), len(names)))
    top = np.ones(len(chosen)) if confidence is None else np.array(confidence)
    scores += ((1 - top) / (len(names) - 1))[:, None]
    scores[np.arange(len(chosen)), chosen] = top
    return Predictions.from_probabilities(
        scores,
        [number[tag] for sentence in gold for tag in sentence],
        label_names=names,
        groups={"sentence": np.repeat(np.arange(len(gold)), [len(s) for s in gold])},
    )


def read_tags(path):
    """The tags of the sentences of a file in CoNLL's form: token, tab, tag; blank between."""
    sentences = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            sentences[-1].append(line.split("\t")[-1])
        elif sentences[-1]:
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def corrupted(sentences, names, seed):
    """The same with one tag in eight drawn again, which makes many sequences ill-formed."""
    rng = np.random.default_rng(seed)
    draws = iter(rng.integers(0, 8 * len(names), sum(map(len, sentences))).tolist())
    named = dict(enumerate(names))  # Seven draws in eight name no tag.
    return [[named.get(next(draws), tag) for tag in sentence] for sentence in sentences]


@pytest.mark.parametrize("corpus", CORPORA)
def test_equal_to_seqeval_on_every_corpus(corpus):
    folder = DATA / "ner" / corpus
    files = sorted(folder.glob("*.conll"))
    if not files:
        pytest.skip(f"no data: set CALIBRANT_DATA to the folder that holds ner/{corpus}")
    for seed, file in enumerate(files):
        gold = read_tags(file)
        names = sorted({tag for sentence in gold for tag in sentence} | {"O"})
        predicted = corrupted(gold, names, seed)
        p = tagged(predicted, gold, names)
        assert entity_f1(p) == pytest.approx(f1_score(gold, predicted), abs=1e-12)
        assert entity_f1(tagged(gold, gold, names)) == 1
        if file.stem != "train":  # The strict reading takes seqeval seconds.
            strict = f1_score(gold, predicted, mode="strict", scheme=IOB2)
            assert entity_f1(p, mode="strict") == pytest.approx(strict, abs=1e-12)
            check_report(p, gold, predicted)


def check_report(p, gold, predicted):
    report = classification_report(gold, predicted, output_dict=True, zero_division=0)
    counts = entity_counts(p)
    by_type = entity_f1(counts, by_type=True)
    for i, kind in enumerate(counts.types):
        assert counts.gold[i] == report[kind]["support"]
        assert by_type[i] == pytest.approx(report[kind]["f1-score"], abs=1e-12)


sentences_of = lambda names: st.lists(  # noqa: E731
    st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), min_size=1, max_size=8),
    min_size=1,
    max_size=5,
)


@pytest.mark.filterwarnings("ignore:F-score is ill-defined")
@pytest.mark.parametrize("mode", ["default", "strict"])
@pytest.mark.parametrize("names", [NAMES, BIOES, ["O", "B", "I"]], ids=["BIO", "BIOES", "bare"])
@given(data=st.data())
def test_any_sequence_is_read_as_seqeval_reads_it(names, mode, data):
    sentences = data.draw(sentences_of(names))
    gold = [[tag for tag, _ in sentence] for sentence in sentences]
    predicted = [[tag for _, tag in sentence] for sentence in sentences]
    scheme = IOBES if names is BIOES else IOB2
    how = {"mode": "strict", "scheme": scheme} if mode == "strict" else {}
    value = entity_f1(tagged(predicted, gold, names), mode)
    assert np.nan_to_num(value) == pytest.approx(f1_score(gold, predicted, **how), abs=1e-12)


@pytest.mark.parametrize("mode", ["default", "strict"])
@given(data=st.data())
def test_spans_against_a_walk_along_the_sentence(mode, data):
    sentences = data.draw(sentences_of(NAMES))
    gold = [[tag for tag, _ in sentence] for sentence in sentences]
    p, tags = tagged(gold, gold), TagSet.of(NAMES)
    spans = find_spans(p.labels, tags, sentence_starts(p), mode)
    found = [
        (int(start), int(end), tags.types[kind])
        for start, end, kind in zip(spans.start, spans.end, spans.type, strict=True)
    ]
    expected, offset = [], 0
    for sentence in gold:
        walk = loops.spans(sentence, mode)
        expected += [(start + offset, end + offset, kind) for start, end, kind in walk]
        offset += len(sentence)
    assert found == expected


def test_spans_do_not_cross_sentences():
    p = tagged([["B-PER"], ["I-PER"]], [["B-PER"], ["I-PER"]])
    assert entity_counts(p).gold.tolist() == [0, 2]
    one = Predictions.from_probabilities(p.scores, p.labels, label_names=NAMES)
    assert entity_counts(one).gold.tolist() == [0, 1]


def test_positions_part_sentences_of_one_number():
    p = tagged([["B-PER", "I-PER"]], [["B-PER", "I-PER"]])
    groups = {"sentence": [0, 0], "position": [3, 0]}
    seam = Predictions.from_probabilities(p.scores, p.labels, label_names=NAMES, groups=groups)
    assert entity_counts(seam).gold.tolist() == [0, 2]


def test_iob1():
    # In IOB1 an entity begins with I, and with B only right after another of its type.
    tags = [["I-PER", "I-PER", "B-PER", "O", "I-LOC"]]
    counts = entity_counts(tagged(tags, tags))
    assert counts.gold.tolist() == [1, 2]


def test_what_is_a_tag_set():
    assert is_bio(NAMES)
    assert is_bio(BIOES)
    assert is_bio(["O", "B-X", "I-X", "L-X", "U-X"])
    assert is_bio(["O", "B-creative-work"])
    assert is_bio(["O", "B", "I"])
    assert not is_bio(["B-PER", "I-PER"])
    assert not is_bio(["O", "PER", "B-LOC"])
    assert not is_bio(["Bird", "O", "Insect"])
    assert not is_bio(["O"])
    assert not is_bio([])
    assert not is_bio(None)
    assert TagSet.of(["O", "B-creative-work"]).types == ("creative-work",)
    assert TagSet.of(BIOES).bioes
    assert not TagSet.of(NAMES).bioes


@pytest.mark.parametrize(
    ("names", "message"),
    [(None, "label names"), (["O", "cat"], "'cat' is not a tag"), (["B-A", "I-A"], "no 'O'")],
)
def test_entity_metrics_need_tags(names, message):
    p = Predictions.from_probabilities([[0.5, 0.5]], [0], label_names=names)
    for metric in (entity_f1, token_f1, entity_state, without_outside, entity_risk_coverage):
        with pytest.raises(InputError, match=message):
            metric(p)


def test_wrong_options():
    p = tagged([["O"]], [["O"]])
    with pytest.raises(InputError, match="mode"):
        entity_f1(p, mode="lenient")
    with pytest.raises(InputError, match="product"):
        entity_state(p, reduction="produkt")
    with pytest.raises(InputError, match="PER"):
        without_outside(p, "PERS")


GOLD = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC"]]
GUESS = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "B-LOC"]]
SURE = [0.9, 0.5, 0.8, 0.6, 0.7, 1.0]


def test_entity_confidence_by_hand():
    p = tagged(GUESS, GOLD, confidence=SURE)
    for reduction, first in {"product": 0.45, "min": 0.5, "mean": 0.7}.items():
        entities = entity_confidences(p, reduction=reduction)
        assert entities.confidence.tolist() == pytest.approx([first, 0.6, 0.7, 1.0])
        assert entities.correct.tolist() == [True, False, False, True]
    # Four spans in four of ten bins: |1 − 0.45| + |0 − 0.6| + |0 − 0.7| + |1 − 1|.
    assert ece(entity_state(p, 10)) == pytest.approx((0.55 + 0.6 + 0.7) / 4)
    # By type, LOC then PER: the spans 0.7 (wrong) and 1.0; 0.45 and 0.6 (wrong).
    by_type = entity_state(p, 10, by_type=True)
    assert ece(by_type) == pytest.approx([0.35, (0.55 + 0.6) / 2])
    assert by_type.total().top_count.tolist() == entity_state(p, 10).top_count.tolist()


def test_f1_by_hand():
    p = tagged(GUESS, GOLD)
    assert entity_f1(p) == pytest.approx(2 * 2 / (4 + 3))
    assert entity_f1(p, by_type=True).tolist() == pytest.approx([2 / 4, 2 / 3])
    assert token_f1(p) == pytest.approx(2 * 3 / (5 + 4))


def test_without_outside_by_hand():
    p = tagged(GUESS, GOLD, confidence=SURE)
    assert len(without_outside(p)) == 5
    assert len(without_outside(p, "PER")) == 3
    assert len(without_outside(p, "LOC")) == 3  # The token LOC taken for PER belongs to both.


def test_risk_and_coverage_of_entities_by_hand():
    p = tagged(GUESS, GOLD, confidence=SURE)
    curve = entity_risk_coverage(p)
    assert curve.threshold.tolist() == pytest.approx([1.0, 0.7, 0.6, 0.45])
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    # Accepted, gold left, right: (1, 1, 1), (2, 1, 1), (3, 2, 1), (4, 3, 2).
    risks = [0, 1 - 2 / 3, 1 - 2 / 5, 1 - 4 / 7]
    assert curve.risk.tolist() == pytest.approx(risks)
    assert curve.risk[-1] == pytest.approx(1 - entity_f1(p))
    assert curve.area() == pytest.approx(sum(risks) / 4)


def test_entities_that_are_never_predicted_stay_in_the_risk():
    p = tagged([["O", "B-PER"]], [["B-LOC", "B-PER"]])
    assert entity_risk_coverage(p).risk.tolist() == pytest.approx([1 - 2 / 3])


@given(data=st.data(), cut=st.integers(0, 5))
def test_shards_of_whole_sentences_add_up(data, cut):
    sentences = data.draw(sentences_of(NAMES))
    gold = [[tag for tag, _ in sentence] for sentence in sentences]
    predicted = [[tag for _, tag in sentence] for sentence in sentences]
    rows = sum(len(sentence) for sentence in gold[:cut])
    confidence = np.linspace(0.3, 1, sum(map(len, gold)))
    whole = tagged(predicted, gold, confidence=confidence)
    parts = whole[:rows], whole[rows:]
    for count in (entity_counts, token_counts):
        added, direct = sum(map(count, parts)), count(whole)
        assert all(getattr(added, s).tolist() == getattr(direct, s).tolist() for s in added.SUMS)
    added, direct = sum(map(entity_state, parts)), entity_state(whole)
    assert added.top_correct.tolist() == direct.top_correct.tolist()
    np.testing.assert_allclose(added.top_confidence, direct.top_confidence)


def test_blocks_add_up_to_the_whole():
    p = tagged(GUESS, GOLD, confidence=SURE)
    block = assign_blocks(p, blocks=7)
    for by_type in (False, True):
        blocked = entity_state(p, by_type=by_type, block=block, blocks=7)
        assert blocked.n.shape == ((7, 2) if by_type else (7,))
        assert blocked.total().top_count.tolist() == entity_state(p).top_count.tolist()
    for count in (entity_counts, token_counts):
        blocked = count(p, block=block, blocks=7)
        assert blocked.gold.shape == (7, 2)
        assert blocked.total().gold.tolist() == count(p).gold.tolist()


def test_counts_as_json():
    counts = entity_counts(tagged(GUESS, GOLD))
    again = MatchCounts.from_json(counts.to_json())
    assert json.loads(again.to_json()) == json.loads(counts.to_json())
    assert entity_f1(again + counts) == entity_f1(counts)
    with pytest.raises(InputError, match="cannot be added"):
        counts + MatchCounts(("X",), np.zeros(1, int), np.zeros(1, int), np.zeros(1, int))


def test_no_entities_have_no_f1():
    p = tagged([["O", "O"]], [["O", "O"]])
    assert np.isnan(entity_f1(p))
    assert np.isnan(token_f1(p))
    assert np.isnan(ece(entity_state(p)))
    assert np.isnan(entity_risk_coverage(p).area())
    assert len(without_outside(p)) == 0


def test_without_tokens():
    p = tagged([["O"]], [["O"]])[:0]
    assert np.isnan(entity_f1(p))
    assert len(entity_confidences(p)) == 0


# -- Entities that are not made of whole words ------------------------------------------------


def with_unfit(p, counts):
    return dataclasses.replace(p, groups={**p.groups, "unfit": np.array(counts)})


def test_entities_inside_of_words_are_missed_by_hand():
    """Three gold labels; the first is unfit, and its word holds another one that no label shows."""
    gold = [["B-PER", "I-PER", "O", "B-LOC", "B-PER"]]
    p = tagged(gold, gold)
    assert entity_f1(p) == 1
    odd = with_unfit(p, [2, 0, 0, 0, 0])
    assert entity_f1(odd) == pytest.approx(2 * 2 / (3 + 4))  # Right; predicted and gold.
    assert entity_confidences(odd).correct.tolist() == [False, True, True]
    assert entity_risk_coverage(odd).risk[-1] == pytest.approx(1 - entity_f1(odd))
    inner = with_unfit(p, [1, 1, 0, 0, 0])  # The other begins in the second word.
    assert entity_f1(inner) == entity_f1(odd)
    assert entity_f1(with_unfit(p, ["a", "b", "c", "d", "e"])) == 1  # A user's own column.


TAG_LISTS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=9)


@given(TAG_LISTS, st.data())
def test_entities_inside_of_words_by_a_plain_loop(gold, data):
    predicted = data.draw(st.lists(st.sampled_from(NAMES), min_size=len(gold), max_size=len(gold)))
    p = tagged([predicted], [gold])
    spans = get_entities(gold)
    labelled = [i for i, tag in enumerate(gold) if tag != "O"]
    counts = [data.draw(st.integers(0, 2)) if i in labelled else 0 for i in range(len(gold))]
    starts = {start for _, start, _ in spans}
    fitting = [span for span in spans if not counts[span[1]]]
    right = len(set(get_entities(predicted)) & set(fitting))
    total = len(fitting) + sum(counts)
    assert starts <= set(labelled)
    both = len(get_entities(predicted)) + total
    found = entity_f1(with_unfit(p, counts))
    assert found == pytest.approx(2 * right / both) if both else np.isnan(found)

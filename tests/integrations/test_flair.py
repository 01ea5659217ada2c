"""flair itself, with a small tagger trained on the spot (make test-integrations)."""

import pytest
from entity_data import GOLD, TEXT, assert_form_is_recorded, small_calibrator

from calibrant.entities.dialects import parse_document
from calibrant.integrations.flair import CalibratedTagger

flair = pytest.importorskip("flair", reason="flair is not installed: make test-integrations")


@pytest.fixture(scope="module")
def tagger():
    import torch
    from flair.data import Corpus, Sentence
    from flair.datasets import FlairDatapointDataset
    from flair.embeddings import OneHotEmbeddings
    from flair.models import SequenceTagger

    torch.manual_seed(0)
    sentence = Sentence(TEXT)
    for start, end, kind in GOLD:
        sentence[start:end].add_label("ner", kind)
    data = FlairDatapointDataset([sentence])
    corpus = Corpus(train=data, dev=data, test=data)
    made = SequenceTagger(
        hidden_size=16,
        embeddings=OneHotEmbeddings.from_corpus(corpus, min_freq=1, embedding_length=16),
        tag_dictionary=corpus.make_label_dictionary("ner", add_unk=False),
        tag_type="ner",
        use_crf=False,
    )
    optimizer = torch.optim.Adam(made.parameters(), 1e-2)
    made.train()
    for _ in range(60):
        sentence.clear_embeddings()
        made.forward_loss([sentence])[0].backward()
        optimizer.step()
        optimizer.zero_grad()
    return made.eval()


def test_confidences_take_the_place_of_scores(tagger):
    from flair.data import Sentence

    plain, honest = Sentence(TEXT), Sentence(TEXT)
    tagger.predict(plain)
    calibrator = small_calibrator("PER", "LOC")
    CalibratedTagger(tagger, calibrator).predict(honest)
    before = parse_document(plain.to_dict(tag_type="ner"), "").document
    after = parse_document(honest.to_dict(tag_type="ner"), "").document
    assert before.entities
    assert_form_is_recorded("flair", plain.to_dict(tag_type="ner"))
    assert before.text == TEXT
    assert [e.span for e in before.entities] == [e.span for e in after.entities]
    expected = calibrator.confidence(before.entities).tolist()
    assert [e.score for e in after.entities] == pytest.approx(expected)

"""The component in pipelines of the real library: spancat with scores, and entities without."""

import subprocess
import sys
import warnings

import pytest
from entity_data import GOLD, TEXT, assert_form_is_recorded, small_calibrator

from calibrant.entities import Entity, read_entities, write_entities
from calibrant.errors import InputError

spacy = pytest.importorskip("spacy", reason="spaCy is not installed")

from calibrant.integrations.spacy import document_record  # noqa: E402


@pytest.fixture(scope="module")
def nlp():
    """A span categorizer that has learned one sentence."""
    from spacy.tokens import Span
    from spacy.training import Example

    made = spacy.blank("en")
    spancat = made.add_pipe("spancat", config={"spans_key": "sc"})
    for kind in ("PER", "LOC"):
        spancat.add_label(kind)
    gold = made.make_doc(TEXT)
    gold.spans["sc"] = [Span(gold, start, end, kind) for start, end, kind in GOLD]
    example = Example(made.make_doc(TEXT), gold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.initialize(lambda: [example])
        for _ in range(25):
            made.update([example])
    return made


@pytest.fixture
def calibrator(tmp_path):
    path = tmp_path / "entities.json"
    small_calibrator("PER", "LOC").save(path)
    return path


def test_spans_get_a_confidence(nlp, calibrator, tmp_path):
    doc = nlp(TEXT)
    record = document_record(doc, "sc")
    assert_form_is_recorded("spaCy, spans", record)
    write_entities([record], tmp_path / "found.jsonl")
    (document,) = read_entities(tmp_path / "found.jsonl").documents
    assert {e.span for e in document.entities} == {(0, 9, "PER"), (19, 24, "LOC")}
    scores = doc.spans["sc"].attrs["scores"]
    assert [e.score for e in document.entities] == pytest.approx([float(s) for s in scores])

    nlp.add_pipe("calibrant_confidence", config={"path": str(calibrator), "spans_key": "sc"})
    try:
        again = nlp(TEXT)
        expected = small_calibrator("PER", "LOC").confidence(document.entities)
        found = [span._.confidence for span in again.spans["sc"]]
        assert found == pytest.approx(expected.tolist())
        folder = tmp_path / "pipeline"
        nlp.to_disk(folder)
        calibrator.unlink()  # The pipeline brings its own copy.
        doc = spacy.load(folder)(TEXT)
        assert [span._.confidence for span in doc.spans["sc"]] == pytest.approx(found)
    finally:
        nlp.remove_pipe("calibrant_confidence")


def test_a_saved_pipeline_loads_without_our_import(tmp_path, calibrator):
    made = spacy.blank("en")
    made.add_pipe("calibrant_confidence", config={"path": str(calibrator)})
    made.to_disk(tmp_path / "pipeline")
    script = (
        "import spacy, sys; nlp = spacy.load(sys.argv[1]); "
        "assert nlp.pipe_names == ['calibrant_confidence']; nlp('a')"
    )
    if "calibrant_confidence" not in spacy.util.registry._entry_point_factories.get_all():
        script = "import calibrant.integrations.spacy; " + script  # Installed before this version.
    run = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "pipeline")]
    assert subprocess.run(run, check=False, capture_output=True).returncode == 0


def test_entities_without_scores(tmp_path):
    from spacy.tokens import Span

    made = spacy.blank("en")
    path = tmp_path / "entities.json"
    fitted = small_calibrator("PER", "LOC", scores=False)
    fitted.save(path)
    setter = made.add_pipe("calibrant_confidence", config={"path": str(path)})
    doc = made.make_doc(TEXT)
    doc.ents = [Span(doc, start, end, kind) for start, end, kind in GOLD]
    assert_form_is_recorded("spaCy, doc.to_json()", doc.to_json())
    assert document_record(doc)["ents"][0] == {"start": 0, "end": 9, "label": "PER"}
    setter(doc)
    assert doc.ents[0]._.confidence == fitted.confidence([Entity(0, 9, "PER")])[0]


def test_what_is_missing_is_one_line(calibrator):
    made = spacy.blank("en")
    made.add_pipe("calibrant_confidence")
    with pytest.raises(InputError, match="has no calibrator: set 'path'"):
        made("a")
    moved = spacy.blank("en")
    moved.add_pipe("calibrant_confidence", config={"path": "no-such.json"})
    with pytest.raises(InputError, match="has no calibrator: no file no-such"):
        moved("a")
    other = spacy.blank("en")
    other.add_pipe("calibrant_confidence", config={"path": str(calibrator), "spans_key": "sc"})
    with pytest.raises(InputError, match="no spans 'sc'"):
        other("a")

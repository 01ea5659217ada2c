"""Presidio itself, with its recognizers of patterns (make test-integrations)."""

import pytest
from entity_data import assert_form_is_recorded, small_calibrator

from calibrant.entities.dialects import parse_document
from calibrant.errors import InputError
from calibrant.integrations.presidio import CalibratedAnalyzer

presidio_analyzer = pytest.importorskip(
    "presidio_analyzer", reason="Presidio is not installed: make test-integrations"
)
TEXT = "Call 212-555-5555 or pay with 4095-2609-9393-4932."


@pytest.fixture(scope="module")
def engine():
    import spacy
    from presidio_analyzer.nlp_engine import SpacyNlpEngine
    from presidio_analyzer.predefined_recognizers import CreditCardRecognizer, PhoneRecognizer

    class Blank(SpacyNlpEngine):
        """Words alone: no model has to be downloaded."""

        def __init__(self):
            super().__init__(models=[{"lang_code": "en", "model_name": "blank"}])
            self.nlp = {"en": spacy.blank("en")}

        def load(self):
            pass

    registry = presidio_analyzer.RecognizerRegistry(
        recognizers=[CreditCardRecognizer(), PhoneRecognizer()], supported_languages=["en"]
    )
    return presidio_analyzer.AnalyzerEngine(
        registry=registry, nlp_engine=Blank(), supported_languages=["en"]
    )


def test_confidences_and_a_threshold_for_each_type(engine):
    calibrator = small_calibrator("CREDIT_CARD", "PHONE_NUMBER")
    before = engine.analyze(TEXT, language="en")
    assert {r.entity_type for r in before} == {"CREDIT_CARD", "PHONE_NUMBER"}
    records = {"text": TEXT, "entities": [r.to_dict() for r in before]}
    assert_form_is_recorded("Presidio", records)
    found = parse_document(records, "").document.entities
    expected = dict(zip(before, calibrator.confidence(found).tolist(), strict=False))
    after = CalibratedAnalyzer(engine, calibrator).analyze(TEXT, language="en")
    assert [r.score for r in after] == pytest.approx(list(expected.values()))
    assert [r.score for r in engine.analyze(TEXT, language="en")] == [r.score for r in before]
    strict = CalibratedAnalyzer(engine, calibrator, thresholds={"PHONE_NUMBER": 1.0})
    assert [r.entity_type for r in strict.analyze(TEXT, language="en")] == ["CREDIT_CARD"]
    assert CalibratedAnalyzer(engine, calibrator, 1.0).analyze(TEXT, language="en") == []
    with pytest.raises(InputError, match="between 0 and 1"):
        CalibratedAnalyzer(engine, calibrator, {"PHONE_NUMBER": 70})

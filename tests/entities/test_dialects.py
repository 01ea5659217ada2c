"""The unchanged outputs of tools: read, and written back with other scores."""

import copy
import json
from pathlib import Path

import pytest

from calibrant.entities import Entity, read_entities
from calibrant.entities.dialects import parse_document
from calibrant.errors import InputError

RECORDED = json.loads((Path(__file__).parent / "recorded_outputs.json").read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_recorded_outputs_of_real_tools(name):
    """``output`` came from the library itself, ``entities`` was read off by eye."""
    record = RECORDED[name]
    parsed = parse_document(copy.deepcopy(record["output"]), name)
    found = [[e.start, e.end, e.type, e.score] for e in parsed.document.entities]
    assert [each[:3] for each in found] == [each[:3] for each in record["entities"]]
    for ours, theirs in zip(found, record["entities"], strict=True):
        assert ours[3] == (theirs[3] if theirs[3] is None else pytest.approx(theirs[3], abs=1e-4))


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_only_scores_change_when_written_back(name):
    output = copy.deepcopy(RECORDED[name]["output"])
    parsed = parse_document(output, name)
    parsed.write([0.125] * len(parsed.places))
    again = parse_document(output, name).document
    assert {e.score for e in again.entities} == {0.125}
    assert [e.span for e in again.entities] == [e.span for e in parsed.document.entities]
    assert _without_scores(output) == _without_scores(RECORDED[name]["output"])


def _without_scores(value):
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k not in ("score", "confidence", "Score")}
        return {k: _without_scores(v) for k, v in kept.items()}
    return [_without_scores(v) for v in value] if isinstance(value, list) else value


def test_tokens_of_a_pipeline_are_joined():
    def token(tag, index, score, start):
        return {"entity": tag, "index": index, "score": score, "start": start, "end": start + 2}

    tokens = [
        token("B-PER", 1, 0.9, 0),
        token("I-PER", 2, 0.7, 3),
        token("I-PER", 4, 0.5, 9),  # a gap
        token("B-PER", 5, 0.5, 12),  # begins anew
        token("I-LOC", 6, 0.5, 15),  # another type
    ]
    found = parse_document(tokens, "").document.entities
    assert found[0] == Entity(0, 5, "PER", 0.8)
    assert [e.span for e in found[1:]] == [(9, 11, "PER"), (12, 14, "PER"), (15, 17, "LOC")]


@pytest.mark.parametrize("letters", ["BIIB", "BIES", "BILU", "BMEW"])
@pytest.mark.parametrize("dash", ["-", "_"])
def test_tokens_of_every_tagging_scheme_are_joined(letters, dash):
    tokens = [
        {"entity": f"{letter}{dash}PER", "index": i, "score": 0.5, "start": 3 * i, "end": 3 * i + 2}
        for i, letter in enumerate(letters)
    ]
    found = parse_document(tokens, "").document.entities
    assert [e.span for e in found] == [(0, 8, "PER"), (9, 11, "PER")]


def test_markings_of_people():
    for record in (
        {"text": "Rosa", "entities": [[0, 4, "PER"]]},
        {"text": "Rosa", "label": [[0, 4, "PER"]]},
        {"text": "Rosa", "spans": [{"start": 0, "end": 4, "label": "PER", "token_start": 0}]},
        {"text": "Rosa", "ents": [{"start": 0, "end": 4, "label": "PER"}], "spans": {}},
    ):
        assert parse_document(record, "").document.entities == (Entity(0, 4, "PER"),)


def task(*annotations, text="Rosa met Bo", **data):
    return {"id": 7, "data": {"text": text, **data}, "annotations": list(annotations)}


def annotation(*regions, **more):
    """An annotation of Label Studio; a region is [start, end, type]."""
    results = [
        {"type": "labels", "value": {"start": start, "end": end, "labels": [kind]}}
        for start, end, kind in regions
    ]
    return {"result": results, "was_cancelled": False, **more}


class TestLabelStudio:
    PER, LOC = annotation([0, 4, "PER"]), annotation([9, 11, "LOC"])

    def read(self, given):
        return parse_document(given, "a.json, document 1").document

    def test_the_document_has_the_name_and_text_of_the_data(self):
        found = self.read(task(self.PER, id="seven"))
        assert (found.id, found.text) == ("seven", "Rosa met Bo")
        assert self.read(task(self.PER)).id == "7"
        assert self.read(task(annotation())).entities == ()

    def test_what_was_skipped_is_no_annotation(self):
        found = self.read(task({**self.LOC, "was_cancelled": True}, self.PER))
        assert found.entities == (Entity(0, 4, "PER"),)

    def test_other_controls_of_the_interface_are_left_out(self):
        chosen = {"type": "choices", "value": {"choices": ["news"]}}
        assert self.read(task({"result": [chosen, *self.PER["result"]]})).entities == (
            Entity(0, 4, "PER"),
        )

    def test_several_annotators_agree_or_one_is_the_truth(self):
        both = annotation([0, 4, "PER"], [9, 11, "LOC"]), annotation([9, 11, "LOC"], [0, 4, "PER"])
        assert len(self.read(task(*both)).entities) == 2
        truth = {**self.LOC, "ground_truth": True}
        assert self.read(task(self.PER, truth)).entities == (Entity(9, 11, "LOC"),)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            (task(), "no annotation: export only annotated tasks"),
            (task({**PER, "was_cancelled": True}), "no annotation"),
            (task(PER, LOC), "2 annotations of this task differ"),
            (task({"result": None}), "needs a list 'result'"),
            (task({"result": [3]}), "needs a list 'result'"),
            (task(3), "needs a list 'result'"),
            (task({"result": [{"type": "labels", "value": {"start": 0}}]}), "'end', got nothing"),
            (task({"result": [{"type": "labels"}]}), "'start', got nothing"),
            (task(PER, text=None), "no 'text'"),
        ],
    )
    def test_bad_tasks(self, given, words):
        with pytest.raises(InputError, match=words):
            self.read(given)

    def test_places_in_another_unit_are_refused(self):
        given = task(annotation([3, 6, "PER"]), text="😀 Bob")
        given["annotations"][0]["result"][0]["value"]["text"] = "Bob"
        with pytest.raises(InputError, match="UTF-16"):
            self.read(given)


BAD = [
    ("7", "expected an object or a list of entities, got 7"),
    ('{"text": "a"}', "expected a list of entities in one of entities, ents"),
    ('{"text": 3, "entities": []}', "expected text in 'text', got 3"),
    ('[{"start": 0, "label": "A"}]', "expected a whole number in 'end', got nothing"),
    ('[{"start": 0.5, "end": 2, "label": "A"}]', "expected a whole number in 'start', got 0.5"),
    ('[{"start": true, "end": 2, "label": "A"}]', "got True"),
    ('[{"start": 0, "end": 2}]', "it has no type"),
    ('[{"start": 0, "end": 2, "label": 3}]', "it has no type"),
    ('[{"start": 0, "end": 2, "label": ""}]', "has an empty type"),
    ('[{"start": 0, "end": 2, "label": "A", "score": "high"}]', "expected a number as the score"),
    ('[{"start": 0, "end": 2, "label": "A", "score": 1.5}]', "has the score 1.5"),
    ('[{"start": 0, "end": 2, "label": "A", "score": -0.5}]', "has the score -0.5"),
    ('[{"start": 0, "end": 2, "label": "A", "score": NaN}]', "has the score nan"),
    ('[{"start": 0, "end": 2, "label": "A", "score": 1' + "0" * 400 + "}]", "has the score inf"),
    ('[{"start": 2, "end": 2, "label": "A"}]', "ends at 2, not after its start at 2"),
    ('[{"start": -1, "end": 2, "label": "A"}]', "starts at -1"),
    ('{"text": "abc", "entities": [[0, 4, "A"]]}', "outside of its text of 3 characters"),
    ('[[0, 2, "A"], [0, 2, "A"]]', "is a duplicate"),
    ("[[0, 2]]", "expected [start, end, type]"),
    ('["A"]', "expected an object"),
    ('{"spans": {"a": [], "b": []}}', "--spans KEY chooses"),
    ("{", "not JSON"),
    ('{"text": "\\ud800", "entities": []}', "half of a character"),
]


@pytest.mark.parametrize(("line", "expected"), BAD)
def test_bad_documents_are_one_line(line, expected, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"entities": []}}\n\n{line}\n')
    with pytest.raises(InputError) as error:
        read_entities(path)
    assert expected in str(error.value)
    assert "line 3" in str(error.value)
    assert "\n" not in str(error.value)


def test_groups_of_spans(tmp_path):
    record = {"ents": [], "spans": {"a": [[0, 1, "A"]], "b": [[0, 2, "B"]]}}
    assert parse_document(record, "", "b").document.entities == (Entity(0, 2, "B"),)
    with pytest.raises(InputError, match="no spans 'c'; there are 'a', 'b'"):
        parse_document(record, "", "c")


def test_json_files_hold_one_or_many_documents(tmp_path):
    entity = {"entity_group": "PER", "score": 0.5, "start": 0, "end": 4}
    path = tmp_path / "a.json"
    for content, documents in (([entity], 1), ([[entity], []], 2), ([{"entities": []}] * 3, 3)):
        path.write_text(json.dumps(content))
        assert len(read_entities(path).documents) == documents
    for content, why in (("{}", "a list of documents"), ("[]", "no documents"), ("[1]", "got 1")):
        path.write_text(content)
        with pytest.raises(InputError, match=why):
            read_entities(path)
    with pytest.raises(InputError, match="entities are read from"):
        read_entities(tmp_path / "a.csv")


TEXT = "Café 😀 mit Ana in Köln"


def _placed(encoding: str, width: int, word: str) -> dict:
    start = TEXT.index(word)
    count = lambda part: len(part.encode(encoding)) // width  # noqa: E731
    return {"start": count(TEXT[:start]), "end": count(TEXT[: start + len(word)])}


@pytest.mark.parametrize("covered", ["text", "word"])
@pytest.mark.parametrize(
    ("encoding", "width", "unit"), [("utf-16-le", 2, "UTF-16"), ("utf-8", 1, "bytes")]
)
def test_places_in_another_unit_are_refused(encoding, width, unit, covered):
    """A tool that repeats the text of an entity shows what its places count."""
    entity = {**_placed(encoding, width, "Köln"), "label": "LOC", "score": 0.9, covered: "Köln"}
    with pytest.raises(InputError, match=unit) as error:
        parse_document({"text": TEXT, "entities": [entity]}, "a.jsonl, line 1")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("covered", ["Köln", "köln", " Kö ln", "##Köln", "▁Köln", "another", ""])
def test_places_of_characters_are_taken_however_the_text_is_repeated(covered):
    entity = {**_placed("utf-32-le", 4, "Köln"), "label": "LOC", "score": 0.9, "word": covered}
    found = parse_document({"text": TEXT, "entities": [entity]}, "a").document
    assert TEXT[found.entities[0].start : found.entities[0].end] == "Köln"


def test_the_place_of_the_last_character_is_no_end():
    """Where the tool repeats the texts: each would be cut by a character, and be wrong."""
    text = "Rosa Lind met Ana."
    pairs = [("Rosa Lind", 0, 8), ("Ana", 14, 16)]
    cut = [{"start": s, "end": e, "label": "PER", "text": word} for word, s, e in pairs]
    whole = [{**each, "end": each["end"] + 1} for each in cut]
    with pytest.raises(InputError, match=r"entity 1 \('Rosa Lind'\) ends at 8, .*, 9\."):
        parse_document({"text": text, "entities": cut}, "a.jsonl, line 1")
    for fits in (whole, [whole[0], cut[1]], [{**cut[0], "text": "Rosa Lin"}]):
        assert len(parse_document({"text": text, "entities": fits}, "a").document.entities) > 0


@pytest.mark.parametrize("answer", ["reject", "ignore"])
def test_what_nobody_accepted_in_prodigy_is_not_true(answer):
    span = {"start": 0, "end": 3, "label": "PER"}
    record = {"text": "Ana left.", "tokens": [], "spans": [span], "answer": answer}
    with pytest.raises(InputError, match=f"answer in Prodigy is '{answer}'.*both files"):
        parse_document(record, "gold.jsonl, line 1", gold=True)
    assert parse_document(record, "found.jsonl, line 1").document.entities
    accepted = {**record, "answer": "accept"}
    assert parse_document(accepted, "gold.jsonl, line 1", gold=True).document.entities


def test_offsets_of_doccano():
    span = {"id": 7, "label": "PER", "start_offset": 0, "end_offset": 3}
    record = {"id": 1, "text": "Ana left.", "entities": [span], "relations": []}
    assert parse_document(record, "a").document.entities == (Entity(0, 3, "PER"),)

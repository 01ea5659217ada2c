"""Every command and every snippet of docs/sources.md works."""

import json
import re
import shlex
import shutil
import types
from pathlib import Path

import numpy as np
import pytest
from tests.entities.conftest import made_documents
from tests.wrapping.small_models import TAGS, make_tagger, sentences, write_sentences

from calibrant.cli import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]
TEXTS = ["Rosa Lind moved to Paris .", "Paris was cold ."]
FOUND = [{"start": 0, "end": 9, "label": "PER", "score": 0.9, "text": "Rosa Lind"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the page speaks of."""
    made = tmp_path_factory.mktemp("sources")
    rng = np.random.default_rng(0)
    score = rng.uniform(0.05, 0.95, 60)
    yes = rng.random(60) < score
    tables = {
        "table.csv": ["y_true,softmax_0,softmax_1", "{y},{q},{p}"],
        "other.csv": ["outcome,p_0,p_1", "{y},{q},{p}"],
        "answers.csv": ["true_label,pred_label,confidence", "{y},1,{p}"],
        "spam.csv": ["label,y_prob", "{name},{p}"],
    }
    for name, (head, row) in tables.items():
        rows = [
            row.format(y=int(y), p=p, q=1 - p, name="spam" if y else "ham")
            for y, p in zip(yes, score.round(4), strict=True)
        ]
        (made / name).write_text("\n".join([head, *rows]) + "\n")
    for names, seed in ((("found", "gold"), 0), (("more", "more-gold"), 1)):
        kinds = {"PER": 0.9, "LOC": 0.6}
        for name, documents in zip(names, made_documents(seed, 100, kinds), strict=True):
            (made / f"{name}.jsonl").write_text("\n".join(map(_line, documents)))
    shutil.copy(
        ROOT / "tests" / "files" / "lm_eval_samples" / "samples_tiny_mc.jsonl",
        made / "samples_arc_easy.jsonl",
    )
    answers = [_answer(p, "A" if y else "B") for p, y in zip(score.tolist(), yes, strict=True)]
    (made / "server.jsonl").write_text("\n".join(map(json.dumps, answers)))
    spoken = [
        {"response": f"Answer: A. Confidence: {100 * p:.0f} %", "label": "A" if y else "B"}
        for p, y in zip(score.tolist(), yes, strict=True)
    ]
    (made / "spoken.jsonl").write_text("\n".join(map(json.dumps, spoken)))
    pairs = [
        [{"label": "good", "score": float(p)}, {"label": "bad", "score": float(1 - p)}]
        for p in score
    ]
    (made / "test_scores.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    (made / "test_labels.txt").write_text("\n".join("good" if y else "bad" for y in yes))
    pytest.importorskip("transformers")
    (made / "sentences").mkdir()
    write_sentences(made / "sentences")
    make_tagger(made / "tagger", [tag.replace("PER", "PERSON") for tag in TAGS])
    return made


def _line(document):
    entities = [
        {"start": e.start, "end": e.end, "label": e.type}
        | ({} if e.score is None else {"score": e.score})
        for e in document.entities
    ]
    return json.dumps({"id": document.id, "text": document.text, "entities": entities})


def _answer(p, label):
    tops = [{"token": "A", "logprob": float(np.log(p))}, {"token": "B", "logprob": -3.0}]
    content = [{**tops[0], "top_logprobs": tops}]
    return {"choices": [{"logprobs": {"content": content}}], "label": label}


def test_commands(folder, monkeypatch, capsys):
    """In the order of the page: the calibrator that one saves is used by the next ones."""
    monkeypatch.chdir(folder)
    assert len(COMMANDS) == 18
    for command in COMMANDS:
        words = shlex.split(command)
        assert words[0] == "calibrant"
        fast = ["--bootstrap", "0"] if words[1] in ("audit", "wrap") else []
        assert main([*words[1:], *fast]) == 0, capsys.readouterr().err
    assert (folder / "entities.html").exists()
    assert (folder / "honest.jsonl").exists()


class _Result:
    """As Presidio's: attributes, and a dictionary of them."""

    def __init__(self):
        self.entity_type, self.start, self.end, self.score = "PER", 0, 9, 0.85

    def to_dict(self):
        return self.__dict__


def _stand_ins():
    """What users have; the tests of integrations run the libraries themselves."""
    rng = np.random.default_rng(0)
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")

    @spacy.language.Language.component("test_spans")
    def spans(doc):
        doc.spans["sc"] = [spacy.tokens.Span(doc, 0, 2, "PER")]
        doc.spans["sc"].attrs["scores"] = np.array([0.9], np.float32)
        return doc

    nlp.add_pipe("test_spans")
    label = types.SimpleNamespace(value="PER", score=0.9)
    label.data_point = types.SimpleNamespace(start_position=0, end_position=9)
    label.set_value = lambda value, score: label.__dict__.update(value=value, score=score)
    span = types.SimpleNamespace(get_label=lambda _: label)
    sentence = types.SimpleNamespace(
        to_dict=lambda tag_type: {"text": TEXTS[0], "entities": FOUND}, get_spans=lambda _: [span]
    )
    model = types.SimpleNamespace(
        predict_proba=lambda _: np.array([[0.2, 0.8]] * 30),
        predict_entities=lambda *_: FOUND,
    )
    return {
        "logits": rng.normal(size=(30, 3)), "labels": rng.integers(0, 2, 30), "X": None,
        "y": [1] * 30, "texts": TEXTS, "nlp": nlp, "sentences": [sentence], "model": model,
        "tagger": lambda _: FOUND,
        "analyzer": types.SimpleNamespace(analyze=lambda *_, **__: [_Result()]),
    }  # fmt: skip


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_snippets(folder, number, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    given = _stand_ins()
    if "classifier(" in PROGRAMS[number] or "all_scores" in PROGRAMS[number]:
        given["labels"] = ["good", "bad"] * 15
        given["classifier"] = lambda _: [{"label": "good", "score": 0.9}] * 30
        rows = [{"label": "good", "score": 0.9}, {"label": "bad", "score": 0.1}]
        given["all_scores"] = [rows] * 30
    if "wrap(" in PROGRAMS[number]:
        transformers = pytest.importorskip("transformers")
        given["model"] = transformers.AutoModelForTokenClassification.from_pretrained("tagger")
        given["tokenizer"] = transformers.AutoTokenizer.from_pretrained("tagger")
        given["valid"] = sentences(0, 40)
    if "entities.json" in PROGRAMS[number] and not Path("entities.json").exists():
        fit = ["fit", "--entities", "found.jsonl", "gold.jsonl", "-o", "entities.json"]
        assert main(fit) == 0
    exec(PROGRAMS[number], given)
    if "honest" in given:
        assert given["honest"] is not None
    if "set_confidences" in PROGRAMS[number]:
        (span,) = given["sentences"][0].get_spans("ner")
        assert span.get_label("ner").score != 0.9


def test_the_readme_leads_here():
    assert "(docs/sources.md)" in (ROOT / "README.md").read_text(encoding="utf-8")[:1500]

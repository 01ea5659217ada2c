"""Confidences and answers in the words of language models: every form, right, wrong or ignored."""

import json
import time

import pytest

from calibrant import read
from calibrant.cli import main
from calibrant.errors import InputError
from calibrant.files import notes
from calibrant.files.language_models.spoken import cut_confidence, read_answer

READ = [
    ("B. Confidence: 85 %", 0.85),
    ("Answer: B (confidence: 85%)", 0.85),
    ("Answer: B Confidence: 85%", 0.85),
    ("B, confidence: 87%", 0.87),
    ("B (confidence 87%)", 0.87),
    ("(B) Confidence 0.87", 0.87),
    ("B; certainty 0.87", 0.87),
    ("B - 87% confident", 0.87),
    ("B, 87 % sure", 0.87),
    ("I am 87% confident the answer is B.", 0.87),
    ("I'm 87% confident that B is correct.", 0.87),
    ("The answer is B with 87% confidence.", 0.87),
    ("With 9/10 confidence, the answer is B.", 0.9),
    ("answer: b, confidence: high (87%)", 0.87),
    ("Confidence: 80%\nB", 0.8),
    ("Confidence: 80%\nAnswer: B", 0.8),
    ("Answer: B | Confidence: 80%", 0.8),
    ("Answer: B; confidence 80%", 0.8),
    ("Answer - B\nConfidence - 80%", 0.8),
    ("Answer: Option B\nConfidence: 80%", 0.8),
    ("Option B is correct. Confidence: 80%", 0.8),
    ("Answer:\nB\nConfidence:\n80%", 0.8),
    ("Guess: B\nProbability: 0.8", 0.8),
    ("Guess: B\nProbability that it is right: 0.8", 0.8),
    ("Answer: B. The likelihood of being right is 80%.", 0.8),
    ("Answer: B\nConfidence (0-100): 85", 0.85),
    ("Answer: B\nConfidence score (0-1): 0.8", 0.8),
    ("Answer: B\nConfidence [0 to 10]: 8", 0.8),
    ("Answer: B\nConfidence (0 = unsure, 10 = sure): 8", 0.8),
    ("Answer: B\nConfidence (in %): 80", 0.8),
    ("Answer: B\nConfidence (%): 80", 0.8),
    ("Answer: B\nConfidence (out of 10): 8", 0.8),
    ("Answer: B\nConfidence on a scale of 0 to 100: 80", 0.8),
    ("Answer: B\nConfidence between 0 and 1: 0.8", 0.8),
    ("Answer: B\nConfidence (0-1): 80%", 0.8),
    ("Answer: B\nConfidence (0–100): 80", 0.8),
    ('{"answer": "B", "confidence (0-100)": 80}', 0.8),
    ("Answer: B\nConfidence: 85,5 %", 0.855),
    ("Answer: B\nConfidence: 0,85", 0.85),
    ("Answer: B\nConfidence: 87.5%", 0.875),
    ("Answer: B\nConfidence: 0.85%", 0.0085),
    ("Answer: B\nConfidence: 8.7/10", 0.87),
    ("Answer: B\nConfidence: 7 out of 10", 0.7),
    ("Answer: B\nConfidence: 8 (out of 10)", 0.8),
    ("Answer: B\nConfidence: 8 on a scale of 1 to 10", 0.8),
    ("Answer: B\nConfidence: 0.8 (80%)", 0.8),
    ("Confidence: 80% (0.8)\nAnswer: B", 0.8),
    ("Answer: B\nConfidence level: 80 percent", 0.8),
    ("Answer: B\nMy confidence in this answer is about 80 per cent.", 0.8),
    ("Answer: B\nConfidence: ~80%", 0.8),
    ("Answer: B\nConfidence: approx. 80%", 0.8),
    ("Answer: B\nConfidence: 80%\nSo I am 80% confident.", 0.8),
    ("**Answer:** B\n**Confidence:** 80%", 0.8),
    ("Answer: B\nConfidence: **80%**", 0.8),
    ("Answer: $B$\nConfidence: 80%", 0.8),
    ("Answer: \\boxed{B}\nConfidence: 80%", 0.8),
    ("<answer>B</answer><confidence>80%</confidence>", 0.8),
    ("<think>Answer: C? Confidence: 10%</think>Answer: B\nConfidence: 80%", 0.8),
    ('```json\n{"answer": "B", "confidence": "80 %"}\n```', 0.8),
    ("Answer：B\nConfidence：80％", 0.8),
    ("I first thought the answer is C. Final answer: B\nConfidence: 80%", 0.8),
    ("Answer: B.\n\nI considered C: it is wrong.\n\nConfidence: 80%", 0.8),
    ("Answer: B) Paris\nConfidence: 80%", 0.8),
    ("B: Paris\nConfidence: 80%", 0.8),
    ("- Answer: B\n- Confidence: 80%", 0.8),
    ("Answer: B, not C. Confidence: 80%", 0.8),
    ("Answer: B. The probability of rain is 0.3. Confidence: 80%", 0.8),
    ("Answer: B\nConfidence: 0", 0.0),
    ("Answer: B\nConfidence: 1.0", 1.0),
    ("Answer: B\nConfidence: 100%", 1.0),
    ("B (87%)", 0.87),
    ("(B) (87 %)", 0.87),
    ("B [87 percent].", 0.87),
    ("B. (~87%)", 0.87),
    ("**B** (87,5%)", 0.875),
    ("B) Paris (87%)", 0.87),
    ("Answer: B (87%)", 0.87),
    ("The answer is B (87%).", 0.87),
    ("B is correct (87%)", 0.87),
    ("In 2020, 5 (12 percent of them) chose A.\nAnswer: B (87%)", 0.87),
    ("I thought about it.\nB (87%)", 0.87),
    ("B (87%). Confidence: 60%", 0.6),
]

IGNORED = [
    "Confidence: 1",
    "Confidence: 80%",
    "(confidence: 80%)",
    "Answer:\nConfidence: 80%",
    "Answer: B",
    "Answer: B\nConfidence: high",
    "Answer: B or C\nConfidence: 80%",
    "Answer: B, C\nConfidence: 80%",
    "B\nC\nConfidence: 80%",
    "Answer: C? No. Answer: B\nConfidence: 80%",
    "B is correct.\nAnswer: C\nConfidence: 80%",
    "Answer: B\nConfidence: 90-95%",
    "Answer: B\nConfidence: 90 to 95%",
    "Answer: B. Confidence: 90% or so. Confidence: 60%",
    "Answer: B. I was 50% confident in C first. Confidence: 87%",
    "Answer: B\nConfidence: 0.8 (90%)",
    "Answer: B\nConfidence: -0.8",
    "Answer: B\nConfidence: high\n42 people agree.",
    "Confidence: high. Answer: 42",
    "My confidence is high, the answer is 4",
    "Answer: B\nA 95% confidence interval was used.",
    "I cannot say which one of all of them it is. Confidence: 80%",
    "B: growth was 5 (87%)",
    "Answer: growth was 5 (87%)",
    "growth was 5 (87%)",
    "growth was 5 (87% of them in B)",
    "5 (83%)",
    "Answer: 5 (83%)",
    "50% (87%)",
    "B (87%) or C",
    "B (60%)\nC (40%)",
    "B (60%), C (40%)",
    "B (87% of all)",
    "B (87)",
    "B (0.87)",
    "B 87%",
    "(87%)",
    "Answer: (87%)",
    "Most of them were women (87%)",
    "I thought about it.\nParis (87%)",
    "Answer: B or C (87%)",
]


def _file(path, *replies, label="B", **more):
    good = ({"response": "Answer: C. Confidence: 60 %", "label": "C"},)
    rows = [*good, *({"response": reply, "label": label, **more} for reply in replies)]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


@pytest.mark.parametrize(("reply", "confidence"), READ)
def test_a_clear_reply_is_read_and_right_or_wrong_by_its_label_alone(tmp_path, reply, confidence):
    for label, right in (("B", True), ("C", False), ("b", True)):
        found = read(_file(tmp_path / f"{label}.jsonl", reply, label=label))
        assert found.confidence.tolist() == pytest.approx([0.6, confidence], abs=1e-12)
        assert found.correct.tolist() == [True, right]


@pytest.mark.parametrize("reply", IGNORED)
def test_an_unclear_reply_is_ignored_and_counted(tmp_path, reply):
    for label in ("B", "C"):
        path = _file(tmp_path / f"{label}.jsonl", reply, label=label)
        found = read(path)
        assert (len(found), found.ignored) == (1, 1)
        assert "1 without one clear answer and confidence are ignored" in notes(path)[0]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (("0.8", "1"), [0.8, 1.0]),
        (("85", "1"), [0.85, 0.01]),
        (("85", "0.9"), [0.85]),  # A probability among percentages, or less than one per cent.
        (("9", "5"), []),  # Of 10 or of 100.
    ],
)
def test_numbers_without_a_scale_are_read_by_the_whole_file(tmp_path, numbers, expected):
    replies = [f"Answer: B\nConfidence: {number}" for number in numbers]
    found = read(_file(tmp_path / "spoken.jsonl", *replies))
    assert found.confidence.tolist() == pytest.approx([0.6, *expected])


@pytest.mark.parametrize(
    ("reply", "label", "right"),
    [
        ("Answer: St. Louis. Confidence: 90 %", "St. Louis", True),
        ("Answer: St. Louis. Confidence: 90 %", "St. Paul", False),
        ("St. Louis (confidence: 90 %)", "St. Louis", True),
        ("A) Paris. Confidence: 90 %", "Paris", True),
        ("Answer: 3.14\nConfidence: 90 %", "3.14", True),
        ("Answer: 3.14\nConfidence: 90 %", "3", False),
        ("Answer: 50%\nConfidence: 90 %", "50%", True),
        ("Answer: 50% Confidence: 90%", "50%", True),
        ("Answer: 50% Confidence (0-100): 90", "50%", True),
        ("I am 90% confident the answer is 42.", "42", True),
        ("Answer: rock and roll. Confidence: 90 %", "rock and roll", True),
        ("Answer: yes, because it is. Confidence: 90 %", "Yes", True),
        ("Paris (90%)", "Paris", True),
        ("Paris (90%)", "Rome", False),
        ("Answer: St. Louis (90%)", "St. Louis", True),
        ("Answer: St. Louis (90%)", "St. Paul", False),
    ],
)
def test_answers_that_are_texts(tmp_path, reply, label, right):
    assert read(_file(tmp_path / "spoken.jsonl", reply, label=label)).correct.tolist()[1] == right


@pytest.mark.parametrize("options", [{"A": "Rome", "B": "Paris"}, ["Rome", "Paris"]])
@pytest.mark.parametrize("label", ["B", "Paris"])
def test_the_text_of_an_option_is_its_letter(tmp_path, options, label):
    replies = ("Answer: Paris. Confidence: 90%", "Answer: Rome. Confidence: 90%")
    path = _file(tmp_path / "spoken.jsonl", *replies, label=label, options=options)
    assert read(path).correct.tolist() == [True, True, False]


@pytest.mark.parametrize(("reply", "right"), [("5 (90%)", True), ("Answer: 6 (90%)", False)])
def test_a_number_before_a_percentage_is_an_answer_where_it_is_an_option(tmp_path, reply, right):
    path = _file(tmp_path / "spoken.jsonl", reply, label="5", options=["4", "5", "6"])
    found = read(path)
    assert found.confidence.tolist() == [0.6, 0.9]
    assert found.correct.tolist() == [True, right]


def test_a_file_may_begin_with_a_percentage_in_brackets(tmp_path):
    rows = [{"response": f"{a} ({p}%)", "label": "B"} for a, p in (("B", 90), ("C", 60))]
    path = tmp_path / "spoken.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read(path).confidence.tolist() == [0.9, 0.6]
    path.write_text(json.dumps({"text": "Growth was 5 (87% of it abroad)", "label": "news"}))
    with pytest.raises(InputError, match="no column of logits or probabilities"):
        read(path)


def test_other_single_values_are_groups(tmp_path, capsys):
    path = tmp_path / "spoken.jsonl"
    rows = [
        {"response": "Answer: B. Confidence: 80%", "label": "B", "topic": topic, "tags": ["x"]}
        for topic in ("law", "art")
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read(path).groups["topic"].tolist() == ["law", "art"]
    assert set(read(path).groups) == {"topic"}
    assert main(["audit", str(path), "--per", "topic", "--bootstrap", "0"]) == 0
    assert "law" in capsys.readouterr().out


def test_a_file_with_scores_is_no_reply_even_if_its_text_speaks_of_confidence(tmp_path):
    row = {"text": "Consumer confidence rose to 85", "label": 1, "logits": [0.5, 2.0]}
    path = tmp_path / "news.jsonl"
    path.write_text(json.dumps(row))
    assert read(path).scores.tolist() == [[0.5, 2.0]]


@pytest.mark.parametrize(
    "part", ["confidence (", "confidence 8 ", " ", "\n", "answer: ", "(", "80% ", "B ", "(8%) "]
)
def test_long_replies_take_no_time(part):
    start = time.process_time()
    _, rest = cut_confidence(part * 20_000)
    read_answer(rest, {"b": "B"})
    assert time.process_time() - start < 10

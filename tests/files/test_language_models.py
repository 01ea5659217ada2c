"""Samples of lm-evaluation-harness, log-probabilities of servers and confidences in words."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from calibrant import accuracy, read
from calibrant.cli import main
from calibrant.errors import InputError
from calibrant.files import Columns, notes

SAMPLES = Path(__file__).parent / "lm_eval_samples"  # Written by lm_eval 0.4.13, without hashes.
RESULTS = json.loads((SAMPLES / "results.json").read_text())


@pytest.mark.parametrize("task", sorted(RESULTS))
@pytest.mark.parametrize(
    ("column", "metric"), [("logits", "acc"), ("logits_per_character", "acc_norm")]
)
def test_the_harness_own_accuracy_to_the_last_digit(task, column, metric):
    """Numbers and texts as targets, several right ones, choices with and without a blank."""
    found = read(SAMPLES / f"samples_{task}.jsonl", Columns(logits=column))
    assert accuracy(found) == pytest.approx(RESULTS[task][metric], abs=1e-12)


def test_choices_that_a_sample_lacks_are_impossible():
    found = read(SAMPLES / "samples_tiny_mc.jsonl")
    counts = [len(json.loads(line)["doc"]["choices"]) for line in _lines("tiny_mc")]
    assert found.classes == max(counts) == 5
    assert (np.isfinite(found.scores).sum(axis=1) == counts).all()
    first = json.loads(_lines("tiny_mc")[0])
    expected = [float(score) for score, _ in first["filtered_resps"]]
    np.testing.assert_array_equal(found.scores[0], expected)


def _lines(task):
    return (SAMPLES / f"samples_{task}.jsonl").read_text("utf-8").splitlines()


def test_lengths_are_those_of_the_choices():
    for task in ("tiny_mc", "tiny_raw"):
        path = SAMPLES / f"samples_{task}.jsonl"
        whole, per_character, per_byte = (
            read(path, Columns(logits=f"logits{name}"))
            for name in ("", "_per_character", "_per_byte")
        )
        for row, line in enumerate(_lines(task)):
            for k, choice in enumerate(json.loads(line)["doc"]["choices"]):
                score = whole.scores[row, k]
                assert per_character.scores[row, k] == pytest.approx(score / len(choice))
                assert per_byte.scores[row, k] == pytest.approx(score / len(choice.encode()))


def test_commands_state_the_normalisation(tmp_path, capsys):
    path = str(SAMPLES / "samples_tiny_mc.jsonl")
    assert main(["audit", path, "--bootstrap", "0", "--json"]) == 0
    printed = capsys.readouterr()
    assert "without length normalisation (acc 0.4250)" in printed.err
    assert "(acc_norm 0.1750)" in printed.err
    assert json.loads(printed.out)["audit"]["measures"]["accuracy"]["value"] == 0.425
    calibrator = str(tmp_path / "map.json")
    assert main(["fit", path, "-o", calibrator, "--logits-column", "logits_per_character"]) == 0
    assert main(["apply", calibrator, path, "-o", str(tmp_path / "out.jsonl")]) == 2
    assert "cannot be written back" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def sample(scores, target="0", **more):
    return {
        "doc_id": 3,
        "target": target,
        "arguments": [["Q", f" choice {k}"] for k in range(len(scores))],
        "filtered_resps": [[score, False] for score in scores],
        **more,
    }


def written(path, *records):
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def test_samples_of_other_tasks(tmp_path):
    path = tmp_path / "samples.jsonl"
    # Two contexts and one continuation, as in winogrande: only the logged metric knows the answer.
    two = [sample([-1, -2], "word", acc=acc) for acc in (1.0, 0.0, 0.0)]
    assert read(written(path, *two)).labels.tolist() == [0, 1, 1]
    # Mutual information asks for each choice again, without the question.
    more = sample([-1, -2, -5, -6])
    more["arguments"][2:] = [["", " a"], ["", " b"]]
    assert read(written(path, more, more)).classes == 2
    # A target that no choice has is ignored, as one that is out of range.
    assert read(written(path, sample([-1, -2, -3], "9"), sample([-1, -2, -3]))).ignored == 1


def test_a_sample_counts_once_however_many_filters_wrote_it(tmp_path, capsys):
    each = [sample([-1, -2], str(k % 2), filter=name) for k in range(4) for name in ("none", "b")]
    path = written(tmp_path / "samples.jsonl", *each)
    assert main(["audit", str(path), "--bootstrap", "0"]) == 0
    printed = capsys.readouterr()
    assert "4 examples" in printed.out
    assert "4 samples of lm-evaluation-harness" in printed.err
    assert "Those of the filter 'none' count, not of 'b'." in printed.err


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({**sample([-1, -2]), "filtered_resps": ["some text"]}, "no log-likelihood of each choice"),
        ({**sample([-1, -2]), "filtered_resps": 3}, "not a sample of lm-evaluation-harness"),
        (sample([-1]), "at least 2 choices, got 1"),
        (sample([math.nan, 1]), "not a number"),
        ({**sample([-1, -2]), "arguments": [["Q", " a"]]}, "at least 2 choices"),
    ],
)
def test_bad_samples_are_one_line(tmp_path, record, expected):
    with pytest.raises(InputError, match=expected) as error:
        read(written(tmp_path / "samples.jsonl", sample([-1, -2]), record))
    assert "line 2" in str(error.value)


ECHO = {"tokens": ["Q", "B"], "token_logprobs": [None, -1.0], "top_logprobs": [None, {"B": -1.0}]}


def completion(tokens, label, **more):
    content = [
        {
            "token": top[0][0],
            "logprob": math.log(top[0][1]),
            "top_logprobs": [{"token": t, "logprob": math.log(p)} for t, p in top],
        }
        for top in tokens
    ]
    return {"choices": [{"message": {}, "logprobs": {"content": content}}], "label": label, **more}


def test_log_probabilities_of_a_server(tmp_path):
    path = written(
        tmp_path / "answers.jsonl",
        completion([[("The", 0.9)], [(" B", 0.5), ("B", 0.2), ("A", 0.1), ("x", 0.05)]], "B"),
        completion([[("A", 0.6), ("B", 0.3)]], "C"),
        completion([[("Sorry", 0.9), ("A", 0.1)]], "A"),
    )
    found = read(path)
    assert found.names == ("A", "B", "C")
    # C was not listed: of the 0.15 that is left it gets no more than the last token, 0.05.
    expected = np.array([[0.1, 0.7, 0.05], [0.6, 0.3, 0.1]])
    np.testing.assert_allclose(np.exp(found.scores), expected)
    assert found.labels.tolist() == [1, 2]
    assert found.ignored == 1
    assert "1 answers without one of them are ignored" in notes(path)[0]


def test_batches_options_and_the_older_endpoint(tmp_path):
    body = completion([[("yes", 0.8), ("no", 0.2)]], "")
    old = {"tokens": ["no"], "token_logprobs": [-0.1], "top_logprobs": [{"no": -0.1, "yes": -3.0}]}
    path = written(
        tmp_path / "answers.jsonl",
        {"custom_id": "1", "response": {"body": body}, "target": "yes", "options": ["yes", "no"]},
        {"response": {"choices": [{"logprobs": old}]}, "target": "no"},
    )
    found = read(path)
    assert accuracy(found) == 1
    np.testing.assert_allclose(found.scores[1], [-0.1, -3.0])


def test_the_endpoint_of_responses(tmp_path):
    """Its message comes after other parts, such as what a model thought."""
    content = completion([[("B", 0.7), ("A", 0.3)]], "")["choices"][0]["logprobs"]["content"]
    text = {"type": "output_text", "text": "B", "annotations": [], "logprobs": content}
    parts = [{"type": "reasoning", "summary": []}, {"type": "message", "content": [text]}]
    body = {"object": "response", "output": parts}
    path = tmp_path / "answers.jsonl"
    for first in ({"response": body, "label": "B"}, {**body, "label": "B"}):
        found = read(written(path, first, {**first, "label": "A"}))
        np.testing.assert_allclose(np.exp(found.scores), [[0.3, 0.7]] * 2)
        assert found.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"choices": [{"message": {"content": "A"}}], "label": "A"}, "no log-probabilities"),
        ({"choices": [{"logprobs": {"content": []}}], "label": "A"}, "no log-probabilities"),
        (completion([[("A", 0.5)]], None), "no true label"),
        ({"label": "B"}, "no 'choices'"),
        ({"choices": [{"logprobs": ECHO}], "label": "B"}, "those of the prompt; .* without echo"),
        ({"output": [{"type": "message", "content": []}], "label": "B"}, "no log-probabilities"),
    ],
)
def test_bad_answers_are_one_line(tmp_path, record, expected):
    good = completion([[("A", 0.5), ("B", 0.2)]], "A", options=["A", "B"])
    with pytest.raises(InputError, match=expected) as error:
        read(written(tmp_path / "answers.jsonl", good, record))
    assert "line 2" in str(error.value)
    with pytest.raises(InputError, match="all labels are 'A'"):
        read(written(tmp_path / "answers.jsonl", completion([[("A", 0.5)]], "A")))


def test_confidences_in_words(tmp_path):
    path = written(
        tmp_path / "spoken.jsonl",
        {"response": "I think so.\nAnswer: (B)\nConfidence: 85%", "label": "B"},
        {"response": "The answer is a, with confidence 0.7", "label": "C"},
        {"response": "Final answer: c. Confidence: 9/10", "label": "C"},
        {"response": "Answer: A\nMy confidence is about .5 here.", "label": "A"},
        {"response": "Answer: A", "label": "A"},
    )
    found = read(path)
    assert found.confidence.tolist() == [0.85, 0.7, 0.9, 0.5]
    assert found.correct.tolist() == [True, False, True, True]
    assert "1 without one clear answer and confidence are ignored" in notes(path)[0]


def test_bare_numbers_above_1_are_percentages(tmp_path):
    rows = [{"predicted": "x", "label": "x", "confidence": c} for c in ("85", "100", "1")]
    path = written(tmp_path / "spoken.jsonl", *rows)
    assert read(path).confidence.tolist() == [0.85, 1.0, 0.01]
    assert "bare numbers are percentages" in notes(path)[0]
    rows[0]["confidence"] = "850"
    with pytest.raises(InputError, match=r"line 1: a confidence of 8.5 is above 1"):
        read(written(path, *rows))


def test_audit_and_compare_of_every_kind(tmp_path, capsys):
    rng = np.random.default_rng(0)
    paths = {}
    for split in ("valid", "test"):
        answers, spoken = [], []
        for p in rng.uniform(0.5, 0.99, 120):
            label = "A" if rng.random() < 0.7 else "B"
            answers.append(completion([[("A", float(p)), ("B", float(1 - p))]], label))
            spoken.append({"response": f"Answer: A. Confidence: {100 * p:.0f}%", "label": label})
        paths[split] = (
            str(written(tmp_path / f"{split}-answers.jsonl", *answers)),
            str(written(tmp_path / f"{split}-spoken.jsonl", *spoken)),
        )
    for valid, test in zip(paths["valid"], paths["test"], strict=True):
        assert main(["audit", test, "--bootstrap", "0"]) == 0
        assert main(["compare", valid, test, "--bootstrap", "100"]) == 0
        assert "Recommended" in capsys.readouterr().out


@pytest.mark.parametrize(
    "response",
    [
        '{"answer": "B", "confidence": 0.85}',
        '```json\n{"answer": "B",\n "confidence": "85%"}\n```',
        "{'answer': 'B', 'confidence': '85%'}",
        'Sure! {"final_answer": "B", "probability": 0.85}',
        "**Answer:** B\n**Confidence:** 85%",
        "The answer is \\boxed{B}. Confidence: 85%",
        "The answer is B. My confidence is about 85 percent.",
    ],
)
def test_answers_in_the_ways_that_models_write_them(tmp_path, response):
    """An answer that is not recognised would count as wrong."""
    path = written(tmp_path / "spoken.jsonl", {"response": response, "label": "B"})
    found = read(path)
    assert (found.correct.tolist(), found.confidence.tolist()) == ([True], [0.85])
    other = read(written(tmp_path / "other.jsonl", {"response": response, "label": "A"}))
    assert other.names == ("B", "A")


def test_an_answer_with_a_full_stop_in_it(tmp_path):
    response = "Answer: St. Louis. Confidence: 90 %"
    labels = {"St. Louis": True, "St. Paul": False}
    for label, right in labels.items():
        path = written(tmp_path / f"{len(label)}.jsonl", {"response": response, "label": label})
        assert read(path).correct.tolist() == [right]

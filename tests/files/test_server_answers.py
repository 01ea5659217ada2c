"""Answers of a real server, llama.cpp's, as the ``openai`` client received them.

A Llama of two layers answered questions on loopback (xllamacpp 2026.10.11549, openai 3.51.0).
``by_weights`` has the probability of each option as transformers computes it from the weights.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from calibrant import ece, read
from calibrant.cli import main
from calibrant.errors import InputError
from calibrant.files import notes

ANSWERS = Path(__file__).parent / "server_answers"
KINDS = ("chat", "completions", "sentences", "streamed_chat", "streamed_completions")


def records(name):
    return [json.loads(line) for line in (ANSWERS / f"{name}.jsonl").read_text().splitlines()]


def written(path, *rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.parametrize("name", KINDS)
def test_scores_are_those_of_the_weights(name, tmp_path):
    """The options are letters, found after a blank, at the start or the end of an answer."""
    rows = [{**row, "options": list("ABCD")} for row in records(name)]
    found = read(written(tmp_path / "answers.jsonl", *rows))
    expected = [[row["by_weights"][letter] for letter in "ABCD"] for row in rows]
    np.testing.assert_allclose(np.exp(found.scores), expected, atol=3e-4)
    assert [found.names[label] for label in found.labels] == [row["label"] for row in rows]
    shares = np.array(expected) / np.sum(expected, axis=1, keepdims=True)
    right = shares.argmax(1) == found.labels
    by_bins = [
        abs((shares.max(1) - right)[(shares.max(1) * 15 // 1) == each].sum()) for each in range(15)
    ]
    assert ece(found) == pytest.approx(sum(by_bins) / len(rows), abs=3e-4)


def test_a_character_of_several_tokens_is_no_option(tmp_path):
    """The server names the last byte by the whole "♣", whose other ends have other names.

    Read as an option, it was 99.8 % sure for 91 %, because no other option was listed.
    """
    with pytest.raises(InputError, match="no answer has a token that is one of the"):
        read(ANSWERS / "characters.jsonl")
    first = {**records("characters")[0], "label": "A"}
    row = {**records("chat")[0]["response"], "label": records("chat")[0]["label"]}
    found = read(written(tmp_path / "answers.jsonl", row, first, {**row, "label": "B"}))
    assert (len(found), found.ignored) == (2, 1)


def test_an_empty_answer_or_refusal_is_ignored_and_counted(tmp_path):
    """A server has no log-probabilities for it, though it was asked for them."""
    refusal = records("empty")[0]
    message = {"content": None, "refusal": "I cannot say."}
    refusal["response"]["choices"][0] |= {"message": message, "logprobs": {"content": None}}
    path = written(tmp_path / "answers.jsonl", *records("empty"), *records("chat"), refusal)
    found = read(path)
    assert (len(found), found.ignored) == (12, 2)
    assert "2 answers without one of them are ignored" in notes(path)[0]
    with pytest.raises(InputError, match=r"no answer has a token .*; the first is empty"):
        read(written(path, *({**row, "options": ["A", "B"]} for row in records("empty"))))


def test_an_answer_without_its_log_probabilities_is_an_error(tmp_path):
    rows = records("chat")
    rows[2]["response"]["choices"][0]["logprobs"] = None
    with pytest.raises(InputError, match="line 3: the answer has no log-probabilities; ask"):
        read(written(tmp_path / "answers.jsonl", *rows))


@pytest.mark.parametrize("name", ["streamed_chat", "streamed_completions"])
def test_a_chunk_on_its_own_is_one_line(name, tmp_path):
    """One chunk on each line would be as many answers."""
    row = records(name)[0]
    path = written(tmp_path / "chunks.jsonl", *({**c, "label": "A"} for c in row["response"]))
    with pytest.raises(InputError, match="line 1: this is one chunk of a streamed answer; save"):
        read(path)


def test_the_first_of_several_choices_counts(tmp_path):
    rows = records("two_choices")
    path = written(tmp_path / "answers.jsonl", *({**row, "options": list("ABCD")} for row in rows))
    first = [row["response"]["choices"][0]["logprobs"]["content"][0] for row in rows]
    own = np.exp([place["logprob"] for place in first])
    found = read(path)
    places = [found.names.index(place["token"].strip()) for place in first]
    np.testing.assert_allclose(np.exp(found.scores)[range(len(rows)), places], own)
    assert "Of several choices of an answer the first counts" in notes(path)[0]


@pytest.mark.parametrize("least", [-9999.0, -3.4028234663852886e38, float("-inf")])
def test_the_least_number_of_a_server_means_impossible(least, tmp_path):
    """A temperature that reads −9999 as a number is in the thousands."""
    rows = records("chat")
    for row in rows:
        for top in row["response"]["choices"][0]["logprobs"]["content"][0]["top_logprobs"][2:]:
            top["logprob"] = least
    found = read(written(tmp_path / "answers.jsonl", *rows))
    assert ((found.scores == -np.inf).sum(1) == 2).all()


@pytest.mark.parametrize("score", [0.93, float("nan")])
def test_what_is_no_log_probability_is_one_line(score, tmp_path):
    rows = records("chat")
    place = rows[1]["response"]["choices"][0]["logprobs"]["content"][0]
    place["logprob"] = score
    place["top_logprobs"][0]["logprob"] = score
    with pytest.raises(InputError, match=r"line 2: .* is no log-probability, which is at most 0"):
        read(written(tmp_path / "answers.jsonl", *rows))


def test_commands_read_raw_answers(tmp_path, capsys):
    path, calibrator = str(ANSWERS / "chat.jsonl"), str(tmp_path / "calibrator.json")
    assert main(["audit", path, "--bootstrap", "0"]) == 0
    assert main(["fit", path, "--calibrator", "temperature", "-o", calibrator]) == 0
    assert main(["compare", path, path, "--force", "--bootstrap", "0"]) == 0
    assert main(["apply", calibrator, path, "-o", str(tmp_path / "new.jsonl")]) == 2
    assert "cannot be written back" in capsys.readouterr().err


def test_a_label_that_pandas_wrote_as_3_0_is_the_option_3(tmp_path):
    """It wrote the column as numbers with a point, because one label was missing."""
    options = [{"token": token, "logprob": score} for token, score in (("3", -0.1), ("4", -2.4))]
    places = [{**options[0], "top_logprobs": options}]
    rows = [
        {
            "choices": [{"message": {"content": "3"}, "logprobs": {"content": places}}],
            "label": label,
        }
        for label in (3.0, 4.0, 3)
    ]
    found = read(written(tmp_path / "answers.jsonl", *rows))
    assert found.names == ("3", "4")
    assert found.labels.tolist() == [0, 1, 0]
    with pytest.raises(InputError, match="line 1: it has no true label"):
        read(written(tmp_path / "missing.jsonl", {**rows[0], "label": float("nan")}))

"""What 'calibrant predict' reads from files and writes into files."""

import csv
import json

import pytest

from calibrant.cli import main


def test_a_cell_holds_a_long_document(runs, tmp_path):
    run, long = str(runs["text"]), "bread " * 30_000
    csv.field_size_limit(131_072)  # Python's own, as in a new process.
    (tmp_path / "in.csv").write_text(f"id,text\n1,{long}\n2,goal\n")
    out = tmp_path / "out.jsonl"
    assert main(["predict", run, str(tmp_path / "in.csv"), "-o", str(out)]) == 0
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["1", "2"]


def test_fields_that_are_lists_or_objects_stay_json_in_a_table(runs, tmp_path):
    meta = {"a": [1, None, True], "ä": "x"}
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "bread", "meta": meta}) + "\n")
    out = tmp_path / "out.csv"
    command = ["predict", str(runs["text"]), str(tmp_path / "in.jsonl"), "-o", str(out)]
    assert main(command) == 0
    with out.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert json.loads(row["meta"]) == meta
    assert "ä" in row["meta"]


class Killed(BaseException):
    """As a signal ends a process."""


def test_another_policy_in_the_same_file_does_not_continue_an_output(
    runs, tmp_path, monkeypatch, capsys
):
    """One half of the output would be accepted by one policy, the other by another."""
    from calibrant.tasks.text.predictor import TextPredictor

    monkeypatch.setattr(TextPredictor, "block", 10)
    (tmp_path / "in.csv").write_text("id,text\n" + "".join(f"{i},bread {i}\n" for i in range(30)))
    policy, out = tmp_path / "policy.json", tmp_path / "out.jsonl"
    run = str(runs["text"])
    assert main(["guarantee", run, "--target-risk", "0.5", "-o", str(policy)]) == 0
    command = ["predict", run, str(tmp_path / "in.csv"), "-o", str(out), "--policy", str(policy)]
    seen, score = [], TextPredictor.scored

    def scored(self, inputs):
        seen.append(len(inputs))
        if len(seen) == 2:
            raise Killed
        return score(self, inputs)

    with monkeypatch.context() as patched:
        patched.setattr(TextPredictor, "scored", scored)
        with pytest.raises(Killed):
            main(command)
    again = ["guarantee", run, "--target-risk", "0.4", "-o", str(policy), "--overwrite"]
    assert main(again) == 0
    capsys.readouterr()
    assert main(command) == 2
    assert "unfinished output of another command" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    promises = [json.loads(line)["guarantee"]["target"] for line in out.read_text().splitlines()]
    assert promises == [0.4] * 30

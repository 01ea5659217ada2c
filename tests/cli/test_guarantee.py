"""``calibrant guarantee`` and ``apply --policy``, from files and from a run."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from calibrant import Predictions, guarantee, load_policy
from calibrant.calibrators import Temperature
from calibrant.cli import main
from calibrant.errors import InputError

NAMES = ("cat", "dog", "owl")


def made(n, seed):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, n)
    logits = 3 * (0.6 * random.normal(size=(n, 3)) + np.eye(3)[labels])
    return Predictions.from_logits(logits, labels, label_names=NAMES)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made(1500, 0).write("valid.npz")
    made(700, 1).write("test.npz")
    random = np.random.default_rng(2)
    labels = random.integers(0, 3, 300)
    p = Predictions.from_logits(random.normal(size=(300, 3)) * 2 + np.eye(3)[labels], labels)
    Temperature().fit(made(900, 3)).save("map.json")
    Temperature().fit(p).save("other.json")
    return tmp_path


def ok(capsys, *arguments):
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments):
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_feasibility_comes_first_then_the_threshold(folder, capsys):
    out = ok(capsys, "guarantee", "valid.npz", "--target-risk", "0.05", "-o", "policy.json")
    lines = out.splitlines()
    assert lines[0] == "Validation: 1,500 rows, drawn independently."
    assert "must be refused, no matter how good the confidences are" in lines[1]
    assert lines[2].startswith("Threshold: accept from confidence 0.9")
    assert lines[3].startswith("Promise: With probability 90 %, at most 5 %")
    policy = load_policy("policy.json")
    assert policy.thresholds == guarantee(made(1500, 0), target_risk=0.05).thresholds
    out = ok(capsys, "guarantee", "valid.npz", "--target-risk", "0.05", "--per", "type",
             "-o", "types.json")  # fmt: skip
    assert out.splitlines()[1].split() == ["type", "n", "wrong", "to", "refuse", "threshold",
                                           "kept", "of", "them", "wrong"]  # fmt: skip


def test_one_decision_is_one_and_nearly_all_are_not_all(folder, capsys):
    from calibrant.cli.apply_policy import _summary

    assert _summary({"all": 1, "accepted": 1}) == "1 decision, 1 accepted (100 %)."
    assert _summary({"all": 9999, "accepted": 9998}).endswith("9,998 accepted (99.99 %).")


def test_decisions_of_rows(folder, capsys):
    ok(capsys, "guarantee", "valid.npz", "--target-risk", "0.05", "-o", "policy.json")
    out = ok(capsys, "apply", "test.npz", "--policy", "policy.json", "-o", "decisions.csv")
    rows = list(csv.DictReader(Path("decisions.csv").read_text().splitlines()))
    expected = load_policy("policy.json").decide(made(700, 1))
    assert [row["accepted"] == "True" for row in rows] == expected.tolist()
    assert f"{expected.sum():,} accepted" in out
    assert [int(row["row"]) for row in rows] == list(range(700))


def test_decisions_through_a_calibrator(folder, capsys):
    command = ["guarantee", "valid.npz", "--calibrator", "map.json", "--coverage", "0.9"]
    ok(capsys, *command, "-o", "policy.json")
    ok(capsys, "apply", "map.json", "test.npz", "--policy", "policy.json", "-o", "sets.jsonl")
    records = [json.loads(line) for line in Path("sets.jsonl").read_text().splitlines()]
    sets = load_policy("policy.json").sets(Temperature().fit(made(900, 3)).transform(made(700, 1)))
    assert [record["set"] for record in records] == [
        [NAMES[k] for k in np.flatnonzero(row)] for row in sets
    ]
    apply = ["--policy", "policy.json", "-o", "again.jsonl"]
    assert "another calibrator" in refused(capsys, "apply", "other.json", "test.npz", *apply)
    assert "made with a calibrator" in refused(capsys, "apply", "test.npz", *apply)


def test_rows_without_labels_and_ignored_rows(folder, capsys):
    ok(capsys, "guarantee", "valid.npz", "--target-risk", "0.1", "-o", "policy.json")
    lines = [
        {"probabilities": [0.98, 0.01, 0.01], "label": None},
        {"probabilities": [0.98, 0.01, 0.01], "label": -100},
        {"probabilities": [0.4, 0.3, 0.3], "label": None},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "new.jsonl").write_text(text)
    out = ok(capsys, "apply", "new.jsonl", "--policy", "policy.json", "-o", "decisions.jsonl")
    assert out.startswith("2 decisions, 1 accepted (50.0 %). 1 row labelled −100 has none.\n")
    records = [json.loads(line) for line in Path("decisions.jsonl").read_text().splitlines()]
    assert [(r["row"], r["accepted"]) for r in records] == [(0, True), (2, False)]


def test_sets_in_tables_are_joined_as_predict_joins_them(folder, capsys):
    ok(capsys, "guarantee", "valid.npz", "--coverage", "0.99", "-o", "sets.json")
    ok(capsys, "apply", "test.npz", "--policy", "sets.json", "-o", "sets.csv")
    rows = list(csv.DictReader(Path("sets.csv").read_text().splitlines()))
    sets = load_policy("sets.json").sets(made(700, 1))
    assert [row["set"] for row in rows] == [
        "|".join(NAMES[k] for k in np.flatnonzero(row)) for row in sets
    ]


def test_a_name_with_the_sign_between_classes_needs_jsonl(folder, capsys):
    p = made(700, 1)
    named = Predictions.from_logits(p.scores, p.labels, label_names=["spam", "ham|eggs", "other"])
    named.write("named.npz")
    ok(capsys, "guarantee", "named.npz", "--coverage", "0.9", "-o", "sets.json")
    apply = ["apply", "named.npz", "--policy", "sets.json", "-o"]
    error = refused(capsys, *apply, "sets.csv")
    assert "'ham|eggs' holds '|'" in error
    assert "write .jsonl" in error
    assert not Path("sets.csv").exists()
    ok(capsys, *apply, "sets.jsonl")
    records = [json.loads(line) for line in Path("sets.jsonl").read_text().splitlines()]
    assert any("ham|eggs" in record["set"] for record in records)


def top_labels(path, n, labelled=True):
    random = np.random.default_rng(8)
    confidence, spam = random.uniform(0.4, 1, n).round(4), random.random(n) < 0.5
    right = random.random(n) < confidence
    lines = ["predicted,confidence" + (",true_label" if labelled else "")]
    for c, s, ok in zip(confidence, spam, right, strict=True):
        names = ("spam", "ham") if s else ("ham", "spam")
        lines.append(f"{names[0]},{c}" + (f",{names[0 if ok else 1]}" if labelled else ""))
    path.write_text("\n".join(lines) + "\n")


def test_top_labels(folder, capsys):
    top_labels(folder / "valid.csv", 3000)
    top_labels(folder / "new.csv", 40, labelled=False)
    for per in ((), ("--per", "type")):
        command = ["guarantee", "valid.csv", "--target-risk", "0.15", *per, "--overwrite"]
        ok(capsys, *command, "-o", "policy.json")
        arguments = ("new.csv", "--policy", "policy.json", "-o", "new.jsonl", "--overwrite")
        ok(capsys, "apply", *arguments)
        records = [json.loads(line) for line in Path("new.jsonl").read_text().splitlines()]
        thresholds = load_policy("policy.json").thresholds
        assert len(records) == 40
        assert all(
            r["accepted"]
            == (r["confidence"] >= thresholds.get("*", thresholds.get(r["prediction"])))
            for r in records
        )
    text = Path("new.csv").read_text().replace("spam", "eggs")
    Path("new.csv").write_text(text)
    assert "Unknown type of this policy: 'eggs'" in refused(capsys, "apply", *arguments)
    for option in ("--coverage", "--max-missed"):
        error = refused(capsys, "guarantee", "valid.csv", option, "0.1", "-o", "sets.json")
        assert "need the scores of all classes" in error


def tool_files(folder, documents=300):
    """Predicted entities with honest scores, and gold ones whose end differs where it is wrong."""
    random, lines = np.random.default_rng(9), {"predicted": [], "gold": []}
    for number in range(documents):
        each = {"predicted": [], "gold": []}
        for start in range(0, 20 * int(random.integers(0, 4)), 20):
            score, kind = random.uniform(0.5, 1), ("PER", "LOC")[int(random.random() < 0.5)]
            entity = {"start": start, "end": start + 5, "label": kind}
            each["predicted"].append({**entity, "score": score})
            each["gold"].append({**entity, "end": start + (5 if random.random() < score else 7)})
        for name, entities in each.items():
            lines[name].append(
                json.dumps({"id": str(number), "text": "x" * 90, "entities": entities})
            )
    for name, found in lines.items():
        (folder / f"{name}.jsonl").write_text("\n".join(found) + "\n")


def test_entities_of_any_tool(folder, capsys):
    tool_files(folder)
    command = ["guarantee", "--entities", "predicted.jsonl", "gold.jsonl"]
    out = ok(capsys, *command, "--target-risk", "0.25", "-o", "policy.json")
    assert "document groups" in out
    policy = load_policy("policy.json")
    assert (policy.items, policy.unit) == ("entities", "document")
    mean = ["--target-risk", "0.25", "--average", "groups", "-o", "mean.json"]
    assert "on average over documents" in ok(capsys, *command, *mean)
    ok(capsys, *command, "--target-risk", "0.25", "--per", "type", "-o", "types.json")
    assert set(load_policy("types.json").thresholds) == {"LOC", "PER"}
    ok(capsys, *command, "--target-risk", "0.3", "--average", "groups", "-o", "documents.json")
    assert load_policy("documents.json").average == "groups"
    ok(capsys, "apply", "predicted.jsonl", "--policy", "policy.json", "-o", "decisions.jsonl")
    records = [json.loads(line) for line in Path("decisions.jsonl").read_text().splitlines()]
    assert len(records) == policy.n
    assert sum(r["accepted"] for r in records) == policy.details["*"]["accepted"] > 0
    assert all(r["accepted"] == (r["confidence"] >= policy.thresholds["*"]) for r in records)
    for option, expected in (
        (("--coverage", "0.9"), "--coverage does not go with --entities"),
        ((), "need --target-risk, --max-missed or both"),
        (("--target-risk", "0.1", "--calibrator", "map.json"), "--calibrator does not go"),
        (("--target-risk", "0.1", "--keep-together", "sentence"), "--keep-together does not go"),
        (("--target-risk", "0.1", "--tokens"), "--tokens does not go"),
    ):
        assert expected in refused(capsys, *command, *option, "-o", "none.json")
    text = Path("predicted.jsonl").read_text().replace("PER", "ORG")
    Path("other.jsonl").write_text(text)
    error = refused(capsys, "apply", "other.jsonl", "--policy", "types.json", "-o", "o.jsonl")
    assert "Unknown type of this policy: 'ORG'" in error


def test_documents_without_ids_are_numbered_over_all_files(folder, capsys):
    tool_files(folder)
    command = ["guarantee", "--entities", "predicted.jsonl", "gold.jsonl"]
    ok(capsys, *command, "--target-risk", "0.25", "-o", "policy.json")
    lines = [json.loads(line) for line in Path("predicted.jsonl").read_text().splitlines()]
    for name, some in (("one", lines[:7]), ("two", lines[7:])):
        bare = [{k: v for k, v in line.items() if k != "id"} for line in some]
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, bare)) + "\n")
    ok(capsys, "apply", "one.jsonl", "two.jsonl", "--policy", "policy.json", "-o", "out.jsonl")
    found = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    expected = [str(i) for i, line in enumerate(lines) for _ in line["entities"]]
    assert [record["document"] for record in found] == expected


def test_one_line_for_bad_input(folder, capsys):
    start = ["guarantee", "valid.npz", "-o", "policy.json"]
    for options, expected in (
        ((), "got none"),
        (("--target-risk", "1.5"), "in (0, 1)"),
        (("--target-risk", "nan"), "in (0, 1)"),
        (("--target-risk", "0.05", "--coverage", "0.9"), "or only coverage"),
        (("--target-risk", "1e-6"), "needs at least 2,302,584 validation "),
        (("--max-missed", "0.02"), "BIO"),
        (("--target-risk", "0.05", "--keep-together", "sentence"), "Unknown group 'sentence'"),
        (("--target-risk", "0.05", "--tokens"), "folder of a training run"),
        (("--target-risk", "0.05", "--score", "aps"), "--score is for --coverage"),
        (("--target-risk", "0.05", "--on-average"), "--on-average is for --max-missed"),
        (("--coverage", "0.9", "--level", "0.5"), "--level is for --target-risk or --max-missed"),
        (("--max-missed", "0.1", "--per", "type"), "--per is for --target-risk or --coverage"),
        (("--coverage", "0.9", "--reduction", "min"), "--reduction is for --target-risk or"),
        (("--coverage", "0.9", "--free", "2"), "--free is for --score raps, got lac"),
        (("--coverage", "0.9", "--randomised"), "for --score aps or --score raps, got lac"),
        (("--target-risk", "0.05", "--calibrator", "none.json"), "no calibrator at none.json"),
    ):
        assert expected in refused(capsys, *start, *options)
    assert ".json" in refused(
        capsys, "guarantee", "valid.npz", "--target-risk", "0.1", "-o", "p.txt"
    )
    ok(capsys, *start, "--target-risk", "0.1")
    assert "exists" in refused(capsys, *start, "--target-risk", "0.1")
    apply = ["--policy", "policy.json", "-o", "out.jsonl"]
    assert "without a calibrator" in refused(capsys, "apply", "map.json", "test.npz", *apply)
    two = Predictions.from_probabilities([0.5, 0.6], [0, 1])
    two.write("two.npz")
    assert "3 classes, got 2" in refused(capsys, "apply", "two.npz", *apply)
    assert "not a policy" in refused(
        capsys, "apply", "test.npz", "--policy", "map.json", "-o", "out.jsonl"
    )
    assert ".jsonl or .csv" in refused(
        capsys, "apply", "test.npz", "--policy", "policy.json", "-o", "out.npz"
    )
    assert "CALIBRATOR FILE" in refused(capsys, "apply", "map.json", "-o", "out.npz")


def test_few_examples_of_a_class(folder, capsys):
    made(12, 5).write("few.npz")
    assert main(["guarantee", "few.npz", "--coverage", "0.9", "--per", "type",
                 "-o", "policy.json"]) == 0  # fmt: skip
    assert "at least 9 validation rows of each class" in capsys.readouterr().err


class TestRun:
    def test_entities(self, trained, tmp_path, capsys):
        run, output = str(trained[0]), str(tmp_path / "policy.json")
        out = ok(capsys, "guarantee", run, "--target-risk", "0.3", "-o", output)
        policy = load_policy(output)
        assert (policy.items, policy.unit, policy.reduction) == ("entities", "sentence", None)
        assert policy.calibrator is not None
        assert policy.model is not None
        assert "sentence groups" in out
        import calibrant

        predictor = calibrant.load_run(run, device="cpu")
        found = predictor.threshold(0.3)
        assert policy.thresholds["*"] == pytest.approx(found.threshold)

    def test_review_rows_and_sets(self, trained, tmp_path, capsys):
        run = str(trained[0])
        for name, options in (
            ("a", ("--max-missed", "0.3")),
            ("b", ("--coverage", "0.9")),
            ("c", ("--items", "rows", "--target-risk", "0.3")),
            ("d", ("--max-missed", "0.9", "--target-risk", "0.3", "--per", "type", "--tokens")),
        ):
            output = str(tmp_path / f"{name}.json")
            ok(capsys, "guarantee", run, *options, "-o", output)
            assert load_policy(output).label_names is not None

    def test_predicting_with_a_policy_of_both(self, trained, tmp_path, capsys):
        """An accepted entity is not reviewed; one that is refused may be."""
        import calibrant

        run, output = str(trained[0]), str(tmp_path / "policy.json")
        promises = ("--max-missed", "0.9", "--target-risk", "0.4")
        ok(capsys, "guarantee", run, *promises, "-o", output)
        predictor = calibrant.load_run(run, device="cpu")
        text = "Rosa Lind moved to Paris . Then Anna Berg left Kenor Motors in Oslo ."
        (found,) = predictor.predict([text], policy=output)
        accepted = {(t.start, t.end) for e in found.entities for t in e.tokens}
        assert not accepted & {(t.start, t.end) for t in found.review}

    def test_the_reduction_of_a_policy_is_honoured_or_refused(self, trained, tmp_path, capsys):
        """Its threshold is one of that reduction's confidences, not of those of another."""
        import calibrant

        run, output = str(trained[0]), str(tmp_path / "policy.json")
        predictor = calibrant.load_run(run, device="cpu")
        chosen = predictor.span_calibrator().reduction_
        other = "min" if chosen != "min" else "mean"
        promise = ("--target-risk", "0.4", "--reduction", other)
        ok(capsys, "guarantee", run, *promise, "-o", output)
        text = "Rosa Lind moved to Paris . Then Anna Berg left Kenor Motors in Oslo ."
        (found,) = predictor.predict([text], policy=output)
        (same,) = predictor.predict([text], policy=output, reduction=other)
        (plain,) = predictor.predict([text], reduction=other)
        assert found == same
        everything = {*found.entities, *found.abstained}
        assert everything == {*plain.entities, *plain.abstained} != set()
        threshold = load_policy(output).thresholds["*"]
        assert all(e.confidence >= threshold for e in found.entities)
        error = refused(capsys, "predict", run, text, "--policy", output, "--reduction", chosen)
        assert f"made with the reduction '{other}', got '{chosen}'" in error

    def test_a_policy_of_other_words_is_refused(self, trained, tmp_path, capsys):
        run, output = str(trained[0]), str(tmp_path / "policy.json")
        for promise in (("--target-risk", "0.4"), ("--max-missed", "0.5")):
            ok(capsys, "guarantee", run, *promise, "-o", output, "--overwrite")
            predict = ("predict", run, "Rosa Lind .", "--policy", output)
            assert "made for texts, got given words" in refused(capsys, *predict, "--tokens")
            ok(capsys, "guarantee", run, *promise, "--tokens", "-o", output, "--overwrite")
            assert "made for given words" in refused(capsys, *predict)
            ok(capsys, *predict, "--tokens")

    def test_a_policy_of_a_tool_is_refused_by_a_run(self, trained):
        import calibrant
        from calibrant.policies import Policy

        about = {"items": "entities", "settings": {"source": "entities"}}
        policy = Policy("target-risk", 0.1, {"*": 0.5}, classes=0, n=9, kept=0.5, **about)
        predictor = calibrant.load_run(trained[0], device="cpu")
        with pytest.raises(calibrant.InputError, match="entities of a file"):
            predictor.predict("Rosa Lind .", policy=policy)

    def test_words_to_review_are_in_a_table_too(self, trained, tmp_path, capsys):
        run, output = str(trained[0]), str(tmp_path / "policy.json")
        ok(capsys, "guarantee", run, "--max-missed", "0.3", "-o", output)
        predict = ("predict", run, "Rosa Lind moved to Paris .", "--policy", output)
        review = json.loads(ok(capsys, *predict, "--json"))["review"]
        ok(capsys, *predict, "-o", str(tmp_path / "out.csv"))
        table = (tmp_path / "out.csv").read_text("utf-8")
        rows = list(csv.DictReader(table.splitlines()))
        found = [(r["entity"], int(r["start"])) for r in rows if r["review"] == "True"]
        assert found == [(word["text"], word["start"]) for word in review] != []
        assert all(not row["type"] for row in rows if row["review"] == "True")

    def test_bad_input(self, trained, tmp_path, capsys):
        run, output = str(trained[0]), str(tmp_path / "policy.json")
        command = ["guarantee", run, "--target-risk", "0.3", "-o", output]
        error = refused(capsys, *command, "--calibrator", "x.json")
        assert "A run has its own calibrator" in error
        assert "none" in refused(capsys, "guarantee", run, "-o", output)
        assert "needs at least" in refused(
            capsys, "guarantee", run, "--target-risk", "0.001", "-o", output
        )
        (tmp_path / "manifest.json").write_text("{}")
        export = ["guarantee", str(tmp_path), "--target-risk", "0.3", "-o", output]
        assert "is an export" in refused(capsys, *export)
        assert "leave --keep-together out" in refused(capsys, *command, "--keep-together", "none")
        rows = ("--items", "rows", "--reduction", "min")
        assert "--reduction is for policies of entities" in refused(capsys, *command, *rows)
        missed = ["guarantee", run, "--max-missed", "0.3", "-o", output, "--average", "groups"]
        assert "needs a target risk" in refused(capsys, *missed)


def test_a_risk_averaged_over_groups(folder, capsys):
    p = made(1500, 0)
    p = Predictions.from_logits(
        p.scores, p.labels, label_names=NAMES, groups={"page": np.arange(1500) // 3}
    )
    p.write("pages.npz")
    options = ("--target-risk", "0.1", "--keep-together", "page", "--average", "groups")
    out = ok(capsys, "guarantee", "pages.npz", *options, "-o", "policy.json")
    assert "% of the rows of a page are wrong on average" in out
    assert (
        "% on average over page groups; upper bound of the risk, were this the only threshold"
        in out
    )
    assert "on average over pages with accepted rows" in out
    types = (*options, "--per", "type", "-o", "types.json")
    assert "owl" in ok(capsys, "guarantee", "pages.npz", *types)


def test_missed_entities_of_any_tool(folder, capsys):
    tool_files(folder, 600)
    command = ["guarantee", "--entities", "predicted.jsonl", "gold.jsonl", "--max-missed", "0.1"]
    out = ok(capsys, *command, "-o", "policy.json")
    assert "Review: entities with a score of at least" in out
    assert "at most 10 % of the true entities of a document are not sent to review" in out
    policy = load_policy("policy.json")
    least = policy.review["threshold"]
    assert 0.5 < least < 0.6  # Scores are uniform in [0.5, 1]; a tenth and a little less.
    ok(capsys, "apply", "predicted.jsonl", "--policy", "policy.json", "-o", "review.csv")
    rows = list(csv.DictReader(Path("review.csv").read_text().splitlines()))
    assert all((row["review"] == "True") == (float(row["confidence"]) >= least) for row in rows)
    assert all(row["accepted"] == "False" for row in rows)
    error = refused(capsys, *command, "--target-risk", "0.2", "-o", "both.json")
    assert "missed whatever is reviewed. No predicted entity touches them, or only wrong" in error
    both = [*command[:4], "--max-missed", "0.35", "--target-risk", "0.2", "-o", "both.json"]
    assert "neither accepted nor sent to review" in ok(capsys, *both, "--on-average")
    ok(capsys, "apply", "predicted.jsonl", "--policy", "both.json", "-o", "both.jsonl")
    records = [json.loads(line) for line in Path("both.jsonl").read_text().splitlines()]
    assert any(record["accepted"] for record in records)
    assert not any(record["accepted"] and record["review"] for record in records)


def test_labels_of_many_do_not_apply(folder, capsys):
    random = np.random.default_rng(3)
    scores = random.uniform(0, 1, (900, 3))
    truth = (random.random((900, 3)) < scores).astype(int)
    np.savez("many.npz", probabilities=scores, labels=truth, label_names=np.array(NAMES))
    common = ["guarantee", "many.npz", "--kind", "multi-label", "--target-risk", "0.2"]
    out = ok(capsys, *common, "-o", "many.json")
    assert "2,700 labels, in 900 example groups" in out
    assert "% do not apply, so at least" in out
    assert "of them do not apply" in out
    assert "of the accepted labels do not apply" in out
    assert "wrong" not in out
    assert "of them do not apply" in ok(capsys, *common, "--per", "type", "-o", "types.json")


def test_thresholds_are_numbers_that_a_person_can_use(folder, capsys):
    """Nothing is wrong, so everything is accepted; no exponents, and no 1 for what is below 1."""
    Predictions.from_probabilities(np.full(500, 0.7), np.ones(500, int)).write("right.npz")
    out = ok(capsys, "guarantee", "right.npz", "--target-risk", "0.05", "-o", "all.json")
    assert "Threshold: accept everything. It keeps 100.00 % (500 of 500)" in out
    each = ("--per", "type", "-o", "each.json")
    assert " all " in ok(capsys, "guarantee", "right.npz", "--target-risk", "0.05", *each)
    random = np.random.default_rng(0)
    wrong = random.random(9000) < np.linspace(0.2, 0, 9000)
    confidence = 1 - np.logspace(-2, -6.5, 9000)
    Predictions.from_probabilities(confidence, (~wrong).astype(int)).write("sure.npz")
    out = ok(capsys, "guarantee", "sure.npz", "--target-risk", "0.05", "-o", "sure.json")
    threshold = load_policy("sure.json").thresholds["*"]
    assert 0.9999 < threshold < 1
    assert f"from confidence {threshold:.9f}"[:25] in out
    assert "from confidence 1 on" not in out


def test_top_labels_of_another_label_set(folder, capsys):
    top_labels(folder / "valid.csv", 3000)
    ok(capsys, "guarantee", "valid.csv", "--target-risk", "0.15", "-o", "policy.json")
    Path("cats.csv").write_text("predicted,confidence\ncat,0.99\nspam,0.99\n")
    apply = ["apply", "cats.csv", "--policy", "policy.json", "-o", "cats.jsonl"]
    assert "Unknown type of this policy: 'cat'; it was made for the labels spam, ham" in refused(
        capsys, *apply
    )
    assert not Path("cats.jsonl").exists()
    policy = load_policy("policy.json")
    policy.check(
        label_names=("eggs", "spam", "ham")
    )  # A model may have labels that never occurred.
    with pytest.raises(InputError, match="made for the labels spam, ham, got cat, dog"):
        policy.check(label_names=("cat", "dog"))


def test_one_threshold_of_words_is_not_one_for_each_type():
    with pytest.raises(InputError, match="max_missed alone has one threshold"):
        guarantee(made(300, 0), max_missed=0.1, per="type")

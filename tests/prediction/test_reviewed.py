"""What reviewers decided goes back into fit, guarantee, audit, compare and watch."""

import json

import pytest

from calibrant.cli import main
from calibrant.cli.review import named_texts
from calibrant.errors import InputError
from calibrant.loading import load
from calibrant.reviewing import Decisions, Span
from calibrant.reviewing.documents import of_prediction

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A file of 60 texts, two of which have no entities at all."""
    from calibrant.tasks.language.synthetic import generate_splits

    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    found = [" ".join(s.words) for s in generate_splits(1, train=0, dev=0, test=58, ood=0)["test"]]
    with path.open("w") as file:
        for number, text in enumerate([*found, "", "it rains ."]):
            file.write(json.dumps({"id": f"t{number}", "text": text}) + "\n")
    return path


@pytest.fixture(scope="module")
def predictor(runs):
    return load(runs["ner"])


def review(path, texts, predictor, count=None):
    """Decide as a reviewer who rejects each third entity and accepts the others."""
    named = named_texts(texts)
    found = predictor.predict(list(named.values()))
    documents = [of_prediction(name, one) for name, one in zip(named, found, strict=True)]
    decisions = Decisions(path, documents, predictor.fingerprints())
    seen = 0
    for document in documents[:count]:
        kept = []
        for span in document.entities:
            seen += 1
            if seen % 3:
                kept.append(Span(span.start, span.end, span.type))
        decisions.add(document.id, kept, document.entities, "a", 0)
    return decisions


@pytest.fixture(scope="module")
def whole(texts, predictor):
    return review(texts.with_suffix(".review.jsonl"), texts, predictor)


@pytest.fixture(scope="module")
def part(texts, predictor):
    return review(texts.with_suffix(".part.jsonl"), texts, predictor, 20)


def answer(capsys, *command):
    assert main([*map(str, command), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *command):
    assert main([*map(str, command)]) == 2
    found = capsys.readouterr().err
    assert found.count("\n") == 1
    return found


class TestEntities:
    def test_the_same_as_the_two_exported_files(self, whole, tmp_path, capsys):
        files = [tmp_path / "predicted.jsonl", tmp_path / "gold.jsonl"]
        kinds = zip(("predicted", "jsonl"), files, strict=True)
        options = [word for kind, file in kinds for word in ("--export", kind, str(file))]
        assert main(["review", "x", "--decisions", str(whole.path), *options]) == 0
        for command in ("audit", "fit", "guarantee"):
            more = {
                "audit": ["--bootstrap", 0],
                "fit": [],
                "guarantee": ["--target-risk", 0.5],
            }[command]
            found = []
            for given in (["--reviewed", whole.path], ["--entities", *files]):
                out = tmp_path / f"{command}{len(found)}.json"
                outputs = [] if command == "audit" else ["-o", out]
                capsys.readouterr()
                answer(capsys, command, *given, *more, *outputs)
                found.append(json.loads(out.read_text()) if outputs else None)
            if command == "fit":
                assert found[0]["weights"] == found[1]["weights"]
            if command == "guarantee":
                assert found[0]["thresholds"] == found[1]["thresholds"]

    def test_a_third_is_wrong(self, whole, capsys):
        found = answer(capsys, "audit", "--reviewed", whole.path, "--match", "strict")
        rows = found["entities"]["strict"]["types"]
        right = sum(row["predicted"] * row["measures"]["precision"]["value"] for row in rows)
        total = sum(row["predicted"] for row in rows)
        assert right / total == pytest.approx(2 / 3, abs=0.01)

    def test_a_type_that_reviewers_never_keep(self, texts, predictor, tmp_path, capsys):
        """Its name is known, so that it is wrong and not a misspelt type."""
        decisions = review(tmp_path / "d.jsonl", texts, predictor, 0)
        named = named_texts(texts)
        for name, one in zip(named, predictor.predict(list(named.values())), strict=True):
            document = of_prediction(name, one)
            kept = [Span(s.start, s.end, s.type) for s in document.entities if s.type != "PER"]
            decisions.add(name, kept, document.entities, "a", 0)
        answer(capsys, "fit", "--reviewed", decisions.path, "-o", tmp_path / "c.json")

    def test_compare(self, whole, part, capsys):
        command = ("compare", "--reviewed", part.path, whole.path, "--force", "--bootstrap", 100)
        assert answer(capsys, *command)["recommended"]
        assert "two files of decisions" in refused(
            capsys, "compare", "--reviewed", part.path, whole.path, whole.path
        )

    def test_a_promise_needs_the_whole_sample(self, part, tmp_path, capsys):
        out = tmp_path / "p.json"
        command = ("guarantee", "--reviewed", part.path, "--target-risk", 0.5, "-o", out)
        assert "20 of 60 documents are reviewed" in refused(capsys, *command)
        assert not out.exists()
        answer(capsys, "fit", "--reviewed", part.path, "-o", tmp_path / "c.json")

    def test_what_a_part_shows_is_about_that_part(self, runs, texts, whole, part, tmp_path, capsys):
        """The least certain documents are first: their accuracy is not that of the others."""
        commands = (
            ("audit", "--reviewed", "{}", "--bootstrap", "0"),
            ("fit", "--reviewed", "{}", "-o", str(tmp_path / "c.json"), "--overwrite"),
            ("watch", str(texts), "--run", str(runs["ner"]), "--reviewed", "{}"),
        )
        for command in commands:
            for decisions, noted in ((part, True), (whole, False)):
                assert main([word.format(decisions.path) for word in command]) == 0
                assert ("20 of 60 documents" in capsys.readouterr().err) == noted

    def test_the_promise_is_also_one_of_the_run(self, whole, runs, texts, tmp_path, capsys):
        out = tmp_path / "p.json"
        answer(capsys, "guarantee", "--reviewed", whole.path, "--target-risk", 0.5, "-o", out)
        capsys.readouterr()
        line = ("predict", runs["ner"], texts, "--policy", out, "-o", tmp_path / "a.jsonl")
        assert main([*map(str, line)]) == 0
        threshold = json.loads(out.read_text())["thresholds"]["*"]
        for text in (tmp_path / "a.jsonl").read_text().splitlines():
            found = json.loads(text)
            assert all(e["confidence"] >= float(threshold) for e in found["entities"])
            assert all(e["confidence"] < float(threshold) for e in found["abstained"])
        other = load(runs["ner"])
        other.model = "0" * 32
        with pytest.raises(InputError, match="predicted by another run"):
            other.checked_policy(out)

    def test_the_promise_is_about_these_confidences(self, whole, runs, tmp_path, capsys):
        """Another calibrator of entities changes what the threshold means."""
        out = tmp_path / "p.json"
        answer(capsys, "guarantee", "--reviewed", whole.path, "--target-risk", 0.5, "-o", out)
        other = load(runs["ner"])
        other.checked_policy(out)
        other.span_calibrator().calibrator_ = other.calibrator
        with pytest.raises(InputError, match="predicted by another run"):
            other.checked_policy(out)

    def test_per_type_it_is_not(self, whole, runs, tmp_path, capsys):
        out = tmp_path / "p.json"
        options = ("--target-risk", 0.9, "--per", "type", "-o", out)
        answer(capsys, "guarantee", "--reviewed", whole.path, *options)
        assert "of a file" in refused(capsys, "predict", runs["ner"], "a", "--policy", out)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            (["--reviewed"], "one file of decisions"),
            (["--reviewed", "a", "b"], "one file of decisions"),
            (["--reviewed", "no.jsonl"], "no file"),
            (["--reviewed", "{texts}"], "not a file of decisions"),
            (["--reviewed", "{part}", "--spans", "x"], "--spans"),
            (["--reviewed", "{part}", "--labels", "x"], "--labels does not go with --reviewed"),
        ],
    )
    def test_bad_input(self, given, words, texts, part, tmp_path, capsys):
        given = [word.format(texts=texts, part=part.path) for word in given]
        if given == ["--reviewed"]:
            with pytest.raises(SystemExit):
                main(["fit", *given, "-o", str(tmp_path / "c.json")])
            return
        assert words in refused(capsys, "fit", *given, "-o", tmp_path / "c.json")


class TestWatch:
    def test_the_words_of_reviewed_texts_have_labels(self, runs, texts, part, predictor, capsys):
        found = answer(
            capsys, "watch", texts, "--run", runs["ner"], "--reviewed", part.path, "--chunk", 100
        )
        total = found["total"]
        predictions = predictor.predict(list(named_texts(texts).values())[:20])
        words = sum(
            len(part) for one in predictions for part in predictor_words(predictor, one.text)
        )
        assert total["labelled"] == words
        # Only rejected entities are wrong: their words count as O.
        kept = {name: {s.start for s in d.entities} for name, d in part.latest.items()}
        wrong = sum(
            token.tag
            != (f"{'I' if place else 'B'}-{entity.type}" if entity.start in starts else "O")
            for one, starts in zip(predictions, kept.values(), strict=True)
            for entity in one.entities
            for place, token in enumerate(entity.tokens)
        )
        assert total["labelled_accuracy"] == pytest.approx(1 - wrong / words)

    def test_words_of_a_type_that_the_model_lacks(self, runs, texts, predictor, tmp_path, capsys):
        """No class is their label, so they are left out, and counted."""
        decisions = review(tmp_path / "d.jsonl", texts, predictor, 0)
        decisions.add("t59", [Span(0, 8, "WEATHER")], (), "a", 0)  # "it rains ."
        command = ("watch", texts, "--run", runs["ner"], "--reviewed", decisions.path, "--json")
        assert main([*map(str, command)]) == 0
        found = capsys.readouterr()
        assert "types that the model lacks: 2." in found.err
        assert json.loads(found.out)["total"]["labelled"] == 1

    def test_without_the_review_nothing_has_a_label(self, runs, texts, capsys):
        found = answer(capsys, "watch", texts, "--run", runs["ner"])
        assert found["total"]["labelled"] == 0

    def test_bad_input(self, runs, texts, part, tmp_path, capsys):
        run = ("--run", runs["ner"])
        given = ("--reviewed", part.path)
        assert "--run" in refused(capsys, "watch", texts, *given)
        assert "one file" in refused(capsys, "watch", texts, texts, *given, *run)
        other = ("--run", runs["text"])
        capsys.readouterr()
        assert "finds no entities" in refused(capsys, "watch", texts, *given, *other)
        other = tmp_path / "other.jsonl"
        other.write_text('{"id": "t1", "text": "another text"}\n')
        command = ("watch", other, "--reviewed", part.path, *run)
        assert "'t1' is not the one that was reviewed" in refused(capsys, *command)
        other.write_text('{"id": "z", "text": "another text"}\n')
        assert "no decision" in refused(capsys, *command)


def predictor_words(predictor, text):
    from calibrant.tasks.ner.cut_text import cut_words

    return cut_words(text, predictor.cutting, predictor.cutting.sentences).sentences


class TestSample:
    def test_drawn_again_in_the_same_way(self, texts, runs):
        from argparse import Namespace

        from calibrant.cli.review import _documents

        predictor = load(runs["ner"])
        args = Namespace(input=str(texts), sample=7)
        first, second = ([d.id for d in _documents(args, predictor)] for _ in range(2))
        assert first == second
        assert len(set(first)) == 7

    @pytest.mark.parametrize("size", [0, 61])
    def test_bad_sizes(self, texts, runs, size, capsys):
        assert "--sample must be between 1 and the 60 texts" in refused(
            capsys, "review", texts, "--run", runs["ner"], "--sample", size
        )

    def test_another_model_needs_another_file(self, whole, texts, predictor):
        named = named_texts(texts)
        documents = [
            of_prediction(name, one)
            for name, one in zip(named, predictor.predict(list(named.values())), strict=True)
        ]
        with pytest.raises(InputError, match="another model"):
            Decisions(whole.path, documents, {"model": "0", "calibrator": "1"})

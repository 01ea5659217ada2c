"""An export predicts as its run does, without torch; a damaged one is one line."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import calibrant
from calibrant.cli import main
from calibrant.errors import InputError
from calibrant.policies import Policy, calibrator_fingerprint
from calibrant.tasks import TASKS

for module in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(module)

TEXTS = ["Shares of Norsoft Group fell. Anna Holberg was born in Lindton .", "", "bread " * 300]


@pytest.fixture(scope="module")
def exports(runs, tmp_path_factory):
    return Exports(runs, tmp_path_factory.mktemp("exports"))


class Exports:
    def __init__(self, runs, folder):
        self.runs, self.folder, self.policy = runs, folder, folder / "mine.json"

    def __getitem__(self, task):
        folder = self.folder / task
        if not folder.exists():
            arguments = ["export", str(self.runs[task]), "-o", str(folder)]
            if task == "text":  # With a policy.
                policy_of(calibrant.load(self.runs[task], device="cpu")).save(self.policy)
                arguments += ["--policy", str(self.policy)]
            assert main(arguments) == 0
        return folder


def inputs(task):
    random = np.random.default_rng(0)
    if task in ("ner", "text"):
        return TEXTS
    shape = (3, 8, 8, 1) if task == "image" else (3, 30, 17, 3)
    return random.integers(0, 255, shape, np.uint8)


# Runs with neither library; prints the predictions of the inputs in a file.
SCRIPT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "onnx", "pyarrow"):
            raise ImportError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocked())
import json
import numpy as np
import calibrant

folder, given = sys.argv[1:]
given = json.loads(given)
inputs = given if isinstance(given[0], str) else np.array(given, np.uint8)
predictor = calibrant.load(folder)
for prediction in predictor.predict(inputs, top_k=2, target_risk=0.4):
    print(json.dumps(prediction.to_dict()))
"""


@pytest.mark.parametrize("task", TASKS)
def test_an_export_predicts_without_torch_and_transformers(task, exports):
    given = inputs(task)
    text = json.dumps(given if task in ("ner", "text") else given.tolist())
    command = [sys.executable, "-c", SCRIPT, str(exports[task]), text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    run = calibrant.load(exports.runs[task], device="cpu")
    expected = [p.to_dict() for p in run.predict(given, top_k=2, target_risk=0.4)]
    assert len(found) == len(expected)
    same(found, json.loads(json.dumps(expected)))


def same(one, two):
    """Texts and numbers are equal, confidences to 1e-5."""
    if isinstance(two, dict):
        assert one.keys() == two.keys()
        for key in two:
            same(one[key], two[key])
    elif isinstance(two, list):
        assert len(one) == len(two)
        for left, right in zip(one, two, strict=True):
            same(left, right)
    elif isinstance(two, float):
        assert one == pytest.approx(two, abs=1e-5)
    else:
        assert one == two


def test_the_map_is_exported_with_the_model(exports):
    """Two files of ONNX give calibrated probabilities where there is no calibrant either."""
    import onnxruntime

    folder, run = exports["text"], calibrant.load(exports.runs["text"], device="cpu")
    ids, mask = (values for values, _ in run.example(3).values())
    model, last = (
        onnxruntime.InferenceSession(str(folder / name), providers=["CPUExecutionProvider"])
        for name in ("model.onnx", "map.onnx")
    )
    (logits,) = model.run(["logits"], {"input_ids": ids, "attention_mask": mask})
    (probabilities,) = last.run(None, {"logits": logits})
    raw = run.scorer(input_ids=ids, attention_mask=mask)
    expected = run.calibrator.transform_scores(raw, "logits")
    if run.calibrator.kind_of("logits") == "logits":
        expected = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    assert probabilities == pytest.approx(expected, abs=1e-5)


def damaged(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


def unsigned(manifest, old, new):
    """Return a changed manifest without its own checksum, as the first exports had none."""
    content = json.loads(manifest.replace(old, new))
    del content["sha256"]
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model.onnx", lambda b: b[:-1] + bytes([b[-1] ^ 1]), "its checksum differs"),
        ("model.onnx", lambda b: b[: len(b) // 2], "its checksum differs"),
        ("tokenizer.json", lambda b: None, "it has no tokenizer.json"),
        ("calibrator.json", lambda b: None, "it has no calibrator.json"),
        ("labels.json", lambda b: b.replace(b"food", b"feed"), "labels.json is not the file"),
        ("manifest.json", lambda b: b"{", "no manifest of an export: copy it again"),
        ("manifest.json", lambda b: b"[]", "no manifest of an export"),
        ("manifest.json", lambda b: None, "it has no recipe.json"),
        ("manifest.json", lambda b: b.replace(b'"format": 1', b'"format": 7'), "upgrade calibrant"),
        ("manifest.json", lambda b: b.replace(b'"text"', b'"cooking"'), "names no task"),
        ("manifest.json", lambda b: b.replace(b'"model.onnx"', b'"../model"'), "lists no model"),
        ("manifest.json", lambda b: unsigned(b, b'"map.onnx"', b'"../map"'), "is not a file of an"),
        ("manifest.json", lambda b: unsigned(b, b'"max_length"', b'"length"'), "damaged: KeyErr"),
        ("manifest.json", lambda b: unsigned(b, b'"unk_token_id"', b'"x"'), "x"),
        ("manifest.json", lambda b: b.replace(b'"text"', b'"ner"'), "not the manifest that was"),
        ("manifest.json", lambda b: b.replace(b'"max_length": 2', b'"max_length": 1'), "not the m"),
    ],
)
def test_a_damaged_export_is_one_line(name, change, message, exports, tmp_path, capsys):
    folder = damaged(exports["text"], tmp_path)
    content = change((folder / name).read_bytes())
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    capsys.readouterr()
    assert main(["predict", str(folder), "a text"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_an_export_predicts_from_the_shell(exports, tmp_path, capsys):
    out = tmp_path / "out.csv"
    (tmp_path / "in.txt").write_text("bread\ngoal\n")
    arguments = ["predict", str(exports["text"]), str(tmp_path / "in.txt")]
    assert main([*arguments, "-o", str(out)]) == 0
    assert out.read_text().startswith("text,label,confidence,accepted\nbread,")
    capsys.readouterr()
    assert main([*arguments, "--device", "cuda"]) == 2
    assert "runs on the CPU" in capsys.readouterr().err


def test_int8_says_what_it_changes(runs, tmp_path, capsys):
    folder = tmp_path / "small"
    assert main(["export", str(runs["text"]), "-o", str(folder), "--int8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["quantised"]
    assert found["score_name"] == "accuracy"
    assert len(found["score"]) == len(found["ece"]) == 2
    assert found["examples"] == 30
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["precision"] == "int8"
    assert calibrant.load(folder).predict("bread soup")[0].confidence > 0
    assert main(["export", str(runs["image"]), "-o", str(tmp_path / "i"), "--int8"]) == 2
    assert "int8 is for models of texts" in capsys.readouterr().err
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize("task", ["text", "ner"])
def test_a_folded_temperature_calibrates_plain_transformers(task, runs, tmp_path, capsys):
    import torch
    import transformers

    folder = tmp_path / "folded"
    assert main(["export", str(runs[task]), "-o", str(folder), "--fold-temperature"]) == 0
    assert "Temperature" in capsys.readouterr().out
    kind = "Sequence" if task == "text" else "Token"
    load = getattr(transformers, f"AutoModelFor{kind}Classification").from_pretrained
    plain, folded = (load(str(path)).eval() for path in (runs[task] / "model", folder))
    temperature = calibrant.load(runs[task] / "temperature.json")
    ids = torch.tensor([[2, 9, 11, 3]])
    with torch.no_grad():
        raw = plain(input_ids=ids).logits.numpy()
        found = folded(input_ids=ids).logits.numpy()
    assert found == pytest.approx(temperature.transform_scores(raw, "logits"), abs=1e-4)
    pipeline = transformers.pipeline(
        "text-classification" if task == "text" else "token-classification",
        model=folded,
        tokenizer=transformers.AutoTokenizer.from_pretrained(str(folder)),
        device="cpu",
    )
    assert pipeline("bread soup") is not None
    assert (
        main(["export", str(runs["image"]), "-o", str(tmp_path / "i"), "--fold-temperature"]) == 2
    )
    assert "heads of transformers" in capsys.readouterr().err


def policy_of(predictor, **changes):
    known = {
        "label_names": predictor.labels,
        "calibrator": calibrator_fingerprint(predictor.calibrator),
        "model": predictor.model,
        "classes": len(predictor.labels),
    }
    return Policy("target-risk", 0.1, {"*": 0.5}, n=100, kept=0.9, **{**known, **changes})


def test_policies_go_along_and_those_of_others_are_refused(exports, tmp_path, capsys):
    runs, folder = exports.runs, exports["text"]
    run, exported = calibrant.load(runs["text"], device="cpu"), calibrant.load(folder)
    assert list(exported.policies) == ["mine"]
    for made, policy in ((exported, "mine"), (run, exports.policy)):
        for found in made.predict(["bread", "goal"], policy=policy):
            assert found.accepted == (found.confidence >= 0.5)
    others = {
        "labels": {"label_names": ("a", "b", "c")},
        "another calibrator": {"calibrator": "0" * 32},
        "another model": {"model": "0" * 32},
    }
    for message, changes in others.items():
        path = tmp_path / f"{message}.json"
        policy_of(run, **changes).save(path)
        for place in (str(runs["text"]), str(folder)):
            capsys.readouterr()
            assert main(["predict", place, "bread", "--policy", str(path)]) == 2
            err = capsys.readouterr().err
            assert message in err
            assert err.count("\n") == 1
        with pytest.raises(InputError, match="This policy was made for"):
            exported.predict("bread", policy=path)
    arguments = ["export", str(runs["text"]), "-o", str(tmp_path / "x")]
    assert main([*arguments, "--policy", str(path)]) == 2
    known = {"label_names": run.labels, "calibrator": calibrator_fingerprint(run.calibrator)}
    coverage = Policy("coverage", 0.9, {"*": 0.8}, n=9, kept=0.5, classes=3, **known)
    (found,) = exported.predict("bread", policy=coverage)
    assert set(found.labels) <= set(run.labels)


def test_a_policy_with_a_coverage_accepts_nothing(exports, tmp_path, capsys):
    """It promises sets; "accepted: true" would read as a promise about single predictions."""
    run = calibrant.load(exports.runs["text"], device="cpu")
    known = {"label_names": run.labels, "calibrator": calibrator_fingerprint(run.calibrator)}
    sets = Policy("coverage", 0.9, {"*": 0.8}, n=9, kept=0.5, classes=3, **known)
    sets.save(tmp_path / "sets.json")
    place = str(exports.runs["text"])
    command = ["predict", place, "bread", "--policy", str(tmp_path / "sets.json")]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "accepted" not in found
    assert "labels" in found
    assert main(command) == 0
    assert "not sure enough" not in capsys.readouterr().out
    (tmp_path / "in.txt").write_text("bread\nmilk\n")
    output = ["-o", str(tmp_path / "out.csv"), "--policy", str(tmp_path / "sets.json")]
    assert main(["predict", place, str(tmp_path / "in.txt"), *output]) == 0
    header = (tmp_path / "out.csv").read_text().splitlines()[0].split(",")
    assert "labels" in header
    assert "accepted" not in header
    (sure,) = run.predict("bread", policy=sets, min_confidence=0.01)
    assert sure.accepted is True
    (unsure,) = run.predict("bread", policy=sets, min_confidence=1.0)
    assert unsure.to_dict()["accepted"] is False


def test_a_policy_of_entities_belongs_to_their_calibrator(exports, tmp_path, capsys):
    """Its thresholds are confidences of entities, so another calibrator of these voids them."""
    place, path = exports.runs["ner"], tmp_path / "policy.json"
    command = ["guarantee", str(place), "--target-risk", "0.9", "--level", "0.5", "-o", str(path)]
    assert main(command) == 0
    run = calibrant.load(place, device="cpu")
    run.predict("Anna lives in Paris .", policy=path)
    policy = calibrant.load_policy(path)
    made = policy.settings["entity_calibrator"]
    assert made == calibrator_fingerprint(run.span_calibrator().calibrator_)
    other = replace(policy, settings={**policy.settings, "entity_calibrator": "0" * 32})
    with pytest.raises(InputError, match="another calibrator of entities"):
        run.predict("Anna lives in Paris .", policy=other)
    older = {k: v for k, v in policy.settings.items() if k != "entity_calibrator"}
    run.predict("Anna lives in Paris .", policy=replace(policy, settings=older))


def test_a_policy_of_raw_confidences_is_refused_by_a_calibrated_model(exports):
    run = calibrant.load(exports.runs["text"], device="cpu")
    raw = policy_of(run, calibrator=None)
    run.calibrator = calibrant.Temperature().fit(
        calibrant.Predictions.from_logits(np.eye(3)[[0, 1, 2, 0]], [0, 1, 2, 1])
    )
    with pytest.raises(InputError, match="without a calibrator"):
        run.predict("bread", policy=raw)
    run.calibrator = calibrant.calibrators.Identity()
    run.calibrator.fit(calibrant.Predictions.from_logits(np.eye(3)[[0, 1, 2]], [0, 1, 2]))
    assert len(run.predict("bread", policy=raw)) == 1


def test_a_line_of_json_repeats_the_promise_and_not_the_whole_policy(exports, capsys):
    place = str(exports["text"])
    assert main(["predict", place, "bread", "--policy", "mine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["guarantee"]
    assert set(found) == {"kind", "target", "level", "calibrator", "model", "meaning"}


def test_randomised_sets_do_not_depend_on_the_batch(exports):
    run = calibrant.load(exports.runs["text"], device="cpu")
    known = {"label_names": run.labels, "calibrator": calibrator_fingerprint(run.calibrator)}
    settings = {"score": "aps", "randomised": True, "penalty": 0.01, "free": 1, "seed": 0}
    sets = Policy("coverage", 0.9, {"*": 0.5}, n=9, kept=0.5, classes=3, settings=settings, **known)
    words = ("bread", "ball", "wet", "soup")
    texts = [" ".join(each) for each in product(words, repeat=3)]
    found = [each.labels for each in run.stream(texts, policy=sets, batch=1)]
    assert len({len(labels) for labels in found}) > 1
    later = run.stream(texts[35:], policy=sets, batch=1)
    assert [each.labels for each in later] == found[35:]  # As after a kill, or in one's own order.


def test_bad_arguments_of_export_are_one_line(exports, tmp_path, capsys):
    runs = exports.runs
    run = str(runs["text"])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("a")
    cases = [
        ([str(tmp_path), "-o", str(tmp_path / "x")], "is not the folder of a training run"),
        ([run, "-o", str(tmp_path / "full")], "exists; name a new folder"),
        ([str(exports["text"]), "-o", str(tmp_path / "x")], "is an export already"),
        ([run, "-o", run, "--overwrite"], "holds the run that is exported"),
        ([run, "-o", str(tmp_path / "x"), "--policy", "none.json"], "There is no policy at"),
        ([run, "-o", str(tmp_path / "x"), "--fold-temperature", "--int8"], "no --int8"),
    ]
    capsys.readouterr()
    for arguments, message in cases:
        assert main(["export", *arguments]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_calibrated_probabilities_are_compared_too(exports):
    manifest = json.loads((exports["text"] / "manifest.json").read_text())
    after = manifest["calibrated_difference"]
    assert 0 <= after < 1e-4
    from calibrant import Predictions, Temperature
    from calibrant.export.tracing import calibrated_difference

    run = calibrant.load(exports.runs["text"], device="cpu")
    model = next(exports["text"].glob("model*.onnx"))
    assert calibrated_difference(run, model) == pytest.approx(after, abs=1e-6)
    signals = Temperature().fit(Predictions.from_logits([[2.0, 0.0]] * 4, [0, 0, 0, 1]))
    signals.signals_ = ("length",)
    run.calibrator = signals
    assert calibrated_difference(run, model) is None


def test_attention_is_exported_in_single_steps_and_the_model_stays_as_it_was(runs, tmp_path):
    import onnx

    from calibrant.export.tracing import trace

    predictor = calibrant.load(runs["ner"], device="cpu")
    parts = [m for m in predictor.scorer.model.modules() if hasattr(m, "set_attn_implementation")]
    assert {part.config._attn_implementation for part in parts} == {"sdpa"}
    assert trace(predictor, tmp_path / "model.onnx") < 1e-6
    assert {part.config._attn_implementation for part in parts} == {"sdpa"}
    nodes = onnx.load(tmp_path / "model.onnx").graph.node
    assert "IsNaN" not in {node.op_type for node in nodes}  # Torch's own attention has it.

"""A model's folder never runs its own code, no matter what is on standard input."""

import ast
import io
import json
import pickle
import shutil
import sys
from pathlib import Path

import pytest

import calibrant
from calibrant.cli import main
from calibrant.errors import InputError
from calibrant.experiments.evaluation import evaluate
from calibrant.tasks.encoders.foreign_models import trusting
from calibrant.tasks.encoders.heads import load_encoder
from calibrant.tasks.encoders.model_folder import load_model
from calibrant.tasks.encoders.small_encoder import build_small_tokenizer
from calibrant.tasks.language.synthetic import generate_splits

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SOURCE = Path(calibrant.__file__).parent
CODE = """
from pathlib import Path
Path({marker!r}).write_text("the folder's code has run")
from transformers import BertConfig, BertForTokenClassification, BertForSequenceClassification
class Config(BertConfig):
    model_type = "hostile"
class Tokens(BertForTokenClassification):
    config_class = Config
class Texts(BertForSequenceClassification):
    config_class = Config
"""


def write_corpus(folder, **sizes):
    folder.mkdir()
    for split, sentences in generate_splits(0, **sizes).items():
        rows = [
            "".join(f"{w}\t{t}\n" for w, t in zip(s.words, s.tags, strict=True)) for s in sentences
        ]
        (folder / f"{split}.conll").write_text("\n".join(rows))
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("data") / "c", train=24, dev=12, test=12, ood=4)


def options(corpus, model, run):
    return [
        "train", "--data", str(corpus), "--model", str(model), "--epochs", "1", "--batch", "8",
        "--head-width", "8", "--bootstrap", "0", "--device", "cpu", "-o", str(run),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def honest(corpus, tmp_path_factory):
    """A run of ours with a hidden layer in its head, whose model folder brings code along."""
    run = tmp_path_factory.mktemp("runs") / "run"
    assert main(options(corpus, "tiny", run)) == 0
    assert (run / "model" / "modeling_encoder_with_head.py").exists()
    return run


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """Standard input says yes to everything; what must not exist afterwards."""
    answers = b"y\n1\nyes\n" * 20
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(answers)))
    return tmp_path / "marker"


def make_hostile(model, marker):
    """Config, tokenizer and classes of the folder are its own."""
    names = {
        "AutoConfig": "hostile.Config",
        "AutoModelForTokenClassification": "hostile.Tokens",
        "AutoModelForSequenceClassification": "hostile.Texts",
        "AutoTokenizer": ["hostile.Tokens", "hostile.Tokens"],
    }
    (model / "hostile.py").write_text(CODE.format(marker=str(marker)))
    config = {"model_type": "hostile", "auto_map": names, "hidden_size": 8}
    (model / "config.json").write_text(json.dumps(config))


@pytest.fixture
def hostile(honest, tmp_path, marker):
    run = tmp_path / "run"
    shutil.copytree(honest, run)
    make_hostile(run / "model", marker)
    return run


def refused(arguments, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert "--trust-remote-code" in captured.err
    assert captured.err.count("\n") == 1
    assert "[y/N]" not in captured.out


@pytest.mark.parametrize("command", ["predict", "evaluate", "train"])
def test_no_command_runs_the_code_of_a_folder(command, hostile, corpus, marker, capsys, tmp_path):
    arguments = {
        "predict": ["predict", str(hostile)],
        "evaluate": ["evaluate", str(hostile), "--device", "cpu"],
        "train": options(corpus, hostile / "model", tmp_path / "new"),
    }[command]
    refused(arguments, capsys)
    assert not marker.exists()


def test_nor_does_bench(hostile, corpus, marker, capsys, tmp_path):
    recipe = tmp_path / "grid.toml"
    settings = {"data": str(corpus), "model": str(hostile / "model"), "epochs": 1}
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    recipe.write_text(f'[defaults]\ndtype = "float32"\n{lines}')
    assert main(["bench", str(recipe), "-o", str(tmp_path / "runs"), "--device", "cpu"]) == 2
    assert "--trust-remote-code" in capsys.readouterr().err
    assert not marker.exists()


def test_nor_does_python(hostile, marker):
    for attempt in (calibrant.load_run, evaluate):
        with pytest.raises(InputError, match="trust_remote_code=True"):
            attempt(hostile, device="cpu")
    assert not marker.exists()


@pytest.mark.parametrize("unit", ["token", "sequence"])
def test_code_runs_when_the_user_says_so(unit, hostile, marker):
    with trusting(), pytest.raises(InputError):  # It has no weights of that class.
        load_model(hostile / "model", unit)
    assert marker.exists()


def test_a_trusted_encoder_trains_and_its_run_is_trusted_anew(tmp_path, corpus, marker, capsys):
    tokenizer = build_small_tokenizer(["Anna", "lives", "here", "."] * 3)
    folder = tmp_path / "encoder"
    small = {"num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=len(tokenizer), hidden_size=8, **small)
    transformers.BertForTokenClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    content = json.loads((folder / "config.json").read_text())
    make_hostile(folder, marker)
    own = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, **own}))
    train = [*options(corpus, folder, tmp_path / "run"), "--trust-remote-code"]
    assert main(train) == 2
    assert "--head-depth 0" in capsys.readouterr().err
    assert main([*train, "--head-depth", "0"]) == 0
    marker.unlink()
    predict = ["predict", str(tmp_path / "run"), "Anna lives here ."]
    capsys.readouterr()
    refused(predict, capsys)
    assert not marker.exists()
    assert main([*predict, "--trust-remote-code"]) == 0


def test_the_config_inside_of_ours_names_no_code_either(honest, tmp_path, marker):
    """Whisper has no token classifier in transformers, so that its auto_map would be used."""
    model = tmp_path / "model"
    shutil.copytree(honest / "model", model)
    (model / "hostile.py").write_text(CODE.format(marker=str(marker)))
    config = json.loads((model / "config.json").read_text())
    named = {"AutoModelForTokenClassification": f"{model}--hostile.Tokens"}
    config["encoder"] |= {"model_type": "whisper", "auto_map": named}
    (model / "config.json").write_text(json.dumps(config))
    with trusting(False), pytest.raises(InputError):
        load_model(model)
    assert not marker.exists()


def test_our_own_run_loads_with_the_code_of_the_package(honest, tmp_path, marker, capsys):
    run = tmp_path / "run"
    shutil.copytree(honest, run)
    changed = run / "model" / "modeling_encoder_with_head.py"
    changed.write_text(CODE.format(marker=str(marker)) + changed.read_text())
    assert main(["predict", str(run), "Anna lives here .", "--trust-remote-code"]) == 0
    assert main(["evaluate", str(run), "--device", "cpu"]) == 0
    assert not marker.exists()
    capsys.readouterr()


def test_training_continues_from_our_own_run_without_its_code(
    honest, corpus, tmp_path, marker, capsys
):
    model = tmp_path / "model"
    shutil.copytree(honest / "model", model)
    changed = model / "modeling_encoder_with_head.py"
    changed.write_text(CODE.format(marker=str(marker)) + changed.read_text())
    assert main(options(corpus, model, tmp_path / "new")) == 0
    assert main(["predict", str(tmp_path / "new"), "Anna lives here ."]) == 0
    assert not marker.exists()
    capsys.readouterr()


@pytest.mark.parametrize("unit", ["token", "sequence"])
def test_the_encoder_of_our_own_run_has_its_weights_and_another_head(unit, honest):
    before, _ = load_model(honest / "model")
    after = load_encoder(honest / "model", ["O", "B-A", "I-A", "B-B", "I-B"], unit)
    assert type(after.classifier) is torch.nn.Linear
    assert after.classifier.out_features == after.config.num_labels == 5
    assert after.config.id2label[3] == "B-B"
    own = before.model.base_model.state_dict()
    found = {k: v for k, v in after.base_model.state_dict().items() if "pooler" not in k}
    assert found.keys() == own.keys()
    assert all(torch.equal(value, own[name]) for name, value in found.items())


def test_a_damaged_model_of_our_own_is_no_encoder(honest, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(honest / "model", model)
    config = json.loads((model / "config.json").read_text())
    config["encoder"]["intermediate_size"] += 1
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="its weights have no"):
        load_encoder(model, ["O", "B-A"])


@pytest.mark.parametrize("named", ["AutoTokenizer", "HostileTokenizer", "pipeline"])
def test_nor_does_a_tokenizer_run_code(named, honest, corpus, tmp_path, marker, capsys):
    run = tmp_path / "run"
    shutil.copytree(honest, run)
    (run / "model" / "hostile.py").write_text(CODE.format(marker=str(marker)))
    path = run / "model" / "tokenizer_config.json"
    own = {"AutoTokenizer": ["hostile.Tokens", "hostile.Tokens"]}
    content = {**json.loads(path.read_text()), "auto_map": own, "tokenizer_class": named}
    path.write_text(json.dumps(content))
    main(["predict", str(run), "Anna lives here ."])
    main(options(corpus, run / "model", tmp_path / "new"))
    assert not marker.exists()
    assert "Traceback" not in capsys.readouterr().err


class _Hostile:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return (open, (self.marker, "w"))


def test_pickled_weights_run_nothing(honest, tmp_path, marker, capsys):
    run = tmp_path / "run"
    shutil.copytree(honest, run)
    (run / "model" / "model.safetensors").unlink()
    for content in ("pickle", "torch"):
        weights = run / "model" / "pytorch_model.bin"
        if content == "pickle":
            weights.write_bytes(pickle.dumps(_Hostile(marker)))
        else:
            torch.save({"model.classifier.weight": _Hostile(marker)}, weights)
        assert main(["predict", str(run), "Anna lives here ."]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert not marker.exists()


def test_a_pickled_checkpoint_runs_nothing(corpus, honest, tmp_path, marker, capsys):
    run = tmp_path / "run"
    run.mkdir()
    recipe = json.loads((honest / "recipe.json").read_text())
    (run / "recipe.json").write_text(json.dumps(recipe))
    torch.save({"data": _Hostile(marker)}, run / "checkpoint.pt")
    assert main(options(corpus, "tiny", run)) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert not marker.exists()


def _calls(tree):
    named = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    for node in named:
        functions = [node.func, *node.args[:1]]  # Also partial(x.from_pretrained, …).
        if any(getattr(f, "attr", "") in ("from_pretrained", "from_config") for f in functions):
            yield node


def test_every_call_says_whether_code_may_run():
    found = 0
    for path in SOURCE.rglob("*.py"):
        for call in _calls(ast.parse(path.read_text())):
            found += 1
            assert any(k.arg == "trust_remote_code" for k in call.keywords), (path, call.lineno)
    assert found >= 5

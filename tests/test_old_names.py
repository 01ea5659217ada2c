"""Every old spelling works for one release, warns, and names the new one."""

import subprocess
import sys

import numpy as np
import pytest

import calibrant
from calibrant import cli
from calibrant.auditing import audit
from calibrant.calibrators.sklearn import CalibratedClassifier
from calibrant.cli.old_options import (
    OLD_OPTIONS,
    calibrator_name,
    method_name,
    metric_name,
    with_new_options,
)
from calibrant.experiments.recipe import Recipe
from calibrant.experiments.record import Record
from calibrant.methods import METHODS, create
from calibrant.old_names import OLD_NAMES
from calibrant.study import build_study

# Old, new.
PYTHON = [
    ("calibrant.interval", "calibrant.metrics.bootstrap_interval"),
    ("calibrant.metrics.Steps", "calibrant.metrics.ConfidenceSteps"),
    ("calibrant.metrics.debiased_ece", "calibrant.metrics.debiased_rms_ece"),
    ("calibrant.metrics.error", "calibrant.metrics.error_rate"),
    ("calibrant.metrics.f1", "calibrant.metrics.f1_of_counts"),
    ("calibrant.metrics.interval", "calibrant.metrics.bootstrap_interval"),
    ("calibrant.metrics.steps", "calibrant.metrics.confidence_steps"),
    ("calibrant.calibrators.load", "calibrant.calibrators.load_calibrator"),
    ("calibrant.calibrators.Entry", "calibrant.calibrators.CalibratorEntry"),
    ("calibrant.comparison.EntityMap", "calibrant.comparison.SpanCalibrator"),
    ("calibrant.methods.Around", "calibrant.methods.Wrapper"),
    ("calibrant.methods.Entry", "calibrant.methods.MethodEntry"),
    ("calibrant.training.HeadTap", "calibrant.training.HeadHook"),
    ("calibrant.audit.audit", "calibrant.auditing.audit"),
    ("calibrant.audit.learned_entities", "calibrant.auditing.learned_entities"),
    *(
        (f"calibrant.tasks.image_classifier.{name}", f"calibrant.tasks.image.classifier.{name}")
        for name in ("ImageClassifier", "build_classifier", "load_classifier")
    ),
    ("calibrant.tasks.pictures.load_pictures", "calibrant.tasks.image.load_pictures"),
    ("calibrant.tasks.scenes.load_scenes", "calibrant.tasks.segmentation.load_scenes"),
    *(
        (f"calibrant.tasks.segmenter.{name}", f"calibrant.tasks.segmentation.segmenter.{name}")
        for name in ("PixelHead", "Segmenter", "build_segmenter", "load_segmenter")
    ),
    ("calibrant.tasks.shared_types.ALIASES", "calibrant.tasks.ner.corpora.shared_types.ALIASES"),
    ("calibrant.tasks.task.open_task", "calibrant.tasks.open_task"),
    ("calibrant.prediction.load_run", "calibrant.loading.load_run"),
    ("calibrant.prediction.load", "calibrant.loading.load"),
    *(
        (f"calibrant.prediction.{name}", f"calibrant.tasks.language.words.{name}")
        for name in ("Word", "split_words")
    ),
    *(
        (f"calibrant.prediction.{name}", f"calibrant.comparison.risk_control.{name}")
        for name in ("Guarantee", "guaranteed_threshold")
    ),
]


# Command, old option, new option, a value.
OPTIONS = [
    ("fit", "--method", "--calibrator", "temperature"),
    *((command, "--by", "--keep-together", "site") for command in ("audit", "adapt", "watch")),
    ("guarantee", "--by", "--keep-together", "site"),
    ("watch", "--map", "--calibrator", "map.json"),
    ("audit", "--with", "--calibrator", "map.json"),
    ("compare", "--methods", "--calibrators", "temperature"),
    ("report", "--maps", "--calibrators", "all"),
]
# Command, option, old name, new name.
NAMES = [
    ("train", "--method", "head_noise", "head-noise"),
    ("train", "--calibrator", "isotonic_top_label", "isotonic-top-label"),
    ("fit", "--calibrator", "isotonic_top_label", "isotonic-top-label"),
]
# Call, old argument, new argument.
ARGUMENTS = [
    (audit, "by", "keep_together"),
    (calibrant.watch, "by", "keep_together"),
    (calibrant.adapt, "by", "keep_together"),
    (calibrant.guarantee, "group", "keep_together"),
    (calibrant.compare, "methods", "calibrators"),
    (CalibratedClassifier, "method", "calibrator"),
]


def value_of(dotted):
    module, _, name = dotted.rpartition(".")
    __import__(module)
    return getattr(sys.modules[module], name)


@pytest.mark.parametrize(("old", "new"), PYTHON)
def test_old_name_in_python(old, new):
    expected = f"^{old} is now {new}; the old name will be removed in the next release.$"
    with pytest.warns(FutureWarning, match=expected) as caught:
        value = value_of(old)
    assert value is value_of(new)
    assert caught[0].filename == __file__


def test_the_table_lists_every_old_name():
    known = {f"{module}.{name}" for module, names in OLD_NAMES.items() for name in names}
    assert known <= {old for old, _ in PYTHON}


@pytest.mark.parametrize(("command", "old", "new", "value"), OPTIONS)
@pytest.mark.parametrize("equals", [True, False])
def test_old_option(command, old, new, value, equals, capsys):
    def given(option):
        return [command, f"{option}={value}"] if equals else [command, option, value]

    assert with_new_options(given(old)) == given(new)
    expected = f"calibrant {command}: {old} is now {new}; "
    assert (
        capsys.readouterr().err
        == f"{expected}the old option will be removed in the next release.\n"
    )
    assert with_new_options(given(new)) == given(new)
    assert not capsys.readouterr().err


def test_the_table_lists_every_old_option():
    known = {(command, *pair) for command, pairs in OLD_OPTIONS.items() for pair in pairs.items()}
    assert known == {entry[:3] for entry in OPTIONS}


@pytest.mark.parametrize(("command", "option", "old", "new"), NAMES)
def test_name_with_underscores(command, option, old, new, capsys):
    parse = cli._parser().parse_args
    files = {"fit": ["valid.npz"]}.get(command, [])
    values = [vars(parse([command, *files, option, name, "-o", "out"])) for name in (old, new)]
    assert values[0] == values[1]
    assert capsys.readouterr().err == (
        f"calibrant: '{old}' is now '{new}'; the name with underscores will be removed in the next "
        "release.\n"
    )


def test_an_unknown_name_with_underscores_has_no_new_spelling(tmp_path, capsys):
    """No advice to write a name with hyphens that does not exist either."""
    assert calibrator_name("foo_bar") == "foo_bar"
    assert method_name("foo_bar") == "foo_bar"
    file = tmp_path / "valid.csv"
    file.write_text("p0,p1,label\n0.2,0.8,1\n0.7,0.3,0\n")
    arguments = [str(file), "--calibrator", "foo_bar", "-o", str(tmp_path / "map.json")]
    assert cli.main(["fit", *arguments]) == 2
    printed = capsys.readouterr().err
    assert "is now" not in printed
    assert "foo_bar" in printed


def test_an_empty_argument_is_shown(capsys):
    with pytest.raises(SystemExit):
        cli.main(["predict", "RUN", "TEXT", ""])
    assert "unknown: '' (an empty argument);" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"), [("error", "error_rate"), ("debiased_ece", "debiased_rms_ece")]
)
def test_old_name_of_a_metric(old, new, capsys):
    assert metric_name(old) == new
    assert f"the metric '{old}' is now '{new}'" in capsys.readouterr().err
    assert metric_name(new) == new
    assert not capsys.readouterr().err
    records = [Record(Recipe(seed=s), {"identity": {"test": {new: 0.1}}}, {}, {}) for s in (0, 1)]
    with pytest.warns(FutureWarning, match=f"The metric '{old}' is now '{new}'"):
        assert build_study(records, metrics=[old]).metrics == (new,)


def test_an_old_command_still_runs(tmp_path, capsys):
    p = calibrant.Predictions.from_logits(
        [[1.0, 0.0], [0.0, 1.0]] * 50, [0, 1, 1, 0, 0, 1] * 16 + [0] * 4
    )
    p.write(tmp_path / "valid.npz")
    code = cli.main(
        [
            "fit",
            str(tmp_path / "valid.npz"),
            "--method",
            "histogram_top_label",
            "-o",
            str(tmp_path / "m.json"),
        ]
    )
    found = capsys.readouterr()
    assert code == 0, found.err
    assert found.out.startswith("histogram-top-label, fitted on 100 examples")
    assert found.err.count("next release") == 2


def test_methods_have_one_name_in_both_spellings():
    assert type(create("head-noise")) is type(create("head_noise")) is calibrant.HeadNoise
    assert Recipe(method="head-noise") == Recipe(method="head_noise")
    assert Recipe(method="head-noise").key == Recipe(method="head_noise").key
    for name in METHODS:
        assert method_name(name.replace("_", "-")) == name
    assert not any("_" in name for name in calibrant.calibrators.CALIBRATORS)
    with pytest.raises(calibrant.InputError, match=r"'head-nois'. Did you mean 'head-noise'\?"):
        create("head_nois")


@pytest.mark.parametrize(("call", "old", "new"), ARGUMENTS)
def test_old_argument(call, old, new):
    name = call.__name__
    expected = rf"^{name}\({old}=…\) is now {name}\({new}=…\); "
    scores = np.random.default_rng(0).normal(size=(200, 2))
    labels = np.arange(200) % 2
    p = calibrant.Predictions.from_logits(scores, labels)
    platt = calibrant.Platt().fit(p)
    calls = {
        "CalibratedClassifier": lambda: call(**{old: "platt"}).fit(scores, labels),
        "audit": lambda: call(p, **{old: None}, bootstrap=50),
        "watch": lambda: call(p, **{old: None}),
        "adapt": lambda: call(platt, p[:100], p[100:], **{old: None}, bootstrap=50),
        "guarantee": lambda: call(p, target_risk=0.9, **{old: None}),
        "compare": lambda: call(p[:100], p[100:], **{old: ["platt"]}, bootstrap=100),
    }
    with pytest.warns(FutureWarning, match=expected) as caught:
        calls[name]()
    assert caught[0].filename == __file__


def test_old_order_of_write_report(tmp_path):
    p = calibrant.Predictions.from_logits([[1.0, 0.0]] * 9, [0] * 9)
    found = calibrant.audit(p, bootstrap=0)
    new = calibrant.write_report(found, tmp_path / "new.html").read_bytes()
    with pytest.warns(FutureWarning, match=r"^write_report\(path, audits\) is now") as caught:
        assert calibrant.write_report(tmp_path / "old.html", found).read_bytes() == new
    assert caught[0].filename == __file__


def test_old_method_of_a_calibrator():
    with pytest.warns(
        FutureWarning, match=r"^Calibrator.hyperparameters is now Calibrator.get_params"
    ):
        assert calibrant.Temperature().hyperparameters() == {}


def test_an_unknown_name_is_an_attribute_error():
    for module in (calibrant, calibrant.calibrators, calibrant.metrics):
        with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
            _ = module.nothing


def test_the_function_outlives_an_import_of_the_old_module():
    code = """
import calibrant
p = calibrant.Predictions.from_logits([[1.0, 0.0]] * 9, [0] * 9)
first = calibrant.audit(p, bootstrap=0)
import calibrant.audit
assert calibrant.audit(p, bootstrap=0).verdict == first.verdict
from calibrant import audit
assert audit(p, bootstrap=0).verdict == first.verdict
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_the_top_level_is_imported_on_first_use():
    code = "import sys, calibrant; print(*sorted(m for m in sys.modules if 'calibrant' in m))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert loaded.stdout.split() == ["calibrant"]

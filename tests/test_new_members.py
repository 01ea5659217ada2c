"""A new metric, calibrator or method is its file and one row: a toy of each reaches every place.

The files that a new member needs in ``src``: a metric 2 (its function, its row in
``metrics/table.py``), a calibrator 2 (its class, its row in ``calibrators/__init__.py``), a method
2 (its class, its row in ``methods/__init__.py``). Each needs its tests too: a metric the plain-loop
twin that ``tests/metrics/test_twins.py`` asks for.
"""

import ast
import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant import Predictions, audit, compare
from calibrant.calibrators import CALIBRATORS, Calibrator, CalibratorEntry, load_calibrator
from calibrant.calibrators.base import Fit
from calibrant.cli import main
from calibrant.files import write
from calibrant.methods import METHODS, MethodEntry, create
from calibrant.metrics import METRICS, Metric, accuracy, bootstrap_interval, measure
from calibrant.predictions import softmax
from calibrant.report import render_report
from calibrant.study.measures import StudyMeasure

SOURCE, TESTS = Path(calibrant.__file__).parent, Path(__file__).parent


def predictions(seed=0, n=400):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, n)
    return Predictions.from_logits(4 * random.normal(size=(n, 3)) + np.eye(3)[labels], labels)


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "valid.npz", tmp_path / "test.npz"]
    for seed, path in enumerate(paths):
        write(predictions(seed), path)
    return [str(path) for path in paths]


def printed(capsys, *arguments):
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def document(capsys, *arguments):
    return json.loads(printed(capsys, *arguments, "--json"))


def members_tested(monkeypatch, path):
    """The texts that the tests of a file are run for, when it is read now."""
    monkeypatch.syspath_prepend(str((TESTS / path).parent))
    spec = importlib.util.spec_from_file_location("tests_of_members", TESTS / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    marks = [m for value in vars(module).values() for m in getattr(value, "pytestmark", ())]
    lists = [mark.args[1] for mark in marks if mark.name == "parametrize"]
    return module, {value for values in lists for value in values if isinstance(value, str)}


def toy_error(source):
    """Half of the error rate."""
    return (1 - accuracy(source)) / 2


@pytest.fixture
def toy_metric(monkeypatch):
    row = Metric(
        "toy_error", "Error of a toy", "toy", toy_error, ("state",),
        lambda value: f"Half of the answers that are wrong: {value:.3f}.",
        digits=2, spread="proportion", compared=True, former=("old_toy",),
    )  # fmt: skip
    monkeypatch.setitem(METRICS, "toy_error", row)
    return row


class TestMetric:
    def test_python(self, toy_metric):
        p = predictions()
        assert measure(p)["toy_error"] == toy_error(p)
        low, high = bootstrap_interval(toy_error, p, replicates=100)
        assert 0 <= low < toy_error(p) < high <= 1

    def test_audit_json_and_report(self, toy_metric, files, capsys):
        found = audit(predictions(1), bootstrap=100)
        (of_toy,) = [m for m in found.measures if m.name == "toy_error"]
        assert of_toy.value == toy_error(predictions(1))
        assert of_toy.low < of_toy.value < of_toy.high
        assert of_toy.meaning == toy_metric.explain(of_toy.value)
        content = document(capsys, "audit", files[1], "--bootstrap", "100")
        assert content["audit"]["measures"]["toy_error"]["value"] == of_toy.value
        assert content["audit"]["measures"]["old_toy"]["value"] == of_toy.value
        assert "Error of a toy" in printed(capsys, "audit", files[1], "--bootstrap", "0")
        page = render_report({"before": found, "after": audit(predictions(2), bootstrap=0)})
        assert "Error of a toy" in page
        assert toy_metric.explain(toy_error(predictions(2))) in page

    def test_compare(self, toy_metric, files, capsys):
        options = ("--calibrators", "temperature", "--bootstrap", "100")
        rows = document(capsys, "compare", *files, *options)["calibrators"]
        assert [row["toy_error"] for row in rows] == [toy_error(predictions(1))] * 2
        assert " toy " in printed(capsys, "compare", *files, *options).splitlines()[2]

    def test_list(self, toy_metric, capsys):
        (row,) = [r for r in document(capsys, "list", "metrics")["rows"] if "toy" in r["name"]]
        assert row["about"].startswith("Error of a toy")

    def test_study_and_older_records(self, toy_metric):
        from calibrant.experiments.record_checks import checked_results

        column = StudyMeasure("toy_error")
        assert (column.title, column.digits, column.sign) == ("toy", 2, -1)
        older = checked_results({"identity": {"test": {"old_toy": 0.5}}})
        assert older == {"identity": {"test": {"toy_error": 0.5}}}

    @pytest.mark.parametrize("path", ["metrics/test_twins.py"])
    def test_it_is_tested_and_needs_a_twin(self, toy_metric, monkeypatch, path):
        module, members = members_tested(monkeypatch, path)
        assert "toy_error" in members
        with pytest.raises(AssertionError, match="needs a plain-loop twin of 'toy_error'"):
            module.twin_of("toy_error")


class Toy(Calibrator):
    """Half of all logits."""

    name = "toy"
    keeps_argmax = True

    def _fit(self, predictions):
        return Fit({"factor_": 0.5})

    def _apply(self, scores, values):
        return scores * values["factor_"]


@pytest.fixture
def toy_calibrator(monkeypatch):
    monkeypatch.setitem(CALIBRATORS, "toy", CalibratorEntry(Toy, "one half", "A toy 2026"))


@pytest.mark.usefixtures("toy_calibrator")
class TestCalibrator:
    def test_fit_apply_and_audit(self, files, tmp_path, capsys):
        path, mapped = str(tmp_path / "toy.json"), str(tmp_path / "mapped.npz")
        printed(capsys, "fit", files[0], "--calibrator", "toy", "-o", path)
        printed(capsys, "apply", path, files[1], "-o", mapped)
        expected = predictions(1).scores / 2
        np.testing.assert_allclose(calibrant.read(mapped).scores, softmax(expected))
        loaded = load_calibrator(path).transform(predictions(1))
        np.testing.assert_allclose(loaded.scores, expected)
        shown = document(capsys, "audit", files[1], "--calibrator", path, "--bootstrap", "0")
        assert shown["calibrator"] == "toy"

    def test_compare_and_list(self, files, capsys):
        found = compare(predictions(0), predictions(1), bootstrap=100, folds=2)
        assert found["toy"].nll < found["identity"].nll
        assert "one half" in printed(capsys, "list", "calibrators")

    def test_it_is_tested(self, monkeypatch):
        assert "toy" in members_tested(monkeypatch, "calibrators/test_contract.py")[1]


@pytest.fixture
def toy_method(monkeypatch):
    pytest.importorskip("torch")
    from calibrant.losses import cross_entropy
    from calibrant.methods import ExampleLoss

    class ToyLoss(ExampleLoss):
        def total(self, logits, labels):
            return 2 * cross_entropy(logits, labels, reduction="sum")

    module = types.ModuleType("calibrant.methods.toy")
    module.ToyLoss = ToyLoss
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = MethodEntry("toy:ToyLoss", "twice the loss", "A toy 2026")
    monkeypatch.setitem(METHODS, "toy", entry)
    return ToyLoss


class TestMethod:
    def test_create_list_and_recipe(self, toy_method, capsys):
        from calibrant.experiments.recipe import Recipe

        assert isinstance(create("toy"), toy_method)
        assert "twice the loss" in printed(capsys, "list", "methods")
        assert Recipe.from_dict({"method": "toy"}).method == "toy"

    def test_it_is_tested(self, toy_method, monkeypatch):
        assert "toy" in members_tested(monkeypatch, "methods/test_contract.py")[1]


def words(path):
    """The names and texts in the code of a file, docstrings left out."""
    tree, names = ast.parse(path.read_text("utf-8")), set()
    bodies = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, bodies) and ast.get_docstring(node) is not None
    }
    for node in ast.walk(tree):
        names |= {getattr(node, field, None) for field in ("id", "attr", "name")}
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            names.add(node.value if isinstance(node.value, str) else None)
    return names


@pytest.mark.parametrize(
    ("names", "most"),
    [
        (("ks_error",), 2),
        (("augrc",), 2),
        (("debiased_rms_ece",), 2),
        (("ece_without_o",), 1),  # A function of another row, of another source.
        (("bbq", "BBQ"), 2),
        (("quadratic", "Quadratic"), 2),
        (("feature_mixup", "FeatureMixup"), 2),
        (("mdca", "Mdca"), 4),  # With its loss as a separate function, and the list of losses.
    ],
)
def test_how_many_files_name_a_member(names, most):
    mentioning = [p for p in SOURCE.rglob("*.py") if any(name in p.read_text() for name in names)]
    found = [str(path.relative_to(SOURCE)) for path in mentioning if words(path) & set(names)]
    assert len(found) <= most, found
